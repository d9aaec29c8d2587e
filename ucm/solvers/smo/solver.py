"""Sequential minimal optimisation (SMO) for reduced convex hulls and hinge losses, with or without kernels.

Pairs of variables move in compiled code on float32 rows of the Gram matrix (`ucm/native/smo.c`). Then the
gradient is brought up to date in float64 by the variables that moved; where the gap is still too large, the
pairs go on from it, so that rounding of the rows bounds the speed, and not the accuracy.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.gram import KINDS, sliced
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer
from ucm.native import library, point, structure
from ucm.native.threads import blas_threads, in_parts
from ucm.solvers.nearest_point import NearestPoint
from ucm.solvers.smo.problem import Pairs

_DONE, _LIMIT, _INDEFINITE_KERNEL, _MISSING = range(4)
_FIRST = 64  # pair updates of the first call
_WORKING = 512  # variables of a working set, of many groups both ends of each
_PART = 4096  # columns of F that one call updates
_ROWS = 64  # rows of which one call copies the entries of a working set
_LARGE = 1 << 21  # entries of rows from which several threads read them
_INNER = 0.1  # of the violation of its pairs that is left in a working set
_NEW = 4  # one in so many of a working set may need a new row while the cache is full
_ABSENT = 1e30  # added to what orders variables where the cache has no row; OUT of smo.c
_EACH = ("u", "F", "lo", "hi", "diagonal", "C", "xi", "s", "curve", "grows", "falls")  # arrays of variables

_INDEFINITE = (
    "the kernel is indefinite: samples have a negative squared distance; use a positive semidefinite "
    "kernel such as rbf"
)


def _structure(arrays: dict[str, Any], numbers: dict[str, float]) -> Any:
    fields = np.zeros((), structure("smo_t"))
    point(fields, "smo_t", **arrays)
    for name, number in numbers.items():
        fields[name] = number
    return fields


class PairUpdates:
    """State of the compiled SMO pair updates, with a cache of float32 rows of the Gram matrix.

    They start from the variables u with their derivatives F. Rows of narrow or sparse samples are computed in
    C, one by one. Where one product of BLAS computes many rows faster, or the kernel is no compiled one, a
    missing row ends the compiled call: then pairs move within a working set of the variables that violate
    optimality most, whose rows are computed together, and F is brought up to date by one product (Zanghirati
    and Zanni 2003; Wen et al. 2018).

    Parameters
    ----------
    value : the unit of the relative gap: `||W||^2` for hulls, the dual objective for a loss
    store : memory of the cached rows of the Gram matrix
    """

    def __init__(self, problem: Pairs, u: Vec, F: Vec, value: float, store: NDArray[np.float32]) -> None:
        gram, kernel = problem.gram, problem.gram.kernel
        self.problem, n, samples = problem, problem.n, problem.index
        X, squares = np.empty(0, np.float32), np.empty(0, np.float32)
        kind, columns = KINDS["given"], gram.columns
        if columns is not None:
            kind, X = columns.kind, columns.of(samples)
            squares = columns.squares[samples].astype(np.float32)
            X = (X if kind == KINDS["given"] else X.T).astype(np.float32, order="C")
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
        numbers: dict[str, float] = {
            "n": n, "groups": problem.sums.size, "features": X.size // n, "stride": n, "kind": kind,
            "degree": kernel.degree, "capacity": store.size, "most": n, "slots": min(n, store.size // n),
            "fresh": 1, "gamma": kernel.gamma, "coef0": kernel.coef0, "p": problem.p, "value": value,
            "rate": 1.0 if problem.hinge else -2.0, "share": float(problem.hinge),
        }  # fmt: skip
        self.fields = _structure(self.arrays, numbers)
        self.working = np.empty(0, np.int32)
        size = min(max(_WORKING, 2 * problem.sums.size), int(numbers["slots"]))
        if kind == KINDS["given"]:
            each = np.arange(size, dtype=np.int32)
            held = {name: self.arrays[name] for name in _EACH}
            self.inner = {name: a[:size].copy() for name, a in held.items() if a is not None} | {
                "ends": self.arrays["ends"].copy(), "levels": self.arrays["levels"].copy(), "where": each,
                "owner": each, "used": np.zeros(size, np.int64), "store": np.empty(size**2, np.float32),
            }  # fmt: skip
            none = {"features": 0, "check": np.iinfo(np.int64).max}  # it ends by the violation alone
            self.part = _structure(self.inner, numbers | none)

    @property
    def updates(self) -> int:
        """Number of pair updates so far."""
        return int(self.fields["updates"])

    def run(self, gap: float, limit: int, monitor: Monitor) -> int:
        """Run pair updates to relative gap `gap`, `limit` updates or a time-out; return the exit code.

        The code after a time-out is that of the limit.
        """
        # set once for all working sets; other kernels compute rows one by one, or by BLAS in several threads
        columns = self.problem.gram.columns
        blocks = columns is not None and columns.kind == KINDS["given"]
        with blas_threads(0) if blocks else nullcontext():
            return self._run(gap, limit, monitor)

    def _run(self, gap: float, limit: int, monitor: Monitor) -> int:
        eps = 1e-14 * float(np.abs(self.arrays["F"]).max(initial=0.0))  # rounding
        batch = _FIRST
        while True:
            began = time.perf_counter()
            count = min(batch, limit - self.updates)
            code: int = library.smo(self.fields, eps, gap, count)
            took = time.perf_counter() - began
            if code == _MISSING:
                code = self._block(eps, limit - self.updates)
            elif code == _LIMIT:
                # a call takes 0.03 s, the delay of Ctrl-C
                batch = max(_FIRST, int(count * min(8.0, 0.03 / max(took, 1e-9))))
            if code != _LIMIT:
                return code
            if self.updates >= limit or monitor.timed_out:
                return _LIMIT

    def _block(self, eps: float, limit: int) -> int:
        """Run pair updates within a working set, then update F by a product; return the exit code."""
        n, a, inner, part = int(self.fields["n"]), self.arrays, self.inner, self.part
        W = self._working_set(n)
        slots, size, each = self._rows(W, n), W.size, [name for name in _EACH if name in inner]
        for name in each:
            inner[name][:size] = a[name][W]

        def gather(some: slice) -> None:
            library.smo_gather(self.fields, size, slots, W, some.start, some.stop, inner["store"])

        in_parts(gather, sliced(size, _ROWS), size * n >= _LARGE)
        inner["ends"][:] = np.searchsorted(W, a["ends"])
        part["n"] = part["slots"] = part["filled"] = size
        part["fresh"], part["updates"], part["fall"] = 1, 0, 0.0
        violation = float(np.diff(a["levels"].reshape(-1, 2)).max())
        code: int = library.smo(part, max(eps, _INNER * violation), 0.0, limit)
        moved = a["s"][W] * (inner["u"][:size] - a["u"][W])
        rows = np.flatnonzero(moved)

        def add(columns: slice) -> None:
            library.smo_add(self.fields, rows.size, slots[rows], moved[rows], columns.start, columns.stop)

        in_parts(add, sliced(n, _PART), rows.size * n >= _LARGE)
        for name in each:
            a[name][W] = inner[name][:size]
        self.fields["updates"] += part["updates"]
        self.fields["fall"] += part["fall"]
        self.working = a["index"][W]
        return code if code == _INDEFINITE_KERNEL else _LIMIT if part["updates"] else _DONE

    def _working_set(self, n: int) -> NDArray[np.intp]:
        """Return those that violate most, at both ends of each group, and free ones of the last set.

        While the cache is full, most of the former are those with a row in it: else the rows of more free
        variables than it holds are computed again and again.
        """
        a, size = self.arrays, self.inner["used"].size
        index, grows, falls = a["index"][:n], a["grows"][:n], a["falls"][:n]
        former = np.zeros(self.problem.n, bool)
        former[self.working] = True
        inside = former[index] & (grows == 0.0) & (falls == 0.0)
        ends = 2 * a["ends"].size
        inside[np.flatnonzero(inside)[max(0, min(size // 2, size - ends)) :]] = False
        count = max(1, (size - np.count_nonzero(inside)) // ends)
        full = bool(self.fields["filled"] == self.fields["slots"] < n)
        choices: list[tuple[int, Any]] = [(count, np.zeros(n))]
        if full:
            new = max(1, count // _NEW)
            choices = [(new, np.zeros(n)), (count - new, _ABSENT * (a["where"][:n] < 0))]
        for start, stop in zip([0, *a["ends"][:-1]], a["ends"], strict=True):
            g = slice(start, stop)
            for reach, closed in ((a["F"][g], grows[g]), (-a["F"][g], falls[g])):
                for most, out in choices:
                    key = reach + closed + out[g]
                    order = np.argpartition(key, min(most, stop - start) - 1)[:most]
                    inside[start + order[key[order] < 0.5 * _ABSENT]] = True
        return np.flatnonzero(inside)

    def _rows(self, W: NDArray[np.intp], n: int) -> NDArray[np.int64]:
        """Return the slots of the rows of a working set, after those that the cache misses are computed."""
        a, filled, gram = self.arrays, int(self.fields["filled"]), self.problem.gram
        slots, clock = a["where"][W].astype(np.int64), self.fields["clock"]
        missing = slots < 0
        rows = W[missing]
        a["used"][slots[~missing]] = clock
        new = np.arange(filled, min(filled + rows.size, int(self.fields["slots"])))
        if new.size < rows.size:  # rows that were not used for longest give way
            old = np.argsort(a["used"][:filled], kind="stable")[: rows.size - new.size]
            a["where"][a["owner"][old]] = -1
            new = np.append(new, old)
        a["where"][rows], a["owner"][new], a["used"][new], slots[missing] = new, rows, clock, new
        self.fields["filled"], self.fields["clock"] = min(filled + rows.size, self.fields["slots"]), clock + 1
        if rows.size and gram.columns is not None:
            X, squares = a["X"], a["squares"]
            gram.blocks(X[rows], squares[rows], new, a["store"], X[:n], squares[:n])
        elif rows.size:
            samples = self.problem.index[a["index"][:n]]
            a["store"][: int(self.fields["slots"]) * n].reshape(-1, n)[new] = gram.between(
                samples[rows], samples
            )
        return slots

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
    # one row of each group is looked at before a pair moves, and a working set has both ends of each
    entries = max(problem.gram.limit // 4, (2 * problem.sums.size + 2) * problem.n)
    store = np.empty(min(entries, problem.n**2), np.float32)
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
