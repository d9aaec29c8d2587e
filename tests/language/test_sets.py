"""Sets: four descriptions of each agree; a reader's own set is held to the same laws."""

# pyright: reportArgumentType=false
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from bundled import load
from catalogue import SETS
from scipy import sparse
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.compiler.recover import ignores_origin
from ucm.data.bound_data import Data, bind
from ucm.data.linear_map import IdentityMap, Vec
from ucm.errors import CompositionError, EmptySetError
from ucm.language.contracts import Block, LoweredSet, Scope, Size, Splits, UncertaintySet
from ucm.language.domains import NormBall
from ucm.language.node import Node
from ucm.language.notation import Notation
from ucm.language.parameter import Param, Parameters, Scalar
from ucm.language.statistics.affine import stacked_factors
from ucm.testing import check_set

RNG = np.random.default_rng(3)
Y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
X = RNG.standard_normal((8, 3)) + Y[:, None]


@pytest.mark.parametrize("U", SETS, ids=repr)
def test_a_set_satisfies_the_laws(U: UncertaintySet) -> None:
    check_set(U)


@pytest.mark.parametrize("U", SETS, ids=repr)
def test_a_set_that_ignores_the_origin_does_not_move_with_the_samples(U: UncertaintySet) -> None:
    """Among the directions are those of a difference; a set that moves with the samples is told apart."""
    groups, v = list("ABABABAB"), np.array([3.0, -5.0, 7.0])
    here, there = (bind(A, Y, subgroup=groups) for A in (X, X + v))
    directions = np.random.default_rng(0).standard_normal((3, U.dimension(3) or 3))
    still = all(
        U.support(here, d, {})[0] == pytest.approx(U.support(there, d, {})[0], abs=1e-9) for d in directions
    )
    assert still or not ignores_origin(U, 3)


def test_which_sets_ignore_the_origin() -> None:
    M = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
    P, N, signed_mean = ucm.Hull(pos), ucm.Hull(neg), signed.mean
    both = (P & ucm.Ellipsoid(pos.mean, pos.cov, 1.0)) - (N & ucm.Ellipsoid(neg.mean, neg.cov, 1.0))
    for U in (P - N, 2 * P - 2 * neg.mean, M @ (P - N), M @ P - M @ N, ucm.Hull(signed), both,
              (P | pos.mean) - N, P - N + ucm.Ball(0, 1.0), ucm.models.mm_fda(0.3),
              ucm.Gelbrich(pos, 0.1, 1.0) - ucm.Wasserstein(neg, 0.1)):  # fmt: skip
        assert ignores_origin(U, 3), U
    for U in (P, P + N, P - 0.5 * N, M @ P - (2.0 * M) @ N, (P & ucm.Ball(0, 9.0)) - N, P - N + signed_mean,
              (P | ucm.Point(np.ones(3))) - N, P - ucm.Points(np.eye(3)).mean,
              P - N + ucm.Ellipsoid(np.zeros(3), signed.cov, 1.0)):  # fmt: skip
        assert not ignores_origin(U, 3), U


@pytest.mark.parametrize("U", SETS, ids=repr)
def test_sparse_and_wide_samples(U: UncertaintySet) -> None:
    """Sparse samples, more features than samples, read-only memory: the same set."""
    rng = np.random.default_rng(11)
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0, -1.0])
    X = np.where(rng.random((9, 3)) < 0.5, 0.0, rng.standard_normal((9, 3)) + y[:, None])
    X.flags.writeable = False
    y.flags.writeable = False
    groups = list("ABABABBAB")
    dense, thin = (bind(A, y, subgroup=groups) for A in (X, sparse.csr_matrix(X)))
    d = rng.standard_normal(U.dimension(3))
    at = U.support(dense, d, {})[0]
    assert U.support(thin, d, {})[0] == pytest.approx(at, rel=1e-10, abs=1e-12)
    image, other = U.lower(dense), U.lower(thin)
    blocks = [rng.random(b.map.shape[1]) for b in image.blocks]
    if [b.map.shape for b in image.blocks] == [b.map.shape for b in other.blocks]:
        point = sum((b.map.matvec(q) for b, q in zip(image.blocks, blocks, strict=True)), image.center)
        same = sum((b.map.matvec(q) for b, q in zip(other.blocks, blocks, strict=True)), other.center)
        np.testing.assert_allclose(point, same, atol=1e-12)


# --- supports by hand ---------------------------------------------------------------------------
def support(U: UncertaintySet, d: Any) -> float:
    return U.support(bind(X, Y), np.asarray(d, dtype=float), {})[0]


def test_supports_by_brute_force() -> None:
    d = np.array([0.3, -1.0, 0.7])
    P, N = X[Y > 0], X[Y < 0]
    assert support(ucm.Hull(pos), d) == pytest.approx((P @ d).max())
    assert support(-ucm.Hull(neg), d) == pytest.approx(-(N @ d).min())
    assert support(ucm.Hull(signed), d) == pytest.approx(0.5 * (P @ d).max() - 0.5 * (N @ d).min())
    top = np.sort(P @ d)[::-1]
    assert support(ucm.ReducedHull(pos, eta=0.4), d) == pytest.approx(top @ [0.4, 0.4, 0.2, 0.0])
    # nu = 0.5: eta = 2/(8 * 0.5) = 1/2
    assert support(ucm.ReducedHull(pos, nu=0.5), d) == pytest.approx((top[0] + top[1]) / 2)
    S = np.cov(P.T, bias=True)
    ellipsoid = ucm.Ellipsoid(pos.mean, pos.cov, 0.8)
    assert support(ellipsoid, d) == pytest.approx(P.mean(0) @ d + 0.8 * math.sqrt(d @ S @ d))
    for p, dual in ((1, np.inf), (2, 2), (np.inf, 1), (1.5, 3)):
        ball = ucm.Ball([1.0, 2.0, 3.0], 0.5, p=p)
        assert support(ball, d) == pytest.approx(np.dot([1, 2, 3], d) + 0.5 * np.linalg.norm(d, dual))
    M = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])
    assert support(M @ ucm.Hull(pos), [0.2, 0.5]) == pytest.approx((P @ M.T @ [0.2, 0.5]).max())


def test_covariance_is_that_of_numpy() -> None:
    data = bind(X, Y)
    for node, part in ((pos.cov, X[Y > 0]), (neg.cov, X[Y < 0]), (signed.cov, Y[:, None] * X)):
        np.testing.assert_allclose(node.evaluate(data), np.cov(part.T, bias=True), atol=1e-13)
        F = np.asarray(stacked_factors(node, data).matrix())
        np.testing.assert_allclose(F @ F.T, np.cov(part.T, bias=True), atol=1e-13)
    both = (0.5 * pos.cov + neg.cov).evaluate(data)
    expected = 0.5 * np.cov(X[Y > 0].T, bias=True) + np.cov(X[Y < 0].T, bias=True)
    np.testing.assert_allclose(both, expected, atol=1e-13)


def test_intersections_are_bounded_tightly_by_a_split() -> None:
    """min over splits = support of the intersection, here by CVXPY."""
    import cvxpy as cp
    from scipy.optimize import minimize

    data = bind(X, Y)
    left = ucm.Ellipsoid(pos.mean, pos.cov, 0.7)
    right = ucm.Ball(pos.mean + np.array([0.2, 0, 0.1]), 0.5)
    U = left & right
    d = np.array([1.0, 0.2, -0.4])
    x, constraints = U.cvxpy(data, Parameters())
    problem = cp.Problem(cp.Maximize(d @ x), constraints)
    problem.solve(solver=cp.CLARABEL)
    bound = minimize(
        lambda s: left.support(data, d - s, {})[0] + right.support(data, s, {})[0],
        0.5 * d, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000},
    )  # fmt: skip
    assert U.support(data, d, {})[0] > problem.value + 1e-3  # without a split it is only a bound
    assert bound.fun == pytest.approx(problem.value, abs=1e-6)
    assert U.support(data, d, {(): bound.x})[0] == pytest.approx(bound.fun, rel=1e-12)
    for s in RNG.standard_normal((20, 3)):
        assert U.support(data, d, {(): s})[0] >= problem.value - 1e-7


# --- sizes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda x: ucm.Ball(pos.mean, x), "Ball: radius must lie in [0, inf]"),
        (lambda x: ucm.Ellipsoid(pos.mean, pos.cov, x), "Ellipsoid: radius must lie in [0, inf]"),
        (ucm.NormBall, "NormBall: radius must lie in [0, inf]"),
        (lambda x: ucm.ReducedHull(pos, nu=x), "nu must lie in [0, inf]"),
        (lambda x: ucm.ReducedHull(pos, eta=x), "cap must lie in [0, inf]"),
        (ucm.KLBall, "alpha must lie in [0, inf]"),
        (lambda x: ucm.ChiSquareBall(rho=x), "rho must lie in [0, inf]"),
    ],
)
def test_negative_sizes_are_refused_where_they_are_written(write: Callable, words: str) -> None:
    write(0.25)
    for size in (-0.1, Param("kappa", -0.1), Param("kappa", 0.1) - 0.2):
        with pytest.raises(CompositionError, match=f"{re.escape(words)}, got .*-0.1"):
            write(size)
    with pytest.raises(CompositionError, match=re.escape(words)):
        write(Param("kappa", 0.1)).with_params(kappa=-0.1)


# --- infeasibility ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("U", "words"),
    [
        (ucm.ReducedHull(neg, nu=Param("nu", 1.5)), "nu must be at most 1 (= 2 min(m+, m-)/m)"),
        (ucm.ReducedHull(pos, eta=0.2), "the cap must be at least 0.25"),
        (ucm.ReducedHull(pos, nu=0.0), "nu must be positive and at most 1 (= 2 min(m+, m-)/m), got 0"),
        (ucm.Hull(pos, weights=ucm.NormBall(0.4)), "0.5"),
        (ucm.Hull(signed, weights=ucm.NormBall(0.3)), "0.353553"),
        (ucm.Hull(pos, weights=ucm.KLBall(1.2)), "alpha must lie in (0, 1]"),
        (ucm.Hull(pos, weights=ucm.KLBall(0.0)), "alpha must lie in (0, 1]"),
        (ucm.Hull(pos) - ucm.ReducedHull(neg, eta=0.0), "CappedSimplex(0)"),
    ],
)  # fmt: skip
def test_empty_sets_name_the_innermost_node_and_the_interval(U: UncertaintySet, words: str) -> None:
    why = U.infeasibility_reason(bind(X, Y))
    assert why is not None and words in why
    with pytest.raises(EmptySetError) as error:
        ucm.compile(U, X, Y)
    assert words in str(error.value)


def test_the_ends_of_intervals_are_not_empty() -> None:
    data = bind(X, Y)
    for U in (
        ucm.ReducedHull(pos, nu=1.0),
        ucm.ReducedHull(pos, eta=0.25),
        ucm.Hull(neg, weights=ucm.NormBall(0.5)),
        ucm.Hull(signed, weights=ucm.NormBall(1 / math.sqrt(8))),
        ucm.Hull(neg, weights=ucm.KLBall(1.0)),
        ucm.Ball(pos.mean, 0.0),
    ):
        assert U.infeasibility_reason(data) is None
        sol = ucm.solve(U, X, Y)
        assert sol.status == "optimal"
        part = {"pos": X[Y > 0].mean(0), "neg": X[Y < 0].mean(0)}
        part["signed"] = 0.5 * (part["pos"] - part["neg"])
        kind = next(node.kind for node in U.walk() if isinstance(node, type(pos)))
        np.testing.assert_allclose(sol.x, part[kind], atol=1e-9)


# --- dimensions ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "innermost"),
    [
        (lambda: ucm.Ball([1.0, 2.0], 1) + ucm.Ball([1.0, 2.0, 3.0], 1), "Ball([1.0, 2.0], 1)"),
        (lambda: ucm.Hull(pos) + (ucm.Point([1.0]) & ucm.Ball([1.0, 2.0], 1)), "Point([1.0])"),
        (lambda: ucm.Ellipsoid([1.0, 2.0], np.eye(3), 1), "Ellipsoid([1.0, 2.0]"),
        (lambda: np.eye(2) @ ucm.Ball([1.0, 2.0, 3.0], 1), "Ball([1.0, 2.0, 3.0], 1)"),
        (lambda: np.eye(2) @ (np.ones((3, 2)) @ ucm.Hull(pos)), "3"),
        (lambda: ucm.AffineImage(np.eye(2), ucm.NormBall(1), center=[1.0, 2.0, 3.0]), "AffineImage"),
    ],
)  # fmt: skip
def test_mixed_dimensions_are_refused_when_written(make: Any, innermost: str) -> None:
    with pytest.raises(CompositionError) as error:
        make()
    assert innermost in str(error.value)


def test_mixed_dimensions_are_refused_when_bound() -> None:
    U = ucm.Hull(pos) - (ucm.Hull(neg) + ucm.Ball([1.0, 2.0], 0.5))
    with pytest.raises(CompositionError) as error:
        ucm.compile(U, X, Y)
    words = "expected operands of one dimension, got 2 and 3, in Hull(neg) + Ball([1.0, 2.0], 0.5);"
    assert str(error.value).startswith(words)
    with pytest.raises(CompositionError, match=r"shape \(2, 2\)"):
        ucm.compile(np.eye(2) @ ucm.Hull(pos), X, Y)
    assert ucm.compile(np.eye(2) @ ucm.Hull(pos), X[:, :2], Y).form.n == 2


# --- a reader's own set -------------------------------------------------------------------------
class Stick(UncertaintySet):
    """The segment from -v to v, scaled by `length`."""

    v: np.ndarray
    length: Scalar = 1.0

    def dimension(self, n: int | None) -> int | None:
        return self.v.size

    def infeasibility_reason(self, data: Data) -> str | None:
        return None

    def size(self, data: Data) -> Size:
        return NormBall(self.length).size()

    def _v(self) -> Vec:
        return self.v

    def lower(self, data: Data) -> LoweredSet:
        from ucm.data.linear_map import MatrixMap

        block = Block(MatrixMap(self._v()[:, None]), NormBall(self.length))
        return LoweredSet(np.zeros(self.v.size), (block,))

    def evaluate(self, data: Data, q: Iterator[Vec]) -> tuple[Vec, float]:
        t = next(q)
        return self.v * t[0], NormBall(self.length).violation(t)

    def cvxpy(self, data: Data, scope: Scope) -> Any:
        import cvxpy as cp

        t = cp.Variable()
        return self.v * t, [cp.abs(t) <= scope.of(self.size(data))]

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        reach = self.size(data).number
        t = math.copysign(reach, float(self.v @ d))
        return t * float(self.v @ d), t * self.v

    def formula(self, notation: Notation) -> str:
        return notation.set_of("t v", notation.norm("t", "1") + notation.leq + "1")


STICK = Stick(np.array([1.0, 2.0, -1.0]), Param("length", 0.2))


def test_a_custom_set_satisfies_the_laws_and_combines() -> None:
    check_set(STICK)
    U = ucm.Hull(pos) - ucm.Hull(neg) + STICK
    check_set(U)
    assert ucm.from_json(ucm.to_json(U)) == U
    plan = ucm.compile(ucm.Point(pos.mean - neg.mean) + STICK, X, Y)
    assert plan.solve().status == "optimal" and plan.verify()


class TooLong(Stick):
    """Its lowering is twice as long as its definition."""

    def _v(self) -> Vec:  # what the tests below break, one by one
        return 2.0 * self.v


def broken(law: str) -> type[Stick]:
    """A set with one description that disagrees with the others."""
    methods: dict[str, Any] = {}
    if law == "cvxpy":

        def twin(self: Any, data: Data, scope: Scope) -> Any:
            import cvxpy as cp

            t = cp.Variable()
            return self.v * t, [cp.abs(t) <= 1.1 * scope.of(self.size(data))]

        methods["cvxpy"] = twin
    elif law == "support":
        methods["support"] = lambda self, data, d, splits: (
            0.9 * Stick.support(self, data, d, splits)[0], Stick.support(self, data, d, splits)[1]
        )  # fmt: skip
    elif law == "evaluate":
        methods["evaluate"] = lambda self, data, q: (self.v * next(q)[0], 0.0)
    elif law == "dimension":
        methods["dimension"] = lambda self, n: 7
    elif law == "lower":
        methods["lower"] = lambda self, data: LoweredSet(
            np.zeros(3), (Block(IdentityMap(3), NormBall(self.length)),)
        )
    return type(f"Broken{law.title()}", (Stick,), methods)


@pytest.mark.parametrize("law", ["cvxpy", "support", "evaluate", "dimension", "lower"])
def test_check_set_catches_a_wrong_description(law: str) -> None:
    with pytest.raises(AssertionError):
        check_set(broken(law)(STICK.v, STICK.length), X, Y)
    with pytest.raises(AssertionError):
        check_set(TooLong(STICK.v, STICK.length))


def test_a_wrong_lowering_is_no_answer() -> None:
    """The certificate, from the declaration alone, contradicts a solver that was misled."""
    base = ucm.Point(pos.mean - neg.mean)
    with pytest.raises(ucm.SolverError, match="lowering of this set is wrong"):
        ucm.solve(base + Shrunk(STICK.v, STICK.length), X, Y)


class Shrunk(Stick):
    """Its support says less than its lowering reaches."""

    def support(self, data: Data, d: Vec, splits: Splits) -> tuple[float, Vec | None]:
        height, x = super().support(data, d, splits)
        return 0.5 * height, 0.5 * known(x)


def test_every_set_of_the_language_is_in_the_catalogue() -> None:
    from ucm.language import sets

    met = {type(node).__name__ for U in SETS for node in U.walk()}
    named = {n for n in sets.__all__ if isinstance(getattr(sets, n), type)}
    assert {n for n in named if issubclass(getattr(sets, n), Node)} <= met


# --- what composes on paper ---------------------------------------------------------------------------
def test_sum_takes_lists_of_sets() -> None:
    """`sum` begins with the number 0."""
    U, V = ucm.Hull(pos), ucm.Ball([1.0, 2.0], 0.5)
    assert sum([U, V]) == U + V and sum([U]) == U and U + 0 == U
    assert sum([ucm.Hinge(), ucm.L2()]) == ucm.Hinge() + ucm.L2()
    assert sum([ucm.L1(), 2 * ucm.L2()]) == ucm.L1() + 2 * ucm.L2()
    assert sum([pos.mean, neg.mean]) == pos.mean + neg.mean
    assert sum([pos.cov, neg.cov]) == pos.cov + neg.cov
    for wrong in (
        lambda: 1 + U,
        lambda: sum([U, 3.0]),
        lambda: 1 + ucm.Hinge(),
        lambda: 1 + pos.cov,
    ):
        with pytest.raises(ucm.CompositionError):
            wrong()


def test_a_union_of_a_list() -> None:
    A, B = ucm.Hull(pos.group("A")), ucm.Hull(pos.group("B"))
    assert ucm.ConvexUnion([A, B]) == ucm.ConvexUnion((A, B)) == ucm.ConvexUnion(A, B) == A | B
    assert ucm.ConvexUnion([[1.0, 2.0], A]) == ucm.Point([1.0, 2.0]) | A
    assert ucm.ConvexUnion([1.0, 2.0], A) == ucm.Point([1.0, 2.0]) | A
    with pytest.raises(ucm.CompositionError, match="two sets or more"):
        ucm.ConvexUnion([A])


def test_the_hull_of_an_array() -> None:
    X, y = load("wine")
    corners = np.random.default_rng(0).standard_normal((9, X.shape[1])) - 4.0
    for array in (corners, corners.tolist(), sparse.csr_matrix(corners)):
        U = ucm.Hull(array)
        assert ucm.support(U, X, y, X[0])[0] == pytest.approx((corners @ X[0]).max())
    assert ucm.Hull(corners) == ucm.Hull(ucm.Points(corners))
    assert ucm.ReducedHull(corners, eta=0.5) == ucm.ReducedHull(ucm.Points(corners), eta=0.5)
    plan = ucm.compile(ucm.Hull(pos) - ucm.Hull(corners, weights=ucm.NormBall(0.6)), X, y)
    assert plan.solve().status == "optimal" and plan.verify().agrees
    with pytest.raises(ucm.CompositionError, match="an array of points, one a row"):
        ucm.Hull([1.0, 2.0])
    with pytest.raises(ucm.CompositionError, match="expected pos, neg, signed or an array"):
        ucm.Hull("pos")  # type: ignore[arg-type]


def test_parentheses_that_python_puts_are_printed() -> None:
    E = ucm.Ellipsoid(pos.mean, pos.cov, 1.0)
    U = E & ucm.Hull(pos) - ucm.Hull(neg)
    assert repr(U) == "Ellipsoid(pos.mean, pos.cov, 1) & (Hull(pos) - Hull(neg))"
    other = (E & ucm.Hull(pos)) - ucm.Hull(neg)
    assert repr(other) == "(Ellipsoid(pos.mean, pos.cov, 1) & Hull(pos)) - Hull(neg)" and other != U
    told = ucm.compile(U, *load("iris")).explain()
    assert "∩ ({" in told and "} - {" in told and "})" in told
    assert "({" in str(U) and "({" not in str(other)[1:]


@pytest.mark.parametrize(
    "declare",
    [
        lambda S: ucm.Ellipsoid(pos.mean - S.mean, pos.cov + S.cov, 0.3),
        lambda S: ucm.CVaR(pos, 0.3) - ucm.Hull(S, weights=ucm.KLBall(0.8)),
        lambda S: ucm.CVaR(pos, 0.3) - ucm.Hull(S, weights=ucm.CappedSimplex(2.0, relative=True)),
    ],
)
def test_weights_of_points_are_repetitions(declare: Any) -> None:
    X, y = ucm.datasets.load("wine")
    X, c = X[:, :4], np.tile([1.0, 2.0, 3.0], 4)
    points = X[y < 0][:12]
    weighted = declare(ucm.Points(points, weights=c))
    repeated = ucm.solve(declare(ucm.Points(np.repeat(points, c.astype(int), axis=0))), X, y, tol=1e-8)
    plan = ucm.compile(weighted, X, y)
    assert plan.solve(tol=1e-8).objective == pytest.approx(repeated.objective, rel=1e-7)
    assert plan.verify().agrees and ucm.from_json(ucm.to_json(weighted)) == weighted
    with pytest.raises(CompositionError, match="expected points without weights"):
        ucm.to_cvxpy_source(weighted)


@pytest.mark.parametrize("weights", [[1.0], [0.0, 1.0], [-1.0, 1.0]])
def test_weights_of_points_are_positive_and_one_a_point(weights: Any) -> None:
    with pytest.raises(CompositionError, match=r"expected 2 positive weights.*leave out points"):
        ucm.Points([[1.0], [2.0]], weights=weights)
