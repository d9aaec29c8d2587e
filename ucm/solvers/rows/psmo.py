"""pSMO: sequential minimal optimisation for the p-hinge loss, Algorithm 1 and Listing 1 of Sun (2024).

Pair updates run in compiled code (`ucm.numerics.psmo`) on a small working set first, and, where too
many samples are free for that, on rows of the whole Gram matrix, computed when they are first needed.
Either way samples whose multiplier sits at a bound, and whose level says that it will stay there, are
shrunk away (Joachims 1999); their scores are brought up to date in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm import numerics
from ucm.data.linear import Vec
from ucm.data.options import FLAG, SEED, check_fields, one_of, whole
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.pair import HingeDual
from ucm.forms.solver import Solver
from ucm.solvers.rows.active import Active
from ucm.solvers.threads import blas_threads

__all__ = ["PSMO"]


_STEP = 96  # samples of each class to begin with, and the fewest that join at a time
_NO_KERNEL = "the kernel is indefinite: {}; use a positive semidefinite kernel such as rbf"
_DONE, _LIMIT, _INDEFINITE, _MISSING, _FULL = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class PSMO(Solver[HingeDual]):
    """Pair updates in compiled code; closed forms for p in {1, 1.5, 2}.

    Parameters
    ----------
    partner : "second-order" (the largest decrease by a quadratic model), or "random" as in the
        paper's experiments
    shrinking
        Leave out samples whose multiplier will stay at its bound, until the end.
    cap
        Largest working set; with more free samples it is left for rows of the Gram matrix.
    seed
        Of the random partner.
    """

    partner: str = "second-order"
    shrinking: bool = True
    cap: int = 2000
    seed: int = 42
    name: ClassVar[str] = "psmo"

    def __post_init__(self) -> None:
        check_fields(
            self,
            partner=one_of("second-order", "random"),
            shrinking=FLAG,
            cap=whole(2),
            seed=SEED,
        )

    def refuse(self, form: HingeDual) -> str | None:
        return None

    def predicted_passes(self, form: HingeDual) -> float:
        return float("nan")

    def solve(self, form: HingeDual, monitor: Monitor, start: Answer | None = None) -> Answer:
        # products with few features gain nothing from a second thread
        with blas_threads(0 if form.gram.given else form.gram.X.shape[1]):
            return self._run(form, monitor, None if start is None else start.slopes)

    def _run(self, form: HingeDual, monitor: Monitor, first: Vec | None) -> Answer:
        state: _State | _WorkingSet = (_WorkingSet if self.shrinking else _State)(
            form, self, first, monitor
        )
        limit = monitor.limit(100 * form.m + 10_000_000)
        eps, gap, best = 1e-2, np.inf, np.inf
        while True:
            violation, code = state.reduce(eps, monitor.next(state.updates, limit))
            answer = Answer(slopes=state.a)
            if code == _FULL:
                rest = _State(form, self, state.a, monitor)
                rest.updates, state = state.updates, rest
                continue
            if code == _INDEFINITE:
                why = "a pair of samples has a negative squared distance"
                return answer.ended("indefinite", _NO_KERNEL.format(why))
            value, gap = _gap(state)
            monitor.kernel_operations, monitor.passes = form.gram.computed, state.passes
            stop = monitor.report(state.updates, value, gap, partial(_told, state.a))
            if gap < -1e-6:
                why = "the dual exceeds the primal objective"
                return answer.ended("indefinite", _NO_KERNEL.format(why))
            if violation <= eps:
                if gap <= 0.5 * monitor.tol:
                    return answer
                if eps <= 1e-13 or (eps <= 1e-9 and gap > 0.5 * best):
                    message = f"rounding leaves a gap of {gap:.2g}; raise tol, or lower C"
                    return answer.ended("max_iter", message)
                best = min(best, gap)
                eps *= 0.1
            if stop:
                return answer.interrupted()
            if state.updates >= limit:
                message = f"{limit} pair updates left a relative gap of {gap:.2g}"
                return answer.ended("max_iter", message)


class _State:
    """The multipliers, the scores, and what is left after shrinking.

    a : multipliers
    f : scores `sum_j a_j y_j K_ij`, exact for the active samples only
    F : `y (1 - xi) - f`, minus y times the gradient; likewise
    active : the samples that pair updates see
    """

    def __init__(self, form: HingeDual, options: PSMO, start: Vec | None, monitor: Monitor) -> None:
        self.form, self.options, self.monitor = form, options, monitor
        self.y, self.C, self.p, self.gram = form.y, form.C, form.p, form.gram
        self.a = np.zeros(form.m) if start is None else form.feasible(start)
        self.f = self.gram.times(self.a * self.y) if self.a.any() else np.zeros(form.m)
        self.F = self.y * (1.0 - numerics.slacks(self.a, self.C, self.p)) - self.f
        self.active = Active(self.a)
        self.updates = 0
        self.passes = 0.0
        self.chunk = max(200, min(form.m, 1000)) if options.shrinking else np.iinfo(np.int64).max

    def reduce(self, eps: float, limit: int) -> tuple[float, int]:
        """Pair updates until the violation over all samples is eps; the violation left, a code."""
        while True:
            violation, code = self._active_updates(eps, limit)
            on = self.updates < limit and not self.monitor.late
            if code == _LIMIT and on:
                self._shrink()
                continue
            self._restore()
            top, bottom = numerics.hinge_levels(self.y, self.C, self.a, self.p, self.F)
            violation = max(top - bottom, 0.0)
            if code != _DONE or violation <= eps or not on:
                return violation, code

    def _active_updates(self, eps: float, limit: int) -> tuple[float, int]:
        seed = self.options.seed if self.options.partner == "random" else -1
        k, gram = self.active.index, self.gram
        y, C, diagonal = self.y[k], self.C[k], gram.diagonal[k]
        a, F = self.a[k], self.F[k]
        end = min(limit, self.updates + self.chunk)
        while True:
            done, code, missing, violation = numerics.smo(
                gram.store, gram.where, k, diagonal, y, C, self.p, eps, end - self.updates,
                seed if seed < 0 else seed + self.updates, float(self.updates), gram.used,
                self.monitor.stop, a, F,
            )  # fmt: skip
            self.updates += done
            if code != _MISSING:
                break
            gram.fetch(missing)
        self.a[k], self.F[k] = a, F
        return violation, code

    def _shrink(self) -> None:
        """Leave out samples at a bound whose level can form no violating pair."""
        k = self.active.index
        full, empty = _bounds(self.a[k], self.C[k], self.p)
        positive = self.y[k] > 0
        up, low = np.where(positive, ~full, ~empty), np.where(positive, ~empty, ~full)
        self.active.shrink(-self.F[k], up, low)

    def _restore(self) -> None:
        """Exact scores for every sample; all become active."""
        k = self.active.index
        xi = numerics.slacks(self.a[k], self.C[k], self.p)
        self.f[k] = self.y[k] * (1.0 - xi) - self.F[k]
        if k.size < self.form.m:
            every = np.arange(self.form.m)
            rest, change = self.active.missed(self.gram, every, self.y, self.a)
            self.f[rest] += change
            xi = numerics.slacks(self.a[rest], self.C[rest], self.p)
            self.F[rest] = self.y[rest] * (1.0 - xi) - self.f[rest]
        self.active.whole(self.a)


class _WorkingSet:
    """Pair updates on the Gram matrix of a growing working set.

    After them the scores of all samples are brought up to date at once: behind features by one product
    with the samples, behind a kernel by the rows of those that moved. Then the largest violators join,
    and samples at a bound that do not violate leave. It lasts while the free samples fit into `cap`.

    work : the samples in the working set
    K : their Gram matrix
    f, F : as in `_State`, exact for all samples
    """

    def __init__(self, form: HingeDual, options: PSMO, start: Vec | None, monitor: Monitor) -> None:
        self.form, self.options, self.monitor = form, options, monitor
        self.y, self.C, self.p, self.gram = form.y, form.C, form.p, form.gram
        self.a = np.zeros(form.m) if start is None else form.feasible(start)
        self.cap = min(form.m, options.cap)
        if form.X is None:  # K within half of the memory for rows
            self.cap = max(2, min(self.cap, math.isqrt(form.gram.limit // 16)))
        self.K = np.empty((0, 0))
        self.work = np.empty(0, dtype=np.int64)
        self.updates = 0
        self.passes = 0.0
        self.f = np.zeros(form.m)
        self._score(np.flatnonzero(self.a), self.a)

    def _score(self, moved: NDArray[np.intp], change: Vec) -> None:
        """The scores after the multipliers moved by `change`."""
        c = change[moved] * self.y[moved]
        if self.form.X is None:
            self.f += self.gram.scores(moved, c, self.updates)
        elif moved.size:
            X = self.form.X
            self.f += np.asarray(X @ (X[moved].T @ c)).ravel()
            self.passes += 0.5 * (1.0 + moved.size / self.form.m)
        self.F = self.y * (1.0 - numerics.slacks(self.a, self.C, self.p)) - self.f

    def _grow(self, kept: NDArray[np.intp], fresh: NDArray[np.intp]) -> None:
        """The working set becomes its members `kept` (their places) and the samples `fresh`."""
        old, new = kept.size, kept.size + fresh.size
        self.work = np.concatenate([self.work[kept], fresh])
        K = np.empty((new, new))
        K[:old, :old] = self.K[np.ix_(kept, kept)]
        K[old:] = self.gram.between(fresh, self.work)
        K[:old, old:] = K[old:, :old].T
        self.K = K

    def reduce(self, eps: float, limit: int) -> tuple[float, int]:
        """Pair updates until the violation over all samples is eps; the violation left, a code."""
        seed = self.options.seed if self.options.partner == "random" else -1
        while True:
            top, bottom = numerics.hinge_levels(self.y, self.C, self.a, self.p, self.F)
            violation = max(top - bottom, 0.0)
            if violation <= eps:
                return violation, _DONE
            if self.updates >= limit or self.monitor.late:
                return violation, _LIMIT
            kept, fresh = self._members(top, bottom)
            if kept.size + min(fresh.size, 2) > self.cap:
                return violation, _FULL
            self._grow(kept, fresh[: self.cap - kept.size])
            k, n = self.work, self.work.size
            a, F = self.a[k], self.F[k]
            inner = max(0.5 * eps, 0.15 * violation)
            done, code, _, _ = numerics.smo(
                self.K, np.arange(n), np.arange(n), self.gram.diagonal[k], self.y[k], self.C[k], self.p,
                inner, limit - self.updates, seed, 0.0, np.zeros(n), self.monitor.stop, a, F,
            )  # fmt: skip
            self.updates += done
            change = np.zeros(self.form.m)
            change[k] = a - self.a[k]
            self.a[k] = a
            self._score(np.flatnonzero(change), change)
            if code == _INDEFINITE:
                return violation, code

    def _members(self, top: float, bottom: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The places of the members that stay: free, or violating; and the samples that join, those
        that violate most first."""
        m, a = self.form.m, self.a
        if not a.any():
            return np.empty(0, dtype=np.intp), self._first()
        full, empty = _bounds(a, self.C, self.p)
        middle = 0.5 * (top + bottom)
        rise = np.where(np.where(self.y > 0, ~full, ~empty), self.F - middle, -np.inf)
        fall = np.where(np.where(self.y > 0, ~empty, ~full), middle - self.F, -np.inf)
        worst = np.maximum(rise, fall)
        kept = np.flatnonzero((~(full | empty) | (worst > 0.0))[self.work])
        worst[[rise.argmax(), fall.argmax()]] = np.inf  # a pair that can move, whatever the room
        worst[self.work] = -np.inf
        count = min(max(_STEP, self.work.size // 2), m)
        index = np.argpartition(worst, m - count)[m - count :]
        index = index[worst[index] > 0.0]
        return kept, index[np.argsort(-worst[index], kind="stable")]

    def _first(self) -> NDArray[np.intp]:
        """Where to begin from a = 0, where all samples violate alike: behind features, the samples
        nearest to the other class (far from the half-way point of the means nothing will support
        the margin); behind a kernel, evenly spaced ones."""
        sides = [np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)]
        step = min(_STEP, self.cap // 2)
        if self.form.X is None:
            return np.concatenate([k[:: -(-k.size // step)] for k in sides])
        X = self.form.X
        mean = X.T @ np.where(self.y > 0, 1.0 / sides[0].size, -1.0 / sides[1].size)
        reach = self.y * np.asarray(X @ mean).ravel()
        return np.concatenate([k[np.argsort(reach[k], kind="stable")[:step]] for k in sides])


def _gap(state: _State | _WorkingSet) -> tuple[float, float]:
    """The primal objective and the relative gap."""
    y, C, a, f, p = state.y, state.C, state.a, state.f, state.p
    top, bottom = numerics.hinge_levels(y, C, a, p, state.F)
    loss, dual = numerics.hinge_gap(y, C, a, f, 0.5 * (top + bottom), p)
    square = float((a * y) @ f)
    primal = 0.5 * square + loss
    return primal, (primal - dual + 0.5 * square) / max(abs(primal), 1e-300)


def _bounds(a: Vec, C: Vec, p: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which multipliers cannot grow, and which cannot fall."""
    return (a >= C) if p == 1.0 else np.zeros(a.size, dtype=bool), a <= 0.0


def _told(a: Vec) -> dict[str, Any]:
    return {"slopes": a.copy()}
