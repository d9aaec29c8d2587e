"""Robust losses over sets whose shape differs by sample: matrices for each sample, deleted features.

The references are CVXPY programs by hand, and deletions by brute force.
"""

from __future__ import annotations

import itertools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import logsumexp

import ucm
from ucm import (
    L1,
    L2,
    Ball,
    CappedSimplex,
    FeatureDeletion,
    Hinge,
    Logistic,
    Param,
    Robust,
    WorstMean,
    neg,
    per_sample,
    pos,
)
from ucm.forms import worst_samples
from ucm.forms.monitor import Monitor, time_of
from ucm.language.parameter import Scope
from ucm.language.sample_sets import BoundSets

_rng = np.random.default_rng(0)
_X = _rng.standard_normal((40, 4)) + 0.3
_y = np.where(_X[:, 0] + 0.7 * _X[:, 1] + 0.5 * _rng.standard_normal(40) > 0.3, 1.0, -1.0)
_F = 0.3 * _rng.standard_normal((40, 4, 2))
_f = 0.3 * _rng.random((40, 4))
_inf = float("inf")
_factor = per_sample("factor")
_lam = 0.5 * L2()
_bound = BoundSets(FeatureDeletion(1), _y[:, None] * _X, _y, np.ones(40))


def _deleted(w: Any, k: int) -> Any:
    each = (cp.sum_largest(cp.pos(cp.multiply(y * x, w)), k) for x, y in zip(_X, _y, strict=True))
    return cp.hstack(list(each))


def _image(w: Any, q: float) -> Any:
    return cp.hstack([cp.norm(F.T @ w, q) if q != 1.5 else cp.pnorm(F.T @ w, 1.5, approx=False) for F in _F])


def _diagonal(w: Any, q: float) -> Any:
    return cp.hstack([cp.norm(cp.multiply(f, w), q) for f in _f])


def _hinge(t: Any) -> Any:
    return cp.sum(cp.pos(1 - t))


def _logistic(t: Any) -> Any:
    return cp.sum(cp.logistic(-t))


def _square(w: Any, b: Any) -> Any:
    return 0.5 * cp.sum_squares(w)


_by_hand: dict[str, tuple[Any, Any, Callable, Callable, Callable]] = {
    "deletion": (Robust(Hinge(), FeatureDeletion(1)) + _lam, None, lambda w: _deleted(w, 1), _hinge, _square),
    "deletion, logistic": (
        Robust(Logistic(), FeatureDeletion(2)) + _lam, None, lambda w: _deleted(w, 2), _logistic, _square,
    ),
    "deletion, l1": (
        Robust(Hinge(), FeatureDeletion(2)) + 0.5 * L1(), None, lambda w: _deleted(w, 2), _hinge,
        lambda w, b: 0.5 * cp.norm1(w),
    ),
    "deletion, one class": (
        Robust(Hinge(on=pos), FeatureDeletion(1)) + Hinge(on=neg) + _lam, None,
        lambda w: cp.multiply((_y > 0).astype(float), _deleted(w, 1)), _hinge, _square,
    ),
    "deletion, penalised intercept": (
        (Robust(Hinge(), FeatureDeletion(1)) + _lam).with_intercept("penalised"), None,
        lambda w: _deleted(w, 1), _hinge, lambda w, b: 0.5 * (cp.sum_squares(w) + cp.square(b)),
    ),
    "matrices": (Robust(Hinge(), _factor @ Ball(0, 1)) + _lam, _F, lambda w: _image(w, 2), _hinge, _square),
    "matrices, l1": (
        Robust(Hinge(), _factor @ Ball(0, 1)) + 0.5 * L1(), _F, lambda w: _image(w, 2), _hinge,
        lambda w, b: 0.5 * cp.norm1(w),
    ),
    "matrices, 1 norm": (
        Robust(Hinge(), 2 * (_factor @ Ball(0, 0.5, _inf))) + _lam, _F, lambda w: _image(w, 1), _hinge,
        _square,
    ),
    "matrices, inf norm": (
        Robust(Hinge(), _factor @ Ball(0, 1, 1)) + _lam, _F, lambda w: _image(w, "inf"), _hinge, _square,  # type: ignore[arg-type]
    ),
    "matrices, 1.5 norm": (
        Robust(Logistic(), _factor @ Ball(0, 1, 3)) + _lam, _F, lambda w: _image(w, 1.5), _logistic, _square,
    ),
    "boxes": (
        Robust(Hinge(2), _factor @ Ball(0, 1, _inf)) + _lam, _f, lambda w: _diagonal(w, 1),
        lambda t: cp.sum_squares(cp.pos(1 - t)), _square,
    ),
    "worst mean": (
        WorstMean(Robust(Hinge(), _factor @ Ball(0, 1)), CappedSimplex(4, relative=True)) + 0.05 * L2(), _F,
        lambda w: _image(w, 2), lambda t: cp.sum_largest(cp.pos(1 - t), 10) / 10,
        lambda w, b: 0.05 * cp.sum_squares(w),
    ),
}  # fmt: skip


def _given(values: Any) -> dict[str, Any]:
    return {} if values is None else {"per_sample": {"factor": values}}


@pytest.mark.parametrize("name", _by_hand)
def test_robust_losses_against_programs_by_hand(name: str) -> None:
    model, values, heights, loss, penalty = _by_hand[name]
    w, b = cp.Variable(4), cp.Variable()
    t = cp.multiply(_y, _X @ w + b) - heights(w)
    best = float(cp.Problem(cp.Minimize(loss(t) + penalty(w, b))).solve(solver="CLARABEL"))
    plan = ucm.compile(model, _X, _y, **_given(values))
    sol = plan.solve()
    assert sol.status == "optimal" and sol.certificate.violation <= 1e-9
    assert sol.objective == pytest.approx(best, rel=1e-6)
    assert sol.certificate.dual <= best * (1 + 1e-7)
    assert plan.verify() and plan.reference().is_dcp(dpp=True)
    outside = plan.certify(w=sol.w, b=sol.b, weights=sol.weights)
    assert outside.relative_gap <= 1e-6 and outside.primal == pytest.approx(sol.objective, rel=1e-12)
    assert sol.w is not None and sol.b is not None and sol.weights is not None
    for shift in _rng.standard_normal((5, 4)):  # the bound is below, wherever it is taken
        moved = plan.certify(w=sol.w + 0.3 * shift, b=sol.b, weights=0.7 * sol.weights)
        assert moved.dual <= best * (1 + 1e-7) <= moved.primal * (1 + 2e-7)


@pytest.mark.parametrize("p", [1.1, 3.0, 30.0])
def test_norms_of_all_samples_are_one_cone(p: float) -> None:
    """CVXPY would build a norm of every sample, for 3,000 samples longer than any time limit."""
    sets, q = _factor @ Ball(0, 1, p), p / (p - 1.0)
    V = _rng.standard_normal((7, 3)) * np.arange(7)[:, None]  # the first row is 0
    x = cp.Variable(V.shape)
    heights: Any = sets.cvxpy(x, Scope())
    cp.Problem(cp.Minimize(cp.sum(heights)), [x == V]).solve(solver="CLARABEL")
    assert heights.value == pytest.approx(np.array([np.linalg.norm(v, q) for v in V]), rel=1e-6, abs=1e-5)

    def expressions(e: Any) -> int:
        return 1 + sum(map(expressions, e.args))

    assert len({expressions(sets.cvxpy(cp.Variable((m, 3)), Scope())) for m in (2, 50)}) == 1


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_value_is_that_of_the_worst_deletion(k: int) -> None:
    model = Robust(Logistic(), FeatureDeletion(k)) + _lam
    plan = ucm.compile(model, _X, _y)
    for w in _rng.standard_normal((5, 4)):
        worst = -np.inf * np.ones(40)
        for some in itertools.combinations_with_replacement(range(4), k):
            left = _X.copy()
            left[:, list(some)] = 0.0
            worst = np.maximum(worst, np.logaddexp(0.0, -_y * (left @ w + 0.2)))
        worst = np.maximum(worst, np.logaddexp(0.0, -_y * (_X @ w + 0.2)))
        assert plan.certify(w=w, b=0.2).primal == pytest.approx(worst.sum() + 0.5 * w @ w, rel=1e-12)


def test_the_bound_holds_where_the_best_w_is_0() -> None:
    rng = np.random.default_rng(28)
    X = rng.standard_normal((int(rng.integers(2, 6)), 5))  # w ends at the rounding of the solver
    for loss in (Logistic(), ucm.Exponential(), Hinge()):
        sol = ucm.solve(Robust(loss, FeatureDeletion(5)) + 0.014 * L2(), X, [1, -1, 1, 1])
        least = ucm.solve(loss + L2(), np.zeros((4, 1)), [1, -1, 1, 1]).objective
        assert sol.status == "optimal" and sol.objective <= least * (1 + 1e-6)


def test_features_far_from_0_need_no_scaling() -> None:
    model = Robust(Hinge(), _factor @ Ball(0, 1)) + _lam
    near, far = (ucm.solve(model, _X + c, _y, per_sample={"factor": _F}) for c in (0.0, 1e6))
    assert far.status == "optimal" and far.objective == pytest.approx(near.objective, rel=1e-5)


def test_the_time_limit_holds_for_the_worst_points(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, solve = [], worst_samples.quiet_solve

    def limited(problem: Any, solver: str, **options: Any) -> None:
        limits.append(options.get("time_limit", _inf))
        solve(problem, solver, **options)

    monkeypatch.setattr(worst_samples, "quiet_solve", limited)
    model = Robust(Hinge(), _factor @ Ball(0, 1)) + 0.5 * L1()
    sol = ucm.compile(model, _X, _y, per_sample={"factor": _F}).solve(time_limit=600)
    assert sol.status == "optimal" and limits and max(limits) <= 600
    with time_of(Monitor(time_limit=1e-9)):
        late = list(worst_samples.worst_samples(_X, _bound, (), np.ones(4), np.ones(40)))
    assert len(late) == 1


def test_constraints_have_multipliers() -> None:
    A = np.array([[1.0, -1.0, 0.0, 0.0]])
    model = Robust(Hinge(), FeatureDeletion(1)) + _lam + ucm.LinearConstraint(A, 0, 0)
    sol = ucm.solve(model, _X, _y, tol=1e-9)
    w, b, level = cp.Variable(4), cp.Variable(), cp.Parameter()
    total = _hinge(cp.multiply(_y, _X @ w + b) - _deleted(w, 1)) + 0.5 * cp.sum_squares(w)
    problem, found = cp.Problem(cp.Minimize(total), [A @ w == level]), []
    for level.value in (-1e-3, 0.0, 1e-3):
        found.append(problem.solve(solver="CLARABEL"))
    assert sol.status == "optimal" and sol.objective == pytest.approx(found[1], rel=1e-7)
    slopes = np.diff(found) / 1e-3  # the multiplier is minus a slope of the optimum in the bound
    assert slopes[0] - 1e-3 <= -sol.multipliers[0] <= slopes[1] + 1e-3


def test_diagonals_are_matrices_and_equal_balls_a_radius() -> None:
    model = Robust(Hinge(), _factor @ Ball(0, 1)) + _lam
    full = _f[:, :, None] * np.eye(4)
    found = [ucm.solve(model, _X, _y, per_sample={"factor": values}).objective for values in (_f, full)]
    assert found[0] == pytest.approx(found[1], rel=1e-7)
    radius = 0.1 + _f[:, 0]
    one = ucm.solve(model, _X, _y, per_sample={"factor": radius[:, None] * np.ones(4)}).objective
    other = Robust(Hinge(), per_sample("radius") * Ball(0, 1)) + _lam
    assert one == pytest.approx(ucm.solve(other, _X, _y, per_sample={"radius": radius}).objective, rel=2e-6)


def test_matrices_follow_weights_and_folds() -> None:
    model = Robust(Hinge(), _factor @ Ball(0, 1)) + Param("lam", 0.5) * L2()
    counts = np.arange(40) % 3
    copies = np.repeat(np.arange(40), counts)
    weighted = ucm.Classifier(model).fit(_X, _y, sample_weight=counts, factor=_F)
    copied = ucm.Classifier(model).fit(_X[copies], _y[copies], factor=_F[copies])
    assert weighted.solution_.objective == pytest.approx(copied.solution_.objective, rel=2e-6)
    three = np.where(_X[:, 3] > 0.7, 2.0, _y)
    several = ucm.Classifier(model, multi_class="ovo").fit(_X, three, factor=_F)
    rows = three != 2.0
    alone = ucm.solve(model, _X[rows], -three[rows], per_sample={"factor": _F[rows]})
    assert np.abs(several.coef_[0]) == pytest.approx(np.abs(alone.w), abs=1e-5)
    search = ucm.ClassifierCV(model, param_name="lam", param_range=[0.1, 1.0], cv=3)
    assert search.fit(_X, _y, factor=_F).best_score_ > 0.5
    path = ucm.path(model, _X, _y, lam=[0.1, 1.0], per_sample={"factor": _F})
    assert path[1].objective > path[0].objective


@pytest.mark.parametrize("name", _by_hand)
def test_declarations_are_written_read_and_printed(name: str) -> None:
    model = _by_hand[name][0]
    words = {**{name: getattr(ucm, name) for name in ucm.__all__}, "inf": np.inf}
    assert eval(repr(model), words) == model == ucm.from_json(ucm.to_json(model))
    assert pickle.loads(pickle.dumps(model)) == model
    assert "t_i - " in str(model) and "t_{i} - " in model.to_latex() and "d_{i}" in model.problem_latex()


def test_the_source_of_deletions_has_the_optimum() -> None:
    for k in (1, Param("k", 2)):
        model = Robust(Hinge(), FeatureDeletion(k)) + _lam
        names = {"X": _X, "y": _y}
        exec(ucm.to_cvxpy_source(model), names)
        assert names["objective"] == pytest.approx(ucm.solve(model, _X, _y).objective, rel=1e-6)
    problem = ucm.compile(model, _X, _y).reference()
    problem.param_dict["k"].value = 1.0
    problem.solve(solver="CLARABEL")
    assert problem.value == pytest.approx(ucm.solve(model.with_params(k=1), _X, _y).objective, rel=1e-6)
    with pytest.raises(ucm.CompositionError, match=r"plan.reference\(\)"):
        ucm.to_cvxpy_source(Robust(Hinge(), _factor @ Ball(0, 1)) + L2())


_any: Any = per_sample
_matrices = Robust(Hinge(), _factor @ Ball(0, 1)) + L2()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FeatureDeletion(0), "at least 1, got 0"),
        (lambda: FeatureDeletion(1.5), "whole number"),
        (lambda: 2 * FeatureDeletion(1), "no arithmetic"),
        (lambda: FeatureDeletion(1) + Ball(0, 1), "no arithmetic"),
        (lambda: _any("F") @ Ball(pos.mean, 1), "about 0"),
        (lambda: _any("F") @ ucm.Hull(pos), "Ball"),
        (lambda: Ball(0, 1) @ _any("F"), "matrix on its left"),
        (lambda: _any("F") @ np.eye(3), "quantity of each sample"),
        (lambda: Robust(ucm.LeastSquares(), FeatureDeletion(1)), "never rises"),
    ],
)
def test_declarations_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ucm.CompositionError, match=words):
        make()


@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        (Robust(Hinge(), FeatureDeletion(5)) + L2(), {}, ucm.CompositionError, "at most the 4 features"),
        (_matrices, _given(_F[:5]), ucm.DataError, "one per row"),
        (_matrices, _given(_F[:, :3]), ucm.DataError, "n = 4, got the shape"),
        (_matrices, _given(_f[:, 0]), ucm.DataError, "got the shape"),
        (_matrices, _given(_F * np.nan), ucm.DataError, "NaN"),
        (Robust(Hinge(), _factor * Ball(0, 1)) + L2(), _given(_f), ucm.DataError, "one number"),
        ((Hinge() + L2()).with_offset(_factor), _given(_f), ucm.DataError, "one number"),
        (
            Robust(Hinge(on=pos), FeatureDeletion(1)) + Robust(Hinge(on=neg), Ball(0, 1)) + L2(),
            {}, ucm.CompositionError, "one shape",
        ),
        (Robust(Hinge(), FeatureDeletion(1)) + ucm.CappedL1(1), {}, ucm.CompositionError, "convex penalty"),
        (Robust(Hinge(), FeatureDeletion(1)) + L2(), {"kernel": "rbf"}, ucm.CompositionError, "kernel"),
    ],
)  # fmt: skip
def test_data_are_refused(model: Any, options: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ucm.compile(model, _X, _y, **options)


def test_certificates_of_moved_samples_are_not_written(tmp_path: Any) -> None:
    sol = ucm.solve(Robust(Hinge(), FeatureDeletion(1)) + L2(), _X, _y)
    with pytest.raises(ucm.ParameterError, match=r"got FeatureDeletion\(1\) of each sample"):
        sol.save_certificate(tmp_path / "certificate.json")


def test_the_value_of_margins_needs_the_samples() -> None:
    with pytest.raises(ucm.CompositionError, match="needs the samples"):
        (Robust(Hinge(), FeatureDeletion(1)) + L2()).value(np.ones(40), np.ones(4), _y)
    model = Robust(Hinge(), _factor @ Ball(0, 1)) + _lam
    sol = ucm.solve(model, _X, _y, per_sample={"factor": _F})
    margin = _y * (_X @ sol.w + sol.b)
    assert model.value(margin, sol.w, _y, per_sample={"factor": _F}) == pytest.approx(sol.objective, rel=1e-9)


@pytest.mark.parametrize("penalty", [L1(), ucm.LInf(), L1() + ucm.LInf(), ucm.Norm(3)], ids=repr)
def test_tiny_penalties_beside_sets_by_sample_are_proven(penalty: Any) -> None:
    """Dual points in dom R* have the length of the penalty, which the rounding of a program exceeds."""
    model, given = Robust(Hinge(), _factor @ Ball(0, 0.3)) + 1e-7 * penalty, {"factor": _f}
    sol = ucm.solve(model, _X, _y, per_sample=given)
    assert sol.status == "optimal"
    w, b = cp.Variable(4), cp.Variable()
    t = cp.multiply(_y, _X @ w + b) - 0.3 * _diagonal(w, 2)
    best = cp.Problem(cp.Minimize(_hinge(t))).solve(solver="CLARABEL")
    assert sol.objective == pytest.approx(best, rel=2e-6) and sol.certificate.dual <= best * (1.0 + 1e-6)


def test_a_tiny_penalty_beside_a_ball_about_every_sample_is_proven() -> None:
    sol = ucm.solve(Robust(Hinge(), Ball(0, 0.1, 1.5)) + 1e-7 * L1(), _X, _y)
    assert sol.status == "optimal"


def test_a_robust_loss_that_falls_for_ever_is_no_error() -> None:
    """Balls of radius .5 are separated, so that the loss tends to 0 and has no minimum."""
    X, y = np.array([[1.0, 0.0], [1.2, 0.3], [-1.0, 0.1], [-0.9, -0.2]]), np.array([1.0, 1.0, -1.0, -1.0])
    U = ucm.per_sample("factor") @ ucm.Ball(0, 0.5)
    model = ucm.Robust(ucm.Logistic(), U) + ucm.LinearConstraint([[0.0, 1.0]], -5.0, 5.0)
    with warnings.catch_warnings(action="ignore"):
        solution = ucm.solve(model, X, y, per_sample={"factor": np.array([np.eye(2)] * 4)})
    assert solution.status in ("stalled", "unattained") and solution.objective < 1e-6


def test_powers_of_large_and_small_products_neither_overflow_nor_vanish() -> None:
    sets: Any = per_sample("factor") @ Ball(0, 1, p=1.001)  # whose dual norm has the exponent 1001
    V = np.array([[3.0, -1.0, 0.5], [3e-4, 1e-4, -3e-4], [0.0, 0.0, 0.0], [-1e300, 2.0, 1e299]])
    logs = np.log(np.abs(V), where=V != 0.0, out=np.full(V.shape, -np.inf))
    expected = [np.exp(float(np.asarray(logsumexp(1001.0 * row))) / 1001.0) for row in logs]
    np.testing.assert_allclose(sets.heights(V), expected, rtol=1e-12)
    points = sets.maximisers(V)
    np.testing.assert_allclose((points * V).sum(axis=1), expected, rtol=1e-9)
    np.testing.assert_allclose(sets.members(points), points, rtol=1e-9)
