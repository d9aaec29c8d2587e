"""Classes of a reader's own take the routes of the library's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import ucm
from ucm import Combination, neg, pos, signed
from ucm.contracts import (  # pyright: ignore[reportMissingImports]  # an alias, see ucm/__init__.py
    AffineImage,
    Block,
    Capped,
    CoordinateFree,
    Size,
    UncertaintySet,
)
from ucm.data.maps import MatrixMap
from ucm.expression import value  # pyright: ignore[reportMissingImports]  # as above
from ucm.testing import check_domain, check_set

RNG = np.random.default_rng(0)
Y = np.where(np.arange(60) % 3 == 0, -1.0, 1.0)
X = RNG.standard_normal((60, 3)) + 0.9 * Y[:, None]


class Worst(Capped):
    """Distributions over the worst `share` of the entries, `{0 <= q <= 1 / (share N), sum q = 1}`."""

    share: Any

    def caps(self, dim: int, classes: Any) -> list[float]:
        return [1.0 / (value(self.share) * dim)] * (1 if classes is None else 2)

    def size(self) -> Size:
        return Size(self.share, lambda share: 1.0 / share, lambda cap: 1.0 / cap)

    def emptiness(self, dim: int, *, classes: Any = None) -> str | None:
        fits = [n >= 0.5 * value(self.share) * dim for n in self._counts(dim, classes)]
        return None if all(fits) else f"{self!r}: empty, a class is too small"

    def _counts(self, dim: int, classes: Any) -> list[int]:
        return [dim] if classes is None else [int((classes > 0).sum()), int((classes < 0).sum())]

    def constraints(self, q: Any, size: Any, *, classes: Any = None) -> list[Any]:
        return [*ucm.Simplex().constraints(q, classes=classes), q.size * q <= size]

    def formula(self, notation: Any) -> str:
        return f"N q{notation.leq}{notation.fraction('1', notation.scalar(self.share))}"


def worst(share: float, step: float = 0.0) -> ucm.UncertaintySet:
    tail = Worst(ucm.Param("share", share))
    U = ucm.Hull(pos, weights=tail) - ucm.Hull(neg, weights=tail)
    return U if step == 0.0 else U + step * pos.mean


def test_a_capped_domain_says_its_caps_only() -> None:
    check_domain(Worst(0.7))
    check_set(worst(0.7))
    D, same = Worst(0.25), ucm.CappedSimplex(0.2)
    for v in (RNG.standard_normal(20), np.round(RNG.standard_normal(20))):
        assert_allclose(D.project(v), same.project(v), atol=0)
        assert D.support(v)[0] == same.support(v)[0] and D.levels(v) == same.levels(v)


class Budget(ucm.Polyhedral, ucm.Weighable):
    """`{q : 0 <= q <= 1, sum q <= gamma}`, with its inequalities and without a projection."""

    gamma: Any

    def size(self) -> Size:
        return Size(self.gamma)

    def support(self, g: Any, *, classes: Any = None) -> tuple[float, Any]:
        share = np.clip(value(self.gamma) - np.arange(g.size), 0.0, 1.0)
        q = np.zeros(g.size)
        q[np.argsort(-g)] = share
        q[g < 0.0] = 0.0
        return float(g @ q), q

    def violation(self, q: Any, *, classes: Any = None) -> float:
        gamma = value(self.gamma)
        return max(0.0, -q.min(), q.max() - 1.0, (q.sum() - gamma) / max(1.0, gamma))

    def center(self, dim: int, *, classes: Any = None) -> Any:
        return np.full(dim, min(0.5, value(self.gamma) / (2.0 * dim)))

    def emptiness(self, dim: int, *, classes: Any = None) -> str | None:
        return None if value(self.gamma) >= 0.0 else f"{self!r}: gamma is below 0"

    def constraints(self, q: Any, size: Any, *, classes: Any = None) -> list[Any]:
        return [q >= 0, q <= 1, sum(q) <= size]

    def on_simplex(self) -> None:
        return None

    def polyhedron(self, dim: int, *, classes: Any = None) -> ucm.Polyhedron:
        one, most = sparse.csr_array(np.ones((1, dim))), np.full(1, value(self.gamma))
        return ucm.Polyhedron(np.zeros(dim), np.ones(dim), one, np.full(1, -np.inf), most)

    def weighed(self, weights: Any, *, classes: Any = None) -> Budget:
        return Budget(value(self.gamma) * weights[0])

    def formula(self, notation: Any) -> str:
        return f"q{notation.leq}{notation.scalar(self.gamma)}"


@pytest.mark.parametrize("norm", [1.0, np.inf])
def test_linear_programs_take_a_polyhedron(norm: float) -> None:
    check_domain(Budget(1.7))
    U = ucm.Image([[2.0, 0.5, 0.1], [0.0, 1.0, 0.3]], Budget(1.7)) + ucm.Point([1.0, 1.0])
    plan = ucm.compile(ucm.RobustMargin(U, norm=norm), X[:, :2], Y)
    assert plan.solver.name == "highs-distance"
    assert plan.solve().status == "optimal" and plan.verify()


def test_a_domain_that_says_how_takes_class_weights() -> None:
    U = ucm.Hull(pos, weights=Budget(1.0)) - ucm.Hull(neg)
    heavier = ucm.Classifier(U, class_weight={1: 1.5}).fit(X, Y).solution_
    declared = ucm.solve(ucm.Hull(pos, weights=Budget(1.5)) - ucm.Hull(neg), X, Y)
    assert heavier.objective == pytest.approx(declared.objective, rel=1e-7)
    y = np.array([1, 1, -1, -1])
    own = ucm.CappedSimplex(0.2, class_weight=(1.0, 2.0))
    same = own.weighed(np.array([3.0, 3.0, 1.0, 1.0]), classes=y)
    assert isinstance(same, ucm.CappedSimplex)
    assert same.caps(4, y) == [pytest.approx(0.6), pytest.approx(0.4)]
    other = own.weighed(np.array([3.0, 1.0, 1.0, 1.0]), classes=y)
    assert_allclose(other.support(np.array([1.0, 0, 1, 0]), classes=y)[1], [0.5, 0, 0.4, 0.1])


def test_newton_over_hulls_takes_it() -> None:
    plan = ucm.compile(worst(0.9), X, Y)
    assert type(plan.solver) is ucm.solvers.NewtonHull
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    by_cone = ucm.solve(worst(0.9), X, Y, solver="clarabel")
    assert_allclose(solution.w, by_cone.w, atol=1e-4)
    joint = ucm.compile(ucm.Hull(signed, weights=Worst(0.6)), X, Y)
    assert type(joint.solver) is ucm.solvers.NewtonHull
    assert joint.solve().status == "optimal" and joint.verify()


def test_two_hulls_and_a_third_set_of_weights_are_not_two_hulls() -> None:
    U = ucm.Hull(pos) - ucm.Hull(neg) + 0.1 * ucm.Hull(pos, weights=ucm.NormBall(0.3))
    plan = ucm.compile(U, X + Y[:, None], Y)
    assert type(plan.solver) is not ucm.solvers.NewtonHull
    assert plan.solve().status == "optimal" and plan.verify()


def test_newton_on_the_gram_matrix_takes_it() -> None:
    plan = ucm.compile(worst(0.7), X, Y, kernel="rbf", solver="newton-gram")
    solution = plan.solve()
    assert solution.status == "optimal" and solution.stats.solver == "newton-gram"
    by_cone = ucm.solve(worst(0.7), X, Y, kernel="rbf", solver="clarabel")
    assert_allclose(solution.objective, by_cone.objective, rtol=1e-5)
    auto = ucm.compile(worst(0.7), X, Y, kernel="rbf")
    assert auto.solver.name == "newton-gram"


def test_rapminos_takes_it() -> None:
    plan = ucm.compile(worst(0.2), X, Y, solver="rapminos")
    solution = plan.solve()
    assert plan.verify()
    number = 1.0 / (0.2 * 40), 1.0 / (0.2 * 20)
    same = ucm.ReducedHull(pos, eta=number[0]) - ucm.ReducedHull(neg, eta=number[1])
    assert_allclose(solution.w, ucm.solve(same, X, Y, solver="rapminos").w, atol=1e-12)


@pytest.mark.parametrize("norm", [1.0, np.inf])
def test_linear_programs_take_it(norm: float) -> None:
    model = ucm.RobustMargin(worst(0.9), norm)
    plan = ucm.compile(model, X, Y)
    assert plan.solver.name == "highs-distance"
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    by_cone = ucm.solve(model, X, Y, solver="clarabel")
    assert_allclose(solution.objective, by_cone.objective, rtol=1e-6)


# --- coordinates ---------------------------------------------------------------------------------
class Between(UncertaintySet):
    """The segment `{t (mean of pos - mean of neg) : 1 - r <= t <= 1 + r}`; it says nothing of coordinates."""

    r: Any

    def dimension(self, n: int | None) -> int | None:
        return n

    def emptiness(self, data: Any) -> str | None:
        return None

    def size(self, data: Any) -> Size:
        return Size(self.r)

    def _mean(self, data: Any) -> Any:
        return data.mean("pos") - data.mean("neg")

    def lower(self, data: Any) -> AffineImage:
        c = self._mean(data)
        return AffineImage(c, (Block(MatrixMap(c[:, None]), ucm.NormBall(self.r)),))

    def rebuild(self, data: Any, q: Any) -> Any:
        t = next(q)
        return (1.0 + t[0]) * self._mean(data), ucm.NormBall(self.r).violation(t)

    def cvxpy(self, data: Any, scope: Any) -> Any:
        import cvxpy as cp

        t = cp.Variable()
        return (1.0 + t) * self._mean(data), [cp.abs(t) <= scope.scalar(self.size(data))]

    def support(self, data: Any, d: Any, splits: Any) -> Any:
        c = self._mean(data)
        x = (1.0 + np.copysign(value(self.r), c @ d)) * c
        return float(x @ d), x

    def formula(self, notation: Any) -> str:
        return f"between({notation.scalar(self.r)})"


class Means(Between, CoordinateFree):
    """The same, and it says so."""


def test_a_set_that_says_nothing_is_refused_behind_a_kernel() -> None:
    for U in (Between(0.2), ucm.Hull(pos) - ucm.Hull(neg) + Between(0.2)):
        check_set(U)
        with pytest.raises(
            ucm.CompositionError, match=r"Between\(0.2\) is written in the features"
        ):
            ucm.compile(U, X, Y, kernel="rbf")


def test_a_set_that_is_free_of_coordinates_has_kernels() -> None:
    for U in (Means(0.2), ucm.ReducedHull(pos, nu=0.3) - ucm.ReducedHull(neg, nu=0.3) + Means(0.2)):
        check_set(U)
        assert U.in_features() is None
        linear = ucm.solve(U, X, Y, kernel="linear")
        assert_allclose(linear.w, ucm.solve(U, X, Y).w, atol=1e-5)
        plan = ucm.compile(U, X, Y, kernel="rbf")
        assert plan.solve().status == "optimal" and plan.verify()


def test_what_is_below_answers_for_itself() -> None:
    free = [
        ucm.Point(2 * pos.mean - neg.mean),
        ucm.Ellipsoid(0, pos.cov + 2 * neg.cov, 1.0),
        (ucm.Hull(pos, weights=ucm.KLBall(0.5) & ucm.Box(0, 1)) & ucm.Hull(signed)) / 2,
        ucm.Hull(signed, weights=ucm.LossBall(ucm.Logistic() / 0.3, 0.1)),
    ]
    for U in free:
        assert U.in_features() is None
    v, S = np.ones(3), np.eye(3)
    for U in (
        ucm.Ball(pos.mean, 1.0),
        ucm.Image(S, ucm.NormBall(1.0)),
        S @ ucm.Hull(pos),
        ucm.Point(pos.mean + v),
        ucm.Ellipsoid(pos.mean, pos.cov + S, 1.0),
    ):
        assert (ucm.Hull(pos) - U).in_features() is not None


def test_admissible_sizes_of_many_features() -> None:
    """More features than samples: coordinates of their span, for a set of one's own that allows it."""
    rng = np.random.default_rng(1)
    wide, y = rng.standard_normal((12, 30)), np.where(np.arange(12) % 2, 1.0, -1.0)
    r = ucm.Param("r", 0.2)
    one, other = (
        ucm.admissible(ucm.Ellipsoid(0, pos.cov, 0.1) + U, wide, y)["r"]
        for U in (Between(r), Means(r))
    )
    assert one.upper == pytest.approx(other.upper, rel=1e-6)


# --- summands ------------------------------------------------------------------------------------
class Blend(Combination, CoordinateFree):
    """`{share a + (1 - share) b : a in A, b in B}`."""

    left: UncertaintySet
    right: UncertaintySet
    share: Any

    def terms(self) -> Any:
        return (self.left, self.share), (self.right, 1.0 - value(self.share))

    def formula(self, notation: Any) -> str:
        return f"mixture({self.left.formula(notation)}, {self.right.formula(notation)})"


class Turned(Combination):
    """The sets turned by a quarter in the first two coordinates."""

    operand: UncertaintySet

    def terms(self) -> Any:
        M = np.eye(3)
        M[:2, :2] = [[0.0, -1.0], [1.0, 0.0]]
        return ((self.operand, M),)

    def formula(self, notation: Any) -> str:
        return f"turned({self.operand.formula(notation)})"


HALVES = ucm.Hull(pos, weights=ucm.NormBall(0.6)), ucm.Ellipsoid(pos.mean, pos.cov, 0.2)


def test_a_combination_says_its_terms_only() -> None:
    share = ucm.Param("share", 0.3)
    U = Blend(*HALVES, share)
    check_set(U)
    check_set(Turned(U) & ucm.Ball(0, 9.0))
    other = ucm.Ball(0, 2.0) & ucm.Ball(pos.mean, 2.0)
    check_set(Blend(other, HALVES[1], 0.6) - Turned(other))
    with pytest.raises(ucm.CompositionError, match="different spaces"):
        Blend(ucm.Point([1.0, 2.0]), ucm.Point([1.0]), 0.5)


def test_its_summands_give_the_bias() -> None:
    """The midpoint of the class points, as for the same set written with the sums of the library."""
    written = 0.3 * HALVES[0] + 0.7 * HALVES[1]
    for rest in (ucm.Ellipsoid(neg.mean, neg.cov, 0.3), ucm.Point(neg.mean)):
        own = ucm.solve(Blend(*HALVES, 0.3) - rest, X, Y, solver="newton")
        same = ucm.solve(written - rest, X, Y, solver="newton")
        assert own.bias_rule == same.bias_rule == "midpoint"
        assert own.b == same.b
        assert_allclose(own.w, same.w, atol=0)
    kernel = ucm.compile(Blend(*HALVES, 0.3) - ucm.Hull(neg), X, Y, kernel="rbf")
    assert kernel.solve().status == "optimal"


def test_its_matrices_give_the_normal_in_the_features() -> None:
    U = Turned(ucm.Hull(pos)) - Turned(ucm.Hull(neg, weights=ucm.NormBall(0.4)))
    clf, straight = (
        ucm.Classifier(V).fit(X, Y)
        for V in (U, ucm.Hull(pos) - ucm.Hull(neg, weights=ucm.NormBall(0.4)))
    )
    assert_allclose(clf.coef_, straight.coef_, atol=1e-4)
    with pytest.raises(ucm.UCMError):
        ucm.Classifier(Turned(ucm.Hull(pos)) - ucm.Hull(neg)).fit(X, Y)


class Wells(ucm.Penalty):
    """`||w||_1 - sum_j max(0, |w_j| - 1)` by its own split: the capped l1 norm said another way."""

    def value(self, w: Any, /) -> float:
        return float(np.minimum(np.abs(w), 1.0).sum())

    def split(self) -> Any:
        return ucm.CappedL1(1.0).split()

    def formula(self, notation: Any) -> str:
        return "wells"


def test_a_split_of_ones_own_is_multiplied() -> None:
    mine = ucm.solve(ucm.Ramp(1.0) + 0.5 * Wells(), X, Y)
    same = ucm.solve(ucm.Ramp(1.0) + 0.5 * ucm.CappedL1(1.0), X, Y)
    assert mine.objective == pytest.approx(same.objective, rel=1e-6)
    assert str(0.5 * Wells()) == "0.5·wells"
    (added,), (subtracted,) = (2.0 * Wells()).split()
    w = np.array([3.0, 0.5, -2.0])
    assert added.value(w) - subtracted.value(w) == pytest.approx(2.0 * Wells().value(w))
    assert subtracted.affine(w, 0.1) and not subtracted.affine(w, 1.5)


@pytest.mark.parametrize(
    "penalty", [ucm.Lp(2), ucm.ElasticNet(0.0), 0.5 * ucm.L2() + 0.5 * ucm.L2()]
)
def test_behind_a_kernel_a_penalty_is_asked_for_its_square(penalty: ucm.Penalty) -> None:
    solution = ucm.solve(ucm.Hinge() + penalty, X, Y, kernel="rbf")
    same = ucm.solve(ucm.Hinge() + ucm.L2(), X, Y, kernel="rbf")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(same.objective, rel=1e-6)


def test_dca_keeps_its_own_number_of_starts() -> None:
    model = ucm.Ramp(1.0) + 0.1 * ucm.L2()
    own = ucm.solve(model, X, Y, solver=ucm.solvers.DCA(starts=4))
    assert own.stats.iterations == ucm.solve(model, X, Y, starts=4).stats.iterations
    assert own.stats.iterations > ucm.solve(model, X, Y).stats.iterations
