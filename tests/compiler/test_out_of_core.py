"""Models over rows that are read block by block: routes, refusals and paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from row_samples import LOSSES, MODELS, MOMENTS, ObservedSource, blocks, samples
from scipy import sparse

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


@pytest.mark.parametrize("name", [*MODELS, *MOMENTS])
def test_float32_answers_as_float64(name: str) -> None:
    X, y = samples(600)
    X = X.astype(np.float32)
    model = {**MODELS, **MOMENTS}[name]
    found, other = ucm.solve(model, X, y), ucm.solve(model, X.astype(np.float64), y)
    assert found.stats.solver == other.stats.solver and found.objective == other.objective
    copied = ucm.compile(model, X, y)
    X[0, 0] += 1.0
    assert copied.solve().objective == found.objective
    for wrong in (np.nan, np.inf, -np.inf):
        X[3, 1] = wrong
        with pytest.raises(ucm.DataError, match=r"entry \(3, 1\) is"):
            ucm.compile(model, X, y)


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
