"""Models over rows that are read block by block: routes, refusals, paths, and many samples in memory."""

from __future__ import annotations

import importlib
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from row_samples import LOSSES, MODELS, MOMENTS, ObservedSource, blocks, samples
from scipy import sparse
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.data import bound_data
from ucm.data.source import Labelled
from ucm.solvers import ActiveSet, OutOfCoreActiveSet


def test_any_two_labels_are_accepted() -> None:
    X, y = samples(500)
    words = np.where(y > 0, "yes", "no")
    source = Labelled(blocks(X, words), "yes")
    memory = ucm.solve(MODELS["nu"], X, y)
    assert ucm.solve(MODELS["nu"], source).objective == pytest.approx(memory.objective, rel=2e-6)


def test_a_bias_that_rows_do_not_give_says_why() -> None:
    X, y = samples()
    with pytest.raises(ucm.ParameterError, match="over rows that are read block by block"):
        ucm.solve(MODELS["nu"], blocks(X, y), bias_rule="means")


@pytest.mark.parametrize(
    "model",
    [
        ucm.Hull(signed, weights=ucm.NormBall(0.2, p=3.0)),
        ucm.Hull(pos, weights=ucm.NormBall(0.1)) - ucm.ReducedHull(neg, nu=0.4),
        ucm.RobustMargin(ucm.models.nu_svm(0.4), norm=1.0),
        ucm.Hull(pos, weights=ucm.KLBall(0.2)) - ucm.Hull(neg),
        ucm.ReducedHull(pos, nu=0.4) - neg.mean,
        ucm.Logistic() + 0.5 * ucm.L1(),
        ucm.Ramp() + ucm.Logistic() + 0.5 * ucm.L2(),
        ucm.Logistic() + 0.5 * ucm.CappedL1(1.0),
        ucm.WorstMean(ucm.Hinge()) + ucm.Hinge() + 0.5 * ucm.L2(),
    ],
)
def test_other_models_name_the_samples_to_gather(model: Any) -> None:
    with pytest.raises(ucm.DataError, match=r"900 x 4 samples in memory.*gather"):
        ucm.solve(model, blocks(*samples()))
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(MODELS["nu"], blocks(*samples()), kernel="rbf")


def test_functions_for_memory_refuse_rows() -> None:
    rows = blocks(*samples())
    with pytest.raises(ucm.DataError, match=r"900 x 4; bring all of them.*gather"):
        ucm.worst_case(MODELS["nu"], rows, None, np.ones(4))
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.admissible(MODELS["nu"], rows, None)
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.compile(MODELS["nu"], rows).guarantees()
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.compile(MODELS["nu"], rows).certify(w=np.ones(4))


def test_emptiness_names_the_range() -> None:
    with pytest.raises(ucm.EmptySetError, match="nu must be at most"):
        ucm.solve(ucm.models.nu_svm(0.95), blocks(*samples()))


def test_invalid_out_of_core_options_are_refused() -> None:
    X, y = samples()
    with pytest.raises(ucm.ParameterError, match="threads"):
        ucm.open_rows(X, y, threads=0)
    with pytest.raises(ucm.ParameterError, match="budget"):
        OutOfCoreActiveSet(ActiveSet(), budget=0)
    with pytest.raises(ucm.DataError, match="no such file"):
        ucm.solve(MODELS["nu"], "nowhere.npy", y)
    with pytest.raises(ucm.DataError, match="has its own"):
        ucm.solve(MODELS["nu"], blocks(X, y), y)
    assert not bound_data.is_stored(X) and bound_data.is_stored("words")
    with pytest.raises(ucm.DataError, match="path that ends with"):
        ucm.solve(MODELS["nu"], "words", y)
    plan = ucm.compile(MODELS["nu"], blocks(X, y))
    assert "block" in plan.explain() and "out-of-core" in plan.explain()


def test_features_of_a_kernel_block_by_block() -> None:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.preprocessing import StandardScaler

    X, y = samples(900)
    some = Nystroem("rbf", gamma=0.3, n_components=15, random_state=0).fit(X[::3])
    rows = blocks(X, y).mapped(some)
    assert (rows.m, rows.n) == (900, 15) and "Nystroem" in repr(rows)
    assert "Nystroem" in ucm.compile(MODELS["nu"], rows).explain()
    for model in (MODELS["nu"], ucm.models.mm_mpm(0.3)):
        found, memory = ucm.solve(model, rows), ucm.solve(model, some.transform(X), y)
        assert found.objective == pytest.approx(memory.objective, rel=2e-6)
    classifier = ucm.Classifier(MODELS["nu"]).fit(blocks(X, np.where(y > 0, "p", "q")).mapped(some))
    assert np.array_equal(classifier.predict(rows), classifier.predict(some.transform(X)))
    with pytest.raises(ucm.DataError, match="function of a block"):
        blocks(X, y).mapped(3)
    for wrong, match in (
        (np.ravel, "as real numbers, of 1 rows, got ndarray of shape"),
        (
            Nystroem(n_components=5).fit(X[:, :2]),
            "expecting 2 features as input.*fitted to such rows",
        ),
        (Nystroem(), "not fitted yet"),
        (lambda A: A[:, :0], "got ndarray of shape"),
        (lambda A: A.astype(str), "as real numbers"),
        (lambda A: A.tolist(), "a row for each"),
    ):
        with pytest.raises(ucm.DataError, match=match):
            blocks(X, y).mapped(wrong)
    for wrong, match in (
        (lambda A: A[:1], "rows, got ndarray"),
        (lambda A: A[:, : len(A)], "features of every block"),
        (lambda A: A if len(A) == 1 else A["x"], "got an error .*IndexError"),
    ):
        with pytest.raises(ucm.DataError, match=match):
            ucm.solve(MODELS["nu"], blocks(X, y).mapped(wrong))
    objective = ucm.solve(MODELS["nu"], X, y).objective
    framed = StandardScaler(with_mean=False, with_std=False).set_output(transform="pandas").fit(X)
    for right in (framed, sparse.coo_matrix, sparse.csc_array):
        found = ucm.solve(MODELS["nu"], blocks(X, y).mapped(right))
        assert found.objective == pytest.approx(objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="mapped"):
        ucm.solve(MODELS["nu"], blocks(X, y), kernel="rbf")


@pytest.fixture
def out_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 100 samples were many."""
    monkeypatch.setattr(importlib.import_module("ucm.compiler.lowering"), "_MANY", 100)
    monkeypatch.setattr(importlib.import_module("ucm.compiler.out_of_core"), "_LONG", 10)


@pytest.mark.usefixtures("out_of_core")
@pytest.mark.parametrize("name", MODELS)
def test_many_samples_in_memory_are_solved_out_of_core(name: str) -> None:
    X, y = samples()
    plan = ucm.compile(MODELS[name], X, y)
    found = plan.solve()
    other = ucm.solve(MODELS[name], X, y, solver=ActiveSet())
    assert found.stats.solver == "out-of-core" and found.status == "optimal"
    assert found.objective == pytest.approx(other.objective, rel=2e-6)
    assert isinstance(found.weights, np.ndarray)
    assert found.weights.sum() == pytest.approx(known(other.weights).sum())
    assert plan.verify().agrees
    assert plan.certify(w=found.w, weights=found.weights).relative_gap <= 2e-6
    assert found.bias_rule == other.bias_rule and found.b == pytest.approx(other.b, abs=3e-3)


@pytest.mark.usefixtures("out_of_core")
def test_the_out_of_core_active_set_in_memory_has_fallbacks() -> None:
    X, y = samples(600)
    model = MODELS["nu"]
    for rule in ("min_error", "means", "odds", "midpoint"):
        found = ucm.solve(model, X, y, bias_rule=rule)
        other = ucm.solve(model, X, y, bias_rule=rule, solver=ActiveSet())
        assert found.stats.solver == "out-of-core" and found.bias_rule == other.bias_rule == rule
        assert found.b == pytest.approx(other.b, abs=5e-3)
    inside = ucm.solve(ucm.models.nu_svm(0.02), X, y)
    assert inside.status == "local" and inside.objective > 0.0
    seen: list[Any] = []
    free = ucm.solve(model, X, y)
    observers: list[dict[str, Any]] = [{"callback": seen.append}, {"trace": 1}, {"max_iter": 50}]
    for observed in observers:
        watched = ucm.solve(model, X, y, **observed)
        assert watched.stats.solver == "out-of-core" and watched.objective == free.objective
    assert [record["iteration"] for record in seen] == [record["iteration"] for record in free.history]
    stopped = ucm.solve(model, X, y, callback=lambda record: True)
    assert stopped.stats.solver == "out-of-core" and len(stopped.history) == 1
    others: list[dict[str, Any]] = [{"sample_weight": np.arange(1.0, 601.0)}, {"kernel": "linear"}]
    for given in others:
        assert ucm.compile(model, X, y, **given).solver.name != "out-of-core"
    assert ucm.compile(MOMENTS["mm-mpm"], X, y).solver.name == "secular"
    changed = ucm.compile(model, X, y)
    X[0, 0] += 1.0
    with pytest.raises(ucm.DataError, match="changed in place"):
        changed.solve()


@pytest.mark.usefixtures("out_of_core")
def test_the_classifier_is_the_same_by_an_active_set() -> None:
    X, y = samples(2000)
    found = ucm.Classifier(MODELS["nu"]).fit(X, y)
    other = ucm.Classifier(MODELS["nu"], solver="active-set").fit(X, y)
    assert found.solution_.stats.solver == "out-of-core"
    assert found.coef_ == pytest.approx(other.coef_, abs=3e-3)
    assert len(np.setxor1d(found.support_, other.support_)) <= 0.02 * other.support_.size
    assert found.sparsity_.samples == pytest.approx(other.sparsity_.samples, rel=0.02)
    assert pickle.loads(pickle.dumps(found)).predict(X).tolist() == found.predict(X).tolist()


def test_a_table_of_float32_is_not_converted_whole() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_500_000, 20), dtype=np.float32)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0.0, 1, -1)
    model = ucm.models.nu_svm(0.6)
    ucm.solve(model, X[:600], y[:600])
    tracemalloc.start()
    classifier = ucm.Classifier(model).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * X.nbytes  # in double precision it takes twice as much
    plan = ucm.compile(model, X, y)
    found = plan.solve()
    assert "X" not in vars(plan.data) and "X" not in vars(classifier.plan_.data)
    other = ucm.solve(model, X.astype(np.float64), y)
    for solution in (found, classifier.solution_):
        assert solution.stats.solver == "out-of-core" and solution.status == "optimal"
        assert solution.objective == pytest.approx(other.objective, rel=2e-6)
    assert known(found.weights).sum() == pytest.approx(known(other.weights).sum())
    assert plan.certify(w=found.w, weights=found.weights).relative_gap <= 2e-6


@pytest.mark.parametrize("name", [*MODELS, *MOMENTS])
def test_float32_answers_as_float64(name: str) -> None:
    X, y = samples(600)
    X = X.astype(np.float32)
    model = {**MODELS, **MOMENTS}[name]
    found, other = ucm.solve(model, X, y), ucm.solve(model, X.astype(np.float64), y)
    assert found.stats.solver == other.stats.solver and found.objective == other.objective
    changed = ucm.compile(model, X, y)
    X[0, 0] += 1.0
    with pytest.raises(ucm.DataError, match="changed in place"):
        changed.solve()
    for wrong in (np.nan, np.inf, -np.inf):
        X[3, 1] = wrong
        with pytest.raises(ucm.DataError, match=r"entry \(3, 1\) is"):
            ucm.compile(model, X, y)


def test_few_samples_are_solved_in_memory() -> None:
    X, y = samples(600)
    assert ucm.compile(MODELS["nu"], X, y).solver.name == "active-set"


def test_a_path_over_rows_looks_at_them_once() -> None:
    X, y = samples(3000)
    grids: list[tuple[Any, dict[str, Any]]] = [
        (MODELS["nu"], {"nu": [0.3, 0.4, 0.5]}),
        (MOMENTS["mm-mpm"], {"kappa": [0.2, 0.4]}),
        (LOSSES["p = 2"], {"C": [0.1, 1.0]}),
    ]
    for model, values in grids:
        source = ObservedSource(blocks(X, y, 500), lambda number: None)
        found = ucm.path(model, source, **values)
        memory = ucm.path(model, X, y, **values)
        assert [s.status for s in found] == ["optimal"] * len(memory)
        for ours, theirs in zip(found, memory, strict=True):
            assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)
        # a solve counts the first pass as its own; it was one for all
        reads = sum(s.stats.reads - 1 for s in found) if model != MOMENTS["mm-mpm"] else 0
        assert source.number == 1 + reads
    skipped = ucm.path(MODELS["nu"], blocks(X, y), nu=[0.4, 0.99], on_empty="skip")
    assert len(skipped) == 1 and 0.99 in skipped.skipped
    refused: list[dict[str, Any]] = [{"n_values": 3}, {"nu": "all"}, {"nu": [0.4], "kernel": "rbf"}]
    for options in refused:
        with pytest.raises(ucm.DataError, match="gather"):
            ucm.path(MODELS["nu"], blocks(X, y), **options)
