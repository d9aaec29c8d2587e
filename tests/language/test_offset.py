"""Offsets of the scores: known parts of them that come with the samples.

The references are CVXPY programs by hand, a moved start of the hinge, and a feature of the fixed weight 1.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ucm
from ucm import (
    L1,
    L2,
    Ball,
    CappedL1,
    CappedSimplex,
    Hinge,
    LInf,
    Logistic,
    Param,
    Ramp,
    Robust,
    WorstMean,
    neg,
    per_sample,
    pos,
)

_rng = np.random.default_rng(0)
_X = _rng.standard_normal((80, 4))
_o = _rng.standard_normal(80)
_y = np.where(_X[:, 0] + _o + 0.8 * _rng.standard_normal(80) > 0.0, 1.0, -1.0)
_c = _rng.random(80) + 0.5
_given: dict[str, Any] = {"per_sample": {"offset": _o}}
_symbol = per_sample("offset")
_inf = float("inf")


def _optimum(loss: Callable, penalty: Callable, free: bool = True, inside: Callable = lambda w: []) -> float:
    w, b = cp.Variable(4), cp.Variable()
    t = cp.multiply(_y, _X @ w + (b if free else 0.0) + _o)
    return cp.Problem(cp.Minimize(loss(t, w) + penalty(w)), inside(w)).solve(solver="CLARABEL")


def _hinge(t: Any, w: Any) -> Any:
    return cp.sum(cp.pos(1 - t))


def _logistic(t: Any, w: Any) -> Any:
    return cp.sum(cp.logistic(-t))


def _square(w: Any) -> Any:
    return 0.5 * cp.sum_squares(w)


_half = 0.5 * L2()
_by_hand: dict[str, tuple[Any, Callable[[], float]]] = {
    "hinge": (Hinge() + _half, lambda: _optimum(_hinge, _square)),
    "squared hinge": (
        Hinge(2) + _half, lambda: _optimum(lambda t, w: cp.sum_squares(cp.pos(1 - t)), _square)
    ),
    "logistic": (Logistic() + _half, lambda: _optimum(_logistic, _square)),
    "least squares": (
        ucm.LeastSquares() + _half, lambda: _optimum(lambda t, w: cp.sum_squares(1 - t), _square)
    ),
    "sparse": (Logistic() + 2 * L1(), lambda: _optimum(_logistic, lambda w: 2 * cp.norm1(w))),
    "largest weight": (Hinge() + 2 * LInf(), lambda: _optimum(_hinge, lambda w: 2 * cp.norm_inf(w))),
    "no intercept": (
        (Hinge() + _half).with_intercept(None), lambda: _optimum(_hinge, _square, free=False)
    ),
    "by class": (
        Hinge(on=pos) + 2 * Hinge(on=neg) + _half,
        lambda: _optimum(lambda t, w: np.where(_y > 0, 1, 2) @ cp.pos(1 - t), _square),
    ),
    "worst mean": (
        WorstMean(Hinge(), CappedSimplex(1 / 0.2, relative=True)) + _half,
        lambda: _optimum(lambda t, w: cp.sum_largest(cp.pos(1 - t), 16) / 16, _square),
    ),
    "groups": (
        WorstMean(Logistic(), groups=(pos, neg)) + _half,
        lambda: _optimum(
            lambda t, w: cp.maximum(*(cp.sum(cp.logistic(-t[_y == s])) / (_y == s).sum() for s in (1, -1))),
            _square,
        ),
    ),
    "perturbed": (
        Robust(Hinge(), Ball(0, 0.2, _inf)) + _half,
        lambda: _optimum(lambda t, w: _hinge(t - 0.2 * cp.norm1(w), w), _square),
    ),
    "bounds": (
        Logistic() + _half + ucm.Bounds(-0.1, 0.1),
        lambda: _optimum(_logistic, _square, inside=lambda w: [cp.abs(w) <= 0.1]),
    ),
    "0 is best": (Hinge() + 500 * L2(), lambda: _optimum(_hinge, lambda w: 500 * cp.sum_squares(w))),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_by_hand))
def test_offsets_against_programs_by_hand(name: str) -> None:
    model, program = _by_hand[name]
    model = model.with_offset(_symbol)
    plan = ucm.compile(model, _X, _y, **_given)
    found, optimum = plan.solve(tol=1e-8), program()
    assert found.status == "optimal"
    assert found.objective == pytest.approx(optimum, rel=2e-6)
    assert found.certificate.dual <= optimum * (1.0 + 1e-6)
    assert plan.verify(found)
    again = plan.certify(w=found.w, b=found.b, weights=found.weights)
    assert again.primal == pytest.approx(found.objective, rel=1e-9) and again.relative_gap <= 1e-6
    value = model.value(_y * (_X @ found.w + found.b), found.w, _y, per_sample={"offset": _o})
    assert value == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.parametrize("name", ["hinge", "logistic", "by class", "worst mean", "perturbed", "groups"])
def test_the_source_has_the_optimum(name: str) -> None:
    model = _by_hand[name][0].with_offset(_symbol)
    names = {"X": _X, "y": _y, "offset": _o}
    exec(ucm.to_cvxpy_source(model), names)
    assert names["objective"] == pytest.approx(ucm.solve(model, _X, _y, **_given).objective, rel=1e-5)


@pytest.mark.parametrize("loss", [Hinge(), Hinge(1.5), Logistic(), Ramp(), 2 * Hinge(on=pos) + Hinge()])
def test_no_dual_point_bounds_more_than_the_optimum(loss: Any) -> None:
    for penalty in (_half, L1() + 0.1 * L2(), 0.5 * ucm.Norm(2)):
        plan = ucm.compile((loss + penalty).with_offset(_symbol), _X, _y, sample_weight=_c, **_given)
        found: Any = plan.solve()
        rng, duals = np.random.default_rng(1), []
        for _ in range(20):
            near = found.w + 0.3 * rng.standard_normal(4) * rng.integers(2)
            away = 10.0 ** -rng.integers(4)
            weights = (1.0 - away) * found.weights + away * _c * rng.random(80) * rng.integers(1, 4)
            bound = plan.certify(w=near, b=found.b + rng.standard_normal(), weights=weights)
            if bound.kind == "global" and bound.violation <= 1e-9:
                duals.append(bound.dual)
        assert bool(duals) == (not isinstance(loss, Ramp))
        assert not duals or 0.0 < max(duals) <= found.objective * (1.0 + 1e-9)


def test_an_offset_of_minus_the_label_is_a_moved_start() -> None:
    moved = (Hinge() + _half).with_offset(_symbol)
    for model, intercept in ((moved, "free"), (moved.with_intercept("penalised", 2.0), "penalised")):
        found = ucm.solve(model, _X, _y, per_sample={"offset": -0.5 * _y}, tol=1e-9)
        start = (Hinge(start=1.5) + _half).with_intercept(intercept, 2.0 if intercept == "penalised" else 1.0)
        assert found.objective == pytest.approx(ucm.solve(start, _X, _y, tol=1e-9).objective, rel=1e-7)


@pytest.mark.filterwarnings("ignore::ucm.ConvergenceWarning")  # by the resolution of b
@pytest.mark.parametrize("loss", [Hinge(), Hinge(2), Logistic(), Ramp()])
@pytest.mark.parametrize("common", [1e8, -1e10, 1e12])
def test_a_common_offset_moves_no_bound(loss: Any, common: float) -> None:
    model = (loss + _half).with_offset(_symbol)
    known = (_o + common) - common  # as it is rounded beside the common part
    least = ucm.solve(model, _X, _y, per_sample={"offset": known}, tol=1e-9).objective
    plan = ucm.compile(model, _X, _y, per_sample={"offset": known + common})
    found = plan.solve(tol=1e-9)
    margin = _y * (_X @ found.w + ((found.b or 0.0) + (known + common)))
    assert found.certificate.primal == pytest.approx(model.with_offset(None).value(margin, found.w), rel=1e-9)
    if found.certificate.kind == "global":
        assert found.certificate.dual <= least * (1.0 + 1e-9)
        assert found.certificate.dual >= least * (1.0 - 1e-4)


@pytest.mark.filterwarnings("ignore::ucm.ConvergenceWarning")  # by the resolution of b
@pytest.mark.parametrize(
    "model",
    [Hinge() + _half, Logistic() + 0.5 * L1(), Hinge(2) + LInf(), WorstMean(Hinge()) + _half, Ramp() + _half],
    ids=str,
)
def test_a_common_offset_takes_no_step(model: Any) -> None:
    exact = np.round(8.0 * _o) / 8.0  # the common part of these is taken off without rounding
    plans = [
        ucm.compile(model.with_offset(_symbol), _X, _y, per_sample={"offset": exact + common})
        for common in (0.0, 2.0**33)
    ]
    one, two = (plan.solve(tol=1e-3) for plan in plans)
    assert two.stats.iterations == one.stats.iterations
    np.testing.assert_array_equal(two.w, one.w)
    steps = [
        plan.solve(tol=1e-3, warm_start=s).stats.iterations for plan, s in zip(plans, (one, two), strict=True)
    ]
    assert steps[1] <= steps[0] + 1  # the start has the declared b


def test_an_offset_is_a_feature_of_weight_1() -> None:
    fixed = ucm.LinearConstraint([[0.0] * 4 + [1.0]], 1.0, 1.0) + 0.5 * ucm.Quadratic(
        np.diag([1.0] * 4 + [0.0])
    )
    beside = np.column_stack([_X, _o])
    for loss in (Hinge(), Logistic(), Ramp()):
        found = ucm.compile((loss + _half).with_offset(_symbol), _X, _y, **_given).solve(tol=1e-8)
        known = ucm.compile(loss + fixed, beside, _y)
        value = known.certify(w=np.append(found.w, 1.0), b=found.b, weights=found.weights)
        assert value.primal == pytest.approx(found.objective, rel=1e-9)
        assert value.relative_gap <= 1e-6


@pytest.mark.parametrize(
    "model",
    [
        Ramp() + _half, Logistic() + 0.5 * CappedL1(a=1), Ramp(0.5) + 0.3 * L1(),
        Hinge() + _half + ucm.Cardinality(2),
    ],
)  # fmt: skip
def test_models_that_are_not_convex_have_offsets(model: Any) -> None:
    plan = ucm.compile(model.with_offset(_symbol), _X, _y, **_given)
    found = plan.solve()
    assert found.status in ("local", "stationary", "optimal") and plan.verify(found)
    nothing = np.zeros(80)
    plain = ucm.compile(model, _X, _y).solve()
    same = ucm.solve(model.with_offset(_symbol), _X, _y, per_sample={"offset": nothing})
    assert same.objective == pytest.approx(plain.objective, rel=1e-6)
    assert found.objective != pytest.approx(plain.objective, rel=1e-3)


def test_declarations_are_written_read_and_printed() -> None:
    model = (WorstMean(Hinge(), CappedSimplex(0.5)) + Param("lam", 0.5) * L2()).with_intercept(None)
    model = model.with_offset(_symbol)
    words = {name: getattr(ucm, name) for name in ucm.__all__}
    assert eval(repr(model), words) == model == ucm.from_json(ucm.to_json(model))
    assert pickle.loads(pickle.dumps(model)) == model != model.with_offset(None)
    assert "t_i = y_i(w'x_i + offset_i)" in str(model)
    assert r"\mathrm{offset}_{i}" in model.to_latex()
    assert r"a_{i} y_{i} \mathrm{offset}_{i}" in model.problem_latex()
    free = (Hinge() + L2()).with_offset(_symbol)
    assert r"\sum_{i} (a_{i} - a_{i} y_{i} \mathrm{offset}_{i})" in free.problem_latex()
    assert str(2 * free + L1()).endswith("t_i = y_i(w'x_i + b + offset_i)")
    assert repr(free + L1()) == "(Hinge() + L2() + L1()).with_offset(per_sample('offset'))"


_fitted = (Logistic() + Param("lam", 0.1) * L2()).with_offset(_symbol)


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("positive", ["a", "b"])
def test_predictions_add_the_offset_of_the_positive_class(kernel: Any, positive: str) -> None:
    labels = np.where(_y > 0.0, "b", "a")
    side = 1.0 if positive == "b" else -1.0
    clf = ucm.Classifier(_fitted, pos_label=positive, kernel=kernel)
    clf.fit(_X, labels, offset=side * _o)
    none = clf.decision_function(_X, offset=np.zeros(80))
    scores = clf.decision_function(_X, offset=side * _o)
    assert scores == pytest.approx(none + _o)
    assert (clf.predict(_X, offset=side * _o) == np.where(scores > 0.0, "b", "a")).all()
    assert clf.predict_proba(_X, offset=side * _o)[:, 1] == pytest.approx(1.0 / (1.0 + np.exp(-scores)))
    assert clf.score(_X, labels, offset=side * _o) == np.mean((scores > 0.0) == (_y > 0.0))
    problem = ucm.solve(_fitted, _X, _y, kernel=kernel, **_given)
    assert clf.solution_.objective == pytest.approx(problem.objective, rel=2e-6)


def test_several_classes_have_an_offset_each() -> None:
    each = np.random.default_rng(2).standard_normal((80, 3))
    several = np.argmax(_X[:, :3] + each, axis=1)
    pairs = ucm.Classifier(_fitted, multi_class="ovo", decision_function_shape="ovo")
    rest = ucm.Classifier(_fitted, multi_class="ovr")
    scores = pairs.fit(_X, several, offset=each).decision_function(_X, offset=each)
    for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = np.isin(several, (i, j))
        alone = ucm.solve(
            _fitted, _X[rows], np.where(several[rows] == i, 1, -1), tol=1e-9,
            per_sample={"offset": each[rows, i] - each[rows, j]},
        )  # fmt: skip
        assert scores[:, k] == pytest.approx(_X @ alone.w + alone.b + each[:, i] - each[:, j], abs=1e-3)
    scores = rest.fit(_X, several, offset=each).decision_function(_X, offset=each)
    for i in range(3):
        signs = np.where(several == i, 1, -1)
        alone = ucm.solve(_fitted, _X, signs, tol=1e-9, per_sample={"offset": each[:, i]})
        assert scores[:, i] == pytest.approx(_X @ alone.w + alone.b + each[:, i], abs=1e-3)


def test_searches_and_comparisons_score_with_offsets() -> None:
    folds, values = StratifiedKFold(3), [0.1, 1.0, 30.0]
    search = ucm.ClassifierCV(_fitted, param_name="lam", param_range=values, cv=folds)
    search.fit(_X, _y, offset=_o)
    by_hand = np.array([
        [
            ucm.Classifier(_fitted.with_params(lam=lam)).fit(_X[a], _y[a], offset=_o[a])
            .score(_X[e], _y[e], offset=_o[e])
            for a, e in folds.split(_X, _y)
        ]
        for lam in values
    ])  # fmt: skip
    assert search.cv_results_["mean_test_score"] == pytest.approx(by_hand.mean(axis=1))
    assert search.score(_X, _y, offset=_o) == np.mean(search.predict(_X, offset=_o) == _y)
    compared = ucm.compare({"a": _fitted}, _X, _y, cv=folds, progress=False, **_given)
    assert compared[0].score == pytest.approx(by_hand[0].mean())
    scored = ucm.compare({"a": _fitted}, _X, _y, cv=folds, scoring="roc_auc", progress=False, **_given)
    auc = []
    for a, e in folds.split(_X, _y):
        clf = ucm.Classifier(_fitted).fit(_X[a], _y[a], offset=_o[a])
        auc.append(roc_auc_score(_y[e], clf.decision_function(_X[e], offset=_o[e])))
    assert scored[0].score == pytest.approx(np.mean(auc))
    inner: Any = ucm.ClassifierCV(_fitted, param_name="lam", param_range=[0.1], cv=folds, scoring="roc_auc")
    head = make_pipeline(StandardScaler(), ucm.Classifier(_fitted))
    first = ucm.ClassifierCV(head, param_name="lam", param_range=[0.1], cv=folds)
    by_scores = roc_auc_score(_y, inner.fit(_X, _y, offset=_o).decision_function(_X, offset=_o))
    assert inner.score(_X, _y, offset=_o) == pytest.approx(by_scores)
    of_labels = np.mean(first.fit(_X, _y, offset=_o).predict(_X, offset=_o) == _y)
    assert first.score(_X, _y, offset=_o) == pytest.approx(of_labels)
    searched = ucm.compare({"a": inner, "b": first}, _X, _y, cv=folds, progress=False, **_given)
    found_by_name = {row.name: row for row in searched}
    assert found_by_name["a"].score == pytest.approx(by_hand[0].mean())
    assert not found_by_name["b"].failures
    with sklearn.config_context(enable_metadata_routing=True):
        clf = ucm.Classifier(_fitted)
        found = cross_validate(clf, _X, _y, cv=folds, params={"offset": _o})["test_score"]
    assert found == pytest.approx(by_hand[0])


_clf = ucm.Classifier(_fitted).fit(_X, _y, offset=_o)
_any: Any = Hinge() + L2()
_flips: Any = ucm.WassersteinObjective(Hinge(), eps=0.1)
_wide = np.column_stack([_o, _o])
_new = ucm.Classifier(_fitted)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: _any.with_offset(_o), ucm.CompositionError, "come with the samples"),
        (lambda: _any.with_offset("offset"), ucm.CompositionError, "write with_offset"),
        (lambda: _fitted + (Hinge() + L2()), ucm.CompositionError, "two intercepts or offsets"),
        (lambda: _flips.with_offset(_symbol), ucm.CompositionError, "have a distance"),
        (lambda: _fitted.value(_o, np.ones(4)), ucm.CompositionError, "values of per_sample"),
        (lambda: ucm.solve(_fitted, _X, _y), ucm.DataError, "got none"),
        (lambda: ucm.solve(_fitted, _X, _y, per_sample={"offset": _o[:7]}), ucm.DataError, "80 finite"),
        (lambda: ucm.solve(_fitted, _X, _y, per_sample={"offset": _o / 0.0}), ucm.DataError, "NaN or inf"),
        (
            lambda: ucm.solve(_fitted, _X, _y, per_sample={"offset": _o + 1j}),
            ucm.DataError, "the type complex128",
        ),
        (lambda: _clf.predict(_X), ucm.DataError, r"predict\(X, offset=values\)"),
        (lambda: _clf.decision_function(_X, offset=_o[:7]), ucm.DataError, "80 finite numbers"),
        (lambda: _clf.predict_proba(_X, offset=_o * np.nan), ucm.DataError, "NaN or inf"),
        (lambda: _clf.score(_X, _y), ucm.DataError, "got none"),
        (lambda: _clf.predict(_X, offset=_o, radius=_o), ucm.ParameterError, "'radius' too"),
        (lambda: ucm.Classifier().fit(_X, _y).predict(_X, offset=_o), ucm.ParameterError, "no quantity"),
        (lambda: _new.fit(_X, _y, offset=_wide), ucm.DataError, "80 finite"),
        (lambda: _new.fit(_X, np.arange(80) % 3, offset=_o), ucm.DataError, "each class"),
        (lambda: _clf.to_sklearn(), ucm.CompositionError, "scikit-learn has none"),
        (
            lambda: _clf.plan_.guarantees(_clf.solution_, X_test=_X, y_test=_y),
            ucm.ParameterError, "without an offset",
        ),
        (lambda: _clf.solution_.save_certificate("file"), ucm.ParameterError, "does not hold"),
        (lambda: per_sample("out"), ucm.CompositionError, "argument of fit or predict"),
    ],
)  # fmt: skip
def test_errors_name_the_remedy(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words), np.errstate(divide="ignore"):
        call()


def test_rows_out_of_core_are_refused(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="needs pip install 'ucm-classifiers[rows]'")
    table = np.column_stack([_y, _X])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="y,a,b,c,d", comments="")
    path = tmp_path / "rows.csv"
    with pytest.raises(ucm.DataError, match="with_offset"):
        ucm.solve(_fitted, path, "y")
    with pytest.raises(ucm.DataError, match="with_offset"):
        ucm.Classifier(_fitted).fit(path, "y", offset=_o)
    with pytest.raises(ucm.CompositionError, match="samples in memory"):
        _clf.predict(path, offset=_o)
    with pytest.raises(ucm.ParameterError, match="'typo' too"):
        ucm.ClassifierCV(Hinge() + Param("lam", 1.0) * L2(), param_range=[1.0]).fit(path, "y", typo=_o)
    with pytest.raises(ucm.ParameterError, match="expected none for rows"):
        ucm.compare([Hinge() + L2()], path, "y", per_sample={"typo": _o})
