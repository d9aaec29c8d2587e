"""Intersections of sets in feature space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec, zero_map
from ucm.language import cvx as cp
from ucm.language.contracts import Coupling, LoweredSet, Scope, Splits, UncertaintySet, round_violation
from ucm.language.node import Notation, RotationInvariant, in_parentheses
from ucm.language.sets.affine_image import reindexed, subpaths

_ROUNDING = 1e-15  # of the size of the operands: a distance along a feature


class Intersection(UncertaintySet, RotationInvariant):
    """The intersection of two sets, written `A & B`.

    It lowers to the blocks of both operands, of which only A's carry the image, and the coupling
    `c_A + sum A_k q_k = c_B + sum B_k p_k`.

    Examples
    --------
    >>> import ucm
    >>> ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, 1) & ucm.Hull(ucm.pos)
    Ellipsoid(pos.mean, pos.cov, 1) & Hull(pos)
    """

    left: UncertaintySet
    right: UncertaintySet

    def infeasibility_reason(self, data: Data) -> str | None:
        return self.left.infeasibility_reason(data) or self.right.infeasibility_reason(data)

    def lower(self, data: Data) -> LoweredSet:
        left, right = self.left.lower(data), self.right.lower(data)
        shift = len(left.blocks)
        silent = tuple(replace(b, map=zero_map(*b.map.shape)) for b in right.blocks)
        if any(b.carries for b in left.blocks):  # one set of weights is enough
            silent = tuple(replace(b, samples=None, parts=()) for b in silent)
        terms = [(k, b.map) for k, b in enumerate(left.blocks)]
        terms += [(k + shift, b.map.scaled(-1.0)) for k, b in enumerate(right.blocks)]
        meet = Coupling((), tuple(terms), left.center - right.center)
        couplings = reindexed(left.couplings, "left") + reindexed(right.couplings, "right", shift)
        return LoweredSet(left.center, left.blocks + silent, (*couplings, meet))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        # a and b should be one point; the answer is a, so that their full distance is its violation
        a, violation_a = self.left.evaluate(data, q)
        b, violation_b = self.right.evaluate(data, q)
        return a, max(violation_a, violation_b, self._apart(data, a, b))

    def _apart(self, data: Data, a: Vec, b: Vec) -> float:
        """Return the distance of a point of each operand, relative to their size and to that of each feature.

        Near 0, where the points are small beside the operands, the size is that of the operands along a - b.
        """
        norm = data.space.norm
        distance, size = norm(a - b), max(norm(a), norm(b))
        if distance > 1e-9 * size:
            u = (a - b) / distance
            ends = [s.support(data, e * u, {})[0] for s in (self.left, self.right) for e in (1, -1)]
            reach = max((abs(h) for h in ends if np.isfinite(h)), default=0.0)
            size = reach if size <= 1e-6 * reach else size
        if data.gram is not None or a.size != data.n:  # coordinates, which have no features
            return distance / size if distance > 0.0 else 0.0
        # the rounding of the sums of samples, which cancel, is no distance
        beyond = np.maximum(np.abs(a - b) - _ROUNDING * np.maximum(size, data.sizes), 0.0)
        apart = norm(beyond) / (size or 1.0)
        each = float(np.max(beyond / data.sizes, initial=0.0))
        # a small feature alone makes an answer inaccurate (1e-2), but not wrong
        return round_violation(max(apart, min(each, 1e-2)))

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        a, constraints = self.left.cvxpy(data, scope)
        b, more = self.right.cvxpy(data, scope)
        unit = scope.unit(data.scale)
        return a, [*constraints, *more, a / unit == b / unit]

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        # sigma(d) <= min(sigma_A(d), sigma_B(d), sigma_A(d - s) + sigma_B(s)) for any s
        at_left, at_right = subpaths(splits, "left"), subpaths(splits, "right")

        def heights(a: Vec, b: Vec) -> tuple[float, float]:
            return self.left.support(data, a, at_left)[0], self.right.support(data, b, at_right)[0]

        bound = min(heights(d, d))
        if () in splits:
            bound = min(bound, sum(heights(d - splits[()], splits[()])))
        return bound, None

    def __repr__(self) -> str:
        return f"{in_parentheses(repr(self.left))} & {in_parentheses(repr(self.right))}"

    def formula(self, notation: Notation) -> str:
        left = in_parentheses(self.left.formula(notation))
        return f"{left}{notation.intersection}{in_parentheses(self.right.formula(notation))}"
