"""Classifiers and searches over rows that are read block by block."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from row_samples import MODELS, blocks, samples, tagged_samples

import ucm


def test_the_classifier_weighs_rows() -> None:
    X, y, tags = tagged_samples()
    words = np.where(y > 0, "yes", "no")
    model = ucm.models.psvm(2.0, 0.1)
    options: Any = {"class_weight": {"yes": 2.0, "no": 0.5}}
    rows = ucm.Classifier(model, **options).fit(ucm.open_rows(X, words, block=100, **tags))
    memory = ucm.Classifier(model, **options).fit(X, words, **tags)
    assert rows.coef_ == pytest.approx(memory.coef_, abs=1e-4)
    three = np.array(["a", "b", "c"])[np.arange(900) % 3]
    weights = {"sample_weight": tags["sample_weight"]}
    for scheme in ("ovo", "ovr"):
        classifier = ucm.Classifier(model, multi_class=scheme, class_weight="balanced")
        memory = classifier.fit(X, three, **weights).coef_
        rows = classifier.fit(ucm.open_rows(X, three, block=100, **weights)).coef_
        assert rows == pytest.approx(memory, abs=1e-4)


def test_the_classifier_reads_and_predicts_block_by_block(tmp_path: Path) -> None:
    X, y = samples(2000)
    words = np.where(y > 0, "yes", "no")
    whole = ucm.Classifier(MODELS["nu"], class_weight={"yes": 2.0}).fit(X, words)
    np.save(tmp_path / "X.npy", X)
    rows = ucm.Classifier(MODELS["nu"], class_weight={"yes": 2.0}).fit(tmp_path / "X.npy", words)
    assert rows.classes_.tolist() == ["no", "yes"] and rows.n_features_in_ == 4
    assert rows.coef_ == pytest.approx(whole.coef_, abs=3e-3)
    assert rows.predict(tmp_path / "X.npy").tolist() == rows.predict(X).tolist()
    assert rows.decision_function(blocks(X, words)) == pytest.approx(rows.decision_function(X))
    assert rows.score(tmp_path / "X.npy", words) == rows.score(X, words)
    again = pickle.loads(pickle.dumps(rows))
    assert not hasattr(again, "plan_") and hasattr(rows, "plan_")
    assert again.predict(X).tolist() == rows.predict(X).tolist()
    balanced = [
        ucm.Classifier(MODELS["nu"], class_weight="balanced").fit(*given)
        for given in ((X, words), (blocks(X, words),))
    ]
    assert balanced[1].solution_.objective == pytest.approx(balanced[0].solution_.objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="4 features"):
        rows.predict(blocks(X[:, :2], words))
    with pytest.raises(ucm.DataError, match=r"Classifier\.score: expected 4 features, got 2"):
        rows.score(blocks(X[:, :2], words))
    X[7, 1] = np.nan
    with pytest.raises(ucm.DataError, match="finite"):
        rows.predict(blocks(X, words))


def test_the_classifier_and_columns(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = samples(800)
    table = pa.table({"grade": y.astype(int), **{f"x{j}": X[:, j] for j in range(4)}})
    parquet.write_table(table, tmp_path / "X.parquet")
    rows = ucm.Classifier(MODELS["nu"]).fit(tmp_path / "X.parquet", "grade")
    assert rows.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    assert np.array_equal(rows.predict(tmp_path / "X.parquet"), rows.predict(table))
    with pytest.raises(ucm.DataError, match="x3"):
        rows.predict(table.drop_columns(["x3"]))


@pytest.mark.parametrize("several", [False, True])
def test_predictions_are_written_to_a_file(tmp_path: Path, several: bool) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pip install 'ucm-classifiers[rows]'")
    X, y = samples(400)
    words = np.array(["no", "yes", "so"])[np.where(y > 0, 1, 0) + several * (X[:, 1] > 1.0)]
    rows = ucm.open_rows(X, words, block=90)
    classifier = ucm.Classifier(ucm.models.svm(1.0)).fit(rows)
    labels = classifier.predict(rows, out=tmp_path / "scores.parquet")
    table = parquet.read_table(tmp_path / "scores.parquet").to_pydict()
    decision = classifier.decision_function(X)
    assert table["label"] == labels.tolist() == classifier.predict(X).tolist()
    if several:
        found = np.column_stack([table[f"decision_{name}"] for name in classifier.classes_])
    else:
        found = np.array(table["decision"])
    assert found == pytest.approx(decision, rel=1e-12)


@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"read_as": "pos"}, {"bias_rule": "odds"}])
def test_the_classifier_refuses_rows_where_it_needs_memory(options: Any) -> None:
    X, y = samples(300)
    with pytest.raises(ucm.UCMError, match=r"gather|over rows"):
        ucm.Classifier(MODELS["nu"], **options).fit(blocks(X, y))
    with pytest.raises(ucm.DataError, match="two classes, got one class"):
        ucm.Classifier(MODELS["nu"]).fit(blocks(X, np.ones(300)))


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("weight", [None, "balanced", {"a": 2.0, "b": 1.0, "c": 0.7}])
def test_several_classes_over_rows(scheme: str, weight: Any) -> None:
    X, _ = samples(900)
    labels = np.array(["a", "b", "c"])[np.clip(np.round(X[:, 1]), -1, 1).astype(int) + 1]
    model = ucm.Logistic() + 0.5 * ucm.L2()
    given = {"multi_class": scheme, "class_weight": weight, "tol": 1e-8}
    rows = ucm.Classifier(model, **given).fit(blocks(X, labels))
    memory = ucm.Classifier(model, **given).fit(X, labels)
    assert rows.coef_ == pytest.approx(memory.coef_, abs=2e-3)
    assert rows.intercept_ == pytest.approx(memory.intercept_, abs=2e-3)
    certificates: Any = rows.certificate_
    assert len(certificates) == 3 and rows.n_iter_.shape == (3,)
    assert np.mean(rows.predict(blocks(X, labels)) == memory.predict(X)) > 0.99
    assert pickle.loads(pickle.dumps(rows)).predict(X[:5]).tolist() == rows.predict(X[:5]).tolist()
    if scheme == "ovr" or weight is not None:
        return
    nu: Any = ucm.Classifier(ucm.models.nu_svm(0.2)).fit(blocks(X, labels))
    assert max(c.relative_gap for c in nu.certificate_) <= 1e-6


def test_the_default_classifier_reads_rows() -> None:
    X, y = samples(3000)
    rows, memory = ucm.Classifier().fit(blocks(X, y)), ucm.Classifier().fit(X, y)
    assert rows.coef_ == pytest.approx(memory.coef_, abs=1e-3)
    assert rows.score(blocks(X, y), y) == pytest.approx(memory.score(X, y), abs=2e-3)


@pytest.mark.parametrize("name", ["nu", "lam", "kappa", "words", "weights"])
def test_a_search_over_rows_scores_as_one_in_memory(name: str) -> None:
    X, y = samples(1200)
    model: Any = {"nu": MODELS["nu"], "kappa": ucm.models.mm_mpm(0.3)}.get(name, ucm.models.svm(1.0))
    values = {"nu": [0.3, 0.5], "kappa": [0.1, 0.4]}.get(name, [1e-3, 1.0, 1e4])
    of_samples: Any = {}
    if name == "words":
        y = np.array(["a", "b", "c"])[np.clip(np.round(X[:, 1]), -1, 1).astype(int) + 1]
    if name == "weights":
        of_samples = {"sample_weight": np.arange(1200) % 2 + 0.0}
    search = ucm.ClassifierCV(model, param_range=values, cv=4)
    rows = search.fit(ucm.open_rows(X, y, block=100, **of_samples))
    memory = ucm.ClassifierCV(model, param_range=values, cv=4).fit(X, y, **of_samples)
    found, expected = (s.cv_results_["mean_test_score"] for s in (rows, memory))
    scored = ~np.isnan(found)
    assert scored.any() and found.size == len(values) and rows.n_splits_ == 4
    assert found[scored] == pytest.approx(expected[scored], abs=0.02)
    best = {f"model__{next(iter(model.params()))}": values[rows.best_index_]}
    assert rows.best_params_ == best
    assert rows.n_features_in_ == 4 and rows.classes_.tolist() == sorted(set(y.tolist()))
    assert rows.score(X, y) == pytest.approx(memory.score(X, y), abs=0.02)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"write param_range=\[...\]"),
        ({"param_range": [0.3], "cv": "loo"}, "cv is a whole number from 2 on"),
        ({"param_range": [0.3], "scoring": "roc_auc"}, "scoring is .* or None"),
        ({"param_range": [0.3], "param_name": "mu"}, "param_name is one of"),
        ({"estimator": ucm.Classifier(kernel="rbf"), "param_range": [0.3]}, "gather"),
    ],
)
def test_a_search_over_rows_refuses_invalid_options(options: Any, words: str) -> None:
    X, y = samples(200)
    with pytest.raises(ucm.UCMError, match=words):
        ucm.ClassifierCV(**{"estimator": MODELS["nu"], **options}).fit(blocks(X, y))


@pytest.mark.parametrize(
    "model",
    [
        (ucm.Hinge() + ucm.Param("lam", 0.5) * ucm.L2()).with_intercept("penalised"),
        ucm.WorstMean(ucm.Hinge(), ucm.CappedSimplex(2, relative=True)) + ucm.Param("lam", 0.05) * ucm.L2(),
    ],
    ids=repr,
)
def test_tuning_over_rows_with_a_further_weight(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.2, 1.0, -1.0)
    search = ucm.ClassifierCV(model, param_name="lam", param_range=[0.02, 0.2], cv=3)
    found = search.fit(ucm.open_rows(X, y))
    again = ucm.Classifier(
        model.with_params(**{k.removeprefix("model__"): v for k, v in found.best_params_.items()})
    )
    assert found.best_score_ > 0.75
    assert np.allclose(found.best_estimator_.coef_, again.fit(X, y).coef_, atol=1e-5)
