"""The first pass over rows: its validation and its sample."""

from __future__ import annotations

import numpy as np
import pytest
from row_samples import MODELS, blocks, samples
from scipy import sparse

import ucm
from ucm.data.first_pass import first_pass


def test_a_sample_has_both_classes() -> None:
    X, y = samples(20_000, part=0.001)
    data = first_pass(blocks(X, y))
    assert sum(data.class_sizes) == 20_000 and data.class_sizes[0] == (y > 0).sum()
    assert data.scale == np.abs(X).max()
    assert 500 <= data.sample[1].size <= 2000
    assert set(data.sample[1]) == {-1.0, 1.0}


def test_a_class_with_one_row_a_block_is_met() -> None:
    X, y = samples(4000, 2)
    y[:] = -1.0
    y[50::100] = 1.0
    X[y > 0, 0] += 9.0
    model = ucm.models.nu_svm(0.005)
    rows, memory = ucm.solve(model, blocks(X, y)), ucm.solve(model, X, y)
    assert rows.objective == pytest.approx(memory.objective, abs=1e-6)
    X[:] = 1.0  # blocks that are all alike
    X[y > 0] = 2.0
    assert set(first_pass(blocks(X, y)).sample[1]) == {-1.0, 1.0}
    assert set(first_pass(blocks(sparse.csr_matrix(X), y)).sample[1]) == {-1.0, 1.0}


@pytest.mark.parametrize("large", [slice(0, 1), slice(None)])
def test_squares_that_overflow_are_refused(large: slice) -> None:
    X, y = samples()
    X[large] = 1e200
    with pytest.raises(ucm.DataError, match="scale the features"):
        ucm.solve(ucm.models.mm_mpm(0.3), blocks(X, y))


def test_nan_in_the_last_block_is_named() -> None:
    X, y = samples(500)
    X[-1, 2] = np.nan
    with pytest.raises(ucm.DataError, match=r"entry \(499, 2\) is nan"):
        ucm.solve(MODELS["nu"], blocks(X, y))
    table = sparse.csr_matrix(X)
    with pytest.raises(ucm.DataError, match=r"entry \(499, 2\) is nan"):
        ucm.solve(MODELS["nu"], blocks(table, y))


def test_rows_without_weight_count_in_messages() -> None:
    X, y = samples(500)
    X[471, 2] = np.nan
    weights = (np.arange(500) % 7 != 0).astype(float)
    for table in (X, sparse.csr_matrix(X)):
        rows = ucm.open_rows(table, y, block=100, sample_weight=weights)
        with pytest.raises(ucm.DataError, match=r"entry \(471, 2\) is nan"):
            ucm.solve(MODELS["nu"], rows)


def test_labels_in_one_block_only() -> None:
    X, y = samples(500)
    order = np.argsort(-y, kind="stable")
    rows = ucm.solve(MODELS["nu"], blocks(X[order], y[order], 450))
    assert rows.objective == pytest.approx(ucm.solve(MODELS["nu"], X, y).objective, rel=2e-6)
