"""A classifier as an estimator of scikit-learn: equal decision functions, probabilities and exports."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC

import ucm

X, LABEL = load_wine(return_X_y=True)
X = np.asarray(scale(X))
Y = np.where(LABEL == 0, "red", "white")


@pytest.mark.parametrize(
    ("clf", "kind"),
    [
        (ucm.Classifier(ucm.models.nu_svm(0.3)), LinearSVC),
        (ucm.Classifier(ucm.models.mm_mpm(0.5), pos_label="red"), LinearSVC),
        (ucm.Classifier(ucm.Logistic() + ucm.L1()), LogisticRegression),
        (ucm.Classifier(kernel="rbf"), SVC),
        (ucm.Classifier(ucm.models.svm(0.5), kernel="poly", degree=2, coef0=1.0, pos_label="red"), SVC),
        (ucm.Classifier(ucm.models.svm(0.5), kernel="sigmoid", gamma=0.01), SVC),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*indefinite")
def test_two_classes(clf: Any, kind: type) -> None:
    clf = clf.fit(X, Y)
    made = pickle.loads(pickle.dumps(clf.to_sklearn()))
    assert type(made) is kind
    assert np.allclose(made.decision_function(X), clf.decision_function(X), rtol=1e-12, atol=1e-12)
    assert (made.predict(X) == clf.predict(X)).all()
    if kind is LogisticRegression:
        assert np.allclose(made.predict_proba(X), clf.predict_proba(X), rtol=1e-12)
    if kind is SVC:
        assert list(made.n_support_) == [int(np.sum(made.dual_coef_ < 0)), int(np.sum(made.dual_coef_ > 0))]


def test_sparse_samples() -> None:
    rows = sparse.csr_matrix(X * (np.abs(X) > 0.5))
    for clf in (ucm.Classifier(kernel="rbf"), ucm.Classifier()):
        made = clf.fit(rows, Y).to_sklearn()
        assert np.allclose(made.decision_function(rows), clf.decision_function(rows), rtol=1e-12, atol=1e-12)


def test_several_classes_and_refusals() -> None:
    samples, y = load_iris(return_X_y=True)
    many = np.arange(150) // 15  # ten classes, by default one against the rest
    for clf, labels in ((ucm.Classifier(multi_class="ovr"), y), (ucm.Classifier(), many)):
        made = clf.fit(samples, labels).to_sklearn()
        assert np.allclose(made.decision_function(samples), clf.decision_function(samples), rtol=1e-12)
    for refused in (
        ucm.Classifier(),
        ucm.Classifier(ucm.Logistic() + ucm.L2(), multi_class="ovr"),
        ucm.Classifier(kernel="rbf"),
    ):
        with pytest.raises(ucm.CompositionError, match="to_sklearn: expected"):
            refused.fit(samples, y).to_sklearn()


@pytest.mark.parametrize("clf", [ucm.Classifier(), ucm.Classifier(ucm.Logistic() + ucm.L2())], ids=str)
def test_onnx(clf: Any) -> None:
    skl2onnx = pytest.importorskip(
        "skl2onnx", reason="skl2onnx is not here: pip install skl2onnx onnxruntime"
    )
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not here")
    made = clf.fit(X, LABEL == 0).to_sklearn()
    model = skl2onnx.to_onnx(made, X[:1].astype(np.float32))
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    label = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[0]
    assert (label == clf.predict(X)).mean() > 0.99
