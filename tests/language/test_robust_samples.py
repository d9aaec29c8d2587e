"""Losses of the worst point of a set about each sample, and quantities given for each sample.

The references are CVXPY programs by hand, and corners of the sets by brute force.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate

import ucm
from ucm import (
    L1,
    L2,
    Ball,
    CappedSimplex,
    Ellipsoid,
    Exponential,
    Hinge,
    HuberHinge,
    LeastSquares,
    Logistic,
    Norm,
    Param,
    Ramp,
    Robust,
    WorstMean,
    neg,
    per_sample,
    pos,
)
from ucm.language.penalties.epigraph import Epigraph, LastWeight, OfFirst
from ucm.language.robust_samples import RootNorm
from ucm.solvers.objective.hinge_active_set import SplitActiveSet
from ucm.testing import check_penalty

_rng = np.random.default_rng(0)
_y = np.where(_rng.random(60) < 0.5, 1.0, -1.0)
_X = _rng.standard_normal((60, 4)) + np.array([1.0, 0.5, 0.0, 0.0]) * _y[:, None]
_r = 0.3 * _rng.random(60)
_A = _rng.standard_normal((4, 4))
_S = _A @ _A.T / 4
_sizes = np.array([0.1, 0.2, 0.3, 0.0])
_inf = float("inf")
_w, _b = cp.Variable(4), cp.Variable()


def _hinge(t: Any) -> Any:
    return cp.sum(cp.pos(1 - t))


def _square(w: Any) -> Any:
    return 0.5 * cp.sum_squares(w)


def _program(h: Any, loss: Callable = _hinge, penalty: Any = None, b: Any = _b) -> float:
    """Return the least `loss(t - h) + penalty`, h an expression of w."""
    penalty = _square(_w) if penalty is None else penalty
    problem = cp.Problem(cp.Minimize(loss(cp.multiply(_y, _X @ _w + b) - h) + penalty))
    return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9))


_lam = 0.5 * L2()
_by_hand: dict[str, tuple[Any, Callable[[], float]]] = {
    "inf ball": (Robust(Hinge(), Ball(0, 0.1, _inf)) + _lam, lambda: _program(0.1 * cp.norm1(_w))),
    "ball": (Robust(Hinge(), Ball(0, 0.3)) + _lam, lambda: _program(0.3 * cp.norm(_w))),
    "1 ball, l1": (
        Robust(Hinge(), Ball(0, 0.3, 1)) + 0.5 * L1(),
        lambda: _program(0.3 * cp.norm(_w, "inf"), penalty=0.5 * cp.norm1(_w)),
    ),
    "3 ball, logistic": (
        Robust(Logistic(), Ball(0, 0.3, 3)) + _lam,
        lambda: _program(0.3 * cp.pnorm(_w, 1.5, approx=False), lambda t: cp.sum(cp.logistic(-t))),
    ),
    "a radius each": (
        Robust(Hinge(), per_sample("radius") * Ball(0, 1)) + _lam,
        lambda: _program(_r * cp.norm(_w)),
    ),
    "a radius each, squared": (
        Robust(Hinge(2), 2 * (per_sample("radius") * Ball(0, 1, _inf))) + 0.5 * L1(),
        lambda: _program(2 * _r * cp.norm1(_w), lambda t: cp.sum_squares(cp.pos(1 - t)), 0.5 * cp.norm1(_w)),
    ),
    "ellipsoid": (
        Robust(Hinge(), Ellipsoid(0, _S, 0.2)) + _lam,
        lambda: _program(0.2 * cp.norm(np.linalg.cholesky(_S).T @ _w)),
    ),
    "ellipsoid, l1": (
        Robust(Hinge(), 0.5 * Ellipsoid(0, _S, 0.4)) + 0.5 * L1(),
        lambda: _program(0.2 * cp.norm(np.linalg.cholesky(_S).T @ _w), penalty=0.5 * cp.norm1(_w)),
    ),
    "image": (
        Robust(Hinge(), _A @ Ball([0.0] * 4, 0.1)) + _lam,
        lambda: _program(0.1 * cp.norm(_A.T @ _w)),
    ),
    "a box of size 0": (
        Robust(Hinge(), np.zeros((4, 4)) @ Ball([0.0] * 4, 1, _inf)) + _lam,
        lambda: _program(0.0),
    ),
    "box": (
        Robust(Hinge(), np.diag(_sizes) @ Ball([0.0] * 4, 1, _inf)) + _lam,
        lambda: _program(_sizes @ cp.abs(_w)),
    ),
    "sum": (
        Robust(Hinge(), Ball(0, 0.1) + Ball(0, 0.2, _inf) - Ball(0, 0.1)) + _lam,
        lambda: _program(0.2 * cp.norm(_w) + 0.2 * cp.norm1(_w)),
    ),
    "one class": (
        Robust(Hinge(on=pos), Ball(0, 0.1, _inf)) + Hinge(on=neg) + _lam,
        lambda: _program(0.1 * (_y > 0) * cp.norm1(_w)),
    ),
    "covariance": (
        Robust(Hinge(on=pos), Ellipsoid(0, pos.cov, 0.5)) + Hinge(on=neg) + _lam,
        lambda: _program((_y > 0) * cp.norm(0.5 * _centred() @ _w)),
    ),
    "no intercept": (
        (Robust(Hinge(), Ball(0, 0.1, _inf)) + _lam).with_intercept(None),
        lambda: _program(0.1 * cp.norm1(_w), b=0.0),
    ),
    "penalised intercept": (
        (Robust(Hinge(), Ball(0, 0.1)) + 0.5 * L1()).with_intercept("penalised"),
        lambda: _program(0.1 * cp.norm(_w), penalty=0.5 * cp.norm1(_w) + 0.5 * cp.abs(_b)),
    ),
    "bounds": (
        Robust(Hinge(), Ball(0, 0.1, _inf)) + _lam + ucm.LinearConstraint([[1.0, -1.0, 0.0, 0.0]], ub=0.1),
        lambda: _program(
            0.1 * cp.norm1(_w), penalty=_square(_w) + cp.transforms.indicator([_w[0] - _w[1] <= 0.1])
        ),
    ),
    "groups": (
        Robust(Hinge(), Ball(0, 0.1)) + _lam + ucm.GroupLasso([0, 0, 1, 1]),
        lambda: _program(0.1 * cp.norm(_w), penalty=_square(_w) + cp.norm(_w[:2]) + cp.norm(_w[2:])),
    ),
    "worst mean": (
        WorstMean(Robust(Hinge(), Ball(0, 0.1)), CappedSimplex(4, relative=True)) + 0.05 * L2(),
        lambda: _program(
            0.1 * cp.norm(_w), lambda t: cp.sum_largest(cp.pos(1 - t), 15) / 15, 0.05 * cp.sum_squares(_w)
        ),
    ),
    "nothing but 0": (Robust(Hinge(), Ball(0, 9, _inf)) + _lam, lambda: _program(9 * cp.norm1(_w))),
}


def _centred() -> np.ndarray:
    P = _X[_y > 0]
    return (P - P.mean(axis=0)) / np.sqrt(len(P))


def _given(model: Any) -> dict[str, Any]:
    return {"per_sample": {"radius": _r}} if "per_sample" in repr(model) else {}


@pytest.mark.parametrize("name", _by_hand)
def test_robust_losses_against_programs_by_hand(name: str) -> None:
    model, best = _by_hand[name]
    plan = ucm.compile(model, _X, _y, **_given(model))
    sol, best = plan.solve(), best()
    assert sol.status == "optimal" and sol.certificate.violation <= 1e-9
    assert sol.objective == pytest.approx(best, rel=1e-6)
    assert sol.certificate.dual <= best * (1 + 1e-8)
    assert plan.verify() and plan.reference().is_dcp(dpp=True)
    outside = plan.certify(w=sol.w, b=sol.b, weights=sol.weights)
    assert outside.relative_gap == pytest.approx(sol.certificate.relative_gap, abs=1e-9)
    value = (
        model.value(_y * (_X @ sol.w + sol.b), sol.w, _y, b=sol.b, per_sample={"radius": _r})
        if ("cov" not in repr(model))
        else sol.objective
    )
    assert value == pytest.approx(sol.objective, rel=1e-9)


def test_the_value_is_that_of_the_worst_corners() -> None:
    model = Robust(Logistic(), per_sample("radius") * Ball(0, 1, _inf)) + _lam
    sol = ucm.solve(model, _X, _y, per_sample={"radius": _r})
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    points = _X[:, None] + _r[:, None, None] * corners
    losses = np.logaddexp(0.0, -_y[:, None] * (points @ sol.w + sol.b)).max(axis=1)
    assert sol.objective == pytest.approx(losses.sum() + 0.5 * sol.w @ sol.w, rel=1e-12)
    for w in _rng.standard_normal((20, 4)):  # no w is better than the bound
        worst = np.logaddexp(0.0, -_y[:, None] * (points @ w)).max(axis=1).sum() + 0.5 * w @ w
        assert worst >= sol.certificate.dual


@pytest.mark.parametrize("solver", ["prox-alm", "clarabel"])
@pytest.mark.parametrize(
    "model",
    [
        Robust(Hinge(), Ball(0, 0.1, _inf)) + _lam,
        Robust(Hinge(), per_sample("radius") * Ball(0, 1)) + _lam,
        Robust(Hinge(), Ellipsoid(0, _S, 0.2)) + 0.1 * L2(),
        Robust(Hinge(), Ball(0, 0.2, 1)) + _lam,
    ],
    ids=repr,
)
def test_the_routes_agree(model: Any, solver: str) -> None:
    sol = ucm.solve(model, _X, _y, solver=solver, **_given(model))
    assert sol.status == "optimal"
    assert sol.objective == pytest.approx(ucm.solve(model, _X, _y, **_given(model)).objective, rel=2e-6)


def test_boxes_of_perturbations_take_newton_steps() -> None:
    rng = np.random.default_rng(3)
    y = np.where(rng.random(400) < 0.5, 1.0, -1.0)
    X = rng.standard_normal((400, 30)) + 0.3 * y[:, None] * (rng.random(30) > 0.5)
    w, b = cp.Variable(30), cp.Variable()
    for loss, term in ((Hinge(), _hinge), (Hinge(2), lambda t: cp.sum_squares(cp.pos(1 - t)))):
        sol = ucm.solve(Robust(loss, Ball(0, 0.2, _inf)) + 2 * L2() + L1(), X, y)
        t = cp.multiply(y, X @ w + b) - 0.2 * cp.norm1(w)
        best = cp.Problem(cp.Minimize(term(t) + 2 * cp.sum_squares(w) + cp.norm1(w))).solve(solver="CLARABEL")
        assert sol.stats.solver.startswith("prox") and sol.status == "optimal"
        assert sol.objective == pytest.approx(best, rel=1e-6)
        assert 0 < np.count_nonzero(sol.w) < 30


@pytest.mark.parametrize(
    "penalty",
    [
        RootNorm(ucm.Quadratic(np.kron(np.eye(2), _S[:3, :3]))),
        RootNorm(ucm.Quadratic(np.diag([1.0, 2.0, 0.0, 0.0, 3.0, 1.0]))),
        OfFirst(Norm()),
        Epigraph((0.5 * L2(),), (L1(),)),
        Epigraph((L1(), 0.1 * L2()), (Norm(),)),
        Epigraph((ucm.NonNegative(), L2()), (L1(),)),
        Epigraph((L2(),), (L1(), 0.5 * Norm(3))),
        Epigraph((L2(),), (RootNorm(ucm.Quadratic(np.diag([1.0, 2.0, 0.1, 3.0, 1.0]))),)),
        Epigraph((L2(),), (Norm(np.inf),)),
        Epigraph((), (Norm(),)),
        Epigraph((), (0.3 * Norm(3),)),
        Epigraph((0.5 * L2(),), (2.0 * Norm(1.5),)),
        LastWeight(0.5, 6),
    ],
    ids=repr,
)
def test_bounds_of_norms_keep_the_laws_of_penalties(penalty: Any) -> None:
    check_penalty(penalty)


@pytest.mark.parametrize("terms", [(), (0.5 * L2(),)])
@pytest.mark.parametrize("p", [1.5, 3.0, 1001.0])
def test_the_bound_of_a_p_norm_is_that_of_any_norm(terms: Any, p: float) -> None:
    """The search along the projections on balls, against that for the multiplier."""
    whole, other = Epigraph(terms, (0.7 * Norm(p),)), Epigraph(terms, (0.7 * Norm(p),))
    vars(other)["_curve"] = None
    draws = np.random.default_rng(0).standard_normal((10, 4)) * 10.0 ** np.arange(-4.0, 6.0)[:, None]
    for v in (*draws, np.array([0.0, 0.0, 0.0, -1.0]), np.array([1e-3, 0.0, 0.0, -1.0])):
        size = 1e-12 * np.abs(v).max()
        np.testing.assert_allclose(whole.prox(v, 0.3), other.prox(v, 0.3), rtol=0.0, atol=size)
        nearest = [R.project_onto_domain_cone(v) for R in (whole, other)]
        np.testing.assert_allclose(*nearest, rtol=0.0, atol=size)
    assert np.isnan(whole.prox(np.array([np.nan, 1.0, 0.0, 0.0]), 0.3)).any()


@pytest.mark.parametrize("share", [np.nextafter(1.0, 0.0), 1e-25])
def test_the_proximal_map_of_an_ellipsoid_survives_rounding_at_both_ends(share: float) -> None:
    for e in np.random.default_rng(0).uniform(0.01, 300.0, (50, 2)):
        v = np.array([-1.6, 2.9])
        t = share * float(np.linalg.norm(v / np.sqrt(e)))
        w = RootNorm(ucm.Quadratic(np.diag(e))).prox(v, t)
        assert np.isfinite(w).all() and np.linalg.norm((v - w) / np.sqrt(e)) == pytest.approx(t, abs=1e-14)


def test_the_slope_of_a_proximal_point_that_rounds_to_0_is_0() -> None:
    """The point is just outside of the ellipsoid where the proximal map is 0."""
    R, v = RootNorm(ucm.Quadratic([[3.515625]])), np.array([np.nextafter(np.sqrt(3.515625), 2.0)])
    assert R.prox(v, 1.0) == 0.0 and R.prox_slope_times(v, 1.0, np.eye(1)) == 0.0


def test_projections_on_the_domain_of_a_steep_bound_end_inside() -> None:
    # a split of a dual point that leaves the domain would bound the optimum from above
    bound = Epigraph((), (L1(weights=[75903.0, 20557.0]), 50000 * Norm()))
    for z in np.random.default_rng(0).standard_normal((50, 3)) * [3e4, 1e4, 0.1]:
        assert bound.gauge(bound.project_onto_domain_cone(z)) <= 1.0
        assert bound.value(bound.prox(z, 1.0)) == 0.0


def test_bounds_of_steep_perturbations_stay_below_the_optimum() -> None:
    X = np.array([[1.6, -2.5], [5.9, -30.6], [-8.2, -4.0], [1.3, 7.5], [-18.3, -29.6]])
    y, c = np.array([1.0, -1.0, -1.0, 1.0, -1.0]), np.array([1.0, 0.5, 1.0, 3.0, 1.0])

    def plan(unit: float) -> Any:
        within = np.diag([0.76 * unit, 0.21 * unit]) @ Ball(0, 1, _inf) + Ball(0, 0.5 * unit)
        loss = ucm.WorstMean(Robust(Hinge(2), within), ucm.KLBall(0.9))
        return ucm.compile(loss + 0.19 * unit * ucm.GroupLasso([0, 1]), unit * X, y, sample_weight=c)

    best = plan(1.0).solve().objective  # the same in every unit of the features
    assert plan(1e5).certify(w=np.array([1.45e-6, 1.65e-6]), b=1.26).dual <= best * (1.0 + 1e-7)


def test_a_robust_loss_has_the_slopes_of_its_loss() -> None:
    """By their formulas; a difference quotient of the proximal map misses them by its step."""
    loss, v, t = Logistic(), np.linspace(-2.0, 3.0, 9), 0.3
    s = loss.conjugate_prox(v, t)
    exact = 1.0 / (1.0 + t / (s * (1.0 - s)))  # 1 / (1 + t l*''(s))
    found = (0.5 * Robust(loss, Ball(0, 1))).conjugate_prox_slope(0.5 * v, 0.5 * t, 0.5 * s)
    assert found == pytest.approx(exact, rel=1e-12)


def test_robust_losses_keep_the_laws_of_losses() -> None:
    ucm.testing.check_loss(2 * Robust(HuberHinge(0.5), Ball(0, 0.1)))


@pytest.mark.parametrize("model", [model for model, _ in _by_hand.values()], ids=repr)
def test_robust_losses_are_written_read_and_printed(model: Any) -> None:
    words = {**{name: getattr(ucm, name) for name in ucm.__all__}, "inf": np.inf}
    assert eval(repr(model), words) == model == ucm.from_json(ucm.to_json(model))
    assert pickle.loads(pickle.dumps(model)) == model
    assert "t_i - " in str(model) and "t_{i} - " in model.to_latex() and "d_{i}" in model.problem_latex()


@pytest.mark.parametrize("name", [name for name in _by_hand if name not in ("covariance", "nothing but 0")])
def test_the_source_has_the_optimum(name: str) -> None:
    model = _by_hand[name][0]
    names = {"X": _X, "y": _y, "radius": _r}
    exec(ucm.to_cvxpy_source(model), names)
    found = ucm.solve(model, _X, _y, **_given(model)).objective
    assert names["objective"] == pytest.approx(found, rel=1e-5)


def test_formulas() -> None:
    r = Param("r", 0.2)
    model = Robust(Hinge(on=pos), per_sample("radius") * Ball(0, r)) + Hinge(on=neg) + L2()
    assert str(model).startswith("min_{w, b} Σ_{y_i = +1} max(0, 1 - (t_i - radius_i·r·‖w‖₂)) + Σ_{y_i = -1}")
    assert str(Robust(Exponential(), Ball(0, 0.1) + Ball(0, 1, _inf))) == (
        "Σ_{i} exp(-(t_i - (0.1·‖w‖₂ + ‖w‖₁)))"
    )


def test_parameters_of_perturbations_move() -> None:
    model = Robust(Hinge(), Ball(0, Param("r", 0.1), _inf)) + Param("lam", 0.5) * L2()
    plan = ucm.compile(model, _X, _y)
    problem = plan.reference()
    problem.param_dict["r"].value = 0.3
    problem.solve(solver="CLARABEL")
    moved = ucm.solve(model.with_params(r=0.3), _X, _y)
    assert problem.value == pytest.approx(moved.objective, rel=1e-6)
    path = ucm.path(model, _X, _y, r=[0.0, 0.1, 0.3])
    assert path[-1].objective == pytest.approx(moved.objective, rel=1e-6)
    assert path[0].objective == pytest.approx(ucm.solve(Hinge() + _lam, _X, _y).objective, rel=1e-6)
    assert np.all(np.diff([sol.objective for sol in path]) > 0.0)


def test_kernels_take_balls_of_their_norm() -> None:
    model = Robust(Hinge(), per_sample("radius") * Ball(0, 0.5)) + 0.1 * L2()
    plan = ucm.compile(model, _X, _y, kernel="rbf", gamma=0.5, per_sample={"radius": _r})
    sol = plan.solve()
    K = np.exp(-0.5 * ((_X[:, None] - _X) ** 2).sum(axis=2))
    root = np.linalg.cholesky(K + 1e-12 * np.eye(60))
    w, b = cp.Variable(60), cp.Variable()
    t = cp.multiply(_y, root @ w + b) - 0.5 * _r * cp.norm(w)
    best = cp.Problem(cp.Minimize(_hinge(t) + 0.1 * cp.sum_squares(w))).solve(solver="CLARABEL")
    assert sol.status == "optimal" and plan.verify()
    assert sol.objective == pytest.approx(best, rel=1e-6)
    for U in (Ball(0, 0.5, _inf), Ellipsoid(0, pos.cov, 0.5)):
        with pytest.raises(ucm.CompositionError, match="kernel"):
            ucm.compile(Robust(Hinge(), U) + L2(), _X, _y, kernel="rbf")


@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_constraints_have_multipliers(intercept: str) -> None:
    A = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    model = Robust(Hinge(), Ball(0, 0.1, _inf)) + _lam + ucm.LinearConstraint(A, ub=[0.1, 5.0])
    [found] = ucm.solve(model.with_intercept(intercept), _X, _y, tol=1e-9).multipliers
    below = A @ _w <= [0.1, 5.0]
    loss = _hinge(cp.multiply(_y, _X @ _w + _b) - 0.1 * cp.norm1(_w)) + _square(_w)
    loss += 0.5 * cp.square(_b) if intercept == "penalised" else 0.0
    cp.Problem(cp.Minimize(loss), [below]).solve(solver="CLARABEL")
    assert found == pytest.approx(below.dual_value, abs=1e-4 * below.dual_value.max())
    assert found[0] > 0.1


def test_a_norm_beside_a_constraint_is_proven() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    constraint = ucm.LinearConstraint(np.ones((1, X.shape[1])), 0, 0)
    assert ucm.solve(Robust(Hinge(), Ball(0, 0.1, _inf)) + L2() + constraint, X, y).status == "optimal"


@pytest.mark.parametrize("penalty", [0.5 * L1(), 0.5 * ucm.GroupLasso([0, 0, 1, 1])], ids=repr)
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=repr)
def test_an_equality_beside_two_norms_is_proven(loss: Any, penalty: Any) -> None:
    constraint = ucm.LinearConstraint([[1.0, -1.0, 0.0, 0.0]], 0.1, 0.1)
    plan = ucm.compile(Robust(loss, Ball(0, 0.2)) + penalty + constraint, _X, _y)
    sol = plan.solve()
    assert sol.status == "optimal" and sol.w[0] - sol.w[1] == pytest.approx(0.1, abs=1e-9)
    assert plan.verify()


# --- quantities of each sample -----------------------------------------------------------------------
_model = Robust(Hinge(), per_sample("radius") * Ball(0, 1, _inf)) + Param("lam", 0.5) * L2()


def test_quantities_follow_weights_classes_and_folds() -> None:
    weights = np.where(np.arange(60) < 20, 0.0, 1.0 + np.arange(60) % 2)
    part, counts = np.arange(20, 60), weights[20:].astype(int)
    copies = np.repeat(part, counts)
    weighted = ucm.Classifier(_model).fit(_X, _y, sample_weight=weights, radius=_r)
    copied = ucm.Classifier(_model).fit(_X[copies], _y[copies], radius=_r[copies])
    assert weighted.solution_.objective == pytest.approx(copied.solution_.objective, rel=2e-6)
    three = np.where(_X[:, 3] > 0.7, 2.0, _y)
    several = ucm.Classifier(_model, multi_class="ovo").fit(_X, three, radius=_r)
    rows = three != 2.0
    alone = ucm.solve(_model, _X[rows], -three[rows], per_sample={"radius": _r[rows]})
    assert np.abs(several.coef_[0]) == pytest.approx(np.abs(alone.w), abs=1e-6)

    values, folds = [0.1, 1.0, 30.0], StratifiedKFold(3)
    search = ucm.ClassifierCV(_model, param_name="lam", param_range=values, cv=folds).fit(_X, _y, radius=_r)
    scores = [
        [
            ucm.Classifier(_model.with_params(lam=lam)).fit(_X[a], _y[a], radius=_r[a]).score(_X[e], _y[e])
            for a, e in folds.split(_X, _y)
        ]
        for lam in values
    ]
    assert search.cv_results_["mean_test_score"] == pytest.approx(np.mean(scores, axis=1))
    compared = ucm.compare({"a": _model}, _X, _y, cv=folds, per_sample={"radius": _r}, progress=False)
    assert compared[0].score is not None


def test_quantities_are_routed_metadata() -> None:
    clf = ucm.Classifier(_model)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(clf, _X, _y, cv=3, params={"radius": _r})["test_score"]
        grid = GridSearchCV(clf, {"model__lam": [0.5]}, cv=3).fit(_X, _y, radius=_r)
        assert clf.get_metadata_routing().fit.requests["radius"] is True
    by_hand = [
        clf.fit(_X[a], _y[a], radius=_r[a]).score(_X[e], _y[e]) for a, e in StratifiedKFold(3).split(_X, _y)
    ]
    assert found == pytest.approx(by_hand)
    assert grid.best_score_ == pytest.approx(np.mean(by_hand))


# --- refusals ---------------------------------------------------------------------------------------
_robust: Any = Robust


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Robust(LeastSquares(), Ball(0, 1)), "never rises with the margin"),
        (lambda: _robust(Ramp(), Ball(0, 1)), "one convex loss"),
        (lambda: Robust(2 * Robust(Hinge(), Ball(0, 1)), Ball(0, 1)), "one convex loss"),
        (lambda: _robust(L2(), Ball(0, 1)), "one convex loss"),
        (lambda: Robust(Hinge(), Ball(pos.mean, 1)), "about 0"),
        (lambda: Robust(Hinge(), ucm.Hull(pos)), "about 0"),
        (lambda: _robust(Hinge(), 0.1), "about 0"),
        (lambda: _robust(Hinge(), per_sample("radius")), "about 0"),
        (lambda: Robust(Hinge(), Ball(0, -0.1)), "got -0.1"),
        (lambda: Robust(Hinge(), Ball(0, Param("r", 0.1))).with_params(r=-1.0), "got Param"),
        (lambda: Robust(Hinge(), Ball(0, 1) + Ellipsoid(0, _S, 1)), "another sum"),
        (lambda: Robust(Hinge(), Ellipsoid(0, Param("a", 1.0) * _S, 1)), "about 0"),
        (lambda: _r * Ball(0, 1), "per_sample"),
        (lambda: _robust(Hinge(), Ball(0, _r)), "per_sample"),  # type: ignore[arg-type]
        (lambda: per_sample("sample_weight"), "argument of fit"),
        (lambda: per_sample("not a name"), "identifier"),
        (lambda: per_sample("radius") + 1, "multiplies a set"),
        (lambda: Robust(Hinge(), Ball(0, 1)).to_set(0.3), "perturbs the samples"),
        (lambda: ucm.LossBall(2 * Robust(Hinge(2), Ball(0, 1)), 1.0), "perturbs the samples"),
    ],
)
def test_declarations_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ucm.CompositionError, match=words):
        make()


@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        (_model, {}, ucm.DataError, "a value for each sample, got none"),
        (_model, {"per_sample": {"radius": _r[:5]}}, ucm.DataError, "60 finite numbers"),
        (_model, {"per_sample": {"radius": np.where(_r > 0.2, np.nan, _r)}}, ucm.DataError, "NaN or inf"),
        (_model, {"per_sample": {"radius": -_r}}, ucm.DataError, "at least 0"),
        (_model, {"per_sample": {"radius": _r, "size": _r}}, ucm.ParameterError, "'size' too"),
        (_model, {"per_sample": _r}, ucm.DataError, "expected {name: values}"),
        (Hinge() + L2(), {"per_sample": {"radius": _r}}, ucm.ParameterError, "no quantities"),
        (Robust(Hinge(), Ball(0, 1)) + Hinge() + L2(), {}, ucm.CompositionError, "one set about each sample"),
        (
            Robust(Hinge(on=pos), Ball(0, 1)) + Robust(Hinge(on=neg), Ball(0, 1, 1)) + L2(),
            {}, ucm.CompositionError, "one shape",
        ),
        (Robust(Hinge(), Ball(0, 1)) + ucm.CappedL1(1), {}, ucm.CompositionError, "convex penalty"),
        (Robust(Hinge(), Ellipsoid(0, np.eye(3), 1)) + L2(), {}, ucm.CompositionError, "dimension"),
        (Robust(Hinge(), np.eye(3) @ Ball([0.0] * 3, 1)) + L2(), {}, ucm.CompositionError, "4 features"),
    ],
)  # fmt: skip
def test_data_are_refused(model: Any, options: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ucm.compile(model, _X, _y, **options)


def test_rows_and_fits_are_refused(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="needs pip install 'ucm-classifiers[rows]'")
    np.savetxt(
        tmp_path / "rows.csv", np.column_stack([_y, _X]), delimiter=",", header="y,a,b,c,d", comments=""
    )
    with pytest.raises(ucm.DataError, match="Robust"):
        ucm.solve(Robust(Hinge(), Ball(0, 0.1)) + L2(), tmp_path / "rows.csv", "y")
    with pytest.raises(ucm.ParameterError, match="'other' too"):
        ucm.Classifier(_model).fit(_X, _y, radius=_r, other=_r)
    with pytest.raises(ucm.DataError, match="a value for each sample"):
        ucm.admissible(_model, _X, _y)


def test_the_bound_at_w_0_of_cones_of_powers_beside_a_constraint() -> None:
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(20, 2)), np.where(np.arange(20) % 2, 1.0, -1.0)
    factors, row = rng.normal(size=(20, 2, 2)), rng.normal(size=(1, 2))
    loss = ucm.Robust(ucm.Logistic(), ucm.per_sample("factor") @ ucm.Ball(0, 0.5, p=1.5))
    model = loss + 0.61 * ucm.L2() + ucm.LinearConstraint(row, ub=0.1)
    found = ucm.solve(model, X, y, per_sample={"factor": factors})
    assert found.status == "optimal", found.certificate
    assert found.objective == pytest.approx(20 * np.log(2.0))


@pytest.mark.parametrize("free", ["free", None])
def test_hinges_of_worst_points_of_boxes_by_the_active_set(free: Any) -> None:
    rng = np.random.default_rng(2)
    y = np.where(np.arange(60) < 25, 1.0, -1.0)
    X = rng.standard_normal((60, 7)) + 0.4 * y[:, None]
    r, c = rng.uniform(0.0, 0.4, 60), rng.integers(1, 4, 60).astype(float)
    sizes = np.array([1.0, 2.0, 0.5, 1.0, 0.0, 3.0, 1.0])
    U = ucm.per_sample("radius") * (np.diag(sizes) @ ucm.Ball(np.zeros(7), 1.0, np.inf))
    for V, h in ((ucm.per_sample("radius") * ucm.Ball(0, 0.7, np.inf), 0.7 * np.ones(7)), (U, sizes)):
        model: Any = (ucm.Robust(ucm.Hinge(), V) + 2.0 * ucm.L2()).with_intercept(free)
        plan: Any = ucm.compile(model, X, y, sample_weight=c, per_sample={"radius": r})
        sol, form = plan.solve(), plan.lowering.form
        assert SplitActiveSet.of(getattr(form, "G", form)) is not None
        w, b = cp.Variable(7), cp.Variable() if free else 0.0
        margins = cp.multiply(y, X @ w + b) - r * cp.norm1(cp.multiply(h, w))
        total = c @ cp.pos(1 - margins) + 2.0 * cp.sum_squares(w)
        best = cp.Problem(cp.Minimize(total)).solve(solver="CLARABEL")
        assert sol.status == "optimal"
        np.testing.assert_allclose(sol.objective, best, rtol=2e-6)
