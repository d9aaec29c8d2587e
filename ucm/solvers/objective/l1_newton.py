"""Compiled proximal Newton solver for smooth losses with an l1 norm on few samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import SampleMap, Vec
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.language.losses import Hinge, Logistic
from ucm.language.objective import split_scalar
from ucm.native.binding import library, point, structure

Matrix = NDArray[np.float64]

_NEARLY = 0.8  # gap to reach, in tolerances: the difference allows for rounding
_ENTRIES = 200_000  # largest number of entries: above, products take longer than Python calls
_FEATURES = 100  # largest number of features: above, BLAS is faster
_STEPS = 50  # limit of steps for one problem, as in l1_newton.c
_CHUNK = 64
_BUDGET = 2e7  # multiplications of one call, some 20 ms
_UNDERWAY, _PROVEN = 0, 1


class L1Newton:
    """Compiled proximal Newton solver for successive problems over the same few dense samples.

    Attributes
    ----------
    X, y : the samples and their labels
    form, c : the last problem, and what the samples weigh there
    state : that of `l1_newton`, see `ucm/native/declarations.h`
    z, t : the end of the last problem, and the margins there
    arrays : the other arrays of the state
    """

    def __init__(self, form: Composite, squared: bool, c: Vec) -> None:
        self.X, self.y, self.form, self.c = form.X, form.y, form, c
        m, n = form.X.shape
        self.z, self.t = np.zeros(n + 1), np.zeros(m)
        self.state: Any = np.zeros((), structure("l1_t"))
        self.state["m"], self.state["n"], self.state["squared"] = m, n, squared
        self.arrays = {
            "X": self.X, "y": self.y, "t": self.t, "H": np.zeros((n, n)), "mean": np.zeros(n + 1),
            "h": np.zeros(m), "scratch": np.empty(7 * m + n * (n + 5 + _CHUNK)),
            "support": np.empty(n, dtype=np.int64),
        }  # fmt: skip
        self._take(c=c, **self.arrays)
        self.squares = SampleMap(form.X).squares

    @classmethod
    def of(cls, form: Composite) -> L1Newton | None:
        """Return a solver for a problem; None if too large, sparse, or with other losses or penalties."""
        X = form.X
        if not isinstance(X, np.ndarray) or not X.flags.c_contiguous or X.dtype != np.float64:
            return None
        if X.size > _ENTRIES or form.n > _FEATURES:
            return None
        loss = _loss(form)
        if loss is None or _box(form) is None:
            return None
        return cls(form, *loss)

    def _take(self, **arrays: Any) -> None:
        """Set pointers of the C state to arrays, which the caller has to keep alive."""
        point(self.state, "l1_t", **arrays)

    def solve(
        self, form: Composite, monitor: Monitor, at: tuple[Vec, float]
    ) -> tuple[Vec, float, Vec | None]:
        """Solve from `at`; return the normal, the bias, and the dual point that proves the tolerance.

        The dual point is None if the steps end without proof.
        """
        box, same_losses = _box(form), self._takes(form)
        if box is None or not same_losses:
            return *at, None
        lower, upper, ridge = box
        z, slopes, log, state = np.append(*at), np.empty(form.m), np.empty((_STEPS, 4)), self.state
        if not np.array_equal(z, self.z):
            self.t[:] = form.margins(*at)
            monitor.passes += 0.5
        self.z = np.full(z.size, np.nan)  # until the end self.t belongs to no known point
        margin, normal = map(np.ascontiguousarray, (form.linear.margin, form.linear.normal))
        self._take(v=margin, u=normal, lower=lower, upper=upper, z=z, a=slopes)
        state["ridge"], state["tol"], state["begun"], steps = ridge, _NEARLY * monitor.tol, 0, 0
        while True:
            steps += library.l1_newton(state, _STEPS - steps, log[steps:], _BUDGET)
            if state["status"] != _UNDERWAY or monitor.timed_out:
                break
        spent = monitor.passes
        for step, (value, gap, passes, _) in enumerate(log[:steps].tolist()):
            monitor.passes = spent + passes
            monitor.report(step + 1, value, gap)
        self._count(monitor, float(state["systems"]))
        self.z = z.copy()
        if not np.isfinite(z).all():
            return *at, None
        return z[:-1], float(z[-1]), slopes if state["status"] == _PROVEN else None

    def _takes(self, form: Composite) -> bool:
        """Update the state to the loss and weights of a form; return False if the loss does not fit."""
        if form.losses is self.form.losses and form.weights is self.form.weights:
            return True
        loss = _loss(form)
        if loss is None:
            return False
        squared, c = loss
        if squared != bool(self.state["squared"]) or not np.array_equal(c, self.c):
            self.state["squared"], self.c = squared, c
            self._take(c=c)
            self.arrays["mean"][-1] = 0.0
        self.form = form
        return True

    def path(
        self, lower: Matrix, upper: Matrix, ridge: Vec, tol: float, monitor: Monitor
    ) -> tuple[Matrix, Matrix, Matrix]:
        """Solve a path of problems in C, each from the previous solution, up to the first unproven one.

        Return (k, n + 1) normals and biases, (k, m) dual points and a (k, 5) log of the work of k proven
        problems. The bounds of the slopes of problem k are in row k of lower and upper.

        Parameters
        ----------
        lower, upper, ridge : (K, n), (K, n) and (K,); bounds finite and not 0
        """
        K, (m, n), state = ridge.size, self.X.shape, self.state
        Z, A, log = np.zeros((K, n + 1)), np.empty((K, m)), np.zeros((K, 5))
        self.z, count = np.full(n + 1, np.nan), 0
        self.t[:] = 0.0
        none = np.zeros(max(m, n))
        self._take(v=none[:m], u=none[:n])
        state["tol"], state["begun"] = _NEARLY * tol, 0
        while count < K and not monitor.timed_out:
            count = library.l1_path(state, count, K, lower, upper, ridge, Z, A, log, _BUDGET)
            if state["begun"] and state["status"] != _UNDERWAY:
                break
        self._count(monitor, log[:count, 3].sum())
        return Z[:count], A[:count], log[:count]

    def _count(self, monitor: Monitor, systems: float) -> None:
        monitor.systems += int(systems)
        monitor.hessian_passes += 0.5 * systems * self.squares / self.X.size


def _loss(form: Composite) -> tuple[bool, Vec] | None:
    """Return (squared, weights): True for the squared hinge, False for the logistic loss; else None."""
    if len(form.losses) > 1:
        return None
    factor, loss = split_scalar(next(iter(form.losses)))
    c = np.ascontiguousarray(factor * (np.ones(form.m) if form.single is None else form.single))
    if isinstance(loss, Logistic):
        return False, c
    return (True, c) if isinstance(loss, Hinge) and loss.p == 2.0 else None


def _box(form: Composite) -> tuple[Vec, Vec, float] | None:
    """Return (lower, upper, c) of a penalty `c ||w||_2^2 + max over lower <= s <= upper of s'w`, or None.

    None for another penalty, and for bounds that are 0 or infinite.
    """
    boxed = form.penalty.boxed
    if boxed is None:
        return None
    lower, upper = (np.ascontiguousarray(np.broadcast_to(x, form.n), dtype=np.float64) for x in boxed[:2])
    proper = (upper > 0.0).all() and (lower < 0.0).all() and np.isfinite(upper - lower).all()
    return (lower, upper, boxed[2]) if proper else None
