"""The objective and the optimum of each estimator, by programs in CVXPY written from its documentation.

Each row of the tables states by hand what the estimator minimises: the factor of each sample, the loss, the
factors of `||w||_1` and `||w||_2^2`, and the intercept.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import sklearn.base
import sklearn.datasets
import sklearn.linear_model
import sklearn.metrics.pairwise
import sklearn.svm
from logistic import logistic, logistic_cv
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.utils.fixes import parse_version

import ucm

pytestmark = pytest.mark.filterwarnings("ignore:.*(converge|Convergence|max_iter|deprecated).*")

# without types: pyright infers the types of their parameters from the defaults
svm: Any = sklearn.svm
linear: Any = sklearn.linear_model
SVC, LinearSVC, NuSVC = svm.SVC, svm.LinearSVC, svm.NuSVC
LogisticRegression = linear.LogisticRegression
RidgeClassifier = linear.RidgeClassifier
RidgeClassifierCV = linear.RidgeClassifierCV
SGDClassifier = linear.SGDClassifier
clone: Any = sklearn.base.clone
make_classification: Any = sklearn.datasets.make_classification
pairwise_kernels: Any = sklearn.metrics.pairwise.pairwise_kernels
M, CUT = 36, 4
X, Y = make_classification(M, CUT, random_state=3, flip_y=0.15, class_sep=0.7)
X3, Y3 = make_classification(
    M, CUT, n_informative=3, n_redundant=0, n_classes=3, random_state=1, class_sep=0.7
)
WEIGHTS = np.random.default_rng(0).uniform(0.3, 2.0, M)
COUNTS_WEIGHTS = parse_version(sklearn.__version__) >= parse_version("1.7")  # "balanced" of LIBLINEAR's
COSTS = {0: 2.0, 1: 0.5}
COSTS3 = {0: 2.0, 1: 0.5, 2: 3.0}
PRECISE = {"tol_gap_rel": 1e-9, "tol_gap_abs": 1e-10, "tol_feas": 1e-9}  # a hundredth of the slack below
BY_LOSS = {
    "hinge": lambda t: cp.pos(1 - t),
    "squared_hinge": lambda t: cp.square(cp.pos(1 - t)),
    "log": lambda t: cp.logistic(-t),
    "modified_huber": lambda t: cp.huber(cp.pos(1 - t), 2),
    "squared_error": lambda t: cp.square(1 - t) / 2,
    "squares": lambda t: cp.square(1 - t),
}


class States(NamedTuple):
    """What a row of the table says: the objective, and the factors of the samples for each problem."""

    factor: float
    loss: str
    l1: float
    l2: float
    intercept: str  # "free", "none", or the scaling of a penalised one
    rest: str = "own"  # whether samples of the rest have the weight of their class, or "one"
    nonnegative: bool = False


def program(F: np.ndarray, y: np.ndarray, c: np.ndarray, says: States) -> tuple[Any, cp.Problem]:
    """Return the variables (w, b) and the problem over the features F."""
    w, b = cp.Variable(F.shape[1]), cp.Variable()
    t = cp.multiply(y, F @ w + b)
    total = says.factor * (c @ BY_LOSS[says.loss](t))
    penalised = w if says.intercept in ("free", "none") else cp.hstack([w, b / float(says.intercept)])
    terms = (says.l1, cp.norm1), (says.l2, cp.sum_squares)
    R = sum(factor * term(penalised) for factor, term in terms if factor)
    rules = [b == 0] * (says.intercept == "none") + [w >= 0] * says.nonnegative
    return (w, b), cp.Problem(cp.Minimize(total + R), rules)


def check(row: Any, objective: float, optimum: float) -> None:
    assert row.objective == pytest.approx(objective, rel=1e-8, abs=1e-12)
    slack = 2e-7 * abs(optimum) + 1e-12  # of the reference
    assert row.lower - slack <= optimum <= row.upper + slack
    assert row.upper - row.lower <= 1e-6 * abs(row.upper)
    if row.bound is not None:
        assert row.bound <= optimum + slack


def weighed(y: np.ndarray, class_weight: Any, sample_weight: Any, by_weight: bool) -> np.ndarray:
    c = np.ones(y.size) if sample_weight is None else sample_weight
    if class_weight == "balanced":
        counts = c if by_weight else np.ones(y.size)
        total = {label: counts[y == label].sum() for label in np.unique(y)}
        class_weight = {label: counts.sum() / (len(total) * n) for label, n in total.items()}
    return c if class_weight is None else c * np.array([class_weight[label] for label in y])


C = 0.7
FREE, NONE = "free", "none"
SAGA = {"solver": "saga", "tol": 1e-10, "max_iter": 3000}
SMALL = {"random_state": 0, "alpha": 0.01}
LINEAR = [
    (LinearSVC(C=C, loss="hinge"), States(C, "hinge", 0, 0.5, "1")),
    (LinearSVC(C=C, loss="hinge", fit_intercept=False), States(C, "hinge", 0, 0.5, NONE)),
    (LinearSVC(C=C, loss="hinge", intercept_scaling=3.0), States(C, "hinge", 0, 0.5, "3")),
    (LinearSVC(C=C, loss="hinge", class_weight=COSTS), States(C, "hinge", 0, 0.5, "1")),
    (LinearSVC(C=C, dual=True), States(C, "squared_hinge", 0, 0.5, "1")),
    (LinearSVC(C=C, dual=False), States(C, "squared_hinge", 0, 0.5, "1")),
    (LinearSVC(C=C, dual=False, fit_intercept=False), States(C, "squared_hinge", 0, 0.5, NONE)),
    (LinearSVC(C=C, dual=False, intercept_scaling=0.5), States(C, "squared_hinge", 0, 0.5, "0.5")),
    (LinearSVC(C=C, dual=False, penalty="l1"), States(C, "squared_hinge", 1, 0, "1")),
    (LinearSVC(C=C, dual=False, penalty="l1", intercept_scaling=9), States(C, "squared_hinge", 1, 0, "9")),
    (LinearSVC(C=C, dual=False, penalty="l1", fit_intercept=False), States(C, "squared_hinge", 1, 0, NONE)),
    (LinearSVC(C=C, class_weight="balanced"), States(C, "squared_hinge", 0, 0.5, "1")),
    (LogisticRegression(C=C), States(C, "log", 0, 0.5, FREE)),
    (LogisticRegression(C=C, fit_intercept=False), States(C, "log", 0, 0.5, NONE)),
    (LogisticRegression(C=C, solver="newton-cholesky"), States(C, "log", 0, 0.5, FREE)),
    (LogisticRegression(C=C, class_weight=COSTS, solver="newton-cg"), States(C, "log", 0, 0.5, FREE)),
    (LogisticRegression(C=C, class_weight="balanced"), States(C, "log", 0, 0.5, FREE)),
    (LogisticRegression(C=C, solver="liblinear"), States(C, "log", 0, 0.5, "1")),
    (LogisticRegression(C=C, solver="liblinear", dual=True), States(C, "log", 0, 0.5, "1")),
    (LogisticRegression(C=C, solver="liblinear", intercept_scaling=5.0), States(C, "log", 0, 0.5, "5")),
    (logistic(C=C, solver="liblinear", l1_ratio=1.0), States(C, "log", 1, 0, "1")),
    (logistic(C=C, l1_ratio=1.0, **SAGA), States(C, "log", 1, 0, FREE)),
    (logistic(C=C, l1_ratio=0.3, **SAGA), States(C, "log", 0.3, 0.35, FREE)),
    (logistic(C=C, l1_ratio=0.3, fit_intercept=False, **SAGA), States(C, "log", 0.3, 0.35, NONE)),
    (LogisticRegression(C=np.inf), States(1.0, "log", 0, 0, FREE)),
    (logistic_cv(Cs=[C], cv=2, scoring="accuracy"), States(C, "log", 0, 0.5, FREE)),
    *[
        (SGDClassifier(loss=loss, **SMALL), States(1 / M, name, 0, 0.005, FREE))
        for loss, name in [
            ("hinge", "hinge"),
            ("log_loss", "log"),
            ("squared_hinge", "squared_hinge"),
            ("modified_huber", "modified_huber"),
            ("squared_error", "squared_error"),
        ]
    ],
    (SGDClassifier(penalty="l1", **SMALL), States(1 / M, "hinge", 0.01, 0, FREE)),
    (SGDClassifier(penalty="elasticnet", **SMALL), States(1 / M, "hinge", 0.0015, 0.00425, FREE)),
    (SGDClassifier(loss="log_loss", penalty="l1", **SMALL), States(1 / M, "log", 0.01, 0, FREE)),
    (SGDClassifier(loss="log_loss", penalty="elasticnet", l1_ratio=0.5, **SMALL),
     States(1 / M, "log", 0.005, 0.0025, FREE)),
    (SGDClassifier(loss="squared_hinge", penalty="l1", **SMALL),
     States(1 / M, "squared_hinge", 0.01, 0, FREE)),
    (SGDClassifier(average=True, **SMALL), States(1 / M, "hinge", 0, 0.005, FREE)),
    (SGDClassifier(loss="log_loss", average=10, **SMALL), States(1 / M, "log", 0, 0.005, FREE)),
    (SGDClassifier(early_stopping=True, **SMALL), States(1 / M, "hinge", 0, 0.005, FREE)),
    (SGDClassifier(loss="log_loss", penalty=None, random_state=0), States(1 / M, "log", 0, 0, FREE)),
    (SGDClassifier(fit_intercept=False, **SMALL), States(1 / M, "hinge", 0, 0.005, NONE)),
    (SGDClassifier(class_weight=COSTS, **SMALL), States(1 / M, "hinge", 0, 0.005, FREE)),
    (SGDClassifier(loss="log_loss", class_weight="balanced", **SMALL), States(1 / M, "log", 0, 0.005, FREE)),
    (RidgeClassifier(alpha=C), States(1.0, "squares", 0, C, FREE)),
    (RidgeClassifier(alpha=C, fit_intercept=False), States(1.0, "squares", 0, C, NONE)),
    (RidgeClassifier(alpha=C, positive=True), States(1.0, "squares", 0, C, FREE, nonnegative=True)),
    (RidgeClassifier(alpha=C, class_weight=COSTS), States(1.0, "squares", 0, C, FREE)),
    (RidgeClassifier(alpha=C, class_weight="balanced", solver="lsqr"), States(1.0, "squares", 0, C, FREE)),
    (RidgeClassifierCV(alphas=[C]), States(1.0, "squares", 0, C, FREE)),
]  # fmt: skip
WEIGHED = [
    (LinearSVC(C=C, loss="hinge"), States(C, "hinge", 0, 0.5, "1")),
    (LinearSVC(C=C, class_weight="balanced"), States(C, "squared_hinge", 0, 0.5, "1")),
    (LogisticRegression(C=C, class_weight=COSTS), States(C, "log", 0, 0.5, FREE)),
    (LogisticRegression(C=C, class_weight="balanced", solver="liblinear"), States(C, "log", 0, 0.5, "1")),
    (SGDClassifier(**SMALL), States(1 / M, "hinge", 0, 0.005, FREE)),
    (SGDClassifier(class_weight="balanced", average=True, **SMALL), States(1 / M, "hinge", 0, 0.005, FREE)),
    (RidgeClassifier(alpha=C, class_weight="balanced"), States(1.0, "squares", 0, C, FREE)),
]
SEVERAL = [
    (LinearSVC(C=C, loss="hinge"), States(C, "hinge", 0, 0.5, "1", "one")),
    (LinearSVC(C=C, class_weight=COSTS3), States(C, "squared_hinge", 0, 0.5, "1", "one")),
    (SGDClassifier(class_weight=COSTS3, **SMALL), States(1 / M, "hinge", 0, 0.005, FREE, "one")),
    (
        SGDClassifier(class_weight="balanced", loss="log_loss", **SMALL),
        States(1 / M, "log", 0, 0.005, FREE, "one"),
    ),
    (RidgeClassifier(alpha=C, class_weight=COSTS3), States(1.0, "squares", 0, C, FREE)),
]


def name(value: Any) -> str:
    if isinstance(value, States):
        return ""
    if isinstance(value, np.ndarray):
        return "weights"
    return re.sub(r"<function .*? at \w+>", "function", " ".join(repr(value).split()))


def against(
    row: Any,
    y: np.ndarray,
    c: np.ndarray,
    says: States,
    coef: np.ndarray,
    intercept: float,
    samples: np.ndarray,
) -> None:
    (w, b), problem = program(samples, y, c, says)
    w.value, b.value = coef, intercept
    objective = float(problem.objective.value)
    problem.solve(cp.CLARABEL, **PRECISE)
    check(row, objective, float(problem.value))


@pytest.mark.parametrize(("estimator", "says"), LINEAR, ids=name)
def test_two_classes(estimator: Any, says: States) -> None:
    e = clone(estimator).fit(X, Y)
    (row,) = ucm.audit(e, X, Y)
    c = weighed(Y, e.class_weight, None, True)
    against(row, 2.0 * Y - 1.0, c, says, np.ravel(e.coef_), float(np.ravel(e.intercept_)[0]), X)


@pytest.mark.parametrize(("estimator", "says"), WEIGHED, ids=name)
def test_sample_weights(estimator: Any, says: States) -> None:
    e = clone(estimator).fit(X, Y, sample_weight=WEIGHTS)
    (row,) = ucm.audit(e, X, Y, WEIGHTS)
    by_weight = isinstance(e, LinearSVC | LogisticRegression) and COUNTS_WEIGHTS
    c = weighed(Y, e.class_weight, WEIGHTS, by_weight)
    against(row, 2.0 * Y - 1.0, c, says, np.ravel(e.coef_), float(np.ravel(e.intercept_)[0]), X)


@pytest.mark.parametrize(("estimator", "says"), SEVERAL, ids=name)
def test_one_class_against_the_rest(estimator: Any, says: States) -> None:
    e = clone(estimator).fit(X3, Y3)
    rows = ucm.audit(e, X3, Y3)
    own = weighed(Y3, e.class_weight, None, True)
    for k, row in enumerate(rows):
        c = np.where(k == Y3, own, 1.0) if says.rest == "one" else own
        against(row, np.where(k == Y3, 1.0, -1.0), c, says, e.coef_[k], e.intercept_[k], X3)


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, OneVsOneClassifier])
def test_reductions_of_several_classes(wrapper: Any) -> None:
    e = wrapper(LogisticRegression(C=C)).fit(X3, Y3)
    pairs = (
        [(k, None) for k in range(3)] if wrapper is OneVsRestClassifier else list(combinations(range(3), 2))
    )
    for row, inner, (i, j) in zip(ucm.audit(e, X3, Y3), e.estimators_, pairs, strict=True):
        inside = np.ones(M, dtype=bool) if j is None else (i == Y3) | (j == Y3)
        y = np.where((i if j is None else j) == Y3, 1.0, -1.0)[inside]
        says = States(C, "log", 0, 0.5, FREE)
        against(row, y, np.ones(y.size), says, inner.coef_[0], inner.intercept_[0], X3[inside])


# --- kernels --------------------------------------------------------------------------------------
def root(K: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(K)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def gram(e: Any, samples: np.ndarray) -> np.ndarray:
    if e.kernel == "precomputed":
        return samples
    if callable(e.kernel):
        return np.asarray(e.kernel(samples, samples))
    gamma = 1.0 / (samples.shape[1] * samples.var()) if e.gamma == "scale" else e.gamma
    params = {"gamma": gamma, "degree": e.degree, "coef0": e.coef0}
    return pairwise_kernels(samples, metric=e.kernel, filter_params=True, **params)


RBF = pairwise_kernels(X, metric="rbf", gamma=0.2)
SOME = np.where(np.arange(M) % 3, WEIGHTS, 0.0)
SVMS = [
    (SVC(C=C, kernel="linear"), None),
    (SVC(C=C), None),
    (SVC(C=C, gamma=0.3, tol=1e-9), None),
    (SVC(C=C, kernel="poly", degree=2, coef0=1.0), None),
    (SVC(C=C, kernel="poly"), None),
    (SVC(C=C, kernel="precomputed"), None),
    (SVC(C=C, kernel=lambda A, B: (1.0 + A @ B.T) ** 2), None),
    (SVC(C=C, class_weight=COSTS), None),
    (SVC(C=C, class_weight="balanced", kernel="linear"), None),
    (SVC(C=C, class_weight=COSTS), WEIGHTS),
    (SVC(C=C, class_weight="balanced"), WEIGHTS),
    (SVC(C=C, kernel="linear"), WEIGHTS),
    (NuSVC(nu=0.8, kernel="linear"), None),
    (NuSVC(nu=0.5), None),
    (NuSVC(nu=0.8, kernel="poly", degree=2, coef0=1.0), None),
    (NuSVC(nu=0.5, kernel="precomputed"), None),
    (NuSVC(nu=0.5, tol=1e-9, class_weight=COSTS), None),
    (NuSVC(nu=0.5, tol=1e-9), WEIGHTS),
    (SVC(C=C, kernel="linear"), SOME),
    (NuSVC(nu=0.5), SOME),
]


def nu_program(F: np.ndarray, y: np.ndarray, c: np.ndarray, nu: float) -> tuple[Any, cp.Problem]:
    """Return (w, b) and the nu-SVM `min -2 rho + 2 / (m nu) sum c_i max(0, rho - t_i)` over `||w|| <= 1`."""
    w, b, rho = cp.Variable(F.shape[1]), cp.Variable(), cp.Variable()
    t = cp.multiply(y, F @ w + b)
    value = -2 * rho + 2 / (nu * c.sum()) * (c @ cp.pos(rho - t))
    return (w, b), cp.Problem(cp.Minimize(value), [cp.norm(w) <= 1])


def check_svm(row: Any, e: Any, K: np.ndarray, y: np.ndarray, c: np.ndarray, a: np.ndarray, b: float) -> None:
    """Hold a row against the program in the coordinates `v = K^(1/2) a` of the span of the samples."""
    F = root(K)
    v = F @ a
    if isinstance(e, SVC):
        against(row, y, c, States(e.C, "hinge", 0, 0.5, FREE), v, b, F)
        return
    norm = np.linalg.norm(v)
    t = y * (F @ v + b) / norm
    # the value in rho is convex and piecewise linear, with kinks at the margins
    values = [-2 * r + 2 / (e.nu * c.sum()) * float(c @ np.maximum(0.0, r - t)) for r in t]
    _, problem = nu_program(F, y, c, e.nu)
    problem.solve(cp.CLARABEL, **PRECISE)
    check(row, min(values), float(problem.value))


@pytest.mark.parametrize(("estimator", "weights"), SVMS, ids=name)
def test_kernels(estimator: Any, weights: Any) -> None:
    samples = RBF if estimator.kernel == "precomputed" else X
    e = clone(estimator).fit(samples, Y, sample_weight=weights)
    (row,) = ucm.audit(e, samples, Y, weights)
    a = np.zeros(M)
    counted = np.arange(M) if weights is None else np.flatnonzero(weights)  # LIBSVM drops the others
    a[counted[e.support_]] = e.dual_coef_[0]
    class_weight = None if isinstance(e, NuSVC) else e.class_weight  # without effect there
    c = weighed(Y, class_weight, weights, False)
    check_svm(row, e, gram(e, samples), 2.0 * Y - 1.0, c, a, e.intercept_[0])


@pytest.mark.parametrize(
    "estimator",
    [SVC(C=C, class_weight=COSTS3), SVC(C=C, kernel="linear"), SVC(C=C, kernel="precomputed"), NuSVC(nu=0.5)],
    ids=name,
)
def test_a_problem_for_each_pair(estimator: Any) -> None:
    samples = pairwise_kernels(X3, metric="rbf", gamma=0.2) if estimator.kernel == "precomputed" else X3
    e = clone(estimator).fit(samples, Y3)
    own, K = weighed(Y3, e.class_weight, None, False), gram(e, samples)
    for p, (row, (i, j)) in enumerate(zip(ucm.audit(e, samples, Y3), combinations(range(3), 2), strict=True)):
        assert row.problem == f"{i} against {j}"
        inside = np.flatnonzero((i == Y3) | (j == Y3))
        a, label = np.zeros(M), Y3[e.support_]
        a[e.support_] = np.where(label == i, e.dual_coef_[j - 1], np.where(label == j, e.dual_coef_[i], 0.0))
        y = np.where(i == Y3, 1.0, -1.0)[inside]
        check_svm(row, e, K[np.ix_(inside, inside)], y, own[inside], a[inside], e.intercept_[p])
