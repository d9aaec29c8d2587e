"""Binding samples: what is accepted, what is copied, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ucm
from ucm.data.bound_data import Space, bind
from ucm.data.linear_map import psd_root
from ucm.errors import DataError, ParameterError

RNG = np.random.default_rng(8)
Y = np.array([1.0, -1.0, 1.0, -1.0, -1.0])
X = RNG.standard_normal((5, 3))


def test_no_copy_where_none_is_needed() -> None:
    data = bind(X, Y)
    assert data.X is X or np.shares_memory(data.X, X)
    thin = sparse.csr_matrix(X)
    assert np.shares_memory(bind(thin, Y).X.data, thin.data)
    assert (data.m, data.n, data.stored) == (5, 3, 15)
    assert data.scale == np.abs(X).max() and bind(0 * X, Y).scale == 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda X: X.astype(np.float32), np.asfortranarray, lambda X: X.tolist(), pd.DataFrame,
        lambda X: X[::-1][::-1], sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array,
        lambda X: sparse.csr_matrix(X.astype(np.float32)), lambda X: X.astype(object),
        lambda X: np.ma.masked_array(X), lambda X: sparse.lil_matrix(X), sparse.dok_matrix,
    ],
)  # fmt: skip
def test_samples_of_every_kind(make: Any) -> None:
    given = make(X.round(3))
    data = bind(given, Y.tolist())
    assert data.X.dtype == np.float64 and data.X.shape == X.shape
    assert sparse.issparse(data.X) == sparse.issparse(given)
    dense = data.X.toarray() if sparse.issparse(data.X) else data.X
    np.testing.assert_allclose(dense, X.round(3), atol=1e-6)


def test_integers_booleans_and_duplicated_sparse_entries() -> None:
    np.testing.assert_array_equal(bind(np.array([[1], [0]], dtype=np.uint8), [1, -1]).X, [[1.0], [0.0]])
    np.testing.assert_array_equal(bind(np.array([[True], [False]]), [1, -1]).X, [[1.0], [0.0]])
    twice = sparse.csr_matrix(([1.0, 2.0, 5.0], [0, 0, 0], [0, 2, 3]), shape=(2, 1))
    data = bind(twice, [1, -1])
    np.testing.assert_array_equal(data.X.toarray(), [[3.0], [5.0]])
    assert twice.nnz == 3  # the caller's matrix stays as it was


@pytest.mark.parametrize(
    "y", [Y, Y.astype(int), Y.astype(np.int8), Y[:, None], pd.Series(Y), [1, -1, 1, -1, -1]]
)
def test_labels_of_every_kind(y: Any) -> None:
    np.testing.assert_array_equal(bind(X, y).y, Y)


def test_statistics_of_classes_agree_with_numpy() -> None:
    data = bind(X, Y)
    for kind, part in (("pos", X[Y > 0]), ("neg", X[Y < 0]), ("signed", Y[:, None] * X)):
        np.testing.assert_allclose(data.mean(kind), part.mean(0), atol=1e-14)
        np.testing.assert_allclose(data.covariance(kind), np.cov(part.T, bias=True), atol=1e-14)
        assert data.samples(kind).shape == (3, len(part)) == (3, data.rows(kind).size)
    calls = []
    assert data.once("key", lambda: calls.append(1)) is data.once("key", lambda: calls.append(1))
    assert calls == [1]


BAD = [
    (np.where(np.eye(5, 3) > 0, np.nan, X), Y, r"entry \(0, 0\) is nan.*SimpleImputer"),
    (np.where(np.arange(15).reshape(5, 3) == 7, np.inf, X), Y, r"entry \(2, 1\) is inf"),
    (np.where(np.arange(15).reshape(5, 3) == 7, -np.inf, X), Y, r"entry \(2, 1\) is -inf"),
    (sparse.csr_matrix(np.where(np.arange(15).reshape(5, 3) == 7, np.nan, X)), Y, r"entry \(2, 1\) is nan"),
    (X[:0], Y[:0], "0 rows|none"),
    (X[:, :0], Y, r"expected features, got none \(shape \(5, 0\)\)"),
    (sparse.csr_matrix((0, 3)), Y[:0], "none"),
    (sparse.csr_matrix((5, 0)), Y, "features"),
    (X[0], Y, r"reshape one feature with X.reshape\(-1, 1\)"),
    (X[None], Y, "3 dimension"),
    (3.0, Y, "expected a table"),
    ([["a", "b"]] * 5, Y, "numbers"),
    (np.array([["a"]] * 5), Y, "numbers"),
    ([[1.0], [1.0, 2.0], [1.0], [1.0], [1.0]], Y, "X"),
    (X.astype(complex), Y, "real|numbers"),
    (sparse.csr_matrix(X.astype(complex)), Y, "real numbers"),
    (None, Y, "X"),
    ("X.csv", Y, "X"),
    (pd.DataFrame({"a": list("abcde")}), Y, "numbers"),
    (np.array([["2020-01-01"]] * 5, dtype="datetime64[D]"), Y, "numbers"),
    (X, Y[:4], "5 labels, one per row of X, got 4"),
    (X, np.append(Y, 1.0), "5 labels, one per row of X, got 6"),
    (X, np.ones(5), r"two classes, got one class \(all labels are \+1\)"),
    (X, -np.ones(5), r"all labels are -1"),
    (X, [1, -1, 2, -1, 1], "-1, 1, 2"),
    (X, [0.5, -1, 1, -1, 1], "0.5"),
    (X, list("abcab"), "two classes, got 3.*ucm.Classifier takes several"),
    (X, list("aaaaa"), "two classes, got one class.*add samples of the other class"),
    (X, [1.0, np.nan, 1.0, 1.0, 1.0], "missing"),
    (X, [1, -1, np.nan, 1, -1], "nan"),
    (X, [1, -1, None, 1, -1], "labels|nan"),
    (X, np.array([[1, -1]] * 5), "one label per sample"),
    (X, None, "y"),
    (X, 1.0, "y"),
    (X, [1j, -1, 1, 1, -1], "y"),
    (X, [b"a", b"b", b"a", b"a", b"b"], r"numbers or strings.*got \[b'a', b'b'\].*decode"),
    (X, sparse.csr_matrix(Y), "y"),
]  # fmt: skip


@pytest.mark.parametrize(("X", "y", "words"), BAD, ids=[str(k) for k in range(len(BAD))])
def test_unusable_samples_and_labels_are_refused(X: Any, y: Any, words: str) -> None:
    for use in (
        lambda: bind(X, y),
        lambda: ucm.compile(ucm.models.mm_fda(0.1), X, y),
        lambda: ucm.admissible(ucm.models.nu_svm(0.1), X, y),
    ):
        with pytest.raises(DataError, match=words) as error:
            use()
        assert error.value.__cause__ is None or not isinstance(error.value.__cause__, DataError)


ANY_LABELS = {
    "strings": (["no", "yes"], None),
    "numbers": ([0, 1], None),
    "booleans": ([False, True], None),
    "the smaller one": (["yes", "no"], "no"),
    "exchanged": ([1.0, -1.0], -1),
}


@pytest.mark.parametrize("case", ANY_LABELS)
def test_two_labels_stand_for_the_classes(case: str) -> None:
    """The class +1 is `pos_label`, or has the larger label: as with the labels -1 and +1 written out."""
    labels, pos_label = ANY_LABELS[case]
    A, t = ucm.datasets.load("wine")
    y = np.array(labels)[(t > 0).astype(int)]
    given: dict[str, Any] = {} if pos_label is None else {"pos_label": pos_label}
    U = ucm.models.biased_l2_nu_svm(0.2, 0.4)  # another classifier when the classes are exchanged
    expected = ucm.solve(U, A, t)
    assert ucm.solve(U, A, y, **given).objective == pytest.approx(expected.objective, rel=1e-9)
    assert ucm.path(U, A, y, kappa_pos=[0.2], **given)[0].objective == pytest.approx(
        expected.objective, rel=1e-5
    )
    direction = np.ones(A.shape[1])
    assert ucm.support(U, A, y, direction, **given).value == ucm.support(U, A, t, direction).value
    nu = ucm.models.nu_svm(0.3)
    assert ucm.admissible(nu, A, y, **given) == ucm.admissible(nu, A, t)
    classifier = ucm.Classifier(U, pos_label=pos_label).fit(A, y)
    assert classifier.classes_.tolist() == sorted(labels) and classifier.pos_label_ == labels[1]
    assert classifier.score(A, y) > 0.9
    assert classifier.solution_.objective == pytest.approx(expected.objective, rel=1e-5)
    weighted = ucm.solve(ucm.models.svm(1.0), A, y, class_weight={labels[1]: 2.0}, **given)
    assert weighted.objective == pytest.approx(
        ucm.solve(ucm.models.svm(1.0), A, t, class_weight=(2.0, 1.0)).objective, rel=1e-5
    )
    rows = ucm.open_rows(A, y, block=40)
    found = ucm.solve(nu, rows, pos_label=labels[1])
    assert found.objective == pytest.approx(ucm.solve(nu, A, t).objective, rel=1e-5)


def test_a_positive_label_that_no_sample_has() -> None:
    for use in (
        lambda: ucm.solve(ucm.models.nu_svm(0.3), X, list("abbab"), pos_label="c"),
        lambda: ucm.Classifier(ucm.models.nu_svm(0.3), pos_label="c").fit(X, list("abbab")),
    ):
        with pytest.raises(DataError, match="pos_label: expected one of the labels 'a' and 'b'"):
            use()
    with pytest.raises(DataError, match="pos_label: expected two classes, got 3"):
        ucm.Classifier(ucm.models.nu_svm(0.3), pos_label="a").fit(X, list("abcab"))


@pytest.mark.parametrize("weight", [(0.0, 1.0), (1.0, -1.0), (np.nan, 1.0), (np.inf, 1.0)])
def test_class_weights_are_positive(weight: tuple[float, float]) -> None:
    with pytest.raises(ParameterError, match="positive"):
        ucm.compile(ucm.models.nu_svm(0.3), X, Y, class_weight=weight)


@pytest.mark.parametrize("q", [1.0, 1.2, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_a_dual_vector_attains_the_norm(q: float, scale: float) -> None:
    space = Space()
    x = scale * np.array([0.3, -1.0, 0.0, 2.0])
    p = np.inf if q == 1 else (1.0 if q == np.inf else q / (q - 1))
    w = space.dual_vector(x, q)
    assert space.norm(x, q) == pytest.approx(scale * np.linalg.norm(x / scale, q), rel=1e-14)
    assert space.norm(w, p) == pytest.approx(1.0, rel=1e-12)
    assert space.inner(w, x / scale) == pytest.approx(space.norm(x, q) / scale, rel=1e-12)
    assert not space.dual_vector(0 * x, q).any() and space.norm(0 * x, q) == 0.0


def test_the_root_of_a_covariance_is_exact_in_every_feature() -> None:
    """Features from 1e-2 to 1e8: eigenvalues of the covariance itself lose the small ones."""
    draw = np.random.default_rng(0).standard_normal((40, 8))
    sizes = np.logspace(-2.0, 8.0, 8)
    S = np.cov((draw * sizes).T)
    F = psd_root(S)
    assert np.abs((F @ F.T - S) / np.outer(sizes, sizes)).max() <= 1e-13
    S[:, 3] = S[3] = 0.0  # a constant feature
    F = psd_root(S)
    assert F.shape == (8, 7) and not F[3].any()
    assert psd_root(np.zeros((3, 3))).shape == (3, 1)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_the_mean_of_features_0_and_1_is_exact(make: Any) -> None:
    """Sums of 1 / m drift: those of 30,000 samples by 1e-13, and a point of two sets is no common one."""
    ones = [29_999, 23_456, 7, 30_000]
    A = np.array([np.arange(30_000) < k for k in ones], dtype=np.float64).T
    data = bind(make(np.vstack([A, -A])), np.repeat([1.0, -1.0], 30_000))
    assert (data.mean("pos") == np.array(ones) / 30_000).all()
    assert (data.mean("neg") == -np.array(ones) / 30_000).all()
