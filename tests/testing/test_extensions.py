"""Classes of a reader's own take the routes of the library's own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import brentq
from typed import known

import ucm
from ucm import neg, pos, signed
from ucm.compiler.lowering import Lowering
from ucm.compiler.plan import Plan
from ucm.compiler.robust import DistanceLowering, minimum_norm
from ucm.data.bound_data import bind
from ucm.extend import (
    Block,
    Capped,
    Combination,
    LoweredSet,
    MatrixMap,
    RotationInvariant,
    SampleWeights,
    SimplexDomain,
    Size,
    UncertaintySet,
    VectorNode,
    value,
)
from ucm.testing import check_domain, check_set

RNG = np.random.default_rng(0)
Y = np.where(np.arange(60) % 3 == 0, -1.0, 1.0)
X = RNG.standard_normal((60, 3)) + 0.9 * Y[:, None]


class Worst(SimplexDomain):
    """Distributions over the worst `share` of the entries, `{0 <= q <= 1 / (share N), sum q = 1}`."""

    share: Any

    def bind(self, samples: Any) -> Capped:
        return Capped(self, samples, 1.0 / (value(self.share) * samples.total))

    def size(self) -> Size:
        return Size(self.share, lambda share: 1.0 / share, lambda cap: 1.0 / cap)

    def inside(self, q: Any, size: Any, samples: Any) -> list[Any]:
        return [samples.total * q <= size * samples.c]

    def formula(self, notation: Any) -> str:
        return f"N q{notation.leq}{notation.fraction('1', notation.scalar(self.share))}"


def worst(share: float, step: float = 0.0) -> ucm.extend.UncertaintySet:
    tail = Worst(ucm.Param("share", share))
    U = ucm.Hull(pos, weights=tail) - ucm.Hull(neg, weights=tail)
    return U if step == 0.0 else U + step * pos.mean


FIRST = """
import ucm
from ucm.{module} import ConvexLoss, ProximalPenalty

class L(ConvexLoss):
    {loss}

class R(ProximalPenalty):
    {penalty}

objective = 2.0 * L() + R() / 3.0
assert type(objective).__name__ == "Objective"
assert type(R() + R()).__name__ == "PenaltySum"
"""


@pytest.mark.parametrize("module", ["extend", "language.terms"])
def test_custom_declarations_add_to_built_in_declarations(module: str) -> None:
    """In a fresh interpreter: no built-in class was touched."""

    def methods(kind: Any) -> str:
        names = [n for n in kind.__abstractmethods__ if not n.startswith("__")]
        return "\n    ".join(f"def {name}(self, *args): ..." for name in sorted(names))

    loss, penalty = methods(ucm.extend.ConvexLoss), methods(ucm.extend.ProximalPenalty)
    code = FIRST.format(module=module, loss=loss, penalty=penalty)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_capped_domain_says_its_caps_only() -> None:
    check_domain(Worst(0.7))
    check_set(worst(0.7))
    D, same = Worst(0.25), ucm.CappedSimplex(0.2)
    for v in (RNG.standard_normal(20), np.round(RNG.standard_normal(20))):
        assert_allclose(D.project(v), same.project(v), atol=0)
        assert D.support(v)[0] == same.support(v)[0] and D.mass_multipliers(v) == same.mass_multipliers(v)


class Budget(ucm.extend.Domain):
    """`{q : 0 <= q <= 1, sum q <= gamma}`, with its inequalities and without a projection."""

    gamma: Any

    def size(self) -> Size:
        return Size(self.gamma)

    def support(self, g: Any) -> tuple[float, Any]:
        share = np.clip(value(self.gamma) - np.arange(g.size), 0.0, 1.0)
        q = np.zeros(g.size)
        q[np.argsort(-g)] = share
        q[g < 0.0] = 0.0
        return float(g @ q), q

    def violation(self, q: Any) -> float:
        gamma = value(self.gamma)
        return max(0.0, -q.min(), q.max() - 1.0, (q.sum() - gamma) / max(1.0, gamma))

    def center(self, dim: int) -> Any:
        return np.full(dim, min(0.5, value(self.gamma) / (2.0 * dim)))

    def infeasibility_reason(self, dim: int) -> str | None:
        return None if value(self.gamma) >= 0.0 else f"{self!r}: gamma is below 0"

    def cvxpy(self, q: Any, size: Any) -> list[Any]:
        return [q >= 0, q <= 1, sum(q) <= size]

    def polyhedron(self, dim: int) -> ucm.extend.Polyhedron:
        one, most = sparse.csr_array(np.ones((1, dim))), np.full(1, value(self.gamma))
        return ucm.extend.Polyhedron(np.zeros(dim), np.ones(dim), one, np.full(1, -np.inf), most)

    def bind(self, samples: Any) -> Any:
        c = samples.weights
        if c is None or c.min() < c.max():
            return super().bind(samples)
        return Budget(value(self.gamma) * c[0])

    def formula(self, notation: Any) -> str:
        return f"q{notation.leq}{notation.scalar(self.gamma)}"


@pytest.mark.parametrize("norm", [1.0, np.inf])
def test_linear_programs_take_a_polyhedron(norm: float) -> None:
    check_domain(Budget(1.7))
    U = ucm.AffineImage([[2.0, 0.5, 0.1], [0.0, 1.0, 0.3]], Budget(1.7)) + ucm.Point([1.0, 1.0])
    plan = ucm.compile(ucm.RobustMargin(U, norm=norm), X[:, :2], Y)
    assert plan.solver.name == "highs"
    assert plan.solve().status == "optimal" and plan.verify()


@pytest.mark.filterwarnings("ignore::ucm.errors.NonConvexWarning")
def test_a_domain_that_says_how_takes_class_weights() -> None:
    U = ucm.Hull(pos, weights=Budget(1.0)) - ucm.Hull(neg)
    heavier = ucm.Classifier(U, class_weight={1: 1.5}).fit(X, Y).solution_
    declared = ucm.solve(ucm.Hull(pos, weights=Budget(1.5)) - ucm.Hull(neg), X, Y)
    assert heavier.objective == pytest.approx(declared.objective, rel=1e-7)
    y = np.array([1, 1, -1, -1])
    own = ucm.CappedSimplex(0.2)
    same = own.bind(SampleWeights(4, np.array([3.0, 3.0, 2.0, 2.0]), y))
    assert [g.cap for g in known(same.groups)] == [pytest.approx(0.6), pytest.approx(0.4)]
    other = own.bind(SampleWeights(4, np.array([3.0, 1.0, 2.0, 2.0]), y))
    assert_allclose(other.support(np.array([1.0, 0, 1, 0]))[1], [0.5, 0, 0.4, 0.1])


def test_newton_over_hulls_takes_a_custom_domain() -> None:
    plan = ucm.compile(worst(0.9), X, Y)
    assert type(plan.solver) is ucm.solvers.ActiveSet
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    by_cone = ucm.solve(worst(0.9), X, Y, solver="clarabel")
    assert_allclose(solution.w, by_cone.w, atol=1e-4)
    joint = ucm.compile(ucm.Hull(signed, weights=Worst(0.6)), X, Y)
    assert type(joint.solver) is ucm.solvers.ActiveSet
    assert joint.solve().status == "optimal" and joint.verify()


def test_two_hulls_and_a_third_set_of_weights_are_not_two_hulls() -> None:
    U = ucm.Hull(pos) - ucm.Hull(neg) + 0.1 * ucm.Hull(pos, weights=ucm.NormBall(0.3))
    plan = ucm.compile(U, X + Y[:, None], Y)
    assert type(plan.solver) is not ucm.solvers.ActiveSet
    assert plan.solve().status == "optimal" and plan.verify()


def test_newton_on_the_gram_matrix_takes_a_custom_loss() -> None:
    plan = ucm.compile(worst(0.7), X, Y, kernel="rbf", solver="smo")
    solution = plan.solve()
    assert solution.status == "optimal" and solution.stats.solver == "smo"
    by_cone = ucm.solve(worst(0.7), X, Y, kernel="rbf", solver="clarabel")
    assert_allclose(solution.objective, by_cone.objective, rtol=1e-5)
    auto = ucm.compile(worst(0.7), X, Y, kernel="rbf")
    assert auto.solver.name == "smo"


def test_rapminos_takes_a_domain_of_an_extension() -> None:
    plan = ucm.compile(worst(0.2), X, Y, solver="rapminos")
    solution = plan.solve()
    assert plan.verify()
    number = 1.0 / (0.2 * 40), 1.0 / (0.2 * 20)
    same = ucm.ReducedHull(pos, eta=number[0]) - ucm.ReducedHull(neg, eta=number[1])
    assert_allclose(solution.w, ucm.solve(same, X, Y, solver="rapminos").w, atol=1e-12)


@pytest.mark.parametrize("norm", [1.0, np.inf])
def test_linear_programs_take_a_custom_domain(norm: float) -> None:
    model = ucm.RobustMargin(worst(0.9), norm)
    plan = ucm.compile(model, X, Y)
    assert plan.solver.name == "highs"
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

    def infeasibility_reason(self, data: Any) -> str | None:
        return None

    def size(self, data: Any) -> Size:
        return Size(self.r)

    def _mean(self, data: Any) -> Any:
        return data.mean("pos") - data.mean("neg")

    def lower(self, data: Any) -> LoweredSet:
        c = self._mean(data)
        return LoweredSet(c, (Block(MatrixMap(c[:, None]), ucm.NormBall(self.r)),))

    def evaluate(self, data: Any, q: Any) -> Any:
        t = next(q)
        return (1.0 + t[0]) * self._mean(data), ucm.NormBall(self.r).violation(t)

    def cvxpy(self, data: Any, scope: Any) -> Any:
        import cvxpy as cp

        t = cp.Variable()
        return (1.0 + t) * self._mean(data), [cp.abs(t) <= scope.of(self.size(data))]

    def support(self, data: Any, d: Any, splits: Any) -> Any:
        c = self._mean(data)
        x = (1.0 + np.copysign(value(self.r), c @ d)) * c
        return float(x @ d), x

    def formula(self, notation: Any) -> str:
        return f"between({notation.scalar(self.r)})"


class Means(Between, RotationInvariant):
    """The same, and it says so."""


def test_a_kernel_refuses_a_set_without_a_declared_invariance() -> None:
    for U in (Between(0.2), ucm.Hull(pos) - ucm.Hull(neg) + Between(0.2)):
        check_set(U)
        with pytest.raises(ucm.CompositionError, match=r"Between\(0.2\) is written in the features"):
            ucm.compile(U, X, Y, kernel="rbf")


def test_a_set_that_is_free_of_coordinates_has_kernels() -> None:
    for U in (Means(0.2), ucm.ReducedHull(pos, nu=0.3) - ucm.ReducedHull(neg, nu=0.3) + Means(0.2)):
        check_set(U)
        assert U.in_features() is None
        linear = ucm.solve(U, X, Y, kernel="linear")
        assert_allclose(linear.w, ucm.solve(U, X, Y).w, atol=1e-5)
        plan = ucm.compile(U, X, Y, kernel="rbf")
        assert plan.solve().status == "optimal" and plan.verify()


class Middle(VectorNode, RotationInvariant):
    """The geometric median, whose weights of the samples depend on them."""

    samples: Any

    def evaluate(self, data: Any) -> Any:
        x = data.X[self.samples.rows(data)]
        x = x.toarray() if sparse.issparse(x) else x
        z = x.mean(axis=0)
        for _ in range(20):
            share = 1.0 / np.linalg.norm(x - z, axis=1)
            z = share @ x / share.sum()
        return z

    def formula(self, notation: Any) -> str:
        return "middle"


class Relative(Means):
    """The segment with the length of its direction as a radius: a norm over coefficients is another one."""

    def _mean(self, data: Any) -> Any:
        c = super()._mean(data)
        return c * (1.0 + np.linalg.norm(c))


class Tail(Means):
    """The segment, whose violation is computed from the coordinates."""

    def evaluate(self, data: Any, q: Any) -> Any:
        x, _ = super().evaluate(data, q)
        return x, max(0.0, float(np.linalg.norm(x)) - 0.1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    "part", [ucm.Point(Middle(pos)), ucm.Ellipsoid(0.5 * Middle(pos), pos.cov, 0.1), Relative(0.2), Tail(0.2)]
)
def test_a_kernel_refuses_coefficients_that_depend_on_the_samples(part: Any, kernel: Any) -> None:
    for U in (part - ucm.Hull(neg), (part & part) - ucm.Hull(neg), Wrapped(part) - ucm.Hull(neg)):
        assert U.in_features() is None
        with pytest.raises(ucm.CompositionError, match="coefficients that do not depend on X"):
            ucm.compile(U, X, Y, kernel=kernel)
        with pytest.raises(AssertionError, match="coefficients that do not depend on X"):
            check_set(U)


class Wrapped(Combination, RotationInvariant):
    """The same set, as the only term of a sum."""

    part: Any

    def terms(self) -> Any:
        return ((self.part, 1.0),)


@pytest.mark.parametrize(
    "wrong", [lambda n: np.zeros(n - 1), lambda n: [0.0] * n, lambda n: None, lambda n: np.full(n, np.nan)]
)
def test_a_statistic_that_is_no_vector_is_named(wrong: Any) -> None:
    class Wrong(VectorNode):
        def evaluate(self, data: Any) -> Any:
            return wrong(data.n)

    for model in (ucm.Hull(neg) - Wrong(), ucm.Hinge() + ucm.L2() + ucm.LinearConstraint([Wrong()], ub=1.0)):
        with pytest.raises(ucm.CompositionError, match=r"Wrong\(\): evaluate: expected an array of 3 finite"):
            ucm.compile(model, X, Y)
    with pytest.raises(AssertionError, match=r"Wrong\(\): evaluate"):
        check_set(ucm.Hull(neg) - Wrong())


def test_properties_of_a_node_follow_from_its_children() -> None:
    free = [
        ucm.Point(2 * pos.mean - neg.mean),
        ucm.Ellipsoid(0, pos.cov + 2 * neg.cov, 1.0),
        (ucm.Hull(pos, weights=ucm.KLBall(0.5) & ucm.Box(0, 1)) & ucm.Hull(signed)) / 2,
        ucm.Hull(signed, weights=ucm.LossBall(ucm.Logistic() / 0.3, 0.1)),
        ucm.Ball(pos.mean, 1.0),
    ]
    for U in free:
        assert U.in_features() is None
    v, S = np.ones(3), np.eye(3)
    for U in (
        ucm.Ball(pos.mean, 1.0, p=1),
        ucm.AffineImage(S, ucm.NormBall(1.0)),
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
        ucm.admissible(ucm.Ellipsoid(0, pos.cov, 0.1) + U, wide, y)["r"] for U in (Between(r), Means(r))
    )
    assert one.upper == pytest.approx(other.upper, rel=1e-6)


# --- summands ------------------------------------------------------------------------------------
class Blend(Combination, RotationInvariant):
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
    with pytest.raises(ucm.CompositionError, match="of one dimension"):
        Blend(ucm.Point([1.0, 2.0]), ucm.Point([1.0]), 0.5)


def test_its_summands_give_the_bias() -> None:
    """The midpoint of the class points, as for the same set written with the sums of the library."""
    written = 0.3 * HALVES[0] + 0.7 * HALVES[1]
    for rest in (ucm.Ellipsoid(neg.mean, neg.cov, 0.3), ucm.Point(neg.mean)):
        own = ucm.solve(Blend(*HALVES, 0.3) - rest, X, Y, solver="ssnal")
        same = ucm.solve(written - rest, X, Y, solver="ssnal")
        assert own.bias_rule == same.bias_rule == "midpoint"
        assert own.b == same.b
        assert_allclose(own.w, same.w, atol=0)
    kernel = ucm.compile(Blend(*HALVES, 0.3) - ucm.Hull(neg), X, Y, kernel="rbf")
    assert kernel.solve().status == "optimal"


def test_its_matrices_give_the_normal_in_the_features() -> None:
    U = Turned(ucm.Hull(pos)) - Turned(ucm.Hull(neg, weights=ucm.NormBall(0.4)))
    clf, straight = (
        ucm.Classifier(V).fit(X, Y) for V in (U, ucm.Hull(pos) - ucm.Hull(neg, weights=ucm.NormBall(0.4)))
    )
    assert_allclose(clf.coef_, straight.coef_, atol=1e-4)
    with pytest.raises(ucm.UCMError):
        ucm.Classifier(Turned(ucm.Hull(pos)) - ucm.Hull(neg)).fit(X, Y)


class Wells(ucm.extend.Penalty):
    """`||w||_1 - sum_j max(0, |w_j| - 1)` by its own split: the capped l1 norm said another way."""

    def value(self, w: Any, /) -> float:
        return float(np.minimum(np.abs(w), 1.0).sum())

    def split(self) -> Any:
        return ucm.CappedL1(1.0).split()

    def formula(self, notation: Any) -> str:
        return "wells"


def test_a_custom_split_is_multiplied() -> None:
    mine = ucm.solve(ucm.Ramp(1.0) + 0.5 * Wells(), X, Y)
    same = ucm.solve(ucm.Ramp(1.0) + 0.5 * ucm.CappedL1(1.0), X, Y)
    assert mine.objective == pytest.approx(same.objective, rel=1e-6)
    assert str(0.5 * Wells()) == "0.5·wells"
    (added,), (subtracted,) = (2.0 * Wells()).split()
    w = np.array([3.0, 0.5, -2.0])
    assert added.value(w) - subtracted.value(w) == pytest.approx(2.0 * Wells().value(w))
    assert subtracted.affine(w, 0.1) and not subtracted.affine(w, 1.5)


@pytest.mark.parametrize("penalty", [ucm.Lp(2), ucm.ElasticNet(0.0), 0.5 * ucm.L2() + 0.5 * ucm.L2()])
def test_a_kernel_needs_the_square_of_a_penalty(penalty: ucm.extend.Penalty) -> None:
    solution = ucm.solve(ucm.Hinge() + penalty, X, Y, kernel="rbf")
    same = ucm.solve(ucm.Hinge() + ucm.L2(), X, Y, kernel="rbf")
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(same.objective, rel=1e-6)


def test_dca_keeps_its_own_number_of_starts() -> None:
    model = ucm.Ramp(1.0) + 0.1 * ucm.L2()
    own = ucm.solve(model, X, Y, solver=ucm.solvers.DCA(n_starts=4))
    assert own.stats.iterations == ucm.solve(model, X, Y, n_starts=4).stats.iterations
    assert own.stats.iterations > ucm.solve(model, X, Y).stats.iterations


# --- what checks refuse ----------------------------------------------------------------------------
class Flat(ucm.Hinge):
    """The conjugate in CVXPY is a quarter of the right one."""

    def conjugate_cvxpy(self, s: Any) -> Any:
        return s**2 / 16.0, [s >= 0]


class Unlimited(ucm.Hinge):
    """The conjugate in CVXPY is finite for every s."""

    def conjugate_cvxpy(self, s: Any) -> Any:
        return s**2 / 4.0, []


class Steep(ucm.L2):
    """The gradient is twice the right one."""

    def gradient(self, w: Any) -> Any:
        return 4.0 * w


class Boxed(ucm.L2):
    """The box is that of the 1-norm."""

    def box(self) -> Any:
        return -1.0, 1.0


class Mixing(ucm.Quadratic):
    """The proximal map mixes features, and claims to keep their signs."""

    keeps_signs = True


class Lying(ucm.NormBall):
    """A ball that claims to lie on the simplex."""

    @property
    def on_simplex(self) -> bool:
        return True


class Wordless(ucm.NormBall):
    """A ball whose formula fails."""

    def formula(self, notation: Any) -> str:
        raise KeyError("no words")


class WordlessLoss(ucm.Hinge):
    """A loss whose formula fails."""

    def formula(self, notation: Any) -> str:
        raise KeyError("no words")


class WordlessPenalty(ucm.L1):
    """A penalty whose formula is not text."""

    def formula(self, notation: Any) -> Any:
        return None


class WordlessSet(Between):
    """A set whose formula fails."""

    def formula(self, notation: Any) -> str:
        raise KeyError("no words")


@pytest.mark.parametrize(
    ("check", "wrong", "law"),
    [
        (ucm.testing.check_loss, Flat(2.0), "conjugate agrees with CVXPY"),
        (ucm.testing.check_loss, Unlimited(2.0), "conjugate is inf outside"),
        (ucm.testing.check_loss, WordlessLoss(), "formula.*no words"),
        (ucm.testing.check_penalty, Steep(), "gradient is that of the value"),
        (ucm.testing.check_penalty, Boxed(), "support of its box"),
        (ucm.testing.check_penalty, Mixing(np.eye(6) + 0.3), "keeps signs"),
        (ucm.testing.check_penalty, WordlessPenalty(), "formula.*None"),
        (check_domain, Lying(0.5), "lies on the simplex"),
        (check_domain, Wordless(0.5), "formula.*no words"),
        (check_set, WordlessSet(0.2), "formula.*no words"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_checks_refuse_what_is_wrong(check: Any, wrong: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check(wrong)


class Bare(ucm.extend.Domain):
    """The abstract methods of a domain only: the unit ball of the largest entry."""

    def support(self, g: Any) -> tuple[float, Any]:
        return float(np.abs(g).sum()), np.where(np.asarray(g) < 0.0, -1.0, 1.0)

    def center(self, dim: int) -> Any:
        return np.zeros(dim)

    def violation(self, q: Any) -> float:
        return max(0.0, float(np.abs(q).max()) - 1.0)

    def cvxpy(self, q: Any, size: Any) -> list[Any]:
        return [q <= 1, q >= -1]


def test_a_domain_with_the_abstract_methods_only_is_solved() -> None:
    assert set(ucm.extend.Domain.__abstractmethods__) <= vars(Bare).keys()
    check_domain(Bare(), samples=False)
    U = ucm.AffineImage(0.1 * np.eye(3), Bare()) + pos.mean - neg.mean
    same = ucm.AffineImage(0.1 * np.eye(3), ucm.Box(-1.0, 1.0)) + pos.mean - neg.mean
    assert ucm.solve(U, X, Y).objective == pytest.approx(ucm.solve(same, X, Y).objective, rel=1e-6)
    forgotten: Any = type("Forgotten", (Bare,), {"violation": ucm.extend.BoundDomain.violation})
    with pytest.raises(TypeError, match="violation"):
        forgotten()


# --- what is wrong with one's own, and what messages say first -------------------------------------
class Early(ucm.extend.Domain, ucm.extend.Projectable):
    """{q : 0 <= q_i <= upper, sum_i i q_i <= N budget}, with a projection and without its Jacobian."""

    upper: Any
    budget: Any

    def support(self, g: Any) -> Any:
        cost, left = np.arange(1, g.size + 1) / g.size, self.budget
        q = np.zeros(g.size)
        for i in np.argsort(-g / cost):
            q[i] = min(self.upper, left / cost[i]) if g[i] > 0.0 else 0.0
            left = max(0.0, left - cost[i] * q[i])
        return float(g @ q), q

    def project(self, v: Any) -> Any:
        cost = np.arange(1, v.size + 1) / v.size

        def at(t: Any) -> Any:
            return np.clip(v - t * cost, 0.0, self.upper)

        if cost @ at(0.0) <= self.budget:
            return at(0.0)
        return at(brentq(lambda t: cost @ at(t) - self.budget, 0.0, (v / cost).max() + 1.0, xtol=1e-15))

    def center(self, dim: int) -> Any:
        return np.zeros(dim)

    def cvxpy(self, q: Any, size: Any) -> list[Any]:
        return [q >= 0, q <= self.upper, np.arange(1, q.size + 1) @ q <= q.size * self.budget]


@pytest.mark.parametrize("solver", ["auto", "clarabel"])
@pytest.mark.parametrize("more", [None, ucm.NormBall(0.4)])
def test_a_hull_with_weights_in_a_domain_without_a_jacobian_is_proven(solver: Any, more: Any) -> None:
    D = Early(0.2, 0.3)
    check_domain(D)
    U = ucm.Hull(pos, weights=D if more is None else D & more) - ucm.Hull(neg)
    plan = ucm.compile(U, X + 2.0 * Y[:, None], Y, solver=solver)
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    assert solution.certificate.relative_gap <= 1e-6


class WithoutBall(Lowering[Any]):
    """The lowering of `V + Ball(0, r)` to the nearest point of V."""

    def __init__(self, U: UncertaintySet, rest: UncertaintySet, radius: float) -> None:
        self.model, self.data, self.requested = ucm.RobustMargin(U), bind(X, Y), "auto"
        self.whole, self.radius = DistanceLowering(self.model, self.data), radius
        self.form = minimum_norm(ucm.RobustMargin(rest), self.data)

    def describe(self) -> Any:
        return self.whole.describe()

    def certify(self, answer: Any, tol: float) -> Any:
        x = self.form.matvec(answer.q)
        ball = -x * min(1.0, self.radius / np.linalg.norm(x))
        return self.whole.certify(replace(answer, q=[*answer.q, ball]), tol)

    def certify_external(self, external: Any) -> Any:
        return self.whole.certify_external(external)

    def recover(self, proof: Any, bias_rule: str) -> Any:
        return self.whole.recover(proof, bias_rule)

    def reference(self, at: Any, scaled: bool) -> Any:
        return self.whole.reference(at, scaled)

    def verify(self, solution: Any, tol: float, **options: Any) -> Any:
        return self.whole.verify(solution, tol, **options)


def test_a_lowering_does_not_prove_an_empty_set() -> None:
    rest = ucm.Hull(pos, weights=ucm.CappedSimplex(0.001)) - ucm.Hull(neg)
    with pytest.raises(ucm.EmptySetError, match="cap"):
        Plan.of((WithoutBall(rest + ucm.Ball(0, 0.1), rest, 0.1),)).solve()


@pytest.mark.parametrize("other", [ucm.NormBall(0.6), ucm.Box(0.0, 0.5)])
def test_the_check_takes_intersections_to_the_accuracy_of_their_programs(other: Any) -> None:
    check_domain(Early(0.5, 0.3) & other, dims=(1, 2, 5), samples=False)
    check_domain(ucm.NormBall(0.6) & other, dims=(1, 5), samples=False)


class Sizeless(ucm.NormBall):
    """Its constraints ignore the size that they are given."""

    def cvxpy(self, q: Any, size: Any) -> list[Any]:
        return super().cvxpy(q, value(self.radius))


def test_the_check_names_constraints_without_the_size() -> None:
    with pytest.raises(AssertionError, match="depends on the size"):
        check_domain(Sizeless(0.5), dims=(2,), samples=False)


class Unsettled(WithoutBall):
    """Every fallback of its solver runs."""

    def settled(self, proof: Any, tol: float) -> bool:
        return False


def test_a_fallback_starts_from_blocks_of_the_form() -> None:
    rest = ucm.models.nu_svm(0.6)
    U = rest + ucm.Ball(0, 0.1)
    solution = Plan.of((Unsettled(U, rest, 0.1),)).solve()
    assert solution.status == "optimal"
    assert_allclose(solution.objective, ucm.solve(U, X, Y).objective, rtol=1e-5)


class Overbid(ucm.extend.ConvexLoss):
    """The squared hinge with a conjugate that is too small: the dual point is above the primal one."""

    @property
    def offset(self) -> float:
        return 1.0

    def each(self, margin: Any) -> Any:
        return np.maximum(0.0, 1.0 - margin) ** 2

    def slope(self) -> None:
        return None

    def smooth(self) -> bool:
        return True

    def gradient(self, u: Any) -> Any:
        return 2.0 * np.maximum(0.0, u)

    def conjugate(self, s: Any) -> Any:
        return np.where(s >= 0.0, 0.01 * s**2, np.inf)

    def conjugate_prox(self, v: Any, t: Any) -> Any:
        return np.maximum(v, 0.0) / (1.0 + 0.02 * t)

    def conjugate_prox_slope(self, v: Any, t: Any, s: Any) -> Any:
        return (s > 0.0) / (1.0 + 0.02 * t)

    def cvxpy(self, margin: Any, factor: Any, scope: Any) -> Any:
        import cvxpy as cp

        return scope.of(factor) * cp.square(cp.pos(1 - margin))

    def conjugate_cvxpy(self, s: Any) -> Any:
        return 0.01 * s**2, [s >= 0]

    def formula(self, notation: Any) -> str:
        return "overbid"


def test_a_wrong_custom_conjugate_is_named() -> None:
    with pytest.raises(ucm.SolverError, match=r"Overbid is not of this library.*check_loss") as told:
        ucm.solve(Overbid() + ucm.L2(), X, Y)
    assert "report" not in str(told.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ucm.Ellipsoid(np.arange(40.0), np.eye(40), 1.0) - neg.mean,
        lambda: ucm.AffineImage(np.ones((50, 30)), ucm.NormBall(1.0)) + pos.mean,
        lambda: ucm.AffineImage(np.ones((50, 30)), ucm.NormBall(1.0), center=pos.mean),
        lambda: ucm.Hull(ucm.Points(RNG.standard_normal((30, 30)))) - ucm.Hull(pos),
        lambda: RNG.standard_normal((20, 21)) @ ucm.Hull(pos) - ucm.Hull(neg),
        lambda: ucm.Ellipsoid(pos.mean, np.eye(40), 1.0) - neg.mean,
        lambda: (ucm.Ball(np.zeros(60), 1.0) | ucm.Ball(np.ones(60), 1.0)) - ucm.Hull(neg),
        lambda: ucm.Ball(np.zeros(100), 1.0) & ucm.Ball(np.zeros(101), 1.0),
        lambda: ucm.Ball(np.arange(70.0), 1.0) & ucm.Hull(pos),
    ],
)
def test_dimensions_are_printed_before_arrays(make: Any) -> None:
    with pytest.raises(ucm.CompositionError) as told:
        ucm.solve(make(), X, Y)
    text = str(told.value)
    assert text.startswith("expected ") and len(text) < 420, text
    assert "got " in text[:120]


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda s, r: ucm.Ball(0, s + r), "expected numbers and parameters, got an array"),
        (lambda s, r: ucm.L1(weights=r / s), "weights"),
        (lambda s, r: ucm.NormBall(s * r.tolist()), "radius"),
    ],
)
def test_an_array_with_a_parameter_is_refused_where_a_number_stands(make: Any, part: str) -> None:
    with pytest.raises(ucm.CompositionError, match=part):
        make(ucm.Param("s", 1.0), np.ones(3))
