"""The whole DCA beside a plain loop over CVXPY with Clarabel, and beside DCCP."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ucm.bench.behind import split, written
from ucm.bench.clock import in_turns
from ucm.bench.data import over, standardised
from ucm.bench.dca import DC_MODELS, MODELS
from ucm.bench.judge import goal
from ucm.bench.registry import Row
from ucm.compiler.compile import solve
from ucm.forms.objective import DifferenceOfConvex

__all__ = ["rows"]

FACTOR = 20.0  # times faster
WORSE = 1e-6  # relative, that our objective may be above theirs
LAMBDAS = (0.1, 1.0)
COMPARED = ("uci_pima", "uci_ionosphere", "uci_sonar", "uci_wpbc")
BY_DCCP = ("RLSVM2", "RLSVM1", "CapOneNormSVM", "RLSVMC1")  # the excess of ExpL0 is not DCP


def rows() -> Iterator[Row]:
    """The best of three runs of theirs, of seven of ours; all from the start of the paper."""
    return over(COMPARED, _compared, standardised, where="data", part="loops")


def _compared(name: str, X: Any, y: Any) -> Iterator[Row]:
    for model, lam in itertools.product(DC_MODELS, LAMBDAS):
        declared = MODELS[model](lam=lam)
        form = split(declared, X, y)
        rivals = {"CVXPY": partial(loop_over_cvxpy, form)}
        if model in BY_DCCP:
            rivals["DCCP"] = partial(dccp, form, lam)
        ours = in_turns({"ours": partial(solve, declared, X, y)}, 7, warm=False)["ours"]
        for rival, work in rivals.items():
            what = f"{model}, lam {lam:g}"
            try:
                theirs = in_turns({rival: work}, 3, warm=False)[rival]
            except (ImportError, ValueError) as error:
                what += f": {type(error).__name__}, {str(error).split('.')[0][:50]}"
                yield goal(f"over {rival}", name, what, np.nan, FACTOR, None)
                continue
            times = theirs.least / ours.least
            above = (ours.result.objective - theirs.result) / abs(theirs.result)
            within = above <= WORSE and times >= FACTOR
            row = goal(f"over {rival}", name, what, times, FACTOR, within)
            yield {**row, "milliseconds": 1e3 * ours.least, "above": above}


class _Problem:
    """`G - v't - u'w` in CVXPY, t the margins; and the convex model that all start from."""

    def __init__(self, form: DifferenceOfConvex) -> None:
        import cvxpy as cp

        G = self.G = form.G
        self.w, self.b = cp.Variable(G.n), cp.Variable()
        self.t = cp.multiply(G.y, G.X @ self.w + self.b)
        self.value = written(G.losses, self.t) + written(G.penalties, self.w)
        first = form.relaxed()
        start = written(first.losses, self.t) + written(first.penalties, self.w)
        cp.Problem(cp.Minimize(start)).solve(solver="CLARABEL")

    @property
    def place(self) -> tuple[Any, float]:
        """The normal and bias found last."""
        return self.w.value, float(self.b.value)


def loop_over_cvxpy(form: DifferenceOfConvex) -> float:
    """The objective of DCA as a plain loop: the tilted problem is written once, its tilts are
    parameters."""
    import cvxpy as cp

    G, at = form.G, _Problem(form)
    v, u = cp.Parameter(G.m), cp.Parameter(G.n)
    problem = cp.Problem(cp.Minimize(at.value - v @ at.t - u @ at.w))
    best = height = np.inf
    for _ in range(100):
        w, b = at.place
        margin = G.margins(w, b)
        height = form.value(margin, w)
        if not height < best - 1e-6 * abs(height):
            break
        best = height
        tilt = form.tilt(margin, w)
        v.value, u.value = tilt.margin, tilt.normal
        problem.solve(solver="CLARABEL")
    return min(best, height)


def dccp(form: DifferenceOfConvex, lam: float) -> float:
    """The same objective through DCCP, from the same start.

    DCCP refuses an objective of unknown curvature such as G - H: H goes into a constraint `s <= H`, s a
    new variable. Its first problem weighs slack by `tau_ini`; below the weight of s, as by default, that
    problem is unbounded. Where H has gradient 0 at the start (which is then critical), DCCP 1.1.1 raises
    a ValueError: it writes an empty sparse gradient.
    """
    import cvxpy as cp

    import_module("dccp")  # registers the method

    at, s = _Problem(form), cp.Variable()
    below = written(form.losses, at.t)
    if form.penalties:  # a capped l1 norm with a = 1
        below += lam * cp.sum(cp.pos(cp.abs(at.w) - 1.0))
    s.value = float(below.value)
    problem = cp.Problem(cp.Minimize(at.value - s), [s <= below])
    problem.solve(method="dccp", solver="CLARABEL", tau_ini=2.0)
    w, b = at.place
    return form.value(form.G.margins(w, b), w)
