"""Passes over rows that several computations share: their results, their number, errors in one of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from row_samples import ObservedSource
from sklearn.datasets import load_iris

import ucm
from ucm import Classifier, ClassifierCV, open_rows
from ucm.data.shared_passes import SharedPasses
from ucm.data.source import Labelled, RowSource
from ucm.errors import DataError


def _count(X: Any, y: Any) -> int:
    return int(y.size)


def _raised(X: Any, y: Any, state: Any, by: float) -> tuple[Any, float]:
    """A state that adds up what the messages said, and the sum of the rows above it."""
    state = (0.0 if state is None else state) + by
    return state, float(X[X[:, 0] > state, 0].sum())


def _plus(a: float, b: float) -> float:
    return a + b


def _climb(source: RowSource, step: float) -> list[Any]:
    states: dict[int, Any] = {}
    found: list[Any] = [source.map_reduce(_count)]
    for _ in range(round(3.0 / step)):
        found.append(source.map_reduce(_raised, step, merge=_plus, states=states))
    return found


def test_shared_passes_equal_separate_passes() -> None:
    """Whatever number of passes each takes, over the rows and over a view of them, with states or without."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 2)), rng.choice(["a", "b"], 300)
    passes: list[int] = []
    alone = open_rows(X, y, block=20)
    shared = SharedPasses(ObservedSource(alone, passes.append))
    steps = [1.0, 0.5, 0.25, 0.3, 1.5, 3.0, 0.2, 0.7, 0.9, 0.6, 0.4, 0.1]
    sources = [shared, Labelled(shared, "b")]
    jobs = [partial(_climb, source, step) for step in steps for source in sources]
    wanted = [_climb(source, step) for step in steps for source in (alone, Labelled(alone, "b"))]
    for found, one in zip(shared.run(jobs), wanted, strict=True):
        assert found[0] == one[0]
        np.testing.assert_allclose(found[1:], one[1:], rtol=1e-12)
    assert len(passes) < sum(map(len, wanted)) / 4


def test_an_error_of_one_computation_leaves_the_others() -> None:
    X, y = np.ones((10, 1)), np.ones(10)
    shared = SharedPasses(open_rows(X, y))
    ended: list[str] = []

    def fails() -> None:
        shared.map_reduce(_count)
        raise DataError("of one")

    def ends() -> None:
        for _ in range(3):
            shared.map_reduce(_count)
        ended.append("here")

    with pytest.raises(DataError, match="of one"):
        shared.run([fails, ends])
    assert ended == ["here"]


def test_an_error_of_a_pass_reaches_every_computation() -> None:
    X, y = np.ones((10, 1)), np.ones(10)

    def stop(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    shared = SharedPasses(ObservedSource(open_rows(X, y), stop))
    met: list[type] = []

    def reads() -> None:
        try:
            for _ in range(3):
                shared.map_reduce(_count)
        except BaseException as error:
            met.append(type(error))
            raise

    with pytest.raises(KeyboardInterrupt):
        shared.run([reads, reads, reads])
    assert met == [KeyboardInterrupt] * 3


def test_folds_values_and_problems_share_their_passes() -> None:
    """Of ClassifierCV with three folds, four values and three pairs of classes over rows."""
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(1)
    X = X + 0.1 * rng.standard_normal(X.shape)
    passes: list[int] = []
    source = ObservedSource(open_rows(X, y, block=30), passes.append)
    classifier = Classifier(ucm.models.nu_svm(0.6))
    search = ClassifierCV(classifier, param_range=[0.5, 0.6, 0.7, 0.8], cv=3).fit(source)
    for fold, (train, test) in enumerate(open_rows(X, y, block=30).split(3)):
        one = Classifier(ucm.models.nu_svm(0.7)).fit(train)
        score = search.cv_results_[f"split{fold}_test_score"][2]
        assert score == pytest.approx(one.score(test), abs=1e-12)
    assert len(passes) < 40  # each fit alone takes three at least, and there are 39
