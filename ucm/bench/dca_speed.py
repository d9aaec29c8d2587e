"""The convex problems of DCA: exact, few, warm from one to the next, with generation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ucm.bench.clock import timed
from ucm.bench.dca import DC_MODELS, ITERATIONS, MODELS, UCI, standardised
from ucm.compiler import compile as plan
from ucm.data import datasets
from ucm.errors import DataError
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex, InnerSolver
from ucm.language.losses import Hinge
from ucm.language.penalties import L1
from ucm.solvers.objective.highs import HiGHS
from ucm.solvers.objective.simplex import Simplex

__all__ = ["generation", "inner", "later"]

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


def inner() -> Iterator[dict[str, Any]]:
    """Each convex problem against its twin, iterations, monotone."""
    for name in UCI:
        try:
            X, y = datasets.load(name)
        except DataError:
            yield _row("inner problems", name, "not at hand", np.nan, np.nan, None)
            continue
        X, y = standardised(X), y.astype(float)
        for lam in LAMBDAS:
            yield from _inner(name, X, y, lam)


def later() -> Iterator[dict[str, Any]]:
    """The programs after the first, 2000 x 100 and 2000 x 500."""
    for m, n in ((2000, 100), (2000, 500)):
        yield from _later(m, n)


def _row(
    part: str, data: str, model: str, measured: float, target: float, within: bool | None
) -> dict[str, Any]:
    return {
        "part": part,
        "data": data,
        "model": model,
        "measured": measured,
        "target": target,
        "within": within,
    }


# --- convex problems ----------------------------------------------------------------------------
def _inner(name: str, X: Any, y: Any, lam: float) -> Iterator[dict[str, Any]]:
    """Each problem of a run against its twin; iterations; monotone."""
    for model, make in MODELS.items():
        compiled = plan.compile(make(lam=lam), X, y)
        solution = compiled.solve(tol=1e-8)
        check = compiled.verify()
        heights = [record["objective"] for record in solution.history]
        rise = max([0.0, *((b - a) / abs(a) for a, b in itertools.pairwise(heights))])
        where = f"{name}, lam {lam:g}"
        yield _row(
            "inner problem", where, model, check.difference, INNER, check.difference <= INNER
        )
        if model in DC_MODELS:
            count = solution.stats.iterations
            yield _row("iterations", where, model, count, ITERATIONS, count <= ITERATIONS)
            yield _row("monotone", where, model, rise, UP, rise <= UP)


def _noisy(m: int, n: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((m, n))
    w = np.where(np.arange(n) < 10, 1.0, 0.0)
    return X, np.where(X @ w + 2.0 * generator.standard_normal(m) >= 0.0, 1.0, -1.0)


def _later(m: int, n: int) -> Iterator[dict[str, Any]]:
    """The seconds of all programs after the first over those of the first: by HiGHS as the paper
    writes it and in its dual, and as it is solved here."""
    X, y = _noisy(m, n)
    form = Composite(X, y, (Hinge(),), (10.0 * L1(),))
    _objective(Composite(X[:50], y[:50], (Hinge(),), (L1(),)), Simplex())  # loads it
    whole = HiGHS(samples=None, features=None)
    firsts = {"paper's first, by HiGHS": timed(partial(_primal, form, 10.0))[1]} if n < 500 else {}
    firsts["first, by HiGHS"] = timed(partial(_objective, form, whole))[1]
    for model in ("CapOneNormSVM", "RLSVM1", "RLSVMC1", "RLSVM0"):
        seconds = _program_times(_form(MODELS[model](lam=10.0), X, y))
        after = sum(seconds[1:])
        for words, first in {**firsts, "first here": seconds[0]}.items():
            what = f"{model}, {len(seconds) - 1} programs, {1e3 * after:.3g} ms, of the {words}"
            share = after / first
            yield _row("later programs", f"{m} x {n}", what, share, WARM, share <= WARM)


def _program_times(form: DifferenceOfConvex) -> list[float]:
    """DCA written out, its programs timed."""
    session = Simplex().open(form.G, Monitor())
    began = time.perf_counter()
    answer = session.solve(form.first(), form.G.flat(), 1e-8)
    seconds = [time.perf_counter() - began]
    height = np.inf
    for _ in range(50):
        w, b = answer.plane
        margin = form.G.margins(w, b)
        value = form.value(margin, w)
        if not value < height - 1e-10 * abs(value):
            break
        height = value
        began = time.perf_counter()
        answer = session.solve(form.G, form.tilt(margin, w), 1e-8)
        seconds.append(time.perf_counter() - began)
    return seconds


def generation() -> Iterator[dict[str, Any]]:
    """Generation, as the routes choose it, against HiGHS on the program as the paper writes it, (A.2), and
    against the same solver on the whole program."""
    _objective(Composite(*_noisy(50, 3), (Hinge(),), (L1(),)), HiGHS())  # loads HiGHS
    _objective(Composite(*_noisy(50, 3), (Hinge(),), (L1(),)), Simplex())
    for name, lams in GENERATED.items():
        try:
            X, y = _noisy(2000, 100) if name == "2000 x 100" else datasets.load(name)
        except DataError:
            yield _row("generation", name, "not at hand", np.nan, np.nan, None)
            continue
        X = standardised(X) if name in UCI else np.ascontiguousarray(X, dtype=float)
        for lam in lams:
            form = Composite(X, y.astype(float), (Hinge(),), (lam * L1(),))
            yield from _generated(name, form, lam)


def _generated(name: str, form: Composite, lam: float) -> Iterator[dict[str, Any]]:
    ours, taken = _best(partial(_objective, form, Simplex()), 3)
    rivals = {"whole": (partial(_objective, form, Simplex(samples=None, features=None)), 3)}
    gains = lam >= 10.0 and name in ("arcene", "madelon")
    if gains:
        rivals["paper's, by HiGHS"] = (partial(_primal, form, lam), 1)
    for words, (work, repeat) in rivals.items():
        value, seconds = _best(work, repeat if taken < 0.5 else 1)
        times = seconds / taken
        same = abs(value - ours) <= 1e-7 * abs(value)
        what = f"lam {lam:g}, {1e3 * taken:.3g} ms, over the {words}"
        target = 1.0 / SLOWER if words == "whole" else GENERATION
        yield _row("generation", name, what, times, target, same and times >= target)


def _form(model: Any, X: Any, y: Any) -> DifferenceOfConvex:
    """The standard form of an objective over these samples."""
    compiled: Any = plan.compile(model, X, y)
    return compiled.form


def _best(work: Callable[[], float], repeat: int) -> tuple[float, float]:
    """The answer, and the seconds of the fastest of several runs."""
    runs = [timed(work) for _ in range(repeat)]
    return runs[0][0], min(seconds for _, seconds in runs)


def _objective(form: Composite, solver: InnerSolver) -> float:
    w, b = solver.open(form, Monitor()).solve(form, form.flat(), 1e-8).plane
    return form.value(form.margins(w, b), w)


def _primal(form: Composite, lam: float) -> float:
    """`min sum xi + lam sum (w+ + w-)` with one row per sample, by HiGHS as it is."""
    import highspy
    from scipy import sparse

    m, n = form.m, form.n
    Z = sparse.csc_matrix(form.X * form.y[:, None])
    labels = sparse.csc_matrix(form.y[:, None])
    A: Any = sparse.hstack([Z, -Z, labels, sparse.identity(m)]).tocsc()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = A.shape[1], m
    lp.col_cost_ = np.concatenate([np.full(2 * n, lam), [0.0], np.ones(m)])
    lp.col_lower_ = np.concatenate([np.zeros(2 * n), [-np.inf], np.zeros(m)])
    lp.col_upper_ = np.full(A.shape[1], np.inf)
    lp.row_lower_, lp.row_upper_ = np.ones(m), np.full(m, np.inf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    matrix: Any = lp.a_matrix_
    matrix.start_, matrix.index_, matrix.value_ = A.indptr, A.indices, A.data
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(lp)
    highs.run()
    return float(highs.getInfo().objective_function_value)
