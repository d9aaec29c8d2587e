"""Projections of declared sets on a plane, by their support functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.evidence.support import SupportFunction
from ucm.language import cvx as cp
from ucm.language.contracts import UncertaintySet
from ucm.language.parameter import Numbers
from ucm.solvers.programs import accuracy, attempt


@dataclass(frozen=True)
class Frame:
    """The square `|z - middle|_inf <= half` of the plane."""

    middle: Vec
    half: float

    @classmethod
    def around(cls, *clouds: Any, room: float = 1.12) -> Frame:
        """Return the square around clouds of points; `room` is its side, as a multiple of their range."""
        points = np.vstack([c for c in clouds if len(c)])
        low, high = points.min(axis=0), points.max(axis=0)
        half = 0.5 * room * float((high - low).max())
        return cls(0.5 * (low + high), half if half > 0.0 else 1.0)


@dataclass
class Projection:
    """The projection `{P x : x in U}` of a declared set on a plane, by its support function.

    Attributes
    ----------
    U : the set
    data : bound samples
    P : (2, n) orthonormal rows
    frame : None, or the square that bounds an unbounded projection
    evaluations : of the support function
    """

    U: UncertaintySet
    data: Data
    P: Any
    frame: Frame | None = None
    evaluations: int = 0
    _program: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._heights = SupportFunction(self.U, self.data)

    def __call__(self, e: Vec) -> tuple[float, Vec]:
        """Return `max <e, z>` over the projection and a maximiser; (inf, nan) if it is unbounded."""
        self.evaluations += 1
        if self.frame is not None:
            x = self._in_frame(self.P.T @ e, self.frame)
        else:
            x = self._heights(self.P.T @ e).point
        if x is None or not np.all(np.isfinite(x)):
            return np.inf, np.full(2, np.nan)
        z = self.P @ x
        return float(e @ z), z

    def within(self, frame: Frame) -> Projection:
        """Return the part of the projection in a square."""
        return Projection(self.U, self.data, self.P, frame)

    def _in_frame(self, d: Vec, frame: Frame) -> Vec | None:
        """Return a point of U in the frame that maximises `<d, x>`; a conic program with the parameter d."""
        if self._program is None:
            self._program = self._build_program(frame)
        problem, g, z = self._program
        g.value = d
        failure = attempt(problem, cp.CLARABEL, **accuracy("CLARABEL", 1e-9))
        if failure or z.value is None:
            raise SolverError(
                f"{self.U!r}: the conic program of its support function ended with "
                f"{failure or problem.status}; scale the features"
            )
        return self.data.scale * np.asarray(z.value, dtype=np.float64)

    def _build_program(self, frame: Frame) -> tuple[Any, Any, Any]:
        scale = self.data.scale
        x, constraints = self.U.cvxpy(self.data, Numbers())
        z = cp.Variable(x.shape[0])
        near = cp.abs(self.P @ z - frame.middle / scale) <= frame.half / scale
        g = cp.Parameter(x.shape[0])
        return cp.Problem(cp.Maximize(g @ z), [*constraints, z == x / scale, near]), g, z
