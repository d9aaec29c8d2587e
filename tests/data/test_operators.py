"""Linear maps against dense NumPy; sparse data stay sparse."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm.data.bound_data import bind
from ucm.data.linear_map import (
    ComposedMap,
    HStack,
    IdentityMap,
    LinearMap,
    MatrixMap,
    SampleMap,
    VStack,
    centered_map,
    row_norms,
    zero_map,
)
from ucm.data.moments import weighted_sums

RNG = np.random.default_rng(2)
X = np.where(RNG.random((9, 4)) < 0.4, 0.0, RNG.standard_normal((9, 4)))
S = np.where(np.arange(9) % 3 == 0, -1.0, 1.0)
M = RNG.standard_normal((3, 4))
K = RNG.standard_normal((2, 9))
CSR = sparse.csr_matrix
CENTERED = ((X - X.mean(0)) / 3.0).T

TWICE = SampleMap(CSR(X))
MAPS: dict[str, tuple[LinearMap, np.ndarray]] = {
    "samples": (SampleMap(X), X.T),
    "signed samples": (SampleMap(X, S), X.T * S),
    "sparse samples": (SampleMap(CSR(X)), X.T),
    "sparse signed samples": (SampleMap(CSR(X), S), X.T * S),
    "sparse array samples": (SampleMap(sparse.csr_array(X), S), X.T * S),
    "centred": (centered_map(X, X.mean(0)), CENTERED),
    "sparse centred": (centered_map(CSR(X), X.mean(0)), CENTERED),
    "matrix": (MatrixMap(M), M),
    "sparse matrix": (MatrixMap(CSR(M)), M),
    "identity": (IdentityMap(4, -0.5), -0.5 * np.eye(4)),
    "zero": (zero_map(4, 9), np.zeros((4, 9))),
    "composed": (ComposedMap(SampleMap(X, S), M, 2.0), 2.0 * M @ (X.T * S)),
    "composed, sparse outside": (ComposedMap(SampleMap(X), CSR(M)), M @ X.T),
    "composed, sparse inside": (ComposedMap(SampleMap(CSR(X)), M), M @ X.T),
    "composed, both sparse": (ComposedMap(centered_map(CSR(X), X.mean(0)), CSR(M)), M @ CENTERED),
    "factor": (ComposedMap(SampleMap(X), None, -3.0), -3.0 * X.T),
    "stacked": (HStack(SampleMap(X), IdentityMap(4), SampleMap(X, S)),
                np.hstack([X.T, np.eye(4), X.T * S])),
    "stacked, sparse": (HStack(SampleMap(CSR(X)), SampleMap(X)), np.hstack([X.T, X.T])),
    "rows": (VStack([(2.0, 4, SampleMap(X)), (1.0, 3, None), (0.5, 2, MatrixMap(K))], 9),
             np.vstack([2 * X.T, np.zeros((3, 9)), 0.5 * K])),
    "one row": (VStack([(2.0, 4, SampleMap(CSR(X)))], 9), 2 * X.T),
    "rows of zeros": (VStack([(1.0, 2, None), (3.0, 4, zero_map(4, 9))], 9), np.zeros((6, 9))),
    "rows of one map": (
        VStack([(2.0, 4, TWICE), (1.0, 3, None), (1.0, 4, TWICE.scaled(-0.5))], 9),
        np.vstack([2 * X.T, np.zeros((3, 9)), -0.5 * X.T]),
    ),
    "rows, sparse": (VStack([(1.0, 4, SampleMap(CSR(X))), (-1.0, 2, MatrixMap(CSR(K)))], 9),
                     np.vstack([X.T, -K])),
    "scaled": (SampleMap(X).scaled(2.0).scaled(-0.5), -X.T),
    "scaled identity": (IdentityMap(3, 2.0).scaled(0.5), np.eye(3)),
}  # fmt: skip
each = pytest.mark.parametrize(("A", "D"), MAPS.values(), ids=MAPS)


@each
def test_an_operator_agrees_with_its_matrix(A: LinearMap, D: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    q, w, Q = (rng.standard_normal(s) for s in (D.shape[1], D.shape[0], (D.shape[1], 3)))
    assert A.shape == D.shape
    np.testing.assert_allclose(A.matvec(q), D @ q, atol=1e-13)
    np.testing.assert_allclose(A.rmatvec(w), D.T @ w, atol=1e-13)
    np.testing.assert_allclose(A.matmat(Q), D @ Q, atol=1e-13)
    np.testing.assert_allclose(A.column_norms(), np.linalg.norm(D, axis=0), atol=1e-13)
    whole = A.matrix()
    np.testing.assert_allclose(whole.toarray() if sparse.issparse(whole) else whole, D, atol=1e-13)
    for d in (np.ones(D.shape[1]), rng.random(D.shape[1]), np.arange(D.shape[1]) % 2.0, 0.0 * q):
        gram = A.weighted_gram(d)
        assert isinstance(gram, np.ndarray)
        np.testing.assert_allclose(gram, (D * d) @ D.T, atol=1e-12)


@each
def test_sizes_bound_the_sums_of_absolute_values(A: LinearMap, D: np.ndarray) -> None:
    q = np.random.default_rng(5).standard_normal(A.shape[1])
    assert np.all(A.sizes(q) >= abs(D) @ np.abs(q) * (1.0 - 1e-14))
    constant = centered_map(np.full((9, 1), 3.0), np.array([3.0]))
    assert constant.sizes(np.ones(9)) == pytest.approx([18.0])


@each
def test_rmatvec_is_the_adjoint(A: LinearMap, D: np.ndarray) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        q, w = rng.standard_normal(A.shape[1]), rng.standard_normal(A.shape[0])
        assert w @ A.matvec(q) == pytest.approx(A.rmatvec(w) @ q, abs=1e-12)


@each
def test_inputs_are_left_alone_and_may_be_strided(A: LinearMap, D: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    q, w = rng.standard_normal(2 * D.shape[1])[::2], rng.standard_normal(2 * D.shape[0])[::-2]
    before = q.copy(), w.copy()
    for v in (q, w):
        v.flags.writeable = False
    np.testing.assert_allclose(A.matvec(q), D @ q, atol=1e-13)
    np.testing.assert_allclose(A.rmatvec(w), D.T @ w, atol=1e-13)
    np.testing.assert_array_equal(A.matvec(q), A.matvec(q))
    np.testing.assert_array_equal(q, before[0])
    np.testing.assert_array_equal(w, before[1])
    out = A.matvec(q)
    out += 1.0  # a result is the caller's own
    np.testing.assert_allclose(A.matvec(q), D @ q, atol=1e-13)


def test_the_cost_is_that_of_stored_entries() -> None:
    assert SampleMap(X).entries == 36 and SampleMap(CSR(X)).entries == np.count_nonzero(X)
    assert centered_map(CSR(X), X.mean(0)).entries == np.count_nonzero(X)
    assert HStack(SampleMap(X), SampleMap(X)).entries == 72
    assert zero_map(3, 4).entries == 0
    assert ComposedMap(SampleMap(X), M).entries == 36 + 12


def test_row_norms_cancel_nothing_that_matters() -> None:
    big = 1e6 + X
    exact = np.linalg.norm(X - X.mean(0), axis=1)
    np.testing.assert_allclose(row_norms(big, big.mean(0)), exact, rtol=1e-8)
    np.testing.assert_allclose(row_norms(CSR(X), X.mean(0)), exact, rtol=1e-12)
    assert not np.isnan(row_norms(CSR(np.ones((3, 2))), np.ones(2))).any()


def test_covariances_of_equal_sparse_samples_are_zero() -> None:
    """Without cancellation: full columns are centred before squares are taken, as those of dense samples."""
    rng = np.random.default_rng(0)
    for repeats in (2, 3, 7):
        row = np.where(rng.random(12) < 0.3, 0.0, rng.standard_normal(12))
        gram, total = weighted_sums(CSR(np.tile(row, (repeats, 1))), np.ones(repeats), row)
        assert not gram.any() and not total.any()
    far = X + np.array([1e8, 0.0, -1e6, 0.0])
    d = rng.random(9)
    for given, wanted in zip(
        weighted_sums(CSR(far), d, far.mean(0)), weighted_sums(far, d, far.mean(0)), strict=True
    ):
        np.testing.assert_allclose(given, wanted, rtol=1e-12, atol=1e-7)


def test_far_samples_are_centred_exactly_and_others_not_at_all() -> None:
    y = np.where(np.arange(9) % 2, 1.0, -1.0)
    shift = np.array([2.0**20, 0.0, -(2.0**30), 0.0])
    for convert in (np.asarray, CSR):
        near, far = bind(convert(X), y), bind(convert(np.round(X * 64) / 64 + shift), y)
        assert near.centred is near
        centred = far.centred
        assert centred.as_given is far and not centred.origin[[1, 3]].any()
        table = centred.X.toarray() if sparse.issparse(centred.X) else centred.X
        np.testing.assert_array_equal(table + centred.origin, np.round(X * 64) / 64 + shift)
        assert np.abs(table).max() < 4.0
    assert not bind(CSR(np.full((9, 1), 3.7)), y).centred.X.nnz
    reach = float(np.ptp(X, axis=0).max())
    for convert in (np.asarray, CSR):  # a constant feature cancels, unless it is large beside the others
        within, beyond = (convert(np.column_stack([X, np.full(9, c * reach)])) for c in (4.0, 11.0))
        data = bind(within, y)
        assert data.centred is data and bind(beyond, y).centred.origin[-1] == 11.0 * reach


def refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a sparse matrix was made dense")


def test_sparse_samples_are_never_densified(monkeypatch: pytest.MonkeyPatch) -> None:
    import ucm

    rng = np.random.default_rng(6)
    X = sparse.random(300, 4000, density=0.005, format="csr", random_state=7)  # pyright: ignore[reportCallIssue]  # SciPy 1.13 calls it so
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    models = (ucm.models.mm_mpm(0.3), ucm.models.mm_fda(0.3), ucm.models.nu_svm(0.5))
    for U in models:  # load what is compiled
        ucm.solve(U, X[:, :30], y, solver="apg", tol=0.5)
    for cls in (sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array, sparse.csc_array):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(cls, name, refuse)
    tracemalloc.start()
    try:
        for U in models:
            assert ucm.solve(U, X, y, solver="apg", tol=1e-3).status == "optimal"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 300 * 4000  # one dense copy of X
    data = bind(X, y)
    for kind in ("pos", "neg", "signed"):
        for A in (data.samples(kind), data.covariance_factor(kind)):
            q, w = rng.standard_normal(A.shape[1]), rng.standard_normal(A.shape[0])
            assert w @ A.matvec(q) == pytest.approx(A.rmatvec(w) @ q, abs=1e-10)
            A.column_norms()
            A.matmat(q[:, None])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_the_matrix_of_a_form_is_its_product(convert: Any) -> None:
    U = ucm.models.nu_svm(0.6) + ucm.Ball(np.ones(4), 0.1)
    form = ucm.compile(U, convert(X), np.where(np.arange(9) % 2 == 0, 1.0, -1.0)).form
    q = [RNG.standard_normal(b.map.shape[1]) for b in form.blocks]
    assert np.allclose(form.center + form.matrix() @ np.concatenate(q), form.matvec(q))
