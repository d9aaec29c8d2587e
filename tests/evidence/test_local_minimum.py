"""`plan.certify_local`: strict local minima of losses plus penalties."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import bundled
import numpy as np
import pytest
from numpy.testing import assert_allclose
from row_samples import samples
from scipy.optimize import linprog

import ucm
from ucm.data.bound_data import bind
from ucm.errors import ParameterError
from ucm.evidence.local_minimum import row_rank, strict_local_minimum
from ucm.evidence.objective import is_local, loss_slopes

NAMES = ("zero_norm_svm", "cap_one_norm_svm", "rlsvm0", "rlsvmc1")


def value(model: Any, X: np.ndarray, y: np.ndarray, w: Any, b: Any) -> float:
    return model.loss.value(y * (X @ w + b)) + model.penalty.value(w)


def least_growth(model: Any, X: np.ndarray, y: np.ndarray, w: Any, b: Any) -> float:
    """The least directional derivative over the 2 (n + 1) faces of the cube, for hinge and ExpL0 with a lam:
    min of sum_kinks max(-tau_i, 0) + lam a sum_{w_j = 0} |d_j| + slopes'd, by linear programs."""
    lam, a = model.penalty.split()[0][0].norms()[0] / 4.0, 4.0
    t = y * (X @ w + b)
    Z = y[:, None] * np.c_[X, np.ones(len(y))]
    kink, wrong = np.abs(t - 1.0) <= 1e-7, t < 1.0 - 1e-7
    zero = np.abs(w) <= 1e-7
    g = -Z[wrong].sum(axis=0)
    g[:-1] += np.where(zero, 0.0, lam * a * np.exp(-a * np.abs(w)) * np.sign(w))
    k, n = int(kink.sum()), w.size
    E = np.eye(n, n + 1)[zero]
    p = len(E)
    cost = np.concatenate([g, np.ones(k), lam * a * np.ones(p)])
    rows = np.vstack([
        np.hstack([-Z[kink], -np.eye(k), np.zeros((k, p))]),
        np.hstack([E, np.zeros((p, k)), -np.eye(p)]),
        np.hstack([-E, np.zeros((p, k)), -np.eye(p)]),
    ])  # fmt: skip
    found = []
    for j, sign in itertools.product(range(n + 1), (-1.0, 1.0)):
        box: list[Any] = [(-1.0, 1.0)] * (n + 1) + [(0.0, None)] * (k + p)
        box[j] = (sign, sign)
        found.append(linprog(cost, rows, np.zeros(len(rows)), bounds=box).fun)
    return min(found)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(4))
def test_no_point_near_a_proven_minimum_is_as_good(name: str, seed: int) -> None:
    X, y = samples(40, 3, seed, 0.5, 0.6)
    model = getattr(ucm.models, name)(2.0)
    plan = ucm.compile(model, X, y)
    found: Any = plan.solve()
    certificate = plan.certify_local(found)
    if certificate.kind != "strict local":
        assert certificate == found.certificate
        return
    rng = np.random.default_rng(seed)
    best = value(model, X, y, found.w, found.b)
    for d in rng.standard_normal((2000, 4)):
        d *= 10.0 ** rng.uniform(-5, -2.5) / np.linalg.norm(d)
        assert value(model, X, y, found.w + d[:3], found.b + d[3]) > best


@pytest.mark.parametrize("seed", range(6))
def test_the_proof_agrees_with_linear_programs_over_the_faces_of_a_cube(seed: int) -> None:
    X, y = samples(40, 3, seed, 0.5, 0.6)
    model = ucm.models.zero_norm_svm(2.0)
    plan = ucm.compile(model, X, y)
    found: Any = plan.solve()
    growth = least_growth(model, X, y, found.w, found.b)
    assert (strict_local_minimum(model, plan.data, found.w, found.b) is None) == (growth > 1e-6)


def test_points_that_are_no_minima_are_not_proven() -> None:
    X, y = samples(40, 3, 0, 0.5, 0.6)
    model = ucm.models.zero_norm_svm(2.0)
    plan = ucm.compile(model, X, y)
    found: Any = plan.solve()
    assert strict_local_minimum(model, plan.data, found.w + 0.01, found.b) is not None
    assert strict_local_minimum(model, plan.data, found.w, found.b + 0.01) is not None
    beside = replace(found, b=found.b + 0.01)
    assert plan.certify_local(beside) == beside.certificate


def test_a_real_set_is_proven() -> None:
    X, y = bundled.load("breast_cancer")
    plan = ucm.compile(ucm.models.zero_norm_svm(1.0), X, y)
    certificate = plan.certify_local(plan.solve())
    assert certificate.kind == "strict local"
    assert str(certificate).startswith("strict local: ")


@pytest.mark.parametrize(
    "model", [ucm.models.nu_svm(0.3), ucm.Hinge() + ucm.LInf(), ucm.Hinge() + ucm.Norm(2)], ids=repr
)
def test_other_models_are_refused(model: Any) -> None:
    X, y = samples(40, 3, 1, 0.5, 0.6)
    plan = ucm.compile(model, X, y)
    with pytest.raises(ParameterError, match="certify_local"):
        plan.certify_local(plan.solve())


@pytest.mark.parametrize(
    "loss", [ucm.Ramp(0.5), 0.5 * ucm.Logistic(), ucm.Hinge(on=ucm.pos) + ucm.Ramp(on=ucm.signed.group("A"))]
)
def test_the_slopes_of_a_loss_are_the_derivatives_of_its_value(loss: Any) -> None:
    """Of weighted samples, and 0 for samples outside of the class or group of a loss."""
    rng = np.random.default_rng(0)
    y, groups = np.tile([1.0, -1.0], 10), np.repeat(["A", "B"], 10)
    data = bind(rng.standard_normal((20, 2)), y, (2.0, 0.5), np.linspace(1.0, 3.0, 20), groups)
    t, h = 2.0 * rng.standard_normal(20), 1e-6

    def value(margin: np.ndarray) -> float:
        return loss.value(margin, data.y, data.weights, data.groups)

    slopes = [(value(t + h * e) - value(t - h * e)) / (2.0 * h) for e in np.eye(20)]
    assert_allclose(loss_slopes(loss + ucm.L2(), data, t), slopes, atol=1e-7)


@pytest.mark.parametrize(
    ("penalty", "slope"),
    [
        (0.5 * ucm.L1(), 0.5),
        (3.0 * ucm.L1(), 3.0),
        (0.7 * ucm.L2(), 1.4),
        (1.2 * ucm.L2(), 2.4),
        (0.3 * ucm.L1() + 0.6 * ucm.L2(), 1.5),
    ],
    ids=repr,
)
def test_two_samples_at_the_kink_of_the_hinge(penalty: Any, slope: float) -> None:
    """At w = 1 the slopes of the hinge in (-1, 0), equal and with the sum -slope, are -slope / 2 each."""
    data = bind(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    found = strict_local_minimum(ucm.Hinge() + penalty, data, np.ones(1), 0.0)
    assert (found is None) == (slope < 2.0)


def test_concave_kinks_are_examined_in_all_combinations() -> None:
    """Two samples lie at the concave kink of the ramp, -0.25. The objective falls along some direction, but
    not with the left slope of both, nor with the right slope of both."""
    X, y = np.array([[0.5], [-0.5], [-0.25], [0.25]]), np.array([1.0, -1.0, 1.0, -1.0])
    model, w = ucm.Ramp(0.5) + 0.2 * ucm.L1(), np.ones(1)
    turn = np.linspace(0.0, 2.0 * np.pi, 100)
    near = [value(model, X, y, w + 1e-3 * np.cos(a), 1e-3 * np.sin(a)) for a in turn]
    assert min(near) < value(model, X, y, w, 0.0) - 1e-4
    assert strict_local_minimum(model, bind(X, y), w, 0.0) is not None


@pytest.mark.parametrize(("lam", "proven"), [(1e-2, True), (1e-5, False)])
def test_a_kink_far_below_the_largest_slope_is_none(lam: float, proven: bool) -> None:
    """The penalty alone keeps the weight of a constant feature at 0; the largest slope is at a kink too."""
    data = bind(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0]))
    model = ucm.Hinge() + lam * ucm.L1()
    assert (strict_local_minimum(model, data, np.array([1.0, 0.0]), 0.0) is None) == proven


def test_the_rank_does_not_depend_on_the_lengths_of_rows() -> None:
    assert row_rank(np.array([[1e-9, 0.0], [0.0, 1e9], [0.0, 0.0]])) == 2
    assert row_rank(np.array([[1.0, 1.0], [2.0, 2.0 + 1e-12]])) == 1


@pytest.mark.parametrize(
    ("model", "w", "affine"),
    [
        (ucm.Ramp(0.5) + ucm.L2(), -0.25, False),  # the kink of the subtracted hinge
        (ucm.Ramp(0.5) + ucm.L2(), 0.25, True),
        (ucm.Hinge() + ucm.CappedL1(1.0) + ucm.CappedL1(2.0), 1.0, False),  # the kink of one penalty of two
        (ucm.Hinge() + ucm.CappedL1(1.0) + ucm.CappedL1(2.0), 1.5, True),
        (ucm.Hinge() + ucm.ExpL0(1.0), 1.0, False),  # curved
    ],
)
def test_a_critical_point_is_local_where_the_subtracted_part_is_affine(
    model: Any, w: float, affine: bool
) -> None:
    data = bind(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    assert is_local(model, data, np.array([w]), 0.0) == affine
