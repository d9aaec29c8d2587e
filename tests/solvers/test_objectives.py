"""`loss + penalty`: every route against the CVXPY twin and the others, DCA, certificates, bad input."""

from __future__ import annotations

import itertools
import re
import warnings
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from catalogue import OBJECTIVES
from numpy.testing import assert_allclose
from references import exact, instances
from scipy import sparse
from scipy.optimize import linprog
from typed import known, untyped

import ucm
from ucm import (
    L1,
    L2,
    Exponential,
    FeatureDeletion,
    Hinge,
    LInf,
    Logistic,
    Lp,
    Objective,
    Ramp,
    Robust,
    models,
)
from ucm.data.bound_data import bind
from ucm.errors import CompositionError, ConvergenceWarning
from ucm.evidence.objective import certify_objective, is_unattained
from ucm.evidence.reference import majorant
from ucm.forms.bound import FeatureNormal
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex, LinearTerm
from ucm.forms.solver import Answer, Session, Solver
from ucm.solvers import (
    DCA,
    Conic,
    HiGHS,
    ProxALM,
    ProxNewton,
)

EIGHT = {
    "svm": models.svm,
    "one_norm_svm": models.one_norm_svm,
    "zero_norm_svm": models.zero_norm_svm,
    "cap_one_norm_svm": models.cap_one_norm_svm,
    "rlsvm2": models.rlsvm2,
    "rlsvm1": models.rlsvm1,
    "rlsvm0": models.rlsvm0,
    "rlsvmc1": models.rlsvmc1,
}


def noisy(m: int, n: int, seed: int = 0, flipped: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes, a share of the labels flipped."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((m, n))
    y = np.where(X @ np.linspace(1.0, 0.0, n) + 0.3 >= 0.0, 1.0, -1.0)
    y[generator.random(m) < flipped] *= -1.0
    y[:2] = 1.0, -1.0
    return X, y


# --- routes -------------------------------------------------------------------------------------
def ordinary(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that overlap by more or less, of any size."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(8, 40)), int(rng.integers(2, 7))
    y = np.where(np.arange(m) < m // 2, 1.0, -1.0)
    return rng.standard_normal((m, n)) + y[:, None] * rng.uniform(0, 1), y


def height_of(objective: Objective, X: Any, y: Any, w: Any, b: Any, weights: Any = None) -> float:
    """The objective at (w, b); a deleted feature takes the largest part off a margin."""
    margin = y * (X @ w + b)
    if objective == Robust(Hinge(), FeatureDeletion(1)) + 0.5 * L2():
        objective = Hinge() + 0.5 * L2()
        margin = margin - np.maximum((y[:, None] * X * w).max(axis=1), 0.0)
    return objective.value(margin, w, y, weights, b=b)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_every_objective_agrees_with_its_twin(objective: Objective) -> None:
    X, y = noisy(30, 4)
    plan = ucm.compile(objective, X, y)
    solution = plan.solve()
    assert solution.status in (("optimal",) if objective.convex else ("local", "stationary"))
    assert abs(solution.certificate.relative_gap) <= 1e-6
    assert solution.certificate.kind == ("global" if objective.convex else "local")
    assert solution.objective == pytest.approx(height_of(objective, X, y, solution.w, solution.b), rel=1e-12)
    check = plan.verify()
    assert check.agrees, str(check)
    assert plan.reference().is_dcp(dpp=True)


def least(loss: Any, penalty: Any, X: np.ndarray, y: np.ndarray, intercept: str | None, s: float) -> float:
    """The optimum of `loss(t) + penalty(w)` by CVXPY, w with b / s as last entry where b is penalised."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    b = b if intercept else cp.Constant(0.0)
    weights = cp.hstack([w, b / s]) if intercept == "penalised" else w
    problem = cp.Problem(cp.Minimize(loss(cp.multiply(y, X @ w + b)) + penalty(weights)))
    return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9))


INTERCEPTS = [
    (Hinge(), lambda t: cp.sum(cp.pos(1 - t)), 0.5 * L2(), lambda w: 0.5 * cp.sum_squares(w)),
    (Hinge(), lambda t: cp.sum(cp.pos(1 - t)), 2.0 * L1(), lambda w: 2.0 * cp.norm1(w)),
    (Hinge(), lambda t: cp.sum(cp.pos(1 - t)), LInf() + L1(), lambda w: cp.norm(w, "inf") + cp.norm1(w)),
    (Logistic(), lambda t: cp.sum(cp.logistic(-t)), 0.5 * L2(), lambda w: 0.5 * cp.sum_squares(w)),
    (Logistic(), lambda t: cp.sum(cp.logistic(-t)), 2.0 * L1(), lambda w: 2.0 * cp.norm1(w)),
    (Logistic(), lambda t: cp.sum(cp.logistic(-t)), 2.0 * ucm.Norm(), lambda w: 2.0 * cp.norm(w)),
    (Hinge(2), lambda t: cp.sum_squares(cp.pos(1 - t)), 2.0 * L1(), lambda w: 2.0 * cp.norm1(w)),
]


@pytest.mark.parametrize(("intercept", "scaling"), [(None, 1.0), ("penalised", 1.0), ("penalised", 3.0)])
@pytest.mark.parametrize(("loss", "of_t", "penalty", "of_w"), INTERCEPTS)
def test_intercepts_against_a_program(
    loss: Any, of_t: Any, penalty: Any, of_w: Any, intercept: str | None, scaling: float
) -> None:
    X, y = noisy(60, 5)
    X += 0.4
    optimum = least(of_t, of_w, X, y, intercept, scaling)
    model = (loss + penalty).with_intercept(intercept, scaling)
    for solver in ("auto", "clarabel"):
        plan = ucm.compile(model, X, y, solver=solver)
        solution = plan.solve()
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(optimum, rel=2e-6)
        assert solution.certificate.dual <= optimum * (1.0 + 1e-8)
        assert intercept is not None or solution.b == 0.0
        assert plan.certify(w=solution.w, b=solution.b, weights=solution.weights).relative_gap <= 1e-5
    if loss == Hinge() or penalty == 0.5 * L2():
        assert ucm.solve(model, ucm.open_rows(X, y)).objective == pytest.approx(optimum, rel=2e-6)
    if penalty == 0.5 * L2():
        solution = ucm.solve(model, X, y, kernel=lambda A, B: A @ B.T)
        assert solution.objective == pytest.approx(optimum, rel=2e-6)
    program = {"X": X, "y": y}
    exec(ucm.to_cvxpy_source(model), program)
    assert program["objective"] == pytest.approx(optimum, rel=1e-5)
    assert program["b"] == pytest.approx(plan.solution.b, abs=1e-3)


def test_an_intercept_proves_nothing_where_the_model_has_none() -> None:
    X, y = noisy(60, 4)
    plan = ucm.compile((Hinge() + 0.5 * L2()).with_intercept(None), X, y)
    solution = plan.solve()
    free = ucm.solve(Hinge() + 0.5 * L2(), X, y)
    certificate = plan.certify(w=free.w, b=free.b, weights=solution.weights)
    assert certificate.primal == np.inf and certificate.kind == "none"
    assert certificate.dual == pytest.approx(solution.certificate.dual, rel=1e-3)


def test_a_penalised_intercept_is_in_no_weights_groups_and_matrices() -> None:
    X, y = noisy(60, 4)
    groups, c, Q = [0, 0, 1, 1], np.array([1.0, 0.0, 2.0, 1.0]), np.diag([1.0, 2.0, 0.0, 1.0])
    ridge, inside = 0.1 * L2(), cp.transforms.indicator
    for penalty, of_w in (
        (ucm.GroupLasso(groups), lambda w: cp.norm(w[:2]) + cp.norm(w[2:4]) + 0.1 * cp.sum_squares(w)),
        (L1(weights=c), lambda w: c @ cp.abs(w[:4]) + 0.1 * cp.sum_squares(w)),
        (ucm.Quadratic(Q), lambda w: cp.quad_form(w[:4], Q) + 0.1 * cp.sum_squares(w)),
        (ucm.NonNegative(), lambda w: inside([w[:4] >= 0]) + 0.1 * cp.sum_squares(w)),
        (ucm.NonNegative([1, 0, 0, 1]), lambda w: inside([w[[0, 3]] >= 0]) + 0.1 * cp.sum_squares(w)),
    ):
        model = (Logistic() + penalty + ridge).with_intercept("penalised")
        optimum = least(lambda t: cp.sum(cp.logistic(-t)), of_w, X, y, "penalised", 1.0)
        assert ucm.solve(model, X, y).objective == pytest.approx(optimum, rel=2e-6)
        with pytest.raises(ucm.CompositionError, match="expected a penalty of the intercept"):
            ucm.solve((Logistic() + penalty).with_intercept("penalised"), X, y)
    for constraint in (ucm.Bounds(0.1, 1.0), ucm.LinearConstraint(np.ones(4), 1.0, 1.0)):
        with pytest.raises(ucm.CompositionError, match="expected a penalty of the intercept"):
            ucm.solve((Logistic() + constraint).with_intercept("penalised"), X, y)
    with pytest.raises(ucm.CompositionError, match="in no group"):
        ucm.solve((Logistic() + ucm.GroupMCP(groups)).with_intercept("penalised"), X, y)


def test_intercepts_in_sums_and_texts() -> None:
    model = (Hinge() + L2()).with_intercept("penalised", 2.0)
    assert 2 * model + L1() == (2 * Hinge() + 2 * L2() + L1()).with_intercept("penalised", 2.0)
    assert str(model).startswith("min_{w} ") and "w'(x_i, 2)" in str(model)
    assert eval(repr(model), {"Hinge": Hinge, "L2": L2}) == model != Hinge() + L2()
    for intercept, scaling, message in (
        ("no", 1.0, "'free'"),
        (None, 0.0, r"scaling must lie in \(0, inf\)"),
        ("free", np.inf, "must lie in"),
    ):
        with pytest.raises(ucm.CompositionError, match=message):
            model.with_intercept(intercept, scaling)
    assert model.value(np.ones(2), np.zeros(3), b=4.0) == 4.0  # (b / scaling)^2
    with pytest.raises(ucm.CompositionError, match="b=b"):
        model.value(np.ones(2), np.zeros(3))
    with pytest.raises(ucm.CompositionError, match="two intercepts"):
        _ = model + (Hinge() + L2())


ROUTES = [
    HiGHS(),
    HiGHS(features=1),
    HiGHS(samples=10, features=1, rough=ProxALM(max_outer=1)),
    ProxNewton(),
    ProxALM(),
    Conic(),
]


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o.convex], ids=repr)
def test_all_routes_of_an_objective_agree(objective: Objective) -> None:
    X, y = noisy(40, 6, seed=1)
    form = ucm.compile(objective, X, y, solver="clarabel").form  # not the pSVM's own
    reference = ucm.solve(objective, X, y, solver="clarabel").objective
    for solver in ROUTES:
        if type(form) in solver.takes and solver.refuse(form) is None:
            solution = ucm.solve(objective, X, y, solver=solver)
            assert solution.status == "optimal"
            assert solution.objective == pytest.approx(reference, rel=1e-6), solver


def tilted(form: Composite, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random subgradient of what the ramp and the capped l1 penalty subtract."""
    generator = np.random.default_rng(seed)
    slope = form.losses[0].slope() or 0.0
    margin = -slope * (generator.random(form.m) < 0.3)
    a = form.norms[0]
    return margin, a * generator.choice([-1.0, 0.0, 0.0, 1.0], form.n)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("solver", "penalty"),
    [
        (HiGHS(), 0.5 * ucm.L1()),
        (HiGHS(features=1), 0.5 * ucm.L1()),
        (HiGHS(samples=10, rough=ProxALM(max_outer=1)), 0.5 * ucm.L1()),
        (ProxALM(), 0.5 * ucm.L2()),
    ],
    ids=repr,
)
def test_tilted_problems_are_solved_warm(solver: Any, penalty: Any, seed: int) -> None:
    """One session through several tilts, as in DCA, against CVXPY written out by hand."""
    import cvxpy as cp

    X, y = noisy(50, 5, seed)
    form = Composite(X, y, ucm.Ramp(0.5).split()[0], (penalty,))
    session, point = solver.session(form), None
    for k in range(4):
        v, u = tilted(form, seed + 10 * k)
        form = form.tilted(LinearTerm(v, u))
        point = session.solve(form, Monitor(1e-8), point)
        w, b = cp.Variable(5), cp.Variable()
        t = cp.multiply(y, X @ w + b)
        size = cp.norm1(w) if form.norms[0] else cp.sum_squares(w)
        total = 2.0 * cp.sum(cp.pos(0.5 - t)) + 0.5 * size - v @ t - u @ w
        value = cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)
        margin = form.margins(point.w, point.b)
        assert form.value(margin, point.w) == pytest.approx(value, rel=1e-6, abs=1e-6)
        bound, _ = form.lower_bound(point.slopes, margin, point.w)
        assert bound <= value + 1e-6 * abs(value)


@pytest.mark.parametrize("loss", [ucm.Hinge(), 2.0 * ucm.Hinge(1.5), ucm.Logistic()], ids=repr)
@pytest.mark.parametrize(("m", "n"), [(40, 5), (15, 40), (3000, 80)])
def test_tilts_of_the_normal_and_features_beyond_samples(loss: Any, m: int, n: int) -> None:
    """Newton for losses through several tilts, dense and sparse, against the gap of Fenchel."""
    X, y = noisy(m, n, seed=4)
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    generator = np.random.default_rng(5)
    values = []
    for samples in (X, sparse.csr_matrix(X)):
        form = Composite(samples, y, (loss,), (0.5 * ucm.L2(),), (np.where(y > 0, 2.0, 0.5),))
        session = ProxALM().session(form)
        for scale in (0.0, 1.0, 0.3):
            v, u = np.zeros(m), scale * np.linspace(-1.0, 1.0, n)
            if loss.slope() is not None:
                v = -form.caps * (np.arange(m) % 5 == 0)
            form = form.tilted(LinearTerm(v, u))
            start = Answer(w=0.1 * generator.standard_normal(n), b=0.0)
            answer = session.solve(form, Monitor(1e-8), start)
            assert answer.status == "converged" and answer.slopes is not None
            w, b = answer.plane
            margin = form.margins(w, b)
            values.append(form.value(margin, w))
            bound, _ = form.lower_bound(answer.slopes, margin, w)
            assert abs(values[-1] - bound) <= 1e-8 * abs(values[-1])
    assert_allclose(values[:3], values[3:], rtol=1e-7)


def test_many_sparse_features_are_never_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.random_array((60, 100_000), density=1e-3, rng=np.random.default_rng(6), format="csr")
    X = sparse.csr_matrix(X)
    y = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    dense = sparse.csr_matrix.toarray

    def small(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert self.shape[0] * self.shape[1] <= 60 * 61
        return dense(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_matrix, "toarray", small)
    for loss in (ucm.Hinge(), ucm.Hinge(1.5)):
        found = ucm.solve(loss + 0.1 * ucm.L2(), X, y, solver="prox-alm", tol=1e-8)
        assert found.status == "optimal"


@pytest.mark.parametrize("shape", [(3, 30), (6, 3)])
@pytest.mark.parametrize("loss", [Logistic(), Hinge(2), Hinge(), Exponential()])
def test_sparse_samples_without_entries_have_w_0(loss: Any, shape: tuple[int, int]) -> None:
    X, y = sparse.csr_matrix(shape), np.where(np.arange(shape[0]) % 2, -1, 1)
    found, dense = (ucm.solve(loss + L2(), samples, y) for samples in (X, X.toarray()))
    assert found.status == "optimal" and not known(found.w).any()
    assert found.objective == pytest.approx(dense.objective, rel=1e-6)


def test_newton_for_losses_counts_passes_and_reports_gaps() -> None:
    X, y = noisy(400, 12, seed=8)
    for loss in (ucm.Hinge(), ucm.Hinge(1.5)):
        plan = ucm.compile(loss + 0.5 * ucm.L2(), X, y, solver="prox-alm")
        found = plan.solve()
        stats, history = found.stats, found.history
        assert stats.iterations == len(history) >= 2 and stats.systems >= len(history) - 1
        least = 0.0 if loss.p == 1.0 else stats.systems / 2  # of the active samples only, or of all
        assert least < stats.passes <= 2.5 * (stats.systems + stats.iterations)
        assert 0.0 < stats.forming <= 3.0 * stats.systems  # a system of 13 unknowns: 3.25 passes
        assert history[-1]["objective"] == pytest.approx(found.objective, rel=1e-6)
        watched: list[dict[str, float]] = []
        again = plan.solve(callback=watched.append)
        assert again.objective == pytest.approx(found.objective, rel=1e-6)
        assert watched == again.history
        with pytest.warns(ucm.ConvergenceWarning, match="stopped by the callback"):
            assert plan.solve(callback=lambda record: True, tol=1e-12).status == "interrupted"
        with pytest.warns(
            ucm.ConvergenceWarning, match="1 (multiplier|Newton) steps left a .* gap .*of [0-9]"
        ):
            assert plan.solve(max_iter=1).stats.iterations == 1


@pytest.mark.parametrize(("m", "n"), [(30, 400), (400, 30), (200, 100)])
def test_generation_finds_the_optimum_of_the_whole_program(m: int, n: int) -> None:
    X, y = noisy(m, n, seed=3)
    for X_k in (X, sparse.csr_matrix(X)):
        whole = ucm.solve(models.one_norm_svm(0.3), X_k, y, solver=HiGHS(samples=None, features=None))
        taken = ucm.solve(
            models.one_norm_svm(0.3),
            X_k,
            y,
            solver=HiGHS(samples=20, features=5, rough=ProxALM(max_outer=1)),
        )
        assert whole.status == taken.status == "optimal"
        assert taken.objective == pytest.approx(whole.objective, rel=1e-9)
        assert taken.certificate.gap <= 1e-7 * whole.objective


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_class_weights_are_copies_of_the_samples(objective: Objective) -> None:
    X, y = noisy(30, 3, seed=7)
    copies = np.where(y > 0, 3, 2)
    plan = ucm.compile(objective, X, y, class_weight=(3.0, 2.0))
    weighted = plan.solve()
    check = plan.verify()
    assert check.agrees, str(check)
    assert weighted.certificate.relative_gap <= 1e-6
    X2, y2 = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    height = height_of(objective, X2, y2, weighted.w, weighted.b)
    assert weighted.objective == pytest.approx(height, rel=1e-9)
    if objective.convex:
        copied = ucm.solve(objective, X2, y2)
        assert weighted.objective == pytest.approx(copied.objective, rel=2e-6)
        G = ucm.compile(objective, X, y, solver="clarabel").form
        for solver in ROUTES:
            if type(G) in solver.takes and solver.refuse(G) is None:
                other = ucm.compile(objective, X, y, class_weight=(3.0, 2.0), solver=solver)
                assert other.solve().objective == pytest.approx(weighted.objective, rel=2e-6)


def test_balanced_class_weights_in_the_classifier() -> None:
    X, y = noisy(80, 3, seed=2)
    keep = (y > 0) | (np.arange(80) % 6 == 0)
    X, y = X[keep], y[keep]
    plain, balanced = (
        ucm.Classifier(models.rlsvm1(1.0), class_weight=w).fit(X, y) for w in (None, "balanced")
    )
    rare = y < 0
    assert (balanced.predict(X) == y)[rare].mean() > (plain.predict(X) == y)[rare].mean()


def test_more_features_than_samples_with_l2() -> None:
    X, y = noisy(20, 60, seed=5)
    plan = ucm.compile(models.svm(0.1), X, y, solver="prox-alm")
    assert plan.solver.name == "prox-alm"
    assert plan.solve().status == "optimal"
    assert plan.verify().agrees


@pytest.mark.parametrize("name", EIGHT)
def test_sparse_data_float32_and_order(name: str) -> None:
    X, y = noisy(40, 5, seed=2)
    X = np.round(X * (np.abs(X) > 0.5), 2)
    model = EIGHT[name](0.3)
    dense = ucm.solve(model, X, y)
    other = ucm.solve(model, sparse.csr_matrix(X), y)
    assert other.objective == pytest.approx(dense.objective, rel=1e-8)
    fortran = np.asfortranarray(X)
    fortran.flags.writeable = False
    before = fortran.copy()
    again = ucm.solve(model, fortran, y)
    assert again.objective == dense.objective
    assert np.array_equal(fortran, before)
    if model.convex:
        turn = np.random.default_rng(0).permutation(40)
        assert ucm.solve(model, X[turn], y[turn]).objective == pytest.approx(dense.objective, rel=1e-7)


def test_the_svm_is_that_of_libsvm() -> None:
    from sklearn.svm import SVC

    X, y = noisy(80, 4, seed=4)
    ours = ucm.solve(models.svm(0.25), X, y, tol=1e-9)  # C = 1 / (2 lam)
    theirs = SVC(kernel="linear", C=2.0, tol=1e-10).fit(X, y)
    assert_allclose(ours.w, theirs.coef_[0], atol=1e-5)
    assert ours.b == pytest.approx(theirs.intercept_[0], abs=1e-5)


def test_explain_names_the_split_and_the_refusals() -> None:
    X, y = noisy(20, 3)
    text = ucm.compile(models.rlsvmc1(0.5), X, y).explain(verbose=True)
    assert "dca around highs" in text
    assert "H         1/μ·Σ_{i} max(0, -μ^2 - t_i) + λ·Σ_{j} max(0, |w_j| - a)" in text
    assert re.search("prox-newton +refused: .* has no Lipschitz gradient", text)


def largest_weight(X: Any, y: Any, c: Any, s: float, a: float) -> float:
    """`min sum_i c_i max(0, 1 - t_i) + s ||w||_inf + a ||w||_1` by a linear program in w = p - q, b, v and
    the slack variables."""
    (m, n), Z = X.shape, y[:, None] * X
    margins = np.hstack([-Z, Z, -y[:, None], np.zeros((m, 1)), -np.eye(m)])
    sides = np.hstack([np.eye(n), np.eye(n), np.zeros((n, 1)), -np.ones((n, 1)), np.zeros((n, m))])
    costs = np.concatenate([np.full(2 * n, a), [0.0, s], c])
    bounds = [(0, None)] * (2 * n) + [(None, None)] + [(0, None)] * (m + 1)
    rows, right = np.vstack([margins, sides]), np.repeat([-1.0, 0.0], [m, n])
    return linprog(costs, rows, right, bounds=bounds, method="highs").fun


@pytest.mark.parametrize("seed", range(12))
def test_linear_programs_take_the_largest_weight(seed: int) -> None:
    """Few samples of many features and many of few, of any scale, and whole numbers, whose kinks meet."""
    rng = np.random.default_rng(seed)
    m, n = ((40, 6), (12, 30), (60, 15))[seed % 3]
    X, y = noisy(m, n, seed)
    unit = 1.0
    if seed % 2:
        unit = 10.0 ** rng.uniform(-5, 5)
        X = X * unit * 10.0 ** rng.uniform(-1, 1, n)
    elif seed % 4:
        X = np.round(X)
    c = np.ones(m) if seed % 4 else rng.random(m) + 0.1
    s, a = unit * 10.0 ** rng.uniform(-2, 1.5), 0.3 * unit if seed % 3 else 0.0
    model = Hinge() + (s * LInf() + a * L1() if a else s * LInf())
    best = largest_weight(X * (1.0 / unit), y, c, s / unit, a / unit)
    for solver in (
        "auto",
        HiGHS(samples=10, rough=ProxALM(max_outer=1)),
    ):  # all samples at once, and as they are needed
        for X_k in (X, sparse.csr_matrix(X)):
            found = ucm.solve(model, X_k, y, sample_weight=c, solver=solver)
            assert found.stats.solver == "highs" and found.status == "optimal"
            assert found.objective == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize(("seed", "penalty"), [(25, 100.0 * LInf()), (48, 3.0 * LInf()), (89, 3.0 * L1())])
def test_programs_of_whole_numbers_whose_kinks_meet(seed: int, penalty: Any) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (60, 25)) * (rng.random(25) < 0.5) * 1.0
    y = np.where(rng.random(60) < 0.4, 1.0, -1.0)
    assert ucm.solve(Hinge() + penalty, X, y).status == "optimal"


def test_dca_goes_on_from_vertices_of_the_largest_weight() -> None:
    X, y = noisy(60, 6, seed=3)
    model = Ramp(1) + 0.5 * LInf()
    assert "dca around highs" in ucm.compile(model, X, y).explain()
    ours, theirs = (ucm.solve(model, X, y, solver=s) for s in ("auto", DCA(Conic())))
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-8)


# --- DCA ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", EIGHT)
@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
def test_the_objective_never_increases(name: str, lam: float) -> None:
    for seed in range(3):
        X, y = noisy(60, 6, seed)
        route = "prox-alm" if name == "svm" else "auto"  # the pSVM's own route is no DCA
        solution = ucm.solve(EIGHT[name](lam), X, y, solver=route)
        heights = [record["objective"] for record in solution.history]
        for before, after in itertools.pairwise(heights):
            assert after <= before + 1e-12 * abs(before)
        assert solution.objective <= heights[0] + 1e-12 * abs(heights[0])
        assert solution.stats.iterations <= (40 if name == "one_norm_svm" else 16)  # pivots, or steps
        assert solution.status in ("optimal", "local", "stationary")


def test_dca_starts_from_the_convex_model_with_l1() -> None:
    X, y = noisy(60, 6)
    start = ucm.solve(models.one_norm_svm(0.5), X, y)
    model = models.zero_norm_svm(0.5)
    first = ucm.solve(model, X, y).history[0]["objective"]
    assert first == pytest.approx(model.value(y * (X @ start.w + start.b), start.w), rel=1e-9)


def test_a_plain_loop_finds_the_same_objective() -> None:
    """DCA written by hand over CVXPY, as in Algorithm 4 of Ong and Le Thi (2013)."""
    import cvxpy as cp

    X, y = noisy(50, 4, seed=8)
    lam, a = 0.4, 0.5

    def height(w: Any, b: Any) -> Any:
        t = y * (X @ w + b)
        return np.clip(1 - t, 0, 2).sum() + lam * np.minimum(a, np.abs(w)).sum()

    w, b = cp.Variable(4), cp.Variable()
    t = cp.multiply(y, X @ w + b)
    convex = cp.sum(cp.pos(1 - t)) + lam * cp.norm1(w)
    cp.Problem(cp.Minimize(convex)).solve(solver=cp.CLARABEL)
    values = [height(w.value, b.value)]
    for _ in range(20):
        s = y * (X @ w.value + b.value) < -1
        v = lam * np.sign(w.value) * (np.abs(w.value) >= a)
        tail = cp.sum(cp.multiply(s, -t)) + v @ w
        cp.Problem(cp.Minimize(convex - tail)).solve(solver=cp.CLARABEL)
        values.append(height(w.value, b.value))
        if values[-1] >= values[-2] - 1e-7:
            break
    ours = ucm.solve(models.rlsvmc1(lam, 1.0, a), X, y)
    assert ours.objective <= values[-1] + 1e-6


@pytest.mark.parametrize(
    ("ramp", "convex"), [(models.rlsvm2, models.svm), (models.rlsvm1, models.one_norm_svm)]
)
def test_ramps_of_small_mu_start_from_a_standard_svm(ramp: Any, convex: Any) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3))
    y = np.where(X[:, 0] + rng.standard_normal(40) > 0.0, 1, -1)
    svm = ucm.solve(convex(0.7), X, y, tol=1e-9)
    margin = y * (X @ svm.w + svm.b)
    loss = np.maximum(0.0, 0.4 - margin) / 0.4 - np.maximum(0.0, -0.16 - margin) / 0.4
    norm = svm.w @ svm.w if ramp is models.rlsvm2 else np.abs(svm.w).sum()
    found = ucm.solve(ramp(0.7, mu=0.4), X, y, tol=1e-9)
    assert found.history[0]["objective"] == pytest.approx(loss.sum() + 0.7 * norm, rel=1e-6)
    assert ucm.solve(ramp(0.7, mu=0.4), X, y, n_starts=2).objective <= found.objective * (1 + 1e-9)


def test_a_ramp_of_small_mu_separates_as_far_as_its_breakpoint() -> None:
    """Of the standard SVM, from which it starts, no sample is near the breakpoint: all scores are 0."""
    X, y = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0])
    found = ucm.solve(models.rlsvm2(0.001, 0.5), X, y)
    grid = np.linspace(0.0, 1.0, 10_001)  # w = (u, 0), b = 0 by symmetry
    ramp = np.clip((0.5 - grid) / 0.5, 0.0, None) - np.clip((-0.25 - grid) / 0.5, 0.0, None)
    assert found.objective == pytest.approx((2.0 * ramp + 0.001 * grid**2).min(), rel=1e-9)
    rng = np.random.default_rng(0)
    for seed in range(40):
        X = rng.standard_normal((12, 2)) + 3.0
        X[::2] *= -1.0
        y = np.where(X[:, 0] + X[:, 1] > 0.0, 1.0, -1.0)
        found = ucm.solve(models.rlsvm2(0.001, 0.5), X, y)
        svm = ucm.solve(ucm.RobustMargin(ucm.Hull(ucm.pos) - ucm.Hull(ucm.neg)), X, y)
        assert found.objective <= 0.001 * (0.5 / (-0.5 * svm.objective)) ** 2 * (1.0 + 1e-6), seed


@pytest.mark.parametrize("model", [models.svm(0.5), Ramp() + 0.5 * L2()], ids=repr)
def test_columns_of_very_different_sizes_end(model: Objective) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16, 3)) * np.array([1e150, 1.0, 1e-150])
    y = np.where(rng.random(16) < 0.5, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ucm.solve(model, X, y)
    assert found.certificate.dual <= found.certificate.primal <= 16.0 * (1.0 + 1e-12)  # that of w = 0


def test_the_printed_stop_of_dca() -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((60, 4))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0.0, 1, -1)
    model = models.zero_norm_svm(1.0)
    certified = ucm.solve(model, X, y).stats.iterations
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        counts = [
            ucm.solve(model, X, y, solver=DCA(stop="paper", eps=eps)).stats.iterations for eps in (1e9, 1e-3)
        ]
    assert counts[0] == 1 <= counts[1] <= certified
    assert certified > 1
    with pytest.raises(ucm.ParameterError, match="leave it out for 'gap'"):
        DCA(stop="change")


@pytest.mark.slow
def test_twenty_starts_find_the_exact_optimum() -> None:
    found, count = 0, 25
    for X, y, lam, mu, a in instances(count):
        solution = ucm.solve(models.rlsvmc1(lam, mu, a), X, y, n_starts=20)
        found += solution.objective <= exact(X, y, lam, mu, a) * (1 + 1e-6) + 1e-9
    assert found >= 0.92 * count


def test_more_starts_are_never_worse() -> None:
    X, y = noisy(40, 5, seed=6, flipped=0.3)
    model = models.rlsvm0(0.5)
    one, many = ucm.solve(model, X, y), ucm.solve(model, X, y, n_starts=6)
    assert many.objective <= one.objective
    assert len(many.history) > len(one.history)


def test_a_critical_point_is_where_the_next_problem_gains_nothing() -> None:
    X, y = noisy(50, 5, seed=9)
    model = models.rlsvmc1(0.5)
    plan = ucm.compile(model, X, y)
    solution = plan.solve()
    again = plan.solve(warm_start=solution)
    assert again.objective == pytest.approx(solution.objective, rel=1e-12)
    assert again.stats.iterations <= 2
    # a random step from it is not critical, and the certificate says so
    normal = FeatureNormal(X, solution.w + 0.3)
    moved = certify_objective(model, plan.data, normal, known(solution.b), solution.answer.slopes)
    assert moved.relative_gap > 1e-3


def test_local_minima_are_named_so() -> None:
    X, y = noisy(60, 4, seed=1)
    solution = ucm.solve(models.rlsvmc1(1.0, 1.0, 0.5), X, y)
    if solution.status == "local":
        value = models.rlsvmc1(1.0, 1.0, 0.5).value
        generator = np.random.default_rng(0)
        for _ in range(200):
            w = solution.w + 1e-7 * generator.standard_normal(4)
            b = known(solution.b) + 1e-7 * generator.standard_normal()
            assert value(y * (X @ w + b), w) >= solution.objective - 1e-12


# --- a wrong lowering is no optimum ---------------------------------------------------------------
def shifted(form: Composite) -> Composite:
    """The hinge read at 0.9 in place of 1."""
    return replace(form, losses=(0.9 * ucm.Ramp(0.9).split()[0][0], *form.losses[1:]))


WRONG = {
    "class weight": lambda form: replace(form, weights=(np.where(form.y > 0, 1.0, 1.2),) * len(form.losses)),
    "penalty weight": lambda form: replace(
        form, penalties=tuple(1.1 * penalty for penalty in form.penalties)
    ),
    "dropped loss": lambda form: replace(form, losses=form.losses[:1], weights=form.weights[:1]),
    "shifted offset": shifted,
    "scaled samples": lambda form: replace(form, X=1.05 * form.X),
    "a label": lambda form: replace(form, y=np.where(np.arange(form.m) == 5, -form.y, form.y)),
}


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 0.4)])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_weak_duality_at_any_point(objective: Objective, weights: Any) -> None:
    """Whatever the point and the dual point, the optimum of the majorant lies between both ends."""
    X, y = noisy(25, 3, seed=5)
    data, generator = bind(X, y, weights), np.random.default_rng(0)
    for size in (0.1, 1.0):
        w, b = size * generator.standard_normal(3), float(generator.standard_normal())
        b = b if objective.intercept else 0.0
        best = majorant(objective, data, w, b).solve(solver="CLARABEL")
        height = height_of(objective, X, y, w, b, data.factors)
        for slopes in (None, generator.uniform(0.0, 2.0, 25), np.zeros(25)):
            found = certify_objective(objective, data, FeatureNormal(X, w), b, slopes)
            assert found.primal == pytest.approx(height, rel=1e-14)
            assert found.violation == 0.0
            assert found.dual <= best + 1e-6 * abs(best) <= found.primal + 2e-6 * abs(best)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "objective",
    [
        ucm.Hinge() + ucm.SquaredHinge() + 0.7 * ucm.L1(),
        ucm.Hinge() + 0.5 * ucm.Logistic() + 0.5 * ucm.L2(),
        ucm.Hinge() + 0.3 * ucm.Ramp() + 0.5 * ucm.CappedL1(1.0),
    ],
    ids=repr,
)
def test_a_wrong_lowering_is_never_optimal(
    objective: Objective, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form that the solver sees, and everything the plan does with it, is of another problem."""
    X, y = noisy(40, 3, seed=4)
    assert ucm.solve(objective, X, y).status in ("optimal", "local", "stationary")
    right = DifferenceOfConvex.of

    def spoiled(model: Any, data: Any) -> Any:
        form = right(model, data)
        return replace(form, G=WRONG[wrong](form.G))

    monkeypatch.setattr(DifferenceOfConvex, "of", spoiled)
    with pytest.warns(ucm.ConvergenceWarning, match="relative gap"):
        found = ucm.solve(objective, X, y)
    assert found.status not in ("optimal", "local", "stationary")
    assert found.certificate.relative_gap > 1e-5
    if objective.convex:
        monkeypatch.undo()
        best = ucm.solve(objective, X, y, tol=1e-8).objective
        assert found.certificate.dual <= best * (1.0 + 1e-8)
        assert found.objective >= best * (1.0 - 1e-8)


# --- bad input and odd data ---------------------------------------------------------------------
def test_terms_alone_are_refused() -> None:
    X, y = noisy(20, 3)
    for model, words in (
        (ucm.Ramp(), "loss without a penalty"),
        (ucm.Hinge(), "loss without a penalty"),
        (ucm.L1(), "penalty without a loss"),
    ):
        with pytest.raises(ucm.CompositionError, match=words):
            untyped.compile(model, X, y)


def test_options_that_do_not_apply() -> None:
    X, y = noisy(20, 3)
    with pytest.raises(ucm.SolverError, match="gradient"):
        ucm.compile(models.svm(1.0), X, y, solver="prox-newton")
    with pytest.raises(ucm.ParameterError, match='"dca"'):
        ucm.compile(models.svm(1.0), X, y, solver="pivots")
    with pytest.raises(ucm.SolverError, match="minimum norm"):
        ucm.compile(models.svm(1.0), X, y, solver=ucm.solvers.SSNAL())
    with pytest.raises(ucm.ParameterError, match="b is a variable"):
        ucm.compile(models.one_norm_svm(1.0), X, y).solve(bias_rule="multipliers")
    with pytest.raises(ucm.ParameterError, match="class_weight"):
        ucm.compile(models.one_norm_svm(1.0), X, y, class_weight=(1.0, 0.0))
    other = ucm.solve(models.one_norm_svm(1.0), X[:, :2], y)
    with pytest.raises(ucm.ParameterError, match="another shape"):
        ucm.compile(models.one_norm_svm(1.0), X, y).solve(warm_start=other)
    for bad in (lambda: untyped.solvers.DCA(inner=ucm.solvers.SSNAL()), lambda: DCA(max_outer=0)):
        with pytest.raises(ucm.ParameterError):
            bad()


def test_a_limit_inside_is_a_status_and_the_last_good_iterate_comes_back() -> None:
    X, y = noisy(60, 6)
    with pytest.warns(ucm.ConvergenceWarning, match="raise max_iter"):
        short = ucm.solve(models.rlsvm0(1.0), X, y, max_iter=1)
    assert short.status == "max_iter"
    assert short.objective <= short.history[0]["objective"]
    limited = DCA(inner=ProxALM(max_outer=1))
    with pytest.warns(ucm.ConvergenceWarning, match="multiplier steps"):
        solution = ucm.solve(models.rlsvm2(1.0), X, y, solver=limited)
    assert solution.status == "max_iter"
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.certificate.gap)


class Failing(Solver[Composite]):
    """HiGHS, but from the k-th problem on it ends with a status."""

    name = "failing"

    def __init__(self, k: int, status: str) -> None:
        self.k, self.status = k, status

    def refuse(self, form: Composite) -> str | None:
        return None

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        return self.session(form).solve(form, monitor, start)

    def session(self, form: Composite) -> Solver[Composite]:
        inner, outer, count = HiGHS().session(form), self, itertools.count()

        class Part(Session[Composite]):
            def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
                point = inner.solve(form, monitor, start)
                if next(count) < outer.k:
                    return point
                return Answer(
                    w=np.full(form.n, 7.0),
                    b=7.0,
                    status=outer.status,  # type: ignore[arg-type]
                    message="it ended early",
                )

        return Part(self)


@pytest.mark.parametrize("status", ["infeasible", "unbounded", "max_iter"])
def test_the_last_good_iterate_comes_back_when_a_program_fails(status: str) -> None:
    X, y = noisy(60, 6)
    model = models.rlsvm0(1.0)
    heights = [r["objective"] for r in ucm.solve(model, X, y).history]
    assert len(heights) >= 3
    for k in (1, 2):
        with pytest.warns(ucm.ConvergenceWarning, match="ended early"):
            solution = ucm.solve(model, X, y, solver=DCA(inner=Failing(k, status)))
        assert solution.status == status
        assert solution.objective == pytest.approx(heights[k - 1], rel=1e-9)
        assert not np.any(solution.w == 7.0)
    with pytest.warns(ucm.ConvergenceWarning, match="to start from: it ended early"):
        assert ucm.solve(model, X, y, solver=DCA(inner=Failing(0, status))).status == status


@pytest.mark.parametrize(
    "solver",
    [
        HiGHS(),
        HiGHS(samples=5, rough=ProxALM(max_outer=2)),
        Conic(),
    ],
    ids=repr,
)
def test_an_unbounded_program_is_named(solver: Any) -> None:
    X, y = noisy(30, 3)
    form = Composite(X, y, (ucm.Hinge(),), (0.5 * ucm.L1(),))
    tilt = LinearTerm(np.zeros(30), np.full(3, 200.0))  # no subgradient of any H: it outweighs the loss
    point = solver.solve(form.tilted(tilt), Monitor(1e-8))
    assert point.status == "unbounded"
    assert "scale the features" in point.message


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (models.nu_svm(0.3), "clarabel"),
        (models.nu_svm(0.3), "scs"),
        (Hinge() + 0.5 * LInf(), "clarabel"),
        (models.one_norm_svm(0.5), "highs"),
        (models.enu_svm(0.6, 1.0), "highs"),
        (Logistic() + 0.5 * L1(), "prox-newton"),
        (Logistic() + 0.5 * L1(), ProxNewton(max_iter=1)),
        (models.nu_svm(0.3), Conic("clarabel", max_iter=1)),
    ],
    ids=repr,
)
def test_a_limit_of_one_iteration_is_one_iteration(model: Any, solver: Any) -> None:
    X, y = ucm.datasets.load("wine")
    plan = ucm.compile(model, (X - X.mean(axis=0)) / X.std(axis=0), y, solver=solver)
    with pytest.warns(ConvergenceWarning):
        found = plan.solve(max_iter=1 if isinstance(solver, str) else None)
    assert found.status == "max_iter" and found.stats.iterations == 1
    assert "raise max_iter" in found.message
    best = ucm.solve(model, plan.data.X, y)
    slack = 1e-6 * abs(best.objective)
    if found.certificate.violation <= 1e-9:
        assert found.certificate.dual <= best.objective + slack
        assert found.certificate.primal >= best.objective - slack


@pytest.mark.parametrize("scale", [1e-150, 1e-10, 1e-5, 1e10])
def test_linear_programs_do_not_see_the_scale_of_the_features(scale: float) -> None:
    X, y = noisy(200, 5)
    found = ucm.solve(Hinge() + 0.5 * scale * L1(), X * scale, y, solver="highs")
    other = ucm.solve(Hinge() + 0.5 * L1(), X, y, solver="clarabel", tol=1e-8)
    assert found.status == "optimal" and found.objective == pytest.approx(other.objective, rel=1e-7)
    assert known(found.w) * scale == pytest.approx(known(other.w), abs=1e-4)


@pytest.mark.parametrize(
    "scaled",
    [
        lambda X: X * np.array([1e150, 1.0, 1e-150]),
        lambda X: X * 1e37,
        lambda X: X + 1e15,
        lambda X: X + 1e16,
        lambda X: np.where(X > 0.0, np.iinfo(np.int64).max, np.iinfo(np.int64).min),
    ],
    ids=["columns", "1e37", "1e15", "1e16", "int64"],
)
@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_linear_programs_over_raw_scales_end_with_an_interval(scaled: Any, solver: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.where(np.arange(40) % 2, 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ucm.solve(Hinge() + 0.5 * LInf(), scaled(X), y, solver=solver)
    assert found.certificate.dual <= found.certificate.primal <= 40.0 * (1.0 + 1e-12)
    assert found.status in ("optimal", "stalled", "converged")


def test_limits_of_the_programs() -> None:
    _, y = noisy(60, 6)
    for bad in (
        lambda: HiGHS(features=0),
        lambda: HiGHS(samples=0),
        lambda: untyped.solvers.HiGHS(rough="ssnal"),
    ):
        with pytest.raises(ucm.ParameterError):
            bad()
    with pytest.raises(ucm.SolverError, match="at most 1000 features"):
        ucm.solve(Hinge() + LInf(), np.ones((60, 1001)), y, solver="highs")
    thin = sparse.random_array((60, 50), density=0.05, rng=np.random.default_rng(0))
    solver: Any = ucm.compile(models.rlsvm1(0.1), thin, y).solver
    assert solver.inner.name == "highs"


@pytest.mark.parametrize(
    "objective",
    [
        ucm.Logistic() + 0.5 * ucm.CappedL1(1),
        ucm.Logistic() + ucm.MCP(),
        ucm.Exponential() + ucm.SCAD(),
        ucm.Exponential() + ucm.ExpL0(4),
    ],
    ids=repr,
)
def test_minima_that_are_not_attained_are_named(objective: Objective) -> None:
    X, y = noisy(30, 3, flipped=0.0)
    separated = X + 0.5 * y[:, None]
    with pytest.warns(ucm.ConvergenceWarning, match="add a multiple of L1"):
        solution = ucm.solve(objective, separated, y)
    assert solution.status == "unattained"
    heights = [
        objective.value(s * y * (separated @ solution.w + solution.b), s * solution.w)
        for s in (1.0, 1.5, 2.0)
    ]
    assert heights[2] <= heights[1] <= heights[0]
    held = ucm.solve(objective + 0.01 * ucm.L1(), separated, y)
    assert held.status in ("local", "stationary")
    X, y = noisy(40, 3, flipped=0.3)
    assert ucm.solve(objective, X, y).status in ("local", "stationary")


@pytest.mark.parametrize(
    ("objective", "seed", "scale"),
    [
        (ucm.Logistic() + ucm.CappedL1(0.5), 3, 6.306263089267136e-12),
        (ucm.Logistic() + ucm.MCP(), 11, 8.912421336885454e-12),
        (ucm.Exponential() + ucm.SCAD(), 21, 1.7136083151039577e-09),
        (ucm.Logistic() + ucm.ExpL0(4), 11, 8.912421336885454e-12),
    ],
    ids=repr,
)
def test_rounding_of_a_folded_penalty_is_no_contradiction(
    objective: Objective, seed: int, scale: float
) -> None:
    """Far beyond its knee it is the difference of two penalties of 1e13; DCA may end at w = 0 as well."""
    X, y = ordinary(seed)
    with warnings.catch_warnings(action="ignore"):
        solution = ucm.solve(objective, scale * X, y)
    margin = y * (scale * X @ solution.w + solution.b)
    value = objective.value(margin, solution.w)
    assert solution.certificate.dual <= value <= solution.certificate.primal
    assert value <= objective.value(np.zeros(y.size), np.zeros(X.shape[1]))


@pytest.mark.parametrize("scale", [1e-160, 1e-155])
def test_a_ramp_on_samples_whose_squares_underflow_ends_with_an_answer(scale: float) -> None:
    """The squared lengths are 0 or have few digits, and the active-set method ends with NaN."""
    X, y = noisy(20, 3)
    with warnings.catch_warnings(action="ignore"):
        solution = ucm.solve(ucm.Ramp() + 0.1 * ucm.L2(), scale * X, y)
    assert solution.objective == pytest.approx(2.0 * min((y > 0).sum(), (y < 0).sum()))  # that of w = 0


@pytest.mark.parametrize("penalty", [ucm.Norm(3.0), ucm.Lp(3)], ids=repr)
def test_the_minimum_of_one_class_is_not_attained(penalty: Any) -> None:
    """The bias alone makes the loss as small as one likes: an objective that is convex, and not critical."""
    X, y = noisy(30, 3, flipped=0.0)
    with pytest.warns(ucm.ConvergenceWarning, match="count both classes"):
        solution = ucm.solve(ucm.Exponential(on=ucm.neg) + penalty, 1e-3 * X, y)
    assert solution.status == "unattained" and solution.objective < 1e-30


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), ucm.SquaredHinge()], ids=repr)
def test_bounds_of_an_objective_times_a_small_number_are_those_times_it(loss: Any) -> None:
    """Squares of its slopes underflow, those in units of the penalty do not."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    X = rng.standard_normal((12, 2)) + y[:, None]
    best, small = ucm.solve(loss + L2(), X, y), ucm.solve(1e-200 * loss + 1e-200 * L2(), X, y)
    assert small.status == "optimal"
    assert small.certificate.dual <= 1e-200 * best.objective * (1.0 + 1e-9)
    assert small.objective == pytest.approx(1e-200 * best.objective, rel=2e-6, abs=0.0)
    small_form = ucm.Quadratic(1e-200 * np.diag([1.0, 2.0]))
    assert small_form.conjugate(np.full(2, 1e-200)) == pytest.approx(0.375e-200, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("penalty", [1e-300 * L2(), 1e-290 * L2(), 1e-300 * L1()], ids=repr)
def test_an_objective_below_the_normal_numbers_is_not_proven(penalty: Any) -> None:
    """Its losses are 0 and its penalty has few digits: a multiple of the answer may be better."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(12) < 6, 1.0, -1.0)
    X = 1e6 * (rng.standard_normal((12, 2)) + 3.0 * y[:, None])
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        solution = ucm.solve(Hinge() + penalty, X, y)
    assert solution.status != "optimal" and not solution.certificate.relative_gap <= 1.0


@pytest.mark.parametrize("penalty", [ucm.KSupport(2), ucm.Lp(1.5), ucm.GroupLasso([0, 1])], ids=repr)
def test_a_penalty_that_underflows_at_a_short_normal_is_not_bounded(penalty: Any) -> None:
    """The objective grows along every ray of w: it has a minimum, though no method may come near to it."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(12) < 6, 1.0, -1.0)
    X = rng.standard_normal((12, 2)) + 3.0 * y[:, None]
    assert is_unattained(Logistic() + penalty, bind(X, y), np.full(2, 1e-300), 0.0) is None
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        assert ucm.solve(1e-250 * (Logistic() + penalty), X, y).status != "unattained"


@pytest.mark.parametrize("loss", [ucm.Logistic(), ucm.Robust(ucm.Logistic(), ucm.Ball(0, 0.1))], ids=repr)
def test_an_objective_that_underflows_is_an_infimum(loss: Any) -> None:
    """On separable samples the losses become 0.0 within a cone, and remain above 0 within bounds."""
    X = np.array([[3.0, 2.0], [2.0, 3.0], [-3.0, -2.5], [-2.0, -2.0]])
    y, even = np.array([1, 1, -1, -1]), ucm.LinearConstraint([[1.0, -1.0]], 0.0, 0.0)
    with pytest.warns(ucm.ConvergenceWarning, match="no minimum is attained"):
        assert ucm.solve(loss + even, X, y).status == "unattained"
    assert ucm.solve(loss + even + ucm.Bounds(-1.0, 1.0), X, y).status == "optimal"


@pytest.mark.parametrize("angle", [1e-5, 1e-10, 0.0])
@pytest.mark.parametrize(
    "model", [Hinge() + 0.1 * L2(), Hinge() + 0.1 * L1(), Logistic() + 0.1 * L2()], ids=repr
)
def test_equations_at_small_angles_are_as_orthonormal_ones(angle: float, model: Any) -> None:
    """With the squared norm, the problem of the samples in coordinates of the null space is the same."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(20) < 10, 1.0, -1.0)
    X, row = rng.standard_normal((20, 4)) + y[:, None], rng.standard_normal(4)
    A = np.array([row, row + angle * rng.standard_normal(4)])
    solution = ucm.solve(model + ucm.LinearConstraint(A, 0.0, 0.0), X, y)
    basis, kept = np.linalg.svd(A)[2], 2 if angle else 1
    even = ucm.LinearConstraint(basis[:kept], 0.0, 0.0)
    rotated = "L1" not in repr(model)
    other = ucm.solve(model, X @ basis[kept:].T, y) if rotated else ucm.solve(model + even, X, y)
    assert solution.status == "optimal" and solution.objective == pytest.approx(other.objective, rel=3e-6)
    assert np.abs(basis[:kept] @ solution.w).max() <= 1e-5
    if rotated:
        rest = X.T @ (y * solution.weights) - 0.2 * solution.w
        np.testing.assert_allclose(A.T @ solution.multipliers[0], rest, atol=1e-5 * np.abs(rest).max())


def test_equations_at_small_angles_that_contradict_are_refused() -> None:
    X, y = noisy(20, 2)
    for A, bounds in (
        ([[1.0, 2.0], [1.0, 2.0]], (1.0, 1.1)),
        ([[1.0, 0.0], [1.0, 0.0], [1.0, 1e-8]], (0, 1, 0)),
    ):
        with pytest.raises(CompositionError, match="rows that contradict each other: 0, 1 of"):
            ucm.solve(Hinge() + ucm.LinearConstraint(A, bounds, bounds), X, y)


def test_models_whose_penalty_has_a_sharp_kink_end_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where w is tiny, the proximal map of the norm is 0 up to the boundary of the dual ball."""
    calls: list[float] = []
    prox = ucm.Norm.prox

    def counted(self: Any, v: Any, t: float) -> Any:
        calls.append(t)
        return prox(self, v, t)

    monkeypatch.setattr(ucm.Norm, "prox", counted)
    X = [[5, -9], [1, 22], [6, 7], [5, 11], [12, 7], [9, 21], [-3, -12]]
    X, y = 1.25e5 * np.array(X), np.array([1.0] * 6 + [-1.0])
    model = ucm.WorstMean(0.5 * Hinge(), weights=ucm.ChiSquareBall(rho=1)) + 0.1 * ucm.Norm(p=3)
    model = model.with_intercept("penalised", 10)
    c = [1.0, 0.0, 3.0, 1.0, 7.0, 2.0, 1.0]
    assert ucm.solve(model, X, y, sample_weight=c, tol=1e-2).status == "optimal"
    assert len(calls) < 6000  # of 19,086 with 40 trials in each of 40 steps that gain nothing


@pytest.mark.parametrize("model", [Ramp() + 0.1 * L2(), Logistic() + ucm.MCP()], ids=repr)
def test_samples_far_from_the_origin_do_not_contradict_a_local_certificate(model: Any) -> None:
    """The margins lose as many digits as the samples are far away, by both sides of the certificate."""
    rng = np.random.default_rng(13)
    X, y = rng.standard_normal((16, 3)), np.where(np.arange(16) % 2, 1.0, -1.0)
    for size in (1e11, 1e13, 1e15):
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            assert ucm.solve(model, X + size, y).certificate.kind in ("local", "none")


@pytest.mark.parametrize("beyond", [1e-3, 1e-5, 1e-7, 1e-11])
@pytest.mark.parametrize("sizes", [1.0, np.logspace(-6, 8, 4)[:, None]], ids=["even", "of all sizes"])
def test_equations_that_contradict_by_little_are_refused_and_by_rounding_are_not(
    beyond: float, sizes: Any
) -> None:
    """A combination of two of three equations stands beside them, with a bound that is off by little."""
    X, y = noisy(20, 5)
    rng = np.random.default_rng(5)
    for _ in range(5):
        A, w = rng.standard_normal((3, 5)), rng.standard_normal(5)
        A = np.vstack([A, A[0] - 2.0 * A[1]])
        b = A @ w
        b[3] += beyond * (np.abs(b[0]) + 2.0 * np.abs(b[1]))
        constraint = ucm.LinearConstraint(sizes * A, *2 * [np.ravel(sizes) * b])
        if beyond > 1e-9:
            with pytest.raises(CompositionError, match="rows that contradict each other: 0, 1, 3 of"):
                ucm.solve(Hinge() + constraint + L2(), X, y)
        else:
            assert ucm.solve(Hinge() + constraint + L2(), X, y).status == "optimal"


def test_losses_that_overflow_within_a_constraint_leave_no_multipliers() -> None:
    """Where the constraint holds a margin is -1e6, so that no slope of the exponential loss is finite."""
    X, y = noisy(10, 3)
    rows = ucm.LinearConstraint((ucm.pos.mean - ucm.neg.mean, ucm.signed.mean), lb=875, ub=875)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        solution = ucm.solve(Exponential() + 9 * L1() + rows, 1e-3 * X, y)
    assert solution.status == "stalled" and solution.multipliers == ()


@pytest.mark.parametrize("rows", [(ucm.pos.mean - ucm.neg.mean, ucm.signed.mean), [[1.0, -1.0], [1.0, 0.5]]])
def test_a_worst_mean_of_one_class_within_a_constraint_falls_for_ever(rows: Any) -> None:
    """The bias alone makes it as small as one likes, until its curvature underflows."""
    X, y = noisy(12, 2)
    model = ucm.WorstMean(100 * Exponential(on=ucm.pos), weights=ucm.KLBall(0.625))
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        solution = ucm.solve(model + ucm.LinearConstraint(rows, ub=(1, 0.875)), 1e-5 * X, y)
    assert solution.status == "unattained" and solution.objective < 1e-30


@pytest.mark.parametrize(
    ("reach", "w", "weights", "endless"),
    [
        (1.0, 0.5, (1.0, 1.0), True),
        (1.0, 0.5, (0.01, 0.01), False),
        (20.0, 0.1, (1.0, 1.0), False),
        (20.0, 0.1, (1.0, 100.0), True),
    ],
)
def test_class_weights_count_where_an_objective_falls_for_ever(
    reach: Any, w: Any, weights: Any, endless: bool
) -> None:
    """The capped penalty tends to 1: it falls for ever from a point that lies above 1."""
    X, y = reach * np.array([[-1.0], [-1.0], [1.0], [1.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    objective, place = ucm.Logistic() + ucm.CappedL1(1.0), np.array([w])
    data = bind(X, y, weights)
    assert (objective.value(y * (X @ place), place, y, data.factors) > 1.0) is endless
    assert (is_unattained(objective, data, place, 0.0) is not None) is endless


def test_a_callback_stops_the_solve() -> None:
    X, y = noisy(60, 6)
    plan = ucm.compile(models.rlsvm0(1.0), X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = plan.solve(callback=lambda record: record["iteration"] >= 2)
    assert len(solution.history) == 2


@pytest.mark.parametrize("name", EIGHT)
def test_separable_data_are_separated(name: str) -> None:
    X, y = noisy(30, 3, flipped=0.0)
    X = X + 0.5 * y[:, None]
    solution = ucm.solve(EIGHT[name](1e-3), X, y)
    assert (np.sign(X @ solution.w + solution.b) == y).all()


@pytest.mark.parametrize("name", EIGHT)
def test_constant_features_get_no_weight(name: str) -> None:
    X, y = noisy(40, 3)
    X = np.column_stack([X, np.full(40, 5.0), np.zeros(40)])
    solution = ucm.solve(EIGHT[name](0.5), X, y)
    assert np.abs(solution.w[3:]).max() <= 1e-6
    assert solution.status in ("optimal", "local", "stationary")


@pytest.mark.parametrize("name", EIGHT)
def test_all_labels_flipped_turns_the_classifier_around(name: str) -> None:
    X, y = noisy(40, 4, seed=12)
    model = EIGHT[name](0.5)
    there, back = ucm.solve(model, X, y), ucm.solve(model, X, -y)
    assert back.objective == pytest.approx(there.objective, rel=1e-7)


def test_a_large_weight_leaves_the_majority() -> None:
    X, y = noisy(30, 3)
    solution = ucm.solve(models.one_norm_svm(1e4), X, y)
    assert not solution.w.any()
    assert solution.objective == pytest.approx(2 * min((y > 0).sum(), (y < 0).sum()))
    fitted = ucm.Classifier(models.one_norm_svm(1e4)).fit(X, y)
    assert set(fitted.predict(X)) == {1.0 if (y > 0).sum() > (y < 0).sum() else -1.0}


# --- losses and sets ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "loss",
    [
        ucm.Hinge(),
        3 * ucm.Hinge(),
        ucm.SquaredHinge(),
        ucm.Hinge(1.5),
        2 * ucm.Hinge(3),
        ucm.Exponential(),
        0.5 * ucm.Exponential(),
        ucm.Logistic(),
    ],
    ids=repr,
)
def test_a_loss_and_its_fitted_set_give_the_same_classifier(loss: Any) -> None:
    X, y = noisy(40, 3, seed=13)
    fitted = ucm.solve(loss + 0.7 * ucm.L2(), X, y, tol=1e-9)
    U = loss.to_set(fitted)
    robust = ucm.solve(U, X, y, tol=1e-8)
    assert_allclose(robust.w, fitted.w / np.linalg.norm(fitted.w), atol=2e-4)
    back = U.to_loss()
    while hasattr(back, "term"):
        back = back.term
    assert repr(back) in repr(loss)


def test_sets_and_losses_without_a_fit() -> None:
    assert ucm.Hinge().to_set(0.1) == ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(0.1))
    kappa = ucm.Param("kappa", 0.3)
    assert ucm.SquaredHinge().to_set(kappa) == ucm.Hull(ucm.signed, weights=ucm.NormBall(kappa))
    ball = ucm.Hull(ucm.signed, weights=ucm.KLBall(0.5))
    assert ucm.Exponential().to_set(0.5) == ball
    assert ucm.models.nu_svm(0.3).to_loss() == ucm.Hinge()
    assert ucm.models.kl_svm(0.3).to_loss() == ucm.Exponential()
    fraction = ucm.Param("r", 0.5, relative=True)
    assert ucm.models.kl_svm(fraction).to_loss() == ucm.Exponential()
    assert ucm.models.l2_nu_svm(fraction).to_loss() == ucm.Hinge(2)
    assert (3.0 * ucm.models.nu_svm(fraction)).to_loss() == ucm.Hinge()
    assert (2.0 * ucm.Hull(ucm.signed, weights=ucm.CappedSimplex(0.1))).to_loss() == ucm.Hinge()
    A, B = (ucm.ReducedHull(samples, nu=0.3) for samples in (ucm.pos, ucm.neg))
    of_pos, of_neg = (ucm.CVaR(samples, 0.3) for samples in (ucm.pos, ucm.neg))
    for U in (
        ucm.models.mm_fda(0.1), A + B, B - A, A & B, A | B, A - B + ucm.Ball(0, 0.1), A - 3.0 * B,
        A - ucm.ReducedHull(ucm.neg, nu=0.4), of_pos - of_neg, np.eye(3) @ (A - B), -ball, ball + ball, A,
    ):  # fmt: skip
        with pytest.raises(ucm.CompositionError, match="no loss is known"):
            U.to_loss()
    with pytest.raises(ucm.CompositionError, match="Solution"):
        ucm.Hinge().to_set("large")


# --- the classifier -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", EIGHT)
def test_a_classifier_reports_its_support(name: str) -> None:
    X, y = noisy(80, 5, seed=3)
    fitted = ucm.Classifier(EIGHT[name](0.5)).fit(X, np.where(y > 0, "yes", "no"))
    assert fitted.score(X, np.where(y > 0, "yes", "no")) > 0.75
    margin = y * fitted.decision_function(X)
    ramp = name.startswith("rl")
    near = (margin < 1.01) & (margin > -1.01) if ramp else margin < 1.01
    assert fitted.get_params()["model__lam"] == 0.5
    assert set(fitted.support_) <= set(np.flatnonzero(near))


def test_admissible_is_the_declared_range() -> None:
    X, y = noisy(20, 3)
    ranges = ucm.admissible(models.rlsvmc1(0.5), X, y)
    assert (ranges["mu"].lower, ranges["mu"].upper, ranges["lam"].upper) == (0.0, 1.0, np.inf)
    assert 1.0 in ranges["mu"]


# --- w = 0 ----------------------------------------------------------------------------------------
def test_two_samples_in_one_place_are_one_sample_lost() -> None:
    sol = ucm.solve(ucm.Ramp(0.5) + ucm.L2(), np.ones((2, 1)), np.array([1, -1]))
    assert_allclose(sol.objective, 1.5)


@pytest.mark.parametrize("loss", [ucm.Ramp(0.5), ucm.Ramp(1.0), ucm.Hinge(), ucm.Logistic()])
@pytest.mark.parametrize("penalty", [ucm.L2(), ucm.CappedL1(1.0), ucm.ExpL0(4.0), ucm.MCP()])
def test_no_answer_lies_above_a_constant_classifier(loss: Any, penalty: Any) -> None:
    """Heavy penalties, small features, classes of other sizes and weights: from a start of its own too."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        m, n = int(rng.integers(4, 25)), int(rng.integers(1, 5))
        X = 10.0 ** rng.uniform(-2.0, 1.0) * rng.standard_normal((m, n))
        y = np.where(np.arange(m) < max(1, m // (2 + seed)), 1.0, -1.0)
        model = loss + float(10.0 ** rng.uniform(0.0, 1.5)) * penalty
        if model.convex:
            continue
        biases = np.linspace(-6.0, 6.0, 1201)
        weight = (3.0, 1.0)
        each = np.where(y > 0, *weight)
        least = min(model.value(y * b, np.zeros(n), y, each) for b in biases)
        plan = ucm.compile(model, X, y, class_weight=weight)
        first = plan.solve()
        assert first.objective <= least * (1.0 + 1e-9)
        far = replace(first, w=np.full(n, 10.0), b=-3.0)
        assert plan.solve(warm_start=far).objective <= least * (1.0 + 1e-9)


def test_the_best_constant_against_a_grid() -> None:
    rng = np.random.default_rng(0)
    for loss in (
        ucm.Ramp(0.3),
        ucm.Hinge(2),
        ucm.Logistic(),
        ucm.Exponential(),
        ucm.SquaredHinge(),
    ):
        for minority in (1, 5, 40):
            y = np.where(np.arange(80) < minority, 1.0, -1.0)
            X = rng.standard_normal((80, 2))
            form = DifferenceOfConvex.of(loss + ucm.MCP(), bind(X, y, (2.0, 0.5)))
            w, b = form.constant().plane
            assert not w.any()
            found = form.value(form.G.margins(w, b), w)
            grid = min(form.value(y * t, w) for t in np.linspace(-12.0, 12.0, 4801))
            assert found <= grid * (1.0 + 1e-9)


# --- what the fuzz tests of tests/fuzz met --------------------------------------------------------------
@pytest.mark.parametrize(
    "model",
    [
        0.01 * Hinge(2) + (Lp(3) + 3 * Lp(3)),
        Hinge(2) + (0.001 * Lp(1.5) + Lp(1.5)),
        Hinge(2) + (LInf() + 0.1 * Lp(1.5)),
        Hinge() + (LInf() + L1() + 0.5 * Lp(3)),
        Hinge(1.5) + (1e-4 * LInf() + 3 * Lp(1.01)),
        Logistic() + (0.5 * Lp(1.01) + 0.5 * Lp(1.01)),
        0.5 * Logistic() + 0.001 * Lp(1.01),
        (100 * (3 * Hinge(1.5)) + 3 * Exponential()) + 0.1 * L1(),
        (Hinge(2) + 100 * Hinge(1.01)) + 0.5 * LInf(),
        (Hinge() + Logistic()) + L1(),
        (3 * Exponential() + Hinge()) + Lp(1.5),
    ],
    ids=repr,
)
def test_sums_of_losses_and_of_penalties_are_proven(model: Objective) -> None:
    """The dual point is shared out among the losses, and its image among the penalties."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(12) % 2 > 0, 1.0, -1.0)
    solution = ucm.solve(model, rng.standard_normal((12, 3)) + 0.3 * y[:, None], y)
    assert solution.status == "optimal" and solution.certificate.kind == "global"


def test_convex_solvers_end_no_higher_than_the_constant_classifier() -> None:
    X = 1e6 * np.array([
        [2.375, 2.25, 0.125], [2.125, -0.75, -0.125], [-0.875, 1.875, 1.125], [-1.125, -0.875, 0.875],
        [0.25, -0.125, 1.875], [1.75, -1.0, 1.625], [-0.625, -0.5, -0.875], [1.375, 2.375, 0.75],
        [0.75, -1.5, -1.5], [-1.125, -0.875, -2.25],
    ])  # fmt: skip
    y = np.array([1, 1, 1, 1, 1, 1, 1, 1, -1, -1])
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        solution = ucm.solve(Hinge() + 0.1 * L2(), X, y)
    assert solution.objective <= 4.0


def test_a_critical_point_is_not_called_optimal() -> None:
    """Also where DCA ended because the problem to start from did."""
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([-1, -1, 1, 1])
    plan = ucm.compile(Ramp(0.01) + 0.001 * L1(), X, y)
    at = Answer(w=np.zeros(1), b=0.01, status="max_iter")
    proof = plan.lowering.certify(at, 1e-6)
    verdict = known(plan.lowering.verdict(proof, "dca", Monitor(1e-6)))
    assert proof.certificate.relative_gap <= 1e-6 and verdict.status in ("local", "stationary")


@pytest.mark.parametrize(
    "model",
    [
        ucm.Hinge() + 0.001 * ucm.ElasticNet(0.4),  # an optimum of 1e-7
        100 * ucm.Exponential() + 0.1 * ucm.Lp(1.01) + 0.001 * ucm.LInf(),
        ucm.Hinge(1.5) + 0.001 * ucm.Lp(1.01) + 100 * ucm.Lp(3),
        100 * ucm.SquaredHinge() + 3 * ucm.LInf(),  # on which proximal steps end early
        100 * ucm.Logistic() + 0.001 * ucm.Lp(1.01),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_optima_far_below_one_are_proven(model: ucm.Objective, scale: float) -> None:
    X = np.array([[1.0, 0.5], [2.0, -1.0], [0.5, 1.5], [-1.0, 0.25], [-2.0, -0.5]])
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    sol = ucm.solve(model, scale * X, y)
    assert sol.status == "optimal", sol.message


@pytest.mark.parametrize(("p", "seed"), [(1.01, 18), (1.05, 3), (1.05, 26)])
def test_a_program_that_fails_in_one_unit_is_solved_in_another(p: float, seed: int) -> None:
    """On these Clarabel ends with an error at each of its tolerances."""
    X, y = ordinary(seed)
    model = Hinge() + (10 if p == 1.01 else 100) * Lp(p)
    sol = ucm.solve(model, X, y, solver="clarabel")
    assert sol.status == "optimal", sol.message
    assert_allclose(sol.objective, ucm.solve(model, X, y, solver="prox-alm").objective, rtol=2e-6)


@pytest.mark.parametrize("loss", [ucm.SquaredHinge(), ucm.HuberHinge(0.5), ucm.LeastSquares()], ids=repr)
def test_features_of_different_scales_under_a_penalty_that_joins_them(loss: Any) -> None:
    """Proximal steps end without proof, and an interior-point method goes on with features of size one."""
    X, y = ucm.datasets.load("breast_cancer")
    X = X[::3] * 10.0 ** np.linspace(-4.0, 4.0, X.shape[1])
    sol = ucm.solve(loss + 1e-4 * ucm.LInf(), X, y[::3])
    assert sol.status == "optimal", sol.message


def test_the_conjugate_of_the_logistic_loss_near_its_ends() -> None:
    s = np.array([1e-14, 1e-9, 1e-4])
    series = s * np.log(s) - s + s * s / 2.0 + s**3 / 6.0
    np.testing.assert_allclose(ucm.Logistic().conjugate(s), series, rtol=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "squared hinge"])
@pytest.mark.parametrize(("walls", "ridge"), [(1.0, 0.0), (1.0, 0.3), (0.0, 0.3)])
@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array])
def test_compiled_steps_against_the_twin(loss: str, walls: float, ridge: float, table: Any) -> None:
    """With weights, walls that differ, and tilts of the margins and of w: from the definition in CVXPY, and
    once more from the end, with the matrix that is kept."""
    import cvxpy as cp

    from ucm.solvers.objective.dense_newton import DenseNewton

    rng = np.random.default_rng(3)
    m, n = 40, 5
    X, y = rng.standard_normal((m, n)), np.where(np.arange(m) % 3 > 0, 1.0, -1.0)
    X[rng.random((m, n)) < 0.4] = 0.0
    c, tilt = (
        rng.uniform(0.5, 2.0, m),
        LinearTerm(-rng.uniform(0.0, 0.2, m), rng.uniform(-0.1, 0.1, n)),
    )
    upper = walls * rng.uniform(0.5, 3.0, n)
    declared = Logistic() if loss == "logistic" else Hinge(2)
    penalties: tuple[Any, ...] = (L1(weights=upper),) if walls else ()
    penalties += (ridge * L2(),) if ridge else ()
    form = Composite(table(X), y, (declared,), penalties, (c,), tilt=tilt)
    steps = DenseNewton.of(form)
    assert steps is not None
    monitor = Monitor(1e-9)
    found = steps.solve(form, monitor, (np.zeros(n), 0.0), 50)
    (w, b), slopes = found.plane, found.slopes
    assert slopes is not None
    wide, bias = cp.Variable(n), cp.Variable()
    margin = cp.multiply(y, X @ wide + bias)
    each = cp.logistic(-margin) if loss == "logistic" else cp.square(cp.pos(1.0 - margin))
    height = c @ each + upper @ cp.abs(wide) + ridge * cp.sum_squares(wide)
    problem = cp.Problem(cp.Minimize(height - tilt.margin @ margin - tilt.normal @ wide))
    problem.solve(solver="CLARABEL")
    assert form.value(form.margins(w, b), w) == pytest.approx(problem.value, rel=1e-7)
    bound, missed = form.lower_bound(slopes, form.margins(w, b), w)
    assert missed <= 1e-9 and bound == pytest.approx(problem.value, rel=1e-7)
    before = monitor.systems
    again = steps.solve(form, monitor, (w, b), 50)
    assert monitor.systems == before and again.w == pytest.approx(w, abs=1e-4)


def test_passes_of_compiled_steps_are_over_the_bound_data() -> None:
    """Margins in coordinates of the span of 30 samples cost 30 of 300 features."""
    from ucm.solvers.objective.dense_newton import DenseNewton

    X, y = noisy(30, 30)
    spent = []
    for stored in (X.size, 10 * X.size):
        form, monitor = Composite(X, y, (Logistic(),), (L2(),), stored=stored), Monitor(1e-8)
        steps = DenseNewton.of(form)
        assert steps is not None and steps.solve(form, monitor, (np.ones(30), 0.0), 50).slopes is not None
        spent.append((monitor.passes, monitor.hessian_passes))
    np.testing.assert_allclose(spent[1], np.array(spent[0]) / 10.0)


@pytest.mark.parametrize(("loss", "weight"), [(Hinge(2), 0.5), (Logistic(), 4.0)], ids=repr)
def test_compiled_steps_from_slopes_and_curvatures_of_1(loss: Any, weight: float) -> None:
    """These are the numbers of every sample at w = 0: only rows whose number is 0 are left out."""
    from ucm.solvers.objective.dense_newton import DenseNewton

    X, y = ucm.datasets.load("iris")
    y = y.astype(float)
    form = Composite(X, y, (loss,), (0.5 * L1(),), (np.full(y.size, weight),))
    steps = DenseNewton.of(form)
    assert steps is not None
    found = steps.solve(form, Monitor(1e-8), (np.zeros(X.shape[1]), 0.0), 50)
    expected = ucm.solve(weight * loss + 0.5 * L1(), X, y, solver="clarabel", tol=1e-8).objective
    w, b = found.plane
    assert found.status == "converged"
    assert form.value(form.margins(w, b), w) == pytest.approx(expected, rel=2e-8)


@pytest.mark.parametrize("penalty", [ucm.MCP(0.05, 3.0), ucm.SCAD(0.05, 3.7), ucm.ExpL0(20)])
def test_weights_moved_by_themselves_leave_poor_critical_points(penalty: Any) -> None:
    """From the convex start DCA keeps the features that the l1 norm drops. Beside the lowest end over all
    supports, as starts where the features outside are 0."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((80, 4))
    y = np.where(X @ [1.0, 0.5, 0.4, 0.0] + 0.7 * rng.standard_normal(80) > 0.0, 1.0, -1.0)
    model = Logistic() + (8.0 if isinstance(penalty, ucm.ExpL0) else 80.0 * 2.0) * penalty
    plan = ucm.compile(model, X, y)
    found, plain = plan.solve(), ucm.solve(model, X, y, solver=DCA(stop="paper", eps=1e-12))
    heights = [record["objective"] for record in found.history]
    assert found.status in ("local", "stationary") and found.certificate.relative_gap <= 1e-6
    assert np.diff(heights).max(initial=0.0) <= 1e-9 * heights[0]
    most = 1.0 + 1e-9 if isinstance(penalty, ucm.ExpL0) else 0.99
    assert found.objective <= most * plain.objective
    ends = []
    for support in itertools.product((0.0, 1.0), repeat=4):
        w = ucm.solve(Logistic() + 1e-3 * L2(), X * support, y).w * support
        start = replace(found, w=w, answer=Answer(w=w, b=0.0))
        ends.append(plan.solve(warm_start=start).objective)
    assert found.objective <= min(ends) * 1.03


@pytest.mark.parametrize(
    ("model", "counts", "scale"),
    [
        (Exponential(on=ucm.pos) + Lp(1.5), 1.0, 1.0),
        (Logistic(on=ucm.pos) + 3 * Lp(1.5), 1.0, 1e-10),
        (Hinge(2, on=ucm.neg.group("B")) + 0.001 * Lp(1.5), -1.0, 1000.0),
    ],
)
def test_losses_that_count_one_point(model: Objective, counts: float, scale: float) -> None:
    """Their Hessian is rounding where the bias is eliminated: the objective tends to 0 in b alone."""
    x = np.random.default_rng(0).standard_normal((9, 2)) * [scale, 1.0]
    y = np.where(np.arange(9) < 3, counts, -counts)
    x[:3] = x[0]
    groups = np.where(np.arange(9) % 3 == 0, "A", "B")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ucm.solve(model, x, y, subgroup=groups)
    assert 0.0 <= found.objective <= 1e-6 and found.certificate.dual <= 1e-9


@pytest.mark.parametrize("scaling", [1.0, 0.125])
def test_dca_ends_no_higher_than_w_0_with_a_penalised_intercept(scaling: float) -> None:
    """The intercept is one more weight there, and b = 0 was no match: DCA ended at 31.8 above 27.1."""
    X = np.array([1.0, 0.625, -0.375, -1.625, 0.75, 0.25, -1.375, 1.375, 1.0, 0.75])[:, None] * [1e-3, 0.0]
    X[:, 1] = 1e5 * np.array([23.75, 5.0, -8.75, 6.25, -8.75, -17.5, 12.5, -21.25, -17.5, -20.0])
    y = np.array([1] * 3 + [-1] * 7)
    model = (3 * ucm.Ramp(mu=0.01) + 3 * ucm.Hinge() + 0.001 * ucm.L2()).with_intercept("penalised", scaling)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ucm.ConvergenceWarning)
        sol = ucm.solve(model, X, y)

    def constant(b: float) -> float:
        t = y * b
        ramp = (np.maximum(0.01 - t, 0.0) - np.maximum(-0.0001 - t, 0.0)) / 0.01
        return 3.0 * float((ramp + np.maximum(1.0 - t, 0.0)).sum()) + 0.001 * (b / scaling) ** 2

    assert sol.objective <= min(constant(b) for b in np.linspace(-2.0, 2.0, 2001))


def test_a_hinge_far_from_its_constraint_begins_anew() -> None:
    X = np.array([
        [-0.55, 0.25], [0.85, 0.67], [-0.32, 0.31], [0.98, 0.05], [0.49, -0.04], [-0.83, 0.51], [-1.6, -1.18],
        [0.56, 0.51], [-1.8, 1.98], [0.72, 1.75], [-0.68, -1.2], [-0.54, -1.34], [-0.6, 1.25],
    ])  # fmt: skip
    y, g = np.array([1, -1, -1, -1, -1, 1, 1, -1, -1, -1, 1, 1, -1]), np.array([-0.95, -1.4])
    model = Hinge() + 1e-3 * L2() + ucm.LinearConstraint(g[None], lb=1400.0)
    found = ucm.solve(model, X, y, solver="prox-alm")
    w, b = cp.Variable(2), cp.Variable()
    height = cp.sum(cp.pos(1.0 - cp.multiply(y, X @ (1e3 * w) + b))) + 1e3 * cp.sum_squares(w)
    optimum = cp.Problem(cp.Minimize(height), [g @ w >= 1.4]).solve(solver="CLARABEL")
    assert found.status == "optimal" and found.objective == pytest.approx(optimum, rel=1e-5)


@pytest.mark.filterwarnings("ignore::ucm.ConvergenceWarning")
def test_newton_systems_of_quadratic_models_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # features of 1e9, 1e9 and 1e6 beside an intercept of 1: the models are too hard, and there are many
    from ucm.solvers.objective import proximal_step, quadratic_models

    systems = 0
    solve = quadratic_models.ridge_solve

    def counted(H: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal systems
        systems += 1
        return solve(H, g)

    monkeypatch.setattr(proximal_step, "_SYSTEMS", 30)
    monkeypatch.setattr(quadratic_models, "ridge_solve", counted)
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], [5, 2])
    X = (rng.uniform(0.0, 3.0, (7, 3)) * y[:, None] + rng.uniform(-1.0, 1.0, (7, 3))) * [1e9, 1e9, 1e6]
    model = (ucm.WorstMean(0.01 * ucm.HuberHinge(0.01)) + 0.5 * ucm.Norm(3)).with_intercept("penalised")
    solution = ucm.solve(model, X, y, solver="prox-alm")
    assert solution.status in ("stalled", "converged", "optimal")
    assert 30 < systems <= 30 + 2 * 120
    assert solution.certificate.kind == "global"
    assert 0.0 <= solution.certificate.dual <= solution.objective


def test_a_w_beside_the_only_feasible_point_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conic solver leaves a weight of 1e-19 where only w = 0 is feasible: its objective is infinite."""
    solve = Conic.solve

    def beside(self: Any, *given: Any) -> Answer:
        found = solve(self, *given)
        return replace(found, w=found.plane[0] + np.array([0.0, 4e-19]))

    monkeypatch.setattr(Conic, "solve", beside)
    monkeypatch.setattr("ucm.language.penalties.combined.CombinedPenalty.project_domain", lambda self, w: w)
    rng = np.random.default_rng(0)
    X, y = rng.integers(-16, 17, (9, 2)) / 8.0, np.where(np.arange(9) < 6, 1.0, -1.0)
    penalty = L2() + ucm.NonNegative() + ucm.LinearConstraint([[1.75, 1.125]], 0.0, 0.0)
    solution = ucm.solve(Hinge() + penalty, X, y, solver="clarabel")
    assert solution.status == "optimal" and not solution.w.any()
    assert solution.objective == pytest.approx(
        6.0, rel=1e-6
    )  # b = 1 leaves the three of class -1 with 2 each


SMALL = [ucm.L1(), ucm.Norm(), LInf(), ucm.Norm(3), ucm.L1() + LInf(), ucm.GroupLasso([0, 0, 1, 1])]


@pytest.mark.parametrize("lam", [0.1, 1e-6])
@pytest.mark.parametrize("penalty", SMALL, ids=repr)
def test_a_dual_point_is_pulled_into_a_small_domain_of_sparse_samples_too(penalty: Any, lam: float) -> None:
    rng = np.random.default_rng(0)
    X = 10.0 * rng.standard_normal((20, 4)) * (rng.random((20, 4)) < 0.6)
    y = np.where(rng.random(20) < 0.5, 1.0, -1.0)
    for loss in (ucm.Logistic(), Hinge()):
        plans = [ucm.compile(loss + lam * penalty, table, y) for table in (X, sparse.csr_matrix(X))]
        sol = plans[0].solve()
        near = known(sol.weights) * (1.0 + 1e-6 * rng.standard_normal(20))
        dense, csr = (plan.certify(w=sol.w, b=sol.b, weights=near) for plan in plans)
        assert max(dense.relative_gap, csr.relative_gap) <= 1e-5
