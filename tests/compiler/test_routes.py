"""The automatic choice beside the measured best, in passes, over shapes, densities and domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import ucm
from ucm.compiler.route import refusal, routes

# samples, features, density
SHAPES = [(60, 3, 1.0), (300, 20, 1.0), (40, 300, 1.0), (3000, 10, 1.0), (400, 100, 1.0),
          (300, 100, 0.1), (3000, 40, 0.2)]  # fmt: skip
LEVEL_3 = 2.0  # multiplications of forming in the time of one of a product (1.3 to 2.9, by shape)


def data(m: int, n: int, density: float) -> tuple[Any, np.ndarray]:
    """Features of scales from 1 to 0.03, as real ones have them, and two classes that overlap."""
    rng = np.random.default_rng(m + n)
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    shift = y[:, None] / np.sqrt(n * density)
    X = (rng.standard_normal((m, n)) + shift) * np.geomspace(1.0, 0.03, n)
    if density < 1.0:
        return sparse.csr_matrix(np.where(rng.random((m, n)) < density, X, 0.0)), y
    return X @ np.linalg.qr(rng.standard_normal((n, n)))[0], y


def models(y: np.ndarray) -> list[Any]:
    a, b = np.count_nonzero(y > 0), np.count_nonzero(y < 0)
    return [
        ucm.models.nu_svm(0.6),
        ucm.models.l2_nu_svm(0.6 * float(np.sqrt(1.0 / a + 1.0 / b))),
        ucm.models.kl_svm(1.8 * float(np.sqrt(a * b)) / y.size),
        ucm.models.biased_l2_nu_svm(1.2 / float(np.sqrt(a)), 1.2 / float(np.sqrt(b))),
        ucm.models.mm_fda(0.2),
        ucm.models.mm_mpm(0.2),
        ucm.models.coherent_mm_fda(0.2),
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_choice_is_near_the_best(shape: tuple[int, int, float]) -> None:
    """Every route that takes the form runs: the chosen one costs at most half more, or five passes."""
    X, y = data(*shape)
    for model in models(y):
        plan = ucm.compile(model, X, y)
        costs = {}
        for route in routes(plan.form):
            counted = route.solver.name in (
                "secular", "active-set", "ssnal", "ssnal", "ssnal-cg", "apg"
            )  # fmt: skip
            if counted and refusal(route.solver, plan.form) is None:
                found = ucm.compile(model, X, y, solver=route.solver).solve()
                assert found.status == "optimal", (model, route.solver)
                costs[route.solver] = found.stats.passes + found.stats.forming / LEVEL_3
        assert costs[plan.solver] <= 1.5 * min(costs.values()) + 5.0, (model, costs)


def objectives(n: int) -> list[Any]:
    groups = np.arange(n) // 3
    return [
        loss + penalty
        for loss in (ucm.Logistic(), ucm.SquaredHinge(), ucm.Exponential())
        for penalty in (ucm.L1(), ucm.L2(), ucm.LInf(), ucm.GroupLasso(groups), ucm.ElasticNet(0.5))
    ]


@pytest.mark.parametrize("shape", [(300, 20, 1.0), (40, 60, 1.0), (400, 100, 1.0), (3000, 40, 0.2)])
def test_the_choice_for_an_objective_is_near_the_best(shape: tuple[int, int, float]) -> None:
    """Smooth losses: at most 2.5 times the least, as prox-alm forms only the rows that enter or leave;
    Clarabel counts no passes."""
    X, y = data(*shape)
    for model in objectives(shape[1]):
        plan = ucm.compile(model, X, y)
        costs = {}
        for solver in ("prox-newton", "prox-alm"):
            route = next(r for r in routes(plan.form) if r.solver.name == solver)
            if refusal(route.solver, plan.form) is None:
                found = ucm.compile(model, X, y, solver=solver).solve()
                assert found.status == "optimal", (model, solver)
                costs[solver] = found.stats.passes + found.stats.forming / LEVEL_3
        assert plan.solver.name in costs
        assert costs[plan.solver.name] <= 2.5 * min(costs.values()) + 5.0, (model, costs)
        assert f"{plan.solver.name}  " in plan.explain() and "chosen" in plan.explain()


def test_losses_with_kinks_go_by_their_size() -> None:
    """Multipliers where an interior-point method takes longer; linear programs have routes of their own."""
    groups = ucm.GroupLasso(np.arange(20) // 3)
    for m, solver in ((200, "clarabel"), (1000, "prox-alm")):
        X, y = data(m, 20, 1.0)
        for penalty, best in ((ucm.LInf(), "highs"), (groups, solver)):
            plan = ucm.compile(ucm.Hinge() + penalty, X, y)
            assert plan.solver.name == best
            other = ucm.compile(ucm.Hinge() + penalty, X, y, solver="prox-alm").solve()
            assert other.status == "optimal"
            assert plan.solve().objective == pytest.approx(other.objective, rel=1e-6)
    assert ucm.compile(ucm.Hinge() + ucm.L1(), X, y).solver.name == "highs"
    assert ucm.compile(ucm.Hinge() + ucm.L1(), sparse.csr_matrix(X * (X > 1.0)), y).solver.name == "highs"


def test_wide_sparse_samples_are_solved_without_newton_systems() -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(900) % 2, 1.0, -1.0)
    X = sparse.random_array((900, 1200), density=0.01, rng=rng, format="csr")
    X = X + sparse.csr_array(np.outer(y > 0.0, np.arange(1200) < 3).astype(float))
    wide = ucm.compile(ucm.models.nu_svm(0.5), X, y)
    dense = ucm.compile(ucm.models.nu_svm(0.5), X.toarray(), y)
    assert (wide.solver.name, dense.solver.name) == ("apg", "active-set")
    assert wide.solve().objective == pytest.approx(dense.solve().objective, rel=2e-6)
