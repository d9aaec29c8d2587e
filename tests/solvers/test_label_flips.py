"""Wasserstein balls with label flips: against CVXPY by hand, false dual points, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize_scalar
from typed import known, untyped

import ucm
from ucm.errors import CompositionError, DataError, ParameterError
from ucm.forms.flips import FlippedSamples

LOSSES: dict[Any, Callable] = {
    ucm.Hinge(): lambda t: cp.pos(1 - t),
    ucm.Logistic(): lambda t: cp.logistic(-t),
}
KAPPAS = (0.0, 0.1, 0.5, 1.0, 2.0, 100.0, np.inf)


def samples(m: int = 40, n: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n))
    return X, np.where(X @ np.linspace(1.0, -0.5, n) + 0.8 * rng.standard_normal(m) > 0.0, 1.0, -1.0)


def by_hand(
    X: np.ndarray,
    y: np.ndarray,
    loss: Any,
    eps: float,
    kappa: float,
    q: float,
    c: Any = None,
    free: bool = True,
) -> float:
    """The optimum as the paper writes it, for the norm q of w."""
    c = np.ones(y.size) if c is None else c
    w, lam, of = cp.Variable(X.shape[1]), cp.Variable(), LOSSES[loss]
    z = cp.multiply(y, X @ w + (cp.Variable() if free else 0.0))
    each = of(z) if kappa == np.inf else cp.maximum(of(z), of(-z) - kappa * lam)
    longer = cp.pnorm(w, q, approx=False) if q == 3.0 else cp.norm(w, q)
    problem = cp.Problem(cp.Minimize(eps * lam + (c / c.sum()) @ each), [lam >= longer])
    return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7))


@pytest.mark.parametrize(("p", "q"), [(2.0, 2.0), (1.0, np.inf), (np.inf, 1.0), (1.5, 3.0)])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_optima_against_the_problem_by_hand(loss: Any, p: float, q: float) -> None:
    X, y = samples()
    for eps in (0.03, 0.3):
        for kappa in KAPPAS if p == 2.0 else KAPPAS[2::2]:
            sol = ucm.solve(ucm.WassersteinObjective(loss, eps=eps, kappa=kappa, norm=p), X, y)
            best = by_hand(X, y, loss, eps, kappa, q)
            assert sol.status == "optimal" and sol.certificate.kind == "global"
            assert_allclose(sol.objective, best, rtol=2e-6)
            assert sol.certificate.dual <= best * (1.0 + 1e-7)


def test_labels_that_stay_are_a_norm_beside_the_mean() -> None:
    X, y = samples()
    for loss in LOSSES:
        ball = ucm.solve(ucm.WassersteinObjective(loss, eps=0.1, norm=1.0), X, y)
        plain = ucm.solve(loss / y.size + 0.1 * ucm.LInf(), X, y)
        assert_allclose(ball.objective, plain.objective, rtol=2e-6)
        far = ucm.solve(ucm.WassersteinObjective(loss, eps=0.1, kappa=1e3, norm=1.0), X, y)
        assert_allclose(far.objective, plain.objective, rtol=2e-6)


def test_weights_intercept_kernel_and_wide_samples() -> None:
    X, y = samples(seed=2)
    c = np.random.default_rng(0).integers(0, 4, y.size).astype(float)
    model = ucm.WassersteinObjective(ucm.Hinge(), eps=0.05, kappa=1.0)
    sol = ucm.solve(model, X, y, sample_weight=c)
    assert_allclose(sol.objective, by_hand(X, y, ucm.Hinge(), 0.05, 1.0, 2.0, c), rtol=2e-6)
    sol = ucm.solve(model.with_intercept(None), X, y)
    assert_allclose(sol.objective, by_hand(X, y, ucm.Hinge(), 0.05, 1.0, 2.0, free=False), rtol=2e-6)
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    e, V = np.linalg.eigh(K)
    root = V * np.sqrt(np.maximum(e, 0.0))
    sol = ucm.solve(model, X, y, kernel="rbf", gamma=1.0)
    assert sol.status == "optimal"
    assert_allclose(sol.objective, by_hand(root, y, ucm.Hinge(), 0.05, 1.0, 2.0), rtol=2e-6)
    wide, t = np.random.default_rng(0).standard_normal((20, 200)), np.repeat([1.0, -1.0], 10)
    sol = ucm.solve(model, wide, t)  # lam is above the norm of w, whose dual point is 0
    assert sol.status == "optimal"
    assert_allclose(sol.objective, 2.0 * 0.05 / 1.0, rtol=1e-6)


def test_no_dual_point_gives_a_false_bound() -> None:
    X, y = samples()
    rng, c = np.random.default_rng(0), np.full(y.size, 1.0 / y.size)
    for loss in LOSSES:
        for p in (1.0, 2.0, np.inf):
            model = ucm.WassersteinObjective(loss, eps=0.05, kappa=0.8, norm=p)
            sol = ucm.solve(model, X, y)
            margin = y * (X @ sol.w + known(sol.b))
            here = FlippedSamples(model, X, y, c, sol.w, margin, True)
            assert here.bound(sol.weights)[0] >= sol.objective * (1.0 - 1e-6)
            for scale in (0.0, 1e-3, 0.1, 1.0, 10.0):
                slopes = known(sol.weights) + scale * c * rng.standard_normal(y.size)
                for r in (None, c, 0.0 * c, c * rng.random(y.size), np.maximum(-slopes, 0.0)):
                    bound, violation = here.bound(slopes, r)
                    assert violation > 1e-9 or bound <= sol.objective * (1.0 + 1e-9)


def test_a_certificate_looks_on_until_its_tolerance_is_met() -> None:
    """The first of the given parts flips every label; the objective is small against 1."""
    X, y = samples()
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    X[:, 0] += y
    plan = ucm.compile(ucm.WassersteinObjective(ucm.Hinge(), eps=1e-3, kappa=0.5), X, y)
    answer = plan.solve().answer
    given = replace(answer, multipliers=(np.full(y.size, 1.0 / y.size), *answer.multipliers))
    assert plan.lowering.certify(given, 1e-3).certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("kappa", [0.0, 0.3, 2.0])
def test_the_value_is_the_least_over_lam(kappa: float) -> None:
    X, y = samples()
    c, rng = np.random.default_rng(1).random(y.size), np.random.default_rng(2)
    model = ucm.WassersteinObjective(ucm.Hinge(), eps=0.2, kappa=kappa, norm=1.0)
    for scale in (0.1, 1.0, 3.0):
        w = scale * rng.standard_normal(3)
        t, length = y * (X @ w), np.abs(w).max()

        def height(lam: float, t: np.ndarray = t) -> float:
            flipped = np.maximum(0.0, 1.0 + t) - kappa * lam
            return 0.2 * lam + float(c @ np.maximum(np.maximum(0.0, 1.0 - t), flipped)) / c.sum()

        places = np.linspace(length, length + 50.0, 2001)
        low = places[np.argmin([height(x) for x in places])]
        bounds = (max(length, low - 0.1), low + 0.1)
        found: Any = minimize_scalar(height, bounds=bounds, method="bounded")
        least = min(height(length), found.fun)
        assert_allclose(model.value(t, w, y, c), least, rtol=1e-5)


def test_a_declaration_and_its_estimator() -> None:
    X, y = samples()
    radius, kappa = ucm.Param("radius", 0.05), ucm.Param("kappa", 2.0)
    model = ucm.WassersteinObjective(ucm.Logistic(), eps=radius, kappa=kappa, norm=1)
    assert ucm.from_json(ucm.to_json(model)) == model
    assert "max(log(1 + exp(-t_i)), log(1 + exp(t_i)) - κ·λ)" in str(model)
    assert r"\operatorname*{mean}_{i}" in model.to_latex() and r"\text{primal}" in model.problem_latex()
    plan = ucm.compile(model, X, y)
    sol, problem = plan.solve(), plan.reference()
    assert problem.is_dcp(dpp=True) and [p.name() for p in problem.parameters()] == ["radius", "kappa"]
    assert plan.verify()
    assert plan.certify(w=sol.w, b=sol.b, weights=sol.weights).relative_gap < 1e-5
    heights = [end.objective for end in ucm.path(model, X, y, radius=[0.01, 0.1, 1.0])]
    assert heights == sorted(heights)
    fitted = ucm.Classifier(model).set_params(model__kappa=0.5).fit(X, y)
    assert fitted.certificate_.kind == "global" and fitted.predict_proba(X).shape == (40, 2)  # type: ignore[union-attr]


def test_what_it_refuses() -> None:
    X, y = samples()
    losses = (ucm.Ramp(), ucm.SquaredHinge(), ucm.Exponential(), ucm.LeastSquares(), ucm.Hinge(on=ucm.pos), 1)
    for loss in (*losses, 2 * ucm.Hinge(), ucm.Robust(ucm.Hinge(), ucm.Ball(0, 0.1))):
        with pytest.raises(CompositionError, match="0-1 loss"):
            untyped.WassersteinObjective(loss, eps=0.1)
    bad = {"eps": (0.0, -1.0, np.inf), "kappa": (-0.1,), "norm": (0.5,), "intercept": ("penalised",)}
    for name, values in bad.items():
        for x in values:
            with pytest.raises(CompositionError, match=f"WassersteinObjective.*{name}"):
                untyped.WassersteinObjective(ucm.Hinge(), **{"eps": 0.1, name: x})
    model = ucm.WassersteinObjective(ucm.Hinge(), eps=0.1, kappa=1.0, norm=1.0)
    for combine in (lambda: model + ucm.L1(), lambda: ucm.Hinge() + model, lambda: 2 * model):
        with pytest.raises(CompositionError, match="Wasserstein"):
            combine()
    with pytest.raises(CompositionError, match="kernel"):
        ucm.compile(model, X, y, kernel="rbf")
    with pytest.raises(CompositionError, match="to_cvxpy_source"):
        ucm.to_cvxpy_source(model)
    with pytest.raises(DataError, match="no route over rows"):
        ucm.compile(model, ucm.open_rows(X, y))
    with pytest.raises(ParameterError, match="clarabel"):
        ucm.compile(model, X, y, solver="dca")


@pytest.mark.parametrize("kappa", [0.5, float("inf")])
def test_a_tiny_radius_is_proven(kappa: float) -> None:
    """The rounding of a dual point is as large as its bound, eps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, 1, -1)
    model = ucm.WassersteinObjective(ucm.Hinge(), eps=1e-8, kappa=kappa)
    sol = ucm.solve(model, X, y)
    assert ucm.solve(model, sparse.csr_matrix(X), y).certificate.relative_gap <= 1e-6
    mean = ucm.WorstMean(ucm.Hinge(), ucm.NormBall(0.0, around="uniform")) + 1e-9 * ucm.L2()
    least = ucm.solve(mean, X, y).certificate.dual
    assert sol.status == "optimal" and sol.objective == pytest.approx(least, rel=1e-6)
