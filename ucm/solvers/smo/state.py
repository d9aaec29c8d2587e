"""The state of the compiled pair updates: the arrays that C compacts, and the cache of float32 rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm import native
from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.native.binding import library, point, structure
from ucm.solvers.smo.problem import Pairs

DONE, LIMIT, INDEFINITE, _MISSING = range(4)
_SECONDS = 0.03  # of one call: Ctrl-C, the time limit and callbacks wait for no more
_FIRST = 64  # pair updates of the first call
_BATCH = 32  # rows that Python computes at a time
_FLAT = 1e-14  # of the largest derivative: violations below are rounding


class State:
    """Pair updates from the variables u with their derivatives F.

    Parameters
    ----------
    value : the unit of the relative gap: `||W||^2` for hulls, the dual objective for a loss
    store : memory of the cached rows of the Gram matrix
    """

    def __init__(self, problem: Pairs, u: Vec, F: Vec, value: float, store: NDArray[np.float32]) -> None:
        gram, kernel = problem.gram, problem.gram.kernel
        self.problem, n, samples = problem, problem.n, problem.index
        X, squares = np.empty((0, n), np.float32), np.empty(0, np.float32)
        kind = native.KINDS["given"]
        if gram.columns is not None:
            X, squares = (a[..., samples] for a in gram.columns.single)
            X, kind = np.ascontiguousarray(X), gram.columns.kind
        diagonal = gram.diagonal[samples] * problem.s**2
        power = problem.p > 1.0
        self.arrays = {
            "ends": problem.ends[1:].astype(np.int64), "index": np.arange(n, dtype=np.int32),
            "u": u.copy(), "F": F.copy(), "lo": problem.lo.copy(), "hi": problem.hi.copy(),
            "diagonal": diagonal, "C": problem.C.copy() if power else None,
            "xi": problem.slacks(u) if power else None,
            "levels": np.empty(2 * problem.mass.size), "all": u.copy(),
            "s": problem.s.astype(np.float32), "curve": diagonal.astype(np.float32),
            "grows": np.empty(n, np.float32), "falls": np.empty(n, np.float32), "X": X,
            "squares": squares, "store": store, "where": np.full(n, -1, np.int32),
            "owner": np.full(n, -1, np.int32), "keep": np.empty(2 * n, np.int32),
            "used": np.zeros(n, np.int64),
        }  # fmt: skip
        self.fields: Any = np.zeros((), structure("smo_t"))
        point(self.fields, "smo_t", **self.arrays)
        numbers: dict[str, float] = {
            "n": n, "groups": problem.mass.size, "features": X.shape[0], "stride": n, "kind": kind,
            "degree": kernel.degree, "capacity": store.size, "most": n, "slots": min(n, store.size // n),
            "fresh": 1, "gamma": kernel.gamma, "coef0": kernel.coef0, "p": problem.p, "value": value,
            "rate": 1.0 if problem.hinge else -2.0, "share": float(problem.hinge),
        }  # fmt: skip
        for name, number in numbers.items():
            self.fields[name] = number

    @property
    def updates(self) -> int:
        """The number of updates."""
        return int(self.fields["updates"])

    def run(self, gap: float, limit: int, monitor: Monitor) -> int:
        """Run pair updates to a relative gap of `gap`, or `limit` updates; return the code of the end."""
        eps = _FLAT * float(np.abs(self.arrays["F"]).max(initial=0.0))
        share = _FIRST
        while True:
            began = time.perf_counter()
            count = min(share, limit - self.updates)
            code: int = library.smo(self.fields, eps, gap, count)
            took = time.perf_counter() - began
            if code == _MISSING:
                self._fetch()
            elif code != LIMIT:
                return code
            else:
                share = max(_FIRST, int(count * min(8.0, _SECONDS / max(took, 1e-9))))
            if self.updates >= limit or monitor.timed_out:
                return LIMIT

    def _fetch(self) -> None:
        """Put the missing row into the cache, and rows of free variables if there is room."""
        n, filled, slots = (int(self.fields[name]) for name in ("n", "filled", "slots"))
        a = self.arrays
        free = (a["where"][:n] < 0) & (a["grows"][:n] == 0.0) & (a["falls"][:n] == 0.0)
        more = np.flatnonzero(free)[: min(_BATCH, slots - filled)]
        new = np.arange(filled, filled + more.size)
        a["where"][more], a["owner"][new], a["used"][new] = new, more, self.fields["clock"]
        self.fields["filled"] += more.size
        samples = self.problem.index[a["index"][:n]]
        rows = np.append(self.fields["need"], more)
        K = self.problem.gram.between(samples[rows], samples)
        for slot, row in zip([self.fields["slot"], *new], K, strict=True):
            a["store"][slot * n : (slot + 1) * n] = row

    def variables(self) -> Vec:
        """Return all u after the updates."""
        self.problem.gram.computed += int(self.fields["entries"])
        self.fields["entries"] = 0
        n = int(self.fields["n"])
        u = self.arrays["all"]
        u[self.arrays["index"][:n]] = self.arrays["u"][:n]
        return u
