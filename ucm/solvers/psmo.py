"""pSMO: sequential minimal optimisation for the p-hinge loss, Algorithm 1 and Listing 1 of Sun (2024).

Pair updates run in compiled code (`ucm.numerics.psmo`) on rows of the Gram matrix that are computed
when they are first needed. Samples whose multiplier sits at a bound, and whose level says that it will
stay there, are shrunk away (Joachims 1999); their scores are brought up to date before the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import numerics
from ucm.contracts import Solver, Vec
from ucm.errors import ParameterError
from ucm.forms import HingeDual, Raw
from ucm.solvers.driver import Monitor

__all__ = ["PSMO"]

_DONE, _LIMIT, _INDEFINITE, _MISSING, _FULL = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class PSMO(Solver):
    """Pair updates in compiled code; closed forms for p in {1, 1.5, 2}.

    Parameters
    ----------
    partner : "second-order" (the largest decrease by a quadratic model), or "random" as in the
        paper's experiments
    shrinking : leave out samples whose multiplier will stay at its bound, until the end
    cap : largest working set of a linear kernel; with more support vectors it is left for Gram rows
    seed : of the random partner
    """

    partner: str = "second-order"
    shrinking: bool = True
    cap: int = 2000
    seed: int = 42
    name: ClassVar[str] = "psmo"

    def __post_init__(self) -> None:
        if self.partner not in ("second-order", "random"):
            raise ParameterError(
                f'PSMO: partner is "second-order" or "random", got {self.partner!r}'
            )
        if self.seed < 0:
            raise ParameterError(f"PSMO: seed >= 0, got {self.seed}")

    def refuse(self, form: object) -> str | None:
        if not isinstance(form, HingeDual):
            return "it takes C * Hinge(p) + lam * L2() only"
        return None

    def predicted_passes(self, form: HingeDual) -> float:
        return float("nan")

    def solve(self, form: HingeDual, monitor: Monitor, start: Sequence[Vec] | None = None) -> Raw:
        first = None if start is None else start[0]
        linear = form.X is not None
        state: Any = (_WorkingSet if linear else _State)(form, self, first)
        limit = monitor.limit(100 * form.m + 10_000_000)
        raw = Raw([state.a])
        eps, gap, best = 1e-2, np.inf, np.inf
        while True:
            violation, code = state.reduce(eps, limit)
            if code == _FULL:
                rest = _State(form, self, state.a)
                rest.updates = state.updates
                state, linear = rest, False
                raw.q = [state.a]
                continue
            if code == _INDEFINITE:
                raw.status = "indefinite"
                raw.message = (
                    "the kernel is indefinite: a pair of samples has a negative squared distance; "
                    "use a positive semidefinite kernel such as rbf"
                )
                break
            value, gap = _gap(state)
            monitor.kernel_operations = form.gram.computed
            if linear:
                monitor.passes = state.passes
            stop = monitor.report(state.updates, value, gap)
            if gap < -1e-6:
                raw.status = "indefinite"
                raw.message = (
                    "the kernel is indefinite: the dual exceeds the primal objective; "
                    "use a positive semidefinite kernel such as rbf"
                )
                break
            if violation <= eps:
                if gap <= 0.5 * monitor.tol:
                    break
                if eps <= 1e-13 or (eps <= 1e-9 and gap > 0.5 * best):
                    raw.status = "max_iter"
                    raw.message = f"rounding leaves a gap of {gap:.2g}; raise tol, or lower C"
                    break
                best = min(best, gap)
                eps *= 0.1
            if stop:
                raw.status, raw.message = "interrupted", "stopped by the callback"
                break
            if state.updates >= limit:
                raw.status = "max_iter"
                raw.message = f"{limit} pair updates left a relative gap of {gap:.2g}"
                break
        return raw


class _State:
    """The multipliers, the scores, and what is left after shrinking.

    a : multipliers
    f : scores `sum_j a_j y_j K_ij`, exact for the active samples only
    F : `y (1 - xi) - f`, minus y times the gradient; likewise
    active : the samples that pair updates see
    stale : a when the other samples were last exact
    """

    def __init__(self, form: HingeDual, options: PSMO, start: Vec | None) -> None:
        self.form, self.options = form, options
        self.y, self.C, self.p, self.gram = form.y, form.C, form.p, form.gram
        self.a = np.zeros(form.m) if start is None else _feasible(start, form)
        self.f = self.gram.times(self.a * self.y) if self.a.any() else np.zeros(form.m)
        self.F = self.y * (1.0 - numerics.slacks(self.a, self.C, self.p)) - self.f
        self.active = np.arange(form.m)
        self.stale = self.a.copy()
        self.updates = 0
        self.chunk = max(200, min(form.m, 1000)) if options.shrinking else np.iinfo(np.int64).max

    def reduce(self, eps: float, limit: int) -> tuple[float, int]:
        """Pair updates until the violation over all samples is eps; the violation left, a code."""
        while True:
            violation, code = self._active_updates(eps, limit)
            if code == _LIMIT and self.updates < limit:
                self._shrink()
                continue
            self._restore()
            top, bottom = numerics.hinge_levels(self.y, self.C, self.a, self.p, self.F)
            violation = max(top - bottom, 0.0)
            if code != _DONE or violation <= eps:
                return violation, code

    def _active_updates(self, eps: float, limit: int) -> tuple[float, int]:
        seed = self.options.seed if self.options.partner == "random" else -1
        k = self.active
        gram = self.gram
        y, C, diagonal = self.y[k], self.C[k], gram.diagonal[k]
        a, F = self.a[k], self.F[k]
        end = min(limit, self.updates + self.chunk)
        while True:
            done, code, missing, violation = numerics.smo(
                gram.store, gram.where, k, diagonal, y, C, self.p, eps, end - self.updates,
                seed if seed < 0 else seed + self.updates, float(self.updates), gram.used, a, F,
            )  # fmt: skip
            self.updates += done
            if code != _MISSING:
                break
            gram.fetch(missing)
        self.a[k], self.F[k] = a, F
        return violation, code

    def _shrink(self) -> None:
        """Leave out samples at a bound whose level can form no violating pair."""
        k = self.active
        a, F, y = self.a[k], self.F[k], self.y[k]
        full = a >= self.C[k] if self.p == 1.0 else np.zeros(k.size, dtype=bool)
        empty = a <= 0.0
        up, low = np.where(y > 0, ~full, ~empty), np.where(y > 0, ~empty, ~full)
        top, bottom = F[up].max(initial=-np.inf), F[low].min(initial=np.inf)
        kept = (up & low) | (up & (bottom <= F)) | (low & (top >= F))
        if kept.any() and np.count_nonzero(~kept) > 0.1 * k.size:
            self.active = k[kept]

    def _restore(self) -> None:
        """Exact scores for every sample; all become active."""
        k = self.active
        xi = numerics.slacks(self.a[k], self.C[k], self.p)
        self.f[k] = self.y[k] * (1.0 - xi) - self.F[k]
        if k.size < self.form.m:
            rest = np.setdiff1d(np.arange(self.form.m), k, assume_unique=True)
            moved = np.flatnonzero(self.a != self.stale)
            change = (self.a[moved] - self.stale[moved]) * self.y[moved]
            self.f[rest] += self.gram.combine(moved, change, rest)
            xi = numerics.slacks(self.a[rest], self.C[rest], self.p)
            self.F[rest] = self.y[rest] * (1.0 - xi) - self.f[rest]
        self.stale = self.a.copy()
        self.active = np.arange(self.form.m)


class _WorkingSet:
    """The same behind a linear kernel, where scores cost one product with the samples.

    Pair updates run on the Gram matrix of a growing working set; then the scores of all samples come
    from w, and the largest violators join. It costs passes over the data, not m^2, while the support
    vectors fit into `cap` rows.

    work, Z : the samples in the working set, and their rows
    K : their Gram matrix, (cap, cap), filled up to len(work)
    """

    def __init__(self, form: HingeDual, options: PSMO, start: Vec | None) -> None:
        self.form, self.options = form, options
        self.y, self.C, self.p, self.X = form.y, form.C, form.p, form.X
        self.a = np.zeros(form.m) if start is None else _feasible(start, form)
        self.cap = min(form.m, options.cap)
        self.K = np.empty((self.cap, self.cap))
        self.work = np.empty(0, dtype=np.int64)
        self.thin = sparse.issparse(form.X)
        self.Z = form.X[self.work]
        self.updates = 0
        self.passes = 0.0
        if not self.a.any():
            # far from the means' half-way point nothing will support the margin
            positive = self.y > 0
            mean = self.X.T @ np.where(positive, 1.0 / positive.sum(), -1.0 / (~positive).sum())
            reach = self.y * np.asarray(self.X @ mean).ravel()
            near = [np.flatnonzero(side) for side in (positive, ~positive)]
            first = [k[np.argsort(reach[k], kind="stable")[:64]] for k in near]
            self._grow(np.concatenate(first))
        else:
            self._grow(np.flatnonzero(self.a > 0.0))
        self._score()

    def _score(self) -> None:
        k = self.work
        self.f = np.asarray(self.X @ (self.Z.T @ (self.a[k] * self.y[k]))).ravel()
        self.passes += 0.5 * (1.0 + k.size / self.form.m)
        self.F = self.y * (1.0 - numerics.slacks(self.a, self.C, self.p)) - self.f

    def _grow(self, fresh: NDArray[np.intp]) -> bool:
        """Take samples in and put idle ones out; False when there is no room."""
        kept = np.flatnonzero(self.a[self.work] > 0.0)
        if kept.size + fresh.size > self.cap:
            return False
        if kept.size < self.work.size:
            self.K[: kept.size, : kept.size] = self.K[np.ix_(kept, kept)]
            self.work, self.Z = self.work[kept], self.Z[kept]
        old = self.work.size
        self.work = np.concatenate([self.work, fresh])
        new = self.work.size
        rows: Any = self.X[fresh]
        stack: Any = sparse.vstack if self.thin else np.vstack
        self.Z = stack([self.Z, rows])
        if self.thin:
            self.Z = self.Z.tocsr()
        block = rows @ self.Z.T
        block = block.toarray() if self.thin else block
        self.K[old:new, :new] = block
        self.K[:new, old:new] = block.T
        return True

    def reduce(self, eps: float, limit: int) -> tuple[float, int]:
        """Pair updates until the violation over all samples is eps; the violation left, a code."""
        seed = self.options.seed if self.options.partner == "random" else -1
        while True:
            top, bottom = numerics.hinge_levels(self.y, self.C, self.a, self.p, self.F)
            violation = max(top - bottom, 0.0)
            if violation <= eps:
                return violation, _DONE
            if self.updates >= limit:
                return violation, _LIMIT
            if not self._grow(self._violators(top, bottom)):
                return violation, _FULL
            k, n = self.work, self.work.size
            K = np.ascontiguousarray(self.K[:n, :n])
            a, F = self.a[k], self.F[k]
            inner = max(0.5 * eps, 0.05 * violation)
            done, code, _, _ = numerics.smo(
                K, np.arange(n), np.arange(n), np.diagonal(K).copy(), self.y[k], self.C[k], self.p,
                inner, limit - self.updates, seed, 0.0, np.zeros(n), a, F,
            )  # fmt: skip
            self.updates += done
            self.a[k] = a
            self._score()
            if code == _INDEFINITE:
                return violation, code

    def _violators(self, top: float, bottom: float) -> NDArray[np.intp]:
        """Samples outside of the working set that violate most against its own levels."""
        inside = np.zeros(self.form.m, dtype=bool)
        inside[self.work] = True
        bounded = self.p == 1.0
        full = (self.a >= self.C) if bounded else np.zeros(self.form.m, dtype=bool)
        empty = self.a <= 0.0
        middle = 0.5 * (top + bottom)
        rise = np.where(np.where(self.y > 0, ~full, ~empty), self.F - middle, -np.inf)
        fall = np.where(np.where(self.y > 0, ~empty, ~full), middle - self.F, -np.inf)
        worst = np.maximum(rise, fall)
        worst[inside] = -np.inf
        count = min(max(64, self.work.size // 4), self.form.m)
        index = np.argpartition(worst, self.form.m - count)[self.form.m - count :]
        return index[worst[index] > 0.0]


def _gap(state: _State | _WorkingSet) -> tuple[float, float]:
    """The primal objective and the relative gap."""
    y, C, a, f, p = state.y, state.C, state.a, state.f, state.p
    top, bottom = numerics.hinge_levels(y, C, a, p, state.F)
    loss, dual = numerics.hinge_gap(y, C, a, f, 0.5 * (top + bottom), p)
    square = float((a * y) @ f)
    primal = 0.5 * square + loss
    return primal, (primal - dual + 0.5 * square) / max(abs(primal), 1e-300)


def _feasible(a: Vec, form: HingeDual) -> Vec:
    """Non-negative multipliers with y'a = 0, scaled down on the heavier class."""
    a = np.maximum(a, 0.0)
    if form.p == 1.0:
        a = np.minimum(a, form.C)
    positive = form.y > 0
    plus, minus = float(a[positive].sum()), float(a[~positive].sum())
    if plus == 0.0 or minus == 0.0:
        return np.zeros_like(a)
    a[positive] *= min(1.0, minus / plus)
    a[~positive] *= min(1.0, plus / minus)
    return a
