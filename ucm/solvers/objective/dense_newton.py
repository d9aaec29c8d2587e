"""Compiled proximal Newton solver for smooth losses with l1 and squared l2 norms in few features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear_map import SampleMap, Vec
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer
from ucm.language.losses import Hinge, Logistic
from ucm.language.objective import split_scalar
from ucm.native import library, point, structure

_BUDGET = 2e7  # multiplications of one call, some 20 ms
MOST = 50  # steps of one problem


class DenseNewton:
    """Compiled proximal Newton solver for successive problems over the same samples and losses.

    The samples may be sparse; the matrix of a step is dense. `form` is the first problem, z the end of the
    last one, t the margins there; see `dense_newton_t` in `structures.h`.
    """

    def __init__(self, form: Composite, squared: bool, c: Vec) -> None:
        self.X, self.form = form.X, form
        m, n = form.X.shape
        self.z, self.t = np.zeros(n + 1), np.zeros(m)
        self.state: Any = np.zeros((), structure("dense_newton_t"))
        self.state["m"], self.state["n"], self.state["squared"] = m, n, squared
        X, rows = form.X, {}
        if sparse.issparse(X):
            indices = {"columns": X.indices, "starts": X.indptr}
            rows = {k: v.astype(np.int32, copy=False).view(np.uint32) for k, v in indices.items()}
        self.arrays = {
            **rows, "X": X.data if rows else X, "y": form.y, "c": c, "t": self.t, "H": np.zeros((n, n)),
            "mean": np.zeros(n + 1), "h": np.zeros(m), "scratch": np.empty(7 * m + n * (n + 5 + 64)),
            "support": np.empty(n, dtype=np.int64),
        }  # fmt: skip
        self._take(**self.arrays)
        self.squares = SampleMap(form.X).squares

    @classmethod
    def of(cls, form: Composite) -> DenseNewton | None:
        """Return a solver for a problem; None if too large, or with other losses or penalties."""
        X = form.X
        dense = isinstance(X, np.ndarray)
        if X.dtype != np.float64 or not (X.flags.c_contiguous if dense else X.has_canonical_format):
            return None
        # above, a step takes so long that time limits and BLAS count
        if form.entries > 2_000_000 or form.n > (100 if dense else 200) or not form.intercept:
            return None
        loss = _loss(form)
        if loss is None or _box(form) is None:
            return None
        return cls(form, *loss)

    def _take(self, **arrays: Any) -> None:
        """Set pointers of the C state to arrays, which the caller has to keep alive."""
        point(self.state, "dense_newton_t", **arrays)

    def solve(self, form: Composite, monitor: Monitor, at: tuple[Vec, float], limit: int) -> Answer:
        """Solve from `at` in at most `limit` steps; the answer has slopes if they prove the tolerance.

        A compiled call takes one step where an observer watches; the iterates are the same.
        """
        box, unproven = _box(form), Answer(w=at[0], b=at[1], status="max_iter")
        self.state["steps"] = 0
        if box is None:
            return unproven
        z = np.append(*at)
        if not np.array_equal(z, self.z):
            self.t[:] = form.margins(*at)
            monitor.passes += 0.5 * form.cost
        state, before = self.state, monitor.passes
        log, a = np.zeros(5), np.empty(self.X.shape[0])
        v, u = map(np.ascontiguousarray, (form.linear.margin, form.linear.normal))
        self._take(v=v, u=u)
        self.z = np.full(z.size, np.nan)  # until the end self.t belongs to no known point

        def report() -> bool:
            value, gap, passes, _, steps = log.tolist()
            monitor.passes = before + passes * form.cost
            return monitor.report(int(steps), value, gap)

        watched = monitor.callback is not None or monitor.verbose or monitor.trace > 0
        # 0.8: the certificate rounds differently
        state["tol"], state["begun"], state["most"] = 0.8 * monitor.tol, 0, 1 if watched else limit
        proven = stopped = False
        while not (proven or stopped or monitor.timed_out):
            proven = library.newton_solve(state, *box, z, a, log, _BUDGET)
            if proven or state["status"] != 0 or state["steps"] >= limit:  # 0: under way
                break
            if state["steps"] >= state["most"]:
                stopped = report()
                state["most"] += 1
        monitor.systems += int(log[3])
        monitor.hessian_passes += 0.5 * float(log[3]) * self.squares / form.unit_entries
        if state["steps"] and not stopped:
            stopped = report()
        if not np.isfinite(z).all():
            return unproven
        self.z = z.copy()
        answer = Answer(w=z[:-1], b=float(z[-1]), slopes=a if proven else None)
        return answer.ended("converged" if proven else "interrupted" if stopped else "max_iter", "")


def _loss(form: Composite) -> tuple[bool, Vec] | None:
    """Return (squared, weights): True for the squared hinge, False for the logistic loss; else None."""
    if len(form.losses) > 1:
        return None
    factor, loss = split_scalar(next(iter(form.losses)))
    c = np.ascontiguousarray(factor * (np.ones(form.m) if form.single is None else form.single))
    if isinstance(loss, Logistic):
        return False, c
    return (True, c) if isinstance(loss, Hinge) and (loss.p, loss.offset) == (2.0, 1.0) else None


def _box(form: Composite) -> tuple[Vec, Vec, float] | None:
    """Return (lower, upper, c) of a penalty `c ||w||_2^2 + max over lower <= s <= upper of s'w`, or None."""
    boxed = form.penalty.boxed
    if boxed is None:
        return None
    lower, upper = (np.ascontiguousarray(np.broadcast_to(x, form.n), dtype=np.float64) for x in boxed[:2])
    proper = boxed[2] > 0.0 or ((upper > 0.0).all() and (lower < 0.0).all())
    return (lower, upper, boxed[2]) if proper and np.isfinite(upper - lower).all() else None
