"""A time limit ends every solver, with what is proven by then."""

from __future__ import annotations

import re
import tracemalloc
import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm import neg, pos
from ucm.compiler import robust
from ucm.data.bound_data import bind
from ucm.errors import ConvergenceWarning, ParameterError
from ucm.evidence import feasible_point
from ucm.forms import sphere
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor, time_of
from ucm.forms.solver import STATUSES, Status
from ucm.forms.sphere import UnitNorm
from ucm.numerics.conic_programs import accuracy, attempt
from ucm.solvers.sphere.faces import Cuts

rng = np.random.default_rng(5)
y = np.where(rng.random(1200) < 0.5, 1.0, -1.0)
X = rng.standard_normal((1200, 30)) + 0.4 * y[:, None]
FEW, OF_FEW = X[:300, :12], y[:300]

CUT = {  # a model, and a solver of it that needs longer
    "active-set": (ucm.models.nu_svm(0.5), "active-set", {}),
    "ssnal": (ucm.models.l2_nu_svm(0.3), "ssnal", {}),
    "ssnal-cg": (ucm.models.l2_nu_svm(0.3), "ssnal-cg", {}),
    "apg": (ucm.models.kl_svm(0.5), "apg", {}),
    "alm": (ucm.models.coherent_mm_mpm(0.3), "alm", {}),
    "coupled newton": (ucm.models.coherent_mm_mpm(0.3), "ssnal", {}),
    "secular": (ucm.models.mm_mpm(0.1), "secular", {}),
    "highs, norms": (ucm.models.enu_svm(0.6, 1.0), "highs", {}),
    "clarabel": (ucm.models.nu_svm(0.5), "clarabel", {}),
    "scs": (ucm.models.nu_svm(0.5), "scs", {}),
    "smo": (ucm.models.nu_svm(0.5), "auto", {"kernel": "rbf"}),
    "mdm": (ucm.models.nu_svm(0.5), "mdm", {}),
    "gsk": (ucm.models.nu_svm(0.5), "gsk", {}),
    "clip-mdm": (ucm.models.nu_svm(0.5), "clip-mdm", {}),
    "clip-gsk": (ucm.models.nu_svm(0.5), "clip-gsk", {}),
    "smo, p = 2": (ucm.models.psvm(2.0, 1.0), "smo", {"kernel": "rbf"}),
    "smo, p = 1": (ucm.models.psvm(1.0, 10.0), "smo", {}),
    "psmo": (ucm.models.psvm(2.0, 1.0), "psmo", {"kernel": "rbf"}),
    "prox-alm and l2": (ucm.models.psvm(1.5, 1.0), "prox-alm", {}),
    "compiled prox-alm": (ucm.models.svm(0.5), "prox-alm", {}),
    "prox-newton": (ucm.Logistic() + 0.5 * ucm.LInf(), "prox-newton", {}),
    "prox-newton, l1": (ucm.Logistic() + 0.5 * ucm.L1(), "prox-newton", {}),
    "prox-alm": (ucm.Hinge() + 0.5 * ucm.LInf(), "prox-alm", {}),
    "clarabel, losses": (ucm.Hinge() + 0.5 * ucm.LInf(), "clarabel", {}),
    "highs": (ucm.models.one_norm_svm(0.5), "highs", {}),
    "dca": (ucm.models.rlsvm1(0.5), "dca", {}),
    "rapminos": (ucm.models.enu_svm(0.1), "rapminos", {}),
    "faces": (ucm.models.enu_svm(0.1, np.inf), "faces", {}),
    "faces, by cuts": (ucm.RobustMargin(ucm.models.kl_svm(0.05), norm=np.inf), "faces", {}),
    "level-set": (ucm.RobustMargin(ucm.models.mm_mpm(0.1), norm=1.5), "level-set", {}),
    "linearize": (ucm.models.mm_mpm(9.0), "linearize", {}),
    "subgradient": (ucm.models.enu_svm(0.1), "subgradient", {}),
}


def test_no_limit_is_never_late() -> None:
    monitor = Monitor()
    assert not monitor.timed_out and monitor.seconds_left == np.inf


def test_a_problem_inside_has_the_time_of_both() -> None:
    monitor = Monitor(time_limit=1e-9)
    part = monitor.child(1e-3, 7)
    assert part.timed_out and part.max_iter == 7
    assert monitor.report(1, 0.0, 0.0)


def test_a_growing_ball_passes_the_time_on() -> None:
    class Watched(ucm.extend.Solver[ucm.extend.MinNorm]):
        name = "watched"

        def refuse(self, form: ucm.extend.MinNorm) -> str | None:
            return ucm.solvers.SSNAL().refuse(form)

        def solve(self, form: ucm.extend.MinNorm, monitor: Monitor, start: Any = None) -> ucm.extend.Answer:
            limits.add(monitor.time_limit)
            return ucm.solvers.SSNAL().solve(form, monitor, start)

    limits: set[float | None] = set()
    model = ucm.RobustMargin(ucm.models.mm_mpm(0.1), norm=1.5)
    solution = ucm.compile(model, X, y, solver=ucm.solvers.LevelSetNewton((Watched(),))).solve(time_limit=1e3)
    assert solution.status == "optimal" and limits == {1e3}


def test_cutting_planes_of_a_face_ask_for_the_time() -> None:
    image = ucm.models.kl_svm(0.05).lower(bind(X, y))
    form = UnitNorm.of(MinNorm.of(image, 2.0, X.size), np.inf)
    g = next(iter(form.vertices()))
    assert Cuts(form, Monitor(1e-6), form.start()).reach(g) is not None
    assert Cuts(form, Monitor(1e-6, time_limit=1e-9), form.start()).reach(g) is None


class Clock:
    """A clock that stands still for some readings, and then is beyond every limit.

    From then on a reading takes 10 ms, so that the search of a feasible point, which has 0.1 s, ends too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, readings: int) -> None:
        self.readings, self.late = readings, 0
        monkeypatch.setattr("ucm.forms.monitor.clock", self)

    def __call__(self) -> float:
        self.readings -= 1
        self.late += self.readings < 0
        return 0.0 if self.readings >= 0 else 1e6 + 0.01 * self.late


@pytest.mark.parametrize("readings", [1, 4, 20])
@pytest.mark.parametrize("case", CUT)
def test_every_solver_ends_soon_after_the_time_is_over(
    case: str, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon: it asks for the time only a few times more."""
    model, solver, options = CUT[case]
    plan = ucm.compile(model, X, y, solver=solver, **options)
    clock = Clock(monkeypatch, readings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = plan.solve(time_limit=1.0, tol=1e-12)
    assert clock.late < 40
    if readings == 1 or solution.status == "time_limit":
        assert solution.status == "time_limit"
        assert "the time limit of 1 s came first" in str(caught[-1].message)
    certificate = solution.certificate
    slack = 1e-6 * abs(certificate.primal) + 10.0 * certificate.violation**0.5
    assert certificate.dual <= certificate.primal + slack or np.isnan(certificate.dual)


@pytest.mark.parametrize("case", [case for case in CUT if case not in ("scs", "faces", "subgradient")])
def test_an_observer_changes_neither_solver_nor_digits(case: str) -> None:
    """Nor does a solve before: its counts are of one solve."""
    model, solver, options = CUT[case]
    plan = ucm.compile(model, FEW, OF_FEW, solver=solver, **options)

    def found(**observed: Any) -> tuple:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            s = plan.solve(max_iter=300, **observed)
        vectors = [v.tobytes() for v in (s.w, s.weights) if v is not None]
        return s.stats, (s.stats.solver, s.status, s.objective, s.certificate.dual, vectors)

    (first, free), (second, again) = found(), found()
    assert second.passes <= first.passes and second.kernel_operations <= first.kernel_operations
    assert free == again == found(callback=lambda record: None)[1] == found(trace=3)[1]


LONG: dict[str, tuple[Any, int, float]] = {  # a model, how many features, how far the classes are apart
    "smo": (ucm.models.psvm(1.0, 1e6), 5, 0.0),
    "active-set": (ucm.models.nu_svm(0.9), 1500, 1.0),
    "gsk": (ucm.models.nu_svm(0.5), 9, 1.0),
    "rapminos": (ucm.models.enu_svm(0.05), 150, 0.0),
    "highs": (ucm.models.one_norm_svm(1e-3), 250, 0.0),
}


@pytest.mark.parametrize("solver", LONG)
def test_a_long_solve_asks_for_the_time_often(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them works long between two reports: few multiplications lie between two readings."""
    model, n, apart = LONG[solver]
    wide = np.random.default_rng(1)
    labels = np.where(wide.random(4000) < 0.5, 1.0, -1.0)
    table = wide.standard_normal((4000, n)) + apart * labels[:, None]
    plan = ucm.compile(model, table, labels, solver=solver)
    clock = Clock(monkeypatch, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stats = plan.solve(time_limit=0.1, tol=1e-13).stats
    multiplications = 2.0 * plan.data.stored * (stats.passes + stats.forming)
    assert multiplications + n * stats.kernel_operations < 2e9 and clock.late < 40


def test_pair_updates_whose_rows_python_computes_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def slow(A: Any, B: Any) -> Any:
        rows.append(len(A))
        return np.exp(-0.5 * ((A[:, None, :] - B) ** 2).sum(axis=2))

    plan = ucm.compile(ucm.models.nu_svm(0.5), X[:, :3], y, kernel=slow, cache_size=1)
    rows.clear()
    monkeypatch.setattr("ucm.forms.monitor.clock", lambda: 1e-3 * sum(rows))
    with pytest.warns(ConvergenceWarning, match="the time limit of 0.5 s came first"):
        assert plan.solve(time_limit=0.5).stats.solver == "smo"
    assert sum(rows) < 2500  # the diagonal and two products of a certificate; 4,300 without the limit


class _Soon(Monitor):
    """A monitor whose time is over as soon as a program in other hands has begun."""

    @property
    def seconds_left(self) -> float:
        return 1e-3


@pytest.mark.parametrize(("solver", "status"), [("CLARABEL", "user_limit"), ("SCS", "optimal_inaccurate")])
def test_an_external_solver_gets_the_remaining_time(solver: str, status: str) -> None:
    import cvxpy as cp

    v = cp.Variable(200)
    A, b = rng.standard_normal((800, 200)), rng.standard_normal(800)
    problem = cp.Problem(cp.Minimize(cp.norm1(A @ v - b) + cp.norm2(v)))
    assert attempt(problem, solver, _Soon(time_limit=1e3), **accuracy(solver, 1e-13)) == ""
    assert problem.status == status
    assert attempt(problem, "CLARABEL", Monitor(time_limit=1e-9)) == "" and v.value is None


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    for case in ("active-set", "ssnal", "secular", "smo", "clip-mdm", "highs"):
        model, solver, options = CUT[case]
        plan = ucm.compile(model, FEW, OF_FEW, solver=solver, **options)
        free, limited = plan.solve(), plan.solve(time_limit=1000.0)
        assert free.status == limited.status
        assert limited.objective == pytest.approx(free.objective, rel=1e-14)


def test_the_limit_is_of_compile_and_solve_of_a_path_and_of_a_fit() -> None:
    with pytest.warns(ConvergenceWarning):
        assert ucm.solve(ucm.models.nu_svm(0.5), X, y, time_limit=1e-9).status == "time_limit"
    with pytest.warns(ConvergenceWarning):
        found = ucm.path(ucm.models.nu_svm(0.5), X, y, nu=[0.5, 0.6, 0.7], time_limit=1e-9)
    assert [s.status for s in found] == ["time_limit"] * 3
    classes = np.arange(300) % 3
    estimator = ucm.Classifier(ucm.models.nu_svm(0.4), time_limit=1e-9)
    with pytest.warns(ConvergenceWarning):
        estimator.fit(FEW + classes[:, None], classes)
    assert {s.status for s in estimator.solution_} == {"time_limit"}
    assert ucm.Classifier(ucm.models.nu_svm(0.5), time_limit=60.0).fit(FEW, OF_FEW).n_iter_ > 0


ANYWHERE = {  # models with a route in memory and over rows
    "nu": ucm.models.nu_svm(0.5),
    "kl": ucm.models.kl_svm(0.9),
    "chi": 2 * ucm.ChiSquare(ucm.signed, rho=0.05),
    "hinge": ucm.models.svm(0.5),
    "squared hinge": ucm.models.psvm(2.0, 0.1),
    "logistic": ucm.Logistic() + 0.5 * ucm.L2(),
    "l1": ucm.Hinge() + 0.1 * ucm.L1(),
    "ramp": ucm.models.rlsvm2(1.0),
    "moments": ucm.models.mm_mpm(0.1),
}


@pytest.mark.parametrize("limit", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("where", ["memory", "rows", "features"])
@pytest.mark.parametrize("name", ANYWHERE)
def test_any_limit_gives_an_interval(name: str, where: str, limit: float) -> None:
    """Also where the time is over before the first step: a direction, an interval, and the limit as given."""
    classifier = ucm.Classifier(ANYWHERE[name], time_limit=limit)
    data: Any = (X, y)
    if where == "rows":
        data = (ucm.open_rows(X, y, block=400),)
    elif where == "features":
        classifier.set_params(kernel="rbf", kernel_approx=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(*data)
    solution = classifier.solution_
    low, high = solution.certificate.dual, solution.certificate.primal
    assert np.isfinite([low, high]).all() and solution.certificate.violation <= 1e-9
    best = ucm.solve(ANYWHERE[name], X, y) if where != "features" else solution
    slack = 1e-5 * max(1.0, abs(best.objective))
    if best.certificate.kind == "global":  # of a non-convex model the interval is of the last convex problem
        assert low <= best.objective + slack and best.objective <= high + slack
    assert classifier.predict(X).shape == y.shape
    if solution.status == "time_limit":
        assert f"the time limit of {limit:g} s came first" in solution.message
    else:
        assert solution.status in ("optimal", "local")


WITH_ZERO = {
    "mm_fda": ucm.models.mm_fda(3.0),
    "nu": ucm.models.nu_svm(0.01),
    "coherent": ucm.models.coherent_mm_fda(3.0),
    "wasserstein": ucm.Wasserstein(ucm.pos, 3.0) - ucm.ChiSquare(ucm.neg, rho=0.3),
}


@pytest.mark.parametrize("limit", [1e-9, 0.001, 0.01])
@pytest.mark.parametrize("name", WITH_ZERO)
def test_any_limit_gives_a_direction_where_zero_may_lie_in_the_set(name: str, limit: float) -> None:
    classifier = ucm.Classifier(WITH_ZERO[name], time_limit=limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(FEW, OF_FEW)
        best = ucm.solve(WITH_ZERO[name], FEW, OF_FEW)
    solution = classifier.solution_
    assert np.linalg.norm(solution.w) == pytest.approx(1.0) and np.isfinite(solution.b)
    assert solution.status in ("time_limit", "optimal", "local", "stationary")
    low, high = solution.certificate.dual, solution.certificate.primal
    assert low <= best.objective + 1e-9 and best.certificate.dual <= high + 1e-9


@pytest.mark.parametrize("name", WITH_ZERO)
def test_the_time_may_end_anywhere_on_the_way_to_a_direction(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for readings in (*range(1, 40), *range(40, 280, 40)):
        plan, _ = ucm.compile(WITH_ZERO[name], FEW, OF_FEW), Clock(monkeypatch, readings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution: Any = plan.solve(time_limit=60.0)
        assert np.linalg.norm(solution.w) == pytest.approx(1.0) and np.isfinite(solution.b)
        assert solution.certificate.dual <= solution.certificate.primal


@pytest.mark.parametrize("name", ["nu", "hinge", "moments"])
@pytest.mark.parametrize("limit", [0.001, 0.01, 0.05])
def test_any_time_limit_gives_an_interval_with_a_kernel(name: str, limit: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ucm.solve(ANYWHERE[name], FEW, OF_FEW, kernel="rbf", time_limit=limit)
        newton = ucm.solve(ANYWHERE["nu"], FEW, OF_FEW, kernel="rbf", solver="smo", time_limit=limit)
    for solution in (found, newton):
        bounds = solution.certificate.dual, solution.certificate.primal
        assert np.isfinite(bounds).all() and bounds[0] <= bounds[1] + 1e-12
        assert solution.certificate.violation <= 1e-9


def test_no_span_is_computed_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many coordinates, as with a kernel, it takes longer than most limits."""
    spans: list[int] = []
    span = sphere._span
    monkeypatch.setattr(robust, "_SPANNED", 5)
    monkeypatch.setattr(sphere, "_span", lambda *given: spans.append(1) or span(*given))
    for model in (ucm.models.mm_mpm(0.1), ucm.models.mm_mpm(100.0)):
        with pytest.warns(ConvergenceWarning):
            found = ucm.solve(model, FEW, OF_FEW, time_limit=1e-9)
        assert found.status == "time_limit" and not spans
    assert ucm.solve(ucm.models.mm_mpm(100.0), FEW, OF_FEW).w is not None and spans


def test_a_budget_that_is_too_small_is_named_by_the_classifier() -> None:
    solver = ucm.solvers.OutOfCoreActiveSet(ucm.solvers.SSNAL(), budget=100)
    rows = ucm.open_rows(X, y, block=400)
    with pytest.warns(ConvergenceWarning), pytest.raises(ucm.SolverError, match="raise the budget"):
        ucm.Classifier(ucm.models.nu_svm(0.5), solver=solver).fit(rows)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "1", True, [1.0]])
def test_a_limit_is_a_positive_number(wrong: Any) -> None:
    model = ucm.models.nu_svm(0.5)
    for call in (
        lambda: ucm.solve(model, FEW, OF_FEW, time_limit=wrong),
        lambda: ucm.compile(model, FEW, OF_FEW).solve(time_limit=wrong),
        lambda: ucm.path(model, FEW, OF_FEW, nu=[0.5], time_limit=wrong),
        lambda: ucm.Classifier(model, time_limit=wrong).fit(FEW, OF_FEW),
    ):
        with pytest.raises(ParameterError, match="time_limit is a positive number of seconds"):
            call()


def test_an_empty_set_is_reported_within_the_time_limit() -> None:
    ball = ucm.Ellipsoid(pos.mean, pos.cov, ucm.Param("kappa", 1e-3))
    far = ball & ucm.Ellipsoid(neg.mean, neg.cov, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            status = ucm.solve(far - ucm.Hull(neg), X, y, time_limit=1e-9).status
        except ucm.EmptySetError:
            status = "empty"
    assert status in ("time_limit", "empty")


# --- the statuses -------------------------------------------------------------------------------
def test_every_status_is_in_the_docs_and_no_other(root: Path) -> None:
    page = (root / "docs" / "solve.md").read_text("utf-8")
    page = page.partition("## Statuses")[2].partition("## Errors")[0]
    listed = re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\| (`.*?`) \|", page, re.M)))
    raised = {"infeasible"}  # of an answer: a set without a point is an error
    assert set(get_args(Status)) - raised == set(listed) and set(STATUSES) < set(get_args(Status))


# --- before a solve --------------------------------------------------------------------------------
def test_the_limit_holds_where_a_problem_is_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the covariance, the test of a matrix, the intervals of parameters, the rows of the sphere."""
    wide = np.random.default_rng(3)
    table, labels = wide.standard_normal((60, 600)), np.where(np.arange(60) % 2, 1.0, -1.0)
    monkeypatch.setattr("ucm.data.moments.CHUNK", 6000)  # 10 rows
    for model in (
        ucm.Hinge() + ucm.Quadratic(pos.cov),
        ucm.Hull(ucm.signed, weights=ucm.LossBall(ucm.Hinge(1.5), lam=1.0)),
        ucm.Hinge() + ucm.Param("lam", 0.5, relative=True) * ucm.L1(),
    ):
        Clock(monkeypatch, 1)
        with pytest.raises(ucm.SolverError, match="raise time_limit"):
            ucm.solve(model, table, labels, time_limit=60.0)
    monkeypatch.setattr("ucm.forms.monitor.clock", lambda: 0.0)
    image = MinNorm.of(ucm.models.l2_nu_svm(0.05).lower(bind(table, labels)), 2.0, table.size)
    hulls = MinNorm.of(ucm.models.nu_svm(0.05).lower(bind(table, labels)), 2.0, table.size)
    with time_of(Monitor(time_limit=1e-9, started=-1.0)):
        for form in (image, hulls):
            with pytest.raises(ucm.SolverError, match="raise time_limit"):
                UnitNorm.of(form, 2.0)
    with time_of(None):
        assert UnitNorm.of(hulls, 2.0).rank == 58


def test_no_outside_program_and_no_direction_begins_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the solver nor of the certificate, nor for the span of U; what is not proven says so."""
    import cvxpy as cp

    late: list[str] = []
    clock: Clock

    def counted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def call(*given: Any, **options: Any) -> Any:
            late.extend([name] * (clock.late > 0))
            return original(*given, **options)

        monkeypatch.setattr(owner, name, call)

    counted(cp.Problem, "get_problem_data")
    counted(MinNorm, "farthest")
    monkeypatch.setattr(robust, "_SPANNED", 5)
    overlap = ucm.GroupLasso(np.arange(12) // 3) + ucm.GroupLasso((np.arange(12) + 1) // 3)
    models: list[Any] = [
        ucm.Logistic() + 2.0 * ucm.LInf() + overlap,
        ucm.Logistic() + 200.0 * ucm.LInf() + overlap,  # w = 0
        ucm.Gelbrich(pos, 0.1, 0.5) - ucm.Gelbrich(neg, 0.1, 0.5),
    ]
    for model in models:
        for readings in (1, 3, 8, 21):
            plan, clock = ucm.compile(model, FEW, OF_FEW), Clock(monkeypatch, readings)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                solution = plan.solve(time_limit=60.0)
            assert not late and solution.status in ("time_limit", "optimal")


@pytest.mark.parametrize("per_entry", [0.0, 1.0])
def test_a_long_search_of_a_feasible_point_does_not_begin_after_the_limit(
    per_entry: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = feasible_point._moved
    monkeypatch.setattr(feasible_point, "_moved", lambda *given: searched.append(1) or search(*given))
    monkeypatch.setattr(feasible_point, "_PER_ENTRY", per_entry)
    plan = ucm.compile(ucm.models.coherent_mm_mpm(0.3), FEW, OF_FEW, solver="alm")
    Clock(monkeypatch, 4)
    with pytest.warns(ConvergenceWarning):
        solution = plan.solve(time_limit=1.0, tol=1e-12)
    assert solution.status == "time_limit" and bool(searched) == (per_entry == 0.0)


def test_a_newton_system_that_the_limit_cuts_leaves_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of products of many features ask for the time, in solvers and where a point is moved into U."""
    monkeypatch.setattr("ucm.data.moments._LONG", 1)
    models: dict[str, Any] = {
        "prox-newton": ucm.Logistic() + 0.5 * ucm.LInf(),
        "prox-alm": ucm.Hinge() + 0.5 * ucm.LInf(),
        "dca": ucm.models.rlsvm1(0.5),
        "ssnal": ucm.models.coherent_mm_mpm(0.3),
    }
    for solver, model in models.items():
        plan = ucm.compile(model, FEW, OF_FEW, solver=solver)
        for readings in range(1, 30, 4):
            Clock(monkeypatch, readings)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                solution = plan.solve(time_limit=60.0)
            assert solution.status in ("time_limit", "optimal", "local") and solution.w is not None


def test_work_that_nothing_interrupts_begins_only_where_the_time_suffices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By estimates: of CVXPY's compilation and of eigenvalues."""
    outer = Monitor(time_limit=60.0)
    inner = outer.child(1e-6)
    assert inner.allows(50.0) and not inner.timed_out
    assert not inner.allows(70.0) and inner.timed_out and outer.timed_out
    assert Monitor().allows(np.inf)
    monkeypatch.setattr("ucm.numerics.conic_programs._PER_NUMBER", 1.0)
    monkeypatch.setattr("ucm.language.penalties.quadratic._PER_CUBE", 1.0)
    plan = ucm.compile(ucm.Hinge() + ucm.Lp(1.5), FEW, OF_FEW, solver="clarabel")
    with pytest.warns(ConvergenceWarning, match="the time limit of 60 s came first"):
        assert plan.solve(time_limit=60.0).status == "time_limit"
    for model in (
        ucm.Hinge() + ucm.Quadratic(pos.cov),
        ucm.Hinge() + ucm.Param("lam", 0.5, relative=True) * ucm.L1(),
    ):
        with pytest.raises(ucm.SolverError, match="raise time_limit"):
            ucm.solve(model, FEW, OF_FEW, time_limit=60.0)
        assert ucm.solve(model, FEW, OF_FEW).status == "optimal"


def test_a_conic_program_needs_no_matrix_of_variables_times_samples() -> None:
    """Such a matrix, of parameters in CVXPY, has 3,000 x 2,500 entries here, 60 MB, times some copies."""
    labels = np.where(np.arange(2000) % 2, 1.0, -1.0)
    table = sparse.random_array((2000, 500), density=2e-3, rng=np.random.default_rng(2), format="csr")
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            ucm.compile(ucm.Hinge() + ucm.Lp(1.5), table, labels, solver="clarabel").solve(max_iter=1)
        assert tracemalloc.get_traced_memory()[1] < 5e7
    finally:
        tracemalloc.stop()
