"""Accelerated proximal gradient on the primal, for smooth losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session, Tilt

__all__ = ["PrimalAPG"]


@dataclass(frozen=True)
class PrimalAPG(InnerSolver):
    """`(w, b) <- prox(w - grad_w / L), b - grad_b / L_b` with momentum, backtracking and restarts.

    The bias has a step of its own: features are not centred, and a common step would be that of the
    worse conditioned one. The slopes of the loss are the dual point of the gap.

    Parameters
    ----------
    max_iter : limit of iterations

    Notes
    -----
    Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm; O'Donoghue and
    Candes (2015) for the restart.
    """

    max_iter: int = 50_000
    name: ClassVar[str] = "apg-primal"

    def __post_init__(self) -> None:
        if self.max_iter < 1:
            raise ParameterError(f"PrimalAPG: max_iter is positive, got {self.max_iter}")

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
        return _Gradient(form, monitor, self.max_iter)


class _Gradient(Session):
    """The iterate, and the reciprocal step L."""

    def __init__(self, form: Composite, monitor: Monitor, max_iter: int) -> None:
        self.monitor, self.max_iter = monitor, max_iter
        self.w, self.b = np.zeros(form.n), 0.0
        X = form.X
        squares = X.multiply(X).sum() if sparse.issparse(X) else float((X * X).sum())
        # the bias in units in which its column is as long as the mean feature's
        self.unit = math.sqrt(max(float(squares) / form.n / form.m, 1e-300))
        self.L = float(squares) / form.n

    def place(self, w: Vec, b: float) -> None:
        self.w, self.b = w.copy(), b

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        limit = self.monitor.limit(self.max_iter)
        x = np.concatenate([self.w, [self.b / self.unit]])
        tx = form.margins(self.w, self.b)
        p, tp, theta = x, tx, 1.0
        gap = math.inf
        new, t = x, tx
        for k in range(1, limit + 1):
            gradient, f = self._smooth(form, tilt, p, tp)
            self.L *= 0.95
            while True:
                new = p - gradient / self.L
                new[:-1] = form.penalty.prox(new[:-1], 1.0 / self.L)
                t = form.margins(new[:-1], new[-1] * self.unit)
                self.monitor.passes += 0.5
                step = new - p
                model = f + float(gradient @ step) + 0.5 * self.L * float(step @ step)
                after = self._height(form, tilt, new, t)
                if after <= model + 1e-14 * abs(f):
                    break
                self.L *= 1.5
            if k % 10 == 0 or k < 3:
                value = form.value(t, new[:-1], tilt)
                bound, violation = form.lower_bound(form.gradient(t), t, tilt)
                self.monitor.passes += 0.5
                gap = (value - bound) / max(abs(value), 1e-300)
                if gap <= 0.3 * tol and violation <= tol:
                    break
            uphill = float((p - new) @ (new - x)) > 0.0
            if uphill:
                theta, p, tp = 1.0, new, t
            else:
                after_theta = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * theta * theta))
                beta = (theta - 1.0) / after_theta
                p, tp, theta = new + beta * (new - x), t + beta * (t - tx), after_theta
            x, tx = new, t
        self.w, self.b = new[:-1].copy(), float(new[-1] * self.unit)
        answer = Answer(w=self.w, b=self.b, slopes=form.gradient(t))
        if gap > 0.3 * tol:
            answer.status = "max_iter"
            answer.message = f"{limit} iterations left a relative gap of {gap:.2g}; raise max_iter"
        return answer

    def _smooth(self, form: Composite, tilt: Tilt, p: Vec, t: Vec) -> tuple[Vec, float]:
        """The gradient of the losses and the tilts at p, and their value."""
        beta = form.gradient(t) + tilt.margin
        self.monitor.passes += 0.5
        bias = self.unit * float(form.y @ beta)
        return -np.concatenate([form.pull(beta) + tilt.normal, [bias]]), self._height(
            form, tilt, p, t
        )

    def _height(self, form: Composite, tilt: Tilt, p: Vec, t: Vec) -> float:
        return form.loss(t) - float(tilt.margin @ t) - float(tilt.normal @ p[:-1])
