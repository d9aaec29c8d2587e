"""Weights and groups of rows that are read block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from row_samples import A, B, blocks, samples, tagged_samples

import ucm
from ucm import neg, pos, signed

WEIGHED = {
    "nu": ucm.models.nu_svm(0.4),
    "signed": 2.0 * ucm.Hull(signed, weights=ucm.CappedSimplex(0.002)),
    "hulls": ucm.Hull(pos) - ucm.Hull(neg),
    "relative cap": ucm.Hull(pos, weights=ucm.CappedSimplex(3.0, relative=True))
    - ucm.ReducedHull(neg, nu=0.4),
    "balls": ucm.Hull(pos, weights=ucm.ChiSquareBall(2.0)) - ucm.Hull(neg, weights=ucm.KLBall(0.5)),
    "moments": ucm.models.mm_mpm(0.5),
    "vertices": ucm.models.coherent_mm_fda(0.5),
    "svm": ucm.models.psvm(1.0, 0.1),
    "losses": ucm.Hinge(2.0, on=pos) + 3.0 * ucm.HuberHinge(0.5) + 5.0 * ucm.L2(),
    "group and class": ucm.ReducedHull(A, eta=0.01) - ucm.ReducedHull(neg, nu=0.3),
    "groups in balls": ucm.Hull(A, weights=ucm.ChiSquareBall(1.0)) - ucm.Hull(B, weights=ucm.KLBall(0.5)),
    "signed group": ucm.Hull(signed.group("A"), weights=ucm.CappedSimplex(0.007)),
    "moments of groups": ucm.Ellipsoid(A.mean, A.cov, 0.5) - ucm.Ellipsoid(neg.mean, B.cov, 0.4),
    "svm of groups": ucm.Hinge(on=A) + 2.0 * ucm.Hinge(on=neg) + 5.0 * ucm.L2(),
    "one loss of groups": ucm.Hinge(2.0) + 2.0 * ucm.Hinge(2.0, on=signed.group("A")) + ucm.L2(),
}


@pytest.mark.parametrize("factors", [None, "balanced"])
@pytest.mark.parametrize("name", WEIGHED)
def test_weights_and_groups_over_rows_agree_with_memory(name: str, factors: Any) -> None:
    X, y, tags = tagged_samples()
    X[:, 0] += 8.0 * y if name == "hulls" else 0.0
    plan = ucm.compile(WEIGHED[name], ucm.open_rows(X, y, block=100, **tags), class_weight=factors)
    rows, memory = plan.solve(), ucm.solve(WEIGHED[name], X, y, class_weight=factors, **tags)
    assert rows.status == memory.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.w == pytest.approx(memory.w, abs=3e-3)
    assert rows.b == pytest.approx(memory.b, abs=5e-3)
    assert rows.bias_rule == memory.bias_rule
    assert plan.verify().agrees
    if rows.weights is not None:
        weights = np.asarray(rows.weights)
        assert weights.shape == (900,) and not weights[::7].any()
        if rows.x is not None and rows.summand_points is not None and name != "vertices":
            side = 0.5 if name == "signed" or name == "signed group" else 1.0
            assert weights[y > 0].sum() == pytest.approx(side * (2.0 if name == "signed" else 1.0))


@pytest.mark.parametrize("name", ["nu", "moments", "group and class"])
def test_the_bias_of_least_error_counts_weights(name: str) -> None:
    X, y, tags = tagged_samples()
    rows = ucm.solve(WEIGHED[name], ucm.open_rows(X, y, block=100, **tags), bias_rule="min_error")
    memory = ucm.solve(WEIGHED[name], X, y, bias_rule="min_error", **tags)

    def error(solution: Any) -> float:
        return float(tags["sample_weight"] @ ((X @ solution.w + solution.b > 0.0) != (y > 0.0)))

    assert error(rows) == pytest.approx(error(memory))
    assert rows.b == pytest.approx(memory.b, abs=3e-3)


def test_a_path_over_weighed_rows() -> None:
    X, y, tags = tagged_samples()
    weights = {"sample_weight": tags["sample_weight"]}
    rows = ucm.path(ucm.models.nu_svm(0.5), ucm.open_rows(X, y, block=100, **weights), nu=[0.4, 0.5])
    memory = ucm.path(ucm.models.nu_svm(0.5), X, y, nu=[0.4, 0.5], **weights)
    for ours, theirs in zip(rows, memory, strict=True):
        assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sample_weight": np.ones(3)}, "sample_weight: expected 900 numbers, .*got 3;"),
        ({"sample_weight": np.full(900, "a")}, "sample_weight: expected finite"),
        ({"sample_weight": np.r_[np.ones(899), -1.0]}, "got -1.0 for sample 899; a weight"),
        ({"sample_weight": np.r_[np.ones(850), np.nan, np.ones(49)]}, "nan for sample 850"),
        ({"sample_weight": np.zeros(900)}, "zeros for all of class"),
        ({"sample_weight": "none.npy"}, "a .npy file of them, got 'none.npy'"),
        ({"sample_weight": np.ones((900, 2))}, "got shape"),
        ({"subgroup": np.full(900, "B")}, r"pos.group\('A'\): expected samples of class \+1"),
        ({"subgroup": np.full(900, None)}, "subgroup: expected labels .* got None for sample 0"),
        ({"subgroup": ["A"] * 5}, "subgroup: expected 900 labels"),
        (
            {"subgroup": np.full(900, "2020-01-01", "datetime64[D]")},
            "subgroup: expected labels that",
        ),
        ({"sample_weight": np.ma.array(np.ones(900), mask=np.arange(900) < 3)}, "a masked array"),
    ],
)
def test_weights_and_groups_that_are_none(change: dict[str, Any], match: str) -> None:
    X, y, tags = tagged_samples()
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(WEIGHED["group and class"], ucm.open_rows(X, y, block=100, **{**tags, **change}))


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize("name", ["kl", "moments", "p = 2", "nu"])
def test_weights_of_any_unit(name: str, unit: float) -> None:
    X, y = samples()
    weights = unit * np.random.default_rng(2).uniform(0.1, 1.1, 900)
    model = {
        "kl": ucm.models.kl_svm(0.5),
        "moments": ucm.models.mm_mpm(0.5),
        "p = 2": ucm.models.psvm(2.0, 0.1),
        "nu": ucm.models.nu_svm(0.4),
    }[name]
    rows = ucm.solve(model, ucm.open_rows(X, y, sample_weight=weights, block=100))
    memory = ucm.solve(model, X, y, sample_weight=weights)
    assert rows.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6, abs=0.0)


def test_balls_that_bind_for_light_rows_only() -> None:
    """A row of weight .01 is above a level that none of weight 1 is above."""
    X, y = samples(60)
    weights = np.where(np.arange(60) % 2, 1.0, 0.01)
    X[::2, 0] -= 3.0 * y[::2]
    U = ucm.Hull(pos, weights=ucm.ChiSquareBall(30.0)) - ucm.Hull(neg, weights=ucm.ChiSquareBall(30.0))
    X[:, 0] += 20.0 * y
    rows = ucm.solve(U, ucm.open_rows(X, y, sample_weight=weights, block=20))
    memory = ucm.solve(U, X, y, sample_weight=weights)
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)


def test_groups_without_a_route() -> None:
    X, y, tags = tagged_samples()
    rows = ucm.open_rows(X, y, block=100, **tags)
    several = ucm.Hull(A) + ucm.Hull(pos.group("B")) - ucm.Hull(neg)
    with pytest.raises(ucm.DataError, match="or take hulls of one group of each class"):
        ucm.solve(several, rows)
    with pytest.raises(ucm.DataError, match="no route over rows"):
        ucm.solve(ucm.Logistic(on=A) + ucm.Hinge(2.0) + ucm.L2(), rows)
    with pytest.raises(ucm.DataError, match=rf"{rows.m} x {rows.n} samples.* with one penalty beside L1"):
        ucm.solve(ucm.WorstMean(ucm.Hinge()) + ucm.L2() + ucm.Bounds(1), rows)
    with pytest.raises(ucm.DataError, match=r"admissible of .*gather"):
        ucm.admissible(WEIGHED["nu"], rows)
    with pytest.raises(ucm.DataError, match="expected the group of every sample, got none"):
        ucm.solve(WEIGHED["group and class"], blocks(X, y))
    with pytest.raises(ucm.DataError, match="beside a row source, which has its own"):
        ucm.solve(WEIGHED["nu"], rows, sample_weight=np.ones(900))


@pytest.mark.parametrize("weights", [ucm.CappedSimplex(0.9), ucm.KLBall(0.3)])
def test_a_signed_group_of_one_class_only(weights: Any) -> None:
    X, y = samples(60)
    rows = ucm.open_rows(X, y, subgroup=np.where(y > 0.0, "A", "B"))
    with pytest.raises(ucm.EmptySetError, match="one class has no entries"):
        ucm.solve(ucm.Hull(signed.group("A"), weights=weights), rows)
