"""At most k features, and differences of one's own: against CVXPY, false parts, limits and bad input."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from typed import known

import ucm
from ucm.data.bound_data import bind
from ucm.errors import CompositionError, ConvergenceWarning, DataError, ParameterError, SolverError
from ucm.evidence.objective import certify_parts, covers
from ucm.extend import Penalty, SubtractedPart
from ucm.forms.bound import FeatureNormal
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex
from ucm.forms.solver import Answer, Part, Solver
from ucm.solvers.objective.branch_and_bound import _Cuts, _Node
from ucm.testing import check_penalty

LOSSES: dict[Any, Callable] = {
    ucm.Hinge(): lambda t: cp.pos(1 - t),
    ucm.SquaredHinge(): lambda t: cp.square(cp.pos(1 - t)),
    ucm.Logistic(): lambda t: cp.logistic(-t),
    ucm.LeastSquares(): lambda t: cp.square(1 - t),
}


def samples(m: int = 40, n: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes with correlated features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)) @ (np.eye(n) + 0.5 * rng.standard_normal((n, n)))
    return X, np.where(X @ rng.standard_normal(n) + rng.standard_normal(m) > 0.0, 1.0, -1.0)


def over_supports(
    X: np.ndarray,
    y: np.ndarray,
    loss: Callable,
    k: int,
    c: float,
    weights: np.ndarray | float = 1.0,
    **more: float,
) -> tuple[float, tuple[int, ...]]:
    """The least objective over all supports of k features, by CVXPY, and its support."""
    best, chosen = np.inf, ()
    for S in itertools.combinations(range(X.shape[1]), k):
        w, b = cp.Variable(k), cp.Variable()
        penalty = c * cp.sum_squares(w) + more.get("l1", 0.0) * cp.norm1(w) + more.get("bias", 0.0) * b**2
        total = cp.sum(cp.multiply(weights, loss(cp.multiply(y, X[:, S] @ w + b)))) + penalty
        problem = cp.Problem(cp.Minimize(total))
        problem.solve(solver="CLARABEL")
        if problem.value < best:
            best, chosen = float(problem.value), S
    return best, chosen


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_optimum_over_all_supports(loss: Any, k: int) -> None:
    X, y = samples(seed=k)
    sol = ucm.solve(loss + 0.2 * ucm.L2() + ucm.Cardinality(k), X, y)
    best, S = over_supports(X, y, LOSSES[loss], k, 0.2)
    assert sol.status == "optimal" and sol.certificate.kind == "global"
    assert_allclose(sol.objective, best, rtol=2e-6)
    assert tuple(np.flatnonzero(sol.w)) == S and sol.certificate.dual <= best * (1.0 + 1e-9)
    check = ucm.compile(loss + 0.2 * ucm.L2() + ucm.Cardinality(k), X, y).verify()
    assert check and f"the {k} features of the solution; the certificate bounds other features" in str(check)


def test_weights_further_penalties_and_a_penalised_intercept() -> None:
    X, y = samples(seed=5)
    c = np.random.default_rng(0).integers(0, 4, y.size).astype(float)
    model = ucm.Logistic() + 0.2 * ucm.L2() + 0.5 * ucm.L1() + ucm.Cardinality(2)
    best, _ = over_supports(X, y, LOSSES[ucm.Logistic()], 2, 0.2, c, l1=0.5)
    sol = ucm.solve(model, X, y, sample_weight=c)
    assert sol.status == "optimal"
    assert_allclose(sol.objective, best, rtol=2e-6)
    penalised = (ucm.Logistic() + 0.2 * ucm.L2() + ucm.Cardinality(2)).with_intercept("penalised")
    best, _ = over_supports(X, y, LOSSES[ucm.Logistic()], 2, 0.2, bias=0.2)
    sol = ucm.solve(penalised, X, y)
    assert sol.status == "optimal" and np.count_nonzero(sol.w) == 2 and sol.b != 0.0
    assert_allclose(sol.objective, best, rtol=2e-6)


def test_the_envelope_against_its_perspective_form() -> None:
    X, y = samples()
    w, b, s = cp.Variable(6), cp.Variable(), cp.Variable(6)
    shares = cp.sum([cp.quad_over_lin(w[j], s[j]) for j in range(6)])
    total = cp.sum(cp.pos(1 - cp.multiply(y, X @ w + b))) + 0.2 * shares
    relaxed = cp.Problem(cp.Minimize(total), [s >= 0, s <= 1, cp.sum(s) <= 2]).solve(solver="CLARABEL")
    for solver in ("prox-alm", "clarabel"):
        sol = ucm.solve(ucm.Hinge() + 0.2 * ucm.KSupport(2), X, y, solver=solver)
        assert sol.status == "optimal"
        assert_allclose(sol.objective, relaxed, rtol=1e-6)
    z = np.random.default_rng(0).standard_normal(6)
    largest = max(sum(z[[*S, 1]] ** 2) for S in itertools.combinations([0, 2, 3, 5], 2))
    assert_allclose(ucm.KSupport(3, included=(1,), excluded=(4,)).conjugate(z), largest / 4.0)


def test_cuts_prove_the_value_of_the_envelope() -> None:
    X, y = samples(n=7, seed=7)
    model = ucm.Hinge() + 0.2 * ucm.L2() + ucm.Cardinality(3)
    form: Any = ucm.compile(model, X, y).lowering.form
    problems = _Cuts(form, ucm.solvers.ProxALM(), None, Monitor(tol=1e-6))
    nothing = Answer(w=np.zeros(7), b=0.0)
    found = problems.bound(
        _Node(-np.inf, 0, Part((2,), (5,)), np.zeros(40), nothing), np.inf, lambda _: False
    )
    relaxed = ucm.Hinge() + 0.2 * ucm.KSupport(3, included=(2,), excluded=(5,))
    best = ucm.solve(relaxed, X, y, solver="clarabel").objective
    assert best * 0.98 <= found.bound <= best * (1.0 + 1e-6)
    sol = ucm.solve(model, X, y)
    assert sol.status == "optimal"
    assert_allclose(sol.objective, over_supports(X, y, LOSSES[ucm.Hinge()], 3, 0.2)[0], rtol=2e-6)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_samples_have_the_optimum_of_dense_ones(kind: Callable) -> None:
    X, y = samples(seed=4)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    sol = ucm.solve(ucm.Hinge() + 0.2 * ucm.L2() + ucm.Cardinality(2), kind(X), y)
    assert sol.status == "optimal"
    assert_allclose(sol.objective, over_supports(X, y, LOSSES[ucm.Hinge()], 2, 0.2)[0], rtol=2e-6)


class _WithoutSlopes(Solver[Composite]):
    """A solver that ends at once, as at a time limit, and counts its problems."""

    name = "without slopes"
    count = 0

    def refuse(self, form: Composite) -> str | None:
        return None

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        self.count += 1
        return Answer(w=np.zeros(form.n), b=0.0).interrupted()


def test_shares_without_a_dual_point_are_tried_once() -> None:
    X, y = samples()
    form: Any = ucm.compile(ucm.Hinge() + 0.2 * ucm.L2() + ucm.Cardinality(3), X, y).lowering.form
    solver = _WithoutSlopes()
    root = _Node(-np.inf, 0, Part(), np.zeros(40), Answer(w=np.zeros(6), b=0.0))
    found = _Cuts(form, solver, None, Monitor()).bound(root, np.inf, lambda _: False)
    assert found.bound == -np.inf and solver.count == 1


def test_a_hinge_over_thirty_features_is_proven_to_a_percent() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sol = ucm.compile(ucm.Hinge() + 5.7 * ucm.L2() + ucm.Cardinality(5), X, y).solve(tol=2e-2, max_iter=100)
    assert sol.status == "optimal" and sol.certificate.kind == "global" and np.count_nonzero(sol.w) == 5


@pytest.mark.parametrize(("loss", "c", "size"), [(ucm.SquaredHinge(), 1e-8, 1.0), (ucm.Logistic(), 0.1, 1e6)])
def test_small_weights_of_the_squared_norm_and_large_features(loss: Any, c: float, size: float) -> None:
    X, y = samples(m=20, n=3, seed=4)
    X[:, 1:] *= size
    sol = ucm.solve((loss + c * ucm.L2() + ucm.Cardinality(1)).with_intercept(None), X, y)
    unit = np.array([1.0, size, size])
    best = min(
        ucm.solve((loss + c / unit[j] ** 2 * ucm.L2()).with_intercept(None), X[:, [j]] / unit[j], y).objective
        for j in range(3)
    )
    assert sol.status == "optimal"
    assert_allclose(sol.objective, best, rtol=2e-6)


def test_a_part_without_shares_of_the_features() -> None:
    X, y = samples(m=30, n=4, seed=1)
    form: Any = ucm.compile(ucm.Logistic() + 0.1 * ucm.L2() + ucm.Cardinality(1), X, y).lowering.form
    problems = _Cuts(form, ucm.solvers.ProxNewton(), None, Monitor(tol=1e-6))
    answer, height = problems._at(np.zeros(4))
    share = np.mean(y > 0.0)
    assert not answer.plane[0].any()
    assert_allclose(height, -30 * (share * np.log(share) + (1 - share) * np.log(1 - share)), rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e7])
@pytest.mark.parametrize(
    "loss", [ucm.Hinge(2), 0.5 * ucm.Logistic(), ucm.LeastSquares() + 100 * ucm.Hinge(on=ucm.neg)], ids=repr
)
def test_features_of_other_sizes_and_several_losses(loss: Any, size: float) -> None:
    X, y = samples(m=12, n=3, seed=9)
    sol = ucm.solve(loss + 0.5 * ucm.L2() + ucm.Cardinality(1), X * [size, 1.0, 1e-3 * size], y)
    assert sol.status == "optimal" and np.count_nonzero(sol.w) == 1


def test_no_feature_is_of_use() -> None:
    X = np.array([[2.25, 2.25, 1.5], [-1.375, -3.0, 1.5], [-0.625, -1.5, 1.5], [0.25, -1.25, 1.5]])
    model = ucm.LeastSquares(on=ucm.neg) + 0.5 * ucm.L2() + ucm.Cardinality(3)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        sol = ucm.solve(model, X, [1, -1, -1, -1])  # w = 0 and b = -1 have no loss
    assert sol.objective <= 1e-12


def test_included_and_excluded_features() -> None:
    X, y = samples(seed=3)
    model = ucm.Hinge() + 0.2 * ucm.L2()
    sol = ucm.solve(model + ucm.Cardinality(2, included=(4,), excluded=(0,)), X, y)
    best = min(ucm.solve(model, X[:, [4, j]], y).objective for j in (1, 2, 3, 5))
    assert sol.status == "optimal" and sol.w[0] == 0.0
    assert_allclose(sol.objective, best, rtol=2e-6)
    whole = ucm.solve(model + ucm.Cardinality(6), X, y)
    assert_allclose(whole.objective, ucm.solve(model, X, y).objective, rtol=2e-6)


@pytest.mark.parametrize("features", [None, [True, False, False, True, True, False]])
def test_weights_that_are_not_negative(features: list[bool] | None) -> None:
    X, y = samples(seed=4)
    signed = np.ones(6, dtype=bool) if features is None else np.array(features)
    least = np.inf
    for pair in itertools.combinations(range(6), 2):
        w, b = cp.Variable(2), cp.Variable()
        total = cp.sum(cp.pos(1 - cp.multiply(y, X[:, pair] @ w + b))) + 0.2 * cp.sum_squares(w)
        problem = cp.Problem(cp.Minimize(total), [w[j] >= 0 for j in range(2) if signed[pair[j]]])
        least = min(least, float(problem.solve(solver="CLARABEL")))
    sol = ucm.solve(ucm.Hinge() + 0.2 * ucm.L2() + ucm.Cardinality(2) + ucm.NonNegative(features), X, y)
    assert sol.status == "optimal" and (known(sol.w)[signed] >= 0.0).all()
    assert_allclose(sol.objective, least, rtol=2e-6)


def test_parts_that_do_not_cover_prove_nothing() -> None:
    X, y = samples(seed=1)
    model = ucm.Logistic() + 0.1 * ucm.L2() + ucm.Cardinality(2)
    sol = ucm.solve(model, X, y)
    parts, data, normal, b = sol.answer.parts, bind(X, y), FeatureNormal(X, sol.w), known(sol.b)
    assert covers([part for part, _ in parts]) and len(parts) > 2
    whole = certify_parts(model, data, normal, b, [], sol.answer.slopes).dual
    assert whole < sol.certificate.dual
    for k in range(len(parts)):
        left = [*parts[:k], *parts[k + 1 :]]
        assert certify_parts(model, data, normal, b, left, sol.answer.slopes).dual == whole
    assert not covers([Part((0,)), Part((1,))]) and not covers([Part((0,)), Part((0,))]) and not covers([])
    wrong = [(part, slopes * 1e3) for part, slopes in parts]
    assert certify_parts(model, data, normal, b, wrong, None).dual <= sol.objective
    plan = ucm.compile(model, X, y)
    assert plan.certify(w=np.ones(6), b=b).primal == np.inf
    external = plan.certify(w=sol.w, b=b, weights=sol.weights)
    assert external.kind == "global" and external.dual <= sol.objective <= external.primal * (1.0 + 1e-9)


def test_limits_leave_an_interval_that_holds_the_optimum() -> None:
    X, y = ucm.datasets.load("breast_cancer")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    plan = ucm.compile(ucm.Logistic() + 2.8 * ucm.L2() + ucm.Cardinality(5), X, y)
    proven = plan.solve(tol=1e-2)
    assert proven.status == "optimal"
    with pytest.warns(ConvergenceWarning, match="3 parts"):
        short = plan.solve(max_iter=3)
    assert short.status == "max_iter" and short.certificate.kind == "global"
    assert short.certificate.dual <= proven.objective * (1.0 + 1e-9)
    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped = plan.solve(callback=lambda record: record["iteration"] == 2)
    assert stopped.status == "interrupted" and np.count_nonzero(stopped.w) <= 5
    assert 0.0 < stopped.certificate.relative_gap < 0.1


def test_a_path_and_an_estimator_over_k() -> None:
    X, y = samples()
    model = ucm.Logistic() + 0.2 * ucm.L2() + ucm.Cardinality(ucm.Param("k", 2))
    assert ucm.from_json(ucm.to_json(model)) == model
    assert str(model).endswith("ind(‖w‖₀ ≤ k),  t_i = y_i(w'x_i + b),  k = 2")
    path = ucm.path(model, X, y, k=[1, 2, 4])
    heights = [sol.objective for sol in path]
    assert heights == sorted(heights, reverse=True)
    assert [np.count_nonzero(sol.w) for sol in path] == [1, 2, 4]
    fitted = ucm.Classifier(model).set_params(model__k=3).fit(X, y)
    assert np.count_nonzero(fitted.coef_) == 3
    searched = ucm.ClassifierCV(model, param_name="k", param_range=[1, 3], cv=2).fit(X, y)
    assert np.count_nonzero(searched.best_estimator_.coef_) in (1, 3)
    fraction = ucm.Logistic() + ucm.Param("lam", 0.5, relative=True) * ucm.L2() + ucm.Cardinality(2)
    tuned = ucm.ClassifierCV(fraction, param_name="lam", param_range=[0.2, 0.4], cv=2).fit(X, y)
    assert (
        tuned.best_params_["model__lam"] in (0.2, 0.4) and np.count_nonzero(tuned.best_estimator_.coef_) == 2
    )


def test_what_a_cardinality_refuses() -> None:
    X, y = samples()
    square = ucm.Hinge() + ucm.L2()
    for k in (0, 1.5, -1, np.inf):
        with pytest.raises(ParameterError, match="k is a whole number"):
            ucm.Cardinality(k)
    with pytest.raises(ParameterError, match=r"at most the 6 features.*give k <= 6"):
        ucm.solve(square + ucm.Cardinality(7), X, y)
    with pytest.raises(ParameterError, match="included"):
        ucm.Cardinality(1, included=(0, 1))
    for model in (
        ucm.Hinge() + ucm.Cardinality(2),
        ucm.Hinge() + ucm.L1() + ucm.Cardinality(2),
        ucm.Ramp() + ucm.L2() + ucm.Cardinality(2),
        ucm.WorstMean(ucm.Hinge()) + ucm.L2() + ucm.Cardinality(2),
        square + ucm.CappedL1(1) + ucm.Cardinality(2),
        square + ucm.LinearConstraint([[1.0] * 6], 0.0, 0.0) + ucm.Cardinality(2),
        square + ucm.Bounds(-0.1, 0.1) + ucm.Cardinality(2),
        square + ucm.KSupport(3) + ucm.Cardinality(2),
        square + ucm.Cardinality(2) + ucm.Cardinality(3),
        ucm.Hinge() + ucm.L1() + ucm.Cardinality(2, included=(0, 1)),
        ucm.Hinge() + ucm.Cardinality(2, included=(0, 1)),
        square + ucm.Cardinality(2, included=(0, 1)) + ucm.Cardinality(3),
        square + ucm.Cardinality(2, included=(0, 1)) + ucm.Cardinality(2, included=(1, 2)),
    ):
        with pytest.raises(CompositionError, match="beside a multiple of L2"):
            ucm.compile(model, X, y)
    with pytest.raises(CompositionError, match="kernel"):
        ucm.compile(square + ucm.Cardinality(2), X, y, kernel="rbf")
    with pytest.raises(CompositionError, match="to_cvxpy_source"):
        ucm.to_cvxpy_source(square + ucm.Cardinality(2))
    with pytest.raises(DataError, match="no route over rows"):
        ucm.compile(square + ucm.Cardinality(2), ucm.open_rows(X, y))
    with pytest.raises(ParameterError, match="branch-and-bound"):
        ucm.compile(square + ucm.Cardinality(2), X, y, solver="dca")
    with pytest.raises(SolverError, match="prox-newton"):
        ucm.compile(square + ucm.Cardinality(2), X, y, solver="prox-newton")


class _AtZero(Solver[DifferenceOfConvex]):
    """w = 0 with the best b."""

    name = "at-zero"

    def refuse(self, form: DifferenceOfConvex) -> str | None:
        return "it takes one loss" if len(form.G.losses) > 1 else None

    def solve(self, form: DifferenceOfConvex, monitor: Monitor, start: Answer | None = None) -> Answer:
        return form.constant()


def test_a_solver_of_ones_own_for_differences() -> None:
    X, y = samples()
    plan = ucm.compile(ucm.Ramp() + ucm.L1(), X, y, solver=_AtZero())
    assert "at-zero" in plan.explain()
    with pytest.warns(ConvergenceWarning):
        assert not plan.solve().w.any()
    with pytest.raises(SolverError, match=r"at-zero.*one loss"):
        ucm.compile(ucm.Ramp() + ucm.LeastSquares() + ucm.L1(), X, y, solver=_AtZero())


class _Length(SubtractedPart):
    """||w||_2, subtracted."""

    def height(self, w: np.ndarray) -> float:
        return float(np.linalg.norm(w))

    def slopes(self, w: np.ndarray) -> np.ndarray:
        return w / max(self.height(w), 1e-300)

    def term(self, notation: Any) -> str:
        return notation.norm("w", "2")


class _L1MinusL2(Penalty):
    """||w||_1 - ||w||_2, 0 for one nonzero weight."""

    def value(self, w: np.ndarray) -> float:
        return float(np.abs(w).sum() - np.linalg.norm(w))

    def split(self) -> tuple[tuple, tuple]:
        return (ucm.L1(),), (_Length(),)

    def formula(self, notation: Any) -> str:
        return f"({notation.norm('w', '1')} - {notation.norm('w', '2')})"


def test_a_difference_of_ones_own_against_dca_by_hand() -> None:
    check_penalty(_L1MinusL2())
    X, y = samples()
    model = ucm.Hinge() + 3.0 * _L1MinusL2()
    assert ucm.from_json(ucm.to_json(model)) == model
    assert str(model.dc()[1]) == "3·‖w‖₂"
    plan = ucm.compile(model, X, y)
    sol = plan.solve()
    assert sol.status == "stationary" and sol.certificate.relative_gap <= 1e-6 and plan.verify()
    w, b, slope = cp.Variable(6), cp.Variable(), cp.Parameter(6, value=np.zeros(6))
    hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w + b)))
    problem = cp.Problem(cp.Minimize(hinge + 3.0 * cp.norm1(w) - 3.0 * slope @ w))
    for _ in range(30):
        problem.solve(solver="CLARABEL")
        slope.value = known(w.value) / np.linalg.norm(known(w.value))
    by_hand = float(hinge.value) + 3.0 * float(np.abs(known(w.value)).sum() - np.linalg.norm(known(w.value)))
    assert_allclose(sol.objective, by_hand, rtol=1e-5)
    with pytest.raises(ParameterError, match="certify_local"):
        plan.certify_local(sol)
    with pytest.raises(CompositionError, match="_Length"):
        ucm.to_cvxpy_source(model)
