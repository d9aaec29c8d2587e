"""Support functions of declared sets over bound samples, with error bounds."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import DataError, EmptySetError, SolverError, brief
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.sets.combination import is_number, times
from ucm.numerics.conic_programs import Blocks, accuracy, attempt

_ACCURACY = 1e-10  # of Clarabel, first; then its own


class SupportValue(NamedTuple):
    """The value of a support function in one direction, with a maximiser and its error.

    value : an upper bound of `max <d, x>` over the set; inf if the set is unbounded in the direction
    point : a point of the set; None if the value is inf
    error : `value - <d, point>`, so that the maximum lies in `[value - error, value]`
    """

    value: float
    point: Vec | None
    error: float


class SupportFunction:
    """The support function of a declared set over bound samples, with the summands of a sum.

    A set without a maximiser in closed form, such as an intersection, is solved by one conic program, built
    once. Its multipliers split the direction among the operands, which proves the bound.
    """

    def __init__(self, U: UncertaintySet, data: Data) -> None:
        self.U, self.data = U, data
        self.summands = [(L, SupportFunction(V, data)) for V, L in U.terms()]

    def __call__(self, d: Vec) -> SupportValue:
        """Return the support function `max <d, x>` at d, with a maximiser and its error."""
        height, x = self.U.support(self.data, d, {})
        if x is not None:
            return SupportValue(height, x if np.isfinite(height) else None, 0.0)
        return self._of_sum(d) if self.summands else self._solved(d)

    def _of_sum(self, d: Vec) -> SupportValue:
        values = [heights(times(L if is_number(L) else L.T, d)) for L, heights in self.summands]
        points = [times(L, v.point) for (L, _), v in zip(self.summands, values) if v.point is not None]
        height = sum(v.value for v in values)
        if len(points) < len(values):
            return SupportValue(height, None, 0.0)
        return SupportValue(height, np.sum(points, axis=0), sum(v.error for v in values))

    @functools.cached_property
    def _program(self) -> tuple[MinNorm, Blocks, cp.Parameter, cp.Problem]:
        """The conic program `max <g, x>` over the lowered set with its form, blocks and parameter g."""
        form = MinNorm.of(self.U.lower(self.data), 2.0, self.data.stored, self.data.space)
        blocks, g = Blocks(form), cp.Parameter(form.n)
        z = cp.multiply(1.0 / blocks.sizes, blocks.x)
        return form, blocks, g, cp.Problem(cp.Maximize(g @ z), blocks.constraints)

    def _solved(self, d: Vec) -> SupportValue:
        form, blocks, parameter, problem = self._program
        g = blocks.sizes * d
        unit = float(np.abs(g).max(initial=0.0)) or 1.0
        parameter.value = g / unit
        failure = ""
        for options in (accuracy("CLARABEL", _ACCURACY), {}):
            failure = attempt(problem, "CLARABEL", Monitor(), **options)  # no bound without it
            if not failure and not str(problem.status).endswith("inaccurate"):
                break
        status = str(problem.status)
        if status.startswith("unbounded"):
            return SupportValue(np.inf, None, 0.0)
        if status.startswith("infeasible"):
            raise EmptySetError(
                f"{self.U!r}: expected a point of every operand, got an empty set; enlarge one of them"
            )
        if failure or blocks.q[0].value is None:
            raise SolverError(
                f"{self.U!r}: the conic program of its support function ended with "
                f"{failure or status}; scale the features"
            )
        x, _ = self.U.evaluate(self.data, iter(blocks.point()))
        bounds = [self.U.support(self.data, d, {})[0]]
        for sign in (1.0, -1.0):  # a wrong split is a bound too, if a bad one
            multipliers = blocks.multipliers(sign * unit)
            splits = {c.path: mu for c, mu in zip(form.couplings, multipliers, strict=True)}
            bounds.append(self.U.support(self.data, d, splits)[0])
        top = min(bounds)
        return SupportValue(top, x, max(top - float(d @ x), 0.0))


def vector_of(v: object, size: int | None, name: str) -> Vec:
    """Return v as a float64 vector; `DataError` unless finite and of the given size, if there is one."""
    try:
        vector = np.asarray(v, dtype=np.float64)
    except (TypeError, ValueError):
        vector = np.empty((0, 0))
    right = vector.ndim == 1 and size in (None, vector.size)
    if not right or not np.isfinite(vector).all() or np.ma.is_masked(v):
        count = "" if size is None else f"{size} "
        raise DataError(
            f"{name}: expected a vector of {count}finite numbers, got {brief(v)}; give one for each entry"
        )
    return vector
