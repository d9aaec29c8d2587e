"""Every route against the CVXPY twin, against every other, and against abuse."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from bundled import NAMES, load
from scipy import sparse
from scipy.optimize import nnls
from typed import known, untyped

import ucm
from ucm import neg, pos, signed
from ucm.compiler.route import routes, verdicts
from ucm.data.bound_data import bind
from ucm.errors import ConvergenceWarning, ParameterError, SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.numerics.newton_steps import SHRINK, growth
from ucm.solvers import (
    ALM,
    APG,
    SSNAL,
    Conic,
    LevelSetNewton,
)  # fmt: skip
from ucm.solvers.distance import ssnal
from ucm.solvers.distance.apg import _Run


def middle(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """The model in the middle of each admissible interval."""
    found = ucm.admissible(model, X, y)
    if len(found) == 2:  # the biased model: a little above the least of both
        return model.with_params(**{name: 1.1 * v.lower for name, v in found.items()})
    return model.with_params(**{name: v.middle for name, v in found.items()})


MODELS = {
    "nu-SVM": ucm.models.nu_svm(0.3),
    "MM-MPM": ucm.models.mm_mpm(0.2),
    "MM-FDA": ucm.models.mm_fda(0.2),
    "l2 nu-SVM": ucm.models.l2_nu_svm(0.3),
    "biased": ucm.models.biased_l2_nu_svm(0.3, 0.3),
    "KL": ucm.models.kl_svm(0.8),
    "coherent MM-MPM": ucm.models.coherent_mm_mpm(0.2),
    "coherent MM-FDA": ucm.models.coherent_mm_fda(0.2),
}
CACHE: dict[tuple[str, str], Any] = {}


def prepared(name: str, data: str) -> tuple[Any, np.ndarray, np.ndarray]:
    X, y = load(data)
    if (name, data) not in CACHE:
        CACHE[name, data] = middle(MODELS[name], X, y)
    return CACHE[name, data], X, y


@pytest.mark.parametrize("data", NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_routes_against_the_twin_and_each_other(name: str, data: str) -> None:
    model, X, y = prepared(name, data)
    auto = ucm.compile(model, X, y)
    first = auto.solve()
    assert first.status == "optimal" and 0.0 <= first.certificate.violation <= 1e-6
    report = auto.verify()
    assert report.agrees and "agrees with" in str(report), str(report)
    assert auto.solver.name.split("-")[0] in ("secular", "active", "ssnal", "apg")
    for solver, limit in ((SSNAL(), 100), (APG(), 3000), (ALM(APG()), 20), (ALM(SSNAL()), 20)):
        if solver.refuse(auto.form) is not None or (solver.name == "alm" and data == "digits"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            sol = ucm.compile(model, X, y, solver=solver).solve(tol=1e-5, max_iter=limit)
        if sol.status == "optimal":
            assert sol.objective == pytest.approx(first.objective, rel=1e-5), solver.name
        else:  # first-order methods may need more than we grant them here
            assert solver.name in ("apg", "alm") and sol.status == "max_iter"
            assert abs(sol.certificate.gap) >= abs(sol.objective - first.objective) * (1 - 1e-6)


@pytest.mark.parametrize("solver", ["clarabel", "ecos", "scs"])
@pytest.mark.parametrize("name", MODELS)
def test_conic_solvers_agree_with_the_automatic_route(name: str, solver: str) -> None:
    model, X, y = prepared(name, "iris")
    exact = ucm.solve(model, X, y)
    tol = 1e-4 if solver == "scs" else 1e-6
    sol = ucm.solve(model, X, y, solver=solver, tol=tol)
    assert sol.status == "optimal" and sol.stats.solver == solver
    assert sol.objective == pytest.approx(exact.objective, rel=tol)
    assert sol.b == pytest.approx(exact.b, abs=50 * tol)


# --- accelerated proximal gradient --------------------------------------------------------------
STRATEGIES = ("backtracking", "decrease_L", "restart", "decrease_eta")


@pytest.mark.parametrize("off", [(), *((s,) for s in STRATEGIES), STRATEGIES])
def test_every_strategy_can_be_switched_off(off: tuple[str, ...]) -> None:
    model, X, y = prepared("nu-SVM", "iris")
    exact = ucm.solve(model, X, y)
    options: dict[str, Any] = {name: name not in off for name in STRATEGIES}
    sol = ucm.solve(model, X, y, solver=APG(**options), tol=1e-4)
    assert sol.status == "optimal"
    assert sol.objective == pytest.approx(exact.objective, rel=1e-4)


def apg_without(strategy: str) -> APG:
    options: dict[str, Any] = {strategy: False} if strategy else {}
    return APG(**options)


def test_strategies_change_the_run() -> None:
    model, X, y = prepared("nu-SVM", "wine")
    runs = {off: ucm.solve(model, X, y, solver=apg_without(off), tol=1e-5).stats for off in ("", *STRATEGIES)}
    assert len({(s.iterations, round(s.passes, 6)) for s in runs.values()}) >= 4
    assert runs["restart"].iterations > runs[""].iterations


def test_the_rule_of_the_paper() -> None:
    model, X, y = prepared("nu-SVM", "iris")
    exact = ucm.solve(model, X, y, tol=1e-9)
    errors = []
    for eps in (1e-2, 1e-4, 1e-7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            sol = ucm.solve(model, X, y, solver=APG(stop="paper", eps=eps), tol=1e-12)
        assert sol.status == "converged"
        errors.append(abs(sol.objective - exact.objective))
    assert errors[2] < 1e-6 and errors[2] <= errors[1] <= errors[0] + 1e-12
    loose = ucm.solve(model, X, y, solver=APG(stop="paper", eps=1e-7), tol=1e-3)
    assert loose.status == "optimal"  # its own rule, but the gap proves it


def test_images_follow_the_momentum_and_steps_lie_below_their_model() -> None:
    """The products are counted; the end is that of non-negative least squares."""
    generator = np.random.default_rng(0)
    A, c = generator.standard_normal((30, 12)), generator.standard_normal(30)
    X, y = np.vstack([np.eye(30), -np.eye(30)]), np.repeat([1.0, -1.0], 30)
    cone = ucm.Point(c) + ucm.AffineImage(A, ucm.Box(0.0, np.inf))
    form = MinNorm.of(cone.lower(bind(X, y)), 2.0, A.size)
    options = APG(eta=1.5, L=1.0, decrease_L=False, decrease_eta=False)
    run = _Run(options, form, Monitor(trace=1), [np.ones(12)])
    for _ in range(400):
        run.step()
        if run.since % 10 == 1:
            d = run.d[0]
            slope = float(run.gradient[0] @ d)
            model = 0.5 * float(run.p.x @ run.p.x) + slope + 0.5 * run.L * float(d @ d)
            assert 0.5 * float(run.new.x @ run.new.x) <= model * (1.0 + 1e-14)
        restarts = run.restarts
        run.advance()
        if run.restarts > restarts:
            assert run.p is run.z and run.theta == 1.0
        np.testing.assert_allclose(run.p.x, A @ run.p.q[0] + c, atol=1e-12)
    assert run.restarts > 0
    sized_delimiters = round(np.log(run.L) / np.log(1.5))
    # the start, the steps, and those that lie too high
    assert run.counts["products"] == 1 + 400 + sized_delimiters
    np.testing.assert_allclose(run.new.q[0], nnls(A, -c)[0], atol=1e-8)


WIDE = {"nu-SVM": None, "l2": ucm.models.l2_nu_svm(0.45), "KL": ucm.models.kl_svm(0.8),
        "MM-FDA": None, "coherent MM-FDA": None, "coherent MM-MPM": None}  # fmt: skip


@pytest.mark.parametrize("density", [1.0, 0.3])
@pytest.mark.parametrize("name", WIDE)
def test_newton_in_the_span_of_few_samples(name: str, density: float) -> None:
    rng = np.random.default_rng(5)
    y = np.where(np.arange(14) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((14, 400)) + 0.3 * y[:, None]
    X[3] = X[1]  # the samples depend on each other
    data = X if density == 1.0 else sparse.csr_matrix(X * (rng.random(X.shape) < density))
    model = WIDE[name]
    if model is None:
        model = MODELS[name].with_params(**dict.fromkeys(MODELS[name].params(), 0.5))
    plan = ucm.compile(model, data, y, solver=SSNAL())
    sol = plan.solve()
    assert sol.status == "optimal" and sol.stats.forming > 0.0
    assert plan.verify().agrees
    again = plan.solve(warm_start=sol)
    assert again.status == "optimal" and again.objective == pytest.approx(sol.objective, rel=2e-6)


def test_where_the_range_space_pays() -> None:
    rng = np.random.default_rng(6)
    y = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((60, 4000))
    few = ucm.compile(ucm.models.l2_nu_svm(0.5), X[:, :100], y)
    assert few.solver.name == "ssnal" and few.solve().status == "optimal"
    thin = ucm.compile(ucm.models.l2_nu_svm(0.5), sparse.csr_matrix(X * (X > 1.6)), y)
    assert "features exceed" in str(SSNAL(max_order=4000).refuse(thin.form))
    assert thin.solver.name == "apg"
    both = 0.3 * ucm.Hull(ucm.pos) + 0.7 * ucm.Hull(ucm.neg)  # 0 lies in the set of this difference
    assert ucm.solve(both - both, X, y, solver=SSNAL()).status == "zero_in_set"
    with pytest.raises(
        ParameterError, match=r"got \(\); give \(ucm.solvers.SSNAL\(\), ucm.solvers.APG\(\)\)$"
    ):
        LevelSetNewton(())


@pytest.mark.parametrize(
    "options",
    [{"stop": "never"}, {"eta": 0.9}, {"eta": 1.0}, {"delta": 1.0}, {"eps": 0.0}, {"L": -1.0},
     {"eta_min": 0.9}, {"eta_min": 2.0}],
)  # fmt: skip
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="APG"):
        APG(**options)
    with pytest.raises(ParameterError, match=r"from 1 to eta = 1.005, got 1.01; give eta_min=1.0$"):
        APG(eta=1.005)
    with pytest.raises(ParameterError):
        ALM(inner=untyped.solvers.DCA())
    with pytest.raises(ParameterError):
        SSNAL(max_order=0)


# --- the driver ---------------------------------------------------------------------------------
SOLVERS = {"ssnal": "nu-SVM", "apg": "nu-SVM", "alm": "coherent MM-MPM"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_history_callback_and_table(solver: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, X, y = prepared(SOLVERS[solver], "iris")
    seen: list[dict[str, float]] = []
    plan = ucm.compile(model, X, y, solver=solver)
    sol = plan.solve(callback=seen.append, verbose=True, tol=1e-5)
    assert seen == sol.history and len(seen) >= 2
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["iteration", "objective", "relative", "gap", "passes", "seconds"]
    assert len(table) == len(seen) + 1
    for before, after in itertools.pairwise(seen):
        assert after["iteration"] > before["iteration"]
        assert after["passes"] >= before["passes"] and after["seconds"] >= before["seconds"]
    last = seen[-1]
    assert last["objective"] == pytest.approx(sol.objective, rel=1e-5)
    assert (sol.stats.iterations, sol.stats.passes) == (last["iteration"], last["passes"])
    assert sol.stats.solver.startswith(solver) and sol.stats.solve_time >= last["seconds"]
    plan.solve(tol=1e-5)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_can_stop(solver: str) -> None:
    model, X, y = prepared(SOLVERS[solver], "iris")
    plan = ucm.compile(model, X, y, solver=solver)
    full = plan.solve(tol=1e-6)
    with pytest.warns(ConvergenceWarning, match=r"stopped by the callback|relative gap of"):
        sol = plan.solve(tol=1e-9, callback=lambda record: record["iteration"] >= 1)
    assert sol.status == "interrupted" and len(sol.history) == 1
    assert plan.solve(tol=1e-6, callback=lambda record: "go on").status == "optimal"
    assert full.status == "optimal"


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interrupt_leaves_the_plan_whole(solver: str) -> None:
    model, X, y = prepared(SOLVERS[solver], "iris")
    plan = ucm.compile(model, X, y, solver=solver)
    expected = plan.solve()

    def press(record: dict[str, float]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan.solve(callback=press)
    again = plan.solve()
    assert again.objective == expected.objective and plan.verify().agrees
    np.testing.assert_array_equal(again.w, expected.w)


@pytest.mark.parametrize("solver", SOLVERS)
def test_running_out_of_iterations(solver: str) -> None:
    model, X, y = prepared(SOLVERS[solver], "breast_cancer")
    with pytest.warns(ConvergenceWarning, match=r"relative gap of .*tolerance 1e-10") as caught:
        sol = ucm.solve(model, X, y, solver=solver, max_iter=2, tol=1e-10)
    assert sol.status == "max_iter" and len(caught) == 1
    assert f"{sol.certificate.relative_gap:.2g}" in str(caught[0].message) == sol.message
    assert sol.stats.iterations == 2 and np.isfinite(sol.w).all()
    assert caught[0].filename == __file__


@pytest.mark.parametrize("seed", range(3))
def test_nothing_to_gain_ends_the_steps(seed: int) -> None:
    """A tolerance below rounding; 100 steps and more used to follow the last gain."""
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(30) < 15, 1.0, -1.0)
    X = generator.standard_normal((30, 6)) + y[:, None]
    form: Any = ucm.compile(MODELS["coherent MM-FDA"], X, y).form
    exact, monitor = Monitor(tol=1e-8), Monitor(tol=1e-18)
    SSNAL().solve(form, exact)
    answer = SSNAL().solve(form, monitor)
    size = form.space.norm(form.matvec(answer.q))
    assert size == pytest.approx(-exact.history[-1]["objective"], rel=1e-7)
    assert monitor.iterations <= exact.iterations + 30
    if answer.status == "max_iter":
        assert "the gap stayed at" in answer.message


def outer_steps(monkeypatch: pytest.MonkeyPatch, tol: float) -> dict[str, list]:
    """Return the Newton steps, factors of sigma, errors and points of SSNAL, and its answer."""
    seen: dict[str, list] = {"steps": [], "factors": [], "errors": [], "points": []}
    minimise, assess, grow = (getattr(ssnal._Iterate, word) for word in ("_minimise", "_assess", "_grow"))

    def minimised(at: Any) -> int:
        seen["steps"].append(minimise(at))
        return seen["steps"][-1]

    def assessed(at: Any) -> tuple[float, float]:
        found = assess(at)
        seen["errors"].append(found[1])
        seen["points"].append(at.q)
        return found

    def grown(at: Any, factor: float) -> None:
        seen["factors"].append(factor)
        grow(at, factor)

    for word, function in (("_minimise", minimised), ("_assess", assessed), ("_grow", grown)):
        monkeypatch.setattr(ssnal._Iterate, word, function)
    y = np.where(np.arange(30) < 15, 1.0, -1.0)
    X = np.random.default_rng(0).standard_normal((30, 6)) + y[:, None]
    form: Any = ucm.compile(ucm.models.coherent_mm_mpm(0.3), X, y).form
    seen["answer"] = [SSNAL().solve(form, Monitor(tol=tol))]
    return seen


def test_sigma_grows_by_the_newton_steps_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = outer_steps(monkeypatch, 1e-8)
    expected = [growth(steps, 3.0) for steps in seen["steps"]]
    assert len(expected) > 2 and seen["factors"] == expected[: len(seen["factors"])]


def test_sigma_falls_where_newton_steps_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their points are not accepted at once."""
    monkeypatch.setattr(ssnal, "MOST", 1)
    seen = outer_steps(monkeypatch, 1e-8)
    assert seen["steps"][:2] == [1, 1] and seen["factors"][:2] == [SHRINK, SHRINK]
    assert len(seen["points"]) < len(seen["steps"])


def test_the_best_point_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tolerance below rounding, where errors rise and fall."""
    seen = outer_steps(monkeypatch, 1e-18)
    least = len(seen["errors"]) - 1 - int(np.argmin(seen["errors"][::-1]))
    assert least < len(seen["errors"]) - 1
    for q, best in zip(seen["answer"][0].q, seen["points"][least], strict=True):
        np.testing.assert_array_equal(q, best)


def test_couplings_that_no_point_meets() -> None:
    X, y = load("iris")
    far = ucm.Ball(np.full(X.shape[1], 100.0), 0.5)
    form: Any = ucm.compile((ucm.Hull(pos) & far) - ucm.Hull(neg), X, y).form
    q = form.centers()
    units = form.units(q)
    assert len(units) == len(form.couplings) and min(units) > 0.0
    answer = SSNAL().solve(form, Monitor())
    assert (answer.status, answer.message) == ("infeasible", "a separating direction was found")
    residuals = form.residuals(q)
    for length in (1e-6, 1.0, 1e6):
        assert form.proves_empty([length * r for r in residuals], units)
        assert not form.proves_empty([-length * r for r in residuals], units)
    assert not form.proves_empty([0.0 * r for r in residuals], units)


def test_the_message_says_how_iterations_ended() -> None:
    said = {status: Answer().after(status, "raise max_iter").message for status in
            ("converged", "interrupted", "infeasible", "max_iter")}  # fmt: skip
    assert said == {
        "converged": "",
        "interrupted": Answer().interrupted().message,
        "infeasible": "a separating direction was found",
        "max_iter": "raise max_iter",
    }


@pytest.mark.parametrize("tol", [1e-8, 0.1, 0.5])
def test_tolerance_and_zero_are_relative(tol: float) -> None:
    """A norm of 0 does not depend on the tolerance; a negative gap proves nothing, nor does NaN."""
    monitor = Monitor(tol)
    assert monitor.zero == 1e-9 == Monitor(tol, zero_tol=1e-9).zero
    assert monitor.reached(0.5 * tol) and monitor.reached(0.0) and monitor.reached(-1e-10)
    assert not any(map(monitor.reached, (0.6 * tol, -1e-8, -2.0 * tol, np.nan, np.inf, -np.inf)))
    assert monitor.reached(tol, tol) and not monitor.reached(1.1 * tol, tol)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_takes_no_more_iterations(solver: str) -> None:
    model, X, y = prepared(SOLVERS[solver], "iris")
    plan = ucm.compile(model, X, y, solver=solver)
    cold = plan.solve()
    warm = plan.solve(warm_start=cold)
    assert warm.status == "optimal" and warm.objective == pytest.approx(cold.objective, rel=1e-6)
    assert warm.stats.iterations <= cold.stats.iterations
    (name,) = model.params()
    near = ucm.compile(model.with_params(**{name: 1.02 * model.params()[name]}), X, y, solver=solver)
    started = near.solve(warm_start=cold)
    assert started.status == "optimal" and near.verify().agrees
    other = ucm.solve(ucm.models.mm_fda(0.1), X, y)
    with pytest.raises(ParameterError, match="another shape"):
        plan.solve(warm_start=other)


def test_the_start_is_left_alone() -> None:
    model, X, y = prepared("l2 nu-SVM", "iris")
    plan = ucm.compile(model, X, y)
    cold = plan.solve()
    before = [q.copy() for q in cold.answer.q]
    plan.solve(warm_start=cold, tol=1e-9)
    for q, old in zip(cold.answer.q, before, strict=True):
        np.testing.assert_array_equal(q, old)


# --- data in every form -------------------------------------------------------------------------
@pytest.mark.parametrize("name", MODELS)
def test_the_form_of_the_data_changes_nothing(name: str) -> None:
    model, X, y = prepared(name, "breast_cancer")
    X, y = X.copy(), y.copy()
    kept = X.copy(), y.copy()
    expected = ucm.solve(model, X, y)
    again = ucm.solve(model, X, y)
    assert again.objective == expected.objective
    np.testing.assert_array_equal(again.w, expected.w)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    order = np.random.default_rng(0).permutation(y.size)
    for given, labels, rel in (
        (np.asfortranarray(X), y, 1e-9), (X[:, ::-1][:, ::-1], y, 1e-9), (X.astype(np.float32), y, 1e-5),
        (sparse.csr_matrix(X), y, 2e-6), (sparse.csc_array(X), y, 2e-6), (X[order], y[order], 2e-6),
    ):  # fmt: skip
        sol = ucm.solve(model, given, labels)
        assert sol.status == "optimal"
        assert sol.objective == pytest.approx(expected.objective, rel=rel)
        np.testing.assert_allclose(sol.w, expected.w, atol=5e-3)
    assert (expected.weights is None) == (name in ("MM-MPM", "MM-FDA"))
    if expected.weights is not None:
        assert expected.weights.shape == y.shape and (expected.weights >= 0).all()
        shuffled = ucm.solve(model, X[order], y[order])
        total = known(expected.weights).sum()
        assert known(shuffled.weights).sum() == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("scale", [1e12, 1e-12])
@pytest.mark.parametrize("name", MODELS)
def test_units_of_the_samples_change_no_classifier(name: str, scale: float) -> None:
    model, X, y = prepared(name, "iris")
    expected = ucm.solve(model, X, y)
    plan = ucm.compile(model, scale * X, y)
    sol = plan.solve()
    assert sol.status == "optimal" and plan.verify().agrees
    assert sol.objective == pytest.approx(scale * expected.objective, rel=2e-6)
    np.testing.assert_allclose(sol.w, expected.w, atol=2e-3)
    assert sol.b == pytest.approx(scale * known(expected.b), abs=2e-3 * scale)
    far = ucm.admissible(model, scale * X, y)
    for name, interval in ucm.admissible(model, X, y).items():
        assert far[name].lower == pytest.approx(interval.lower, rel=1e-5, abs=1e-7)
        assert far[name].upper == pytest.approx(interval.upper, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_duplicated_and_constant_features(name: str) -> None:
    model, X, y = prepared(name, "iris")
    expected = ucm.solve(model, X, y)
    plan = ucm.compile(model, np.hstack([X, X[:, :1], np.full((y.size, 1), 3.0), 0 * X[:, :1]]), y)
    sol = plan.solve()
    assert sol.status == "optimal" and plan.verify().agrees
    assert sol.w[0] == pytest.approx(sol.w[2], abs=1e-5)
    assert abs(sol.w[4]) <= 1e-9
    if "signed" not in repr(model):
        assert abs(sol.w[3]) <= 1e-6 and sol.objective <= expected.objective + 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_duplicated_samples_change_no_classifier(name: str) -> None:
    """Three copies of each sample have the same statistics and hulls."""
    model, X, y = prepared(name, "iris")
    (*values,) = model.params().items()
    if name in ("l2 nu-SVM", "biased"):  # the norm of k equal shares is smaller by sqrt(k)
        model = model.with_params(**{k: v / np.sqrt(3) for k, v in values})
    expected = ucm.solve(prepared(name, "iris")[0], X, y)
    sol = ucm.solve(model, np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert sol.status == "optimal"
    assert sol.objective == pytest.approx(expected.objective, rel=2e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_class_of_one_sample(name: str) -> None:
    _, X, y = prepared(name, "wine")
    kept = np.append(np.flatnonzero(y > 0)[:1], np.flatnonzero(y < 0)[:40])
    model = MODELS[name]
    if name == "biased":
        model = model.with_params(kappa_pos=1.0, kappa_neg=1.0)
    model = middle(model, X[kept], y[kept])
    plan = ucm.compile(model, X[kept], y[kept])
    assert plan.solve().status == "optimal" and plan.verify().agrees


@pytest.mark.parametrize("name", MODELS)
def test_two_samples_have_their_known_classifier(name: str) -> None:
    X, y = np.array([[1.0, 2.0], [-2.0, 0.0]]), np.array([1.0, -1.0])
    values = dict.fromkeys(MODELS[name].params(), 1.0)
    sol = ucm.solve(MODELS[name].with_params(**values), X, y)
    assert sol.status == "optimal"
    factor = 0.5 if "signed" in repr(MODELS[name]) else 1.0
    np.testing.assert_allclose(sol.x, factor * np.array([3.0, 2.0]), atol=1e-7)
    np.testing.assert_allclose(sol.decision(X), [np.sqrt(13) / 2, -np.sqrt(13) / 2], atol=1e-6)


def test_zero_and_singular_covariances() -> None:
    X = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [-1.0, 1.0, 1.0], [-1.0, 3.0, 1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    for name in ("MM-MPM", "MM-FDA", "coherent MM-MPM"):
        for kappa in (0.0, 0.4, 30.0):
            plan = ucm.compile(MODELS[name].with_params(kappa=kappa), X, y)
            sol = plan.solve()
            assert sol.status == "optimal" and plan.verify().agrees
    flat = ucm.Ellipsoid([1.0, 1.0, 0.0], np.zeros((3, 3)), 5.0)
    assert ucm.solve(flat, X, y).objective == pytest.approx(-np.sqrt(2))
    line = ucm.Ellipsoid([1.0, 1.0, 0.0], np.diag([4.0, 0.0, 0.0]), 5.0)
    np.testing.assert_allclose(ucm.solve(line, X, y).x, [0.0, 1.0, 0.0], atol=1e-9)


def test_more_features_than_samples_by_hand() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((12, 700))
    y = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    for name in ("nu-SVM", "MM-MPM", "MM-FDA", "KL"):
        model = MODELS[name].with_params(**dict.fromkeys(MODELS[name].params(), 0.5))
        Q, R = np.linalg.qr(X.T)  # the same samples in coordinates of their span
        small, large = ucm.solve(model, R.T, y), ucm.solve(model, X, y)
        assert large.status == small.status == "optimal"
        assert large.objective == pytest.approx(small.objective, rel=2e-6)
        np.testing.assert_allclose(Q.T @ large.w, small.w, atol=5e-3)


# --- routes -------------------------------------------------------------------------------------
def test_the_route_table_and_its_refusals() -> None:
    X, y = load("iris")
    form = ucm.compile(ucm.models.nu_svm(0.8), X, y).form
    names = [route.solver.name for route in routes(form)]
    newton = ["active-set", "ssnal", "ssnal-cg"]
    others = ["highs", "level-set"]
    automatic = ["secular", *newton, "apg", "alm", "smo", *others]
    conic = ["clarabel", "ecos", "scs"]
    assert names == [*automatic, "gsk", "mdm", "clip-gsk", "clip-mdm", *conic]
    text = ucm.compile(ucm.models.coherent_mm_mpm(0.3), X, y).explain(verbose=True)
    for name in names:
        assert f"\n  {name}" in text
    assert "refused: the blocks are coupled by an intersection" in text and "chosen: " in text
    assert ucm.compile(ucm.models.nu_svm(0.8), X, y, solver="clarabel").explain().count("chosen") == 1
    wide = np.random.default_rng(0).standard_normal((20, 4000))
    labels = np.where(np.arange(20) < 9, 1.0, -1.0)
    assert ucm.compile(ucm.models.mm_mpm(0.3), wide, labels).solver.name == "ssnal-cg"
    assert ucm.compile(ucm.models.l2_nu_svm(0.5), wide, labels).solver == SSNAL()


def test_named_solvers_and_instances() -> None:
    X, y = load("iris")
    model = ucm.models.nu_svm(0.85)
    for given in ("ssnal", SSNAL(max_order=20), Conic("clarabel"), Conic("scs")):
        assert ucm.compile(model, X, y, solver=given).solve(tol=1e-4).status == "optimal"
    with pytest.raises(
        ParameterError, match=r'expected "auto", a solver instance or one of secular, active-set'
    ):
        ucm.compile(model, X, y, solver="prox-newton")
    with pytest.raises(SolverError, match="it takes the norms 1 and inf of x"):
        ucm.compile(model, X, y, solver="highs")
    with pytest.raises(ParameterError, match="got 3"):
        ucm.compile(model, X, y, solver=3)  # type: ignore[arg-type]
    with pytest.raises(SolverError, match="nothing couples the blocks"):
        ucm.compile(model, X, y, solver="alm")
    with pytest.raises(SolverError, match="coupled by an intersection"):
        ucm.compile(ucm.models.coherent_mm_mpm(0.2), X, y, solver="apg")


class Lazy(Solver[MinNorm]):
    """A solver of a reader's own: it returns the centre of every domain."""

    name = "lazy"

    def refuse(self, form: MinNorm) -> str | None:
        return None if len(form.blocks) < 3 else "it is too lazy for three blocks"

    def solve(self, form: MinNorm, monitor: Any, start: Any = None) -> Any:
        from ucm.forms.solver import Answer

        return Answer(form.centers())


def test_a_custom_solver_is_used_by_name_and_instance() -> None:
    X, y = load("iris")
    hulls = ucm.Hull(pos) - ucm.Hull(neg)
    with pytest.warns(ConvergenceWarning, match="lazy stopped with a relative gap of"):
        sol = ucm.solve(hulls, X, y, solver=Lazy())
    assert sol.status == "converged" and sol.stats.solver == "lazy"
    with pytest.raises(SolverError, match="too lazy"):
        ucm.compile(hulls + ucm.Ball(0, 1), X, y, solver=Lazy())
    plan = ucm.compile(hulls, X, y, solver=Lazy())
    assert verdicts(plan.form, plan.solver, plan.solver) == [("lazy", "chosen, by name")]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"tol": 0.0}, "tol"), ({"tol": 2.0}, "tol"), ({"tol": float("nan")}, "tol"), ({"tol": "a"}, "tol"),
     ({"max_iter": 0}, "max_iter"), ({"max_iter": 2.5}, "max_iter"), ({"max_iter": True}, "max_iter"),
     ({"n_starts": 0}, "n_starts"), ({"n_starts": 10**30}, "1 to 10000, got 10+; leave"),
     ({"bias_rule": "x"}, "bias"), ({"warm_start": 3}, "warm_start"), ({"callback": 3}, "callback")],
)  # fmt: skip
def test_invalid_options_of_solve_are_refused(options: dict[str, Any], words: str) -> None:
    X, y = load("iris")
    plan = ucm.compile(ucm.models.nu_svm(0.85), X, y)
    with pytest.raises(ParameterError, match=words):
        plan.solve(**options)
    with pytest.raises(ParameterError, match="unknown option tolerance"):
        plan.solve(tolerance=1e-3)


def test_kernels_and_unknown_options() -> None:
    X, y = load("iris")
    model = ucm.models.nu_svm(0.85)
    unknown: Any = "cubic"
    linear = ucm.compile(model, X, y, kernel="linear").solve()
    assert linear.objective == pytest.approx(ucm.solve(model, X, y).objective, rel=1e-6)
    with pytest.raises(ParameterError, match="kernel"):
        ucm.compile(model, X, y, kernel=unknown)
    with pytest.raises(ParameterError, match="unknown option gamma"):
        ucm.compile(model, X, y, gamma=1.0)


def test_a_signed_hull_is_half_of_the_two_hulls() -> None:
    X, y = load("wine")
    whole = ucm.solve(ucm.Hull(pos) - ucm.Hull(neg), X, y, tol=1e-8)
    half = ucm.solve(ucm.Hull(signed), X, y, tol=1e-8)
    np.testing.assert_allclose(2 * half.x, whole.x, atol=1e-5)
    assert known(whole.weights).sum() == pytest.approx(2.0)
    assert known(half.weights).sum() == pytest.approx(1.0)
    np.testing.assert_allclose((y * half.weights) @ X, half.x, atol=1e-10)


@pytest.mark.parametrize("cut", ["neither", "the ellipsoids", "both"])
def test_intersections_of_which_one_operand_or_both_are_active(cut: str) -> None:
    """The reference is a conic solver."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(60) < 25, 1.0, -1.0)
    X = rng.standard_normal((60, 3)) + 1.2 * y[:, None]
    kappa = {"neither": 0.3, "the ellipsoids": 5.0, "both": 2.1}[cut]
    hulls = {"neither": 0.4, "the ellipsoids": 0.2, "both": 0.4}[cut]
    reduced = [ucm.ReducedHull(part, eta=hulls) for part in (pos, neg)]
    round_ = [ucm.Ellipsoid(part.mean, part.cov, kappa) for part in (pos, neg)]
    models: list[Any] = [
        (round_[0] & reduced[0]) - (round_[1] & reduced[1]),
        ((round_[0] - round_[1]) & (reduced[0] - reduced[1])) + np.array([0.1, 0.0, 0.2]),
        2.0 * (round_[0] & reduced[0]) - neg.mean,
        ((round_[0] & reduced[0]) & ucm.Ball(pos.mean, 50.0)) - neg.mean,
    ]
    for model in models:
        plan = ucm.compile(model, X, y)
        own, whole = plan.solve(), ucm.solve(model, X, y, solver="clarabel")
        assert own.status == whole.status == "optimal"
        assert own.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize("kappa", [0.03, 2.0])  # that of the ellipsoid; that of the hulls
def test_an_intersection_of_many_features_in_the_span_of_the_samples(kappa: float) -> None:
    y = np.repeat([1.0, -1.0], 12)
    X = np.random.default_rng(1).standard_normal((24, 1000)) + 0.05 * y[:, None]
    plan = ucm.compile(ucm.models.coherent_mm_fda(kappa), X, y)
    own = plan.solve()
    assert own.status == "optimal" and plan.verify().agrees
    assert own.stats.forming < 150.0  # passes, most for the span: 24 x 24 systems, not 1000 x 1000


@pytest.mark.parametrize(("m", "a"), [(600, 200), (900, 299)])
def test_a_hull_that_its_cap_leaves_a_point_takes_no_more_steps(m: int, a: int) -> None:
    """At nu_max the smaller class has a single point, but for rounding of its cap."""
    y = np.where(np.arange(m) < a, 1.0, -1.0)
    X = np.random.default_rng(0).standard_normal((m, 4)) + 0.3 * y[:, None]
    found = ucm.solve(ucm.models.nu_svm(2.0 * a / m), X, y)
    assert found.status == "optimal" and found.stats.systems <= 40
    assert found.weights is not None
    assert found.weights[:a] == pytest.approx(np.full(a, 1.0 / a), rel=1e-9)


def test_a_constant_step_where_rows_add_up_to_0() -> None:
    """A power iteration from equal entries would find the eigenvalue 0."""
    X = np.array([[3, -3, 0], [5, -4, -1], [2, 1, -3], [-2, 1, 1], [-4, 3, 1], [-1, -2, 3]])
    y = np.array([1, 1, 1, -1, -1, -1])
    model = ucm.models.nu_svm(0.8)
    found = ucm.solve(model, X, y, solver=APG(backtracking=False))
    assert found.status == "optimal"
    assert found.objective == pytest.approx(ucm.solve(model, X, y).objective, rel=1e-5)


@pytest.mark.parametrize("name", ["wine", "iris"])
def test_a_start_near_0_is_no_unit_of_length(name: str) -> None:
    """From the nearest point of a set just before 0 enters, a set that contains 0 takes a few systems: the
    norm of that point is rounding beside the set, so that 0 is not sought to a share of it."""
    X, y = load(name)
    y = np.where(np.random.default_rng(0).random(y.size) < 0.2, -y, y)
    r = ucm.Param("r", 0.1)
    U = ucm.Hull(signed, weights=ucm.LossBall(ucm.SquaredHinge(), r))
    end = ucm.admissible(U, X, y)["r"].upper
    forms = [ucm.compile(U.with_params(r=end * (1.0 + t)), X, y).form for t in (-1e-6, 1e-6)]
    start = SSNAL().solve(forms[0], Monitor(1e-2, zero_tol=1e-12))
    assert 0.0 < np.linalg.norm(forms[0].matvec(start.q)) <= 1e-5 * forms[0].largest
    monitor = Monitor(1e-2, zero_tol=1e-12)
    answer = SSNAL().solve(forms[1], monitor, start)
    assert answer.status == "converged" and monitor.systems <= 20
    assert np.linalg.norm(forms[1].matvec(answer.q)) <= 1e-12 * forms[1].largest


@pytest.mark.parametrize("make", [ucm.models.coherent_mm_mpm, ucm.models.coherent_mm_fda])
@pytest.mark.parametrize("shift", [1e4, 1e6])
def test_coupled_sets_far_from_zero_against_the_twin_at_zero(make: Any, shift: float) -> None:
    X, y = load("breast_cancer")
    X, y = X[::4], y[::4]
    moved, model = X + shift, make(0.3)
    problem = ucm.compile(model, X, y).reference()
    problem.solve(solver="CLARABEL")
    for A in (moved, sparse.csr_array(moved)):
        plan = ucm.compile(model, A, y)
        sol = plan.solve()
        assert sol.status == "optimal" and sol.w is not None and sol.b is not None
        assert sol.objective == pytest.approx(-abs(problem.value), rel=2e-6)
        assert sol.objective == pytest.approx(float(-sol.x @ sol.w), rel=2e-6)
        np.testing.assert_array_equal(plan.data.X.toarray() if sparse.issparse(A) else plan.data.X, moved)
        near = ucm.solve(model, X, y)
        np.testing.assert_allclose(moved @ sol.w + sol.b, X @ near.w + near.b, atol=1e-2)
        points, moves = known(sol.summand_points), shift * (make is ucm.models.coherent_mm_mpm)
        np.testing.assert_allclose(points[0] - moves, known(near.summand_points)[0], atol=1.0)


@pytest.mark.parametrize("kernel", [None, "linear"])
@pytest.mark.parametrize(
    "model", [ucm.models.nu_svm(0.3), ucm.models.mm_mpm(0.3), ucm.models.nu_svm(0.05)], ids=str
)
def test_coefficients_give_w_from_samples_far_from_zero(model: Any, kernel: Any) -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) % 2, 1, -1)
    for n in (5, 60):
        X = rng.standard_normal((40, n)) + 0.3 * y[:, None]
        here, there = (ucm.solve(model, A, y, kernel=kernel) for A in (X, X + 1e5))
        assert here.status == there.status
        assert there.objective == pytest.approx(here.objective, rel=1e-5)
        if kernel is not None:
            np.testing.assert_allclose((X + 1e5).T @ known(there.coefficients), there.w, atol=1e-8)


def test_a_coupled_set_of_thousands_of_features_has_a_lower_bound() -> None:
    """Its member is found in the span of the equations; those that depend on others take no part."""
    rng = np.random.default_rng(0)
    for m in (30, 40):
        y = np.where(np.arange(m) % 3, 1, -1)
        X = np.clip(0.5 + 0.2 * rng.standard_normal((m, 4000)) + 0.03 * y[:, None], 0.0, 1.0)
        sol = ucm.solve(ucm.models.coherent_mm_mpm(0.5), X, y)
        assert sol.status == "optimal" and sol.certificate.violation <= 1e-9


@pytest.mark.parametrize("fold", range(3))
def test_folds_of_a_gene_expression_set_are_proven(fold: int, shared_data: Any) -> None:
    X, y = shared_data("duke")
    keep = np.arange(y.size) % 10 != fold
    assert ucm.solve(ucm.models.coherent_mm_mpm(0.5), X[keep], y[keep]).status == "optimal"


@pytest.mark.parametrize("name", ["svmguide3", "w7a", "madelon"])
def test_coupled_sets_of_the_papers_data_far_from_zero(name: str, shared_data: Any) -> None:
    X, y = shared_data(name)
    some = np.arange(0, y.size, y.size // 500)
    X, y, model = (
        X[some].toarray() if sparse.issparse(X) else X[some],
        y[some],
        ucm.models.coherent_mm_fda(0.1),
    )
    at_zero, far = ucm.solve(model, X, y), ucm.solve(model, X + 1e4, y)
    assert at_zero.status == far.status == "optimal"
    assert far.objective == pytest.approx(at_zero.objective, rel=2e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_rays_of_entropic_hulls_have_a_program_that_ends(alpha: float, shared_data: Any) -> None:
    X, y = shared_data("diabetes")
    assert ucm.solve(ucm.models.kl_svm(alpha), X, y).status == "stationary"
