"""Several classes and kernels in the estimator, against a loop over pairs and scikit-learn's checks."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from typed import known, untyped

import ucm
from ucm import models
from ucm.language.models import psvm

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])


@parametrize_with_checks(
    [
        ucm.Classifier(psvm(1.5, 1.0), tol=1e-10),  # weights against repetitions are compared to 1e-7
        ucm.Classifier(models.mm_fda(0.05), kernel="rbf"),
        ucm.Classifier(ucm.Logistic() + 0.5 * ucm.L2(), multi_class="ovr"),
    ],
)
def test_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ucm.ConvergenceWarning)
        check(estimator)


def test_one_against_one_is_a_loop_over_pairs() -> None:
    clf = ucm.Classifier(psvm(1.5, 1.0), decision_function_shape="ovo").fit(X, NAMES[Y])
    columns = []
    for i, j in combinations(range(3), 2):
        rows = (i == Y) | (j == Y)
        found = ucm.solve(psvm(1.5, 1.0), X[rows], np.where(Y[rows] == i, 1, -1))
        columns.append(found.decision(X))
    assert_allclose(clf.decision_function(X), np.column_stack(columns), atol=1e-10)
    votes = np.zeros((Y.size, 3))
    for column, (i, j) in zip(columns, combinations(range(3), 2)):
        votes[np.arange(Y.size), np.where(column > 0, i, j)] += 1
    clear = np.sort(votes, axis=1)[:, -1] > np.sort(votes, axis=1)[:, -2]
    assert_array_equal(clf.predict(X)[clear], NAMES[votes.argmax(axis=1)][clear])
    assert len(clf.plan_) == len(clf.solution_) == 3
    assert clf.coef_.shape == (3, 4)


def test_ties_go_to_the_larger_sum() -> None:
    from ucm.estimators.multiclass import one_vs_one_scores

    scores = np.array([[1.0, -3.0, 1.0]])  # 0 beats 1, 2 beats 0, 1 beats 2
    values = one_vs_one_scores(scores, 3)
    assert values[0].argmax() == 2
    assert np.abs(values - 1.0).max() < 0.5


def test_one_against_the_rest() -> None:
    clf = ucm.Classifier(psvm(2.0, 1.0), multi_class="ovr").fit(X, Y)
    for i in range(3):
        found = ucm.solve(psvm(2.0, 1.0), X, np.where(i == Y, 1, -1))
        assert_allclose(clf.decision_function(X)[:, i], found.decision(X), atol=1e-10)
    assert_array_equal(clf.predict(X), clf.decision_function(X).argmax(axis=1))


def test_a_kernel_beside_svc() -> None:
    ours = ucm.Classifier(psvm(1.0, 1.0), kernel="rbf", tol=1e-9, decision_function_shape="ovo")
    theirs = SVC(C=1.0, tol=1e-8, decision_function_shape="ovo").fit(X, Y)
    assert_allclose(ours.fit(X, Y).decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert not hasattr(ours, "coef_")
    assert ours.dual_coef_.shape == (3, ours.support_.size)
    assert_array_equal(ours.support_, np.sort(theirs.support_))
    again = pickle.loads(pickle.dumps(ours))
    assert_array_equal(again.predict(X), ours.predict(X))


def test_a_precomputed_kernel_equals_the_kernel() -> None:
    gamma = 1.0 / (X.shape[1] * X.var())
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    for model in (psvm(1.5, 1.0), models.mm_fda(0.1)):
        named = ucm.Classifier(model, kernel="rbf", tol=1e-8).fit(X, Y)
        given = ucm.Classifier(model, kernel="precomputed", tol=1e-8).fit(K, Y)
        assert_allclose(given.decision_function(K), named.decision_function(X), atol=1e-4)
    with pytest.raises(ucm.DataError, match="features"):
        given.predict(K[:, :-1])
    with pytest.raises(ucm.DataError, match=r"\(m, m\)|square"):
        ucm.Classifier(psvm(1.5, 1.0), kernel="precomputed").fit(K[:, :-1], Y)


@pytest.mark.parametrize("model", [models.nu_svm(0.1), models.mm_mpm(0.1), models.kl_svm(0.9)], ids=repr)
def test_every_model_takes_several_classes_and_threads(model: Any) -> None:
    alone = ucm.Classifier(model, kernel="rbf").fit(X, Y)
    threads = ucm.Classifier(model, kernel="rbf", n_jobs=2).fit(X, Y)
    assert alone.score(X, Y) > 0.9
    assert_array_equal(alone.decision_function(X), threads.decision_function(X))


LOGISTIC = ucm.Logistic() + 0.5 * ucm.L2()


@pytest.mark.parametrize("C", [0.3, 1.0, 20.0])
def test_sigmoid_of_a_logistic_loss_of_two_classes(C: float) -> None:
    A, y = X[50:], NAMES[Y[50:]]
    clf = ucm.Classifier(C * ucm.Logistic() + 0.5 * ucm.L2(), tol=1e-9).fit(A, y)
    other = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(A, y)
    assert_allclose(clf.predict_proba(A), other.predict_proba(A), atol=1e-4)
    far = 30.0 * A  # where 1 - p loses all digits
    for Z in (A, far):
        t = clf.decision_function(Z)
        expected = np.exp(-np.logaddexp(0.0, np.column_stack([t, -t])))
        assert_allclose(clf.predict_proba(Z), expected, rtol=1e-9, atol=1e-300)
    search = ucm.ClassifierCV(
        ucm.Classifier(ucm.Param("C", C) * ucm.Logistic() + 0.5 * ucm.L2(), tol=1e-9),
        param_range=[C],
        cv=2,
    )
    assert_allclose(search.fit(A, y).predict_proba(A), clf.predict_proba(A), atol=1e-12)


def test_sigmoids_of_several_classes_against_the_rest() -> None:
    clf = ucm.Classifier(LOGISTIC, multi_class="ovr").fit(X, NAMES[Y])
    p = clf.predict_proba(X)
    assert_array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(X))
    s = 1.0 / (1.0 + np.exp(-clf.decision_function(X)))
    assert_allclose(p, s / s.sum(axis=1)[:, None])


@pytest.mark.parametrize("kind", [ucm.Classifier, ucm.ClassifierCV])
@pytest.mark.parametrize(
    "model",
    [
        None,
        psvm(2.0, 1.0),
        models.nu_svm(0.3),
        ucm.Logistic(on=ucm.pos) + ucm.Logistic(on=ucm.neg) + ucm.L2(),
        ucm.Logistic() + ucm.Hinge() + ucm.L2(),
    ],
)
def test_other_models_name_the_calibration(kind: Any, model: Any) -> None:
    assert not hasattr(kind(model), "predict_proba")
    with pytest.raises(AttributeError, match=r"CalibratedClassifierCV\(Classifier"):
        kind(model).predict_proba


def test_sigmoids_of_pairs_are_coupled() -> None:
    """The probabilities minimise the sum of squares of Wu, Lin and Weng (2004), by a general solver."""
    clf = ucm.Classifier(LOGISTIC, decision_function_shape="ovo").fit(X, Y)
    P = clf.predict_proba(X)
    assert_allclose(P.sum(axis=1), 1.0)
    for k in (0, 60, 75, 149):
        first, second = np.triu_indices(3, 1)
        r = np.zeros((3, 3))
        r[first, second] = 1.0 / (1.0 + np.exp(-clf.decision_function(X[k : k + 1])[0]))
        r[second, first] = 1.0 - r[first, second]
        p = cp.Variable(3, nonneg=True)
        terms = [r[j, i] * p[i] - r[i, j] * p[j] for i in range(3) for j in range(3) if i != j]
        cp.Problem(cp.Minimize(cp.sum_squares(cp.hstack(terms))), [cp.sum(p) == 1]).solve(solver="CLARABEL")
        assert_allclose(P[k], p.value, atol=1e-5)
    found = ucm.compare([LOGISTIC], X, Y, cv=3, scoring="roc_auc_ovr", progress=False)
    assert known(found[0].score) > 0.9


def test_one_against_the_rest_from_ten_classes_on() -> None:
    generator = np.random.default_rng(0)
    for count, problems in ((9, 36), (10, 10)):
        centres = 5.0 * generator.standard_normal((count, 6))
        labels = np.repeat(np.arange(count), 4)
        table = centres[labels] + 0.1 * generator.standard_normal((labels.size, 6))
        clf = ucm.Classifier().fit(table, labels)
        scheme = {36: "ovo", 10: "ovr"}[problems]
        other = ucm.Classifier(multi_class=scheme).fit(table, labels)
        assert clf.coef_.shape == (problems, 6)
        assert_array_equal(clf.predict(table), other.predict(table))
        assert_array_equal(clf.decision_function(table), other.decision_function(table))
        search = ucm.ClassifierCV(param_name="C", param_range=[0.1, 1.0], cv=2).fit(table, labels)
        assert search.best_score_ == 1.0 and len(search.best_estimator_.certificate_) == problems


def test_calibration_is_of_scikit_learn() -> None:
    """The Brier score of a hinge loss is that of scikit-learn's calibration, which takes any model."""
    cal = CalibratedClassifierCV(ucm.Classifier(psvm(2.0, 1.0))).fit(X, Y)
    other = CalibratedClassifierCV(LinearSVC()).fit(X, Y)
    of = [brier_score_loss(Y, c.predict_proba(X)) for c in (cal, other)]
    assert of[0] <= 1.05 * of[1]


def test_class_weights_of_several_classes() -> None:
    data, labels = make_classification(
        150, 5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.2, random_state=0
    )
    weights = {0: 1.0, 1: 5.0, 2: 1.0}
    plain = ucm.Classifier(psvm(1.5, 1.0)).fit(data, labels)
    heavy = ucm.Classifier(psvm(1.5, 1.0), class_weight=weights).fit(data, labels)
    assert (heavy.predict(data) == 1).sum() > (plain.predict(data) == 1).sum()
    rest = ucm.Classifier(psvm(1.5, 1.0), class_weight=weights, multi_class="ovr")
    assert (rest.fit(data, labels).predict(data) == 1).sum() > (plain.predict(data) == 1).sum()


def test_the_rest_has_the_mean_weight_of_its_samples() -> None:
    data, labels = make_classification(
        150, 5, n_informative=4, n_redundant=0, n_classes=3, weights=[0.3, 0.6], random_state=0
    )
    weights, rest = np.array([1.0, 5.0, 2.0]), labels != 0
    model = psvm(1.5, 1.0)
    every = ucm.Classifier(model, class_weight=dict(enumerate(weights)), multi_class="ovr").fit(data, labels)
    one = {True: 1.0, False: weights[labels[rest]].mean()}
    alone = ucm.Classifier(model, class_weight=one).fit(data, labels == 0)
    np.testing.assert_allclose(every.coef_[0], alone.coef_[0], rtol=1e-6)


def test_one_sample_per_class_and_unseen_labels() -> None:
    tiny = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    clf = ucm.Classifier(psvm(2.0, 1e3)).fit(tiny, ["a", "b", "c"])
    assert_array_equal(clf.predict(tiny), ["a", "b", "c"])
    assert clf.score(tiny, ["a", "b", "d"]) == pytest.approx(2 / 3)


def test_the_failing_pair_is_named() -> None:
    convex = ucm.Classifier(models.nu_svm(0.1), multi_class="ovr", solver="apg")
    with pytest.raises(ucm.SolverError, match="1 against the rest: 0 lies in U"):
        convex.fit(X, Y)
    for options in ({"decision_function_shape": "all"}, {"multi_class": "some"}):
        with pytest.raises(ucm.ParameterError, match=r'is ("auto", "ovo"|"ovr") or'):
            untyped.Classifier(**options).fit(X, Y)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("rows", [False, True])
def test_an_empty_set_names_its_pair(scheme: str, rows: bool) -> None:
    few = np.r_[0:50, 50:53, 100:150]
    clf = ucm.Classifier(models.nu_svm(0.7), multi_class=scheme)
    pair = {"ovo": "'setosa' against 'versicolor'", "ovr": "'versicolor' against the rest"}[scheme]
    given: Any = (ucm.open_rows(X[few], NAMES[Y[few]]),) if rows else (X[few], NAMES[Y[few]])
    with pytest.raises(ucm.EmptySetError, match=rf"Classifier: {pair}: .*empty"):
        clf.fit(*given)
