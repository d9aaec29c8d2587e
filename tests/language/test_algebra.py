"""Arithmetic of samples, statistics, vectors and sets, from either side of every operator."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from typed import untyped

import ucm
from ucm import Param, neg, pos, signed
from ucm.data.bound_data import bind
from ucm.errors import CompositionError
from ucm.language.sets import LinearCombination
from ucm.language.statistics.affine import MatrixNode, VectorNode, stacked_factors

RNG = np.random.default_rng(5)
Y = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
X = RNG.standard_normal((7, 3)) + 2.0 * Y[:, None]
DATA = bind(X, Y)
P, N = X[Y > 0], X[Y < 0]
V = np.array([1.0, -2.0, 0.5])


def combined(*parts: tuple[Any, Any]) -> LinearCombination:
    """The combination of these pairs of a set and its factor."""
    return LinearCombination(tuple((L, U) for U, L in parts))


def at(node: Any) -> np.ndarray:
    return node.evaluate(DATA)


# --- statistics ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("node", "value"),
    [
        (pos.mean, P.mean(0)),
        (signed.mean, (Y[:, None] * X).mean(0)),
        (pos.mean - neg.mean, P.mean(0) - N.mean(0)),
        (-pos.mean, -P.mean(0)),
        (2 * pos.mean - neg.mean / 4, 2 * P.mean(0) - N.mean(0) / 4),
        (pos.mean * np.float64(0.5) + np.float32(2) * neg.mean, 0.5 * P.mean(0) + 2 * N.mean(0)),
        (np.array(3.0) * pos.mean, 3 * P.mean(0)),
        (pos.mean + V, P.mean(0) + V),
        (V + pos.mean, P.mean(0) + V),
        (V - pos.mean, V - P.mean(0)),
        (pos.mean - V, P.mean(0) - V),
        (pos.mean - V.tolist(), P.mean(0) - V),
        (V.tolist() - pos.mean, V - P.mean(0)),
        (tuple(V) - pos.mean, V - P.mean(0)),
        (V.astype(np.float32) + pos.mean - V + 2 * (V + neg.mean), P.mean(0) + 2 * V + 2 * N.mean(0)),
        (pos.mean + 0, P.mean(0)),
        (0 - pos.mean, -P.mean(0)),
        (0.0 * pos.mean, np.zeros(3)),
    ],
)  # fmt: skip
def test_a_vector_has_its_value(node: VectorNode, value: np.ndarray) -> None:
    assert isinstance(node, VectorNode) and node.dimension(3) == 3
    np.testing.assert_allclose(at(node), value, atol=1e-14)
    np.testing.assert_allclose(at(ucm.Point(node).vector), value, atol=1e-14)


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (pos.cov, np.cov(P.T, bias=True)),
        (0.5 * pos.cov + neg.cov, 0.5 * np.cov(P.T, bias=True) + np.cov(N.T, bias=True)),
        (pos.cov + np.eye(3), np.cov(P.T, bias=True) + np.eye(3)),
        (np.eye(3) + pos.cov, np.cov(P.T, bias=True) + np.eye(3)),
        (np.eye(3).tolist() + pos.cov / 2, np.cov(P.T, bias=True) / 2 + np.eye(3)),
        (2 * (pos.cov + np.diag([1.0, 0.0, 2.0])) + np.eye(3),
         2 * np.cov(P.T, bias=True) + np.diag([3.0, 1.0, 5.0])),
        (sparse.csr_matrix(np.eye(3)) + pos.cov, np.cov(P.T, bias=True) + np.eye(3)),
        (pos.cov + sparse.csr_array(np.eye(3)), np.cov(P.T, bias=True) + np.eye(3)),
        (0 * pos.cov, np.zeros((3, 3))),
    ],
)  # fmt: skip
def test_a_matrix_has_its_value(node: MatrixNode, value: np.ndarray) -> None:
    assert isinstance(node, MatrixNode) and node.dimension(3) == 3
    np.testing.assert_allclose(at(node), value, atol=1e-13)
    F = stacked_factors(node, DATA).matrix()
    F = F.toarray() if sparse.issparse(F) else F
    np.testing.assert_allclose(F @ F.T, value, atol=1e-13)


REFUSED: list[tuple[Any, str]] = [
    (lambda: 2 * pos, r"did you mean 2 \* Hull\(pos\)\?"),
    (lambda: pos * 0.5, r"did you mean 0.5 \* Hull\(pos\)\?"),
    (lambda: np.float64(2) * pos, r"Hull\(pos\)"),
    (lambda: V * pos, r"\* Hull\(pos\)"),
    (lambda: pos / 2, r"did you mean Hull\(pos\)"),
    (lambda: pos - neg, r"did you mean Hull\(pos\), or pos.mean\?"),
    (lambda: -signed, r"did you mean Hull\(signed\)"),
    (lambda: pos + V, "samples, not a set"),
    (lambda: V + pos, "samples, not a set"),
    (lambda: np.eye(3) @ pos, "samples, not a set"),
    (lambda: pos & ucm.Hull(neg), "samples, not a set"),
    (lambda: ucm.Hull(neg) & pos, r"did you mean Hull\(pos\)\?"),
    (lambda: ucm.Hull(pos) - neg, r"did you mean Hull\(neg\)\?"),
    (lambda: neg + ucm.Hull(pos), "samples, not a set"),
    (lambda: pos.mean @ pos, "@ takes a matrix and a set"),
    (lambda: pos.mean @ ucm.Hull(pos), "@ takes a matrix and a set"),
    (lambda: np.eye(3) @ pos.mean, r"write M @ Point\(pos.mean\)"),
    (lambda: pos.mean | neg.mean, r"got pos.mean and neg.mean; write Point"),
    (lambda: pos.mean & V, r"write Point"),
    (lambda: V.tolist() | pos.mean, r"write Point\(pos.mean\)"),
    (lambda: pos.mean | pos, r"did you mean Hull\(pos\), or pos.mean\?"),
    (lambda: pos | pos.mean, r"did you mean Hull\(pos\), or pos.mean\?"),
    (lambda: pos.mean | 3.0, "got pos.mean and 3.0; write"),
    (lambda: pos.cov & pos.mean, r"a covariance shapes one, as in Ellipsoid\(pos.mean, pos.cov"),
    (lambda: pos.cov | ucm.Hull(pos), "expected a set or a vector of feature space, got pos.cov"),
    (lambda: pos.mean * neg.mean, "multiplied by finite numbers and Params"),
    (lambda: pos.mean * V, "multiplied by finite numbers and Params"),
    (lambda: V * pos.mean, "multiplied by finite numbers and Params"),
    (lambda: np.inf * pos.mean, "multiplied by finite numbers and Params"),
    (lambda: pos.mean / 0, "other than 0"),
    (lambda: pos.mean + 3, "give an array of n numbers"),
    (lambda: pos.mean + "abc", "."),
    (lambda: pos.mean + None, "."),
    (lambda: pos.mean + np.eye(3), "one axis"),
    (lambda: pos.mean + V + V[:2], "dimension, got 2 and 3"),
    (lambda: pos.mean + pos.cov, "."),
    (lambda: pos.cov - neg.cov, "difference of covariances"),
    (lambda: pos.cov - np.eye(3), "difference of covariances"),
    (lambda: np.eye(3) - untyped.pos.cov, "difference of covariances"),
    (lambda: -1 * pos.cov, "must not be negative"),
    (lambda: -untyped.pos.cov, "."),
    (lambda: pos.cov / 0, "other than 0"),
    (lambda: untyped.pos.cov @ neg.cov, "."),
    (lambda: pos.cov @ ucm.Hull(pos), "."),
    (lambda: pos.cov + 1.0, "square matrix"),
    (lambda: pos.cov + V, "square matrix"),
    (lambda: pos.cov + np.eye(2) + np.eye(3), "dimension, got 2 and 3"),
    (lambda: ucm.Ellipsoid(pos.mean, np.array([[1.0, 2.0], [0.0, 1.0]]), 1), "symmetric"),
    (lambda: ucm.Ellipsoid(pos.mean, -np.eye(2), 1), "positive semidefinite"),
    (lambda: ucm.Ellipsoid(pos.mean, np.ones((2, 3)), 1), "square"),
    (lambda: untyped.Ellipsoid(pos.mean, pos.mean, 1), "square matrix"),
    (lambda: untyped.Ellipsoid(pos.cov, pos.cov, 1), "expected a vector"),
    (lambda: untyped.Point(pos), "expected a vector"),
    (lambda: untyped.Point("ab"), "expected a vector"),
    (lambda: untyped.Point(sparse.csr_matrix(V)), "."),
    (lambda: untyped.Hull(pos.mean), "expected pos, neg, signed or an array of points"),
    (lambda: untyped.Hull(X[0]), "expected an array of points, one a row"),
    (lambda: untyped.Hull(pos, weights=0.3), "weights: expected a Domain or None"),
    (lambda: untyped.Hull(pos, weights=ucm.Hull(pos)), "weights: expected a Domain or None"),
    (lambda: ucm.ReducedHull(signed, nu=0.3), r"Hull\(signed, weights=CappedSimplex\(cap\)\)"),
    (lambda: ucm.ReducedHull(pos), "exactly one of eta and nu"),
    (lambda: ucm.ReducedHull(pos, eta=0.5, nu=0.5), "exactly one of eta and nu"),
    (lambda: ucm.AffineImage(V, ucm.Simplex()), "two-dimensional array"),
    (lambda: untyped.AffineImage(np.eye(3), ucm.Hull(pos)), "expected a Domain"),
    (lambda: ucm.AffineImage(np.zeros((0, 2)), ucm.Simplex()), "rows and columns"),
    (lambda: ucm.Ball(pos.mean, 1, p=0.5), "."),
    (lambda: untyped.Ball(pos.mean, 1, p=Param("p", 2)), "."),
    (lambda: untyped.Ball(pos.mean, "1"), "real number"),
    (lambda: untyped.Ball(pos.mean, [1.0]), "."),
    (lambda: ucm.Hull(pos) * ucm.Hull(neg), "two sets do not multiply"),
    (lambda: ucm.Hull(pos) * V, "multiplied by a number"),
    (lambda: V * ucm.Hull(pos), "multiplied by a number"),
    (lambda: np.nan * ucm.Hull(pos), "a real number"),
    (lambda: True * ucm.Hull(pos), "multiplied by a number"),
    (lambda: ucm.Hull(pos) / 0, "finite number other than 0"),
    (lambda: ucm.Hull(pos) / Param("c", 0), "expected a number, got 1 / 0"),
    (lambda: ucm.Hull(pos) / np.nan, "."),
    (lambda: ucm.Hull(pos) / np.inf, "."),
    (lambda: 1 / untyped.Hull(pos), "."),
    (lambda: ucm.Hull(pos) @ np.eye(3), "matrix on its left"),
    (lambda: ucm.Hull(pos) @ ucm.Hull(neg), "matrix on its left"),
    (lambda: V @ ucm.Hull(pos), "two-dimensional"),
    (lambda: 2.0 @ ucm.Hull(pos), "matrix on its left"),
    (lambda: ucm.Hull(pos) + 3, "expected a set or a vector"),
    (lambda: ucm.Hull(pos) + np.eye(3), "expected a set or a vector"),
    (lambda: ucm.Hull(pos) + "x", "expected a set or a vector"),
    (lambda: ucm.Hull(pos) & 3, "expected a set or a vector"),
    (lambda: ucm.Hull(pos) + ucm.Simplex(), "a domain of weights"),
    (lambda: ucm.Simplex() & ucm.Hull(pos), "."),
    (lambda: ucm.Simplex() & 3, "."),
    (lambda: untyped.RobustMargin(pos), "expected an UncertaintySet"),
    (lambda: ucm.RobustMargin(ucm.Hull(pos), norm=0.5), r"norm must lie in \[1, inf\]"),
    (lambda: untyped.RobustMargin(ucm.Hull(pos), norm="two"), "."),
    (lambda: untyped.RobustMargin(ucm.Hull(pos), norm=Param("p", 2)), "a plain number"),
    (lambda: ucm.L1() @ np.eye(2), r"L1\(\) @ .*ndarray.* expected a sum .* Quadratic\(D.T @ D\)"),
    (lambda: np.eye(2) @ ucm.L1(), r"Quadratic\(D.T @ D\)"),
    (lambda: ucm.Hinge() ** 2, r"Hinge\(\) \*\* 2: expected a sum .* Hinge\(p\)"),
    (lambda: (ucm.Hinge() + ucm.L2()) ** 2, r"^\(Hinge\(\) \+ L2\(\)\) \*\* 2"),
    (lambda: max(untyped.Hinge(), untyped.Logistic()), r"Logistic\(\) > Hinge\(\).*WorstMean"),
    (lambda: ucm.Hinge() & ucm.L2(), "expected a sum or a multiple of terms, got &"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "words"), REFUSED, ids=[str(k) for k in range(len(REFUSED))])
def test_meaningless_declarations_are_refused_when_written(write: Any, words: str) -> None:
    with pytest.raises((CompositionError, TypeError), match=words) as error:
        write()
    if error.type is TypeError:  # Python's own word on operands that nobody claims
        assert "unsupported operand" in str(error.value) or "bad operand" in str(error.value)


# --- sets ---------------------------------------------------------------------------------------
A = ucm.Hull(pos)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (A + V, combined((A, 1.0), (ucm.Point(V), 1.0))),
        (V + A, combined((ucm.Point(V), 1.0), (A, 1.0))),
        (V - A, combined((ucm.Point(V), 1.0), (A, -1.0))),
        (A - V, combined((A, 1.0), (ucm.Point(V), -1.0))),
        (V.tolist() + A, combined((ucm.Point(V), 1.0), (A, 1.0))),
        (A - tuple(V), combined((A, 1.0), (ucm.Point(V), -1.0))),
        (pos.mean + A, combined((ucm.Point(pos.mean), 1.0), (A, 1.0))),
        (A + pos.mean, combined((A, 1.0), (ucm.Point(pos.mean), 1.0))),
        (pos.mean - A, combined((ucm.Point(pos.mean), 1.0), (A, -1.0))),
        (V & A, ucm.Point(V) & A),
        (A & pos.mean, A & ucm.Point(pos.mean)),
        (pos.mean | A, ucm.ConvexUnion(pos.mean, A)),
        (ucm.Point(pos.mean) | neg.mean, ucm.ConvexUnion(pos.mean, neg.mean)),
        (np.float32(2) * A, combined((A, 2.0))),
        (np.array(2) * A, combined((A, 2.0))),
        (A * np.int64(2), combined((A, 2.0))),
        (A / np.array(4.0), combined((A, 0.25))),
        (Param("c", 2) * A, combined((A, Param("c", 2.0)))),
        (np.eye(3) @ A, combined((A, np.eye(3)))),
        (np.eye(3).tolist() @ A, combined((A, np.eye(3)))),
        (np.asfortranarray(np.eye(3, dtype=np.float32)) @ A, combined((A, np.eye(3)))),
        (sparse.csr_matrix(np.eye(3)) @ A, combined((A, sparse.csr_matrix(np.eye(3))))),
        (sparse.csc_array(np.eye(3)) @ A, combined((A, sparse.csr_matrix(np.eye(3))))),
        (sparse.coo_matrix(np.eye(3)) @ A, combined((A, sparse.csr_matrix(np.eye(3))))),
    ],
)  # fmt: skip
def test_operands_on_either_side(built: Any, expected: Any) -> None:
    assert built == expected and type(built) is type(expected)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_numpy_matrices_and_sparse_vectors_never_loop_over_entries() -> None:
    """An operand that NumPy or SciPy would broadcast over must give one node, or a refusal."""
    M = np.matrix(np.eye(3))
    assert combined((A, np.eye(3))) == M @ A
    for combine in (operator.add, operator.sub, operator.mul, operator.and_):
        for left, right in ((A, M), (M, A), (A, sparse.csr_matrix(np.eye(3)))):
            with pytest.raises((CompositionError, TypeError)):
                combine(left, right)
    with pytest.raises((CompositionError, TypeError, ValueError)):
        _ = sparse.csr_matrix(np.eye(3)) + A


def test_samples_have_their_own_operators_only() -> None:
    assert pos.mean.samples is pos and pos.cov.samples is pos
    with pytest.raises(CompositionError, match="expected one of pos, neg, signed, got 'all'"):
        type(pos)("all")  # type: ignore[arg-type]
    assert pos != neg and pos == type(pos)("pos") and hash(pos) == hash(type(pos)("pos"))


def test_the_named_models_are_lines_of_the_language() -> None:
    nu, kappa = Param("nu", 0.3), Param("kappa", 0.5)
    m = untyped.models
    hulls = ucm.ReducedHull(pos, nu=nu) - ucm.ReducedHull(neg, nu=nu)
    assert hulls == m.nu_svm(0.3)
    assert m.mm_mpm(0.5) == ucm.Ellipsoid(pos.mean, pos.cov, kappa) - ucm.Ellipsoid(neg.mean, neg.cov, kappa)
    assert m.mm_fda(0.5) == ucm.Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, kappa)
    assert m.l2_nu_svm(0.5) == ucm.Hull(signed, weights=ucm.NormBall(kappa))
    assert m.kl_svm(0.3) == ucm.Hull(signed, weights=ucm.KLBall(Param("alpha", 0.3)))
    assert m.biased_l2_nu_svm(0.5, 0.6).params() == {"kappa_pos": 0.5, "kappa_neg": 0.6}
    assert m.coherent_mm_mpm(0.5).params() == m.coherent_mm_fda(0.5).params() == {"kappa": 0.5}
    assert m.nu_svm(Param("other", 0.3)).params() == {"other": 0.3}  # kept


def test_unknown_attributes_and_calls() -> None:
    with pytest.raises(AttributeError):
        _ = untyped.pos.median
    for call, words in (
        (lambda: untyped.Hull(), "Hull: takes samples, weights, got nothing; write Hull"),
        (
            lambda: untyped.Ball(pos.mean, 1, radius=2),
            "Ball: takes center, radius, p, got pos.mean, 1, rad",
        ),
        (lambda: untyped.Hinge(2, 3), "Hinge: takes p, on=..., start=..., got 2, 3; write Hinge"),
        (lambda: untyped.Param("nu"), "Param: takes name, value, relative, got 'nu'; write Param"),
    ):
        with pytest.raises(CompositionError, match=re.escape(words)):
            call()


def test_a_statistic_leaves_a_foreign_operand_its_operator() -> None:
    class Foreign:
        def __radd__(self, other: object) -> str:
            return f"{other} + foreign"

    assert ucm.pos.mean + Foreign() == f"{ucm.pos.mean} + foreign"
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = ucm.pos.mean + {}


def test_a_statistic_takes_tables_of_other_libraries() -> None:
    class Column:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.array([1.0, 2.0])

    assert ucm.pos.mean + Column() == ucm.pos.mean + np.array([1.0, 2.0])
    with pytest.raises(ucm.CompositionError, match="write M @ Point"):
        _ = sparse.eye_array(2) @ ucm.pos.mean
