"""Audits of wrong answers, of wrapped estimators and of plain models, and the declarations of estimators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.base
import sklearn.datasets
import sklearn.linear_model
import sklearn.svm
from logistic import logistic
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from typed import known

import ucm

pytestmark = pytest.mark.filterwarnings("ignore:.*(converge|max_iter|reached|early).*")
# without types: pyright infers the types of their parameters from the defaults
svm: Any = sklearn.svm
linear: Any = sklearn.linear_model
SVC, LinearSVC, NuSVC = svm.SVC, svm.LinearSVC, svm.NuSVC
LogisticRegression = linear.LogisticRegression
Perceptron = linear.Perceptron
RidgeClassifier = linear.RidgeClassifier
SGDClassifier = linear.SGDClassifier
clone: Any = sklearn.base.clone
make_classification: Any = sklearn.datasets.make_classification
X, Y = make_classification(80, 5, random_state=5, flip_y=0.1, class_sep=0.8)
X3, Y3 = make_classification(60, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=1)
EXACT = {"tol": 1e-10, "max_iter": 100_000}
CONVERGED = [
    LinearSVC(C=0.5, loss="hinge", random_state=0, tol=1e-12, max_iter=1_000_000),
    LinearSVC(C=0.5, dual=False, **EXACT),
    LinearSVC(C=0.5, dual=False, penalty="l1", intercept_scaling=3.0, **EXACT),
    LogisticRegression(C=0.5, **EXACT),
    LogisticRegression(C=0.5, solver="liblinear", class_weight={0: 2.0, 1: 1.0}, **EXACT),
    logistic(C=0.5, l1_ratio=1.0, solver="saga", **EXACT),
    RidgeClassifier(alpha=2.0, solver="cholesky"),
    SVC(C=0.5, kernel="linear", tol=1e-10),
    SVC(C=2.0, gamma=0.2, tol=1e-10),
    NuSVC(nu=0.6, gamma=0.2, tol=1e-10),
]


def name(estimator: Any) -> str:
    return " ".join(repr(estimator).split())


def scaled(e: Any) -> None:
    """Multiply w by 0.9, where it is given by the multipliers these."""
    if hasattr(e, "dual_coef_"):
        e.dual_coef_, e._dual_coef_ = 0.9 * e.dual_coef_, 0.9 * e._dual_coef_
    else:
        e.coef_ = 0.9 * e.coef_


def shifted(e: Any) -> None:
    """Add 0.3 to the intercept."""
    e.intercept_ = e.intercept_ + 0.3
    if hasattr(e, "_intercept_"):
        e._intercept_ = e._intercept_ - 0.3


@pytest.mark.parametrize("estimator", CONVERGED, ids=name)
def test_a_converged_answer_is_optimal_and_a_wrong_one_never(estimator: Any) -> None:
    fitted = clone(estimator).fit(X, Y)
    report = ucm.audit(fitted, X, Y, tol=1e-5)
    assert report.optimal and report[0].loose == "none" and report.verdict.startswith("optimal")
    by_samples = hasattr(fitted, "dual_coef_")

    e = clone(estimator).fit(X, Y)
    scaled(e)
    (row,) = ucm.audit(e, X, Y, tol=1e-5)
    if isinstance(e, NuSVC):  # its w has no length, and its multipliers none either; b is 1 / 0.9 too far
        assert row.loose in ("none", "primal")
    else:
        assert row.loose == ("both" if by_samples else "primal")

    e = clone(estimator).fit(X, Y)
    shifted(e)
    assert ucm.audit(e, X, Y, tol=1e-5)[0].loose == "primal"

    (row,) = ucm.audit(fitted, X, 1 - Y, tol=1e-5)  # swapped labels: negative multipliers prove nothing
    assert row.loose == ("both" if by_samples else "primal")
    assert row.bound == (-np.inf if by_samples else None)

    other = X + np.random.default_rng(0).normal(0.0, 0.3, X.shape)
    if by_samples:
        with pytest.raises(ucm.DataError, match="support vectors elsewhere"):
            ucm.audit(fitted, other, Y)
    else:
        assert ucm.audit(fitted, other, Y, tol=1e-5)[0].loose == "primal"


@pytest.mark.parametrize("kind", [LinearSVC, LogisticRegression, SVC])
def test_balanced_classes_with_weights_of_samples(kind: Any) -> None:
    """Some count the weights, some the samples, and only a converged answer tells."""
    weights = np.random.default_rng(0).uniform(0.3, 2.0, Y.size) * np.where(Y == 1, 3.0, 1.0)
    e = kind(class_weight="balanced", **EXACT).fit(X, Y, sample_weight=weights)
    assert ucm.audit(e, X, Y, weights, tol=1e-5).optimal


@pytest.mark.parametrize(
    ("estimator", "side"),
    [
        (LinearSVC(C=0.5, dual=False), "primal"),
        (LinearSVC(C=0.5, loss="hinge", random_state=0), "primal"),
        (LogisticRegression(C=0.5), "primal"),
        (logistic(C=0.5, l1_ratio=1.0, solver="saga", random_state=0), "primal"),
        (SGDClassifier(alpha=0.01, random_state=0), "primal"),
        (RidgeClassifier(alpha=2.0, solver="sag", random_state=0), "primal"),
        (SVC(C=2.0, gamma=0.2), "both"),
        (NuSVC(nu=0.6, gamma=0.2), "both"),
    ],
    ids=name,
)
def test_half_of_the_iterations(estimator: Any, side: str) -> None:
    done = int(np.max(clone(estimator).fit(X, Y).n_iter_))
    short = clone(estimator).set_params(max_iter=max(1, done // 2)).fit(X, Y)
    report = ucm.audit(short, X, Y)
    assert report[0].loose == side and not report.optimal
    assert f"used up max_iter={done // 2}" in report.verdict


def test_multipliers_alone_may_be_wrong() -> None:
    dual_first = type("LinearSVC", (SimpleNamespace,), {})  # as skglm's, without an intercept
    model = (0.5 * ucm.Hinge() + 0.5 * ucm.L2()).with_intercept(None)
    reference = ucm.solve(model, X, 2 * Y - 1, tol=1e-9)
    good = {"C": 0.5, "ws_strategy": "subdiff", "classes_": np.array([0, 1]), "intercept_": 0.0}
    e = dual_first(coef_=known(reference.w)[None, :], dual_coef_=known(reference.weights)[None, :], **good)
    assert ucm.audit(e, X, Y)[0].loose == "none"
    e.dual_coef_ = 0.9 * e.dual_coef_
    (row,) = ucm.audit(e, X, Y)
    assert row.loose == "dual" and "w and b are optimal, but the multipliers" in row.verdict
    e.dual_coef_ = 2.0 * e.dual_coef_
    assert ucm.audit(e, X, Y)[0].bound == -np.inf


# --- wrapped estimators ---------------------------------------------------------------------------
def same(a: Any, b: Any) -> None:
    """The rows of two audits have equal figures."""
    for one, other in zip(a, b, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-7)
        assert one.lower == pytest.approx(other.lower, rel=1e-6)
        assert (one.loose, one.nonzeros, one.accuracy) == (other.loose, other.nonzeros, other.accuracy)


def test_pipelines_and_searches_are_audited_inside() -> None:
    steps = make_pipeline(StandardScaler(), "passthrough", PolynomialFeatures(2), SVC(kernel="linear"))
    search = GridSearchCV(steps, {"svc__C": [0.1]}, cv=2).fit(X, Y)
    raw = PolynomialFeatures(2).fit_transform(StandardScaler().fit_transform(X))
    same(ucm.audit(search, X, Y), ucm.audit(SVC(kernel="linear", C=0.1).fit(raw, Y), raw, Y))
    assert repr(ucm.from_estimator(search)) == "0.1 * Hinge() + 0.5 * L2()"


def test_labels_are_of_any_kind_and_samples_sparse_or_framed() -> None:
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    words = np.array(["no", "yes"])[Y]
    plain = ucm.audit(LinearSVC(dual=False).fit(X, Y), X, Y)
    frame, rows = pandas.DataFrame(X).add_prefix("x"), sparse.csr_matrix(X)
    same(plain, ucm.audit(LinearSVC(dual=False).fit(frame, words), frame, pandas.Series(words)))
    same(plain, ucm.audit(LinearSVC(dual=False).fit(rows, words).sparsify(), rows, words))
    same(ucm.audit(SVC().fit(X, Y), X, Y), ucm.audit(SVC(gamma="scale").fit(rows, Y), rows, Y))


@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1), (-1, 1)])
def test_signs_of_other_libraries(signs: tuple[int, int]) -> None:
    """Their multipliers and intercepts have the signs that give their decision function."""
    e = SVC(gamma=0.2).fit(X, Y)
    names = ["C", "gamma", "kernel", "coef0", "degree", "class_weight", "support_", "support_vectors_"]
    other = type("SVC", (SimpleNamespace,), {})(
        **{n: getattr(e, n) for n in names}, classes_=e.classes_, decision_function=e.decision_function,
        n_support_=e.support_.size,  # cuML's is that of both classes
        dual_coef_=signs[0] * e.dual_coef_, intercept_=signs[1] * e.intercept_,
    )  # fmt: skip
    same(ucm.audit(e, X, Y), ucm.audit(other, X, Y))
    other.intercept_ = other.intercept_ + 1.0
    with pytest.raises(ucm.DataError, match="decision_function, got other scores"):
        ucm.audit(other, X, Y)


@pytest.mark.parametrize("penalised", [False, True])
def test_the_intercept_of_cuml(penalised: bool) -> None:
    """Its `LinearSVC` has `penalized_intercept` in place of `intercept_scaling`."""
    loss, R, samples = 0.5 * ucm.Hinge(2), 0.5 * ucm.L2(), X + 1.0
    model = (loss + R).with_intercept("penalised" if penalised else "free")
    s = ucm.solve(model, samples, 2 * Y - 1, tol=1e-9)
    e = type("LinearSVC", (SimpleNamespace,), {})(
        C=0.5, loss="squared_hinge", penalty="l2", fit_intercept=True, penalized_intercept=penalised,
        multi_class="ovr", class_weight=None, classes_=np.array([0, 1]), coef_=known(s.w)[None, :],
        intercept_=np.array([s.b]),
    )  # fmt: skip
    report = ucm.audit(e, samples, Y)
    assert report.optimal and report[0].objective == pytest.approx(s.objective, rel=1e-9)
    e.penalized_intercept = not penalised
    assert ucm.audit(e, samples, Y)[0].loose == "primal"


# --- plain models ---------------------------------------------------------------------------------
def sparse_rows(V: np.ndarray) -> list[str]:
    return [" ".join(f"{j + 1}:{x:.8g}" for j, x in enumerate(v) if x) for v in V]


def libsvm_file(e: Any, path: Path, classes: str = "0 1") -> Path:
    """Write an SVC as the text of LIBSVM, whose scores of two classes are positive for the first label."""
    sign = -1.0 if len(e.classes_) == 2 else 1.0
    kind = "nu_svc" if isinstance(e, NuSVC) else "c_svc"
    rho = " ".join(f"{-sign * b:.17g}" for b in e.intercept_)
    head = [
        f"svm_type {kind}", f"kernel_type {'polynomial' if e.kernel == 'poly' else e.kernel}",
        f"degree {e.degree}", f"gamma {e._gamma:.17g}", f"coef0 {e.coef0}", f"nr_class {len(e.classes_)}",
        f"total_sv {len(e.support_)}", f"rho {rho}", f"label {classes}",
        f"nr_sv {' '.join(map(str, e.n_support_))}", "SV",
    ]  # fmt: skip
    coefficients = [" ".join(f"{sign * c:.17g}" for c in column) for column in e.dual_coef_.T]
    rows = [f"{c} {row}" for c, row in zip(coefficients, sparse_rows(e.support_vectors_), strict=True)]
    path.write_text("\n".join([*head, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    "e", [SVC(C=0.5), SVC(C=0.5, kernel="linear"), SVC(kernel="poly", degree=2), NuSVC(nu=0.6)], ids=name
)
def test_files_of_libsvm(e: Any, tmp_path: Path) -> None:
    e = clone(e).fit(X, Y)
    params = {"nu": e.nu} if isinstance(e, NuSVC) else {"C": e.C}
    same(ucm.audit(e, X, Y), ucm.audit(libsvm_file(e, tmp_path / "model"), X, Y, **params))


def test_a_file_of_libsvm_with_several_classes(tmp_path: Path) -> None:
    e = SVC(class_weight={0: 2.0}).fit(X3, Y3)
    path = str(libsvm_file(e, tmp_path / "model", "0 1 2"))
    same(ucm.audit(e, X3, Y3), ucm.audit(path, X3, Y3, C=1.0, class_weight={0: 2.0}))
    with pytest.raises(ucm.DataError, match="got none that is support vector 0"):
        ucm.audit(path, X3 + 0.1, Y3, C=1.0)


@pytest.mark.parametrize(
    ("e", "solver"),
    [
        (LinearSVC(C=0.5, intercept_scaling=2.0), "L2R_L2LOSS_SVC"),
        (LinearSVC(C=0.5, loss="hinge", fit_intercept=False), "L2R_L1LOSS_SVC_DUAL"),
        (LinearSVC(C=0.5, penalty="l1", dual=False), "L1R_L2LOSS_SVC"),
        (LogisticRegression(C=0.5, solver="liblinear"), "L2R_LR"),
        (logistic(C=0.5, solver="liblinear", l1_ratio=1.0), "L1R_LR"),
    ],
)
def test_files_of_liblinear(e: Any, solver: str, tmp_path: Path) -> None:
    e, path = clone(e).fit(X, Y), tmp_path / "model"
    bias = float(e.intercept_scaling) if e.fit_intercept else -1.0
    w = [*e.coef_[0], *(e.intercept_ / bias if e.fit_intercept else [])]
    head = [f"solver_type {solver}", "nr_class 2", "label 0 1", "nr_feature 5", f"bias {bias}", "w"]
    path.write_text("\n".join([*head, *(f"{-x:.17g} " for x in w)]) + "\n")
    same(ucm.audit(e, X, Y), ucm.audit(path, X, Y, C=0.5))
    with pytest.raises(ucm.ParameterError, match="expected C, which the file does not hold"):
        ucm.audit(path, X, Y)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("solver_type MCSVM_CS\nlabel 0 1\nbias -1\nw\n1\n")
    with pytest.raises(ucm.ParameterError, match="two classes at a time"):
        ucm.audit(path, X, Y, C=1.0)
    path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(ucm.DataError, match="expected a text file"):
        ucm.audit(path, X, Y, C=1.0)


# --- skglm, whose classes are recognised by their attributes --------------------------------------------
def test_estimators_of_skglm() -> None:
    classes = {"classes_": np.array([0, 1])}
    sparse = type("SparseLogisticRegression", (SimpleNamespace,), {})
    model = (1 / 80) * ucm.Logistic() + 0.05 * ucm.L1()
    s = ucm.solve(model, X, 2 * Y - 1, tol=1e-9)
    fitted = {"coef_": known(s.w)[None, :], "intercept_": s.b, **classes}
    e = sparse(alpha=0.05, l1_ratio=1.0, max_epochs=9, fit_intercept=True, **fitted)
    report = ucm.audit(e, X, Y)
    assert report.optimal and report[0].objective == pytest.approx(s.objective, rel=1e-9)

    datafit, penalty = type("Logistic", (), {}), type("L1_plus_L2", (SimpleNamespace,), {})
    general = type("GeneralizedLinearEstimator", (SimpleNamespace,), {})
    e = general(
        datafit=datafit(), penalty=penalty(alpha=0.05, l1_ratio=0.5), solver=SimpleNamespace(), **fitted
    )
    assert repr(ucm.from_estimator(e, m=80)) == "0.0125 * Logistic() + 0.025 * L1() + 0.0125 * L2()"
    assert ucm.audit(e, X, Y)[0].loose == "primal"
    e.penalty = type("MCPenalty", (SimpleNamespace,), {})(alpha=0.1)
    with pytest.raises(ucm.ParameterError, match="got Logistic with MCPenalty"):
        ucm.audit(e, X, Y)


# --- refusals -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (RandomForestClassifier(2), r"RandomForestClassifier: unknown.*certify\(w=, b=\)"),
        (Perceptron(), "Perceptron: unknown: its updates minimise"),
        (SGDClassifier(loss="huber"), "SGDClassifier: loss: expected one of 'hinge'.*got 'huber'"),
        (make_pipeline(StandardScaler(), RandomForestClassifier(2)), "RandomForestClassifier: unknown"),
    ],
    ids=name,
)
def test_what_is_not_known_is_refused_by_name(estimator: Any, words: str) -> None:
    e = clone(estimator).fit(X, Y)
    with pytest.raises(ucm.ParameterError, match=words):
        ucm.audit(e, X, Y)


def test_a_multinomial_loss_is_refused() -> None:
    with pytest.raises(ucm.ParameterError, match=r"multinomial.*OneVsRestClassifier.*certify"):
        ucm.audit(LogisticRegression().fit(X3, Y3), X3, Y3)


def test_wrong_samples_are_refused() -> None:
    e, kernel = LinearSVC().fit(X, Y), SVC().fit(X, Y)
    for fitted, samples, labels, words in (
        (LinearSVC(), X, Y, "expected a fitted estimator, got none with coef_"),
        (GridSearchCV(SVC(), {"C": [1.0]}), X, Y, "got none with best_estimator_"),
        (e, X[:, :3], Y, "expected the 5 features of coef_, got 3"),
        (e, X[:50], Y, "expected a label for each of 50 samples, got 80"),
        (e, np.where(X > 2.0, np.nan, X), Y, r"X: entry \(\d+, \d+\) is nan"),
        (e, X, np.where(Y == 1, "a", "b"), r"expected the labels of the fit, \[0, 1\], got \['a', 'b'\]"),
        (kernel, X[::-1], Y, "support vectors elsewhere"),
        (kernel, X[:, :3], Y, "expected 5 features, got 3"),
        (kernel, X[:9], Y[:9], r"expected more than \d+ samples, got 9"),
    ):
        with pytest.raises(ucm.DataError, match=words):
            ucm.audit(fitted, samples, labels)
    with pytest.raises(ucm.ParameterError, match="C: expected for a model file only"):
        ucm.audit(e, X, Y, C=1.0)


def test_what_cannot_be_decided_is_not_optimal() -> None:
    e = NuSVC(nu=0.2, kernel="linear").fit(X, Y)  # the reduced hulls meet
    report = ucm.audit(e, X, Y)
    assert report[0].loose == "unknown" and "raise nu" in report.verdict
    e = LogisticRegression(C=np.inf).fit(X[:6], Y[:6])  # separable
    report = ucm.audit(e, X[:6], Y[:6])
    assert report[0].loose == "unknown" and "no minimum is attained" in report.verdict
    e = SVC(kernel="sigmoid", gamma=0.5, coef0=-1.0).fit(X, Y)  # not a positive semidefinite kernel
    report = ucm.audit(e, X, Y)
    assert report[0].loose == "unknown" and "indefinite" in report.verdict


# --- reports --------------------------------------------------------------------------------------
def test_a_report_in_its_four_forms() -> None:
    report = ucm.audit(LinearSVC(max_iter=2).fit(X3, Y3), X3, Y3)
    text, facts, page = str(report), report.to_dict(), report._repr_html_()
    assert text.count("against the rest") == 4 and "declaration  (Hinge(p=2) + 0.5 * L2())" in text
    assert text.endswith(report.verdict) and "used up max_iter=2" in report.verdict
    assert facts["optimal"] is False and len(facts["problems"]) == len(report) == 3
    assert facts["problems"][0]["loose"] == report[0].loose == "primal"
    assert report.verdict in page and "<table" in page and "0 against the rest" in page
    assert repr(report).startswith(
        "Audit(LinearSVC(max_iter=2): not optimal to 1e-06 (3 of 3 problems, worst "
    )
    pytest.importorskip("pandas")
    frame = report.to_frame()
    assert frame.shape[0] == 3 and (frame.objective > frame.upper).all()


def test_a_verdict_claims_no_more_than_the_interval_proves() -> None:
    (row,) = ucm.audit(LinearSVC(dual=False, **EXACT).fit(X, Y), X, Y)
    near = replace(row, lower=1.0, upper=1.0 + 1e-7, objective=1.0 + 1.05e-6)  # 0.95e-6 above, or 1.05e-6
    assert near.loose == "unknown" and near.verdict.startswith("undecided to 1e-06: the optimum lies in [1.0")
    far = replace(row, lower=-0.5, upper=-0.5, objective=0.6)  # no multiple of a negative optimum
    assert "is 220% above the optimum" in far.verdict
    assert "w and b are infeasible; the optimum lies in" in replace(row, objective=np.inf).verdict
    exact = replace(row, lower=1.0, upper=1.0, objective=1.0)
    assert exact.verdict == "optimal to 1e-06: the relative gap is 0"
    with pytest.raises(ucm.ParameterError, match=r"audit: tol is a number in \(0, 1\), got 0"):
        ucm.audit(LinearSVC(), X, Y, tol=0.0)


def test_samples_of_a_reduction_may_be_lists() -> None:
    e = OneVsOneClassifier(LinearSVC(dual=False)).fit(X3, Y3)
    same(ucm.audit(e, X3.tolist(), Y3.tolist()), ucm.audit(e, X3, Y3))


# --- declarations ---------------------------------------------------------------------------------
@pytest.mark.parametrize("estimator", [*CONVERGED, NuSVC(nu=0.57, kernel="linear", tol=1e-10)], ids=name)
def test_a_declaration_fitted_by_ucm_gives_the_coefficients(estimator: Any) -> None:
    e = clone(estimator).fit(X, Y)
    kernel = {"kernel": e.kernel, "gamma": e.gamma} if getattr(e, "kernel", "linear") != "linear" else {}
    weight = getattr(e, "class_weight", None)
    again = ucm.Classifier(ucm.from_estimator(e), tol=1e-12, class_weight=weight, **kernel).fit(X, Y)
    scores = e.decision_function(X)
    rho = again.solution_.rho if isinstance(e, NuSVC) else 1.0  # LIBSVM divides by it
    assert np.allclose(again.decision_function(X) / rho, scores, atol=1e-4 * np.abs(scores).max())


def test_a_mean_loss_needs_the_number_of_samples() -> None:
    assert repr(ucm.from_estimator(SGDClassifier(alpha=0.5), m=4)) == "0.25 * Hinge() + 0.25 * L2()"
    fitted = SGDClassifier(alpha=0.5).fit(X, Y)
    assert repr(ucm.from_estimator(fitted)) == "0.0125 * Hinge() + 0.25 * L2()"
    with pytest.raises(ucm.ParameterError, match=r"write from_estimator\(estimator, m=len\(y\)\)"):
        ucm.from_estimator(SGDClassifier())
