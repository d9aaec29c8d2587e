"""Relative sizes: fractions of admissible intervals, lam_max, and paths over them."""

from __future__ import annotations

import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, cross_val_score

import ucm
from ucm import L1, Hinge, Hull, NormBall, Param, ReducedHull, neg, pos, signed
from ucm.errors import CompositionError, EmptySetError, ParameterError
from ucm.forms.solver import Solver
from ucm.ranges import zero_entry

HALF = {name: Param(name, 0.5, relative=True) for name in ("nu", "kappa", "alpha", "lam")}
SETS = (
    "nu_svm",
    "mm_mpm",
    "mm_fda",
    "l2_nu_svm",
    "kl_svm",
    "coherent_mm_mpm",
    "coherent_mm_fda",
    "enu_svm",
)


def halfway(name: str) -> Any:
    if name == "biased_l2_nu_svm":
        both = (Param(k, 0.5, relative=True) for k in ("kappa_pos", "kappa_neg"))
        return ucm.models.biased_l2_nu_svm(*both)
    word = {"nu_svm": "nu", "enu_svm": "nu", "kl_svm": "alpha"}.get(name, "kappa")
    return getattr(ucm.models, name)(HALF[word])


@pytest.mark.parametrize("name", SETS)
def test_half_is_the_middle_of_the_interval(name: str) -> None:
    X, y = load("iris")
    model = halfway(name)
    ((word, interval),) = ucm.admissible(model, X, y).items()
    solution = ucm.solve(model, X, y)
    assert solution.status == "optimal" and solution.params == {word: interval.middle}
    alone = ucm.solve(model.substitute({word: interval.middle}), X, y)
    assert solution.objective == pytest.approx(alone.objective, rel=1e-6)
    quarter = ucm.solve(model.with_params(**{word: 0.25}), X, y).params[word]
    assert quarter == pytest.approx(interval.lower + 0.25 * (interval.upper - interval.lower))


@pytest.mark.parametrize("name", [*SETS, "biased_l2_nu_svm"])
@pytest.mark.parametrize("data", ["wine", "breast_cancer"])
def test_the_interval_takes_ten_solves_at_most(name: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load(data)
    solves = []

    def counted(solver: type[Solver[Any]]) -> Any:
        own = solver.solve

        def solve(self: Any, *given: Any) -> Any:
            solves.append(type(self).__name__)
            return own(self, *given)

        return solve

    for solver in Solver.__subclasses__():
        monkeypatch.setattr(solver, "solve", counted(solver))
    ucm.compile(halfway(name), X, y)
    assert 1 <= len(solves) <= 10, solves


@pytest.mark.parametrize("name", [*SETS, "biased_l2_nu_svm"])
@pytest.mark.parametrize("data", ["iris", "breast_cancer"])
def test_relative_sizes_are_admissible_in_every_fold(name: str, data: str) -> None:
    X, y = load(data)
    strict: Any = {"error_score": "raise"}
    scores = cross_val_score(ucm.Classifier(halfway(name)), X, y, cv=3, **strict)
    assert scores.min() > 0.5


def test_several_go_along_one_ray() -> None:
    X, y = load("iris")
    model = halfway("biased_l2_nu_svm")
    least = 1.0 / np.sqrt(50.0)
    end = ucm.solve(model.with_params(kappa_pos=1.0, kappa_neg=1.0), X, y, solver="ssnal")
    assert end.objective == pytest.approx(0.0, abs=1e-6)
    half = ucm.solve(model, X, y).params
    for word, value in half.items():
        assert value == pytest.approx(0.5 * (least + end.params[word]))
    uneven = ucm.solve(model.with_params(kappa_pos=0.25), X, y)
    assert uneven.status == "optimal" and uneven.params["kappa_neg"] == half["kappa_neg"]
    # on the ray: both multiples of the smallest sizes, and the first at which the hulls of weights meet
    q = cp.Variable(y.size)
    meet = [(X * y[:, None]).T @ q == 0, q >= 0, q[y > 0].sum() == 1, q[y < 0].sum() == 1]
    largest = cp.maximum(cp.norm(q[y > 0]), cp.norm(q[y < 0]))
    top = cp.Problem(cp.Minimize(largest), meet).solve(solver=cp.CLARABEL)
    assert end.params["kappa_pos"] == pytest.approx(top, rel=1e-5)
    caps = ReducedHull(pos, nu=HALF["nu"]) - Hull(neg, weights=NormBall(HALF["kappa"]))
    mixed = ucm.solve(caps, X, y)
    assert mixed.status == "optimal" and set(mixed.params) == {"nu", "kappa"}


def test_several_sizes_on_features_that_differ_in_scale() -> None:
    """Each of more than ten steps closes the gap along a few features only."""
    X, y = load_breast_cancer(return_X_y=True)
    solution = ucm.solve(halfway("biased_l2_nu_svm"), X, y)
    assert solution.status == "optimal" and set(solution.params) == {"kappa_pos", "kappa_neg"}


TOGETHER = {
    "one grows, the other shrinks": ReducedHull(pos, nu=HALF["nu"])
    - Hull(neg, weights=NormBall(HALF["kappa"])),
    "in one size": ucm.Ellipsoid(pos.mean, pos.cov, 1.0) - ucm.Ball(neg.mean, HALF["nu"] * HALF["kappa"]),
    "one in sizes of two kinds": ucm.Wasserstein(pos, HALF["kappa"], 1, HALF["nu"])
    - ucm.Wasserstein(neg, HALF["kappa"], 1, HALF["nu"]),
    "of moments": ucm.Gelbrich(pos, HALF["nu"], HALF["kappa"]) - ucm.Gelbrich(neg, HALF["nu"], HALF["kappa"]),
}  # fmt: skip


@pytest.mark.parametrize("word", TOGETHER)
def test_several_of_any_direction(word: str) -> None:
    """Each within its interval, and 0 enters at the ends together: the numbers give the same answer."""
    X, y = load("iris")
    model = TOGETHER[word]
    found = ucm.admissible(model, X, y)
    largest = {n: e.upper if e.lower_closed else e.lower for n, e in found.items()}
    solution = ucm.solve(model, X, y)
    assert solution.status == "optimal"
    assert solution.params == pytest.approx({n: e.middle for n, e in found.items()})
    numbers = model.substitute(solution.params)
    assert ucm.solve(numbers, X, y).objective == pytest.approx(solution.objective, rel=1e-6)
    for c, inside in ((0.99, False), (1.01, True)):
        at = {n: (1 - c) * e.middle + c * largest[n] for n, e in found.items()}
        end = ucm.solve(model.substitute(at), X, y, solver="ssnal")
        assert (end.status == "zero_in_set") == inside, at


def test_kappa_of_moments_in_two_sizes() -> None:
    """0 lies outside just before the end, and inside just behind it."""
    X, y = load("iris")
    model = ucm.Gelbrich(pos, 0.05, Param("kappa", 0.3)) - ucm.Gelbrich(neg, 0.05, Param("kappa", 0.3))
    interval = ucm.admissible(model, X, y)["kappa"]
    assert interval.gap <= 1e-4 * interval.upper
    for c, inside in ((0.9999, False), (1.0001, True)):
        end = ucm.solve(model.with_params(kappa=c * interval.upper), X, y, solver="ssnal")
        assert (end.status == "zero_in_set") == inside
    half = model.as_fractions(("kappa",)).with_params(kappa=0.5)
    assert ucm.solve(half, X, y).params["kappa"] == pytest.approx(interval.middle)


def test_intervals_of_the_others_are_at_resolved_numbers() -> None:
    X, y = load("iris")
    ball = ucm.Ellipsoid(pos.mean, pos.cov, HALF["kappa"])
    found = ucm.admissible(ball - ReducedHull(neg, nu=Param("nu", 0.6)), X, y)
    numbers = ucm.Ellipsoid(pos.mean, pos.cov, found["kappa"].middle)
    alone = ucm.admissible(numbers - ReducedHull(neg, nu=Param("nu", 0.6)), X, y)["nu"]
    assert found["nu"].lower == pytest.approx(alone.lower, rel=1e-9)


def test_arithmetic_kernels_and_weights() -> None:
    X, y = load("iris")
    nu = HALF["nu"]
    plain = ucm.solve(ucm.models.nu_svm(nu), X, y)
    double = ucm.solve(ucm.models.nu_svm(2 * nu), X, y)
    assert 2 * double.params["nu"] == pytest.approx(plain.params["nu"], rel=1e-6)
    behind = ucm.compile(ucm.models.nu_svm(nu), X, y, kernel="poly", degree=2, gamma=0.1)
    quadratic = [X[:, i] * X[:, j] for i in range(2) for j in range(2)]
    features = 0.1 * np.column_stack(quadratic)
    interval = ucm.admissible(ucm.models.nu_svm(0.5), features, y)["nu"]
    assert behind.solve().params["nu"] == pytest.approx(interval.middle, rel=1e-4)
    twice = ucm.solve(ucm.models.nu_svm(nu), X, y, sample_weight=np.full(y.size, 2.0))
    assert twice.params["nu"] == pytest.approx(plain.params["nu"], rel=1e-6)


def test_declared_printed_and_kept() -> None:
    X, y = load("iris")
    model = ucm.models.nu_svm(HALF["nu"])
    assert repr(model).count("Param('nu', 0.5, relative=True)") == 2
    assert eval(repr(model), {n: getattr(ucm, n) for n in ucm.__all__}) == model
    assert ucm.from_json(ucm.to_json(model)) == model == pickle.loads(pickle.dumps(model))
    assert model != ucm.models.nu_svm(0.5) and '"relative": true' in ucm.to_json(model)
    assert "of its interval" in str(model) and "of its interval" in model._repr_latex_()
    assert model.relative_names() == ("nu",) and ucm.models.nu_svm(0.5).relative_names() == ()
    clf = ucm.Classifier(model).set_params(model__nu=0.25).fit(X, y)
    assert clf.get_params()["model__nu"] == 0.25
    interval = ucm.admissible(model, X, y)["nu"]
    assert clf.solution_.params["nu"] == pytest.approx(interval.at(0.25))
    search = GridSearchCV(clf, {"model__nu": [0.2, 0.6]}, cv=2).fit(X, y)
    assert search.best_params_["model__nu"] in (0.2, 0.6)
    assert ucm.compile(model, X, y).verify().agrees


WRONG = {
    "Param('nu', 1.5, relative=True)": r"in \[0, 1\], got 1.5",
    "Param('nu', 0.5, relative=1)": "relative: expected a bool",
    "ucm.models.nu_svm(Param('nu', 0.5, relative=True)).with_params(nu=-0.1)": "got -0.1",
    "ucm.solve(Param('c', 0.5, relative=True) * Hull(signed), X, y)": "c scales a set",
    "ucm.solve(ucm.models.nu_svm(n * (1 - n)), X, y)": "not computed",
    "ReducedHull(pos, nu=n) - ReducedHull(neg, nu=Param('nu', 0.5))": "0.5 relative and 0.5",
    "ucm.solve(ReducedHull(pos, nu=n) - ReducedHull(neg, nu=1 - n), X, y)": "and another one smaller",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_relative_sizes_without_an_interval_are_refused(text: str) -> None:
    X, y = load("iris")
    names = {"ucm": ucm, "Param": Param, "Hull": Hull, "ReducedHull": ReducedHull, "signed": signed}
    own = {"pos": pos, "neg": neg, "n": HALF["nu"], "k": HALF["kappa"], "X": X, "y": y}
    with pytest.raises(CompositionError, match=WRONG[text]):
        eval(text, {**names, **own})


def test_wherever_data_are_at_hand() -> None:
    X, y = load("iris")
    model = halfway("nu_svm")
    numbers = model.substitute(ucm.solve(model, X, y).params)
    d = np.array([1.0, -0.5])
    assert ucm.support(model, X, y, d)[0] == pytest.approx(ucm.support(numbers, X, y, d)[0])
    w = np.array([0.6, -0.8])
    here, there = (ucm.worst_case(U, X, y, w).value for U in (model, numbers))
    assert here == pytest.approx(there)
    with pytest.raises(CompositionError, match="give the numbers"):
        ucm.to_cvxpy_source(model)


# --- lam_max ------------------------------------------------------------------------------------
LAM = Param("lam", 1.0)
OBJECTIVES = [
    ucm.Logistic() + LAM * L1(),
    ucm.Logistic() / 3 + (2 * LAM) * ucm.LInf(),
    ucm.SquaredHinge() + LAM * L1() + ucm.L2(),
    ucm.Logistic() + LAM * ucm.ElasticNet(0.4),
    ucm.HuberHinge(0.5) + LAM * ucm.Norm(2),
    ucm.Exponential() + LAM * L1(weights=[1.0, 0.5]),
    Hinge() + LAM * L1(),
    2 * Hinge() + LAM * ucm.LInf(),
    ucm.Logistic(on=pos) + 2 * ucm.Logistic(on=neg) + LAM * L1(),
    Hinge(on=pos) + 1.5 * Hinge(on=neg) + LAM * L1(),
    (Hinge() + LAM * L1()).with_intercept(None),
    (ucm.Logistic() + LAM * ucm.Norm(2)).with_intercept(None),
    (ucm.Logistic() + LAM * L1()).with_intercept("penalised", 0.5),
]


@pytest.mark.parametrize("rows", [slice(None), slice(20, None)], ids=["balanced", "unbalanced"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_lam_max_is_the_least_with_no_coefficients(objective: Any, rows: slice) -> None:
    """Against CVXPY: the least slope of the objective at w = 0 over the unit ball of the penalty."""
    X, y = load("iris")
    X, y = X[rows], y[rows]
    interval = ucm.admissible(objective, X, y)["lam"]
    assert interval.upper_closed and interval.gap <= 1e-4 * interval.upper
    before = ucm.solve(objective.with_params(lam=0.99 * interval.upper), X, y)
    after = ucm.solve(objective.with_params(lam=1.001 * interval.upper), X, y)
    assert np.abs(before.w).max() > 1e-4 and np.abs(after.w).max() < 1e-8
    trivial = after.objective
    twin = ucm.compile(objective.with_params(lam=1.001 * interval.upper), X, y).reference()
    assert twin.solve(solver=cp.CLARABEL) == pytest.approx(trivial, rel=1e-6)


def test_lam_max_where_there_is_none() -> None:
    X, y = load("iris")
    away = ucm.Logistic() + LAM * L1() + ucm.Bounds(0.1, 1.0)  # w = 0 breaks a bound
    assert ucm.admissible(away, X, y)["lam"].upper == np.inf
    assert ucm.admissible(Hinge() + LAM * ucm.L2(), X, y)["lam"].upper == np.inf
    found = ucm.admissible(Hinge() + LAM * ucm.ExpL0(Param("a", 4.0)), X, y)
    assert "critical" in found["lam"].how and "declared range" in found["a"].how
    joint = Param("c", 1.0)
    for model, name in ((ucm.Ramp(0.5) + LAM * L1(), "lam"), (joint * Hinge() + joint * L1(), "c")):
        interval = ucm.admissible(model, X, y)[name]
        assert interval.upper == np.inf and "declared range" in interval.how


def test_lam_max_of_samples_with_weights_at_a_kink() -> None:
    """A weight of 2 is a sample that stands twice."""
    X, y = load("iris")
    objective = Hinge() + LAM * L1()
    weighted = ucm.admissible(objective, X, y, sample_weight=np.r_[2.0, np.ones(99)])
    twice = ucm.admissible(objective, np.vstack([X[:1], X]), np.r_[y[0], y])
    assert weighted["lam"].upper == pytest.approx(twice["lam"].upper, rel=1e-6)


def test_a_relative_multiple_is_a_fraction_of_lam_max() -> None:
    X, y = load("wine")
    model = ucm.Logistic() + HALF["lam"] * L1()
    top = ucm.admissible(model, X, y)["lam"].upper
    assert ucm.solve(model, X, y).params["lam"] == pytest.approx(0.5 * top)
    with pytest.warns(ucm.ConvergenceWarning, match="no minimum is attained"):  # the classes are separable
        assert ucm.solve(model.with_params(lam=0.0), X, y).params["lam"] == 0.0


def test_a_fraction_may_lie_outside_of_the_range_of_its_number() -> None:
    X, y = load("iris")
    U = ucm.ChiSquare(pos, level=Param("level", 0.25, relative=True)) - ucm.CVaR(neg, 0.5)
    assert 0.5 < ucm.solve(U, X, y).params["level"] < 1.0


def test_lam_max_is_that_of_the_other_fractions() -> None:
    X, y = load("iris")
    X, y = X[40:], y[40:]  # classes of two sizes
    delta, lam = (Param(name, 0.9, relative=True) for name in ("delta", "lam"))
    found = ucm.solve(ucm.HuberHinge(delta) + lam * L1(), X, y).params
    fixed = ucm.HuberHinge(found["delta"]) + Param("lam", 0.1) * L1()
    top = ucm.admissible(fixed, X, y)["lam"].upper
    assert found["delta"] == 1.8 and found["lam"] == pytest.approx(0.9 * top, rel=1e-9)


# --- paths --------------------------------------------------------------------------------------
def test_num_values_of_a_set() -> None:
    X, y = load("iris")
    interval = ucm.admissible(ucm.models.nu_svm(0.5), X, y)["nu"]
    found = ucm.path(ucm.models.nu_svm(0.5), X, y, n_values=5)
    steps = np.arange(5) / 5
    expected = interval.upper - steps * (interval.upper - interval.lower)
    np.testing.assert_allclose(found.values, expected)
    assert all(s.status == "optimal" for s in found)
    relative = ucm.path(ucm.models.nu_svm(HALF["nu"]), X, y, n_values=5)
    np.testing.assert_allclose(relative.values, expected)
    fractions = ucm.path(ucm.models.nu_svm(HALF["nu"]), X, y, nu=[0.2, 1.0])
    np.testing.assert_allclose(fractions.values, [interval.at(0.2), interval.upper])
    together = ucm.path(halfway("biased_l2_nu_svm"), X, y, n_values=3)
    assert together.name == "kappa_pos, kappa_neg"
    assert [s.params["kappa_pos"] == s.params["kappa_neg"] for s in together] == [True] * 3


@pytest.mark.parametrize("objective", [OBJECTIVES[0], OBJECTIVES[6]], ids=repr)
def test_num_values_of_an_objective(objective: Any) -> None:
    X, y = load("wine")
    found = ucm.path(objective, X, y, n_values=8)
    top = ucm.admissible(objective, X, y)["lam"].upper
    np.testing.assert_allclose(found.values, top * np.geomspace(1.0, 1e-3, 8))
    used = [row["features"] for row in found.rows()]
    assert used[0] == 0 and used[-1] >= used[1] > 0
    for value, solution in zip(found.values, found):
        assert solution.status == "optimal"
        alone = ucm.solve(objective.with_params(lam=float(value)), X, y)
        assert solution.objective == pytest.approx(alone.objective, rel=3e-6)


def test_a_path_is_a_sequence_that_shows_itself() -> None:
    X, y = load("wine")
    found = ucm.path(ucm.models.nu_svm(0.3), X, y, nu=[0.2, 0.99, 0.4], on_empty="skip")
    assert len(found) == 2 and next(iter(found)) is found[0] and found[:1] == (found[0],)
    assert list(found.values) == [0.2, 0.4] and "nu must be at most" in found.skipped[0.99]
    assert repr(found) == "Path(nu, 2 values from 0.2 to 0.4, 1 skipped)"
    assert "skipped" in str(found) and "<table" in found._repr_html_()
    frame = pytest.importorskip("pandas").DataFrame(found.rows())
    assert frame.equals(found.to_frame()) and list(found.to_frame()["nu"]) == [0.2, 0.4]
    again = pickle.loads(pickle.dumps(found))
    assert again.data is None and [s.objective for s in again] == [s.objective for s in found]
    with pytest.raises(EmptySetError):
        ucm.path(ucm.models.nu_svm(0.3), X, y, nu=[0.2, 0.99])


def test_paths_that_are_not_clear() -> None:
    X, y = load("wine")
    model = ucm.models.nu_svm(0.3)
    for words, options in (
        ("n_values is a positive", {"n_values": 0}),
        ("n_values is a positive", {"n_values": True}),
        ("leave one of them out", {"n_values": 3, "nu": [0.2]}),
        ("on_empty is", {"nu": [0.2], "on_empty": "no"}),
    ):
        with pytest.raises(ParameterError, match=words):
            ucm.path(model, X, y, **options)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="with one parameter, got the parameters kappa_pos, kappa_neg"):
        ucm.path(ucm.models.biased_l2_nu_svm(0.3, 0.3), X, y, n_values=3)
    with pytest.raises(ParameterError, match="needs an admissible interval"):
        ucm.path(Param("c", 1.0) * Hull(signed), X, y, n_values=3)


def test_a_path_is_drawn() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    X, y = load("wine")
    found = ucm.path(ucm.models.mm_mpm(0.3), X, y, n_values=4)
    shown = ucm.plot.PathDisplay.from_path(found)
    np.testing.assert_allclose(shown.values, found.values)
    assert shown.interval is not None and len(shown.axes_) == 3
    lasso = ucm.plot.PathDisplay.from_path(ucm.path(OBJECTIVES[0], X, y, n_values=3))
    assert lasso.coefficients.shape == (3, 13) and lasso.interval is None
    grid: dict[str, Any] = {"kappa": [0.1, 0.2]}
    relative = ucm.plot.PathDisplay.from_model(halfway("mm_mpm"), X, y, **grid)
    assert relative.name == "kappa"
    for wrong in ([found[0]], pickle.loads(pickle.dumps(found))):
        with pytest.raises(ParameterError, match="expected the Path"):
            ucm.plot.PathDisplay.from_path(wrong)  # type: ignore[arg-type]


def test_a_fraction_is_no_number() -> None:
    """Without data there is no interval that it is a fraction of."""
    half = ucm.Param("r", 0.5, relative=True)
    objective = ucm.Hinge() + half * ucm.L2()
    for read in (
        lambda: ucm.NormBall(half).project(np.ones(2)),
        lambda: ucm.CappedSimplex(half).support(np.ones(2)),
        lambda: objective.value(np.ones(2), np.ones(2)),
        lambda: ucm.extend.value(2 * half),
    ):
        with pytest.raises(ucm.CompositionError, match="fraction of the admissible interval"):
            read()
    assert repr(objective) == "Hinge() + Param('r', 0.5, relative=True) * L2()"


def test_the_time_limit_reaches_the_intervals() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 400)
    X = rng.standard_normal((800, 30)) + 0.2 * y[:, None]
    one = ucm.models.nu_svm(ucm.Param("nu", 0.5, relative=True))
    k = [ucm.Param(name, 0.5, relative=True) for name in ("a", "b")]
    two = ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, k[0]) - ucm.Hull(ucm.neg, weights=ucm.NormBall(k[1]))
    for model in (one, two):
        with pytest.raises(ucm.SolverError, match=r"within 1e-06 s"):
            ucm.solve(model, X, y, time_limit=1e-6)


@pytest.mark.parametrize("name", ["mm_fda", "mm_mpm"])
def test_an_interval_with_a_kernel_takes_few_solves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner products with small eigenvalues, where scalar roots end far from the gap."""
    solves: list[float] = []
    nearest = zero_entry._nearest

    def counted(form: Any, gap: float, *rest: Any) -> Any:
        solves.append(gap)
        return nearest(form, gap, *rest)

    monkeypatch.setattr(zero_entry, "_nearest", counted)
    rng = np.random.default_rng(1)
    y = np.repeat([1.0, -1.0], 50)
    X = rng.standard_normal((100, 2)) + 0.3 * y[:, None]
    model = getattr(ucm.models, name)(ucm.Param("kappa", 0.5, relative=True))
    plan = ucm.compile(model, X, y, kernel="rbf", gamma=0.05)
    assert 0 < len(solves) <= 24
    solution = plan.solve()
    assert solution.status == "optimal" and solution.objective < 0.0  # 0 is outside at half of the interval
