"""Losses over rows: the active set of the hinge and the ramp loss, Newton's method for smooth losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from row_samples import LOSSES, GivenWeights, blocks, samples
from scipy import sparse

import ucm
from ucm import neg, pos
from ucm.compiler.compile import plan_of
from ucm.compiler.objective import critical
from ucm.data.first_pass import first_pass
from ucm.evidence.rows import certify_losses
from ucm.extend import PointwiseLoss
from ucm.forms.bound import FeatureNormal, SumDual, lower_bound
from ucm.forms.out_of_core import LossProof, RowLosses
from ucm.language.penalties.combined import CombinedPenalty
from ucm.solvers import DCA, OutOfCoreActiveSet, ProxALM
from ucm.solvers.out_of_core.newton import row_sums
from ucm.solvers.out_of_core.newton_rows import SmoothLosses

STRAIGHT = {
    "l1": ucm.Hinge() + 5.0 * ucm.L1(),
    "elastic": ucm.Hinge() + 5.0 * ucm.ElasticNet(0.3),
    "linf": ucm.Hinge() + 5.0 * ucm.LInf(),
    "ramp": ucm.Ramp() + ucm.L2(),
    "ramp, l1": ucm.Ramp() + 5.0 * ucm.L1(),
    "small mu": ucm.Ramp(0.5) + ucm.L2(),
    "small mu, l1": ucm.Ramp(0.5) + 5.0 * ucm.L1(),
    "capped": ucm.Ramp() + 8.0 * ucm.CappedL1(1.0),
    "exponential": ucm.Ramp() + 8.0 * ucm.ExpL0(2.0),
    "hinge, mcp": ucm.Hinge() + ucm.MCP(8.0, 0.05),
    "classes": 2.0 * ucm.Ramp(on=pos) + ucm.Ramp(on=neg) + ucm.L2(),
}


def outliers(m: int = 900) -> tuple[Any, Any]:
    """Samples of which one in ten has the wrong label, and lies further out."""
    X, y = samples(m)
    wrong = np.random.default_rng(5).random(m) < 0.1
    X[wrong] *= 3.0
    return X, np.where(wrong, -y, y)


@pytest.mark.parametrize("name", STRAIGHT)
@pytest.mark.parametrize("kind", ["dense", "csr", "weighted"])
def test_ramps_and_penalties_over_rows_agree_with_memory(name: str, kind: str) -> None:
    X, y = outliers()
    weights = np.random.default_rng(1).integers(0, 3, y.size) if kind == "weighted" else None
    table = sparse.csr_matrix(X) if kind == "csr" else X
    rows = ucm.open_rows(table, y, sample_weight=weights, block=100)
    plan = ucm.compile(STRAIGHT[name], rows)
    solution = plan.solve()
    memory = ucm.solve(STRAIGHT[name], X, y, sample_weight=weights)
    assert solution.stats.solver == "out-of-core"
    assert solution.status in (memory.status, "stationary")
    assert solution.certificate.kind == memory.certificate.kind
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.objective == pytest.approx(memory.objective, rel=2e-6)
    assert solution.objective == pytest.approx(
        STRAIGHT[name].value(y * (X @ solution.w + solution.b), solution.w, y, weights), rel=1e-12
    )
    if kind != "csr":
        assert plan.verify().agrees
    slopes: Any = np.asarray(solution.weights)
    assert slopes.shape == (900,) and slopes @ y == pytest.approx(0.0, abs=1e-4)


def test_a_critical_point_over_rows_is_one_in_memory() -> None:
    X, y = outliers(3000)
    for name in ("ramp", "capped"):
        rows = ucm.solve(STRAIGHT[name], blocks(X, y, 300))
        given = ucm.compile(STRAIGHT[name], X, y).certify(
            w=rows.w, b=rows.b, weights=np.asarray(rows.weights)
        )
        assert given.kind == "local" and given.relative_gap <= 1e-6
        assert rows.stats.reads <= 25


def test_an_objective_that_rises_between_passes_is_not_returned() -> None:
    rng = np.random.default_rng(18)
    y = np.where(rng.random(10_000) < 0.5, 1.0, -1.0)
    X = rng.standard_t(1.5, size=(10_000, 6))
    X[:, 0] += 0.8 * y
    X[:, 1] += 0.5 * y
    X[rng.random(10_000) < 0.1] *= -4.0
    values: list[float] = []
    plan = ucm.compile(STRAIGHT["ramp"], blocks(X, y, 2000))
    solution = plan.solve(callback=lambda record: values.append(record["objective"]))
    margins = y * (X @ solution.w + solution.b)
    assert solution.status == "local" and solution.certificate.relative_gap <= 1e-6
    value = np.clip(1.0 - margins, 0.0, 2.0).sum() + solution.w @ solution.w
    assert solution.objective == pytest.approx(value)
    assert np.diff(values).max() <= 1e-9 * solution.objective


class Dip(PointwiseLoss):
    """sum 2 max(0, 1 - t) - max(0, 2 - t), whose subtracted hinge begins first."""

    def each(self, margin: Any) -> Any:
        return 2.0 * np.maximum(0.0, 1.0 - margin) - np.maximum(0.0, 2.0 - margin)

    def split(self) -> Any:
        return (2.0 * ucm.Hinge(),), (ucm.Hinge(start=2.0),)

    def formula(self, notation: Any) -> str:
        return "sum 2 max(0, 1 - t) - max(0, 2 - t)"


def test_a_subtracted_hinge_that_begins_first_is_for_memory() -> None:
    X, y = samples(60)
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(Dip() + ucm.L2(), blocks(X, y))
    assert ucm.solve(Dip() + ucm.L2(), X, y).status in ("local", "stationary")


def test_a_descent_ends_between_rounds() -> None:
    X, y = outliers(20_000)
    plan = ucm.compile(STRAIGHT["ramp"], blocks(X, y, 4000))
    for stop in (0, 1):
        with pytest.warns(ucm.ConvergenceWarning, match="callback"):
            stopped = plan.solve(callback=lambda record, stop=stop: record["iteration"] >= stop)
        assert stopped.status == "interrupted" and np.isfinite(stopped.objective)
    with pytest.warns(ucm.ConvergenceWarning):
        assert plan.solve(max_iter=1).status == "max_iter"
    with pytest.raises(ucm.ParameterError, match=r"n_starts: expected 1 .*got 3; .*gather"):
        plan.solve(n_starts=3)
    tight = OutOfCoreActiveSet(DCA(ProxALM()), budget=64)
    with pytest.warns(ucm.ConvergenceWarning, match="raise the budget"):
        ucm.solve(STRAIGHT["ramp"], blocks(X, y), solver=tight)


def test_ramps_of_groups_and_the_classifier() -> None:
    X, y = outliers()
    groups = np.array(["A", "B"])[np.arange(900) % 2]
    model = ucm.Ramp(on=pos.group("A")) + 0.5 * ucm.Ramp(on=neg) + ucm.L2()
    rows = ucm.solve(model, ucm.open_rows(X, y, subgroup=groups, block=100))
    memory = ucm.solve(model, X, y, subgroup=groups)
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    fitted = ucm.Classifier(STRAIGHT["ramp, l1"]).fit(blocks(X, y))
    whole = ucm.Classifier(STRAIGHT["ramp, l1"]).fit(X, y)
    assert fitted.coef_ == pytest.approx(whole.coef_, abs=1e-5)
    path = ucm.path(ucm.Ramp() + ucm.Param("lam", 1.0) * ucm.L2(), blocks(X, y), lam=[1.0, 2.0])
    assert all(each.certificate.relative_gap <= 1e-6 for each in path)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["dense", "csr", "heavy tails", "ties", "weighted"])
def test_losses_over_rows_agree_with_memory(name: str, kind: str) -> None:
    X, y = samples(6000, 4)
    weight = (2.0, 0.7) if kind == "weighted" else None
    if kind == "heavy tails":
        X *= np.abs(np.random.default_rng(0).standard_t(2.0, (6000, 1)))
    elif kind == "ties":
        X = np.round(X)
    own = sparse.csr_matrix(X) if kind == "csr" else X
    rows = ucm.solve(LOSSES[name], blocks(own, y, 400), class_weight=weight)
    memory = ucm.solve(LOSSES[name], own, y, class_weight=weight)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.dual <= memory.objective * (1.0 + 1e-12)
    assert rows.w == pytest.approx(memory.w, abs=5e-3)
    assert rows.b == pytest.approx(memory.b, abs=5e-3)
    assert rows.stats.reads <= 7
    weights = np.asarray(rows.weights)
    assert weights.shape == (6000,) and weights.min() >= 0.0
    direction = X.T @ (y * weights)
    lam = 3.0 if name == "svm" else 0.5
    assert direction == pytest.approx(2.0 * lam * rows.w, abs=2e-2 * np.abs(direction).max())


def test_samples_on_their_target_bend_the_loss() -> None:
    """Of least squares, every margin 1: the Hessian is 2 C times the moments of (x, 1)."""
    X, y = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 1.0, 1.0])
    model = 3.0 * ucm.LeastSquares(on=pos) + 5.0 * ucm.LeastSquares(on=neg) + ucm.L2()
    form = RowLosses.of(model, first_pass(blocks(*samples(60, 1))))
    found = row_sums(X, y, *SmoothLosses(form).message(np.array([0.0, 1.0])))
    Z = np.column_stack([X, np.ones(3)])
    assert found.losses.sum() == 0.0 and found.hessian == pytest.approx(6.0 * Z.T @ Z)


def test_the_bound_of_losses_is_the_dual_program() -> None:
    X, y = samples(60, 3)
    plan = ucm.compile(LOSSES["p = 2"], X, y)
    dual = plan.dual_reference()
    dual.solve(solver="CLARABEL")
    rows = ucm.solve(LOSSES["p = 2"], blocks(X, y, 7))
    assert rows.certificate.dual == pytest.approx(float(dual.value), rel=1e-6)  # type: ignore[arg-type]
    gains, points = np.array([5.0, 1.5]), np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])

    def bound(gains: Any, points: Any) -> float:
        """The bound of slopes of sum 2 of one class, and 1 of the other, with the penalty 0.5 L2()."""
        sums = np.zeros((3, 6))
        sums[1:] = np.column_stack([[2.0, -1.0], [2.0, 1.0], gains, points * [[1.0], [-1.0]]])
        penalty = CombinedPenalty((0.5 * ucm.L2(),))
        normal = FeatureNormal(np.empty((0, 3)), np.zeros(3))
        return lower_bound(SumDual(sums), normal, penalty, np.zeros(3))[0]

    parts = np.linspace(0.0, 1.0, 100_001)
    for gain, best in ((-5.0, 0.0), (5.0, 7.5)):  # at points whose difference is 0
        assert bound([gain, gain], np.zeros((2, 3))) == pytest.approx(best)
    d = 0.5 * points[0] - points[1]
    values = parts * (0.5 * gains[0] + gains[1]) - parts**2 * (d @ d) / 2.0
    assert bound(gains, points) == pytest.approx(values.max(), rel=1e-8)


def test_losses_proven_from_any_slopes() -> None:
    rng = np.random.default_rng(3)
    (X, y), told = samples(80, 3), []
    for name in ("svm", "p = 2"):
        optimum = ucm.solve(LOSSES[name], X, y, tol=1e-9).objective
        form: Any = ucm.compile(LOSSES[name], blocks(X, y, 30)).lowering.form
        ((loss, C),) = form.losses
        c = np.where(y > 0.0, *C)
        for size in (0.1, 1.0, 10.0):
            w, b = size * rng.standard_normal(3), size * rng.standard_normal()
            u = loss.offset - y * (X @ w + b)
            a = loss.gradient(u if size > 1.0 else rng.standard_normal(80))
            found = certify_losses(form, LossProof(w, b, 0.0, rows=GivenWeights(X, y, c * a)))
            assert found.dual <= optimum * (1.0 + 1e-7) and optimum <= found.primal * (1.0 + 1e-7)
            told.append(found.dual)
    assert sum(dual > 0.0 for dual in told) >= 3


@pytest.mark.parametrize("model", [LOSSES["svm"], ucm.Ramp() + 0.5 * ucm.L2()], ids=repr)
@pytest.mark.parametrize("weight", [1.0, 1e-10])
def test_a_pass_without_every_row_proves_nothing(model: Any, weight: float) -> None:
    X, y = samples(80, 3)
    rows = ucm.open_rows(X, y, sample_weight=np.full(80, weight), block=30)
    lowering: Any = ucm.compile(model, rows).lowering
    proof = LossProof(np.zeros(3), 0.0, 0.0, rows=GivenWeights(X[1:], weight * y[1:], np.zeros(79)))
    found = certify_losses(lowering.form, proof)
    assert (found.dual, found.primal, found.kind) == (-np.inf, np.inf, "none")
    assert critical(found, 1e-6, lambda: True) is None


def test_a_bound_of_losses_that_are_subtracted_is_not_below_that_of_no_slopes() -> None:
    """Hinge and LInf are not negative, so neither is a bound of their sum, however far the slopes are off."""
    X, y = samples(60, 3)
    form: Any = ucm.compile(ucm.Hinge() + 0.5 * ucm.LInf(), blocks(X, y, 30)).lowering.form
    for slopes in (np.full(60, -2.0), 1e3 * np.random.default_rng(0).standard_normal(60)):
        proof = LossProof(np.zeros(3), 0.0, 60.0, rows=GivenWeights(1e3 * X, y, slopes))
        assert 0.0 <= certify_losses(form, proof).dual <= 60.0


OTHERS = {
    "logistic": ucm.Logistic() + 0.5 * ucm.L2(),
    "exponential": 0.3 * ucm.Exponential() + 2.0 * ucm.L2(),
    "Huber": 2.0 * ucm.HuberHinge(0.5) + ucm.L2(),
    "least squares": 0.1 * ucm.LeastSquares() + 3.0 * ucm.L2(),
    "a power below 2": ucm.models.psvm(1.5, 0.1),
    "classes": ucm.Hinge(2, on=pos) + 3.0 * ucm.Hinge(2, on=neg) + ucm.L2(),
    "kinks of classes": ucm.Hinge(on=pos) + 3.0 * ucm.Hinge(on=neg) + ucm.L2(),
    "a sum": ucm.Logistic(on=pos) + ucm.Hinge(2) + 2.0 * ucm.L2(),
}


@pytest.mark.parametrize("weight", [None, (2.0, 0.7)])
@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_over_rows(name: str, weight: Any) -> None:
    X, y = samples(1500)
    plan = ucm.compile(OTHERS[name], blocks(X, y, 200), class_weight=weight)
    rows, memory = plan.solve(), ucm.solve(OTHERS[name], X, y, class_weight=weight)
    assert rows.status == memory.status == "optimal" and rows.stats.reads <= 8
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.dual <= memory.objective * (1.0 + 1e-12)
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert rows.b == pytest.approx(memory.b, abs=2e-3)
    if (
        name == "kinks of classes"
    ):  # the weight of a sample at a kink moves from 0 to its cap in a gap of 1e-6
        rows, memory = (
            plan.solve(tol=1e-9),
            ucm.solve(OTHERS[name], X, y, class_weight=weight, tol=1e-9),
        )
        assert rows.status == memory.status == "optimal"
    assert np.asarray(rows.weights) == pytest.approx(memory.weights, abs=5e-3)


@pytest.mark.parametrize("name", ["svm", "p = 2", "a sum", "kinks of classes"])
def test_verify_compares_losses_over_rows(name: str) -> None:
    X, y = samples(1500)
    plan = ucm.compile({**LOSSES, **OTHERS}[name], blocks(X, y, 200), class_weight=(2.0, 0.7))
    solution = plan.solve()
    assert plan.verify().agrees
    assert not plan.lowering.verify(replace(solution, objective=1.01 * solution.objective), 1e-6)
    with pytest.raises(ucm.ParameterError, match="give one"):
        plan.reference()


def test_an_exponential_of_rows_that_the_sample_missed() -> None:
    X, y = samples(4000)
    X[:5] *= 2000.0  # exp of their margins is no number
    model = ucm.Exponential() + ucm.L2()
    few = first_pass(blocks(X, y, 500))
    few.sample = X[100:900], y[100:900]
    found = plan_of(model, few, None, "auto").solve()
    memory = ucm.solve(model, X, y)
    assert found.status == memory.status == "optimal"
    assert found.objective == pytest.approx(memory.objective, rel=2e-6)
    # the Hessian has a condition number of about 1e6, that of the five long samples squared
    assert found.w == pytest.approx(memory.w, rel=1e-3)
    value = np.exp(-y * (X @ found.w + found.b)).sum() + found.w @ found.w
    assert found.objective == pytest.approx(value, rel=1e-9)
    assert found.certificate.dual <= value * (1.0 + 1e-9)


def test_losses_end_between_rounds() -> None:
    X, y = samples(20_000)
    for name in ("svm", "p = 2"):
        with pytest.warns(ucm.ConvergenceWarning):
            timed_out = ucm.solve(LOSSES[name], blocks(X, y, 4000), time_limit=1e-6)
        assert timed_out.status == "time_limit"
        assert timed_out.certificate.primal >= timed_out.certificate.dual >= 0.0
    with pytest.warns(ucm.ConvergenceWarning, match="budget"):
        ucm.solve(LOSSES["svm"], blocks(X, y), solver=OutOfCoreActiveSet(ProxALM(), budget=2000))
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(ucm.Logistic() + ucm.L1(), blocks(X, y))


@pytest.mark.parametrize(
    ("loss", "penalty", "options"),
    [
        (ucm.WorstMean(ucm.Hinge(), ucm.CappedSimplex(1 / 0.7, relative=True)), 0.05 * ucm.L2(), {}),
        (
            2 * ucm.WorstMean(ucm.Hinge(start=0.5), ucm.CappedSimplex(nu=1.5)),
            0.05 * ucm.L2() + 0.02 * ucm.L1(),
            {"class_weight": (2.0, 1.0)},
        ),
        (ucm.WorstMean(ucm.Hinge(), ucm.CappedSimplex(0.01)), 0.02 * ucm.L1(), {}),
        (ucm.WorstMean(ucm.Hinge()), 0.02 * ucm.L1(), {}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_worst_means_over_capped_simplices(loss: Any, penalty: Any, options: dict, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = np.where(X[:, 0] + 0.7 * X[:, 1] + 0.8 * rng.standard_normal(400) > 0.3, 1.0, -1.0)
    c = rng.integers(1, 4, 400).astype(float) if weighted else None
    plan = ucm.compile(loss + penalty, ucm.open_rows(X, y, sample_weight=c), **options)
    in_memory = ucm.compile(loss + penalty, X, y, sample_weight=c, **options)
    sol, whole = plan.solve(), in_memory.solve()
    assert sol.status == "optimal" and sol.stats.solver == "out-of-core"
    assert sol.objective == pytest.approx(whole.objective, rel=2e-6)
    assert sol.certificate.dual <= whole.objective * (1 + 1e-9) and plan.verify()
    assert in_memory.certify(w=sol.w, b=sol.b, weights=sol.weights).relative_gap <= 1e-5


def test_a_cap_that_leaves_no_weights_is_refused_over_rows() -> None:
    X, y = ucm.datasets.load("iris")
    loss = ucm.WorstMean(ucm.Hinge(), ucm.CappedSimplex(0.7, relative=True))
    with pytest.raises(ucm.EmptySetError, match="the cap must be at least 1"):
        ucm.compile(loss + ucm.L2(), ucm.open_rows(X, y))
    with pytest.raises(ucm.DataError, match="name the label of class"):
        ucm.compile(ucm.WorstMean(ucm.Hinge()) + ucm.L2(), ucm.open_rows(X, np.where(y > 0, "b", "a")))
