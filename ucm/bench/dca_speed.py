"""The convex problems of DCA: exact, few, warm from one to the next, with generation; and all of it
beside loops over CVXPY and the exact optimum of small problems."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ucm.bench import dca_exact, dca_loops
from ucm.bench.behind import optimum, split
from ucm.bench.clock import in_turns, timed
from ucm.bench.data import UCI, dense, noisy, over, standardised
from ucm.bench.dca import DC_MODELS, ITERATIONS, MODELS
from ucm.bench.judge import goal
from ucm.bench.registry import Benchmark, Row
from ucm.compiler.compile import compile
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex
from ucm.language.losses import Hinge
from ucm.language.penalties import L1
from ucm.solvers.objective.dca import DCA
from ucm.solvers.objective.highs import HiGHS
from ucm.solvers.objective.simplex_method import Simplex

__all__ = ["BENCHMARK"]

INNER = 1e-7  # relative, of each convex problem against Clarabel
UP = 1e-12  # relative, that the objective may rise
WARM = 0.5  # of the first program's time, for all later ones together
GENERATION = 10.0  # times faster than the whole program
SLOWER = 1.2  # at most, where it does not pay
LAMBDAS = (0.1, 1.0, 10.0)
GENERATED = {
    "arcene": (0.1, 1.0, 10.0, 100.0),
    "madelon": (0.1, 1.0, 10.0, 30.0, 100.0),
    "uci_pima": (0.1, 1.0, 10.0, 100.0),
    "uci_ionosphere": (0.1, 1.0, 10.0, 100.0),
    "uci_sonar": (0.1, 1.0, 10.0, 100.0),
    "uci_wpbc": (0.1, 1.0, 10.0, 100.0),
    "2000 x 100": (1.0, 10.0),
}
GAIN = 2.0  # geometric mean of the times that the compiled simplex method is faster, at least
COMPARED = {**dict.fromkeys((*UCI, "arcene", "2000 x 100"), 7), "2000 x 500": 1}  # repeats


# --- convex problems ----------------------------------------------------------------------------
def inner() -> Iterator[Row]:
    """Each convex problem against its twin, iterations, monotone."""
    return over(UCI, _inner, standardised, where="data", part="inner problems")


def _inner(name: str, X: Any, y: Any) -> Iterator[Row]:
    for lam, (model, make) in itertools.product(LAMBDAS, MODELS.items()):
        plan = compile(make(lam=lam), X, y)
        solution = plan.solve(tol=1e-8)
        apart = plan.verify().difference
        heights = [record["objective"] for record in solution.history]
        rise = max([0.0, *((b - a) / abs(a) for a, b in itertools.pairwise(heights))])
        where = f"{name}, lam {lam:g}"
        yield goal("inner problem", where, model, apart, INNER, apart <= INNER)
        if model in DC_MODELS:
            count = solution.stats.iterations
            yield goal("iterations", where, model, count, ITERATIONS, count <= ITERATIONS)
            yield goal("monotone", where, model, rise, UP, rise <= UP)


# --- the programs after the first -------------------------------------------------------------------
def later() -> Iterator[Row]:
    """The seconds of all programs after the first over those of the first: by HiGHS as the paper
    writes it and in its dual, and as it is solved here."""
    optimum(_program(*noisy(50, 3), 1.0), Simplex())  # loads it
    for m, n in ((2000, 100), (2000, 500)):
        X, y = noisy(m, n)
        form = _program(X, y, 10.0)
        firsts = {}
        if n < 500:
            firsts["paper's first, by HiGHS"] = timed(partial(_primal, form, 10.0))[1]
        whole = HiGHS(samples=None, features=None)
        firsts["first, by HiGHS"] = timed(partial(optimum, form, whole))[1]
        for model in ("CapOneNormSVM", "RLSVM1", "RLSVMC1", "RLSVM0"):
            seconds = _program_times(split(MODELS[model](lam=10.0), X, y))
            after = sum(seconds[1:])
            for words, first in {**firsts, "first here": seconds[0]}.items():
                what = f"{model}, {len(seconds) - 1} programs, {1e3 * after:.3g} ms, of the {words}"
                share = after / first
                yield goal("later programs", f"{m} x {n}", what, share, WARM, share <= WARM)


def _program_times(form: DifferenceOfConvex) -> list[float]:
    """DCA written out, its programs timed."""
    session = Simplex().open(form.G, Monitor())
    answer, first = timed(lambda: session.solve(form.relaxed(), form.G.flat(), 1e-8))
    seconds, height = [first], np.inf
    for _ in range(50):
        w, b = answer.plane
        margin = form.G.margins(w, b)
        value = form.value(margin, w)
        if not value < height - 1e-10 * abs(value):
            break
        height, tilt = value, form.tilt(margin, w)
        answer, taken = timed(partial(session.solve, form.G, tilt, 1e-8))
        seconds.append(taken)
    return seconds


# --- the compiled simplex method beside HiGHS -------------------------------------------------------
def simplex() -> Iterator[Row]:
    """Whole solves with HiGHS inside of DCA over those with the compiled simplex method, both warm from
    problem to problem, in seconds of the processor: what keeps the latter in the library."""
    gains: list[float] = []
    yield from over(COMPARED, partial(_gain, gains), _named, where="data", part="simplex")
    mean = float(np.exp(np.mean(np.log(gains))))
    yield goal("simplex", "all", f"{len(gains)} solves", mean, GAIN, mean >= GAIN)


def _gain(gains: list[float], name: str, X: Any, y: Any) -> Iterator[Row]:
    times = []
    lams = LAMBDAS if name in UCI else (10.0,)
    for model, lam in itertools.product(DC_MODELS, lams):
        if model != "RLSVM2":  # a squared norm: no linear program
            works = {
                key: compile(MODELS[model](lam=lam), X, y, solver=DCA(inner)).solve
                for key, inner in (("ours", Simplex(HiGHS())), ("HiGHS", HiGHS()))
            }
            runs = in_turns(works, COMPARED[name], clock=time.process_time)
            times.append(runs["HiGHS"].least / runs["ours"].least)
    gains.extend(times)
    what = f"{len(times)} solves, {min(times):.2f} to {max(times):.2f}"
    mean = float(np.exp(np.mean(np.log(times))))
    yield goal("simplex", name, what, mean, GAIN, None)


# --- generation -----------------------------------------------------------------------------------
def generation() -> Iterator[Row]:
    """Generation, as the routes choose it, against HiGHS on the program as the paper writes it, (A.2), and
    against the same solver on the whole program."""
    small = _program(*noisy(50, 3), 1.0)
    optimum(small, Simplex())  # loads what loads lazily
    _primal(small, 1.0)
    return over(GENERATED, _generated, _named, where="data", part="generation")


def _named(name: str) -> tuple[Any, Any]:
    if " x " in name:
        m, n = name.split(" x ")
        return noisy(int(m), int(n))
    return standardised(name) if name in UCI else dense(name)


def _generated(name: str, X: Any, y: Any) -> Iterator[Row]:
    for lam in GENERATED[name]:
        form = _program(X, y, lam)
        ours = in_turns({"ours": partial(optimum, form, Simplex())}, 3, warm=False)["ours"]
        whole = partial(optimum, form, Simplex(samples=None, features=None))
        rivals: dict[str, tuple[Callable[[], float], int, float]] = {
            "whole": (whole, 3, 1.0 / SLOWER)
        }
        if lam >= 10.0 and name in ("arcene", "madelon"):
            rivals["paper's, by HiGHS"] = partial(_primal, form, lam), 1, GENERATION
        for words, (work, repeats, target) in rivals.items():
            repeats = repeats if ours.least < 0.5 else 1
            theirs = in_turns({words: work}, repeats, warm=False)[words]
            times = theirs.least / ours.least
            same = abs(theirs.result - ours.result) <= 1e-7 * abs(theirs.result)
            what = f"lam {lam:g}, {1e3 * ours.least:.3g} ms, over the {words}"
            yield goal("generation", name, what, times, target, same and times >= target)


def _program(X: Any, y: Any, lam: float) -> Composite:
    """The linear program of the l1-norm SVM."""
    return Composite(X, y.astype(float), (Hinge(),), (lam * L1(),))


def _primal(form: Composite, lam: float) -> float:
    """`min sum xi + lam sum (w+ + w-)` with one row per sample, by HiGHS as it is."""
    from scipy.optimize import linprog

    Z = sparse.csc_array(form.X * form.y[:, None])
    rows = sparse.hstack([Z, -Z, form.y[:, None], sparse.eye_array(form.m)]).tocsc()
    cost = np.repeat([lam, 0.0, 1.0], [2 * form.n, 1, form.m])
    least = np.repeat([0.0, -np.inf, 0.0], [2 * form.n, 1, form.m])
    bounds = np.column_stack([least, np.full(cost.size, np.inf)])
    return float(linprog(cost, -rows, -np.ones(form.m), bounds=bounds, method="highs").fun)


BENCHMARK = Benchmark(
    "dca-speed",
    "DCA: exactness, iterations, warm programs, loops over CVXPY",
    {
        "inner": inner,
        "later": later,
        "simplex": simplex,
        "generation": generation,
        "loops": dca_loops.rows,
        "exact": dca_exact.rows,
    },
)
