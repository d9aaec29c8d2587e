"""Hulls and moments of rows together: the rows that are vertices come."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from row_samples import blocks, samples
from typed import known

import ucm
from ucm import neg, pos, signed

VERTICES = {
    "mpm": ucm.models.coherent_mm_mpm(0.6),
    "fda": ucm.models.coherent_mm_fda(0.5),
    "sum": (ucm.Ellipsoid(pos.mean, pos.cov, 0.2) + 0.1 * ucm.Hull(pos))
    - (ucm.Ellipsoid(neg.mean, neg.cov, 0.3) & ucm.Hull(neg)),
    "signed": ucm.Ellipsoid(signed.mean, signed.cov, 0.2) & 0.9 * ucm.Hull(signed),
}


@pytest.mark.parametrize("name", VERTICES)
def test_vertices_of_rows_come(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("ucm.compiler.column_generation"), "_SAMPLE", 60)
    X, y = samples(3000, 3)
    plan = ucm.compile(VERTICES[name], blocks(X, y, 400))
    rows, memory = plan.solve(), ucm.solve(VERTICES[name], X, y)
    assert rows.status == memory.status == "optimal" and rows.stats.reads <= 12
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.certificate.primal >= memory.certificate.dual - 1e-12  # over all rows
    assert rows.w == pytest.approx(memory.w, abs=2e-3)
    assert (rows.b, rows.bias_rule) == (pytest.approx(memory.b, abs=5e-3), memory.bias_rule)
    weights = np.asarray(rows.weights)
    assert weights.shape == (3000,) and np.count_nonzero(weights) < 300
    assert plan.lowering.y.size < 1500  # type: ignore[attr-defined]
    if name == "mpm":
        assert plan.verify().agrees
        assert known(rows.summand_points)[0] == pytest.approx(X[y > 0].T @ weights[y > 0], abs=1e-5)


def test_an_interrupt_where_vertices_came(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ucm.compiler.column_generation")
    monkeypatch.setattr(module, "_SAMPLE", 20)
    X, y = samples(3000, 3)
    plan = ucm.compile(VERTICES["sum"], blocks(X, y, 400))
    here: list[int] = []

    certify = module.ColumnGenerationLowering.certify

    def broken(self: Any, answer: Any, tol: float) -> Any:
        here.append(sum(v.size for v in answer.q))
        if len(here) == 2:
            raise KeyboardInterrupt
        return certify(self, answer, tol)

    monkeypatch.setattr(module.ColumnGenerationLowering, "certify", broken)
    with pytest.warns(ucm.ConvergenceWarning):
        found = plan.solve(tol=1e-9)
    assert found.status == "interrupted" and here[1] > here[0]
    assert np.asarray(found.weights).shape == (3000,)
    assert found.certificate.primal >= found.certificate.dual
    monkeypatch.undo()
    assert plan.solve().status == "optimal"


def test_a_second_solve_counts_no_sample() -> None:
    X, y = samples(3000, 3)
    plan = ucm.compile(VERTICES["mpm"], blocks(X, y, 400))
    first, again = plan.solve(), plan.solve()
    assert again.stats.reads < first.stats.reads


def test_vertices_have_limits_and_paths() -> None:
    X, y = samples(3000, 3)
    model = VERTICES["mpm"]
    large = ucm.solve(ucm.models.coherent_mm_mpm(3.0), blocks(X, y, 400))
    assert large.status == "zero_in_set"
    with pytest.warns(ucm.ConvergenceWarning):
        timed_out = ucm.solve(model, blocks(X, y, 400), time_limit=1e-6)
    assert timed_out.status == "time_limit"
    again = ucm.solve(model, blocks(X, y, 400))
    path = ucm.path(ucm.models.coherent_mm_mpm(0.5), blocks(X, y, 400), kappa=[0.3, 0.6])
    assert path[1].objective == pytest.approx(again.objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="gather"):
        ucm.solve(ucm.ReducedHull(pos, nu=0.4) - neg.mean, blocks(X, y))
