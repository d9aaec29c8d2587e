"""Newton's method for hinge losses of a power p >= 2 with the squared l2 norm, one pass over rows a step.

The Hessian is `2 lam I + sum over margins below 1 of C_c p (p - 1) r_i^(p-2) z_i z_i'`, z_i a sample and a 1,
`r_i = 1 - margin`: a sum over rows, as are the gradient, the value, and the slopes of the dual point. A
sample gives the start, so that two or three steps are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields
from ucm.data.source import StateLostError, as_double, once_more, told
from ucm.evidence.row_hinge import HingeProof, hinge_proven
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.rows import RowHinge
from ucm.forms.solver import Solver
from ucm.solvers.palm import ridge_solve
from ucm.solvers.threads import blas_threads

__all__ = ["NewtonRows"]

_LIMIT = 40  # steps
_BIAS = 1e-12  # of the curvature in b
_COARSE = 1e-8  # relative gap over the sample


class _Sums(NamedTuple):
    """By class the losses, slopes, conjugates and points of `ucm.evidence.row_hinge`; the Hessian of all."""

    losses: Vec
    slopes: Vec
    conjugates: Vec
    points: NDArray[np.float64]
    hessian: NDArray[np.float64]


def curve(
    X: Any, y: Any, state: Any, w: Vec, b: float, C: tuple[float, float], p: float
) -> tuple[Any, _Sums]:
    """The kernel of a step."""
    X, y = as_double(X), np.asarray(y, dtype=np.float64)
    r = 1.0 - y * (np.asarray(X @ w).ravel() + b)
    rows = np.flatnonzero(~(r <= 0.0))  # NaN too, which the value then shows
    X, r, positive = X[rows], r[rows], y[rows] > 0.0
    c = np.where(positive, *C)
    a, d = p * c * r ** (p - 1.0), p * (p - 1.0) * c * r ** (p - 2.0)
    n = w.size
    sums = np.empty((3, 2))
    points = np.empty((2, n))
    for k, own in enumerate((positive, ~positive)):
        loss = float((r[own] ** p).sum())
        sums[:, k] = loss, a[own].sum(), C[k] * (p - 1.0) * loss
        points[k] = np.asarray(X.T @ np.where(own, a, 0.0)).ravel()
    H = np.empty((n + 1, n + 1))
    Xd = X.multiply(d[:, None]).tocsr() if sparse.issparse(X) else X * d[:, None]
    inner = X.T @ Xd
    H[:n, :n] = inner.toarray() if sparse.issparse(inner) else inner
    H[n, :n] = H[:n, n] = np.asarray(Xd.sum(axis=0)).ravel()
    H[n, n] = d.sum()
    return state, _Sums(sums[0], sums[1], sums[2], points, H)


def _added(a: _Sums, b: _Sums) -> _Sums:
    return _Sums(*(u + v for u, v in zip(a, b, strict=True)))


def _slopes(
    X: Any, y: Any, state: Any, w: Vec, b: float, C: tuple[float, float], p: float
) -> tuple[Any, Vec]:
    y = np.asarray(y, dtype=np.float64)
    r = np.maximum(0.0, 1.0 - y * (np.asarray(as_double(X) @ w).ravel() + b))
    return state, p * np.where(y > 0.0, *C) * r ** (p - 1.0)


@dataclass(frozen=True)
class _Slopes:
    """The slopes of all rows, by one round."""

    rounds: Any
    message: tuple[Any, ...]

    def weights(self) -> Vec:
        return np.concatenate(told(self.rounds, _slopes, *self.message))


@dataclass(frozen=True)
class NewtonRows(Solver[RowHinge]):
    """Newton steps from sums over all rows.

    Parameters
    ----------
    max_order
        Largest number of features.
    """

    max_order: int = 2000
    name: ClassVar[str] = "newton-rows"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: RowHinge) -> str | None:
        if form.p < 2.0:
            return "it takes powers of at least 2, which have a curvature"
        if form.n > self.max_order:
            return f"its linear systems would have order {form.n}, above {self.max_order}"
        return None

    def predicted_passes(self, form: RowHinge) -> float:
        return 4.0

    def solve(self, form: RowHinge, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(0, form.data.stored):
            return self._solve(form, monitor)

    def _solve(self, form: RowHinge, monitor: Monitor) -> Answer:
        monitor.passes, monitor.reads = 1.0, 1  # that of the survey
        z = _of_sample(form, monitor)
        rounds = form.data.source.rounds()
        before: tuple[Vec, float] | None = None
        losses = 0
        answer = Answer(w=z[:-1], b=float(z[-1]))
        for k in range(monitor.limit(_LIMIT) + 1):
            message = (z[:-1], float(z[-1]), form.C, form.p)
            try:
                sums = rounds.merged(curve, _added, *message)
            except StateLostError:
                losses = once_more(rounds, losses)
                continue
            monitor.passes += 1.0
            monitor.reads += 1
            proof = HingeProof(*message[:2], *sums[:4], rows=_Slopes(rounds, message))
            certificate = hinge_proven(form, proof)
            if before is not None and certificate.primal > before[1] * (1.0 + 1e-14):
                if np.array_equal(z, before[0]):
                    return answer.ended("stalled", "no step leads down")
                z = 0.5 * (z + before[0])
                continue
            answer = Answer(w=z[:-1], b=float(z[-1]), rows=proof)
            stop = monitor.report(k, certificate.primal, certificate.relative_gap)
            if certificate.relative_gap <= monitor.tol:
                return answer
            if stop or monitor.late:
                return answer.interrupted()
            before = z, certificate.primal
            z = z + _step(form.lam, sums, z)
            monitor.systems += 1
        return answer.ended(
            "max_iter", f"{monitor.limit(_LIMIT)} steps did not reach the tolerance"
        )


def _step(lam: float, sums: _Sums, z: Vec) -> Vec:
    """Newton's step."""
    g = np.append(
        2.0 * lam * z[:-1] - (sums.points[0] - sums.points[1]), sums.slopes[1] - sums.slopes[0]
    )
    H = sums.hessian.copy()
    H[np.diag_indices_from(H)] += 2.0 * lam
    H[-1, -1] = (H[-1, -1] - 2.0 * lam) * (1.0 + _BIAS) or 1.0
    return -ridge_solve(H, g)


def _of_sample(form: RowHinge, monitor: Monitor) -> Vec:
    """Normal and bias of the sample, each of its rows for as many as it stands for."""
    X, y = form.data.sample
    counts = float((y > 0.0).sum()), float((y < 0.0).sum())
    C = tuple(c * m / max(k, 1.0) for c, m, k in zip(form.C, form.data.sizes, counts, strict=True))
    z = np.zeros(form.n + 1)
    before: tuple[Vec, float] = z, np.inf
    share = y.size / form.data.m
    for _ in range(_LIMIT):
        sums = curve(X, y, None, z[:-1], float(z[-1]), C, form.p)[1]  # type: ignore[arg-type]
        monitor.passes += share
        value = form.lam * float(z[:-1] @ z[:-1]) + float(np.dot(C, sums.losses))
        if value > before[1]:
            if np.abs(z - before[0]).max() <= 1e-9 * np.abs(z).max():
                return before[0]
            z = 0.5 * (z + before[0])
            continue
        if before[1] - value <= _COARSE * value or monitor.late:
            return z
        before = z, value
        z = z + _step(form.lam, sums, z)
    return before[0]
