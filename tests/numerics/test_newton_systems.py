"""Newton systems: formed, kept up to date, or solved by conjugate gradients; against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from row_samples import samples
from scipy import sparse

import ucm
from ucm.data.linear_map import SampleMap, centered_map
from ucm.language.contracts import Jacobian, SampleWeights
from ucm.language.domains import CappedSimplex, KLBall, NormBall
from ucm.numerics.newton_steps import ConjugateGradients, Formed
from ucm.solvers import SSNAL

RNG = np.random.default_rng(0)
SAMPLES, OTHERS = RNG.standard_normal((200, 12)), RNG.standard_normal((50, 12))
SIGNS = np.where(np.arange(200) < 90, 1.0, -1.0)
MAPS = [SampleMap(SAMPLES, SIGNS), centered_map(OTHERS, OTHERS.mean(0))]
DENSE = [(SAMPLES * SIGNS[:, None]).T, (OTHERS - OTHERS.mean(0)).T / np.sqrt(50)]
RIDGE = np.array([1.0] * 9 + [0.01] * 3)


def jacobians(t: float) -> list[Jacobian]:
    """Of projections at points that move with t."""
    v = np.random.default_rng(1).standard_normal(200) + t * SIGNS
    samples = SampleWeights(200, None, SIGNS)
    domain: Any = (NormBall(0.2) if t < 0.5 else KLBall(0.4)).bind(samples)
    return [domain.jacobian(v), NormBall(2.0).jacobian(v[:50])]


def expected(J: list[Jacobian], s: list[float], g: np.ndarray) -> np.ndarray:
    H = np.diag(RIDGE)
    for D, j, f in zip(DENSE, J, s, strict=True):
        H = H + f * D @ (np.diag(j.d) + j.U @ j.S @ j.U.T) @ D.T
    return -np.linalg.solve(H, g)


@pytest.mark.parametrize("kind", [Formed, ConjugateGradients])
def test_steps_against_dense_systems(kind: type) -> None:
    exact = {} if kind is Formed else {"accuracy": 1e-12}
    systems = kind(MAPS, SAMPLES.size, **exact)
    for k, t in enumerate((0.0, 0.0, 0.01, 0.3, 0.9, 0.91, 0.0)):
        J, s, g = jacobians(t), [3.0**k, 0.5], RNG.standard_normal(12)
        np.testing.assert_allclose(systems.step(J, s, RIDGE, g)[0], expected(J, s, g), atol=1e-9)


def test_forming_costs_the_columns_with_weight() -> None:
    n, m = 12, 200
    systems = Formed(MAPS[:1], SAMPLES.size)
    share = n / 4.0 / m  # passes for one row
    v, g = 0.01 * RNG.standard_normal(m), np.ones(n)
    J = CappedSimplex(0.02).jacobian(v)
    flat = J.U.shape[1] / 2.0  # the product with the low-rank part
    free = np.count_nonzero(J.d)
    assert free > 20
    _, passes, forming = systems.step([J], [1.0], RIDGE, g)
    assert passes == 0.0 and forming == pytest.approx(free * share + flat)
    d = J.d.copy()
    d[np.flatnonzero(d)[:3]] = 0.0
    assert systems.step([Jacobian(d, J.U, J.S)], [2.0], RIDGE, g)[2] == pytest.approx(
        (free - 3) * share + flat
    )


def test_sparse_rows_cost_their_entries() -> None:
    X = sparse.random_array((100, 40), density=0.05, random_state=2, format="csr")  # pyright: ignore[reportCallIssue]  # SciPy 1.13 calls it so
    A = SampleMap(sparse.csr_matrix(X))
    counts = np.diff(A.X.indptr)
    assert A.squares == pytest.approx(0.5 * (counts**2).sum())
    assert SampleMap(X.toarray()).squares == 0.5 * 100 * 40**2


# --- the routes ---------------------------------------------------------------------------------
MODELS = {
    "l2": ucm.models.l2_nu_svm(0.2),
    "kl": ucm.models.kl_svm(0.7),
    "biased": ucm.models.biased_l2_nu_svm(0.3, 0.2),
    "hulls and ball": ucm.ReducedHull(ucm.pos, 0.05) - ucm.ReducedHull(ucm.neg, 0.04) + ucm.Ball(0, 0.1),
}


@pytest.mark.parametrize("tol", [1e-6, 1e-9])
@pytest.mark.parametrize("name", ["l2", "kl", "biased", "hulls and ball"])
@pytest.mark.parametrize("shape", [(90, 30), (60, 90)])
def test_three_ways_to_solve_a_system(name: str, shape: tuple[int, int], tol: float) -> None:
    X, y = samples(*shape, shift=0.2)
    found = [
        ucm.compile(MODELS[name], X, y, solver=solver).solve(tol=tol)
        for solver in (SSNAL(), SSNAL(iterative=True))
    ]
    for sol in found:
        assert sol.status == "optimal" and sol.certificate.violation <= 1e-12
        assert sol.objective == pytest.approx(found[0].objective, rel=2.0 * tol)
    plan = ucm.compile(MODELS[name], X, y, solver=SSNAL(max_order=10, iterative=True))
    assert plan.solve().status == "optimal" and plan.verify().agrees


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_many_features_and_many_samples(form: str) -> None:
    m, n = 500, 400
    X, y = samples(m, n, shift=0.2)
    data = sparse.csr_matrix(np.where(np.abs(X) > 2.0, X, 0.0)) if form == "sparse" else X
    model = ucm.models.l2_nu_svm(0.06)
    plan = ucm.compile(model, data, y, solver=SSNAL(max_order=300, iterative=True))
    sol = plan.solve(tol=1e-8)
    direct = ucm.solve(model, data, y, solver="ssnal", tol=1e-8)
    assert sol.status == direct.status == "optimal"
    assert sol.objective == pytest.approx(direct.objective, rel=2e-8)
    assert sol.stats.forming == 0.0 and direct.stats.forming > 0.0
    with pytest.raises(ucm.SolverError, match="would have order 400, above 300"):
        ucm.compile(model, data, y, solver=SSNAL(max_order=300))


def test_large_coupled_sets_take_conjugate_gradients() -> None:
    X, y = samples(300, 12, shift=0.2)
    model = ucm.models.coherent_mm_fda(0.2)
    plan = ucm.compile(model, X, y, solver=SSNAL(iterative=True))
    sol = plan.solve()
    assert sol.status == "optimal" and plan.verify().agrees
    direct = ucm.solve(model, X, y, solver=SSNAL())
    assert sol.objective == pytest.approx(direct.objective, rel=2e-6)
    with pytest.raises(ucm.SolverError, match="would have order 24, above 22"):
        ucm.compile(model, X, y, solver=SSNAL(max_order=11))
    assert SSNAL(max_order=12).refuse(plan.form) is None
