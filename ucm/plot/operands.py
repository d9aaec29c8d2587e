"""The operands of a declared set: each class's own part of it, what an intersection is of, the worst case."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ucm.compiler.recover import class_points
from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.language.contracts import UncertaintySet
from ucm.language.sets.combination import summands
from ucm.language.sets.hull import Hull
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.samples import kinds_of, signed
from ucm.plot.outline import Outline, outline, shadow_outline
from ucm.plot.problem import Problem
from ucm.plot.support import Frame, Shadow

__all__ = ["class_extremes", "class_sets", "joint_means", "parts_of", "without_matrices"]

_SIGN = {"pos": 1.0, "neg": -1.0}


def without_matrices(U: UncertaintySet) -> bool:
    """Whether no matrix stands above a summand."""
    return not any(math.isnan(c) for _, c in summands(U))


def class_sets(U: UncertaintySet) -> dict[int, UncertaintySet]:
    """Each class's own set, U their difference and perhaps a set without samples; empty where some summand
    takes samples of both."""
    found: dict[int, list[UncertaintySet]] = {1: [], -1: []}
    for V, c in summands(U):
        kinds = kinds_of(V)
        if len(kinds) > 1 or kinds == {"signed"}:
            return {}
        for kind in kinds:
            sign = _SIGN[kind]
            factor = sign * c
            found[int(sign)].append(V if factor == 1.0 else factor * V)
    if not all(found.values()):
        return {}
    return {sign: reduce(add, sets) for sign, sets in found.items()}


def _operands(U: UncertaintySet) -> list[UncertaintySet]:
    if isinstance(U, Intersection):
        return _operands(U.left) + _operands(U.right)
    if isinstance(U, ConvexUnion):
        return [A for V in U.sets for A in _operands(V)]
    return [U]


def parts_of(V: UncertaintySet, data: Data, P: Any, frame: Frame, rtol: float) -> list[Outline]:
    """The operands of an intersection or a union."""
    if not isinstance(V, Intersection | ConvexUnion):
        return []
    return [shadow_outline(Shadow(A, data, P), frame, rtol=rtol) for A in _operands(V)]


def joint_means(U: UncertaintySet, data: Data, P: Any, rtol: float) -> dict[int, Outline]:
    """Return the sets of class means over the weights of `Hull(signed)`, of mass 1/2 each."""
    if not isinstance(U, Hull) or U.samples != signed:
        return {}
    space, found = U.bound_space(data), {}
    if len(space.pieces) > 1:
        return {}
    for sign in (1, -1):
        rows = np.flatnonzero(data.y == sign)
        own = data.X[rows]
        flat = np.asarray(own @ P.T)

        def highest(e: Vec, rows: Any = rows, flat: Any = flat) -> tuple[float, Vec]:
            g = np.zeros(data.m)
            g[rows] = 2.0 * flat @ e
            height, q = space.support(g, {})
            if q is None:
                raise RuntimeError("one domain knows its maximiser")
            return height, 2.0 * flat.T @ q[rows]

        shape = outline(highest, rtol=rtol)
        if shape is not None:
            found[sign] = shape
    return found


def class_extremes(U: UncertaintySet, found: Problem) -> dict[int, Vec]:
    """x+ and x-: the summands of the nearest point, or the means under the worst weights."""
    data, solution = found.data, found.solution
    answer = solution.answer
    if answer is not None and answer.q:
        pair = class_points(U, data, answer.q)
        if pair is not None:
            return {1: pair[0], -1: pair[1]}
    if solution.weights is not None and isinstance(U, Hull) and U.samples == signed:
        ends = {}
        for sign in (1, -1):
            rows = np.flatnonzero(data.y == sign)
            q = solution.weights[rows]
            if not q.sum() > 0.0:
                return {}
            ends[sign] = np.asarray(data.X[rows].T @ q).ravel() / q.sum()
        return ends
    return {}
