"""Answers from elsewhere: what plans prove of them, support functions, the points of the summands."""

from __future__ import annotations

import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from catalogue import SETS
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.svm import SVC, NuSVC
from typed import known, scikit

import ucm
from ucm import neg, pos, signed
from ucm.data.bound_data import bind
from ucm.language.parameter import Scope

X, Y = scikit.load_breast_cancer(return_X_y=True)
X, Y = np.asarray(scale(X)), 2.0 * Y - 1.0
SMALL, LABELS = X[100:160, :4], Y[100:160]
BOTH = (ucm.Ellipsoid(pos.mean, pos.cov, 0.8) & ucm.Hull(pos)) - ucm.ReducedHull(neg, nu=0.4)
CUT = ucm.Hull(signed, weights=ucm.NormBall(0.2) & ucm.CappedSimplex(0.04))


def test_weights_off_by_more_than_rounding_prove_no_more_than_the_optimum() -> None:
    """Weights of a smaller sum give a point nearer to 0: its norm alone would be a false bound."""
    plan = ucm.compile(ucm.models.nu_svm(0.3), X, Y)
    solution = plan.solve(tol=1e-10)
    for part in (1e-6, 1e-7, 2e-8, 1e-8):
        proof = plan.certify(w=solution.w + 0.05, weights=(1.0 - part) * known(solution.weights))
        assert proof.primal > 0.99 * solution.objective
        assert proof.dual <= solution.objective * (1.0 - 3e-9)


# --- support functions ------------------------------------------------------------------------------
@pytest.mark.parametrize("U", SETS, ids=repr)
def test_support_is_the_maximum_and_its_point(U: ucm.extend.UncertaintySet) -> None:
    rng = np.random.default_rng(2)
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    samples = rng.standard_normal((9, 3)) + y[:, None]
    d = rng.standard_normal(known(U.dimension(3)))
    groups = [*"ABABABBAB"]
    value, point, error = ucm.support(U, samples, y, d, subgroup=groups)
    x, constraints = U.cvxpy(bind(samples, y, subgroup=groups), Scope())
    problem = cp.Problem(cp.Maximize(d @ x), constraints)
    best = float(problem.solve(solver="CLARABEL"))
    if not np.isfinite(best):
        assert value == np.inf and point is None
        return
    assert value == pytest.approx(best, abs=1e-6)
    assert 0.0 <= error <= 1e-6 and known(point) @ d == pytest.approx(value - error, abs=1e-9)


def test_support_of_an_intersection_is_below_that_of_its_operands() -> None:
    d = np.array([1.0, -1.0, 0.5, 0.2])
    A, B = ucm.Ellipsoid(pos.mean, pos.cov, 2.0), ucm.Hull(pos)
    both = ucm.support(A & B, SMALL, LABELS, d)
    assert both.value < min(ucm.support(U, SMALL, LABELS, d).value for U in (A, B)) - 1e-3
    assert both.error <= 1e-7


def test_support_of_a_sum_or_intersection_that_is_unbounded() -> None:
    line = ucm.AffineImage(np.eye(4)[:, :1], ucm.Box(0.0, np.inf))
    assert ucm.support(BOTH + line, SMALL, LABELS, np.ones(4)) == (np.inf, None, 0.0)
    both = line & ucm.AffineImage(np.eye(4), ucm.Box(-1.0, np.inf))
    assert ucm.support(both, SMALL, LABELS, np.ones(4)) == (np.inf, None, 0.0)


def test_support_of_a_sum_takes_a_program_of_the_intersection_alone() -> None:
    d = np.array([1.0, -1.0, 0.5, 0.2])
    both = ucm.Ellipsoid(pos.mean, pos.cov, 2.0) & ucm.Hull(pos)
    parts = [ucm.support(both, SMALL, LABELS, d), ucm.support(ucm.Hull(neg), SMALL, LABELS, -d)]
    total = ucm.support(both - ucm.Hull(neg), SMALL, LABELS, d)
    assert total.value == pytest.approx(sum(part.value for part in parts), rel=1e-12)
    assert total.error == pytest.approx(parts[0].error, rel=1e-6, abs=1e-14) and parts[1].error == 0.0


@pytest.mark.parametrize(
    ("U", "d", "error", "words"),
    [
        (ucm.Hull(pos), [1.0, 2.0], ucm.DataError, "4 finite numbers"),
        (ucm.Hull(pos), [1.0, 2.0, np.nan, 0.0], ucm.DataError, "finite"),
        (ucm.Ball(pos.mean, 1e-3) & ucm.Ball(neg.mean, 1e-3), np.ones(4), ucm.EmptySetError, "empty"),
        (ucm.L1(), np.ones(4), ucm.CompositionError, "penalty"),
    ],
)  # fmt: skip
def test_support_refuses_invalid_directions(U: Any, d: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ucm.support(U, SMALL, LABELS, d)


# --- parts ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("loss", [ucm.Hinge(), ucm.Hinge(2.0), ucm.LeastSquares()], ids=repr)
def test_weights_of_two_losses_bound_the_optimum_beside_any_normal(loss: Any) -> None:
    """The weights are split between the losses by themselves, wherever the margins are."""
    plan = ucm.compile(ucm.Logistic() + loss + 0.1 * ucm.L2(), SMALL, LABELS)
    solution = plan.solve()
    for factor in (0.0, 1.0, -3.0):
        w = factor * known(solution.w)
        proof = plan.certify(w=w, b=0.0, weights=solution.weights)
        assert proof.dual == pytest.approx(solution.certificate.dual, rel=1e-6)


def test_parts_are_the_points_of_the_summands() -> None:
    solution = ucm.solve(ucm.models.nu_svm(0.3), X, Y)
    plus, minus = known(solution.summand_points)
    np.testing.assert_allclose(plus - minus, solution.x, atol=1e-12)
    weights = known(solution.weights)
    np.testing.assert_allclose(plus, X[Y > 0].T @ weights[Y > 0], atol=1e-10)
    np.testing.assert_allclose(minus, X[Y < 0].T @ weights[Y < 0], atol=1e-10)
    U = 2 * (ucm.Hull(pos) - ucm.Ball(neg.mean, 0.1)) + ucm.Point(np.ones(30))
    a, b, c = known((found := ucm.solve(U, X, Y)).summand_points)
    np.testing.assert_allclose(2 * (a - b) + c, found.x, atol=1e-9)
    np.testing.assert_allclose(c, np.ones(30), atol=0)
    assert np.linalg.norm(b - X[Y < 0].mean(axis=0)) <= 0.1 + 1e-9


def test_computed_parts_survive_a_pickle() -> None:
    solution = ucm.solve(ucm.models.mm_mpm(0.2), SMALL, LABELS)
    assert pickle.loads(pickle.dumps(solution)).summand_points is None
    plus, _ = known(solution.summand_points)
    np.testing.assert_array_equal(known(pickle.loads(pickle.dumps(solution)).summand_points)[0], plus)
    assert ucm.solve(ucm.Logistic() + ucm.L2(), SMALL, LABELS).summand_points is None


def test_parts_of_samples_that_changed_are_refused() -> None:
    changing = SMALL.copy()
    solution = ucm.solve(ucm.models.nu_svm(0.5), changing, LABELS)
    changing[0] += 1.0
    with pytest.raises(ucm.DataError, match="changed"):
        _ = solution.summand_points


# --- certificates -----------------------------------------------------------------------------------
@pytest.mark.parametrize("U", [ucm.models.nu_svm(0.3), ucm.models.mm_mpm(0.4), BOTH, CUT,
                               ucm.RobustMargin(ucm.models.nu_svm(0.3), 1.0),
                               ucm.RobustMargin(ucm.models.mm_fda(0.4), 3.0)], ids=repr)  # fmt: skip
def test_a_certificate_is_that_of_the_solver(U: Any) -> None:
    plan = ucm.compile(U, X[::4], Y[::4])
    solution = plan.solve()
    own, tol = solution.certificate, 2e-6 * abs(solution.objective)
    alone = plan.certify(w=5.0 * solution.w)
    assert alone.dual == -np.inf and alone.gap == np.inf and alone.kind == "none"
    assert alone.primal == pytest.approx(own.primal, abs=tol)
    for given in ({"w": solution.w, "x": solution.x}, {"x": solution.x}):
        found = plan.certify(**given)
        assert found.kind == "global" and found.violation <= 1e-6
        assert found.dual <= solution.objective + tol and found.gap >= -tol
        assert found.dual == pytest.approx(own.dual, abs=tol)
    assert plan.certify(w=solution.w, x=solution.x).relative_gap <= 3e-6


def test_weights_give_the_point() -> None:
    for U in (ucm.models.nu_svm(0.3), CUT, 3 * ucm.Hull(signed, weights=ucm.KLBall(0.9))):
        plan = ucm.compile(U, X[::4], Y[::4])
        solution = plan.solve()
        found = plan.certify(w=solution.w, weights=solution.weights)
        assert found.kind == "global" and 0.0 <= found.relative_gap + 1e-9 <= 3e-6
        moved = known(solution.weights) * np.where(Y[::4] > 0, 1.1, 1.0)
        worse = plan.certify(w=solution.w, weights=moved)
        assert worse.violation > 1e-2 and worse.dual == -np.inf and worse.kind == "none"


def test_samples_of_weight_0_have_no_part_in_an_answer() -> None:
    counts = np.where(np.arange(Y.size) == 3, 0.0, 1.0)
    set_, loss = (
        ucm.compile(model, X, Y, sample_weight=counts)
        for model in (ucm.models.nu_svm(0.5), ucm.models.svm(0.5))
    )
    solution = set_.solve()
    assert set_.certify(w=solution.w, weights=solution.weights).relative_gap <= 3e-6
    moved = known(solution.weights).copy()
    moved[3] = 0.1
    for plan in (set_, loss):
        b = {} if plan is set_ else {"b": 0.0}
        with pytest.raises(ucm.DataError, match=r"0 for the samples of weight 0.*got 0.1 for sample 3"):
            plan.certify(w=solution.w, weights=moved, **b)


def test_a_point_outside_bounds_nothing() -> None:
    plan = ucm.compile(ucm.models.mm_mpm(0.4), X, Y)
    x = 0.5 * plan.solve().x  # nearer to 0 than the nearest point
    found = plan.certify(x=x)
    assert found.violation > 0.1 and found.dual == -np.inf and "upper bound" in str(found)


def test_a_point_off_by_rounding_is_moved_into_the_set() -> None:
    """1e-7 of its length, not of the size of the samples, 1e4 times larger or smaller."""
    for shift in (0.0, 1e3):
        plan = ucm.compile(ucm.models.mm_mpm(0.4), X + shift, Y)
        solution = plan.solve()
        found = plan.certify(x=(1.0 - 1e-7) * known(solution.x))
        assert found.dual == pytest.approx(known(solution.objective), rel=1e-5) and found.violation <= 1e-9


def test_a_violation_of_1e_9_is_no_rounding() -> None:
    """Beside a thin lens and in a small ball it is a distance of 3e-5, and the bounds were too high."""
    far, thin = 4e-5, 1e-12
    samples, labels = np.array([[1.0, 5.0], [-1.0, 5.0], [0.0, 0.0]]), np.array([1.0, 1.0, -1.0])
    lens = [ucm.Ball(np.array([side * (1.0 - thin), 5.0 + far]), 1.0) for side in (1.0, -1.0)]
    found = ucm.compile(lens[0] & lens[1], samples, labels).certify(w=[0.1, 1.0], x=[0.0, 5.0])
    assert found.dual <= -5.0 - far + 2e-6  # half the height of the lens is 1.5e-6
    ball = ucm.Hull(pos, weights=ucm.NormBall(np.sqrt(0.5) * (1.0 + 1e-14)))
    plan = ucm.compile(ball - ucm.Point([-1.0, 0.0]), samples, labels)
    for off in (2e-5, -2e-5):
        found = plan.certify(w=[0.3, 1.0], weights=np.array([0.5 + off, 0.5 - off, 0.0]))
        assert found.kind == "global" and found.dual <= -np.hypot(1.0, 5.0) + 1e-7


def test_the_rule_that_an_answer_from_outside_breaks() -> None:
    """`str(certificate)` names it, and by how much it is broken."""
    Z, y = X[::4], Y[::4]
    plan = ucm.compile(ucm.models.nu_svm(0.3), Z, y)
    w, q = known(plan.solve().w), known(plan.solve().weights)
    cap = 2.0 / (0.3 * y.size)
    negative = np.where(np.arange(y.size) == int(np.argmax((y > 0) & (q == 0.0))), -0.25, q)
    mild, heavy = np.where(np.arange(y.size) == int(np.argmax(q)), 1.5 * cap, q), np.zeros(y.size)
    heavy[[int(np.argmax(y > 0)), int(np.argmax(y < 0))]] = 1.0
    for weights, words in (
        (3.0 * q, "add up to 3, not to 1"),
        (negative, "is negative, -0.25"),
        (mild, f"is {1.5 * cap:.6g}, above the cap {cap:.6g}"),
        (heavy, f"is 1, above the cap {cap:.6g}"),
    ):
        found = plan.certify(w=w, weights=weights)
        text = str(found)
        assert found.kind == "none" and words in text
        assert text.startswith("an upper bound only: optimum <= ")
        assert f"(violation {found.violation:.3g})" in text
        alike = text.count("of class +1") == text.count("of class -1")
        assert alike or weights is negative or weights is mild
        assert ("above the cap" in text) == (weights is not negative)
    assert "the largest weight of class -1 in" in str(plan.certify(w=w, weights=heavy))
    found = ucm.compile(2 * ucm.Hull(signed, weights=ucm.KLBall(0.5)), Z, y).certify(w=w, weights=heavy)
    assert "as the weights break " in str(found) and "above" not in str(found)
    found = plan.certify(w=w, x=2.0 * known(plan.solve().x) + 9.0)
    assert f"as x is {found.violation:.3g} of its length away from U" in str(found)
    inside = plan.certify(w=w, weights=q)
    assert inside.broken == "" and "violation 0" in str(inside)


def test_a_sample_of_weight_c_has_c_times_the_cap() -> None:
    c = np.where(np.arange(Y[::4].size) % 3 == 0, 3.0, 1.0)
    plan = ucm.compile(ucm.models.nu_svm(0.3), X[::4], Y[::4], sample_weight=c)
    solution, cap = plan.solve(), 2.0 / (0.3 * c.sum())
    w, q = known(solution.w), known(solution.weights)
    heavy, light = (int(np.argmax((Y[::4] > 0) & (c == times))) for times in (3.0, 1.0))
    for at, times in ((heavy, 3.0), (light, 1.0)):
        inside, above = (np.where(np.arange(q.size) == at, k * times * cap, q) for k in (1.0, 1.5))
        assert "above the cap" not in plan.certify(w=w, weights=inside).broken
        words = f"is {1.5 * times * cap:.6g}, above the cap {times * cap:.6g}"
        assert words in plan.certify(w=w, weights=above).broken


def test_where_0_lies_in_the_set_bounds_are_bounds() -> None:
    plan = ucm.compile(ucm.models.mm_fda(20.0), X[:, :3], Y)
    solution = plan.solve()
    assert solution.objective > 0.0
    found = plan.certify(w=solution.w, x=np.zeros(3))
    assert found.dual == pytest.approx(0.0, abs=1e-9)
    assert found.primal == pytest.approx(solution.objective, rel=1e-6)


def test_answers_of_scikit_learn_are_certified() -> None:
    svc = NuSVC(kernel="linear", nu=0.5, tol=1e-10).fit(X, Y)
    plan = ucm.compile(ucm.models.nu_svm(0.5), X, Y)
    weights = np.zeros(Y.size)
    weights[svc.support_] = np.abs(svc.dual_coef_[0])
    weights *= 2.0 / weights.sum()
    found = plan.certify(w=svc.coef_[0], weights=weights)
    assert found.kind == "global" and -1e-9 <= found.relative_gap <= 1e-4

    log = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, Y)
    plan = ucm.compile(ucm.Logistic() + 0.5 * ucm.L2(), X, Y)
    found = plan.certify(w=log.coef_[0], b=log.intercept_[0])
    assert found.kind == "global" and -1e-12 <= found.relative_gap <= 1e-6

    svm = SVC(C=1.0, gamma=0.03, tol=1e-8)  # pyright: ignore[reportArgumentType]
    svm.fit(X, Y)
    plan = ucm.compile(ucm.models.psvm(1.0, 1.0), X, Y, kernel="rbf", gamma=0.03)
    c = np.zeros(Y.size)
    c[svm.support_] = svm.dual_coef_[0]
    found = plan.certify(coefficients=c, b=svm.intercept_[0], weights=np.abs(c))
    assert found.kind == "global" and -1e-9 <= found.relative_gap <= 1e-6
    assert plan.certify(coefficients=c, b=svm.intercept_[0] + 1.0).primal > found.primal


def test_certify_accepts_coefficients_of_a_kernel() -> None:
    cases: Any = ((ucm.models.nu_svm(0.3), "rbf"), (ucm.models.mm_mpm(0.2), "linear"))
    for U, kernel in cases:
        plan = ucm.compile(U, SMALL, LABELS, kernel=kernel)
        solution = plan.solve()
        found = plan.certify(coefficients=solution.coefficients)
        assert found.primal == pytest.approx(solution.certificate.primal, rel=1e-6)
        with pytest.raises(ucm.ParameterError, match="hides the features"):
            plan.certify(w=np.ones(4))
    both = ucm.compile(ucm.models.nu_svm(0.3), SMALL, LABELS, kernel="rbf")
    solution = both.solve()
    found = both.certify(coefficients=solution.coefficients, weights=solution.weights)
    assert found.relative_gap <= 2e-6 and found.kind == "global"


def test_a_nonconvex_objective_has_a_local_certificate() -> None:
    plan = ucm.compile(ucm.Ramp() + 0.5 * ucm.CappedL1(1), SMALL, LABELS)
    solution = plan.solve()
    found = plan.certify(w=solution.w, b=solution.b, weights=solution.weights)
    assert found.kind == "local" and found.primal == pytest.approx(solution.objective)
    assert found.gap == pytest.approx(solution.certificate.gap, abs=1e-9)


@pytest.mark.parametrize(
    ("model", "given", "error", "words"),
    [
        (BOTH, {}, ucm.ParameterError, "give w, weights of the samples or a point"),
        (BOTH, {"w": np.zeros(4)}, ucm.ParameterError, "other than 0"),
        (BOTH, {"w": np.ones(3)}, ucm.DataError, "4 finite numbers"),
        (BOTH, {"w": [1.0, 2.0, "a", 3.0]}, ucm.DataError, "4 finite numbers"),
        (BOTH, {"x": [1.0, np.inf, 0.0, 0.0]}, ucm.DataError, "finite"),
        (BOTH, {"weights": np.ones(60)}, ucm.ParameterError, "give the point x itself"),
        (CUT, {"weights": np.ones(59)}, ucm.DataError, "60 finite numbers"),
        (CUT, {"weights": np.ones(60), "x": np.ones(4)}, ucm.ParameterError, "one of both"),
        (CUT, {"w": np.ones(4), "b": 1.0}, ucm.ParameterError, "no bias"),
        (CUT, {"coefficients": np.ones(60)}, ucm.ParameterError, "no kernel"),
        (ucm.Hull(pos) - neg.mean, {"weights": np.ones(60)}, ucm.ParameterError, "no place"),
        (ucm.Hull(pos) - ucm.Hull(signed), {"weights": np.ones(60)}, ucm.ParameterError, "in two hulls"),
        (ucm.Hinge() + ucm.L1(), {"w": np.ones(4)}, ucm.ParameterError, "no b"),
        (ucm.Hinge() + ucm.L1(), {"x": np.ones(4)}, ucm.ParameterError, "unexpected x"),
        (ucm.Hinge() + ucm.L2(), {"w": np.ones(4), "b": np.nan}, ucm.DataError, "finite"),
    ],
)
def test_certify_refuses_invalid_answers(model: Any, given: Any, error: type[Exception], words: str) -> None:
    plan = ucm.compile(model, SMALL, LABELS)
    with pytest.raises(error, match=words):
        plan.certify(**given)


class Short(ucm.Ball):
    """A ball whose support function is too small."""

    def support(self, data: Any, d: Any, splits: Any) -> Any:
        height, x = super().support(data, d, splits)
        return height - 0.1, x


def test_bounds_that_pass_each_other_are_refused() -> None:
    X, y = np.array([[3.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0])
    right, short = (ucm.compile(B([3.0, 0.0], 1.0), X, y) for B in (ucm.Ball, Short))
    w, x = [1.0, 0.0], [2.0, 0.0]
    assert abs(right.certify(w=w, x=x).relative_gap) <= 1e-9
    with pytest.raises(ucm.SolverError, match="contradicts"):
        short.certify(w=w, x=x)


def test_solutions_are_equal_by_identity() -> None:
    X, y = np.array([[3.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0])
    one, two = (ucm.solve(ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg), X, y) for _ in range(2))
    assert one == one and one != two and len({one, two}) == 2
