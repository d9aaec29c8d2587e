"""The out-of-core active set of two reduced hulls, beside the same samples in memory and CVXPY twins."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from row_samples import MODELS, GivenWeights, ObservedSource, blocks, samples
from typed import known

import ucm
from ucm import neg, pos
from ucm.evidence.rows import certify_hulls
from ucm.forms.monitor import Monitor
from ucm.solvers import ActiveSet, OutOfCoreActiveSet
from ucm.solvers.out_of_core.active_set import Thresholds, screened
from ucm.solvers.out_of_core.hulls import smoothed_newton
from ucm.solvers.out_of_core.newton import RowSums


@pytest.mark.parametrize("name", MODELS)
def test_answers_agree_with_memory(name: str) -> None:
    X, y = samples()
    rows, memory = ucm.solve(MODELS[name], blocks(X, y)), ucm.solve(MODELS[name], X, y)
    assert rows.status == memory.status == "optimal"
    assert rows.stats.solver == "out-of-core" and memory.stats.solver == "active-set"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.dual <= memory.certificate.primal + 1e-12
    assert memory.certificate.dual <= rows.certificate.primal + 1e-12
    assert rows.x == pytest.approx(memory.x, abs=3e-3)
    assert rows.b == pytest.approx(memory.b, abs=3e-3)
    assert rows.bias_rule == memory.bias_rule
    for ours, theirs in zip(rows.summand_points or (), memory.summand_points or (), strict=True):
        assert ours == pytest.approx(theirs, abs=3e-3)


@pytest.mark.parametrize("name", ["nu", "factors", "signed"])
def test_out_of_core_solutions_agree_with_the_twin(name: str) -> None:
    X, y = samples(400)
    plan = ucm.compile(MODELS[name], blocks(X, y, 37))
    solution = plan.solve()
    whole = ucm.compile(plan.model, X, y).reference()
    whole.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(float(whole.value), rel=1e-5)  # type: ignore[arg-type]
    assert plan.verify().agrees
    band = plan.reference(solution)
    band.solve(solver="CLARABEL")
    assert float(band.value) == pytest.approx(solution.objective, rel=1e-5)  # type: ignore[arg-type]


def test_separable_classes_have_a_hard_margin() -> None:
    X, y = samples(400)
    X[:, 0] += 8.0 * y
    U = ucm.Hull(pos) - ucm.Hull(neg)
    rows, memory = ucm.solve(U, blocks(X, y)), ucm.solve(U, X, y)
    assert rows.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_weights_are_in_the_order_of_the_rows() -> None:
    X, y = samples(3000)
    model = MODELS["nu"]
    rows, memory = ucm.solve(model, blocks(X, y)), ucm.solve(model, X, y)
    assert "weights" not in vars(rows)
    weights: Any = rows.weights
    assert isinstance(weights, np.ndarray) and weights.shape == (3000,)
    assert rows.x == pytest.approx(X.T @ (y * weights), abs=1e-12)
    assert weights[y > 0].sum() == pytest.approx(1.0) and weights.max() <= 2 / (3000 * 0.4) + 1e-15
    assert np.mean((weights > 0) == (np.asarray(memory.weights) > 0)) > 0.98
    again = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(np.asarray(again.weights), np.asarray(weights))
    unread = ucm.solve(model, blocks(X, y))
    assert np.array_equal(copy.copy(unread).weights, weights)  # type: ignore[arg-type]
    unseen = pickle.loads(pickle.dumps(unread))
    assert unseen.objective == rows.objective
    with pytest.raises(AttributeError, match="left out of the pickle"):
        np.asarray(unseen.weights)


def test_a_few_passes_and_few_rows() -> None:
    X, y = samples(60_000, 5)
    plan = ucm.compile(ucm.models.nu_svm(0.4), ucm.open_rows(X, y, threads=2))
    solution = plan.solve()
    assert solution.status == "optimal"
    band = solution.answer.rows.rows.active
    assert band.p.size < 0.25 * y.size
    assert 3 <= solution.stats.reads <= 4
    memory = ucm.solve(ucm.models.nu_svm(0.4), X, y, solver=ActiveSet())
    assert solution.objective == pytest.approx(memory.objective, rel=2e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["heavy tails", "sorted", "rare", "ties", "far"])
def test_hard_data_agree_with_memory(kind: str, seed: int) -> None:
    X, y = samples(4000, 4, seed, part=0.02 if kind == "rare" else 0.5)
    nu = 0.4
    if kind == "heavy tails":
        X *= np.abs(np.random.default_rng(seed).standard_t(1.5, (4000, 1)))
        nu = 0.6
    elif kind == "sorted":
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    elif kind == "rare":
        nu = 0.03
    elif kind == "ties":
        X = np.round(X)
    else:
        X = X + 1e4
    rows, memory = (
        ucm.solve(ucm.models.nu_svm(nu), blocks(X, y, 333)),
        ucm.solve(ucm.models.nu_svm(nu), X, y),
    )
    assert rows.status == memory.status
    assert rows.objective == pytest.approx(memory.objective, rel=3e-6)


def test_class_weights_are_factors_of_the_caps() -> None:
    X, y = samples()
    for weight in ((1.5, 0.8), "balanced", {1: 2.0}):
        rows = ucm.solve(MODELS["nu"], blocks(X, y), class_weight=weight)
        memory = ucm.solve(MODELS["nu"], X, y, class_weight=weight)
        assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_bias_rules_agree_with_memory() -> None:
    X, y = samples(3000)
    for rule in ("multipliers", "midpoint", "zero", "min_error"):
        rows = ucm.solve(MODELS["nu"], blocks(X, y), bias_rule=rule)
        memory = ucm.solve(MODELS["nu"], X, y, bias_rule=rule)
        assert rows.bias_rule == rule
        if rule == "min_error":  # where errors tie, a hair of w decides
            wrong = [np.sum(np.where(X @ s.w + s.b > 0, 1, -1) != y) for s in (rows, memory)]
            assert wrong[0] <= wrong[1] + 2
        else:
            assert rows.b == pytest.approx(memory.b, abs=2e-3)


def test_zero_in_the_set_is_proven() -> None:
    X, y = samples(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ucm.ConvergenceWarning)
        solution = ucm.solve(ucm.models.nu_svm(0.05), blocks(X, y))
    assert solution.status == "zero_in_set" and not solution.w.any()
    assert "gather" in solution.message
    assert np.linalg.norm(solution.x) <= 1e-5


def test_limits_and_callbacks_end_between_rounds() -> None:
    X, y = samples(20_000, part=0.5)
    model, seen = ucm.models.nu_svm(0.4), []
    with pytest.warns(ucm.ConvergenceWarning):
        timed_out = ucm.solve(model, blocks(X, y), time_limit=1e-6)
    assert timed_out.status == "time_limit" and timed_out.certificate.primal < 0.0
    X *= np.abs(np.random.default_rng(0).standard_t(1.5, (20_000, 1)))
    with pytest.warns(ucm.ConvergenceWarning):
        stopped = ucm.solve(
            ucm.models.nu_svm(0.6),
            blocks(X, y),
            callback=lambda record: seen.append(record) or True,
        )
    assert stopped.status == "interrupted" and len(seen) == 1
    assert 0.0 <= stopped.certificate.relative_gap < 0.1


@pytest.mark.parametrize(
    "model",
    [
        ucm.models.nu_svm(0.6),
        ucm.models.svm(3.0),
        ucm.Logistic() + 0.5 * ucm.L2(),
        ucm.models.kl_svm(0.8),
    ],
)
def test_an_interrupt_ends_between_rounds_with_the_proven_gap(model: Any) -> None:
    X, y = samples(20_000)
    X *= np.abs(np.random.default_rng(0).standard_t(2.0, (20_000, 1)))
    proven_by_now: list[Any] = []
    at = [2]

    def interrupt(number: int) -> None:
        if (proven_by_now and not at[0]) or number == at[0]:
            at[0] = -1  # the pass of the certificate comes after it
            raise KeyboardInterrupt

    source = ObservedSource(blocks(X, y, 4000), interrupt)
    with pytest.raises(KeyboardInterrupt):
        ucm.solve(model, source)
    at[0] = 0
    with pytest.warns(ucm.ConvergenceWarning, match="Ctrl-C"):
        found = ucm.solve(model, source, tol=1e-13, callback=proven_by_now.append)
    assert found.status == "interrupted"
    assert found.certificate.relative_gap <= proven_by_now[-1]["gap"] + 1e-9 <= 1.0 + 1e-9
    assert found.certificate.dual <= found.certificate.primal and found.b is not None


@pytest.mark.parametrize("model", [ucm.models.nu_svm(0.6), ucm.models.svm(3.0), ucm.Logistic() + ucm.L2()])
@pytest.mark.parametrize("first", [False, True], ids=["once", "twice"])
def test_an_interrupt_in_the_pass_of_the_certificate_leaves_the_answer(model: Any, first: bool) -> None:
    X, y = samples(20_000)
    proven_by_now: list[Any] = []
    left = [2 if first else 0]

    def interrupt(number: int) -> None:
        if proven_by_now and left[0]:
            left[0] -= 1
            raise KeyboardInterrupt

    source = ObservedSource(blocks(X, y, 4000), interrupt)
    plan = ucm.compile(model, source)
    if not first:  # no Ctrl-C before that pass
        lowering: Any = plan.lowering
        proof = lowering.proof

        def last(answer: Any, tol: float) -> Any:
            left[0] = 1
            return proof(answer, tol)

        vars(lowering)["proof"] = last
    with pytest.warns(ucm.ConvergenceWarning, match="Ctrl-C in the pass of the certificate"):
        found = plan.solve(tol=1e-13 if first else 1e-2, callback=proven_by_now.append)
    assert found.status == "interrupted" and found.certificate.kind == "none"
    w = ucm.solve(model, X, y).w
    assert w @ found.w > 0.9 * np.linalg.norm(w) * np.linalg.norm(found.w)
    assert found.b is not None and np.isfinite(found.b)


def test_a_band_over_the_budget_says_so() -> None:
    X, y = samples(20_000)
    with pytest.warns(ucm.ConvergenceWarning, match="budget"):
        found = ucm.solve(
            ucm.models.nu_svm(0.4),
            blocks(X, y),
            solver=OutOfCoreActiveSet(ActiveSet(), budget=500),
        )
    assert found.status == "stalled"


@pytest.mark.parametrize("rows", [4000, 2500])
def test_a_band_over_the_budget_begins_anew_nearer_to_the_answer(rows: int) -> None:
    X, y = samples(40_000, 4, part=0.5)
    X *= np.abs(np.random.default_rng(0).standard_t(2.0, (40_000, 1)))
    solver = OutOfCoreActiveSet(ActiveSet(), budget=rows * 32)
    wide = ucm.solve(ucm.models.nu_svm(0.6), blocks(X, y, 2500))
    found = ucm.solve(ucm.models.nu_svm(0.6), blocks(X, y, 2500), solver=solver)
    assert found.status == "optimal" and found.stats.reads <= 8
    assert found.objective == pytest.approx(wide.objective, rel=2e-6)
    assert found.answer.rows.rows.active.nbytes <= solver.budget < wide.answer.rows.rows.active.nbytes


@pytest.mark.parametrize(("nu", "rows", "n"), [(0.6, 62, 4), (0.6, 300, 4), (0.6, 300, 30)])
def test_a_band_that_is_too_large_ends_in_one_that_is_not(nu: float, rows: int, n: int) -> None:
    X, y = samples(10_000, n, part=0.5)
    X *= np.abs(np.random.default_rng(0).standard_t(2.0, (10_000, 1)))
    solver = OutOfCoreActiveSet(ActiveSet(), budget=rows * 8 * n)
    found = ucm.solve(ucm.models.nu_svm(nu), blocks(X, y, 1250), solver=solver)
    assert found.status == "optimal" and found.stats.reads <= 45
    assert found.answer.rows.rows.active.nbytes <= solver.budget
    wide = ucm.solve(ucm.models.nu_svm(nu), blocks(X, y, 1250))
    assert found.objective == pytest.approx(wide.objective, rel=2e-6)


def test_rows_of_zeros_have_no_direction_to_ask_for() -> None:
    X, y = samples(60)
    rows = ucm.solve(ucm.models.coherent_mm_fda(0.5), ucm.open_rows(0.0 * X, y))
    assert rows.status == "zero_in_set"


def test_the_terms_of_the_bound() -> None:
    X, y = np.array([[-2.0], [1.0], [-0.5], [3.0]]), np.array([1.0, 1.0, -1.0, -1.0])
    message = np.ones(1), np.zeros(2), np.zeros(2), (1.0, 1.0), 1.5
    states, (sums, new) = screened(X, y, None, Thresholds(*message))
    assert sums.shortfalls.tolist() == [[2.0, 0.5], [0.5, 0.0]] and new.y.size == 0
    assert states.tolist() == [2, 0, 1, 0] and sums.nearest == 0.5
    assert sums.points[..., 0].tolist() == [[1.0, 0.0, -2.0], [3.0, -0.5, 0.0]]


def test_a_longer_normal_proves_no_more() -> None:
    X, y = samples()
    plan = ucm.compile(MODELS["nu"], blocks(X, y))
    found = plan.solve()
    form: Any = plan.lowering.form
    proof: Any = found.answer and found.answer.rows
    longer = replace(proof, w=2.0 * proof.w, mu=2.0 * proof.mu)
    assert certify_hulls(form, longer)[0].primal == pytest.approx(found.certificate.primal, rel=1e-12)
    q, sides = known(found.weights), [np.flatnonzero(y == side) for side in (1.0, -1.0)]
    inside = certify_hulls(form, replace(proof, rows=GivenWeights(X, y, q)))[0]
    assert inside.dual == pytest.approx(found.certificate.dual, rel=1e-12)
    for at, cap in zip(sides, form.scales, strict=True):
        for high in (at[0], at[-1]):  # in the first part of the rows, and in the second
            beyond, low = q.copy(), at[np.argmax(q[at] * (at != high))]
            moved = 1.001 * cap - q[high]
            beyond[high], beyond[low] = q[high] + moved, q[low] - moved
            moved_back = certify_hulls(form, replace(proof, rows=GivenWeights(X, y, beyond)))[0]
            assert moved_back.dual < found.certificate.dual  # at the caps, or no bound if their sum is off
    fewer = y.copy()
    fewer[0] *= 0.5  # the rows of another pass
    other = certify_hulls(form, replace(proof, rows=GivenWeights(X, fewer, q)))[0]
    assert (other.dual, other.primal) == (-np.inf, np.inf)
    far = replace(longer, rows=GivenWeights(X, y, 2.0 * known(found.weights)))
    assert certify_hulls(form, far)[0].dual == -np.inf


def test_a_nan_ends_the_joint_method_at_once() -> None:
    form = ucm.compile(MODELS["nu"], blocks(*samples())).lowering.form
    asked = []

    def sums(*message: Any) -> Any:
        asked.append(message)
        zero = np.zeros(2)
        nothing = np.zeros((2, 4))
        return RowSums(zero + np.nan, zero, zero, nothing, zero, np.full((6, 6), np.nan), nothing)

    z = np.array([1.0, 0.0, 0.0, 0.0, -1.0, -1.0])
    with pytest.raises(ucm.SolverError, match="got a NaN in sums"):
        smoothed_newton(form, z, 1.0, 100.0, sums, Monitor())  # type: ignore[arg-type]
    assert len(asked) == 1


@pytest.mark.parametrize(("shift", "tol"), [(0.0, 0.5), (100.0, 1e-2), (1e4, 1e-4), (1e6, 1e-6)])
def test_a_large_mean_is_no_zero_in_the_set(shift: float, tol: float) -> None:
    X, y = samples(m=3000, n=3)
    exact = ucm.solve(ucm.models.nu_svm(0.5), X, y, tol=1e-8).objective
    for found in (
        ucm.solve(ucm.models.nu_svm(0.5), blocks(X + shift, y, 1000), tol=tol),
        ucm.solve(ucm.models.nu_svm(0.5), X + shift, y, tol=tol),
    ):
        certificate = found.certificate
        assert found.status == "optimal" and -1e-9 <= certificate.relative_gap <= tol
        rounding = 1e-12 * shift + 1e-9
        assert certificate.dual - rounding <= exact <= certificate.primal + rounding
