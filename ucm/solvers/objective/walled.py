"""Smooth losses with an l1 norm on few samples: the proximal Newton steps that are compiled whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.maps import SampleMap
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, Tilt
from ucm.language.losses.hinge import Hinge
from ucm.language.losses.logistic import Logistic
from ucm.language.term_algebra import peeled
from ucm.numerics.states import LOGISTIC, SQUARED, STEPS

__all__ = ["Walled"]

Matrix = NDArray[np.float64]

_ENTRIES = 200_000  # of the samples: with more, products take longer than calls
_FEATURES = 100  # more make systems for BLAS


class Walled:
    """The samples of one problem after another, with the matrix of the last one.

    Attributes
    ----------
    X, y : the samples and their labels
    form, c, kind : the last problem, what the samples weigh there, and its loss as `ucm.numerics.walled`
        counts them
    z, t : the end of the last problem, and the margins there
    H, mean, h : the matrix, the mean of its samples with their mass, and their curvatures
    """

    def __init__(self, form: Composite, kind: int, c: Vec) -> None:
        self.X, self.y, self.form, self.kind, self.c = form.X, form.y, form, kind, c
        self.H, self.mean = np.zeros((form.n, form.n)), np.zeros(form.n + 1)
        self.h = np.zeros(form.m)
        self.z, self.t = np.zeros(form.n + 1), np.zeros(form.m)
        self.squares = SampleMap(form.X).squares

    @classmethod
    def of(cls, form: Composite) -> Walled | None:
        """These steps for a problem; None where it is large, or has other terms."""
        X = form.X
        if not isinstance(X, np.ndarray) or not X.flags.c_contiguous or X.dtype != np.float64:
            return None
        if X.size > _ENTRIES or form.n > _FEATURES:
            return None
        loss = _loss(form)
        if loss is None or _walls(form) is None:
            return None
        if not (numerics.ready("walled") or not numerics.soon("walled")):
            return None
        return cls(form, *loss)

    def solve(
        self, form: Composite, tilt: Tilt, tol: float, at: tuple[Vec, float], monitor: Monitor, told: bool
    ) -> tuple[Vec, float, Vec | None]:  # fmt: skip
        """The normal, the bias and the dual point that proves a relative gap of tol; None in its place where
        the steps end before.

        Parameters
        ----------
        at : where they begin
        told : whether they are those to report
        """
        walls, known = _walls(form), self._known(form)
        if walls is None or not known:
            return *at, None
        lower, upper, ridge = walls
        z, slopes, log = np.append(*at), np.empty(form.m), np.empty((STEPS, 4))
        if not np.array_equal(z, self.z):
            self.t = form.margins(*at)
            monitor.passes += 0.5
        done = numerics.walled_newton(
            self.X, self.y, self.c, self.kind, np.ascontiguousarray(tilt.margin),
            np.ascontiguousarray(tilt.normal), lower, upper, ridge, z, self.t, slopes, self.H, self.mean,
            self.h, tol, monitor.stop, log,
        )  # fmt: skip
        spent = monitor.passes
        for step, (value, gap, passes, _) in enumerate(log[: abs(done)].tolist()):
            monitor.passes = spent + passes
            if told:
                monitor.report(step + 1, value, gap)
        if done:
            self._count(monitor, log[abs(done) - 1, 3])
        self.z = z.copy()
        if not np.isfinite(z).all():
            return *at, None
        return z[:-1], float(z[-1]), slopes if done > 0 else None

    def _known(self, form: Composite) -> bool:
        """Whether these steps know the loss; the matrix is of one loss."""
        if form is self.form:
            return True
        loss = _loss(form)
        if loss is None:
            return False
        if loss[0] != self.kind or not np.array_equal(loss[1], self.c):
            self.kind, self.c = loss
            self.mean[-1] = 0.0
        self.form = form
        return True

    def along(
        self, lower: Matrix, upper: Matrix, ridge: Vec, tol: float, monitor: Monitor
    ) -> tuple[Matrix, Matrix, Matrix]:
        """(k, n + 1) normals and biases, (k, m) dual points and (k, 5) what they took, of problems with walls
        in the rows of lower and upper, each from the end of the one before it: as many as were proven, in
        order.

        Parameters
        ----------
        lower, upper, ridge : (K, n), (K, n) and (K,); the walls finite and not 0
        """
        K, (m, n) = ridge.size, self.X.shape
        Z, A, log = np.zeros((K, n + 1)), np.empty((K, m)), np.zeros((K, 5))
        done = numerics.walled_path(
            self.X, self.y, self.c, self.kind, lower, upper, ridge, Z, A, self.H, self.mean, self.h, tol,
            monitor.stop, log,
        )  # fmt: skip
        self._count(monitor, log[:done, 3].sum())
        return Z[:done], A[:done], log[:done]

    def _count(self, monitor: Monitor, systems: float) -> None:
        monitor.systems += int(systems)
        monitor.forming += 0.5 * systems * self.squares / self.X.size


def _loss(form: Composite) -> tuple[int, Vec] | None:
    """The one loss of a problem, as `ucm.numerics.walled` counts them, and what the samples weigh."""
    if len(form.losses) > 1:
        return None
    factor, loss = peeled(next(iter(form.losses)))
    c = np.ascontiguousarray(factor * (np.ones(form.m) if form.single is None else form.single))
    if isinstance(loss, Logistic):
        return LOGISTIC, c
    return (SQUARED, c) if isinstance(loss, Hinge) and loss.p == 2.0 else None


def _walls(form: Composite) -> tuple[Vec, Vec, float] | None:
    """(lower, upper, c) of `c ||w||_2^2` and finite walls of every slope, away from 0; None for others."""
    boxed = form.penalty.boxed
    if boxed is None:
        return None
    lower, upper = (
        np.ascontiguousarray(np.broadcast_to(x, form.n), dtype=np.float64) for x in boxed[:2]
    )
    whole = (upper > 0.0).all() and (lower < 0.0).all() and np.isfinite(upper - lower).all()
    return (lower, upper, boxed[2]) if whole else None
