"""Support functions of declared sets with the points that support, on a plane."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import SolverError
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.node import value
from ucm.language.parameter import Numbers
from ucm.language.sets.combination import Combination, is_number, times
from ucm.solvers.programs import accuracy, attempt

__all__ = ["Frame", "Shadow"]


@dataclass(frozen=True)
class Frame:
    """The square `|z - middle|_inf <= half` of the plane."""

    middle: Vec
    half: float

    @classmethod
    def around(cls, *clouds: Any, room: float = 1.12) -> Frame:
        """The square with the points in it, and a margin."""
        points = np.vstack([c for c in clouds if len(c)])
        low, high = points.min(axis=0), points.max(axis=0)
        half = 0.5 * room * float((high - low).max())
        return cls(0.5 * (low + high), half if half > 0.0 else 1.0)


@dataclass
class Shadow:
    """The shadow `{P x : x in U}` of a declared set, by its support points.

    A sum asks its terms, each in its own way; a set that knows no maximiser, as an intersection, is one
    conic program for every direction, written once.

    Attributes
    ----------
    U : the set
    data : bound samples
    P : (2, n) orthonormal rows
    frame : None, or the square that cuts an unbounded shadow off
    evaluations : how often it was asked
    """

    U: UncertaintySet
    data: Data
    P: Any
    frame: Frame | None = None
    evaluations: int = 0
    _programs: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __call__(self, e: Vec) -> tuple[float, Vec]:
        """`max <e, z>` over the shadow, and a maximiser; (inf, nan) where there is none."""
        self.evaluations += 1
        if self.frame is not None:
            x = self._program(self.U, self.P.T @ e, self.frame)
        else:
            x = self._point(self.U, self.P.T @ e)
        if x is None or not np.all(np.isfinite(x)):
            return np.inf, np.full(2, np.nan)
        z = self.P @ x
        return float(e @ z), z

    def within(self, frame: Frame) -> Shadow:
        """The part of the shadow in a square."""
        return Shadow(self.U, self.data, self.P, frame)

    def _point(self, U: UncertaintySet, d: Vec) -> Vec | None:
        """A point of U furthest along d; None where there is none."""
        if isinstance(U, Combination):
            points = [(L, self._point(V, _across(L, d))) for V, L in U.terms()]
            if any(x is None for _, x in points):
                return None
            return reduce(add, [times(L, x) for L, x in points])
        height, x = U.support(self.data, d, {})
        if not np.isfinite(height):
            return None
        return self._program(U, d, None) if x is None else x

    def _program(self, U: UncertaintySet, d: Vec, frame: Frame | None) -> Vec | None:
        key = (U, frame is None)
        if key not in self._programs:
            self._programs[key] = self._written(U, frame)
        problem, g, z = self._programs[key]
        g.value = d
        failure = attempt(problem, cp.CLARABEL, **accuracy("CLARABEL", 1e-9))
        if problem.status in ("unbounded", "unbounded_inaccurate"):
            return None
        if failure or z.value is None:
            raise SolverError(
                f"{U!r}: the conic program of its support function ended with "
                f"{failure or problem.status}; scale the features"
            )
        return self.data.scale * np.asarray(z.value, dtype=np.float64)

    def _written(self, U: UncertaintySet, frame: Frame | None) -> tuple[Any, Any, Any]:
        scale = self.data.scale
        x, constraints = U.cvxpy(self.data, Numbers())
        z = cp.Variable(x.shape[0])
        constraints = [*constraints, z == x / scale]
        if frame is not None:
            near = cp.abs(self.P @ z - frame.middle / scale) <= frame.half / scale
            constraints.append(near)
        g = cp.Parameter(x.shape[0])
        return cp.Problem(cp.Maximize(g @ z), constraints), g, z


def _across(L: Any, d: Vec) -> Vec:
    """`L' d`."""
    return value(L) * d if is_number(L) else np.asarray(L.T @ d)
