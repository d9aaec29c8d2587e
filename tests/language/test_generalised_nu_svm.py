"""Generalised nu-SVMs in their own parameters: (22), (40), (44) and (48) of Ito, Takeda and Toh (2015)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from conftest import Loader
from sklearn.model_selection import GridSearchCV

import ucm
from ucm import Exponential, Hinge, HuberHinge, Hull, Logistic, LossBall, models, neg, pos, signed
from ucm.errors import CompositionError, EmptySetError, ParameterError

M, N = 24, 3
untyped: Any = ucm
Y = np.where(np.arange(M) < 9, 1.0, -1.0)
X = np.random.default_rng(0).standard_normal((M, N)) + Y[:, None]
Losses = Callable[[Any], Any]


def p_hinge(p: float, nu: Any) -> Losses:
    return lambda u: cp.sum(cp.multiply(1.0 / np.asarray(nu), cp.power(cp.pos(u), p))) / M


def by_class(loss: Any, lam: float) -> Any:
    plus, minus = (Hull(samples, weights=LossBall(loss, lam=lam)) for samples in (pos, neg))
    return plus - minus


# model, lam, the sum of losses of (22) at rho - margin
MODELS: dict[str, tuple[Any, float, Losses]] = {
    "kl_svm": (models.kl_svm(lam=0.8), 0.8, lambda u: cp.sum(cp.exp(u)) / M),
    "l2_nu_svm": (models.l2_nu_svm(nu=0.5), 1.0, p_hinge(2.0, 0.5)),
    "biased_l2_nu_svm": (
        models.biased_l2_nu_svm(nu_pos=0.5, nu_neg=0.9), 1.0, p_hinge(2.0, np.where(Y > 0.0, 0.5, 0.9))
    ),
    "hinge": (models.generalised_nu_svm(Hinge() / 0.5, 2.0), 2.0, p_hinge(1.0, 0.5)),
    "p-hinge": (models.generalised_nu_svm(Hinge(1.5) / 0.5, 2.0), 2.0, p_hinge(1.5, 0.5)),
    "logistic": (
        models.generalised_nu_svm(Logistic() / 0.3, 0.7), 0.7, lambda u: cp.sum(cp.logistic(u)) / (0.3 * M)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_problem_in_its_own_parameters(name: str) -> None:
    """w, b and rho, times lam, against the problem itself in CVXPY."""
    model, lam, losses = MODELS[name]
    w, b, rho = cp.Variable(N), cp.Variable(), cp.Variable()
    margins = cp.multiply(Y, X @ w + b)
    problem = cp.Problem(cp.Minimize(losses(rho - margins) - rho), [cp.norm(w) <= lam])
    least = problem.solve(solver="CLARABEL")
    found = ucm.solve(model, X, Y, tol=1e-8)
    assert found.status == "optimal" and found.rho is not None and found.b is not None
    w.value, b.value, rho.value = lam * found.w, lam * found.b, lam * found.rho
    assert problem.objective.value == pytest.approx(least, abs=1e-6)


def test_the_radius_is_that_of_the_optimum() -> None:
    """Lemma 5, and the other way: among the balls of all radii that of lam has the least of (25)."""
    plan = ucm.compile(models.kl_svm(lam=0.8), X, Y)
    radius = plan.model.params()["radius"]

    def height(r: float) -> float:
        model = Hull(signed, weights=LossBall(Exponential(), r))
        return r / 0.8 - ucm.solve(model, X, Y, tol=1e-9).objective

    assert height(radius) < min(height(radius - 0.02), height(radius + 0.02))
    assert plan.solve().params == {"lam": 0.8, "radius": radius}


@pytest.mark.parametrize("scale", [1e-250, 1e-160, 1e160, 1e250])
def test_the_radius_is_the_same_in_any_unit(scale: float) -> None:
    model = models.generalised_nu_svm(ucm.SquaredHinge())
    wanted = ucm.compile(model, X, Y).model.params()["radius"]
    for each in (X, np.hstack([X, np.zeros((M, M))])):
        plan = ucm.compile(model.with_params(lam=1.0 / scale), scale * each, Y)
        assert plan.model.params()["radius"] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    "ball",
    [
        LossBall(ucm.SquaredHinge(), lam=ucm.Param("radius", 0.3)),
        LossBall(ucm.SquaredHinge() / ucm.Param("radius", 0.5), lam=0.3),
    ],
)
def test_a_parameter_of_the_name_of_the_radius(ball: LossBall) -> None:
    found = ucm.solve(Hull(signed, weights=ball), X, Y).params
    plain = ball.with_params(radius=float(found["radius"]))
    assert found["radius_of_lam"] == pytest.approx(
        ucm.compile(Hull(signed, weights=plain), X, Y).model.params()["radius_of_lam"]
    )


def test_features_more_than_samples_kernels_and_weights() -> None:
    model = models.generalised_nu_svm(Hinge(2) / 0.5, 1.0)
    wide = np.hstack([X, np.zeros((M, M))])
    assert ucm.compile(model, wide, Y).model.params()["radius"] == pytest.approx(
        ucm.compile(model, X, Y).model.params()["radius"], rel=1e-9
    )
    gram = ucm.solve(model, X, Y, kernel="linear", tol=1e-8)
    assert gram.rho == pytest.approx(ucm.solve(model, X, Y, tol=1e-8).rho, rel=1e-5)
    copies = np.where(np.arange(M) % 3 == 0, 2, 1)
    repeated = np.repeat(np.arange(M), copies)
    for each in (model, models.biased_l2_nu_svm(nu_pos=0.5, nu_neg=0.9)):
        weighed = ucm.solve(each, X, Y, sample_weight=copies, tol=1e-8)
        plain = ucm.solve(each, X[repeated], Y[repeated], tol=1e-8)
        np.testing.assert_allclose(weighed.w, plain.w, atol=1e-4)
        assert weighed.rho == pytest.approx(plain.rho, rel=1e-4)


def test_estimators_paths_and_files() -> None:
    model = models.kl_svm(lam=0.5)
    search = GridSearchCV(ucm.Classifier(model), {"model__lam": [0.3, 0.9]}, cv=2).fit(X, Y)
    assert search.best_estimator_.score(X, Y) > 0.7
    path = ucm.path(model, X, Y, lam=[0.3, 0.9])
    direct = ucm.solve(models.kl_svm(lam=0.9), X, Y)
    assert [s.objective for s in path] == pytest.approx([path[0].objective, direct.objective])
    assert ucm.from_json(ucm.to_json(model)) == model
    assert "r(λ)" in str(model)


def test_rho_of_a_divergence_is_the_margin_of_a_share_of_the_uniform_weight() -> None:
    """`q = e^((rho - margin) / c - 1) / N`, c and rho from two weights."""
    found: Any = ucm.solve(Hull(signed, weights=ucm.KLBall(0.5)), X, Y, tol=1e-10)
    margins = Y * (X @ found.w + found.b)
    slope, top = np.polyfit(np.log(found.weights * M) + 1.0, margins, 1)
    assert slope < 0.0 and found.rho == pytest.approx(top, abs=1e-4)


# overlapping samples, for which norm(w) <= lam is inactive from some lam on
OVERLAP = X - 0.7 * Y[:, None]
INACTIVE: dict[str, tuple[Any, float, Losses]] = {
    "kl_svm": (models.kl_svm(lam=5.0), 5.0, lambda u: cp.sum(cp.exp(u)) / M),
    "kl_svm, any lam": (models.kl_svm(lam=1e7), 1e7, lambda u: cp.sum(cp.exp(u)) / M),
    "l2_nu_svm": (models.l2_nu_svm(nu=0.01), 1.0, p_hinge(2.0, 0.01)),
    "biased_l2_nu_svm": (
        models.biased_l2_nu_svm(nu_pos=0.01, nu_neg=0.03), 1.0, p_hinge(2.0, np.where(Y > 0.0, 0.01, 0.03))
    ),
    "p-hinge": (models.generalised_nu_svm(Hinge(1.5) / 0.5, 30.0), 30.0, p_hinge(1.5, 0.5)),
    "logistic": (
        models.generalised_nu_svm(Logistic() / 0.3, 70.0), 70.0, lambda u: cp.sum(cp.logistic(u)) / (0.3 * M)
    ),
    "Huber": (
        models.generalised_nu_svm(HuberHinge(1.0) / 0.3, 70.0), 70.0,
        lambda u: cp.sum(0.5 * cp.huber(cp.pos(u), 1.0)) / (0.3 * M),
    ),
}  # fmt: skip


def the_problem(Z: Any, y: Any, lam: float, losses: Losses) -> tuple[cp.Problem, Any]:
    w, b, rho = cp.Variable(Z.shape[1]), cp.Variable(), cp.Variable()
    objective = losses(rho - cp.multiply(y, Z @ w + b)) - rho
    return cp.Problem(cp.Minimize(objective), [cp.norm(w) <= lam]), (w, b, rho)


@pytest.mark.parametrize("name", INACTIVE)
def test_the_problem_where_the_ball_of_w_is_inactive(name: str) -> None:
    """The optimum, w, b and rho are those of (22), whatever lam is, and are proven and verified."""
    model, lam, losses = INACTIVE[name]
    problem, variables = the_problem(OVERLAP, Y, lam, losses)
    least = problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    plan = ucm.compile(model, OVERLAP, Y)
    found: Any = plan.solve(tol=1e-8)
    assert found.status == "optimal" and plan.verify().agrees
    assert found.objective == pytest.approx(least, abs=1e-7)
    assert found.certificate.dual <= least + 1e-8
    assert 0.001 < np.linalg.norm(found.w) < 0.999 * lam
    np.testing.assert_allclose(found.w, variables[0].value, atol=1e-3 * float(np.linalg.norm(found.w)))
    for variable, x in zip(variables, (found.w, found.b, found.rho), strict=True):
        variable.value = x
    assert problem.objective.value == pytest.approx(least, abs=1e-7)
    masses = [found.weights[side == Y].sum() for side in (1.0, -1.0)]
    np.testing.assert_allclose(masses, 1.0 if name.startswith("biased") else 0.5)
    np.testing.assert_allclose((found.weights * Y) @ OVERLAP, 0.0, atol=1e-9)
    again = plan.certify(w=found.w, weights=found.weights)
    assert abs(again.relative_gap) <= 1e-8
    assert plan.certify(w=0.9 * found.w).relative_gap > 1e-4
    long, short = (plan.certify(w=c * lam * found.w / np.linalg.norm(found.w)).primal for c in (1e3, 1.0))
    assert long == pytest.approx(short, rel=1e-12)
    reference = plan.reference(scaled=False)
    reference.solve(solver="CLARABEL")
    variable = next(v for v in reference.variables() if v.name() == "w")
    np.testing.assert_allclose(variable.value, found.w, atol=1e-3 * float(np.linalg.norm(found.w)))


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "wine", "iris"])
@pytest.mark.parametrize("columns", [2, 4])
def test_bundled_data_are_solved_for_every_lam(name: str, columns: int) -> None:
    """The bound of the norm is active or not; the interval of lam says which."""
    Z, y = ucm.datasets.load(name)
    Z = Z[:, np.argsort(Z.var(axis=0))[-columns:]]
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    for make, losses in (
        (lambda lam: models.kl_svm(lam=lam), lambda u: cp.sum(cp.exp(u)) / y.size),
        (
            lambda lam: models.generalised_nu_svm(Hinge(2) / 0.5, lam),
            lambda u: cp.sum_squares(cp.pos(u)) / (0.5 * y.size),
        ),
    ):  # fmt: skip
        top = ucm.admissible(make(1.0), Z, y)["lam"].upper
        for lam in (0.5, 3.0, 40.0):
            found: Any = ucm.solve(make(lam), Z, y)
            assert found.status == "optimal"
            inside = lam < top
            value = lam * found.objective - found.params["radius"] if inside else found.objective
            if not inside:
                assert np.linalg.norm(found.w) == pytest.approx(top, rel=1e-6)
            least = the_problem(Z, y, lam, losses)[0].solve(solver="CLARABEL")
            assert value == pytest.approx(least, abs=1e-5 * max(1.0, abs(least)))


def test_features_of_different_scales() -> None:
    """The reference has every feature in units of its largest entry."""
    Z, y = ucm.datasets.load("breast_cancer")
    Z = Z[:, ::-1] * 10.0 ** np.linspace(-4.0, 4.0, Z.shape[1])
    found: Any = ucm.solve(models.kl_svm(lam=1.0), Z, y)
    unit, largest = np.abs(Z).max(axis=0), np.abs(Z).max()
    v, b, rho = cp.Variable(Z.shape[1]), cp.Variable(), cp.Variable()
    losses = cp.sum(cp.exp(rho - cp.multiply(y, (Z / unit) @ v + b))) / y.size
    ball = cp.norm(cp.multiply(largest / unit, v)) <= largest
    least = cp.Problem(cp.Minimize(losses - rho), [ball]).solve(solver="CLARABEL")
    assert found.objective - found.params["radius"] == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "model", "optimum", "norm"),
    [
        ("heart", models.kl_svm(lam=5.0), 0.434607, 2.09264),
        ("german.numer", models.l2_nu_svm(nu=1.0), -0.403430, 0.677199),
    ],
)
def test_on_data_of_the_paper(
    name: str, model: Any, optimum: float, norm: float, shared_data: Loader
) -> None:
    Z, y = shared_data(name)
    found: Any = ucm.solve(model, Z, y)
    assert found.status == "optimal" and found.certificate.kind == "global"
    assert found.objective == pytest.approx(optimum, abs=2e-6)
    assert np.linalg.norm(found.w) == pytest.approx(norm, rel=1e-5)


def test_an_inactive_ball_takes_kernels_and_weights() -> None:
    model = models.kl_svm(lam=50.0)
    plain: Any = ucm.solve(model, OVERLAP, Y)
    gram: Any = ucm.solve(model, OVERLAP, Y, kernel="poly", degree=1, coef0=0.0, gamma=1.0)
    assert gram.status == "optimal" and gram.objective == pytest.approx(plain.objective)
    np.testing.assert_allclose(gram.decision(OVERLAP), plain.decision(OVERLAP), atol=1e-6)
    wide: Any = ucm.solve(model, np.hstack([OVERLAP, np.zeros((M, M))]), Y)
    np.testing.assert_allclose(wide.w[:N], plain.w, atol=1e-9)
    copies = np.where(np.arange(M) % 3 == 0, 2, 1)
    repeated = np.repeat(np.arange(M), copies)
    for each in (model, models.biased_l2_nu_svm(nu_pos=0.01, nu_neg=0.03)):
        weighed: Any = ucm.solve(each, OVERLAP, Y, sample_weight=copies)
        twice: Any = ucm.solve(each, OVERLAP[repeated], Y[repeated])
        assert weighed.status == twice.status == "optimal"
        assert (weighed.objective, weighed.b) == pytest.approx((twice.objective, twice.b))
        np.testing.assert_allclose(weighed.w, twice.w, atol=1e-7)
    for rule in ("min_error", "means", "zero"):
        assert ucm.solve(model, OVERLAP, Y, bias_rule=rule).bias_rule == rule
    with pytest.raises(ParameterError, match="no nearest points"):
        ucm.solve(model, OVERLAP, Y, bias_rule="midpoint")
    assert ucm.Classifier(model).fit(OVERLAP, Y).score(OVERLAP, Y) > 0.5
    for unit in (1e-8, 1e4, 1e8):
        scaled: Any = ucm.solve(models.kl_svm(lam=50.0 / unit), unit * OVERLAP, Y)
        assert scaled.objective == pytest.approx(plain.objective)
        np.testing.assert_allclose(unit * scaled.w, plain.w, rtol=1e-6)


def test_the_lam_above_which_the_ball_is_inactive() -> None:
    interval = ucm.admissible(models.kl_svm(lam=0.3), OVERLAP, Y)["lam"]
    assert interval.lower == 0.0 and interval.upper_closed and "inactive" in interval.how
    for lam in (1.001 * interval.upper, 10.0 * interval.upper):
        w = ucm.solve(models.kl_svm(lam=lam), OVERLAP, Y).w
        assert np.linalg.norm(w) == pytest.approx(interval.upper)
    before: Any = ucm.solve(models.kl_svm(lam=0.99 * interval.upper), OVERLAP, Y)
    assert before.status == "optimal" and before.objective < -1e-6
    nu = ucm.admissible(models.l2_nu_svm(nu=0.01), OVERLAP, Y)["nu"]
    assert math.isinf(nu.upper)
    below = ucm.solve(models.l2_nu_svm(nu=0.99 * nu.lower), OVERLAP, Y)
    above = ucm.solve(models.l2_nu_svm(nu=1.01 * nu.lower), OVERLAP, Y)
    assert np.linalg.norm(below.w) == pytest.approx(0.99) and above.objective < -1e-6
    separable = ucm.admissible(models.kl_svm(lam=0.3), OVERLAP + 9.0 * Y[:, None], Y)["lam"]
    assert math.isinf(separable.upper) and "separates" in separable.how
    halfway = models.kl_svm(lam=ucm.Param("lam", 0.5, relative=True))
    assert ucm.solve(halfway, OVERLAP, Y).params["lam"] == pytest.approx(0.5 * interval.upper)
    for model, name in (
        (models.biased_l2_nu_svm(nu_pos=0.5, nu_neg=0.9), "nu_pos"),
        (models.generalised_nu_svm(Hinge() / 0.5, 0.3), "lam"),
    ):
        unknown = ucm.admissible(model, OVERLAP, Y)[name]
        assert unknown.lower == -math.inf and "not computed" in unknown.how


def test_lam_is_given_by_its_name() -> None:
    with pytest.raises(ucm.CompositionError, match="takes loss, radius, lam="):
        untyped.LossBall(ucm.SquaredHinge(), None, 0.3)


def test_rho_of_the_nu_svm() -> None:
    """(37): rho is the margin of its sum of slacks, and -rho + sum xi / (m nu) half of the objective."""
    nu = 0.6
    for norm in (2.0, 1.5):
        found = ucm.solve(ucm.RobustMargin(models.nu_svm(nu), norm), X, Y, tol=1e-9)
        margins = Y * (X @ found.w + found.b)
        slack = np.maximum(0.0, found.rho - margins).sum() / (M * nu)
        assert slack - found.rho == pytest.approx(0.5 * found.objective, abs=1e-6)
    assert ucm.solve(models.nu_svm(nu), X, Y, bias_rule="min_error").rho is None


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "negative": (lambda: models.kl_svm(lam=-1.0), ParameterError, "positive number, got -1"),
    "both": (lambda: models.kl_svm(0.5, lam=1.0), CompositionError, "exactly one of alpha and lam, got"),
    "one nu": (lambda: models.biased_l2_nu_svm(nu_pos=1.0), CompositionError, "one of both kappas"),
    "neither": (lambda: LossBall(Hinge()), CompositionError, "one of radius and lam"),
    "no number": (lambda: untyped.LossBall(Hinge(), lam="a"), CompositionError, "lam: expected"),
    "flat loss": (lambda: models.generalised_nu_svm(Logistic()), EmptySetError, "slope at most 1"),
    "one class": (
        lambda: Hull(pos, weights=LossBall(Exponential(), lam=1.0)), CompositionError, r"Hull\(signed,"
    ),
    "another norm": (
        lambda: ucm.RobustMargin(models.kl_svm(lam=1.0), 1.5), CompositionError, "in the Euclidean norm"
    ),
    "two lams": (
        lambda: Hull(pos, weights=LossBall(ucm.SquaredHinge(), lam=0.1))
        - Hull(neg, weights=LossBall(ucm.SquaredHinge(), lam=5.0)),
        CompositionError,
        "one lam for both classes, .* got 0.1 and 5",
    ),
    "loss of one class": (
        lambda: by_class(HuberHinge(1.0) / 0.1, 1.0), CompositionError, "take Hull"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name: str) -> None:
    make, error, message = BAD[name]
    with pytest.raises(error, match=message):
        ucm.compile(make(), X, Y)


def test_without_data_there_is_no_radius() -> None:
    ball = LossBall(Exponential(), lam=1.0)
    with pytest.raises(CompositionError, match="expected a radius, got lam"):
        ball.support(np.ones(3))
