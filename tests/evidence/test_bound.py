"""The lower bound of every problem, on answers and terms that its earlier copies let through."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from typed import known

import ucm
from ucm import L1, L2, GroupLasso, Hinge, LInf, Logistic
from ucm.evidence.objective import _members
from ucm.evidence.penalty_split import split_by_program
from ucm.extend import ConvexLoss, ProximalPenalty
from ucm.forms.bound import FeatureNormal, SampleDual, SumDual, balanced, lower_bound
from ucm.language.penalties.combined import CombinedPenalty

X, Y = load("wine")
W0 = np.random.default_rng(0).standard_normal(13)


class Shifted(ProximalPenalty):
    """The penalty `||w||_2^2 - 2 <w0, w>`, whose least value is negative."""

    def value(self, w: Any) -> float:
        return float(w @ w - 2.0 * W0 @ w)

    def prox(self, v: Any, t: float) -> Any:
        return (v + 2.0 * t * W0) / (1.0 + 2.0 * t)

    def conjugate(self, z: Any) -> float:
        return float((z + 2.0 * W0) @ (z + 2.0 * W0)) / 4.0

    def gauge(self, z: Any) -> float:
        return 0.0

    def cvxpy(self, w: Any, factor: Any, scope: Any) -> Any:
        return factor * (cp.sum_squares(w) - 2.0 * W0 @ w)


class Linear(ConvexLoss):
    """The loss -t, whose slope is 1 everywhere."""

    def each(self, margin: Any) -> Any:
        return -margin

    def gradient(self, u: Any) -> Any:
        return np.ones_like(u)

    def conjugate(self, s: Any) -> Any:
        return np.where(np.abs(s - 1.0) < 1e-12, 0.0, np.inf)

    def conjugate_prox(self, v: Any, t: Any) -> Any:
        return np.ones_like(v)

    def smooth(self) -> bool:
        return True

    def cvxpy(self, margin: Any, factor: Any, scope: Any) -> Any:
        return -factor * margin


class TotalVariation(ProximalPenalty):
    """The penalty `sum_j |w_(j+1) - w_j|`."""

    keeps_signs = False

    def value(self, w: Any) -> float:
        return float(np.abs(np.diff(w)).sum())

    def prox(self, v: Any, t: float) -> Any:
        a = np.zeros(v.size - 1)  # projected gradient on the dual box
        for _ in range(20_000):
            after = np.clip(a + 0.25 * np.diff(v - self._adjoint(a)), -t, t)
            if np.abs(after - a).max(initial=0.0) <= 1e-15 * t:
                break
            a = after
        return v - self._adjoint(a)

    def _adjoint(self, a: Any) -> Any:
        return -np.diff(a, prepend=0.0, append=0.0)

    def conjugate(self, z: Any) -> float:
        return 0.0

    def gauge(self, z: Any) -> float:
        size = float(np.abs(z).max(initial=0.0)) or 1.0
        return float(np.abs(np.cumsum(z))[:-1].max()) if abs(z.sum()) <= 1e-12 * size else np.inf

    def project_onto_domain_cone(self, z: Any) -> Any:
        return z - z.mean()

    def cvxpy(self, w: Any, factor: Any, scope: Any) -> Any:
        return factor * cp.norm1(cp.diff(w))


def optimum(model: Any, *data: Any) -> float:
    return float(ucm.compile(model, *data).reference(scaled=True).solve(solver="CLARABEL"))


def test_objectives_below_zero() -> None:
    """R*(0) is positive where R is negative somewhere, and the base point bounds less."""
    model = 0.5 * Shifted() + 0.01 * Hinge()
    plan = ucm.compile(model, X, Y)
    best = optimum(model, X, Y)
    for at in (0.5 * W0, 0.0 * W0, W0):
        proof = plan.certify(w=at, b=0.0)
        assert proof.dual <= best + 1e-9 and best <= proof.primal + 1e-9
    assert plan.certify(w=0.5 * W0, b=0.0).gap > 0.1
    found = plan.solve()
    assert found.status == "optimal" and found.objective == pytest.approx(best, rel=1e-6)


class Low(Hinge):
    """The hinge loss with a conjugate that is 1 too small."""

    def conjugate(self, s: Any) -> Any:
        return super().conjugate(s) - 1.0


@pytest.mark.parametrize(("lam", "weight"), [(0.5, 1.0), (1e-40, 1.0), (0.5e-10, 1e-10)])
def test_a_bound_above_the_objective_is_no_rounding_of_nothing(lam: float, weight: float) -> None:
    """The loss is 0 beside a penalty of any size, and the bound 2."""
    points, labels = np.array([[-2.0], [2.0]]), np.array([-1.0, 1.0])
    plan = ucm.compile(Low() + lam * L2(), points, labels, sample_weight=[weight, weight])
    with pytest.raises(ucm.SolverError, match=r"contradicts the answer.*Low is not of this library"):
        plan.certify(w=[1.0], b=0.0)


@pytest.mark.parametrize(
    "penalty",
    [
        L1(),
        LInf(),
        GroupLasso([0, 0, 1]),
        L1() + GroupLasso([0, 0, 1]),
        L1() + ucm.LinearConstraint([[1.0, 0, 1]]),
    ],
    ids=repr,
)
def test_sums_of_samples_that_overflow_bound_nothing(penalty: ProximalPenalty) -> None:
    """The optimum is nearly 0: the samples are separated by a normal of length 1e-307."""
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(20) % 2, 1.0, -1.0)
    points = 1e307 * (rng.standard_normal((20, 3)) + labels[:, None])
    proof = ucm.compile(1e10 * Hinge() + penalty, points, labels).certify(w=np.zeros(3), b=0.0)
    assert proof.primal == pytest.approx(2e11) and proof.dual <= 1.0


@pytest.mark.parametrize("solver", ["auto", "prox-alm", "clarabel"])
def test_losses_without_the_slope_zero(solver: str) -> None:
    model = Hinge() + 0.1 * Linear() + 0.5 * L2()
    found = ucm.solve(model, X, Y, solver=solver)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(optimum(model, X, Y), rel=1e-6)


@pytest.mark.parametrize("penalty", [L1(), LInf(), GroupLasso([0, 0, 1])], ids=repr)
def test_base_points_outside_of_the_domain_of_the_penalty_bound_nothing(penalty: ProximalPenalty) -> None:
    """Where the slopes of the losses are not 0, no point of the segment may lie in the domain of R*."""
    bounded = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        labels = np.where(np.arange(12) % 2, 1.0, -1.0)
        table = rng.standard_normal((12, 3)) + 0.3 * labels[:, None]
        model = Hinge() + rng.uniform(0.05, 0.6) * Linear() + rng.uniform(0.3, 6.0) * penalty
        plan = ucm.compile(model, table, labels)
        best = plan.reference(scaled=True).solve(solver="CLARABEL")  # -inf where it is unbounded
        bounded += bool(np.isfinite(best))
        for size in (0.0, 0.01, 1.0):
            proof = plan.certify(w=size * rng.standard_normal(3), b=float(rng.standard_normal()))
            assert proof.dual == -np.inf or proof.dual <= best + 1e-6
    assert 0 < bounded < 12


def test_losses_without_the_slope_zero_over_rows() -> None:
    model = Logistic() + 0.1 * Linear() + 0.5 * L2()
    found = ucm.solve(model, ucm.open_rows(X, Y, block=30))
    assert found.status == "optimal"
    assert found.objective == pytest.approx(optimum(model, X, Y), rel=1e-6)


def test_weights_outside_of_the_domain_bound_nothing() -> None:
    mixed = np.random.default_rng(0).permutation(Y)
    plan = ucm.compile(ucm.Hull(ucm.signed, weights=ucm.LossBall(Hinge(2), lam=1e3)), X, mixed)
    found = plan.solve()
    q: Any = found.weights
    for weights in (0.9 * q, 0.0 * q, -q, q[::-1]):
        proof = plan.certify(w=found.w, weights=weights)
        assert proof.dual <= found.objective + 1e-9
        if abs(weights.sum() - 1.0) > 1e-6:
            assert proof.kind == "none" and proof.dual == -np.inf
    assert plan.certify(w=found.w, weights=q).kind == "global"


def test_a_separable_logistic_loss_with_a_bounded_penalty_is_unattained() -> None:
    """The tangent of the penalty leaves no room in the domain of R*; a violation costs its product with w."""
    table, target = load_breast_cancer(return_X_y=True)
    table = ((table - table.mean(axis=0)) / table.std(axis=0))[:, [29, 23]]
    rows = [
        136, 189, 268, 119, 404, 307, 259, 162, 365, 147, 0, 263, 396, 320, 376, 261, 141, 153, 256, 121,
        538, 168, 546, 318, 468, 255, 436, 427, 271, 159, 349, 337, 368, 117, 503, 419, 309, 220, 547, 423,
        49, 560, 175, 495, 61, 338, 504, 197, 173, 371,
    ]  # fmt: skip
    model = Logistic() + 0.9215754357036877 * ucm.ExpL0(0.7430677600095388)
    with pytest.warns(ucm.ConvergenceWarning, match="no minimum is attained"):
        assert ucm.solve(model, table[rows], target[rows]).status == "unattained"


SPLIT = {
    "groups that overlap": Hinge()
    + GroupLasso([0] * 5 + [1] * 5, weights=[1, 0])
    + GroupLasso([0] * 3 + [1] * 4 + [0] * 3, weights=[0, 1]),
    "three norms": Logistic() + L1(weights=[0] + [1] * 9) + LInf() + GroupLasso(np.arange(10) % 3),
    "total variation": Logistic() + TotalVariation() + L1(),
}


@pytest.mark.parametrize("name", SPLIT)
def test_sums_of_penalties_without_a_proximal_map(name: str) -> None:
    table, target = load_breast_cancer(return_X_y=True)
    table = ((table - table.mean(axis=0)) / table.std(axis=0))[::4, :10]
    found = ucm.solve(SPLIT[name], table, target[::4])
    assert found.status == "optimal"
    best = optimum(SPLIT[name], table, np.where(target[::4] > 0, 1.0, -1.0))
    assert found.objective == pytest.approx(best, rel=1e-6)
    assert found.certificate.dual <= best * (1.0 + 1e-7)


def test_a_constant_classifier_is_proven_only_where_it_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of a sum of penalties without a proximal map is a conic program."""
    asked: list[bool] = []
    monkeypatch.setattr(
        "ucm.evidence.objective.split_by_program", lambda terms, z, w: asked.append(bool(w.any()))
    )
    sums = GroupLasso(np.arange(13) // 4) + GroupLasso((np.arange(13) + 2) // 4) + LInf()
    with pytest.warns(ucm.ConvergenceWarning):
        found = ucm.solve(Logistic() + sums, X, Y, max_iter=3)
    assert found.w.any() and asked and all(asked)


def test_a_split_lies_in_the_domains_of_the_conjugates() -> None:
    """The length of each group is at most 1; the squared norm takes what is left, and any vector."""
    rng = np.random.default_rng(0)
    groups = [0] * 5 + [1] * 5, [0] * 3 + [1] * 4 + [2] * 3
    w, z = rng.standard_normal(10), 3.0 * rng.standard_normal(10)
    parts = split_by_program((*map(GroupLasso, groups), 0.5 * L2()), z, w)
    assert parts is not None
    np.testing.assert_allclose(sum(parts), z, atol=1e-13)
    for part, each in zip(parts, groups, strict=False):
        lengths = [np.linalg.norm(part[np.array(each) == k]) for k in set(each)]
        assert max(lengths) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_split_leaves_nothing_to_bounds_that_do_not_bind(size: float) -> None:
    """The subgradient of the 1-norm at w has the signs of w, that of the bounds is 0 inside of them."""
    w = size * np.array([0.5, -0.25, 1.0])
    parts = split_by_program((L1(), ucm.Bounds(-2.0 * size, 2.0 * size)), np.sign(w), w)
    assert parts is not None
    np.testing.assert_allclose(parts[0], np.sign(w), atol=1e-9)
    np.testing.assert_allclose(parts[1], 0.0, atol=1e-9)


@pytest.mark.parametrize("tilt", [0.0, 1e-3])
def test_a_split_outside_of_the_domains_bounds_no_more_than_one_inside(tilt: float) -> None:
    """The conjugates of norms are 0 there too: without their domains the bound would be the loss's alone."""
    rng, y = np.random.default_rng(0), np.where(np.arange(12) % 2, 1.0, -1.0)
    samples = 2.0 * rng.standard_normal((12, 3)) + y[:, None]
    terms = (ucm.Norm(2.0), ucm.Norm(3.0))
    least = ucm.solve(Logistic() + ucm.Norm(2.0) + ucm.Norm(3.0), samples, y).objective
    point = SampleDual([(Logistic(), np.ones(12))], y, np.zeros(12), None, None)
    normal = FeatureNormal(samples, rng.standard_normal(3))
    bound, violation = lower_bound(
        point, normal, CombinedPenalty(terms), np.full(3, tilt), split=lambda terms, z, w: [2.0 * z, -z]
    )
    assert violation > 1e-12 or bound <= least + 10.0 * tilt


@pytest.mark.parametrize("lam", [0.5, 0.01])
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_the_bound_with_a_kernel_is_that_of_its_matrix(lam: float, size: float) -> None:
    """The best multiple of the weights, whatever the normal: `t S - t^2 a'Ka / (4 lam)` over t in [0, 1]."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    table = rng.standard_normal((20, 3)) + 0.5 * y[:, None]
    alpha = np.where(y > 0.0, 0.5, 0.4) * rng.uniform(0.0, 1.0, 20)
    alpha[y < 0.0] *= alpha[y > 0.0].sum() / alpha[y < 0.0].sum()
    K = rbf_kernel(table, gamma=0.5)
    square, total = float((alpha * y) @ K @ (alpha * y)), float(alpha.sum())
    t = min(1.0, 2.0 * lam * total / square)
    c = size * rng.standard_normal(20)
    plan = ucm.compile(Hinge() + lam * L2(), table, y, kernel="rbf", gamma=0.5)
    proof = plan.certify(coefficients=c, weights=alpha, b=0.3)
    assert proof.dual == pytest.approx(t * total - t * t * square / (4.0 * lam), rel=1e-12)
    assert proof.primal == pytest.approx(lam * c @ K @ c + np.maximum(1.0 - y * (K @ c + 0.3), 0.0).sum())


def test_samples_in_one_loss_and_in_two() -> None:
    """The slopes of those in two are split at one margin, those of the others are not."""
    model = Hinge(on=ucm.pos) + ucm.SquaredHinge() + 5.0 * L2()
    found = ucm.solve(model, X, Y)
    plan = ucm.compile(model, X, Y)
    proof = plan.certify(w=found.w, b=found.b, weights=found.weights)
    assert found.status == "optimal" and proof.relative_gap <= 1e-6
    assert found.objective == pytest.approx(optimum(model, X, Y), rel=1e-6)


def test_groups_of_a_folded_concave_penalty_have_a_residual() -> None:
    table, target = load_breast_cancer(return_X_y=True)
    table = ((table - table.mean(axis=0)) / table.std(axis=0))[::4, :10]
    found = ucm.solve(Hinge() + ucm.GroupMCP(np.arange(10) % 3, 1.0, 3.0), table, target[::4])
    assert found.status in ("stationary", "local") and found.certificate.kind == "local"


def test_both_signs_are_scaled_to_the_sum_zero() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        up, down = rng.exponential(size=2) * rng.integers(0, 2, 2)
        excess = float(rng.standard_normal() * rng.integers(0, 2))
        f_up, f_down, missed = balanced(float(up), float(down), excess)
        assert 0.0 <= f_up <= 1.0 and 0.0 <= f_down <= 1.0
        left = abs(f_up * up - f_down * down + excess)
        assert left == pytest.approx(missed * max(up + down + abs(excess), 1e-300), abs=1e-12)
        assert max(f_up, f_down) == 1.0  # no more than needed
        reachable = -up <= excess <= down
        assert (missed == 0.0) == reachable or missed < 1e-15


@pytest.mark.parametrize("losses", [(Hinge(),), (Logistic(), ucm.SquaredHinge()), (ucm.LeastSquares(),)])
def test_sums_of_blocks_bound_less_than_the_samples(losses: tuple) -> None:
    """The chord lies below the concave terms of the bound, and meets them at its ends."""
    rng = np.random.default_rng(1)
    m, n = 40, 3
    X, y = rng.standard_normal((m, n)), np.where(rng.random(m) < 0.4, 1.0, -1.0)
    terms = [(loss, rng.exponential(size=m)) for loss in losses]
    margin = rng.standard_normal(m)
    whole = SampleDual(terms, y, margin, None, None)
    blocks = [slice(0, 15), slice(15, 40)]
    parts = [
        SampleDual([(loss, c[b]) for loss, c in terms], y[b], margin[b], None, None).sums(X[b])
        for b in blocks
    ]
    rows = SumDual(np.sum(parts, axis=0))
    assert rows.images(np.copy)[0] == pytest.approx(whole.images(lambda d: X.T @ d)[0], rel=1e-10)
    assert abs(float(whole.combination.sum())) <= 1e-10 * np.abs(whole.signed).sum()
    for part in (0.0, 0.3, 1.0):
        assert rows.gain(part) <= whole.gain(part) + 1e-10
    assert rows.gain(0.0) == pytest.approx(whole.gain(0.0), abs=1e-10)


def test_weights_that_are_no_numbers_are_outside_of_their_set() -> None:
    worst = ucm.WorstMean(Hinge(), weights=ucm.CappedSimplex(2.0, relative=True))
    data = ucm.compile(worst + L2(), X, Y).data
    q = np.full(Y.size, 1.0 / Y.size)
    assert _members([worst.weight_set] * 2, data, [q, q])[1] == 0.0
    for k in (0, 1):
        assert np.isnan(_members([worst.weight_set] * 2, data, [q * np.nan, q][:: 1 - 2 * k])[1])


@pytest.mark.parametrize(
    "penalty",
    [
        L1(weights=[1, 0]),
        GroupLasso([0, 1], weights=[1, 0]),
        ucm.Quadratic([[1.0, 0.0], [0.0, 0.0]]),
        ucm.NonNegative(),
        ucm.NonNegative([False, True]) + L1(weights=[1, 0]),
        ucm.Bounds([-1.0, 0.0], [1.0, np.inf]),
        ucm.LinearConstraint([[1.0, 0.0], [2.0, 0.0]], 0.0, 1.0),
        ucm.LinearConstraint([[1.0, 0.0]], -1.0, 1.0) + L1(weights=[1, 0]),
        GroupLasso([0, 1], weights=[1, 0]) + ucm.LinearConstraint([[0.0, 1.0]], 0.0),
    ],
    ids=repr,
)
def test_a_deviation_where_the_penalty_is_flat_proves_nothing(penalty: Any) -> None:
    """A feature of size 1e-10 separates the samples, and its weight 1e10 has no penalty: the optimum is 0."""
    x = np.array([[1.0, 1e-10], [-1.0, 1e-10], [1.0, -1e-10], [-1.0, -1e-10]])
    y = np.array([1, 1, -1, -1])
    for loss in (Hinge(), Logistic(), ucm.WorstMean(Hinge(), ucm.CappedSimplex(1.0))):
        proof = ucm.compile(loss + penalty, x, y).certify(w=np.zeros(2), b=0.0, weights=np.full(4, 0.5))
        assert proof.dual <= 1e-12, loss


@pytest.mark.parametrize("seed", range(12))
def test_constraints_beside_penalties_that_are_flat_somewhere(seed: int) -> None:
    """Domains in cones that meet at angles down to 1e-6; their sum holds the image of the dual point."""
    rng = np.random.default_rng(seed)
    n, m, angle = int(rng.integers(3, 8)), int(rng.integers(30, 90)), 10.0 ** -rng.integers(0, 7)
    x = rng.normal(size=(m, n))
    y = np.where(x @ rng.normal(size=n) + 0.5 * rng.normal(size=m) > 0, 1, -1)
    A = np.eye(n)[:1] + angle * rng.normal(size=(1 + seed % 2, n))
    B = rng.normal(size=(max(1, n // 3), n))
    B[0] = A[0] + angle * rng.normal(size=n)
    penalty = 0.3 * GroupLasso(np.arange(n) // 2, weights=np.arange((n + 1) // 2) % 2)
    if seed % 3:
        penalty = 0.2 * ucm.Quadratic(B.T @ B) + (penalty if seed % 3 == 1 else ucm.NonNegative(np.eye(n)[0]))
    model = (Hinge(), Logistic(), ucm.SquaredHinge())[seed % 3] / m + penalty
    lb, rows = (0.0, np.linalg.svd(A, full_matrices=False)[2]) if seed % 2 else (-np.inf, A)
    sol = ucm.solve(model + ucm.LinearConstraint(A, lb, 0.0), x, y)
    assert sol.status == "optimal", sol.certificate
    best = optimum(model + ucm.LinearConstraint(rows, lb, 0.0), x, y)  # accurate for rows at right angles
    assert sol.objective == pytest.approx(best, rel=1e-6)


def test_a_dual_point_is_moved_to_where_the_penalty_is_flat() -> None:
    """The gap of weights with a deviation of 1e-7 in features without penalty is that of the deviation."""
    for penalty in (L1(weights=[0] * 3 + [1] * 10), GroupLasso([0] * 3 + [1] * 10, weights=[0, 1])):
        for loss in (Hinge(), ucm.SquaredHinge(), Hinge() + ucm.SquaredHinge()):
            plan = ucm.compile(loss + penalty, X, Y)
            sol = plan.solve(tol=1e-9)
            best = optimum(loss + penalty, X, Y)
            noise = 1e-7 * np.random.default_rng(0).standard_normal(Y.size)
            proof = plan.certify(w=sol.w, b=sol.b, weights=known(sol.weights) * (1.0 + noise))
            assert proof.kind == "global" and proof.relative_gap <= 1e-5
            assert proof.dual <= best * (1.0 + 1e-7)


def test_rounding_that_a_projection_spreads_over_the_features_is_no_deviation() -> None:
    """A form of rank 2 over features of size 1e6 and 1e-2: rounding of one enters all of a projection."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((14, 5)) * [1.0, 1e3, 1e6, 1.0, 0.05]
    y = np.where(np.arange(14) < 4, 1, -1)
    root = rng.integers(-16, 16, (5, 2)) / 8
    for loss in (3 * Logistic(), ucm.SquaredHinge()):
        assert ucm.solve(loss + 0.5 * ucm.Quadratic(root @ root.T), x, y).status == "optimal"
