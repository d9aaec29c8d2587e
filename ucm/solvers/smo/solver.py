"""Sequential minimal optimisation (SMO) for reduced convex hulls and hinge losses, with or without kernels.

Pairs of variables move in compiled code on float32 rows of the Gram matrix (`ucm/native/smo.c`). Then the
gradient is brought up to date in float64 by the variables that moved; where the gap is still too large, the
pairs go on from it, so that rounding of the rows bounds the speed, and not the accuracy.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.gram import KINDS
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.forms.nearest_point import NearestPoint
from ucm.forms.solver import Answer
from ucm.native import library, point, structure
from ucm.solvers.smo.problem import Pairs

_DONE, _LIMIT, _INDEFINITE_KERNEL, _MISSING = range(4)
_FIRST = 64  # pair updates of the first call

_INDEFINITE = (
    "the kernel is indefinite: samples have a negative squared distance; use a positive semidefinite "
    "kernel such as rbf"
)


class PairUpdates:
    """State of the compiled SMO pair updates, with a cache of float32 rows of the Gram matrix.

    They start from the variables u with their derivatives F.

    Parameters
    ----------
    value : the unit of the relative gap: `||W||^2` for hulls, the dual objective for a loss
    store : memory of the cached rows of the Gram matrix
    """

    def __init__(self, problem: Pairs, u: Vec, F: Vec, value: float, store: NDArray[np.float32]) -> None:
        gram, kernel = problem.gram, problem.gram.kernel
        self.problem, n, samples = problem, problem.n, problem.index
        X, squares = np.empty((0, n), np.float32), np.empty(0, np.float32)
        kind = KINDS["given"]
        if gram.columns is not None:
            X, squares, kind = gram.columns
            X, squares = X[:, samples].astype(np.float32, order="C"), squares[samples].astype(np.float32)
        power, signs = problem.p > 1.0, problem.s
        if not problem.hinge:  # C works in units of the largest curvature: exact, as these are powers of 4
            root = np.ldexp(1.0, np.frexp(float(gram.diagonal.max() * np.abs(signs).max() ** 2))[1] // 2)
            signs, F, value = signs / root, F / root**2, value / root**2
        diagonal = gram.diagonal[samples] * signs**2
        self.arrays = {
            "ends": problem.ends[1:].astype(np.int64), "index": np.arange(n, dtype=np.int32),
            "u": u.copy(), "F": F.copy(), "lo": problem.lo.copy(), "hi": problem.hi.copy(),
            "diagonal": diagonal, "C": problem.C.copy() if power else None,
            "xi": problem.slacks(u) if power else None,
            "levels": np.empty(2 * problem.sums.size), "all": u.copy(),
            "s": signs.astype(np.float32), "curve": diagonal.astype(np.float32),
            "grows": np.empty(n, np.float32), "falls": np.empty(n, np.float32), "X": X,
            "squares": squares, "store": store, "where": np.full(n, -1, np.int32),
            "owner": np.full(n, -1, np.int32), "keep": np.empty(2 * n, np.int32),
            "used": np.zeros(n, np.int64),
        }  # fmt: skip
        self.fields: Any = np.zeros((), structure("smo_t"))
        point(self.fields, "smo_t", **self.arrays)
        numbers: dict[str, float] = {
            "n": n, "groups": problem.sums.size, "features": X.shape[0], "stride": n, "kind": kind,
            "degree": kernel.degree, "capacity": store.size, "most": n, "slots": min(n, store.size // n),
            "fresh": 1, "gamma": kernel.gamma, "coef0": kernel.coef0, "p": problem.p, "value": value,
            "rate": 1.0 if problem.hinge else -2.0, "share": float(problem.hinge),
        }  # fmt: skip
        for name, number in numbers.items():
            self.fields[name] = number

    @property
    def updates(self) -> int:
        """Number of pair updates so far."""
        return int(self.fields["updates"])

    def run(self, gap: float, limit: int, monitor: Monitor) -> int:
        """Run pair updates to relative gap `gap`, `limit` updates or a time-out; return the exit code.

        The code after a time-out is that of the limit.
        """
        eps = 1e-14 * float(np.abs(self.arrays["F"]).max(initial=0.0))  # rounding
        batch = _FIRST
        while True:
            began = time.perf_counter()
            count = min(batch, limit - self.updates)
            code: int = library.smo(self.fields, eps, gap, count)
            took = time.perf_counter() - began
            if code == _MISSING:
                self._fetch()
            elif code != _LIMIT:
                return code
            else:
                # a call takes 0.03 s, the delay of Ctrl-C
                batch = max(_FIRST, int(count * min(8.0, 0.03 / max(took, 1e-9))))
            if self.updates >= limit or monitor.timed_out:
                return _LIMIT

    def _fetch(self) -> None:
        """Compute the missing row into the cache, with rows of free variables as far as slots are left."""
        n, filled, slots = (int(self.fields[name]) for name in ("n", "filled", "slots"))
        a = self.arrays
        free = (a["where"][:n] < 0) & (a["grows"][:n] == 0.0) & (a["falls"][:n] == 0.0)
        more = np.flatnonzero(free)[: min(32, slots - filled)]  # rows that Python computes at a time
        new = np.arange(filled, filled + more.size)
        a["where"][more], a["owner"][new], a["used"][new] = new, more, self.fields["clock"]
        self.fields["filled"] += more.size
        samples = self.problem.index[a["index"][:n]]
        rows = np.append(self.fields["need"], more)
        K = self.problem.gram.between(samples[rows], samples)
        for slot, row in zip([self.fields["slot"], *new], K, strict=True):
            a["store"][slot * n : (slot + 1) * n] = row

    def variables(self) -> Vec:
        """Return the updated variables u, also those that the compiled code has removed."""
        self.problem.gram.computed += int(self.fields["entries"])
        self.fields["entries"] = 0
        n = int(self.fields["n"])
        u = self.arrays["all"]
        u[self.arrays["index"][:n]] = self.arrays["u"][:n]
        return u


Record = Callable[[Vec], dict]


def descend(
    problem: Pairs,
    u: Vec,
    monitor: Monitor,
    zero: Callable[[Vec, float, float], bool],
    record: Record,
) -> tuple[Vec, Answer]:
    """Solve by rounds of pair updates to the tolerance of the monitor; return u and an answer.

    F is the gradient at u. `zero` says whether the objective counts as 0, from u, the objective and the
    relative gap; `record` returns the record of a trace from u.

    Raises
    ------
    SolverError
        The kernel has values that are not finite.
    """
    limit, updates, stalls = monitor.limit(10_000_000 + 100 * problem.n), 0, 0
    stop, gram, computed = False, problem.gram, problem.gram.computed  # a plan keeps it from solve to solve
    best, least, lowest, code = u, np.inf, np.inf, _LIMIT
    while True:
        F = problem.gradient(u, problem.gram.follow(problem.coefficients(u)))
        value, gap, scale = problem.gap(u, F)
        if np.isnan(gap):
            raise SolverError(
                "kernel: expected finite values of k(x_i, x_j), got NaN or infinite ones; scale the "
                "features, or give gamma"
            )
        relative = gap / max(scale, 1e-300)
        monitor.kernel_operations = gram.computed - computed
        monitor.passes = monitor.kernel_operations / (2.0 * gram.m)
        stop = monitor.report(updates, value, relative, functools.partial(record, u)) or stop
        # where 0 lies in U the gap is rounding, and the distance falls further
        falls = not problem.hinge and -value < 0.98 * lowest
        stalls = stalls + 1 if code == _DONE and gap > 0.5 * least and not falls else 0
        lowest = min(lowest, abs(value))
        if gap < least:
            best, least = u, gap
        if relative < -1e-6 or code == _INDEFINITE_KERNEL:  # more than rounding
            return u, Answer().ended("indefinite", _INDEFINITE)
        if monitor.reached(relative, 0.9 * monitor.tol) or zero(u, value, relative):
            return u, Answer()
        if stop:
            return u, Answer().interrupted()
        left = f"{updates} pair updates left a relative gap of {relative:.2g}"
        if updates >= limit:
            return u, Answer().ended("max_iter", f"{left}; raise max_iter")
        if stalls >= 3:  # rounds that neither halve the gap nor shorten the distance
            return best, Answer().ended("max_iter", f"{left}, by rounding; raise tol")
        # one row of each group is looked at before a pair moves, and all of them stay
        entries = max(problem.gram.limit // 4, (problem.sums.size + 2) * problem.n)
        store = np.empty(min(entries, problem.n**2), np.float32)
        state = PairUpdates(problem, u, F, scale - gap if problem.hinge else scale, store)
        at = updates
        while not stop:
            # rows in float32 round
            code = state.run(0.7 * monitor.tol, monitor.next(at, limit) - updates, monitor)
            u, at = state.variables(), updates + state.updates
            if code != _LIMIT or at >= limit or monitor.timed_out:
                break
            # an iterate to trace between two rounds: its gradient is not that from which the pairs go on
            c = problem.coefficients(u)
            support = np.flatnonzero(c)
            value, gap, scale = problem.gap(u, problem.gradient(u, gram.sums(support, c[support])))
            stop = monitor.report(at, value, gap / max(scale, 1e-300), functools.partial(record, u.copy()))
        updates = at


@dataclass(frozen=True)
class SMO(NearestPoint):
    """Solve reduced convex hulls, and hinge losses with squared l2 norm, from inner products (kernels) only.

    It takes inner products only.

    Pairs within each hull exchange weight, or pairs of multipliers move: the pair of the largest decrease by
    second order (Fan, Chen and Lin 2005), the step for hinge losses by Algorithm 1 of Sun (2024): closed
    forms for p = 1 and 2, a root for other p.
    """

    name: ClassVar[str] = "smo"
    takes: ClassVar[tuple[type, ...]] = (MinNorm, HingeDual)

    def refuse(self, form: MinNorm | HingeDual) -> str | None:
        return None if isinstance(form, HingeDual) else super().refuse(form)

    def solve(self, form: MinNorm | HingeDual, monitor: Monitor, start: Answer | None = None) -> Answer:
        if isinstance(form, HingeDual):
            return self._hinge(form, monitor, start)
        problem, floor = Pairs.of_hulls(form), monitor.zero

        def zero(u: Vec, value: float, gap: float) -> bool:
            return problem.negligible(u, -value, gap, floor)

        def record(u: Vec) -> dict:
            return {"q": problem.blocks(form, u)}

        u = problem.begin()
        if start is not None:
            u = problem.feasible(problem.variables(form.begin(start)))
        u, answer = descend(problem, u, monitor, zero, record)
        answer.q = problem.blocks(form, u)
        return answer

    def _hinge(self, form: HingeDual, monitor: Monitor, start: Answer | None) -> Answer:
        problem = Pairs.of_hinge(form)
        u = problem.begin()
        if start is not None and start.slopes is not None:
            u = form.y * form.feasible(start.slopes)
        u, answer = descend(problem, u, monitor, lambda *_: False, lambda u: {"slopes": np.abs(u)})
        answer.slopes = np.abs(u)
        return answer
