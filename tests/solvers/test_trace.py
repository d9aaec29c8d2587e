"""Dense histories: every k-th iterate, what it took, the start that it belongs to."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from bundled import load

import ucm
from ucm import models
from ucm.errors import ParameterError
from ucm.solvers import APG

UNWEIGHTED = {"iteration", "objective", "gap", "passes", "seconds", "start"}
NU = models.nu_svm(0.3)
BEYOND = models.mm_mpm(50.0)
TRACED = {
    "apg": (NU, {"q", "x", "L", "eta", "restarts", "step", "residual", "gradients", "projections"}),
    "ssnal": (models.biased_l2_nu_svm(0.2, 0.2), {"q"}),
    "clip-mdm": (NU, {"q"}),
    "linearize": (BEYOND, {"w"}),
    "subgradient": (BEYOND, {"w"}),
    "rapminos": (models.nu_svm(0.02), {"w"}),
    "psmo": (models.psvm(1.5, 1.0), {"slopes"}),
    "smo": (models.psvm(1.5, 1.0), {"slopes"}),
    "dca": (models.rlsvm2(0.1), {"w", "b"}),
    "alm": (models.coherent_mm_mpm(0.5), {"q", "x"}),
}


def ours(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = load("wine")
    if name == "rapminos":  # classes that overlap
        X = X - 0.9 * np.where(y[:, None] > 0.0, X[y > 0.0].mean(axis=0), X[y < 0.0].mean(axis=0))
    return X, y


@pytest.mark.parametrize("solver", TRACED)
def test_every_kth_iterate_and_the_last(solver: str) -> None:
    model, names = TRACED[solver]
    plan = ucm.compile(model, *ours(solver), solver=solver)
    plain = plan.solve(tol=1e-4)
    assert all(set(record) == UNWEIGHTED for record in plain.history)
    found = plan.solve(tol=1e-4, trace=3)
    for _, records in itertools.groupby(found.history, key=lambda r: r["start"]):
        steps = [record["iteration"] for record in records]
        assert all(k % 3 == 0 for k in steps[:-1]) and sorted(set(steps)) == steps
        if solver != "ssnal":  # which counts outer steps that it takes back
            assert steps[:-1] == list(range(steps[0], steps[-1], 3))
    assert all(set(record) >= UNWEIGHTED | names for record in found.history)
    assert found.objective == pytest.approx(plain.objective, rel=1e-3)
    if solver not in ("clip-mdm", "gsk", "psmo", "smo"):  # these look at their gap at every record
        assert (found.stats.iterations, found.stats.passes) == (
            plain.stats.iterations,
            plain.stats.passes,
        )
        assert found.objective == plain.objective


def test_a_record_has_the_numbers_of_an_iterate() -> None:
    X, y = load("breast_cancer")
    m = y.size
    found = ucm.solve(NU, X, y, solver="apg", trace=1, tol=1e-7)
    assert found.status == "optimal"
    A = np.hstack([X[y > 0].T, -X[y < 0].T])
    cap = 2.0 / (0.3 * m)
    for record in found.history[:: max(1, len(found.history) // 7)]:
        q = np.concatenate(record["q"])
        np.testing.assert_allclose(record["x"], A @ q, atol=1e-9)
        norm = float(np.linalg.norm(A @ q))
        assert record["objective"] == pytest.approx(-norm, rel=1e-12)
        v, L = q - A.T @ (A @ q) / record["L"], record["L"]
        sizes = int((y > 0).sum())
        after = np.concatenate([_project(v[:sizes], cap), _project(v[sizes:], cap)])
        assert record["residual"] == pytest.approx(L * np.linalg.norm(after - q), rel=1e-4, abs=1e-6)
        scores = X @ (A @ q) / norm
        low = np.sort(scores[y > 0]), np.sort(-scores[y < 0])
        worst = norm - sum(_least(s, cap) for s in low)
        assert record["gap"] == pytest.approx(worst / norm, rel=1e-6, abs=1e-9)
    for before, after in itertools.pairwise(found.history):
        for name in ("gradients", "projections", "products", "evaluations", "restarts"):
            assert after[name] >= before[name]
    last = found.history[-1]
    assert last["iteration"] == found.stats.iterations == last["gradients"]
    assert last["products"] >= last["projections"] >= last["gradients"]
    assert last["objective"] == found.objective
    np.testing.assert_allclose(last["x"], found.x)


def _project(v: np.ndarray, cap: float) -> np.ndarray:
    """Onto the capped simplex, by bisection."""
    low, high = v.min() - cap, v.max()
    for _ in range(200):
        theta = 0.5 * (low + high)
        low, high = (theta, high) if np.clip(v - theta, 0, cap).sum() > 1.0 else (low, theta)
    return np.clip(v - low, 0, cap)


def _least(scores: np.ndarray, cap: float) -> float:
    """The least mean over the capped simplex, of sorted scores."""
    q = np.minimum(cap, np.maximum(0.0, 1.0 - cap * np.arange(scores.size)))
    return float(q @ scores)


def test_apg_has_the_iterates_of_the_printed_algorithm() -> None:
    """The iterates of Algorithm 1 of Ito, Takeda and Toh (2015), line by line, with masses of 1/2."""
    X, y = load("breast_cancer")
    nu = 0.3
    found = ucm.solve(models.nu_svm(nu), X, y, solver=APG(stop="paper", eta_min=1.0), trace=1, tol=0.5)
    parts = [y > 0, y < 0]
    Z = np.hstack([X[parts[0]].T, -X[parts[1]].T])
    split = int(parts[0].sum())
    cap = 1.0 / (y.size * nu)

    def P(v: np.ndarray) -> np.ndarray:
        return 0.5 * np.concatenate([_project(2 * v[:split], 2 * cap), _project(2 * v[split:], 2 * cap)])

    def f(q: np.ndarray) -> float:
        return 0.5 * float((Z @ q) @ (Z @ q))

    def gradient(q: np.ndarray) -> np.ndarray:
        return Z.T @ (Z @ q)

    L, eta, delta, eps = float((Z**2).sum(axis=0).max()), 1.1, 0.8, 1e-6
    p = q_before = 0.5 * np.concatenate(found.history[0]["q"])
    t, k, total = 1.0, 0, 0
    compared = 0
    while total < 120:
        k, total = k + 1, total + 1
        g = gradient(p)
        if k % 10 == 1:
            L /= eta
            q = P(p - g / L)
            while f(q) > f(p) + g @ (q - p) + 0.5 * L * (q - p) @ (q - p) + 1e-15 * f(p):
                L *= eta
                q = P(p - g / L)
        else:
            q = P(p - g / L)
        record = found.history[total]
        np.testing.assert_allclose(0.5 * np.concatenate(record["q"]), q, atol=1e-7)
        assert record["L"] == pytest.approx(L, rel=1e-9)
        compared += 1
        if np.linalg.norm(L * (q - p)) < eps:
            break
        t_after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        p_after = q + (t - 1.0) / t_after * (q - q_before)
        if g @ (q - q_before) > 0.0:
            p, t, k = q_before, 1.0, 0
            eta = delta * eta + (1.0 - delta)
        else:
            p, q_before, t = p_after, q, t_after
    assert compared == 120


def test_a_factor_of_one_ends() -> None:
    """With eta_min = 1 the factor tends to 1, and no test of L may go on for ever."""
    X, y = load("iris")
    solver = APG(eta=1.0 + 1e-12, eta_min=1.0, L=1e-6)
    with pytest.warns(ucm.ConvergenceWarning):
        found = ucm.solve(NU, X, y, solver=solver, max_iter=40)
    assert found.status == "max_iter"
    with pytest.raises(ParameterError, match="eta is a number above 1"):
        APG(eta=1.0, eta_min=1.0)


@pytest.mark.parametrize("model", [models.rlsvm2(0.02), BEYOND, models.zero_norm_svm(0.05)])
def test_the_starts_and_their_ends(model: Any) -> None:
    X, y = ours("rapminos")
    found = ucm.solve(model, X, y, n_starts=4)
    groups = [list(g) for _, g in itertools.groupby(found.history, key=lambda r: r["start"])]
    assert [g[0]["start"] for g in groups] == list(range(len(groups)))
    assert len(groups) == len(found.start_objectives) >= 4
    assert min(found.start_objectives) == pytest.approx(found.objective, rel=1e-9)
    for records, end in zip(groups, found.start_objectives, strict=True):
        assert records[-1]["objective"] == pytest.approx(end, rel=1e-6)
    assert f"the best of {len(found.start_objectives)} starts" in found.message
    once = ucm.solve(NU, X=ours("")[0], y=y)
    assert once.start_objectives == (once.objective,) and {r["start"] for r in once.history} == {0}


@pytest.mark.parametrize("trace", [0, -1, 2.5, True, "all"])
def test_a_trace_is_a_positive_whole_number(trace: Any) -> None:
    with pytest.raises(ParameterError, match="trace is a positive whole number"):
        ucm.solve(NU, *load("iris"), trace=trace)


def test_the_callback_hears_every_record() -> None:
    seen: list[dict[str, Any]] = []
    found = ucm.solve(NU, *load("iris"), solver="apg", trace=50, callback=seen.append)
    assert [r["iteration"] for r in seen if r["iteration"] % 50 == 0] == [
        r["iteration"] for r in found.history if r["iteration"] % 50 == 0
    ]
    with pytest.warns(ucm.ConvergenceWarning, match="stopped by the callback"):
        stopped = ucm.solve(NU, *load("iris"), solver="apg", trace=1, callback=lambda r: r["iteration"] == 7)
    assert stopped.status == "interrupted" and stopped.stats.iterations == 7
