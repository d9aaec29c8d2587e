"""DCA against its targets: exact inner problems, few iterations, warm programs, plain loops."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ucm import datasets
from ucm.bench.clock import timed
from ucm.bench.dca import DC_MODELS, ITERATIONS, MODELS, UCI, standardised
from ucm.compiler import compile as plan
from ucm.composite import Composite, DifferenceOfConvex, Tilt
from ucm.errors import ConvergenceWarning, DataError
from ucm.language.losses import Hinge
from ucm.language.penalties import L1
from ucm.solvers.driver import Monitor
from ucm.solvers.highs import HiGHS
from ucm.terms import Coefficient, Weights

__all__ = ["loop_over_cvxpy", "rows"]

INNER = 1e-7  # relative, of each convex problem against Clarabel
UP = 1e-12  # relative, that the objective may rise
WARM = 0.5  # of the first program's time, for all later ones together
GENERATION = 10.0  # times faster than the whole program
SLOWER = 1.2  # at most, where it does not pay
FACTOR = 20.0  # times faster than a loop over CVXPY
LAMBDAS = (0.1, 1.0, 10.0)
COMPARED = ("uci_pima", "uci_ionosphere", "uci_sonar", "uci_wpbc")


def rows() -> Iterator[dict[str, Any]]:
    """The targets, row by row."""
    for name in UCI:
        try:
            X, y = datasets.load(name)
        except DataError:
            yield _row("inner problems", name, "not at hand", np.nan, np.nan, None)
            continue
        X, y = standardised(X), y.astype(float)
        for lam in LAMBDAS:
            yield from _inner(name, X, y, lam)
    for m, n in ((2000, 100), (2000, 500)):
        yield from _warm(m, n)
    yield from _generation()
    for name in COMPARED:
        try:
            X, y = datasets.load(name)
        except DataError:
            continue
        yield from _loops(name, standardised(X), y.astype(float))


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


def _warm(m: int, n: int) -> Iterator[dict[str, Any]]:
    """The seconds of all programs after the first over those of the first: as it is solved here, and
    as the paper writes it, by HiGHS."""
    X, y = _noisy(m, n)
    form = Composite(X, y, (Hinge(),), (10.0 * L1(),))
    _, primal = timed(partial(_primal, form, 10.0))
    for model in ("CapOneNormSVM", "RLSVM1", "RLSVMC1", "RLSVM0"):
        seconds = _program_times(_form(MODELS[model](lam=10.0), X, y))
        later = sum(seconds[1:])
        for words, first in (("first", seconds[0]), ("paper's first", primal)):
            what = f"{model}, {len(seconds)} programs, of the {words}"
            share = later / first
            yield _row("later programs", f"{m} x {n}", what, share, WARM, share <= WARM)


def _program_times(form: DifferenceOfConvex) -> list[float]:
    """DCA written out, its programs timed."""
    session = HiGHS().open(form.G, Monitor())
    began = time.perf_counter()
    point = session.solve(form.first(), form.G.flat(), 1e-8)
    seconds = [time.perf_counter() - began]
    height = np.inf
    for _ in range(50):
        margin = form.G.margins(point.w, point.b)
        value = form.value(margin, point.w)
        if not value < height - 1e-10 * abs(value):
            break
        height = value
        began = time.perf_counter()
        point = session.solve(form.G, form.tilt(margin, point.w), 1e-8)
        seconds.append(time.perf_counter() - began)
    return seconds


def _generation() -> Iterator[dict[str, Any]]:
    """Column generation against HiGHS on the program as the paper writes it, (A.2), and against the
    whole of the dual program."""
    _objective(Composite(*_noisy(50, 3), (Hinge(),), (L1(),)), HiGHS())  # loads HiGHS
    for name, lam, gains in (
        ("madelon", 10.0, True),
        ("madelon", 30.0, True),
        ("arcene", 10.0, True),
        ("uci_sonar", 1.0, False),
        ("2000 x 100", 10.0, False),
    ):
        if name == "2000 x 100":
            X, y = _noisy(2000, 100)
        else:
            try:
                X, y = datasets.load(name)
            except DataError:
                yield _row("generation", name, "not at hand", np.nan, np.nan, None)
                continue
        X, y = np.ascontiguousarray(X, dtype=float), y.astype(float)
        form = Composite(X, y, (Hinge(),), (lam * L1(),))
        ours, taken = _best(partial(_objective, form, HiGHS()), 3)
        full, whole = _best(
            partial(_objective, form, HiGHS(samples=None, features=None)), 1 if gains else 3
        )
        paper, primal = timed(partial(_primal, form, lam))
        for words, value, seconds in (("paper's", paper, primal), ("whole dual", full, whole)):
            times = seconds / taken
            same = abs(value - ours) <= 1e-7 * abs(value)
            what = f"lam {lam:g}, over the {words} program"
            target = GENERATION if gains and words == "paper's" else 1.0 / SLOWER
            yield _row("generation", name, what, times, target, same and times >= target)


def _form(model: Any, X: Any, y: Any) -> DifferenceOfConvex:
    """The standard form of an objective over these samples."""
    compiled: Any = plan.compile(model, X, y)
    return compiled.form


def _best(work: Callable[[], float], repeat: int) -> tuple[float, float]:
    """The answer, and the seconds of the fastest of several runs."""
    runs = [timed(work) for _ in range(repeat)]
    return runs[0][0], min(seconds for _, seconds in runs)


def _objective(form: Composite, solver: HiGHS) -> float:
    point = solver.open(form, Monitor()).solve(form, form.flat(), 1e-8)
    return form.value(form.margins(point.w, point.b), point.w)


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


# --- whole runs ---------------------------------------------------------------------------------
class _Numbers(Weights):
    def of(self, coefficient: Coefficient) -> float:
        return coefficient.number


def _written(form: Composite, tilt: Tilt) -> tuple[Any, Any, Any]:
    """A tilted problem in CVXPY, as a person writes it."""
    import cvxpy as cp

    w, b = cp.Variable(form.n), cp.Variable()
    t = cp.multiply(form.y, form.X @ w + b)
    total = sum(loss.cvxpy(t, Coefficient(), _Numbers()) for loss in form.losses)
    total += sum(p.cvxpy(w, Coefficient(), _Numbers()) for p in form.penalties)
    return cp.Problem(cp.Minimize(total - tilt.margin @ t - tilt.normal @ w)), w, b


def loop_over_cvxpy(form: DifferenceOfConvex) -> float:
    """The objective of DCA as a plain loop: every problem written in CVXPY and solved by Clarabel."""
    problem, w, b = _written(form.first(), form.G.flat())
    problem.solve(solver="CLARABEL")
    height = value = np.inf
    for _ in range(100):
        margin = form.G.margins(w.value, float(b.value))
        value = form.value(margin, w.value)
        if not value < height - 1e-6 * abs(value):
            break
        height = value
        problem, w, b = _written(form.G, form.tilt(margin, w.value))
        problem.solve(solver="CLARABEL")
    return min(height, value)


def _dccp(form: DifferenceOfConvex, model: str, lam: float) -> float:
    """The same objective through DCCP, from the same start; inf when it fails."""
    import cvxpy as cp
    import dccp  # registers the method  # pyright: ignore[reportMissingImports]

    problem, w, b = _written(form.first(), form.G.flat())
    problem.solve(solver="CLARABEL")
    start = (w.value, b.value)
    t = cp.Variable(form.G.m)
    w, b = cp.Variable(form.G.n), cp.Variable()
    w.value, b.value = start
    t.value = form.G.margins(start[0], float(start[1]))
    total = sum(loss.cvxpy(t, Coefficient(), _Numbers()) for loss in form.G.losses)
    total += sum(p.cvxpy(w, Coefficient(), _Numbers()) for p in form.G.penalties)
    below = sum(loss.cvxpy(t, Coefficient(), _Numbers()) for loss in form.losses)
    if form.penalties:  # capped l1 only: the other excess is not DCP
        below += lam * cp.sum(cp.pos(cp.abs(w) - 1.0))
    equation = t == cp.multiply(form.G.y, form.G.X @ w + b)
    problem = cp.Problem(cp.Minimize(total - below), [equation])
    try:
        problem.solve(method="dccp", solver="CLARABEL")
    except (cp.error.SolverError, cp.error.DCPError, dccp.utils.NonDCCPError, ValueError):
        return np.inf
    if w.value is None:
        return np.inf
    return form.value(form.G.margins(w.value, float(b.value)), w.value)


def _loops(name: str, X: Any, y: Any) -> Iterator[dict[str, Any]]:
    """The best of three runs each; the objective is not worse than the loop's by more than 1e-6."""
    for model, lam in itertools.product(DC_MODELS, (0.1, 1.0)):
        declared = MODELS[model](lam=lam)

        def solve(declared: Any = declared) -> Any:
            return plan.compile(declared, X, y).solve()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            ours, first = timed(solve)
            seconds = min(first, *(timed(solve)[1] for _ in range(4)))
            form = _form(declared, X, y)
            loop = partial(loop_over_cvxpy, form)
            height, theirs = timed(loop)
            theirs = min(theirs, *(timed(loop)[1] for _ in range(2)))
            good = ours.objective <= height + 1e-6 * abs(height)
            times = theirs / seconds
            words = f"{model}, lam {lam:g}"
            yield _row("over CVXPY", name, words, times, FACTOR, good and times >= FACTOR)
            if model in ("RLSVM2", "RLSVM1", "CapOneNormSVM", "RLSVMC1"):
                yield from _against_dccp(name, form, model, lam, ours.objective, seconds)


def _against_dccp(
    name: str, form: DifferenceOfConvex, model: str, lam: float, objective: float, seconds: float
) -> Iterator[dict[str, Any]]:
    words = f"{model}, lam {lam:g}"
    try:
        height, theirs = timed(lambda: _dccp(form, model, lam))
    except ImportError:
        yield _row("over DCCP", name, f"{words}: dccp is not installed", np.nan, FACTOR, None)
        return
    if np.isinf(height):
        yield _row("over DCCP", name, f"{words}: dccp fails", np.nan, FACTOR, None)
        return
    times = theirs / seconds
    good = objective <= height + 1e-6 * abs(height)
    yield _row("over DCCP", name, words, times, FACTOR, good and times >= FACTOR)
