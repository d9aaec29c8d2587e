"""Means and covariances of rows that are read block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from row_samples import MOMENTS, blocks, samples
from scipy import sparse
from typed import known

import ucm
from ucm.data.first_pass import of_moments


@pytest.mark.parametrize("offset", [-20.0, 20.0, 1e4])
def test_bounds_of_the_error_do_not_move(offset: float) -> None:
    X, y = samples()
    for model in (ucm.models.mm_mpm(0.3), ucm.models.mm_fda(0.3)):
        rows, memory = ucm.compile(model, blocks(X + offset, y)), ucm.compile(model, X, y)
        found, wanted = rows.guarantees(rows.solve()), memory.guarantees(memory.solve())
        assert [(g.what, g.of) for g in found] == [(g.what, g.of) for g in wanted]
        assert [g.value for g in found] == pytest.approx([g.value for g in wanted], rel=1e-6)


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_sets_of_means_and_covariances_take_one_pass(name: str, kind: str) -> None:
    X, y = samples(1200, 5)
    X = X @ np.random.default_rng(1).standard_normal((5, 5))
    if kind == "csr":
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    plan = ucm.compile(MOMENTS[name], blocks(X, y, 37, threads=2))
    rows, memory = plan.solve(), ucm.solve(MOMENTS[name], X, y)
    exact = 1e-6 if name == "p = 1" else 1e-12
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=exact)
    assert rows.w == pytest.approx(memory.w, abs=1e-4 if name == "p = 1" else 1e-6)
    assert rows.bias_rule == memory.bias_rule
    assert rows.b == pytest.approx(memory.b, abs=1e-4 if name == "p = 1" else 1e-6)
    if name != "p = 1":
        assert plan.verify().agrees


def test_a_mean_far_from_zero_costs_its_rounding_only() -> None:
    """The means are exact to rounding, and the covariances have no cancellation, as of samples in memory."""
    X, y = samples(3000, 5)
    shifted = X + 1e6
    exact = [np.longdouble(shifted[y == c]).mean(axis=0) for c in (1.0, -1.0)]
    data = of_moments(blocks(shifted, y, 100))
    for kind, mean, c in zip(("pos", "neg"), exact, (1.0, -1.0), strict=True):
        D = np.longdouble(shifted[y == c]) - mean
        cov = (D.T @ D) / D.shape[0]
        assert np.abs(data.mean(kind) - mean).max() <= 3e-10
        assert np.abs(data.covariance(kind) - cov).max() <= 5e-11 * np.abs(cov).max()
    for name in ("mm-mpm", "mm-fda", "gelbrich"):
        far = ucm.solve(MOMENTS[name], blocks(shifted, y, 100))
        near = ucm.solve(MOMENTS[name], shifted - 1e6, y)
        assert far.objective == pytest.approx(near.objective, rel=1e-9)
        assert far.b == pytest.approx(near.b - 1e6 * near.w.sum(), rel=1e-10)
        if name == "mm-mpm":
            (plus, minus), there = known(far.summand_points), known(near.summand_points)
            assert plus == pytest.approx(there[0] + 1e6, rel=1e-12)
            assert plus - minus == pytest.approx(far.x, abs=1e-8)


@pytest.mark.parametrize("weight", [None, (3.0, 1.0)])
@pytest.mark.parametrize("scale", [1.0, 1e-5])
def test_the_bias_of_least_error_over_rows(weight: Any, scale: float) -> None:
    X, y = samples(4000, 3)
    for own in (X * scale, np.round(2 * X) * scale):
        for rule in ("min_error", "odds", "means", "midpoint"):
            found = [
                ucm.solve(MOMENTS["mm-mpm"], rows, labels, class_weight=weight, bias_rule=rule)
                for rows, labels in ((blocks(own, y, 300), None), (own, y))
            ]
            assert found[0].b == pytest.approx(found[1].b, abs=1e-9 * scale, rel=1e-9)


def test_moments_validate_in_their_pass() -> None:
    X, y = samples(500)
    X[-1, 1] = np.inf
    with pytest.raises(ucm.DataError, match=r"entry \(499, 1\) is inf"):
        ucm.solve(MOMENTS["mm-mpm"], blocks(X, y))
    X, y = samples(500)
    with pytest.raises(ucm.DataError, match="two classes"):
        ucm.solve(MOMENTS["mm-mpm"], blocks(X, np.ones(500)))
