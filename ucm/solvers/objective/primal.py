"""Accelerated proximal gradient on the primal, for smooth losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, Session, Tilt
from ucm.solvers.accelerated import Iterate, Smooth, State, Watched, inner
from ucm.solvers.objective.rest import instead, sparse_enough

__all__ = ["PrimalAPG"]

_PATIENCE = 5_000  # iterations in which the gap is not halved
_LONG = 10_000  # iterations before it is
_STUCK = 3  # steps in a row that rounding hides
_HIDDEN = 100  # of them in all


@dataclass(frozen=True)
class PrimalAPG(InnerSolver):
    """`(w, b) <- prox(w - grad_w / L), b - grad_b / L_b` with momentum, backtracking and restarts.

    The bias has a step of its own: features are not centred, and a common step would be that of the
    worse conditioned one. The slopes of the loss are the dual point of the gap.

    Parameters
    ----------
    max_iter
        Limit of iterations.
    rest
        A solver for problems of moderate size that the steps leave, as where a penalty is small beside
        its losses.

    Notes
    -----
    Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm; O'Donoghue and
    Candes (2015) for the restart.
    """

    max_iter: int = 50_000
    rest: InnerSolver | None = None
    name: ClassVar[str] = "apg-primal"

    def __post_init__(self) -> None:
        check_fields(self, max_iter=COUNT, rest=optional(INNER))

    def refuse(self, form: Composite) -> str | None:
        rough = [loss for loss in form.losses if not loss.smooth()]
        if rough:
            return f"{rough[0]!r} has no Lipschitz gradient"
        if not form.penalty.proximal():
            return "the sum of the penalties has no proximal map"
        return None

    def predicted_passes(self, form: Composite) -> float:
        return 1000.0

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Gradient(form, monitor, self)


_OVERFLOW = "the squares of the features overflow; scale the features"


class _Tilted(Smooth):
    """The losses less their tilts, at the margins `y (X w + b)`, for the one block `(w, b / unit)`."""

    rounding = 1e-14

    def __init__(self, form: Composite, tilt: Tilt, unit: float, monitor: Monitor) -> None:
        self.form, self.tilt, self.unit, self.monitor = form, tilt, unit, monitor

    def value(self, at: Iterate) -> float:
        linear = float(self.tilt.margin @ at.image) + float(self.tilt.normal @ at.z[0][:-1])
        return self.form.loss(at.image) - linear

    def gradient(self, at: Iterate) -> list[Vec]:
        beta = self.form.gradient(at.image) + self.tilt.margin
        self.monitor.passes += 0.5
        bias = self.unit * float(self.form.y @ beta)
        return [-np.concatenate([self.form.pull(beta) + self.tilt.normal, [bias]])]

    def prox(self, at: Iterate, gradient: list[Vec], L: float) -> list[Vec]:
        z = at.z[0] - gradient[0] / L
        z[:-1] = self.form.penalty.prox(z[:-1], 1.0 / L)
        return [z]

    def iterate(self, z: list[Vec]) -> Iterate:
        self.monitor.passes += 0.5
        return Iterate(z, self.form.margins(z[0][:-1], z[0][-1] * self.unit))

    def gap(self, at: Iterate) -> tuple[float, float, float]:
        """The objective, the relative gap from the slopes of the losses, and by how much these miss the
        constraints: half a pass."""
        w = at.z[0][:-1]
        value = self.form.value(at.image, w, self.tilt)
        slopes = self.form.gradient(at.image)
        bound, violation = self.form.lower_bound(slopes, at.image, self.tilt, w)
        return value, (value - bound) / max(abs(value), 1e-300), violation


class _Gradient(Session):
    """The iterate, and the reciprocal step L."""

    def __init__(self, form: Composite, monitor: Monitor, options: PrimalAPG) -> None:
        self.monitor, self.options = monitor, options
        self.other: Session | None = None  # that goes on where the steps have stalled
        self.w, self.b = np.zeros(form.n), 0.0
        X = form.X
        with np.errstate(over="ignore"):
            squares = X.multiply(X).sum() if sparse.issparse(X) else (X * X).sum()
        # the bias in units in which its column is as long as the mean feature's, if that is not 0
        self.unit = math.sqrt(float(squares) / form.n / form.m) or 1.0
        self.L = form.m * self.unit**2

    def place(self, w: Vec, b: float) -> None:
        self.w, self.b = w.copy(), b

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        if self.other is not None:
            return self.other.solve(form, tilt, tol)
        limit = until = self.monitor.limit(self.options.max_iter)
        rest = self.options.rest if sparse_enough(self.options.rest, form) else None
        if rest is not None:
            until = min(limit, _LONG)
        if not math.isfinite(self.L):
            return Answer(w=self.w, b=self.b).ended("stalled", _OVERFLOW)
        objective, gap = _Tilted(form, tilt, self.unit, self.monitor), math.inf
        traced, asked = self.whole and self.monitor.trace > 0, False
        f = Watched(objective) if traced else objective
        best, since, stuck, hidden = math.inf, 0, 0, 0
        begin = np.concatenate([self.w, [self.b / self.unit]])
        state = State(Iterate([begin], form.margins(self.w, self.b)), self.L)
        k = 0
        for k in range(1, until + 1):
            state.L *= 0.95
            state.step(f, 1.5)
            late = self.monitor.late
            if not math.isfinite(state.L):
                return Answer(w=self.w, b=self.b).ended("stalled", _OVERFLOW)
            if k % 10 == 0 or k < 3 or late:
                _, gap, violation = objective.gap(state.new)
                self.monitor.passes += 0.5
                if late or (gap <= 0.3 * tol and violation <= tol):
                    break
                best, since = (gap, k) if gap < 0.5 * best else (best, since)
            stuck, hidden = (stuck + 1, hidden + 1) if state.stuck else (0, hidden)
            if k - since > _PATIENCE or stuck > _STUCK or hidden > _HIDDEN:
                break
            if traced and self.monitor.due(k):
                asked = self._tell(k, objective, f, state)
                if asked:
                    break
            if state.stuck:
                state.restart(state.z)
            elif inner(state.d, state.new.minus(state.z)) < 0.0:  # uphill
                state.restart(state.new)
            else:
                state.accelerate()
        if traced:
            self._tell(k, objective, f, state)
        elif self.whole:
            self.monitor.iterations = k
        z, self.L = state.new.z[0], state.L
        self.w, self.b = z[:-1].copy(), float(z[-1] * self.unit)
        answer = Answer(w=self.w, b=self.b, slopes=form.gradient(state.new.image))
        if gap > 0.3 * tol and (asked or self.monitor.late):
            return answer.interrupted()
        if gap > 0.3 * tol and k < limit:
            found = instead(rest, form, tilt, tol, self.monitor, (self.w, self.b))
            if found is not None:
                self.other, answer = found
                return answer
        if gap > 0.3 * tol:
            answer.status = "max_iter"
            why = "raise max_iter" if k == limit else "it falls no more; scale the features"
            answer.message = f"{k} iterations left a relative gap of {gap:.2g}; {why}"
        return answer

    def _tell(self, k: int, objective: _Tilted, f: Smooth, state: State) -> bool:
        """Report the step made; whether the callback asks to stop."""
        value, gap, _ = objective.gap(state.new)
        z = state.new.z[0]

        def more() -> dict[str, Any]:
            return {"w": z[:-1].copy(), "b": float(z[-1] * self.unit), **state.told(f)}

        return self.monitor.report(k, value, gap, more)
