"""The speed benchmark: what it measures is what it says."""

from __future__ import annotations

import time

import numpy as np
import pytest

import ucm
from ucm.bench import judge
from ucm.bench.speed import isolate, peers, reference, sets
from ucm.data import datasets
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel

X, SIGNS = datasets.load("wine")
Y = SIGNS.astype(np.float64)
NU = 0.3
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)


def _sleeps(seconds: float) -> dict[str, float]:
    time.sleep(seconds)
    return {"slept": seconds}


def _measures() -> dict[str, float]:
    calls: list[np.ndarray] = []
    _, figures = isolate.measured(lambda: calls.append(np.ones(4_000_000)), 3, 60.0)
    return {**figures, "calls": len(calls)}


def _fails() -> dict[str, float]:
    raise ValueError("no\nreason")


def test_a_job_of_its_own_process() -> None:
    assert isolate.isolated(_sleeps, 0.0, limit=60.0) == {"slept": 0.0}
    assert isolate.isolated(_sleeps, 60.0, limit=0.1) == {"note": isolate.STOPPED}
    assert isolate.isolated(_fails, limit=60.0) == {"note": "ValueError: no reason"}


def test_measured() -> None:
    figures = isolate.isolated(
        _measures, limit=60.0
    )  # what a process has freed before is not counted
    assert (figures["calls"], figures["runs"]) == (4, 3)
    assert figures["peak, MB"] == pytest.approx(32.0, rel=0.2)
    assert isolate.measured(lambda: time.sleep(0.02), 3, 0.01)[1]["runs"] == 1


def test_the_part_of_the_seconds_that_the_solver_took() -> None:
    parts = iter([9.0, 3.0, 1.0, 2.0])
    figures = isolate.measured(lambda: next(parts), 3, 60.0, lambda part: part)[1]
    assert figures["own, s"] == 2.0  # the median of all but the first


def test_convex_models_beside_clarabel() -> None:
    for name in reference.CONVEX:
        model = sets.declared(name, STANDARD, Y, NU, 0.2)
        fit, other = (
            job(model, STANDARD, Y, 1, 60.0) for job in (reference.ours, reference.theirs)
        )
        assert (fit["status"], other["status"]) == ("optimal", "optimal"), name
        assert other["objective"] == pytest.approx(fit["objective"], rel=1e-4), name


def test_matched_C_has_the_same_direction() -> None:
    fit = ucm.solve(ucm.models.nu_svm(NU), X, Y, tol=1e-9)
    C = judge.matched_C(X, Y, NU, fit.x)
    other = ucm.solve(ucm.models.svm(0.5 / C), X, Y, solver="clarabel", tol=1e-9)
    np.testing.assert_allclose(other.w / np.linalg.norm(other.w), fit.w, atol=1e-4)


def test_every_answer_under_one_certificate() -> None:
    fit = ucm.solve(ucm.models.nu_svm(NU), X, Y)
    assert fit.weights is not None
    found = judge.weights_gap(X, Y, NU, fit.weights)
    assert found["gap"] == pytest.approx(fit.certificate.relative_gap, abs=1e-12)
    gram = Gram(Kernel("linear"), X)
    by_gram = judge.weights_gap(X, Y, NU, fit.weights, gram)
    assert by_gram["gap"] == pytest.approx(found["gap"], abs=1e-9)
    assert judge.direction_bound(X, Y, NU, fit.x) == pytest.approx(-fit.objective, rel=2e-6)
    bad = judge.weights_gap(X, Y, NU, np.eye(Y.size)[0] + np.eye(Y.size)[-1], gram)
    assert bad["violation"] > 1.0


@pytest.mark.parametrize("peer", ["ours", "APG", "NuSVC", "LinearSVC"])
def test_peers(peer: str) -> None:
    found = peers.run(peer, peers.Problem("wine", NU), 1, 60.0)
    assert found["seconds"] > 0.0
    assert ("own, s" in found) == (peer in ("ours", "APG"))
    assert 0.0 < found.get("own, s", found["seconds"]) <= found["seconds"]
    # LinearSVC also penalises its intercept
    assert -1e-9 <= found["gap"] <= (0.2 if peer == "LinearSVC" else 1e-5)


def test_kernel_peers() -> None:
    for peer in peers.RBF:
        assert peers.run(peer, peers.Problem("wine", NU, "rbf"), 1, 60.0)["gap"] <= 1e-5
