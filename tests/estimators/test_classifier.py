"""`ucm.Classifier`: scikit-learn's own checks, what fit stores, what it refuses."""

from __future__ import annotations

import io
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import joblib
import numpy as np
import pandas as pd
import pytest
from bundled import load
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted
from typed import known, scikit, untyped

import ucm
from ucm import neg, pos, signed
from ucm.errors import NonConvexWarning
from ucm.forms.distance import MinNorm
from ucm.forms.solver import Solver
from ucm.language.models import biased_l2_nu_svm, kl_svm, l2_nu_svm, mm_fda, mm_mpm, nu_svm, psvm, svm

ESTIMATORS = [ucm.Classifier(), ucm.Classifier(mm_mpm(0.05))]
PROJECTION = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, -1.0]])


@pytest.fixture(scope="module")
def apart() -> tuple[np.ndarray, np.ndarray]:
    """Two separable classes of 20 and 30 samples with four features."""
    return scikit.make_blobs([20, 30], centers=[[0, 0, 0, 0], [3, 3, 2, 1]], random_state=0)


@pytest.fixture(scope="module")
def mixed() -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes of 40 and 20 samples with three features."""
    return scikit.make_blobs([40, 20], centers=[[0, 0, 0], [1.5, 1, 1]], random_state=1)


# --- scikit-learn's checks ----------------------------------------------------------------------
@parametrize_with_checks(ESTIMATORS)
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.slow
def test_the_check_of_the_array_api() -> None:
    """scikit-learn skips it unless SciPy was imported with SCIPY_ARRAY_API set."""
    code = (
        "import ucm\n"
        "from sklearn.utils.estimator_checks import check_array_api_input\n"
        "for model in (None, ucm.models.mm_fda(0.05), ucm.models.mm_mpm(0.05)):\n"
        "    clf = ucm.Classifier(model)\n"
        "    check_array_api_input('Classifier', clf, array_namespace='numpy')\n"
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    if "array_api_compat is not installed" in done.stderr:
        pytest.skip("scikit-learn before 1.7 needs array_api_compat")
    assert done.returncode == 0, done.stderr


# --- fitted attributes --------------------------------------------------------------------------
def test_a_fit_sets_the_attributes_of_scikit_learn(apart: tuple) -> None:
    X, y = apart
    clf = ucm.Classifier(nu_svm(0.3))
    assert clf.fit(X, y) is clf
    solution = ucm.solve(nu_svm(0.3), X, 2 * y - 1)
    assert clf.coef_.shape == (1, 4)
    assert clf.intercept_.shape == (1,)
    assert_array_equal(clf.coef_[0], solution.w)
    assert clf.intercept_[0] == solution.b
    assert_array_equal(clf.classes_, [0, 1])
    assert clf.n_features_in_ == 4
    assert not hasattr(clf, "feature_names_in_")
    assert clf.n_iter_ == solution.stats.iterations >= 1
    assert clf.solution_.status == "optimal"
    assert clf.certificate_ is clf.solution_.certificate
    assert clf.dual_gap_ == clf.certificate_.gap <= 1e-6 * abs(clf.solution_.objective)  # type: ignore[union-attr]
    assert clf.history_[-1]["iteration"] == clf.n_iter_
    assert clf.plan_.verify().agrees
    assert_array_equal(clf.support_, np.flatnonzero(known(solution.weights)))
    assert 0 < clf.support_.size < 50


def test_the_second_class_is_the_positive_one(apart: tuple) -> None:
    X, y = apart
    clf = ucm.Classifier(nu_svm(0.3)).fit(X, y)
    scores = clf.decision_function(X)
    assert_allclose(scores, X @ clf.coef_[0] + clf.intercept_[0])
    assert_array_equal(clf.predict(X), y)
    assert_array_equal(clf.predict(X) == clf.classes_[1], scores > 0)
    other = ucm.Classifier(nu_svm(0.3)).fit(X, 1 - y)
    assert_allclose(other.coef_, -clf.coef_, atol=1e-5)
    assert_allclose(other.intercept_, -clf.intercept_, atol=1e-4)


TURNED = {
    "set": {"model": nu_svm(0.3)},
    "unequal sizes": {"model": biased_l2_nu_svm(0.4, 0.6), "bias_rule": "means"},
    "objective": {"model": ucm.Logistic() + 0.1 * ucm.L2(), "class_weight": {"b": 3.0}},
    "balanced": {"class_weight": "balanced", "bias_rule": "auto"},
    "kernel": {"kernel": "rbf"},
    "features": {"kernel": "rbf", "kernel_approx": 20},
    "by odds": {"model": nu_svm(0.4), "bias_rule": "odds"},
    "by errors": {"model": mm_mpm(0.1), "bias_rule": "min_error"},
}


@pytest.mark.parametrize("rows", [False, True], ids=["memory", "rows"])
@pytest.mark.parametrize("options", TURNED.values(), ids=list(TURNED))
def test_the_label_of_class_plus_one_does_not_order_the_classes(
    mixed: tuple, options: dict, rows: bool
) -> None:
    """Beside a fit of the same classes under names whose larger one is that of class +1."""
    X, t = mixed
    y, renamed = np.array(["b", "a"])[t], np.array(["b", "z"])[t]
    if rows and not {"kernel_approx", "model"} & options.keys():
        options = {"model": svm(1.0)}
    if rows and options.get("bias_rule"):
        options = {"model": nu_svm(0.6)}
    samples: Any = ucm.open_rows(X, y) if rows else X
    clf = ucm.Classifier(**options, pos_label="a").fit(samples, None if rows else y)
    other = ucm.Classifier(**options).fit(ucm.open_rows(X, renamed) if rows else X, None if rows else renamed)
    assert clf.classes_.tolist() == ["a", "b"] and clf.pos_label_ == "a" and other.pos_label_ == "z"
    assert clf.solution_.objective == other.solution_.objective
    scores = clf.decision_function(X)
    assert_allclose(scores, -other.decision_function(X), rtol=1e-12)
    assert_array_equal(clf.predict(X), np.where(scores > 0.0, "b", "a"))
    assert_array_equal(clf.predict(X) == "a", other.predict(X) == "z")
    assert_allclose(clf.solution_.decision(X), -scores, rtol=1e-9)
    assert_array_equal(pickle.loads(pickle.dumps(clf)).decision_function(X), scores)
    assert clf.score(X, y) == other.score(X, renamed) > 0.7
    if "coef_" in vars(clf):
        assert_allclose(X @ clf.coef_[0] + clf.intercept_[0], scores)
    if "objective" in str(options):
        assert_allclose(clf.predict_proba(X), other.predict_proba(X)[:, ::-1])


def test_tools_of_scikit_learn_with_the_smaller_label_as_class_plus_one(mixed: tuple) -> None:
    X, y = mixed
    clf = ucm.Classifier(nu_svm(0.3), pos_label=0)
    auc = cross_val_score(clf, X, y, scoring="roc_auc", cv=3)
    assert_allclose(auc, cross_val_score(ucm.Classifier(nu_svm(0.3)), X, y, scoring="roc_auc", cv=3))
    assert auc.min() > 0.7
    values = {"model__nu": [0.2, 0.3, 0.5]}
    found = GridSearchCV(clf, values, scoring="roc_auc", cv=3).fit(X, y)
    plain = GridSearchCV(ucm.Classifier(nu_svm(0.3)), values, scoring="roc_auc", cv=3).fit(X, y)
    assert_allclose(found.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], atol=1e-6)
    for method in ("sigmoid", "isotonic"):
        calibrated = CalibratedClassifierCV(clf, method=method, cv=3).fit(X, y)
        assert calibrated.predict_proba(X)[y == 1, 1].mean() > calibrated.predict_proba(X)[y == 0, 1].mean()
    stacked = StackingClassifier([("turned", clf), ("plain", ucm.Classifier())], cv=3).fit(X, y)
    assert stacked.score(X, y) > 0.7
    compared = ucm.compare(
        {"turned": clf, "plain": ucm.Classifier(nu_svm(0.3))}, X, y, scoring="roc_auc", cv=3
    )
    turned, straight = (row.fold_scores for row in compared)
    assert_allclose(turned, straight, atol=1e-6)


def test_no_model_is_the_squared_hinge(apart: tuple) -> None:
    clf = ucm.Classifier().fit(*apart)
    assert clf.model is None
    assert clf.get_params()["model__C"] == 0.1 and "model__C" not in clf.get_params(deep=False)
    assert ucm.Classifier().set_params(model__C=3.0, kernel="rbf").model == psvm(2.0, 3.0)
    assert clf.plan_.model == psvm(2.0, 0.1)
    assert clf.plan_.verify().agrees
    assert_array_equal(clf.coef_, ucm.Classifier(psvm(2.0, 0.1)).fit(*apart).coef_)
    assert ucm.Classifier(kernel="rbf").fit(*apart).plan_.model == psvm(2.0, 1.0)


@pytest.mark.parametrize(
    "options",
    [{}, {"kernel": "rbf"}, {"multi_class": "ovr", "class_weight": "balanced"}],
    ids=repr,
)
def test_no_model_with_classes_weights_and_kernels(options: dict) -> None:
    """A weight is a repetition, for two classes and for three."""
    X, y = load_iris(return_X_y=True)
    weights = np.random.default_rng(0).integers(0, 3, y.size)
    for kept in (y < 2, y < 3):
        part, labels, w = X[kept], y[kept], weights[kept]
        clf = untyped.Classifier(**options).fit(part, labels, sample_weight=w)
        again = untyped.Classifier(**options).fit(np.repeat(part, w, axis=0), np.repeat(labels, w))
        assert clf.score(part, labels) > 0.9
        expected = again.decision_function(part)
        assert_allclose(clf.decision_function(part), expected, atol=1e-3)


def test_the_default_model_takes_sparse_features(mixed: tuple) -> None:
    X, y = mixed
    clf = ucm.Classifier().fit(X, y)
    scores = ucm.Classifier().fit(sparse.csr_matrix(X), y).decision_function(X)
    assert_allclose(scores, clf.decision_function(X), atol=1e-6)


def test_support_only_where_the_set_is_made_of_samples(apart: tuple) -> None:
    clf = ucm.Classifier(nu_svm(0.3)).fit(*apart)
    assert hasattr(clf, "support_")
    clf.set_params(model=mm_mpm(0.1)).fit(*apart)  # no attribute of the former fit is left
    assert not hasattr(clf, "support_")


@pytest.mark.parametrize("solver", ["apg", "clarabel", "ecos"])
def test_support_is_the_same_for_every_solver(apart: tuple, solver: str) -> None:
    clf = ucm.Classifier(nu_svm(0.5)).fit(*apart)
    other = ucm.Classifier(nu_svm(0.5), solver=solver).fit(*apart)
    assert_array_equal(other.support_, clf.support_)
    assert_allclose(other.coef_, clf.coef_, atol=1e-3)


def test_a_norm_other_than_the_euclidean(apart: tuple) -> None:
    clf = ucm.Classifier(ucm.RobustMargin(mm_fda(0.1), norm=1)).fit(*apart)
    assert_allclose(np.abs(clf.coef_).sum(), 1.0)
    assert clf.get_params()["model__kappa"] == 0.1
    assert clf.score(*apart) > 0.9


# --- labels and inputs --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "labels",
    [
        [-1, 1],
        [0, 1],
        [7, 3],
        [0.0, 1.0],
        [False, True],
        ["no", "yes"],
        np.array(["b", "a"], dtype=object),
    ],
    ids=repr,
)
def test_any_two_labels_are_accepted(apart: tuple, labels: Any) -> None:
    X, y = apart
    named = np.asarray(labels)[y]
    clf = ucm.Classifier().fit(X, named)
    assert_array_equal(clf.classes_, np.unique(named))
    assert_array_equal(clf.predict(X), named)
    assert clf.score(X, list(named)) == 1.0


def test_data_frames_name_the_features(apart: tuple) -> None:
    X, y = apart
    names = ["height", "width", "depth", "weight"]
    frame, target = pd.DataFrame(X, columns=names), pd.Series(np.array(["no", "yes"])[y])
    clf = ucm.Classifier(nu_svm(0.3)).fit(frame, target)
    assert_array_equal(clf.feature_names_in_, names)
    assert_array_equal(clf.predict(frame), target)
    assert_array_equal(clf.coef_, ucm.Classifier(nu_svm(0.3)).fit(X, y).coef_)
    with pytest.raises(ucm.DataError, match="feature names should match"):
        clf.predict(frame[names[::-1]])
    clf.fit(X, y)
    assert not hasattr(clf, "feature_names_in_")


@pytest.mark.parametrize("model", [nu_svm(0.3), mm_fda(0.1), kl_svm(0.8)], ids=repr)
@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        np.ndarray.tolist,
        sparse.csr_matrix,
        sparse.csc_matrix,
        sparse.coo_matrix,
        sparse.csr_array,
    ],
    ids=["fortran", "strided", "list", "csr", "csc", "coo", "csr_array"],
)
def test_the_memory_layout_does_not_change_the_classifier(apart: tuple, model: Any, layout: Callable) -> None:
    X, y = apart
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    expected = ucm.Classifier(model).fit(X, y)
    given = layout(X)
    clf = ucm.Classifier(model).fit(given, y)
    assert_allclose(clf.coef_, expected.coef_, atol=1e-5)
    assert_allclose(clf.decision_function(given), expected.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("kind", [np.float32, np.int16, bool])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_the_number_type_does_not_change_the_classifier(kind: type, wrap: Callable) -> None:
    X, y = scikit.make_blobs([20, 30], centers=[[-3, 0, 0], [3, 3, 2]], random_state=0)
    X = (X > 0) if kind is bool else X.astype(kind)
    clf = ucm.Classifier(mm_mpm(0.1)).fit(wrap(X), y)
    expected = ucm.Classifier(mm_mpm(0.1)).fit(X.astype(np.float64), y)
    assert_allclose(clf.coef_, expected.coef_, atol=1e-7)
    assert clf.coef_.dtype == np.float64
    assert_array_equal(clf.predict(wrap(X)), expected.predict(X))


@pytest.mark.parametrize("model", [None, nu_svm(0.3)], ids=repr)
@pytest.mark.parametrize("wrap", [np.array, sparse.csr_matrix, sparse.csc_matrix])
def test_inputs_are_read_only_and_unchanged(apart: tuple, model: Any, wrap: Callable) -> None:
    X, y = wrap(apart[0]), apart[1].copy()
    arrays = [y, *([X.data, X.indices, X.indptr] if sparse.issparse(X) else [X])]
    before = [a.copy() for a in arrays]
    for a in arrays:
        a.flags.writeable = False
    ucm.Classifier(model).fit(X, y).predict(X)
    for a, b in zip(arrays, before, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("scale", [1e12, 1e-12])
@pytest.mark.parametrize("model", [mm_fda(0.1), mm_mpm(0.1), nu_svm(0.3), kl_svm(0.8)], ids=repr)
def test_large_and_small_values(apart: tuple, model: Any, scale: float) -> None:
    X, y = apart
    expected = ucm.Classifier(model).fit(X, y)
    clf = ucm.Classifier(model).fit(scale * X, y)
    assert clf.solution_.status == "optimal"
    assert_allclose(clf.coef_, expected.coef_, atol=1e-5)
    assert_allclose(clf.intercept_, scale * expected.intercept_, rtol=1e-4)
    assert_array_equal(clf.predict(scale * X), y)


@pytest.mark.parametrize("model", [mm_fda(0.1), mm_mpm(0.1), nu_svm(0.3), kl_svm(0.8)], ids=repr)
def test_constant_and_duplicated_features(apart: tuple, model: Any) -> None:
    X, y = apart
    wide = np.column_stack([X, np.ones(50), X[:, 0], np.zeros(50)])
    clf = ucm.Classifier(model).fit(wide, y)
    assert clf.solution_.status == "optimal"
    assert_allclose(clf.coef_[0, [4, 6]], 0.0, atol=1e-7)
    assert_allclose(clf.coef_[0, 0], clf.coef_[0, 5], atol=1e-7)


@pytest.mark.parametrize("model", [mm_fda(0.1), mm_mpm(0.1), nu_svm(0.03), l2_nu_svm(0.9)], ids=repr)
def test_a_class_of_one_sample(apart: tuple, model: Any) -> None:
    X = np.vstack([apart[0][:20], [[9.0, 9.0, 9.0, 9.0]]])
    y = np.repeat([0, 1], [20, 1])
    assert ucm.Classifier(model).fit(X, y).score(X, y) == 1.0


def test_two_samples_are_enough() -> None:
    clf = ucm.Classifier().fit([[0.0], [1.0]], ["a", "b"])
    assert_array_equal(clf.predict([[0.4], [0.6]]), ["a", "b"])


# --- parameters ---------------------------------------------------------------------------------
def test_the_parameters_of_the_model() -> None:
    model = nu_svm(0.3)
    clf = ucm.Classifier(model)
    assert clf.get_params()["model__nu"] == 0.3
    assert clf.get_params()["model"] is model
    assert "model__nu" not in clf.get_params(deep=False)
    assert clf.set_params(model__nu=0.2, tol=1e-4) is clf
    assert clf.model == nu_svm(0.2)
    assert clf.tol == 1e-4
    assert model == nu_svm(0.3)  # a declaration never changes
    clf.set_params(model__kappa=0.2, model=mm_fda(0.1))  # in either order
    assert clf.model == mm_fda(0.2)


def test_unknown_parameters_are_refused() -> None:
    clf = ucm.Classifier(nu_svm(0.3))
    for estimator in (untyped.Classifier, untyped.ClassifierCV):
        with pytest.raises(TypeError, match="solvr"):
            estimator(solvr="apg")
    with pytest.raises(ValueError, match="Invalid parameter 'gama'"):
        clf.set_params(gama=1.0)
    with pytest.raises(ucm.CompositionError, match=r"no parameter 'kappa'.*it has nu"):
        clf.set_params(model__kappa=1.0)
    with pytest.raises(ucm.CompositionError, match=r"no parameter 'nu' in Param\('C', 0.1\).*it has C"):
        ucm.Classifier().set_params(model__nu=0.3)
    with pytest.raises(ucm.ParameterError, match="model__nu is a parameter of the model"):
        untyped.Classifier("rbf").set_params(model__nu=0.3)
    assert clf.model == nu_svm(0.3)


def test_clone_shares_the_declaration() -> None:
    model = np.eye(2, 4) @ nu_svm(0.3)
    clf = ucm.Classifier(model, solver=ucm.solvers.APG(restart=False), class_weight={0: 2.0})
    copy: Any = clone(clf)
    assert copy.model is model
    assert copy.get_params()["model__nu"] == 0.3
    assert not hasattr(copy, "coef_")
    assert not hasattr(model, "get_params")
    other: Any = clone(clf.set_params(model__nu=0.2))
    assert other.model == np.eye(2, 4) @ nu_svm(0.2)


def test_a_classifier_prints_its_declaration(apart: tuple) -> None:
    clf = ucm.Classifier(mm_fda(0.1), tol=1e-4)
    assert " ".join(repr(clf).split()) == f"Classifier(model={mm_fda(0.1)!r}, tol=0.0001)"
    assert "Param(" in clf.fit(*apart)._repr_html_()


def test_a_grid_over_a_parameter(mixed: tuple) -> None:
    grid = {"model__nu": [0.5, 0.6]}
    search: Any = GridSearchCV(ucm.Classifier(nu_svm(0.3)), grid, cv=3).fit(*mixed)
    assert search.best_estimator_.model == nu_svm(search.best_params_["model__nu"])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(*mixed) > 0.7


def test_a_grid_with_inadmissible_values(mixed: tuple) -> None:
    """Errors come from fit, so that `error_score` can stand for them; a negative size is refused before."""
    grid = {"model__nu": [0.6, 5.0, 0.0]}
    search = GridSearchCV(ucm.Classifier(nu_svm(0.3)), grid, cv=2, error_score=0.0)
    with pytest.warns(FitFailedWarning, match="EmptySetError"):
        search.fit(*mixed)
    assert_array_equal(search.cv_results_["mean_test_score"][1:], 0.0)
    assert search.best_params_ == {"model__nu": 0.6}
    with pytest.raises(ucm.CompositionError, match=r"nu must lie in \[0, inf\]"):
        ucm.Classifier(nu_svm(0.3)).set_params(model__nu=-1.0)


def test_a_grid_over_models(mixed: tuple) -> None:
    grid = {"model": [mm_fda(0.1), mm_mpm(0.1), None], "class_weight": [None, "balanced"]}
    search = GridSearchCV(ucm.Classifier(), grid, cv=2).fit(*mixed)
    assert len(search.cv_results_["params"]) == 6
    assert search.best_score_ > 0.7


def test_pipelines_and_cross_validation() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    pipe: Any = make_pipeline(StandardScaler(), ucm.Classifier(nu_svm(0.3)))
    pipe.set_params(classifier__model__nu=0.25)
    assert pipe.get_params()["classifier__model__nu"] == 0.25
    assert pipe[-1].model == nu_svm(0.25)
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.93


def test_parallel_cross_validation_equals_serial(mixed: tuple) -> None:
    clf = ucm.Classifier(mm_mpm(0.1))
    serial = cross_val_score(clf, *mixed, cv=2)
    with joblib.parallel_config(backend="threading"):
        assert_array_equal(cross_val_score(clf, *mixed, cv=2, n_jobs=2), serial)


def test_more_classes_through_a_wrapper() -> None:
    X, y = load_iris(return_X_y=True)
    assert OneVsOneClassifier(ucm.Classifier()).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "options", [{"intercept_scaling": 1.0}, {"intercept_scaling": 3.0}, {"fit_intercept": False}]
)
def test_intercepts_are_those_of_liblinear(mixed: tuple, loss: str, options: dict) -> None:
    settings: dict[str, Any] = {"C": 0.7, "tol": 1e-9, "max_iter": 1_000_000, "dual": True, **options}
    theirs = LinearSVC(loss=loss, **settings).fit(*mixed)
    model = 0.7 * ucm.Hinge(1 + (loss == "squared_hinge")) + 0.5 * ucm.L2()
    ours = ucm.Classifier(model, tol=1e-9, **options).fit(*mixed)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nu_svm(0.3), {"fit_intercept": False}, "expected a loss plus a penalty, got the set"),
        (nu_svm(0.3), {"intercept_scaling": 1.0}, "expected a loss plus a penalty, got the set"),
        (None, {"fit_intercept": False, "intercept_scaling": 1.0}, "expected None without an intercept"),
        (None, {"intercept_scaling": 0.0}, r"scaling must lie in \(0, inf\)"),
        (None, {"fit_intercept": "no"}, "fit_intercept"),
    ],
)
def test_intercepts_that_are_refused(mixed: tuple, model: Any, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ucm.Classifier(model, **options).fit(*mixed)


# --- errors -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda clf, X, y: clf.fit(np.where(X[0, 0] == X, np.nan, X), y), "NaN; .*SimpleImputer"),
        (lambda clf, X, y: clf.fit(X, y[1:]), r"samples: \[20, 19\]; give as many labels as X has rows$"),
        (lambda clf, X, y: clf.fit(X, y).predict(X[:, :1]), "expecting 2 features.*; give the features of"),
        (
            lambda clf, X, y: clf.fit(X, y).predict(X[0]),
            r"1D array instead; Reshape your data: X.reshape\(1, -1\)",
        ),
        (lambda clf, X, y: clf.fit(X, X[:, 0]), "continuous.*; give class labels"),
        (lambda clf, X, y: clf.fit(np.full(X.shape, "a"), y), "convert string.*; encode text"),
        (
            lambda clf, X, y: clf.fit(X, y, raduis=y),
            "an argument of fit: .*got 'raduis' too; correct the name",
        ),
        (lambda clf, X, y: clf.set_params(model="rbf").fit(X, y), r"a RobustMargin or loss \+ lam"),
    ],
)
def test_the_remedy_is_of_the_cause(fit: Any, words: str) -> None:
    X = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(ucm.UCMError, match=words):
        fit(ucm.Classifier(), X, np.arange(20) % 2)


def test_object_labels_with_weights_and_folds_without_a_class() -> None:
    X = np.random.default_rng(0).standard_normal((20, 2))
    y = np.array(["b", "m"], dtype=object)[np.arange(20) % 2]
    with pytest.raises(ucm.DataError, match="zeros for all of class 'm'"):
        ucm.Classifier().fit(X, y, sample_weight=(y == "b").astype(float))
    folds = [(np.flatnonzero(y == "b"), np.flatnonzero(y == "m"))]
    with pytest.raises(ucm.DataError, match="no sample of class 'm' to train on"):
        ucm.ClassifierCV(param_range=[1.0], cv=folds).fit(X, y)


def test_the_nearest_parameter_of_a_model_is_named() -> None:
    with pytest.raises(ucm.CompositionError, match=r"no parameter 'kapa' in .*; did you mean kappa"):
        ucm.Classifier(mm_mpm(0.5)).set_params(model__kapa=1.0)


# --- pickles, refits ----------------------------------------------------------------------------
@pytest.mark.parametrize("model", [None, nu_svm(0.3), mm_mpm(0.1), kl_svm(0.8)], ids=repr)
def test_pickle_and_joblib_keep_the_classifier(apart: tuple, model: Any) -> None:
    X, y = apart
    clf = ucm.Classifier(model).fit(X, y)
    file = io.BytesIO()
    joblib.dump(clf, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(clf)), joblib.load(file)):
        assert copy.model == clf.model
        assert_array_equal(copy.decision_function(X), clf.decision_function(X))
        assert copy.certificate_ == clf.certificate_
        assert not hasattr(copy, "plan_")
        assert copy.set_params(tol=1e-4).fit(X, y).score(X, y) == 1.0


def test_a_pickle_of_another_version_names_it(apart: tuple) -> None:
    minor, own = ucm.__version__.rpartition(".")[0], ucm.__version__.encode()
    for made in (ucm.ClassifierCV(param_range=2).fit(*apart), ucm.solve(ucm.models.nu_svm(0.5), *apart)):
        text = pickle.dumps(made)
        assert text.count(own) == 1
        assert repr(pickle.loads(text.replace(own, f"{minor}.9".encode()))) == repr(made)
        with pytest.raises(ucm.DataError, match=r"one of 9\.9\.1; make it again, or load .*==9\.9\.1"):
            pickle.loads(text.replace(own, b"9.9.1"))
        state = {name: value for name, value in made.__getstate__().items() if name != "_version"}
        with pytest.raises(ucm.DataError, match=r"one of 0\.1\.0"):  # as that version wrote it
            object.__new__(type(made)).__setstate__(state)


def test_a_pickle_holds_no_training_data(apart: tuple) -> None:
    X = np.tile(apart[0], 100)
    clf = ucm.Classifier().fit(X, apart[1])
    assert len(pickle.dumps(clf.plan_)) > X.nbytes > len(pickle.dumps(clf))
    assert clf.plan_.verify().agrees


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_a_pickle_grows_with_the_features_alone_unless_it_keeps_the_solution(kernel: str | None) -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((2_000, 20))
    y = X[:, 0] + 0.1 * generator.standard_normal(2_000) > 0.0
    clf = ucm.Classifier(psvm(1.0, 0.1), kernel=kernel).fit(X, y)  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(clf))
    assert kernel or len(pickle.dumps(clf)) < 5_000
    assert_array_equal(again.decision_function(X), clf.decision_function(X))
    for name in ("plan_", "solution_", "history_"):
        assert hasattr(clf, name)
        with pytest.raises(AttributeError, match=rf"no attribute .{name}.; .*keep_solution=True"):
            getattr(again, name)
    assert hasattr(again, "support_") == (kernel is not None)
    with pytest.raises(AttributeError, match=r"no attribute 'plan_'$"):
        ucm.Classifier().plan_  # pyright: ignore[reportAttributeAccessIssue]
    kept = pickle.loads(pickle.dumps(clf.set_params(keep_solution=True)))
    assert_array_equal(kept.support_, clf.support_)
    assert kept.solution_.objective == clf.solution_.objective and kept.plan_.data.m == 2_000


def test_a_second_fit_forgets_the_first(apart: tuple, mixed: tuple) -> None:
    clf = ucm.Classifier(mm_fda(0.1)).fit(*apart)
    first = clf.coef_.copy()
    clf.fit(*mixed)
    assert clf.n_features_in_ == 3
    clf.fit(*apart)
    assert_array_equal(clf.coef_, first)
    vars(clf)["coef_"][:] = 7.0  # what fit stores is its own
    assert not (clf.solution_.w == 7.0).any()


class Interrupted(Solver[MinNorm]):
    """A solver during which somebody presses Ctrl-C."""

    name = "interrupted"

    def refuse(self, form: Any) -> str | None:
        return None

    def solve(self, form: Any, monitor: Any, start: Any = None) -> Any:
        raise KeyboardInterrupt


def test_ctrl_c_leaves_an_unfitted_estimator_unfitted(apart: tuple) -> None:
    clf = ucm.Classifier(nu_svm(0.3), solver=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*apart)
    assert vars(clf).keys() == vars(ucm.Classifier()).keys()
    with pytest.raises(NotFittedError):
        clf.predict(apart[0])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"solver": Interrupted()}, KeyboardInterrupt),
        ({"model": nu_svm(0.99)}, ucm.EmptySetError),
        ({"model": mm_mpm(50.0), "solver": "ssnal"}, ucm.SolverError),
        ({"tol": 2.0}, ucm.ParameterError),
    ],
    ids=["interrupt", "empty", "zero_in_set", "option"],
)
def test_a_fit_that_fails_leaves_the_former_one(
    apart: tuple, mixed: tuple, options: dict, error: type[BaseException]
) -> None:
    X = apart[0]
    clf = ucm.Classifier(nu_svm(0.3)).fit(pd.DataFrame(X, columns=list("abcd")), apart[1])
    clf.set_params(**options)
    before = dict(vars(clf))
    with pytest.raises(error):
        clf.fit(*mixed)  # another number of features, and no names
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is before[name] for name in before)
    check_is_fitted(clf)
    assert_array_equal(clf.predict(pd.DataFrame(X, columns=list("abcd"))), apart[1])


# --- class weights ------------------------------------------------------------------------------
def weighted_nu_svm(X: Any, y: Any, nu: float, weight: tuple[float, float]) -> tuple:
    """Nearest points of the two hulls whose caps are `weight * 2/(m nu)`, by CVXPY."""
    cap = 2.0 / (y.size * nu)
    p, r = cp.Variable(int((y == 1).sum())), cp.Variable(int((y == 0).sum()))
    x = X[y == 1].T @ p - X[y == 0].T @ r
    bounds = [p >= 0, r >= 0, cp.sum(p) == 1, cp.sum(r) == 1]
    caps = [p <= weight[1] * cap, r <= weight[0] * cap]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), bounds + caps)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return x.value, p.value, r.value


@pytest.mark.parametrize("weight", [(1.0, 1.0), (0.9, 1.6), (1.4, 0.6), (3.0, 3.0)], ids=repr)
def test_class_weight_multiplies_the_caps(apart: tuple, weight: tuple[float, float]) -> None:
    X, y = apart
    clf = ucm.Classifier(nu_svm(0.5), class_weight=dict(enumerate(weight))).fit(X, y)
    x, p, r = weighted_nu_svm(X, y, 0.5, weight)
    distance = float(np.linalg.norm(x))
    assert_allclose(-clf.solution_.objective, distance, rtol=1e-6)
    assert_allclose(clf.coef_[0], x / distance, atol=1e-4)
    assert_allclose(clf.solution_.weights[y == 1].max(), p.max(), rtol=1e-4)
    assert_allclose(clf.solution_.weights[y == 0].max(), r.max(), rtol=1e-4)
    assert clf.plan_.verify().agrees


def test_balanced_class_weights_equal_inverse_frequencies(mixed: tuple) -> None:
    X, y = mixed
    balanced = ucm.Classifier(nu_svm(0.8), class_weight="balanced").fit(X, y)
    manual = ucm.Classifier(nu_svm(0.8), class_weight={0: 60 / 80, 1: 60 / 40}).fit(X, y)
    assert_array_equal(balanced.coef_, manual.coef_)
    # nu may reach 2 min(m+, m-)/m = 2/3 without weights, and 1 with balanced ones
    with pytest.raises(ucm.EmptySetError, match=r"at most 0\.666667"):
        ucm.Classifier(nu_svm(0.8)).fit(X, y)


@pytest.mark.parametrize("model", [mm_fda(0.1), mm_mpm(0.1)], ids=repr)
def test_class_weight_in_the_bias(mixed: tuple, model: Any) -> None:
    """Constants cancel in means and covariances: w stays, the cost of an error moves b."""
    X, y = mixed
    plain = ucm.Classifier(model).fit(X, y)
    assert ucm.Classifier(model, class_weight={1: 50.0}).fit(X, y).solution_.bias_rule == "odds"
    costly = ucm.Classifier(model, class_weight={1: 50.0}, bias_rule="min_error").fit(X, y)
    assert_array_equal(costly.coef_, plain.coef_)
    assert (costly.predict(X)[y == 1] == 1).all()
    scores = X @ plain.coef_[0]
    best = min((50.0 * (scores[y == 1] <= t)).sum() + (scores[y == 0] > t).sum() for t in scores - 1e-9)
    assert (costly.predict(X) != y).sum() == best


def test_class_weights_that_mean_nothing(mixed: tuple) -> None:
    for weight in ("balancd", 3, {9: 1.0}, {0: -1.0}, {0: 0.0}, {0: np.nan}, {0: "a"}):
        with pytest.raises(ucm.ParameterError, match="class_weight"):
            untyped.Classifier(class_weight=weight).fit(*mixed)


# --- bias ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "bias", "rule"),
    [
        (nu_svm(0.6), "auto", "multipliers"),
        (nu_svm(0.6), "multipliers", "multipliers"),
        (nu_svm(0.6), "midpoint", "midpoint"),
        (nu_svm(0.6), "min_error", "min_error"),
        (nu_svm(0.6), "zero", "zero"),
        (mm_mpm(0.1), "auto", "midpoint"),
        (mm_fda(0.1), "auto", "min_error"),
    ],
    ids=repr,
)
def test_each_bias_rule_gives_its_bias(mixed: tuple, model: Any, bias: str, rule: str) -> None:
    X, y = mixed
    clf = ucm.Classifier(model, bias_rule=bias).fit(X, y)
    assert clf.solution_.bias_rule == rule
    assert_array_equal(clf.coef_, ucm.Classifier(model).fit(X, y).coef_)
    scores = X @ clf.coef_[0]
    if rule == "zero":
        assert clf.intercept_[0] == 0.0
    elif rule == "midpoint" and model == nu_svm(0.6):
        weights = clf.solution_.weights
        assert_allclose(clf.intercept_[0], -0.5 * (weights @ scores), atol=1e-9)
    elif rule == "min_error":
        least = min(np.mean((scores > t) != y) for t in scores - 1e-9)
        assert_allclose(1.0 - clf.score(X, y), least)


def test_bias_rules_that_do_not_apply(mixed: tuple) -> None:
    for bias in ("multipliers", "midpoint"):
        with pytest.raises(ucm.ParameterError, match="does not apply"):
            ucm.Classifier(mm_fda(0.05), bias_rule=bias).fit(*mixed)
    with pytest.raises(ucm.ParameterError, match="b is a variable of this objective"):
        ucm.Classifier(bias_rule="min_error").fit(*mixed)


# --- sets in another space ----------------------------------------------------------------------
def test_the_normal_of_a_linear_image_is_in_feature_space(apart: tuple) -> None:
    X, y = apart
    clf = ucm.Classifier(PROJECTION @ nu_svm(0.3)).fit(X, y)
    inner = ucm.Classifier(nu_svm(0.3)).fit(X @ PROJECTION.T, y)
    assert clf.coef_.shape == (1, 4)
    assert_allclose(clf.coef_, inner.coef_ @ PROJECTION, atol=1e-6)
    assert_allclose(clf.decision_function(X), inner.decision_function(X @ PROJECTION.T), atol=1e-5)
    summands = PROJECTION @ ucm.Hull(pos) - PROJECTION @ ucm.Hull(neg)
    assert_allclose(
        ucm.Classifier(summands).fit(X, y).coef_,
        ucm.Classifier(PROJECTION @ (ucm.Hull(pos) - ucm.Hull(neg))).fit(X, y).coef_,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "model",
    [PROJECTION @ ucm.Hull(pos) - (0.1 * PROJECTION) @ ucm.Hull(neg), ucm.Ball([3.0, 1.0], 1.0)],
    ids=["two matrices", "no samples"],
)
def test_w_in_another_space_is_refused(apart: tuple, model: Any) -> None:
    message = r"w has 2 entries and lives in another space than X \(4 features\); put all"
    with pytest.raises(ucm.CompositionError, match=message):
        ucm.Classifier(model).fit(*apart)


# --- bad input ----------------------------------------------------------------------------------
X4 = np.arange(24.0).reshape(6, 4)
Y2 = np.array([0, 1, 0, 1, 0, 1])


def spoiled(number: float) -> np.ndarray:
    X = X4.copy()
    X[2, 1] = number
    return X


BAD_DATA = {
    "nan": (spoiled(np.nan), Y2, "NaN"),
    "inf": (spoiled(np.inf), Y2, "infinity.*; replace infinite values"),
    "nan, sparse": (sparse.csr_matrix(spoiled(np.nan)), Y2, "NaN"),
    "nan in y": (X4, np.where(Y2 == 1, np.nan, 0.0), "y contains NaN"),
    "one class": (X4, 0 * Y2, r"expected two classes, got one class \(all labels are 0\); add"),
    "empty": (X4[:0], Y2[:0], r"0 sample\(s\)"),
    "lengths": (X4, Y2[:-1], r"inconsistent numbers of samples: \[6, 5\]; give"),
    "zero features": (X4[:, :0], Y2, r"0 feature\(s\)"),
    "strings": ([["a"], ["b"]], [0, 1], "could not convert string to float: 'a'; encode text"),
    "one dimension": (X4[:, 0], Y2, "Expected 2D array.*reshape"),
    "regression": (
        X4,
        X4[:, 0] + 0.5,
        "Unknown label type.*; give",
    ),
    "bytes as labels": (
        X4,
        np.array([b"a", b"b"])[Y2],
        "numbers or strings as labels, got .*; .*decode bytes",
    ),
    "two columns of labels": (X4, np.column_stack([Y2, Y2]), "y should be a 1d array"),
}


@pytest.mark.parametrize(("X", "y", "message"), BAD_DATA.values(), ids=BAD_DATA.keys())
def test_bad_data_are_refused(X: Any, y: Any, message: str) -> None:
    clf = ucm.Classifier()
    with pytest.raises(ucm.DataError, match=re.compile(message, re.DOTALL)):
        clf.fit(X, y)
    assert vars(clf).keys() == vars(ucm.Classifier()).keys()


def test_bad_data_to_predict() -> None:
    clf = ucm.Classifier()
    with pytest.raises(NotFittedError):
        clf.predict(X4)
    clf.fit(X4, Y2)
    with pytest.raises(ucm.DataError, match="X has 3 features, but Classifier is expecting 4"):
        clf.predict(X4[:, :3])
    with pytest.raises(ucm.DataError, match="NaN"):
        clf.decision_function(spoiled(np.nan))


BAD_MODELS = {
    "nu above": (nu_svm(0.9), ucm.EmptySetError, "nu must be at most 0.666667"),
    "nu zero": (nu_svm(0.0), ucm.EmptySetError, "nu must be positive and at most .*, got 0"),
    "small norm": (l2_nu_svm(0.0), ucm.EmptySetError, "kappa must be at least"),
    "alpha zero": (kl_svm(0.0), ucm.EmptySetError, r"alpha must lie in \(0, "),
    "alpha above 1": (kl_svm(1.5), ucm.EmptySetError, r"alpha must lie in \(0, "),
    "no declaration": ("nu_svm", ucm.CompositionError, "expected an uncertainty set"),
    "samples": (pos, ucm.CompositionError, "expected an uncertainty set"),
    "dimensions": (
        ucm.Hull(pos) - np.ones(2),
        ucm.CompositionError,
        "of one dimension, got 2 and 3",
    ),
}


@pytest.mark.parametrize(("model", "error", "message"), BAD_MODELS.values(), ids=BAD_MODELS.keys())
def test_fit_refuses_bad_models(mixed: tuple, model: Any, error: type[Exception], message: str) -> None:
    """`set_params` takes any model, as a search needs; `fit` refuses it."""
    clf = ucm.Classifier().set_params(model=model)
    with pytest.raises(error, match=message):
        clf.fit(*mixed)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nu_svm(0.01), r"0 lies in U.*nu must lie in \(0\.\d+, 0.666667\]"),
        (mm_mpm(9.0), r"kappa must lie in \[0, .*now 9"),
    ],
    ids=["nu below", "kappa above"],
)
def test_a_convex_solver_by_name_where_zero_lies_in_the_set(mixed: tuple, model: Any, message: str) -> None:
    """By name it ends there; "auto" goes over to the non-convex side."""
    with pytest.raises(ucm.SolverError, match=message):
        ucm.Classifier(model, solver="ssnal").fit(*mixed)
    clf = ucm.Classifier(model).fit(*mixed)
    assert clf.coef_.any() and clf.solution_.objective > 0.0


def test_features_that_never_vary_leave_nothing_to_separate() -> None:
    X, y = np.ones((10, 2)), np.arange(10) % 2
    for model in (mm_fda(0.05), nu_svm(0.5)):
        with pytest.raises(ucm.SolverError, match="0 lies in U"):
            ucm.Classifier(model).fit(X, y)
    y[:3] = 1  # the default is an objective, whose bias is the class that has more
    assert_array_equal(ucm.Classifier().fit(X, y).predict(X), np.ones(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "gauss"}, "kernel: expected None, a callable or one of linear, .*got 'gauss'"),
        ({"multi_class": "all"}, 'multi_class is "auto", "ovo" or "ovr", got .all'),
        ({"bias_rule": "none"}, 'bias_rule is "auto", .*"boundary" or "zero", got .none'),
        ({"solver": "fast"}, r"solver: expected.*smo.*prox-newton.*got 'fast'"),
        ({"tol": 0.0}, r"tol is a number in \(0, 1\), got 0.0"),
        ({"tol": "low"}, r"tol is a number in \(0, 1\), got 'low'"),
        ({"max_iter": 0}, "max_iter is a positive whole number or None, got 0"),
    ],
    ids=repr,
)
def test_bad_options_are_refused(mixed: tuple, options: dict, message: str) -> None:
    clf = ucm.Classifier(**options)
    with pytest.raises(ucm.ParameterError, match=message):
        clf.fit(*mixed)


def test_options_without_effect_on_a_linear_model(mixed: tuple) -> None:
    plain = ucm.Classifier(mm_fda(0.1)).fit(*mixed)
    for options in (
        {"kernel": "linear", "gamma": 0.1, "degree": 2, "coef0": 1.0},
        {"multi_class": "ovr", "n_jobs": 2},
    ):
        clf = ucm.Classifier(mm_fda(0.1), **options).fit(*mixed)
        assert_array_equal(clf.coef_, plain.coef_)


def test_a_limit_of_iterations_warns_and_still_fits(mixed: tuple) -> None:
    clf = ucm.Classifier(nu_svm(0.6), solver="apg", max_iter=2)
    with pytest.warns(ucm.ConvergenceWarning, match="relative gap"):
        clf.fit(*mixed)
    assert clf.solution_.status == "max_iter"
    assert 1 <= clf.n_iter_ <= 2
    assert clf.certificate_.relative_gap > 1e-6  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.set_params(max_iter=None).fit(*mixed)


def test_verbose_prints_the_iterations(mixed: tuple, capsys: pytest.CaptureFixture) -> None:
    ucm.Classifier(nu_svm(0.6)).fit(*mixed)
    assert capsys.readouterr().out == ""
    ucm.Classifier(nu_svm(0.6), verbose=1).fit(*mixed)
    assert "relative gap" in capsys.readouterr().out


# --- classes under different matrices ---------------------------------------------------------------
def test_side_says_through_which_map_a_sample_is_read() -> None:
    X, y = load("breast_cancer")
    rng = np.random.default_rng(0)
    M1 = np.eye(3)[:2]
    M2 = M1 + 0.1 * rng.standard_normal((2, 3))
    U = M1 @ ucm.Hull(pos, weights=ucm.NormBall(0.2)) - M2 @ ucm.Hull(neg, weights=ucm.NormBall(0.2))
    with pytest.raises(ucm.CompositionError, match='read_as="pos" or read_as="neg"'):
        ucm.Classifier(U).fit(X, y)
    w = ucm.solve(U, X, y).w
    for side, M in (("pos", M1), ("neg", M2)):
        clf = ucm.Classifier(U, read_as=side).fit(X, y)
        np.testing.assert_allclose(clf.coef_[0], M.T @ w, atol=1e-8)
        np.testing.assert_allclose(clf.decision_function(X), (X @ M.T) @ w + clf.intercept_[0], atol=1e-12)
        assert clf.solution_.bias_rule == "min_error" and clf.get_params()["read_as"] == side
        errors = min(int(((X @ M.T @ w + b) * y <= 0).sum()) for b in -(X @ M.T @ w) + 1e-9)
        assert int((clf.predict(X) != y).sum()) <= errors
        # the midpoint of both points in the space of w, whichever map is read
        middle = ucm.Classifier(U, read_as=side, bias_rule="midpoint").fit(X, y)
        parts = ucm.solve(U, X, y).summand_points
        assert parts is not None
        plus, minus = parts
        expected = -0.5 * w @ (M1 @ plus + M2 @ minus)
        assert middle.intercept_[0] == pytest.approx(expected, abs=1e-6)
    assert ucm.Classifier(U, read_as="pos", bias_rule="zero").fit(X, y).intercept_[0] == 0.0


def test_side_of_one_map_or_several_classes() -> None:
    X, y = load("breast_cancer")
    M = np.eye(3)[:2]
    U = M @ (ucm.Hull(pos, weights=ucm.NormBall(0.2)) - ucm.Hull(neg, weights=ucm.NormBall(0.2)))
    plain, same = (ucm.Classifier(U, read_as=side).fit(X, y) for side in (None, "neg"))
    np.testing.assert_array_equal(plain.coef_, same.coef_)
    assert plain.intercept_ == same.intercept_
    with pytest.raises(ucm.ParameterError, match=r'read_as is "pos" or "neg" or None, got .left'):
        ucm.Classifier(U, read_as="left").fit(X, y)
    # a square matrix too, where w would fit the samples
    for N in (M, np.diag(np.arange(1.0, 1.0 + M.shape[1]))):
        V = N @ (ucm.Hull(pos, weights=ucm.NormBall(0.2)) - ucm.Hull(neg, weights=ucm.NormBall(0.2)))
        alone, fitted = ucm.solve(V, X, y), ucm.Classifier(V).fit(X, y)
        np.testing.assert_allclose(alone.decision(X), fitted.decision_function(X))
        images = np.asarray(X) @ N.T
        np.testing.assert_allclose(alone.decision(X), images @ alone.w + alone.b)
    mixed = M @ ucm.Hull(pos) - (2 * M) @ ucm.Hull(signed)
    with pytest.raises(ucm.CompositionError, match="read_as="):
        ucm.Classifier(mixed, read_as="pos").fit(X, y)
    kinds = np.where(np.arange(y.size) % 3 == 0, 2.0, y)
    apart = M @ ucm.Hull(pos, weights=ucm.NormBall(0.3)) - (1.5 * M) @ ucm.Hull(
        neg, weights=ucm.NormBall(0.3)
    )
    with warnings.catch_warnings():  # the third class is of random samples
        warnings.simplefilter("ignore", UserWarning)
        assert ucm.Classifier(apart, read_as="neg").fit(X, kinds).coef_.shape == (3, 3)


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_matrix])
def test_predict_copies_no_table_of_other_numbers(
    kind: type, wrap: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks: the peak is a part of what a copy in double precision takes, and the scores are the same."""
    monkeypatch.setattr("ucm.data.moments.CHUNK", 1 << 16)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, (40_000, 20)).astype(kind)
    y = np.where(X[:, 0] > 100, 1, 0)
    few = X[:500].astype(float)
    for fit in (
        ucm.Classifier(ucm.models.mm_fda(0.1)).fit(few, y[:500]),
        ucm.Classifier(ucm.models.nu_svm(0.1), kernel="rbf", gamma=1e-4).fit(few[:40], y[:40]),
    ):
        table = wrap(X)
        fit.predict(table[:5])
        tracemalloc.start()
        scores = fit.decision_function(table)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak - scores.nbytes < 0.75 * 8 * X.size
        np.testing.assert_allclose(scores, fit.decision_function(wrap(X.astype(float))), rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "options"),
    [(mm_mpm(5.0), {}), (nu_svm(0.02), {}), (nu_svm(0.02), {"class_weight": "balanced"})],
)
def test_a_set_that_holds_0_warns_and_is_better_than_chance(model: Any, options: dict[str, Any]) -> None:
    X, y = scikit.load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[:200, :10]), y[:200]
    name, fitted = next(iter(model.params())), ucm.Classifier(model, **options)
    message = rf"status is '(local|stationary)', the relative gap .*{name} must lie in .* is the nearest"
    with pytest.warns(NonConvexWarning, match=message) as caught:
        fitted.fit(X, y)
    assert fitted.solution_.bias_rule == "min_error"
    assert fitted.score(X, y) >= max(np.mean(y), 1 - np.mean(y))
    interval = ucm.admissible(model, X, y, **options)[name]
    nearest = interval.nearest(model.params()[name])
    assert nearest in interval and f"; {nearest:.4g} is the nearest" in str(caught[0].message)
    near = fitted.set_params(**{f"model__{name}": nearest}).fit(X, y)  # a warning is an error
    assert near.solution_.status == "optimal" and near.solution_.objective < 0.0


def test_a_set_with_0_on_its_boundary_warns() -> None:
    """The worst case of a feature that one sample has is 0, whatever the others say."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), np.where(np.arange(60) % 2, 1, -1)
    X[:, 3:] = 0.0
    X[1, 3] = X[3, 4] = 1.0
    with pytest.warns(NonConvexWarning, match=r"'zero_in_set', .*kappa must lie in .* is the nearest"):
        fitted = ucm.Classifier(ucm.models.l2_nu_svm(0.5)).fit(X, y)
    assert fitted.solution_.status == "zero_in_set" and fitted.coef_.any()


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}, {"class_weight": "balanced"}])
def test_a_set_the_wrong_way_round_warns(options: dict[str, Any]) -> None:
    X, y = load("wine")
    plus, minus = (ucm.Hull(samples, weights=ucm.NormBall(0.2)) for samples in (pos, neg))
    with pytest.warns(UserWarning, match=r"wrong way round; write the set as one of class \+1"):
        fitted = ucm.Classifier(minus - plus, **options).fit(X, y)
    assert fitted.score(X, y) < 0.5
    assert ucm.Classifier(plus - minus, **options).fit(X, y).score(X, y) > 0.9
    Z, classes = scikit.load_iris(return_X_y=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ucm.Classifier(minus - plus, **options).fit(Z, classes)
    assert [str(each.message)[12:25] for each in caught] == [
        "0 against 1: ", "0 against 2: ", "1 against 2: "
    ]  # fmt: skip


def test_a_parameter_of_the_model_is_named_as_such() -> None:
    """A grid over C, as of scikit-learn's SVC, is told the name that it has here."""
    for clf, name in ((ucm.Classifier(), "C"), (ucm.Classifier(ucm.models.mm_mpm(0.3)), "kappa")):
        with pytest.raises(ucm.ParameterError, match=f"write model__{name}"):
            clf.set_params(**{name: 1.0})
    with pytest.raises(ValueError, match="Invalid parameter 'kapa'"):
        clf.set_params(kapa=1.0)
