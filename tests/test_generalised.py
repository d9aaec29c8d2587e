"""Generalised nu-SVMs in their own parameters: (22), (40), (44) and (48) of Ito, Takeda and Toh (2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import ucm
from ucm import Exponential, Hinge, HuberHinge, Hull, Logistic, LossBall, models, neg, pos, signed
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError

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


def test_the_radius_of_a_lam_has_no_interval() -> None:
    for model in (models.generalised_nu_svm(ucm.SquaredHinge(), 0.3), models.kl_svm(lam=0.3)):
        interval = ucm.admissible(model, X, Y)["lam"]
        assert "lam stands for a radius" in interval.how and interval.lower == -np.inf


def test_lam_is_given_by_its_name() -> None:
    with pytest.raises(TypeError):
        untyped.LossBall(ucm.SquaredHinge(), None, 0.3)


def test_rho_of_the_nu_svm() -> None:
    """(37): rho is the margin of its sum of slacks, and -rho + sum xi / (m nu) half of the objective."""
    nu = 0.6
    for norm in (2.0, 1.5):
        found = ucm.solve(ucm.RobustMargin(models.nu_svm(nu), norm), X, Y, tol=1e-9)
        margins = Y * (X @ found.w + found.b)
        slack = np.maximum(0.0, found.rho - margins).sum() / (M * nu)
        assert slack - found.rho == pytest.approx(0.5 * found.objective, abs=1e-6)
    assert ucm.solve(models.nu_svm(nu), X, Y, bias_rule="error").rho is None


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "negative": (lambda: models.kl_svm(lam=-1.0), ParameterError, "positive number, got -1"),
    "both": (lambda: models.kl_svm(0.5, lam=1.0), CompositionError, "got alpha, lam; give"),
    "one nu": (lambda: models.biased_l2_nu_svm(nu_pos=1.0), CompositionError, "got nu_pos; give"),
    "neither": (lambda: LossBall(Hinge()), CompositionError, "one of radius and lam"),
    "no number": (lambda: untyped.LossBall(Hinge(), lam="a"), CompositionError, "lam: expected a real"),
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
def test_bad_input(name: str) -> None:
    make, error, message = BAD[name]
    with pytest.raises(error, match=message):
        ucm.compile(make(), X, Y)


def test_lam_with_which_nothing_is_learnt() -> None:
    overlapping = X - Y[:, None]
    with pytest.raises(ParameterError, match="w = 0 is not optimal, got 500"):
        ucm.compile(models.kl_svm(lam=500.0), overlapping, Y)
    with pytest.raises(ParameterError, match="smaller one, or divide the loss"):
        ucm.compile(models.l2_nu_svm(nu=1e-4), overlapping, Y)
    for scale in (1e4, 1e8):  # no error of a root
        with pytest.raises((ParameterError, SolverError), match="lam: "):
            ucm.compile(models.generalised_nu_svm(Logistic() / 0.3), scale * overlapping, Y)


def test_without_data_there_is_no_radius() -> None:
    ball = LossBall(Exponential(), lam=1.0)
    with pytest.raises(CompositionError, match="expected a radius, got lam"):
        ball.support(np.ones(3))
    with pytest.raises(CompositionError, match="expected a radius, got lam"):
        ucm.to_cvxpy_source(models.kl_svm(lam=1.0))
