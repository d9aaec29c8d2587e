"""Newton's method for smooth losses with the squared l2 norm, one pass over rows a step.

The Hessian is `2 lam I + sum_i d_i z_i z_i'`, z_i a sample and a 1, `d_i = sum_k C_k l_k''(o_k - t_i)` the
curvature at its margin t_i: a sum over rows, as are the gradient, the value and the slopes of the dual point.
A sample gives the start, so that two or three steps are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields
from ucm.data.source import RowSource, as_double
from ucm.evidence.row_losses import LossProof, at_rest, losses_proven
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import curvature
from ucm.forms.rows import RowLosses, Weighed
from ucm.forms.solver import Solver
from ucm.language.losses import Hinge
from ucm.language.terms import ConvexLoss
from ucm.solvers.out_of_core.by_rounds import by_rounds
from ucm.solvers.out_of_core.row_derivatives import margins, scaled_solve

__all__ = ["NewtonRows"]

_LIMIT = 40  # steps
_BIAS = 1e-12  # of the curvature in b
_COARSE = 1e-8  # relative gap over the sample
_SHORTER = 0.25  # part of a step that leads up


class _Sums(NamedTuple):
    """Those of `ucm.evidence.row_losses.LossProof`; the Hessian of all."""

    loss: float
    slopes: Vec
    gains: Vec
    points: NDArray[np.float64]
    hessian: NDArray[np.float64]


def curve(X: Any, y: Any, w: Vec, b: float, losses: Weighed) -> _Sums:
    """The kernel of a step."""
    X, y, n = as_double(X), np.asarray(y, dtype=np.float64), w.size
    t = margins(X, y, w, b)
    values = [loss.each(t) for loss, _ in losses]
    rows: Any = slice(None)
    if not any(loss.lowest() < 0.0 for loss, _ in losses):
        rows = np.flatnonzero(~(sum(values) == 0.0))  # the losses of the others are flat there
    X, t, positive, weights = X[rows], t[rows], y[rows] > 0.0, np.abs(y[rows])
    a, d, gain, total = np.zeros(t.size), np.zeros(t.size), np.zeros(t.size), 0.0
    for (loss, C), value in zip(losses, values, strict=True):
        c, s = np.where(positive, *C) * weights, loss.gradient(loss.offset - t)
        a += c * s
        d += c * curvature(loss, t)
        gain += c * (s * t + value[rows])
        total += float(c @ value[rows])
    ends = np.array([positive, ~positive], dtype=np.float64)
    H = np.empty((n + 1, n + 1))
    Xd = X.multiply(d[:, None]).tocsr() if sparse.issparse(X) else X * d[:, None]
    inner = X.T @ Xd
    H[:n, :n] = inner.toarray() if sparse.issparse(inner) else inner
    H[n, :n] = H[:n, n] = np.asarray(Xd.sum(axis=0)).ravel()
    H[n, n] = d.sum()
    points = np.stack([np.asarray(X.T @ (own * a)).ravel() for own in ends])
    return _Sums(total, ends @ a, ends @ gain, points, H)


def _added(a: _Sums, b: _Sums) -> _Sums:
    each: list[Any] = [u + v for u, v in zip(a, b, strict=True)]
    return _Sums(*each)


def _slopes(X: Any, y: Any, w: Vec, b: float, losses: Weighed) -> Vec:
    y = np.asarray(y, dtype=np.float64)
    t, positive = margins(X, y, w, b), y > 0.0
    return sum(
        (np.where(positive, *C) * np.abs(y) * loss.gradient(loss.offset - t) for loss, C in losses),
        start=np.zeros(t.size),
    )


@dataclass(frozen=True)
class _Slopes:
    """The slopes of all rows, by one round."""

    source: RowSource
    message: tuple[Any, ...]

    def weights(self) -> Vec:
        return np.concatenate(self.source.map_reduce(_slopes, *self.message))

    def of(self, X: Any, y: Vec) -> Vec:
        """The slopes of these rows."""
        return _slopes(X, y, *self.message)


@dataclass(frozen=True)
class NewtonRows(Solver[RowLosses]):
    """Newton's method from sums over all rows of out-of-core data.

    Parameters
    ----------
    max_order
        Largest number of features.
    """

    max_order: int = 2000
    name: ClassVar[str] = "newton-rows"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: RowLosses) -> str | None:
        if form.lam is None:
            return "it takes lam L2() as penalty, and no term that is subtracted"
        if not all(loss.smooth() or _power(loss) for loss, _ in form.losses):
            return "it takes smooth losses, and powers of the hinge loss above 1"
        if form.n > self.max_order:
            return f"its linear systems would have order {form.n}, above {self.max_order}"
        return None

    def predicted_passes(self, form: RowLosses) -> float:
        return 4.0

    def solve(self, form: RowLosses, monitor: Monitor, start: Answer | None = None) -> Answer:
        return by_rounds(lambda: self._solve(form, monitor), form.data.stored, monitor)

    def _solve(self, form: RowLosses, monitor: Monitor) -> Answer:
        z = _of_sample(form, monitor)
        source = form.data.source
        before = np.zeros(z.size), at_rest(form)
        answer = Answer(w=z[:-1], b=float(z[-1]))
        for k in range(monitor.limit(_LIMIT) + 1):
            message = (z[:-1], float(z[-1]), form.losses)
            sums = source.map_reduce(curve, *message, merge=_added)
            monitor.count_read()
            proof = LossProof(*message[:2], *sums[:4], rows=_Slopes(source, message))
            certificate = losses_proven(form, proof)
            if np.isnan(certificate.primal):  # rows that were none when they were looked at
                return Answer(w=z[:-1], b=float(z[-1]), rows=proof)
            if not certificate.primal <= before[1] * (1.0 + 1e-14):
                if np.array_equal(z, before[0]):
                    return answer.ended("stalled", "no step leads down")
                z = before[0] + _SHORTER * (z - before[0])
                continue
            answer = monitor.latest = Answer(w=z[:-1], b=float(z[-1]), rows=proof)
            stop = monitor.report(k, certificate.primal, certificate.relative_gap)
            if monitor.reached(certificate.relative_gap):
                return answer
            if stop or monitor.late:
                return answer.interrupted()
            before = z, certificate.primal
            z = z + _step(form.lam or 0.0, sums, z)
            monitor.systems += 1
        return answer.ended(
            "max_iter", f"{monitor.limit(_LIMIT)} steps did not reach the tolerance"
        )


def _power(loss: ConvexLoss) -> bool:
    """Whether it has slopes, and curvature but at its kink."""
    return isinstance(loss, Hinge) and loss.p > 1.0


def _step(lam: float, sums: _Sums, z: Vec) -> Vec:
    """Newton's step."""
    g = np.append(
        2.0 * lam * z[:-1] - (sums.points[0] - sums.points[1]), sums.slopes[1] - sums.slopes[0]
    )
    H = sums.hessian.copy()
    H[-1, -1] = H[-1, -1] * (1.0 + _BIAS) or 1.0
    H[np.arange(z.size - 1), np.arange(z.size - 1)] += 2.0 * lam
    return -scaled_solve(H, g)


def _of_sample(form: RowLosses, monitor: Monitor) -> Vec:
    """Normal and bias of the sample, each of its rows for as many as it stands for."""
    X, y = form.data.sample
    counts = [float(y[y > 0.0].sum()), -float(y[y < 0.0].sum())]
    parts = [m / k if k else 0.0 for m, k in zip(form.data.counts, counts, strict=True)]
    losses = tuple((loss, (C[0] * parts[0], C[1] * parts[1])) for loss, C in form.losses)
    z = np.zeros(form.n + 1)
    before = z, np.inf
    share = y.size / form.data.m
    for _ in range(_LIMIT):
        sums = curve(X, y, z[:-1], float(z[-1]), losses)
        monitor.passes += share
        value = form.penalty.value(z[:-1]) + sums.loss
        if not value <= before[1]:
            if np.abs(z - before[0]).max() <= 1e-9 * np.abs(z).max():
                return before[0]
            z = before[0] + _SHORTER * (z - before[0])
            continue
        if before[1] - value <= _COARSE * value or monitor.late:
            return z
        before = z, value
        z = z + _step(form.lam or 0.0, sums, z)
    return before[0]
