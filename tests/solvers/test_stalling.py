"""Solvers stop by themselves where rounding or the scale of the features leaves nothing to gain."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from conftest import Loader
from scipy import sparse

import ucm
from ucm import neg, pos
from ucm.compiler.route import ROUTES
from ucm.errors import ConvergenceWarning, SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Session, Solver
from ucm.solvers import APG, DCA, SSNAL, Conic, LevelSetNewton, ProxNewton, TrustRegionSecular

LINE = np.arange(20.0)[:, None]
HALVES = np.where(np.arange(20) < 10, 1.0, -1.0)
PAIR = np.outer([1.0, -2.0], np.arange(18.0))
HUGE = np.array([[1e6], [2e6]])


def settled(solution: Any) -> bool:
    """Whether the word fits the certificate."""
    close = abs(solution.certificate.relative_gap) <= 1e-6
    return close == (solution.status in ("optimal", "stationary", "local"))


@pytest.mark.parametrize(
    ("model", "X", "y"),
    [
        (ucm.Hinge(100) + 0.001 * ucm.MCP(), LINE, HALVES),
        (ucm.Hinge(100) + 0.001 * ucm.MCP(), LINE, -HALVES),
        (ucm.Hinge(100) + 0.001 * ucm.MCP(), LINE, np.where(np.arange(20) % 2, 1.0, -1.0)),
        (ucm.Hinge(2) + ucm.ExpL0(100), PAIR, np.array([1.0, -1.0])),
        (ucm.Hinge(2) + ucm.ExpL0(100), PAIR, np.array([-1.0, 1.0])),
        (ucm.SquaredHinge() + 0.1 * ucm.ElasticNet(), HUGE, np.array([1.0, -1.0])),
        (ucm.SquaredHinge() + 0.1 * ucm.ElasticNet(), 1e3 * HUGE, np.array([-1.0, 1.0])),
        (ucm.Logistic() + 0.1 * ucm.ElasticNet(), HUGE, np.array([1.0, -1.0])),
    ],
    ids=[f"{k}" for k in range(8)],
)
def test_a_solve_at_the_limit_of_rounding_ends(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = ucm.solve(model, X, y)
    trivial = model.value(np.zeros(y.size), np.zeros(X.shape[1]))
    assert settled(solution), (solution.status, str(solution.certificate))
    dual, objective = solution.certificate.dual, solution.objective
    assert dual * (1.0 - 1e-14) <= objective <= trivial * (1.0 + 1e-9)  # to rounding


@pytest.mark.parametrize("norm", [1.5, 1.1, 3.0])
def test_an_ellipsoid_in_more_features_than_samples(norm: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((20, 29)), np.where(np.arange(20) % 2, 1.0, -1.0)
        root = rng.standard_normal((29, 3))
        for shape in (pos.cov, np.eye(29), root @ root.T):
            U = ucm.Ellipsoid(pos.mean, shape, 0.3) - ucm.Point(neg.mean)
            solution = ucm.solve(ucm.RobustMargin(U, norm), X, y)
            assert solution.status == "optimal", (seed, solution.message)


def test_an_augmented_lagrangian_tells_a_stall_from_a_limit() -> None:
    plan = ucm.compile(ucm.WorstMean(ucm.SquaredHinge()) + 1e-8 * ucm.L2(), LINE, HALVES, solver="prox-alm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stalled, short = plan.solve(tol=1e-12), plan.solve(tol=1e-12, max_iter=2)
    assert stalled.status == "stalled" and "scale the features" in stalled.message
    assert short.status == "max_iter" and "raise max_iter" in short.message


@pytest.mark.parametrize(("solver", "norm"), [("ssnal", 2.0), ("level-set", 1.5)])
def test_solvers_of_distances_tell_a_stall_from_a_limit(solver: str, norm: float) -> None:
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    X = np.random.default_rng(0).standard_normal((30, 4)) + 2.0 * y[:, None] + 1e6
    U = (ucm.Ellipsoid(pos.mean, pos.cov, 0.5) & ucm.Hull(pos)) - ucm.Hull(ucm.neg)
    plan = ucm.compile(ucm.RobustMargin(U, norm), X, y, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stalled, short = plan.solve(tol=1e-300), plan.solve(tol=1e-300, max_iter=1)
    # by rounding the certified gap may be 0: the status of the solver's own answer counts
    assert stalled.answer.status == "stalled" and "raise max_iter" not in stalled.answer.message
    assert short.status == "max_iter" and "raise max_iter" in short.message


def test_apg_gives_up_where_the_gap_falls_no_more() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) * 10.0 ** np.arange(0.0, -16.0, -4.0)
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = ucm.solve(ucm.models.mm_mpm(0.01), X, y, solver=APG(), tol=1e-14)
    assert settled_to(solution, 1e-14)
    assert solution.stats.iterations < 100_000


def settled_to(solution: Any, tol: float) -> bool:
    return (abs(solution.certificate.relative_gap) <= tol) == (solution.status == "optimal")


class Stuck(Conic):
    """Ends at w = 0 without proof."""

    def session(self, form: Any) -> Solver[Any]:
        return _AtZero(self)


class _AtZero(Session[Composite]):
    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        return Answer(w=np.zeros(form.n), b=0.0, status="stalled", message="stuck")


def overlapping() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) < 30, 1, -1)
    return rng.standard_normal((60, 4)) + 0.5 * y[:, None], y


def test_the_fallback_of_a_route_goes_on_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = overlapping()
    model = ucm.Logistic() + 0.1 * ucm.L1()
    plan = ucm.compile(model, X, y)
    assert plan.solver.name == "prox-newton"
    assert "fallback  if it ends without proof: clarabel" in plan.explain().splitlines()
    named = ucm.compile(model, X, y, solver="prox-newton")
    assert "without proof" not in named.explain()
    known = plan.solve()
    assert known.stats.solver == "prox-newton" and "went on" not in known.message
    monkeypatch.setattr(ProxNewton, "session", Stuck.session)
    solution = plan.solve()
    assert (solution.status, solution.stats.solver) == ("optimal", "clarabel")
    assert "clarabel went on from the answer of prox-newton" in solution.message
    assert solution.objective == pytest.approx(known.objective, rel=1e-6)
    with pytest.warns(ConvergenceWarning, match="prox-newton stopped"):
        alone = named.solve()
    assert (alone.status, alone.stats.solver) == ("stalled", "prox-newton")


def test_fallbacks_of_sets_go_on_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the answer before, and through a row that ends without proof itself."""
    X, y = overlapping()
    plan = ucm.compile(ucm.models.mm_mpm(0.1), X, y)
    chain = "fallback  if it ends without proof: ssnal, then clarabel, then scs"
    assert chain in plan.explain().splitlines()
    known, starts = plan.solve(), []

    def stuck(self: Any, form: Any, monitor: Monitor, start: Answer | None = None) -> Answer:
        starts.append(start)
        return Answer(form.centers(), status="stalled", message="stuck")

    monkeypatch.setattr(TrustRegionSecular, "solve", stuck)
    solution = plan.solve()
    assert (solution.status, solution.stats.solver) == ("optimal", "ssnal")
    monkeypatch.setattr(SSNAL, "solve", stuck)
    solution = plan.solve()
    assert (solution.status, solution.stats.solver) == ("optimal", "clarabel")
    assert solution.objective == pytest.approx(known.objective, rel=1e-6)
    assert starts[:2] == [None, None] and starts[2].q  # Newton begins where the first one ended


def test_a_solver_that_is_not_installed_is_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ucm.numerics.conic_programs.installed", lambda backend: backend == "CLARABEL")
    X, y = overlapping()
    plan = ucm.compile(ucm.models.mm_mpm(0.1), X, y)
    assert "fallback  if it ends without proof: ssnal, then clarabel" in plan.explain().splitlines()
    with pytest.raises(ucm.SolverError, match="scs is not installed"):
        ucm.compile(ucm.models.mm_mpm(0.1), X, y, solver="scs")
    with pytest.raises(ucm.SolverError, match=r"verify: .* SCS is not installed .*\[conic\]"):
        plan.verify(plan.solve(), solver="SCS")


def test_a_solver_that_fails_is_followed_by_its_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = overlapping()
    model = ucm.RobustMargin(ucm.models.mm_mpm(0.1), 1.5)
    plan, named = ucm.compile(model, X, y), ucm.compile(model, X, y, solver="clarabel")
    known = named.solve()

    failing, right = {"clarabel"}, Conic.solve

    def fail(*_: Any, **__: Any) -> Answer:
        raise SolverError("no answer")

    def some(self: Conic, *given: Any) -> Answer:
        return fail() if self.name in failing else right(self, *given)

    for solver, method in ((LevelSetNewton, fail), (Conic, some)):
        monkeypatch.setattr(solver, "solve", method)
        solution = plan.solve()
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(known.objective, rel=2e-6)
    assert solution.stats.solver == "scs"
    with pytest.raises(SolverError, match="no answer"):
        named.solve()
    failing.add("scs")
    with pytest.raises(SolverError, match="no answer"):
        plan.solve()


def test_every_fallback_is_a_row_of_its_form_and_ends() -> None:
    for route in ROUTES:
        for form in route.solver.takes:
            rows = {r.solver.name: r for r in ROUTES if form in r.solver.takes}
            at, met = route, [route.solver.name]
            while at is not None and at.fallback is not None:
                at = rows.get(at.fallback)
                if at is None:  # the fallback of another form
                    assert form is not MinNorm and form is not Composite
                    break
                assert at.solver.name not in met
                met.append(at.solver.name)


def test_convex_problems_in_a_series_stay_with_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = overlapping()
    model = ucm.Logistic() + 0.1 * ucm.CappedL1(1)
    plan = ucm.compile(model, X, y)
    assert isinstance(plan.solver, DCA) and plan.solver.fallback == Conic()
    assert "fallback  if it ends without proof: clarabel" in plan.explain().splitlines()
    known = plan.solve()
    both = DCA(Stuck(), fallback=ProxNewton())
    solution = ucm.solve(model, X, y, solver=both)
    assert solution.objective == pytest.approx(known.objective, rel=1e-6)
    assert "prox-newton went on from the answer of clarabel" in solution.message
    monkeypatch.setattr("ucm.solvers.objective.sessions._MOST", 1)
    assert "fallback" not in ucm.compile(model, X, y).explain()
    with pytest.warns(ConvergenceWarning):
        alone = ucm.solve(model, X, y, solver=both)
    assert alone.status == "stalled"


def test_short_steps_of_a_squared_hinge_shift_the_matrix(shared_data: Loader) -> None:
    """Few samples have a curvature where classes are almost separated."""
    X, y = shared_data("usps")
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    nines = np.where(y == y.max(), 1.0, -1.0)
    X = (dense - dense.mean(axis=0)) / (dense.std(axis=0) + 1e-12)
    solution = ucm.solve(ucm.Hinge(2) + 0.01 * ucm.L1(), X[:3000], nines[:3000], max_iter=300)
    assert solution.status == "optimal"
    assert solution.stats.solver == "prox-newton"


@pytest.mark.parametrize("limit", [1, None])
@pytest.mark.parametrize("unit", [1e3, 1e6])
def test_losses_that_overflow_beside_constraints_have_no_proof(unit: float, limit: int | None) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 4))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(30) > 0.0, 1.0, -1.0)
    rows = ucm.LinearConstraint([[1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]], [1.0, 2.0], [1.0, 3.0])
    model = ucm.Exponential() + rows + ucm.Norm(2) + ucm.GroupLasso([0, 0, 1, 1])
    with warnings.catch_warnings(action="ignore"):
        solution = ucm.compile(model, unit * X, y, solver="clarabel").solve(max_iter=limit)
    assert settled(solution)
    assert solution.status != "converged" or solution.objective < np.inf
