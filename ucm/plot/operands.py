"""The sets that a picture of U shows beside U: the set of each class, operands, the worst case."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ucm.compiler.recover import class_points
from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.forms.solution import Solution
from ucm.language.contracts import UncertaintySet
from ucm.language.sets.combination import summands
from ucm.language.sets.hull import Hull
from ucm.language.sets.intersection import Intersection
from ucm.language.sets.union import ConvexUnion
from ucm.language.statistics.samples import kinds_of, signed
from ucm.plot.outline import Frame, Outline, Projection, outline, projection_outline

_SIGN = {"pos": 1, "neg": -1}


def has_matrix(U: UncertaintySet) -> bool:
    """True if a summand of U is an image under a matrix."""
    return any(math.isnan(c) for _, c in summands(U))


def class_sets(U: UncertaintySet) -> dict[int, UncertaintySet]:
    """Return the sets U+ and U- with U = U+ - U-, up to summands without samples.

    Returns
    -------
    {+1 | -1: set}, empty if a summand takes the samples of both classes.
    """
    terms: dict[int, list[UncertaintySet]] = {1: [], -1: []}
    for V, c in summands(U):
        kinds = kinds_of(V)
        if len(kinds) > 1 or kinds == {"signed"}:
            return {}
        for kind in kinds:
            sign = _SIGN[kind]
            terms[sign].append(V if sign * c == 1.0 else float(sign * c) * V)
    return {sign: reduce(add, sets) for sign, sets in terms.items()} if all(terms.values()) else {}


def _operands(U: UncertaintySet) -> list[UncertaintySet]:
    if isinstance(U, Intersection):
        return _operands(U.left) + _operands(U.right)
    if isinstance(U, ConvexUnion):
        return [A for V in U.sets for A in _operands(V)]
    return [U]


def operand_outlines(V: UncertaintySet, data: Data, P: Any, frame: Frame, rtol: float) -> list[Outline]:
    """Return the outlines of the operands of an intersection or a union; none of another set."""
    if not isinstance(V, Intersection | ConvexUnion):
        return []
    return [projection_outline(Projection(A, data, P), frame, rtol=rtol) for A in _operands(V)]


def joint_means(U: UncertaintySet, data: Data, P: Any, rtol: float) -> dict[int, Outline]:
    """Return the sets of class means over the weights of `Hull(signed)`, of mass 1/2 each."""
    if not isinstance(U, Hull) or U.samples != signed:
        return {}
    space, outlines = U.bound_space(data), {}
    if len(space.pieces) > 1:
        return {}
    for sign in (1, -1):
        rows = np.flatnonzero(data.y == sign)
        points = np.asarray(data.X[rows] @ P.T)

        def support(e: Vec, rows: Any = rows, points: Any = points) -> tuple[float, Vec]:
            g = np.zeros(data.m)
            g[rows] = 2.0 * points @ e
            height, q = space.support(g, {})
            if q is None:
                raise RuntimeError("one domain knows its maximiser")
            return height, 2.0 * points.T @ q[rows]

        shape = outline(support, rtol=rtol)
        if shape is not None:
            outlines[sign] = shape
    return outlines


def class_extremes(U: UncertaintySet, data: Data, solution: Solution) -> dict[int, Vec]:
    """Return x+ and x-: the summands of the nearest point, or the means under the worst-case weights."""
    answer, weights = solution.answer, solution.weights
    if answer is not None and answer.q:
        pair = class_points(U, data, answer.q)
        if pair is not None:
            return {1: pair[0], -1: pair[1]}
    if weights is None or not isinstance(U, Hull) or U.samples != signed:
        return {}
    if not all(weights[data.y == sign].sum() > 0.0 for sign in (1, -1)):
        return {}
    return {
        sign: np.asarray(data.X[data.y == sign].T @ q).ravel() / q.sum()
        for sign in (1, -1)
        for q in (weights[data.y == sign],)
    }
