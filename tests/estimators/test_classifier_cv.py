"""Sizes chosen by cross-validation: every score beside that of fits one by one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import ucm
from ucm import neg, pos
from ucm.estimators import progress
from ucm.language.models import biased_l2_nu_svm, mm_fda, mm_mpm, nu_svm, psvm, svm

Table = tuple[np.ndarray, np.ndarray]


def _table(load: Any) -> Any:
    return load(return_X_y=True)


@pytest.fixture(scope="module")
def cancer() -> Table:
    X, y = _table(load_breast_cancer)
    return ((X - X.mean(axis=0)) / X.std(axis=0))[:200, :8], y[:200]


@pytest.fixture(scope="module")
def wine() -> Table:
    X, y = _table(load_wine)
    return ((X - X.mean(axis=0)) / X.std(axis=0))[::2], y[::2]


def one_by_one(model: Any, values: Any, X: Any, y: Any, cv: Any, **options: Any) -> np.ndarray:
    """Scores of fits of `Classifier`, one for every value and fold."""
    (name,) = model.params()
    scores = []
    with warnings.catch_warnings(action="ignore"):
        for value in values:
            clf = ucm.Classifier(model.with_params(**{name: value}), **options)
            scores.append(cross_val_score(clf, X, y, cv=cv, error_score=np.nan))
    return np.array(scores)


def scores_of(search: ucm.ClassifierCV) -> np.ndarray:
    """The (values, folds) scores."""
    found = search.cv_results_
    return np.column_stack([found[f"split{k}_test_score"] for k in range(search.n_splits_)])


def values_of(search: ucm.ClassifierCV) -> np.ndarray:
    name = next(iter(search.best_params_))
    return search.cv_results_[f"param_{name}"]


def best_of(search: ucm.ClassifierCV) -> float:
    return next(iter(search.best_params_.values()))


# --- scikit-learn -----------------------------------------------------------------------------------
@parametrize_with_checks([ucm.ClassifierCV(param_range=2, cv=2)])
def test_searches_pass_the_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


MODELS = [
    mm_mpm(0.5),
    mm_fda(0.5),
    nu_svm(0.4),
    svm(1.0),
    ucm.Logistic() + ucm.Param("lam", 1.0) * ucm.L1(),
]
TWICE = ucm.Param("kappa", 0.3)
OF_MOMENTS = [
    2 * ucm.Ellipsoid(pos.mean - neg.mean, pos.cov + 0.5 * neg.cov, TWICE),
    ucm.Ellipsoid(2 * pos.mean, 0.5 * pos.cov, TWICE) - ucm.Ellipsoid(neg.mean, neg.cov, TWICE),
    ucm.Ellipsoid(pos.mean, pos.cov + np.eye(8), TWICE) - ucm.Point(neg.mean),
]


@pytest.mark.parametrize("model", [*MODELS, *OF_MOMENTS], ids=repr)
def test_scores_equal_separate_fits(model: Any, cancer: Table) -> None:
    X, y = cancer
    search = ucm.ClassifierCV(model, param_range=4, cv=3).fit(X, y)
    assert scores_of(search).shape == (4, 3)
    assert np.array_equal(scores_of(search), one_by_one(model, values_of(search), X, y, StratifiedKFold(3)))
    assert best_of(search) == values_of(search)[search.best_index_]
    assert search.best_score_ == scores_of(search).mean(axis=1).max()
    (name,) = model.params()
    fitted = search.best_estimator_.solution_
    assert fitted.params[name] == best_of(search) and fitted.status == "optimal"
    assert np.array_equal(search.predict(X), search.best_estimator_.predict(X))


@pytest.mark.parametrize("scoring", [None, "roc_auc"])
@pytest.mark.parametrize("model", [mm_mpm(0.5), mm_fda(0.5), nu_svm(0.4), svm(1.0)], ids=repr)
def test_scores_with_the_smaller_label_as_class_plus_one(model: Any, scoring: Any, cancer: Table) -> None:
    """Of folds, of left-out samples and over rows, beside the labels renamed so that class +1 is larger."""
    X, y = cancer[0][::3], cancer[1][::3]
    (name,) = model.params()
    values, names = [0.3, 0.4, 0.5], np.array(["b", "z"])
    for cv in (3, "loo") if scoring is None else (3,):
        options = {"param_name": name, "param_range": values, "cv": cv, "scoring": scoring}
        found = ucm.ClassifierCV(ucm.Classifier(model, pos_label=0), **options).fit(X, y)
        other = ucm.ClassifierCV(model, **options).fit(X, names[1 - y])
        np.testing.assert_allclose(scores_of(found), scores_of(other), atol=1e-3)
        assert found.classes_.tolist() == [0, 1] and found.score(X, y) >= 0.9
        np.testing.assert_allclose(
            found.decision_function(X), -other.decision_function(X), rtol=1e-5, atol=1e-5
        )
    if scoring is None and model.params().keys() & {"nu", "C"}:
        rows = ucm.open_rows(X, y)
        search = ucm.ClassifierCV(
            ucm.Classifier(model, pos_label=0), param_range=values, param_name=name, cv=3
        )
        one: Any = clone(search.fit(rows).best_estimator_)
        folds = [one.fit(train).score(test) for train, test in rows.split(3)]
        np.testing.assert_allclose(scores_of(search)[search.best_index_], folds)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("model", [mm_mpm(0.5), mm_fda(0.5), nu_svm(0.3)], ids=repr)
def test_scores_of_several_classes_equal_separate_fits(model: Any, scheme: str, wine: Table) -> None:
    X, y = wine
    search = ucm.ClassifierCV(ucm.Classifier(model, multi_class=scheme), param_range=3, cv=3).fit(X, y)
    expected = one_by_one(model, values_of(search), X, y, StratifiedKFold(3), multi_class=scheme)
    assert np.array_equal(scores_of(search), expected, equal_nan=True)


OPTIONS: list[dict[str, Any]] = [
    {"bias_rule": "means"},
    {"bias_rule": "min_error"},
    {"class_weight": "balanced"},
    {"solver": "ssnal"},
]


@pytest.mark.parametrize("model", [mm_mpm(0.5), mm_fda(0.5)], ids=repr)
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_the_options_of_a_classifier(model: Any, options: dict[str, Any], cancer: Table) -> None:
    X, y = cancer
    values = [0.1, 0.6]
    search = ucm.ClassifierCV(ucm.Classifier(model, **options), param_range=values, cv=3).fit(X, y)
    expected = one_by_one(model, values, X, y, StratifiedKFold(3), **options)
    assert np.array_equal(scores_of(search), expected)


@pytest.mark.parametrize("model", [mm_mpm(0.5), nu_svm(0.4)], ids=repr)
def test_other_folds_and_scores(model: Any, cancer: Table) -> None:
    X, y = cancer
    folds = ShuffleSplit(3, test_size=0.3, random_state=0)
    found = ucm.ClassifierCV(model, param_range=3, cv=folds, scoring="roc_auc").fit(X, y)
    (name,) = model.params()
    expected = [
        cross_val_score(ucm.Classifier(model.with_params(**{name: v})), X, y, cv=folds, scoring="roc_auc")
        for v in values_of(found)
    ]
    assert np.allclose(scores_of(found), expected, atol=1e-12)


def test_folds_in_threads_equal_serial_folds(cancer: Table) -> None:
    options: Any = {"param_range": [0.1, 10.0], "cv": 4}
    stopped = ucm.Classifier(psvm(2.0, 1.0), max_iter=1)
    with warnings.catch_warnings(record=True, action="always") as met:
        filters = list(warnings.filters)
        found = ucm.ClassifierCV(stopped, n_jobs=2, param_name="model__C", **options).fit(*cancer)
        assert warnings.filters == filters
        assert [each.category for each in met] == [ucm.ConvergenceWarning]  # of the last fit
        alone = ucm.ClassifierCV(stopped, **options).fit(*cancer)
    assert np.array_equal(scores_of(found), scores_of(alone))


def test_sparse_samples_choose_the_value_of_dense_samples(cancer: Table) -> None:
    X, y = cancer
    for model in (mm_mpm(0.5), mm_fda(0.5), nu_svm(0.4)):
        dense = ucm.ClassifierCV(model, param_range=3, cv=3).fit(X, y)
        thin = ucm.ClassifierCV(model, param_range=values_of(dense), cv=3).fit(sparse.csr_array(X), y)
        assert np.array_equal(scores_of(dense), scores_of(thin))


@pytest.mark.parametrize("model", [mm_mpm(0.5), mm_fda(0.5), nu_svm(0.3)], ids=repr)
def test_a_weight_is_a_repetition(model: Any, cancer: Table) -> None:
    X, y = cancer
    count = np.random.default_rng(0).integers(0, 3, y.size)
    place = np.arange(y.size) % 3
    folds = [(np.flatnonzero(place != k), np.flatnonzero(place == k)) for k in range(3)]
    rows = np.repeat(np.arange(y.size), count)
    repeated = [tuple(np.flatnonzero(np.isin(rows, part)) for part in fold) for fold in folds]
    values = [0.25, 0.3]
    weighted = ucm.ClassifierCV(model, param_range=values, cv=folds).fit(X, y, sample_weight=count)
    plain = ucm.ClassifierCV(model, param_range=values, cv=repeated).fit(X[rows], y[rows])
    assert np.allclose(scores_of(weighted), scores_of(plain), atol=1e-12)
    weighted, plain = weighted.best_estimator_, plain.best_estimator_
    assert np.allclose(weighted.coef_, plain.coef_, atol=1e-4)


def test_scores_with_a_kernel_equal_separate_fits(cancer: Table) -> None:
    X, y = cancer[0][:80], cancer[1][:80]
    model, values = nu_svm(0.3), [0.2, 0.3]
    rbf = ucm.ClassifierCV(ucm.Classifier(model, kernel="rbf", gamma=0.1), param_range=values, cv=3).fit(X, y)
    expected = one_by_one(model, values, X, y, StratifiedKFold(3), kernel="rbf", gamma=0.1)
    assert np.array_equal(scores_of(rbf), expected)
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    given = ucm.ClassifierCV(ucm.Classifier(model, kernel="precomputed"), param_range=values, cv=3).fit(K, y)
    assert np.array_equal(scores_of(given), expected)
    two = ucm.ClassifierCV(ucm.Classifier(model, kernel="rbf"), param_range=2, cv=3).fit(X, y)
    assert values_of(two).size == 2


def test_fractions_of_lam_max_beside_another_parameter(cancer: Table) -> None:
    """Of a sum of three terms, which is built and searched before the fraction is a number."""
    X, y = cancer
    model = ucm.Logistic() + ucm.Param("lam", 0.5, relative=True) * ucm.L1() + ucm.Param("mu", 1.0) * ucm.L2()
    search = ucm.ClassifierCV(model, param_range=3, cv=2).fit(X, y)
    assert_allclose(search.cv_results_["param_model__lam"], [0.001, 0.01, 0.1])
    numbers = model.substitute(
        {"lam": search.best_params_["model__lam"] * ucm.admissible(model, X, y)["lam"].upper}
    )
    again = ucm.Classifier(numbers).fit(X, y)
    assert_allclose(search.decision_function(X), again.decision_function(X), rtol=1e-3, atol=1e-3)


def test_relative_sizes_and_groups(cancer: Table) -> None:
    X, y = cancer
    relative = nu_svm(ucm.Param("nu", 0.5, relative=True))
    search = ucm.ClassifierCV(relative, param_range=3, cv=3).fit(X, y)
    expected = one_by_one(relative, values_of(search), X, y, StratifiedKFold(3))
    assert np.array_equal(values_of(search), [1 / 6, 0.5, 5 / 6])
    assert np.array_equal(scores_of(search), expected)
    kappa = ucm.Param("kappa", 0.3)
    grouped = ucm.Ellipsoid(pos.group("a").mean, pos.group("a").cov, kappa) - ucm.Hull(neg)
    labels = np.where(np.arange(y.size) % 2, "a", "b")
    found = ucm.ClassifierCV(grouped, param_range=[0.1, 0.2], cv=3).fit(X, y, subgroup=labels)
    assert np.isfinite(scores_of(found)).all()


# --- leaving out one ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("bias", "scheme"), [("auto", "ovr"), ("zero", "ovo")])
def test_leave_one_out_of_mm_fda_is_that_of_refits(bias: str, scheme: str, wine: Table) -> None:
    X, y = wine[0][::3, :6], wine[1][::3]
    search = ucm.ClassifierCV(
        ucm.Classifier(mm_fda(0.5), bias_rule=bias, multi_class=scheme),
        param_range=[0.0, 0.05, 0.5, 2.0],
        cv="loo",
    )
    search.fit(X, y)
    expected = one_by_one(
        mm_fda(0.5), values_of(search), X, y, LeaveOneOut(), bias_rule=bias, multi_class=scheme
    )
    assert np.array_equal(scores_of(search), expected)


@pytest.mark.parametrize("model", [*OF_MOMENTS[:1], mm_fda(0.5)], ids=repr)
def test_left_out_decision_values(model: Any, cancer: Table) -> None:
    X, y = cancer[0][:60], cancer[1][:60]
    search = ucm.ClassifierCV(
        ucm.Classifier(model, bias_rule="means"),
        param_range=[0.01, 0.3, 0.8],
        cv=LeaveOneOut(),
        scoring=_margin,
    ).fit(X, y)
    assert np.isfinite(scores_of(search)).all()
    for k, value in enumerate(values_of(search)):
        for i in range(0, 60, 7):
            rest = np.arange(60) != i
            clf = ucm.Classifier(model.with_params(kappa=value), bias_rule="means", tol=1e-9).fit(
                X[rest], y[rest]
            )
            assert abs(scores_of(search)[k, i] - clf.decision_function(X[[i]])[0]) <= 1e-8


def _margin(estimator: Any, X: Any, y: Any) -> float:
    return float(estimator.decision_function(X)[0])


def test_leave_one_out_of_other_models(cancer: Table) -> None:
    X, y = cancer[0][:30], cancer[1][:30]
    search = ucm.ClassifierCV(svm(1.0), param_range=[2.0], cv="loo").fit(X, y)
    assert np.array_equal(scores_of(search), one_by_one(svm(1.0), [2.0], X, y, LeaveOneOut()))


# --- which one --------------------------------------------------------------------------------------------
def test_the_rule_of_one_standard_error(cancer: Table) -> None:
    X, y = cancer
    for model in (mm_mpm(0.5), svm(1.0), psvm(1.5, 1.0)):
        param: dict[str, Any] = {"param_name": "C"} if "C" in model.params() else {}
        best = ucm.ClassifierCV(model, param_range=8, **param).fit(X, y)
        simple = ucm.ClassifierCV(model, param_range=8, selection="1se", **param).fit(X, y)
        (name,) = simple.best_params_
        mean, k = scores_of(best).mean(axis=1), best.best_index_
        least = mean[k] - scores_of(best)[k].std(ddof=1) / np.sqrt(5)
        within = values_of(best)[mean >= least]
        assert best_of(simple) == (within.max() if name == "model__lam" else within.min())


def test_grid_search_finds_the_same(cancer: Table) -> None:
    X, y = cancer
    grid = {"model__kappa": [0.1, 0.4, 0.9]}
    slow = GridSearchCV(ucm.Classifier(mm_mpm(0.5)), grid, cv=3).fit(X, y)
    fast = ucm.ClassifierCV(mm_mpm(0.5), param_range=grid["model__kappa"], cv=3).fit(X, y)
    for column in ("mean_test_score", "std_test_score"):
        assert np.allclose(slow.cv_results_[column], fast.cv_results_[column])
    assert slow.best_params_["model__kappa"] == best_of(fast)
    nested = ucm.ClassifierCV(ucm.Classifier(mm_mpm(0.5))).set_params(estimator__model__kappa=0.4)
    assert nested.get_params()["estimator__model__kappa"] == 0.4
    assert slow.cv_results_["rank_test_score"].tolist() == fast.cv_results_["rank_test_score"].tolist()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "cv": ({"cv": 1}, "number of folds from 2 on"),
    "word": ({"cv": "five"}, "number of folds from 2 on"),
    "no folds": ({"cv": []}, "expected folds with samples"),
    "rule": ({"selection": "2se"}, 'selection is "best" or "1se"'),
    "param": ({"param_name": "kappa"}, "one of the model's parameters, nu"),
    "param_range": ({"param_range": 0}, "param_range is a number of values"),
    "words": ({"param_range": "many"}, "a number of values, or a sequence of numbers"),
    "none fits": ({"param_range": [0.999]}, "none of 1 values"),
    "scoring": ({"scoring": "speed"}, "is no score of the estimator"),
    "probabilities": ({"scoring": "neg_log_loss"}, "asks for more than decision values"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_searches_are_refused(case: str, cancer: Table) -> None:
    options, words = REFUSED[case]
    given: dict[str, Any] = {"param_range": [0.3], **options}
    search = ucm.ClassifierCV(nu_svm(0.3), **given)
    with pytest.raises(ucm.UCMError, match=words):
        search.fit(*cancer)
    assert not [name for name in vars(search) if name.endswith("_")]


def test_another_estimator_is_refused(cancer: Table) -> None:
    search = ucm.ClassifierCV(make_pipeline(StandardScaler(), SVC()))
    with pytest.raises(ucm.ParameterError, match="a pipeline that ends in one, got a SVC; search other"):
        search.fit(*cancer)


@pytest.mark.parametrize(
    ("classifier", "ranges"),
    [
        (ucm.Classifier(tol=1e-8), {"model__C": [0.01, 1.0]}),
        (ucm.Classifier(mm_fda(0.5)), {"kappa": [0.1, 0.5]}),
        (ucm.Classifier(kernel="rbf", tol=1e-8), {"gamma": [0.001, 0.1], "C": [0.1, 1.0, 10.0]}),
        (ucm.Classifier(kernel="rbf", tol=1e-8), {"gamma": [0.001, 0.1]}),
        (
            ucm.Classifier(biased_l2_nu_svm(0.2, 0.2), tol=1e-8),
            {"kappa_neg": [0.15, 0.2], "kappa_pos": [0.2, 0.3]},
        ),
    ],
    ids=["C", "moments", "C, gamma", "gamma", "two of a model"],
)
def test_products_of_parameters_and_pipelines_equal_a_grid_search(
    classifier: ucm.Classifier, ranges: dict[str, list[float]], cancer: Table
) -> None:
    """With the steps of a pipeline fitted to the training part of each fold, as in `GridSearchCV`."""
    X, y = cancer
    table = pd.DataFrame(X * np.geomspace(1.0, 100.0, X.shape[1]) + 3.0).add_prefix("x")
    names = {name: name.removeprefix("model__") for name in ranges}
    full = {name: word if word == "gamma" else f"model__{word}" for name, word in names.items()}
    pipeline = make_pipeline(StandardScaler(), classifier)
    for estimator, prefix, Z in ((classifier, "", X), (pipeline, "classifier__", table)):
        search = ucm.ClassifierCV(estimator, param_range=ranges, cv=3).fit(Z, y)
        grid = {prefix + full[name]: values for name, values in ranges.items()}
        theirs = GridSearchCV(estimator, grid, cv=3).fit(Z, y)
        scores = {tuple(sorted(p.items())): s for p, s in zip(
            theirs.cv_results_["params"], theirs.cv_results_["mean_test_score"], strict=True)}  # fmt: skip
        for point, score in zip(
            search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
        ):
            assert scores[tuple(sorted(point.items()))] == pytest.approx(score, abs=1e-12)
        assert search.best_score_ == pytest.approx(theirs.best_score_)
        assert set(search.best_params_) == set(grid)
        assert search.n_features_in_ == X.shape[1]
        best: Any = clone(estimator)
        best.set_params(**search.best_params_).fit(Z, y)
        assert_allclose(search.decision_function(Z), best.decision_function(Z), rtol=1e-5, atol=1e-7)
        assert search.score(Z, y) == best.score(Z, y)


def test_the_values_of_gamma_are_about_scale(cancer: Table) -> None:
    X, y = cancer
    clf = ucm.Classifier(kernel="rbf")
    search = ucm.ClassifierCV(clf, param_name="gamma", param_range=3, cv=2).fit(X, y)
    assert_allclose(search.cv_results_["param_gamma"], np.array([1 / 30, 1, 30]) / (X.shape[1] * X.var()))
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"param_name": "gamma", "param_range": 3}, "gamma is of a kernel, got kernel=None"),
        ({"param_name": "class_weight"}, "expected values of class_weight, got 20; write their list"),
        ({"param_name": "gama"}, "param_name is one of the model's parameters, C; got 'gama'"),
    )
    for given, words in refused:
        with pytest.raises(ucm.ParameterError, match=words):
            ucm.ClassifierCV(**given).fit(X, y)


def test_a_model_without_a_param_says_where_to_write_one(cancer: Table) -> None:
    U = ucm.Ellipsoid(ucm.pos.mean, ucm.pos.cov, 0.4) - ucm.Hull(ucm.neg, weights=ucm.NormBall(0.2))
    words = r"as in RobustMargin\(Ellipsoid\(pos.mean, pos.cov, Param\('radius', 0.5, relative=True\)\) - "
    with pytest.raises(ucm.ParameterError, match=f"write a size as a Param, {words}"):
        ucm.ClassifierCV(U).fit(*cancer)


def test_the_score_is_that_of_scoring(cancer: Table) -> None:
    X, y = cancer
    weights = 1.0 + np.arange(y.size) % 3
    search = ucm.ClassifierCV(mm_fda(0.5), param_range=2, scoring="roc_auc", cv=3).fit(X, y)
    expected = roc_auc_score(y, search.decision_function(X), sample_weight=weights)
    assert search.score(X, y, weights) == pytest.approx(expected)


def test_progress_by_lines_by_callbacks_and_beside_a_spinner(
    cancer: Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = ucm.ClassifierCV(mm_fda(0.5), param_range=2, cv=2, verbose=1).fit(*cancer)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("ClassifierCV: fold 1 of 2, 1 of 2 after ") and "2 of 2, 2 of 2" in last
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.spinner("fit") as show:
        assert show is not None
        show("half")
        search.fit(*cancer)  # an inner fit has no spinner
    if not hasattr(search, "set_callbacks"):
        pytest.skip("scikit-learn has callbacks from 1.9 on")
    for estimator, count in ((search, 2), (ucm.Classifier(mm_fda(0.5)), 1)):
        counter = Counter()
        estimator.set_callbacks(counter).fit(*cancer)
        assert counter.setups == counter.teardowns == 1 and counter.ended == count + 1
    assert search.best_score_ > 0.9


class Counter:
    """A callback that counts."""

    setups = teardowns = ended = 0

    def setup(self, estimator: Any, context: Any) -> None:
        self.setups += 1

    def teardown(self, estimator: Any, context: Any) -> None:
        self.teardowns += 1

    def on_fit_task_begin(self, estimator: Any, context: Any, **more: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, **more: Any) -> None:
        self.ended += 1


def test_fewer_folds_than_asked_for_warn(cancer: Table) -> None:
    X, y = cancer
    few = np.r_[np.flatnonzero(y == 0)[:3], np.flatnonzero(y == 1)[:30]]
    with pytest.warns(UserWarning, match="cv=10.*the rarest class has 3 samples, so there are 3 folds"):
        search = ucm.ClassifierCV(mm_fda(0.5), param_range=2, cv=10).fit(X[few], y[few])
    assert search.n_splits_ == 3


def test_folds_that_cannot_train(cancer: Table) -> None:
    X, y = cancer
    alone = np.arange(y.size) > 0
    rare = np.where(alone, 0, 1)
    with pytest.raises(ucm.DataError, match="a class has 1 sample"):
        ucm.ClassifierCV(nu_svm(0.3), param_range=[0.3]).fit(X, rare)
    order = np.argsort(y, kind="stable")
    half = int((y == 0).sum())
    folds = [(order[half:], order[:half])]
    with pytest.raises(ucm.DataError, match="fold 0 of 1 has no sample of class 0"):
        ucm.ClassifierCV(nu_svm(0.3), param_range=[0.3], cv=folds).fit(X, y)
    two = np.where(np.arange(y.size) < 2, 1, 0)  # folds that train on one sample of a class
    found = ucm.ClassifierCV(mm_mpm(0.1), param_range=[0.1], cv=2).fit(X, two)
    assert found.n_splits_ == 2 and np.isfinite(scores_of(found)).all()


def test_which_parameter_is_not_clear(cancer: Table) -> None:
    model = ucm.models.biased_l2_nu_svm(0.2, 0.2)
    with pytest.raises(ucm.ParameterError, match=r"kappa_pos, kappa_neg; name it, as param_name=.kappa_pos"):
        ucm.ClassifierCV(model).fit(*cancer)
    assert ucm.ClassifierCV(param_range=2, cv=2).fit(*cancer).best_params_.keys() == {"model__C"}


def test_means_apart_across_the_covariance() -> None:
    X = np.tile([[0.0, -1.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]], (2, 1))
    y = np.tile([0, 0, 1, 1], 2)
    found = ucm.ClassifierCV(mm_fda(0.5), param_range=[0.1, 1.0], cv=2).fit(X, y)
    assert np.array_equal(scores_of(found), np.ones((2, 2)))


# --- the parts ----------------------------------------------------------------------------------------------
def test_folds_are_masks_or_indices(cancer: Table) -> None:
    X, y = cancer
    first = np.arange(y.size) % 3 > 0
    masks = [(first, ~first), (~first, first)]
    indices = [tuple(map(np.flatnonzero, fold)) for fold in masks]
    for model in (mm_mpm(0.3), nu_svm(0.3)):
        by_mask, by_index = (
            ucm.ClassifierCV(model, param_range=[0.3], cv=cv).fit(X, y) for cv in (masks, indices)
        )
        np.testing.assert_array_equal(scores_of(by_mask), scores_of(by_index))
        expected = cross_val_score(ucm.Classifier(model), X, y, cv=masks)
        np.testing.assert_allclose(scores_of(by_mask)[0], expected)
    with pytest.raises(ucm.ParameterError, match="boolean index did not match"):
        ucm.ClassifierCV(nu_svm(0.3), param_range=[0.3], cv=[(first[1:], ~first)]).fit(X, y)
    last = [(np.arange(y.size), np.array([-1]))]  # it would be in both parts
    with pytest.raises(ucm.ParameterError, match="index -1 is negative"):
        ucm.ClassifierCV(nu_svm(0.3), param_range=[0.3], cv=last).fit(X, y)


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy"])
def test_a_fold_without_weight_has_no_score(cancer: Table, scoring: Any) -> None:
    X, y = cancer
    test = np.arange(y.size) < 40
    search = ucm.ClassifierCV(nu_svm(0.3), param_range=[0.3], cv=[(~test, test)], scoring=scoring)
    with pytest.raises(ucm.DataError, match="expected weights above 0 to score fold 0 of 1"):
        search.fit(X, y, sample_weight=np.where(test, 0.0, 1.0))


def test_folds_of_groups_are_those_of_scikit_learn(wine: Table) -> None:
    """A splitter of groups, alone, with routing through a tool of scikit-learn, and in `compare`."""
    X, y = wine
    groups, values = np.arange(len(y)) // 5, [0.01, 0.1, 1.0]
    model = ucm.models.psvm(2.0, ucm.Param("C", 0.1))
    search = ucm.ClassifierCV(model, param_range={"C": values}, cv=GroupKFold(3))
    theirs = GridSearchCV(ucm.Classifier(model), {"model__C": values}, cv=GroupKFold(3))
    found, expected = (s.fit(X, y, groups=groups).cv_results_["mean_test_score"] for s in (search, theirs))
    assert_allclose(found, expected, atol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        outer = cross_validate(search, X, y, cv=GroupKFold(3), params={"groups": groups})["test_score"]
    compared = ucm.compare([search], X, y, cv=GroupKFold(3), groups=groups, progress=False)[0]
    assert_allclose(compared.fold_scores, outer)
    with pytest.raises(ucm.ParameterError, match="groups="):
        search.fit(X, y)
    with pytest.raises(ucm.ParameterError, match=r"groups is None, got"):
        ucm.ClassifierCV(model, param_range={"C": values}).fit(ucm.open_rows(X, y), groups=groups)


def test_samples_of_weight_0_do_not_move_the_bias_of_least_error() -> None:
    """`fit` leaves them out; the biases of a search by moments stood at their scores too."""
    rng = np.random.default_rng(1)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 2)) + y[:, None]
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], 60)
    radius = ucm.Param("kappa", 0.1)
    U = ucm.Ellipsoid(pos.mean, pos.cov, radius) - ucm.Ellipsoid(neg.mean, neg.cov, radius)
    clf, values = ucm.Classifier(U, bias_rule="min_error"), np.linspace(0.01, 0.3, 8)
    folds = list(StratifiedKFold(4).split(X, y))
    found = ucm.ClassifierCV(clf, param_range=values, cv=folds).fit(X, y, sample_weight=weights).cv_results_
    for k, (train, test) in enumerate(folds):
        for j, value in enumerate(values):
            fitted: Any = clone(clf)
            fitted.set_params(model__kappa=value).fit(X[train], y[train], sample_weight=weights[train])
            score = fitted.score(X[test], y[test], sample_weight=weights[test])
            assert found[f"split{k}_test_score"][j] == pytest.approx(score)
