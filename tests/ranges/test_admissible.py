"""Admissible intervals against brute force, other programs, and the solver itself."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from scipy import sparse
from scipy.optimize import brentq, linprog
from typed import untyped

import ucm
from ucm import Param, neg, pos, signed
from ucm.data.bound_data import Data, bind
from ucm.errors import CompositionError, EmptySetError
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer
from ucm.language.robust import RobustMargin, as_model
from ucm.ranges.interval import Interval
from ucm.ranges.parameter_range import (
    as_size,
    grows_with,
    size_of,
    smallest_nonempty,
)
from ucm.ranges.zero_entry import contains_zero, forms_of, zero_entry

LINE_X = np.array([[0.0], [2.0], [1.0], [3.0]])
LINE_Y = np.array([-1.0, -1.0, 1.0, 1.0])


def one(model: Any, X: Any, y: Any) -> Interval:
    found = ucm.admissible(model, X, y)
    assert len(found) == 1
    return next(iter(found.values()))


# --- four points --------------------------------------------------------------------------------
def meet_on_a_line(cap: float) -> bool:
    """Whether the reduced hulls of {0, 2} and {1, 3} meet: intervals, by hand."""
    low_cap = min(cap, 1.0)
    negative = (2.0 * (1.0 - low_cap), 2.0 * low_cap)
    positive = (1.0 + 2.0 * (1.0 - low_cap), 1.0 + 2.0 * low_cap)
    return positive[0] <= negative[1]


def test_nu_on_four_points() -> None:
    found = one(ucm.models.nu_svm(0.8), LINE_X, LINE_Y)
    cap: Any = brentq(lambda c: 0.5 - meet_on_a_line(c), 0.5, 1.0)
    assert found.lower == pytest.approx(2 / (4 * cap), abs=1e-6)
    assert found.upper == pytest.approx(1.0, abs=1e-9)
    assert found.upper_closed and not found.lower_closed
    assert "separates" in found.how and "closed form" in found.how
    assert found.upper in found and found.lower not in found and 0.5 not in found


@pytest.mark.parametrize("seed", [0, 1])
def test_classes_apart_in_directions_without_variance(seed: int) -> None:
    """The covariances of 30 samples have rank 28, so that a w separates the means at every size."""
    X = np.random.default_rng(seed).multivariate_normal(np.zeros(31), np.diag(0.7 ** np.arange(31)), size=30)
    found = one(ucm.models.mm_mpm(0.5), X, np.resize([1, 1, -1], 30))
    assert (found.lower, found.upper) == (0.0, math.inf) and "never enters" in found.how


def test_operands_that_meet_at_every_size() -> None:
    """A ball of 1e5 times the length of the samples meets a ball of any radius."""
    X, y = 1e-8 * np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([-1, -1, 1, 1])
    found = one((ucm.Ball(pos.mean, Param("r", 1e-8)) & ucm.Ball(neg.mean, 0.01)) - ucm.Hull(neg), X, y)
    assert found.lower == 0.0 and found.lower_closed and "not empty at any size" in found.how
    assert found.upper == pytest.approx(4.5e-8, rel=1e-4)


def test_kappa_on_four_points() -> None:
    # means 2 and 1, variances 1 and 1
    found = one(ucm.models.mm_mpm(0.2), LINE_X, LINE_Y)
    assert (found.lower, found.lower_closed) == (0.0, True)
    assert found.upper == pytest.approx(0.5, abs=1e-7) and not found.upper_closed
    assert one(ucm.models.mm_fda(0.2), LINE_X, LINE_Y).upper == pytest.approx(1 / math.sqrt(2), abs=1e-7)
    ball = ucm.Ball(pos.mean - neg.mean, Param("r", 0.1))
    assert one(ball, LINE_X, LINE_Y).upper == pytest.approx(1.0, abs=1e-7)


def test_weight_balls_on_four_points() -> None:
    """q = (1/2 - a, a) on {0, 2} and (1/2 - b, b) on {1, 3}: x = 1/2 + 2b - 2a, on a grid."""
    grid = np.linspace(0.0, 0.5, 501)
    a, b = np.meshgrid(grid, grid)
    joint = np.stack([0.5 - a, a, 0.5 - b, b])
    touching = np.abs(0.5 + 2 * b - 2 * a) < 1e-9
    l2 = np.sqrt((joint**2).sum(0))[touching].min()
    found = one(ucm.models.l2_nu_svm(0.6), LINE_X, LINE_Y)
    assert found.upper == pytest.approx(l2, abs=1e-4) and not found.upper_closed
    assert found.lower == pytest.approx(0.5) and found.lower_closed
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(joint > 0, joint * np.log(4 * joint), 0.0).sum(0)[touching].min()
    found = one(ucm.models.kl_svm(0.9), LINE_X, LINE_Y)
    assert found.lower == pytest.approx(math.exp(-kl), abs=1e-4) and not found.lower_closed
    assert found.upper == pytest.approx(1.0) and found.upper_closed
    cap = one(ucm.Hull(signed, weights=ucm.CappedSimplex(Param("cap", 0.3))), LINE_X, LINE_Y)
    assert cap.lower == pytest.approx(0.25) and cap.upper == pytest.approx(0.375, abs=1e-7)


def as_sizes(model: RobustMargin, data: Data, name: str) -> tuple[bool, Any, float]:
    """Whether U grows with the parameter, the model by its size, and the smallest size."""
    grows = grows_with(model, data, name)
    assert isinstance(grows, bool)

    def at(t: float) -> RobustMargin:
        return model.with_params(**{name: as_size(grows, t)})

    present = as_size(grows, model.params()[name])
    return grows, at, smallest_nonempty(at, data, present, name, Monitor())[0]


@pytest.mark.parametrize("case", ["iris nu", "iris mpm", "breast_cancer nu", "breast_cancer l2"])
def test_both_proofs_by_hand(case: str) -> None:
    """Before the end a w with a positive support, computed from the samples; behind it weights by a linear
    or conic program of their own. Some tens of passes."""
    name, kind = case.split()
    X, y = load(name)
    model = as_model(MODELS[kind], "")
    (parameter,) = model.params()
    data, monitor = bind(X, y), Monitor()
    grows, at, empty = as_sizes(model, data, parameter)
    found = zero_entry(forms_of(at, data), empty, data.scale, monitor)
    assert found.proven and found.upper - found.lower <= 1.01e-6 * found.lower
    assert monitor.passes <= 250
    before = ucm.solve(at(found.lower * (1 - 1e-6)), X, y, tol=1e-4)
    assert before.w.any() and before.certificate.primal < 0.0
    if kind != "mpm":
        q = cp.Variable(y.size)
        cap = found.upper * (1 + 1e-9) * (1 if grows else 2 / y.size)
        meet = [
            (X * y[:, None]).T @ q / data.scale == 0,
            q >= 0,
            q[y > 0].sum() == 1,
            q[y < 0].sum() == 1,
        ]
        meet += [q <= cap] if kind == "nu" else [cp.norm(q) <= 2 * cap]
        problem = cp.Problem(cp.Minimize(0), meet)
        problem.solve(solver=cp.CLARABEL)
        assert problem.status in ("optimal", "optimal_inaccurate")


class SizeAsVariable(ucm.extend.Scope):
    """The scope in which the only size with a parameter is a variable."""

    def __init__(self, unit: float) -> None:
        self.t = unit * cp.Variable(nonneg=True)

    def of(self, x: Any, signed: bool = False) -> Any:
        if not isinstance(x, ucm.extend.Size):
            return ucm.extend.value(x)
        return self.t if isinstance(x.declared, Param) else x.number


def entry_by_program(model: RobustMargin, data: Data, name: str) -> float:
    """The parameter at the least size for which 0 lies in U, by CVXPY; NaN where it is in no U."""
    size = size_of(model, data, name)
    assert not isinstance(size, str)
    scope = SizeAsVariable(size.number)
    x, constraints = model.set.cvxpy(data, scope)
    problem = cp.Problem(cp.Minimize(scope.t / size.number), [*constraints, x / data.scale == 0])
    linear = problem.is_lp()
    options: Any = {"scipy_options": {"method": "highs-ds"}} if linear else {}
    problem.solve(solver=cp.SCIPY if linear else cp.CLARABEL, **options)
    found = problem.status in ("optimal", "optimal_inaccurate")
    return size.inverse(max(float(scope.t.value), 0.0)) if found else math.nan


@pytest.mark.parametrize("seed", range(6))
def test_the_end_by_a_program_of_its_own(seed: int) -> None:
    """The size as a variable in CVXPY, over random samples: dense or sparse, with constant and repeated
    features, of any scale."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(20, 60)), int(rng.integers(1, 6))
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    X = (rng.standard_normal((m, n)) + 0.5 * y[:, None]) * 10.0 ** rng.integers(-3, 4)
    if seed % 2:
        X = np.hstack([X, X[:, :1], np.ones((m, 1))])
    for model in (*MODELS.values(), ucm.RobustMargin(ucm.models.nu_svm(0.5), 1.0)):
        robust = as_model(model, "")
        (parameter,) = robust.params()
        data = bind(sparse.csr_matrix(X) if seed > 2 else X, y)
        grows, at, empty = as_sizes(robust, data, parameter)
        found = zero_entry(forms_of(at, data), empty, data.scale, Monitor())
        end = entry_by_program(robust, data, parameter)
        program = math.inf if math.isnan(end) else as_size(grows, end)
        assert found.proven, model
        if math.isinf(program) or program > 1e6:
            assert math.isinf(found.lower)
        else:
            assert found.lower == pytest.approx(program, rel=1e-5)


# --- against other computations -----------------------------------------------------------------
def minimal_nu(X: np.ndarray, y: np.ndarray) -> float:
    """Equation (30) of Barbero, Takeda and Lopez (2015) as `linprog` takes it."""
    m, n = X.shape
    cost = np.append(np.zeros(m), 1.0)
    equal = np.hstack([np.vstack([(y[:, None] * X).T, y > 0, y < 0]), np.zeros((n + 2, 1))])
    caps = np.hstack([np.eye(m), -np.ones((m, 1))])
    result = linprog(cost, caps, np.zeros(m), equal, np.append(np.zeros(n), [1.0, 1.0]))
    return 2.0 / (m * result.x[-1]) if result.status == 0 else 0.0


@pytest.mark.parametrize("name", ["iris", "breast_cancer", "wine"])
def test_nu_by_another_linear_program(name: str) -> None:
    X, y = load(name)
    found = one(ucm.models.nu_svm(0.5), X, y)
    assert found.lower == pytest.approx(minimal_nu(X, y), abs=1e-5)
    assert found.upper == pytest.approx(2 * min((y > 0).sum(), (y < 0).sum()) / y.size)
    if name == "wine":
        assert found.lower == 0.0 and "at every size" in found.how


MODELS = {
    "nu": ucm.models.nu_svm(0.6),
    "mpm": ucm.models.mm_mpm(0.3),
    "fda": ucm.models.mm_fda(0.3),
    "l2": ucm.models.l2_nu_svm(0.11),
    "kl": ucm.models.kl_svm(0.8),
    "coherent mpm": ucm.models.coherent_mm_mpm(0.3),
    "coherent fda": ucm.models.coherent_mm_fda(0.3),
    "eta": ucm.ReducedHull(pos, eta=Param("eta", 0.03)) - ucm.ReducedHull(neg, eta=Param("eta", 0.03)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_solver_agrees_on_both_sides_of_both_ends(name: str) -> None:
    X, y = load("iris")
    model = MODELS[name]
    found = one(model, X, y)
    (parameter,) = model.params()

    def outcome(value: float) -> str:
        try:
            return ucm.solve(model.with_params(**{parameter: value}), X, y, solver="ssnal").status
        except EmptySetError:
            return "empty"

    assert outcome(found.middle) == "optimal" and found.middle in found
    width = found.upper - found.lower
    zero, empty = (found.upper, found.lower) if found.lower_closed else (found.lower, found.upper)
    inward = math.copysign(1e-3 * width, found.middle - zero)
    assert outcome(zero + inward) == "optimal"
    assert outcome(zero - inward) == "zero_in_set"
    assert outcome(empty - inward) == "optimal" and outcome(empty) == "optimal"
    if empty > 0.0:
        assert outcome(empty + inward) == "empty"


def test_the_end_by_bisection_with_the_solver() -> None:
    X, y = load("iris")
    for model, low, high in (
        (ucm.models.nu_svm(0.6), 0.1, 0.9),
        (ucm.models.mm_fda(0.1), 3.0, 0.1),
    ):
        (name,) = model.params()
        end = one(model, X, y)
        end = end.upper if name == "kappa" else end.lower
        middle = low
        for _ in range(22):
            middle = 0.5 * (low + high)
            # within 1e-8 of the end rounding leaves a relative gap of some 1e-6
            sol = ucm.solve(model.with_params(**{name: middle}), X, y, solver="ssnal", tol=1e-4)
            inside = sol.status == "zero_in_set"
            low, high = (middle, high) if inside else (low, middle)
        assert end == pytest.approx(middle, rel=2e-5)


def test_kappa_of_mm_fda_in_closed_form() -> None:
    X, y = load("breast_cancer")
    d = X[y > 0].mean(0) - X[y < 0].mean(0)
    S = np.cov(X[y > 0].T, bias=True) + np.cov(X[y < 0].T, bias=True)
    found = one(ucm.models.mm_fda(0.1), X, y)
    assert found.upper == pytest.approx(math.sqrt(d @ np.linalg.solve(S, d)), rel=1e-7)


# --- special cases ------------------------------------------------------------------------------
def test_an_ellipsoid_that_shrinks_to_a_point_of_a_hull_has_the_lower_end_zero() -> None:
    X, y = load("wine")
    U = (ucm.Ellipsoid(pos.mean, pos.cov, Param("kappa", 0.3)) & ucm.Hull(pos)) - neg.mean
    found = one(U, X, y)
    assert found.lower == 0.0 and found.lower_closed
    assert ucm.solve(U.with_params(kappa=0.0), X, y).objective == pytest.approx(
        ucm.solve(ucm.Point(pos.mean - neg.mean), X, y).objective, rel=1e-5
    )


def test_an_interval_without_an_upper_end_is_infinite() -> None:
    # constant first feature per class: the difference of means leaves the range of the covariances
    X = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.5], [-1.0, 2.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    for model in (ucm.models.mm_mpm(0.1), ucm.models.mm_fda(0.1)):
        found = one(model, X, y)
        assert found.upper == math.inf and found.middle == 1.0 and 1e9 in found
        assert "at every size" in found.how
    found = one(ucm.models.kl_svm(0.5), X, y)
    assert found.lower == 0.0 and 1e-9 in found and 0.0 not in found
    found = one(ucm.models.l2_nu_svm(0.8), X, y)
    assert found.upper == math.inf and found.lower == pytest.approx(0.5)


def test_a_zero_covariance_leaves_the_distance_of_the_means() -> None:
    X, y = np.array([[1.0], [1.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
    assert one(ucm.models.mm_fda(0.1), X, y).upper == math.inf
    sol = ucm.solve(ucm.models.mm_mpm(3.0), X, y)
    assert sol.status == "optimal" and sol.objective == pytest.approx(-2.0)


def test_a_model_without_admissible_values_says_so() -> None:
    X = np.array([[1.0], [2.0], [1.0], [2.0]])
    found = one(ucm.models.nu_svm(0.5), X, LINE_Y)
    assert found.empty and not any(v in found for v in (0.0, 0.5, found.lower, found.upper))
    sol = ucm.solve(ucm.models.nu_svm(0.5), X, LINE_Y, solver="ssnal")
    assert sol.status == "zero_in_set" and "no value of nu works" in sol.message


def test_several_parameters_one_at_a_time() -> None:
    X, y = load("iris")
    model = ucm.models.biased_l2_nu_svm(0.16, 0.15)
    found = ucm.admissible(model, X, y)
    assert list(found) == ["kappa_pos", "kappa_neg"]
    for name, interval in found.items():
        assert interval.lower == pytest.approx(1 / math.sqrt(50))
        at_end = model.with_params(**{name: interval.upper * 1.001})
        before = model.with_params(**{name: interval.upper * 0.999})
        assert ucm.solve(at_end, X, y, solver="ssnal").status == "zero_in_set"
        assert ucm.solve(before, X, y).status == "optimal"


def test_parameters_that_set_no_size_say_so() -> None:
    X, y = load("iris")
    scaled = ucm.admissible(Param("c", 2.0) * ucm.Hull(signed), X, y)["c"]
    assert (scaled.lower, scaled.upper) == (-math.inf, math.inf) and "scales a set" in scaled.how
    mixed = ucm.Hull(pos, weights=ucm.NormBall(Param("k", 0.3))) - ucm.Ball(neg.mean, Param("k", 0.3))
    assert "k" in ucm.admissible(mixed, X, y)
    assert ucm.admissible(ucm.Hull(pos) - ucm.Hull(neg), X, y) == {}
    with pytest.raises(CompositionError, match="expected an uncertainty set"):
        untyped.admissible(ucm.NormBall(Param("k", 1)), X, y)


def test_one_of_two_parameters_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other keeps its interval; where none has an answer the error is raised."""
    X, y = load("iris")
    model = ucm.models.biased_l2_nu_svm(0.4, 0.4)
    every = ucm.admissible(model, X, y)
    lost = {"kappa_pos"}

    def interval_of(declared: Any, data: Any, name: str, time_limit: float) -> Any:
        if name in lost:
            raise ucm.SolverError(f"no end of {name}")
        return every[name]

    monkeypatch.setattr("ucm.ranges.relative_sizes.interval_of", interval_of)
    found = ucm.admissible(model, X, y)
    assert (found["kappa_pos"].lower, found["kappa_pos"].upper) == (-math.inf, math.inf)
    assert "no end of kappa_pos" in found["kappa_pos"].how and found["kappa_neg"] == every["kappa_neg"]
    lost.add("kappa_neg")
    with pytest.raises(ucm.SolverError, match="no end of kappa_pos"):
        ucm.admissible(model, X, y)


def test_factors_of_the_loss_of_a_ball_are_no_size() -> None:
    X = np.random.default_rng(0).standard_normal((60, 3))
    y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    for model in (
        ucm.models.l2_nu_svm(nu=0.5),
        ucm.models.biased_l2_nu_svm(nu_pos=0.5, nu_neg=0.9),
    ):
        found = ucm.admissible(model, X, y)
        assert found and all("factor of the loss" in interval.how for interval in found.values())


@pytest.mark.parametrize(("p", "nu"), [(2.0, 0.5), (3.0, 0.3)])
def test_the_factor_of_a_loss_at_which_its_bound_of_the_norm_ends(p: float, nu: float) -> None:
    """The problem without the bound has a w of length lam there."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0.0, 1.0, -1.0)
    loss = ucm.Hinge(p) / Param("nu", nu)
    found = one(ucm.Hull(signed, weights=ucm.LossBall(loss, lam=1.0)), X, y)
    w, b, rho = cp.Variable(3), cp.Variable(), cp.Variable()
    mean = cp.sum(cp.power(cp.pos(rho - cp.multiply(y, X @ w + b)), p)) / 60
    cp.Problem(cp.Minimize(mean / found.lower - rho)).solve(solver="CLARABEL")
    assert w.value is not None and np.linalg.norm(w.value) == pytest.approx(1.0, rel=1e-3)
    assert found.upper == math.inf


def test_a_parameter_beside_an_intersection_keeps_its_own_interval() -> None:
    meet = ucm.Ball(pos.mean, 1.0) & ucm.Hull(pos)
    X, y = ucm.datasets.load("wine")
    (found,) = ucm.admissible(meet - ucm.ReducedHull(neg, nu=Param("nu", 0.6)), X, y).values()
    assert found.lower == 0.0
    assert found.upper == pytest.approx(2.0 * np.mean(y < 0))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_end_of_an_intersection_is_that_of_the_ellipsoid_that_binds(scale: float) -> None:
    """The mean of one class lies in the hull of the other one, at its distance by the covariance."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 20)
    X = rng.standard_normal((40, 2)) + 0.2 * y[:, None]
    apart = X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
    expected = math.sqrt(apart @ np.linalg.solve(np.cov(X[y > 0].T, bias=True), apart))
    kappa = Param("kappa", 0.5 * expected)
    found = one((ucm.Ellipsoid(pos.mean, pos.cov, kappa) & ucm.Hull(pos)) - neg.mean, scale * X, y)
    assert found.upper == pytest.approx(expected, rel=1e-5)


def test_a_solver_that_answers_nothing_of_use_proves_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Centres of the domains; of one class alone, at 0, with the weights 0 of the other one."""
    factors = [1.0, 1.0]

    class Idle(ucm.solvers.APG):
        def solve(self, form: Any, monitor: Any, start: Any = None) -> Answer:
            centers = [b.domain.center(b.map.shape[1]) for b in form.blocks]
            return Answer([factor * q for factor, q in zip(factors, centers, strict=True)])

    monkeypatch.setattr("ucm.ranges.zero_entry._SOLVERS", (Idle(), Idle()))
    data = bind(*load("iris"))
    at = forms_of(lambda t: as_model(ucm.ReducedHull(pos, eta=t) - ucm.ReducedHull(neg, eta=t), ""), data)
    found = zero_entry(at, 0.05, data.scale, Monitor())
    assert not found.proven and math.isinf(found.upper) and found.lower < 1.0
    factors[1] = 0.0
    apart = forms_of(lambda _: as_model(ucm.Hull(pos) - ucm.Hull(neg), ""), bind(LINE_X[:2], -LINE_Y[1:3]))
    form = apart(0.0)
    assert form is not None and not form.matvec([np.ones(1), np.zeros(1)]).any()
    assert not contains_zero(form, 1.0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("cap", [0.7, 0.8])
def test_whether_a_set_contains_0_does_not_depend_on_the_scale(scale: float, cap: float) -> None:
    hulls = ucm.ReducedHull(pos, eta=cap) - ucm.ReducedHull(neg, eta=cap)
    form = forms_of(lambda _: as_model(hulls, ""), bind(scale * LINE_X, LINE_Y))(0.0)
    assert form is not None and contains_zero(form, scale) == meet_on_a_line(cap)


@pytest.mark.parametrize("eta", [0.01, 0.5])
def test_the_least_cap_at_which_a_reduced_hull_meets_a_ball(eta: float) -> None:
    """From values of both sides of the end; at the first no weights of sum 1 have the cap."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 10)
    X = rng.standard_normal((20, 2)) + 1.5 * y[:, None]
    corner = X[:10].max(axis=0)
    found = one((ucm.ReducedHull(pos, eta=Param("eta", eta)) & ucm.Ball(corner, 1.0)) - neg.mean, X, y)
    q = cp.Variable(10, nonneg=True)
    meet = [cp.sum(q) == 1, cp.norm(X[:10].T @ q - corner) <= 1.0]
    least = cp.Problem(cp.Minimize(cp.max(q)), meet).solve(solver="CLARABEL")
    assert found.lower == pytest.approx(least, rel=1e-5) and least > 0.2


def test_intersections_that_never_meet() -> None:
    X, y = load("iris")
    apart = ucm.Ball([50.0, 0.0], Param("r", 0.5)) & ucm.Point([0.0, 0.0])
    found = one(apart, X, y)
    assert found.empty or found.lower == pytest.approx(50.0, rel=1e-6)
    never = (ucm.Ball([50.0, 0.0], 1.0) & ucm.Point([0.0, 0.0])) + ucm.Ball(0, Param("r", 0.5))
    with pytest.raises(EmptySetError, match="empty for every r"):
        ucm.admissible(never, X, y)


def test_more_features_than_samples() -> None:
    X, y = load("digits")
    X, y = X[:30], y[:30]
    found = one(ucm.models.nu_svm(0.5), X, y)
    assert found.lower == minimal_nu(X, y) == 0.0
    for model in (ucm.models.mm_mpm(0.5), ucm.models.mm_fda(0.5), ucm.models.l2_nu_svm(0.3)):
        assert one(model, X, y).upper == math.inf
    # one constant more on the diagonal, and the means are within reach
    shape = pos.cov + neg.cov + 0.01 * np.eye(64)
    S = np.cov(X[y > 0].T, bias=True) + np.cov(X[y < 0].T, bias=True) + 0.01 * np.eye(64)
    d = X[y > 0].mean(0) - X[y < 0].mean(0)
    found = one(ucm.Ellipsoid(pos.mean - neg.mean, shape, Param("kappa", 0.5)), X, y)
    assert found.upper == pytest.approx(math.sqrt(d @ np.linalg.solve(S, d)), rel=1e-6)


def test_every_named_model_has_an_interval() -> None:
    X, y = load("breast_cancer")
    for make, arguments in itertools.chain(
        ((getattr(ucm.models, n), (0.2,)) for n in ("nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm",
                                                   "coherent_mm_mpm", "coherent_mm_fda")),
        [(ucm.models.biased_l2_nu_svm, (0.2, 0.2))],
    ):  # fmt: skip
        model = make(*arguments)
        for name, interval in ucm.admissible(model, X, y).items():
            assert 0.0 <= interval.lower < interval.upper
            assert interval.lower_closed != interval.upper_closed
            assert str(interval).startswith(interval.bounds) and interval.how
            fitted = ucm.solve(model.with_params(**{name: interval.middle}), X, y)
            assert fitted.status in ("optimal", "zero_in_set")


def test_ends_and_middle_of_an_interval() -> None:
    closed, opened = (
        Interval(0.25, 1.0, "", lower_closed=True),
        Interval(0.25, 1.0, "", upper_closed=True),
    )
    assert 0.25 in closed and 1.0 not in closed and 0.25 not in opened and 1.0 in opened
    assert str(closed) == "[0.25, 1)  " and opened.bounds == "(0.25, 1]"
    assert closed.middle == 0.625 and Interval(0.3, math.inf, "").middle == pytest.approx(0.45)


def _both(**size: Any) -> Any:
    return ucm.ChiSquare(pos, **size) - ucm.ChiSquare(neg, **size)


def test_an_end_next_to_that_of_the_range_is_found() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 20)
    X = rng.standard_normal((40, 3)) + 0.6 * y[:, None]
    level = one(_both(level=Param("a", 0.6)), X, y).upper
    rho = one(_both(rho=Param("a", 0.06)), X, y).upper
    assert level < 1.0
    assert NormalDist().inv_cdf(level) ** 2 / 20 == pytest.approx(rho, rel=1e-5)


def test_a_domain_without_bounds_fixes_no_mass() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 20)
    X = rng.standard_normal((40, 3)) + 0.8 * y[:, None]
    eta = Param("eta", 0.1)
    hulls = ucm.ReducedHull(pos, eta=eta) - ucm.ReducedHull(neg, eta=eta)
    for low in (-math.inf, 0.0):
        line = ucm.AffineImage(np.array([[1.0], [0.0], [0.0]]), ucm.Box(low, math.inf))
        assert 0.05 <= one(hulls + line, X, y).upper <= 1.0


def test_a_root_of_many_orders_below_the_bracket() -> None:
    """The centre of U is 0 to rounding, and the least worst case falls to it over hundreds of halves."""
    X = np.array([0.125, 0.125, 1.0, -0.875, -1.375, 0.5, 0.5, -2.125, -1.625, 1.75])[:, None]
    y = np.repeat([1.0, -1.0], 5)
    model = ucm.models.kl_svm(Param("alpha", 0.5, relative=True))
    interval = ucm.admissible(ucm.Hull(signed, weights=ucm.KLBall(Param("alpha", 0.6))), X, y)["alpha"]
    assert interval.lower == pytest.approx(1.0) == interval.upper
    assert untyped.solve(model, X, y).params["alpha"] == pytest.approx(1.0)


def test_a_factor_of_sets_around_0_is_a_size() -> None:
    """`A + kappa E` with 0 in E is an ellipsoid whose radius is kappa."""
    X, y = load("iris")
    kappa = Param("kappa", 0.2)
    around_0 = ucm.Ellipsoid([0.0, 0.0], pos.cov + neg.cov, 1.0)
    found = one(pos.mean - neg.mean + kappa * around_0, X, y)
    assert found.upper == pytest.approx(one(ucm.models.mm_fda(0.2), X, y).upper, rel=1e-6)
    assert found.lower == 0.0 and found.lower_closed
    both = one(pos.mean - neg.mean + 2 * kappa * around_0 + ucm.Ball(0, kappa), X, y)
    assert 0.0 < both.upper < 0.5 * found.upper
    moved = one(kappa * ucm.Point([1.0, 1.0]) + ucm.models.mm_fda(0.2), X, y)
    assert math.isinf(moved.lower) and "set without 0" in moved.how


def test_a_domain_without_a_size_has_no_interval() -> None:
    X, y = load("iris")

    class Layer(ucm.CappedSimplex):
        def size(self) -> Any:
            return None

    found = one(ucm.Hull(signed, weights=Layer(Param("cap", 0.3))), X, y)
    assert math.isinf(found.lower) and "Layer has the parameter cap and no size" in found.how


# --- bounds by coordinate -----------------------------------------------------------------------
S, R = Param("s", 0.5), np.array([0.1, 0.2, 0.3])
MEANS = np.array([1.0, -3.0, 2.0])


@pytest.mark.parametrize(
    ("box", "r"),
    [
        (ucm.Box(-S * R, S * R), R),
        (ucm.Box(-R * S, R * S), R),
        (ucm.Box(-(S * R), S * R), R),
        (ucm.Box(-2 * S * R, 2 * S * R), 2 * R),
        (ucm.Box(-S * R / 2, S / 2 * R), R / 2),
        (ucm.Box(-2 * S, S * 2), 2 * np.ones(3)),
        (ucm.Box(-S, S), np.ones(3)),
    ],
    ids=repr,
)
def test_a_box_about_the_difference_of_the_means_reaches_0_at_the_largest_ratio(box: ucm.Box, r: Any) -> None:
    X, y = np.array([MEANS / 2, -MEANS / 2]), np.array([1.0, -1.0])
    U = ucm.AffineImage(np.eye(3), box, pos.mean - neg.mean)
    found = one(U, X, y)
    assert found.lower == 0.0 and found.upper == pytest.approx((np.abs(MEANS) / r).max())


@pytest.mark.parametrize(
    "box",
    [ucm.Box(-2 * S * R, S * R), ucm.Box(-S, 2 * S), ucm.Box(-1.0, S * np.array([1.0, -1.0]))],
)
def test_a_box_whose_bounds_move_apart_in_two_ways_has_no_size(box: ucm.Box) -> None:
    assert box.size() is None


def test_a_mirrored_box_may_be_unbounded() -> None:
    q = cp.Variable(2)
    assert ucm.Box(-Param("s", math.inf), Param("s", math.inf)).cvxpy(q, math.inf) == []


# --- sizes of a reader's own classes ----------------------------------------------------------------
class Tail(ucm.extend.SimplexDomain):
    """The largest weight is 1 / (beta N)."""

    beta: ucm.extend.Scalar

    def bind(self, samples: Any) -> Any:
        return ucm.extend.Capped(self, samples, 1.0 / (ucm.extend.value(self.beta) * samples.total))

    def size(self) -> ucm.extend.Size:
        return ucm.extend.Size(self.beta, lambda beta: 1.0 / beta, lambda cap: 1.0 / cap)

    def inside(self, q: Any, size: Any, samples: Any) -> Any:
        return [samples.total * q <= size * samples.c]


class Zonotope(ucm.extend.Combination):
    """The sum of segments along the axes, whose parameter stands in sets that are no fields."""

    s: ucm.extend.Scalar

    def terms(self) -> Any:
        segments = (ucm.AffineImage(e[:, None], ucm.Box(-self.s, self.s)) for e in np.eye(3))
        return tuple((U, 1.0) for U in segments)


def test_own_sizes_are_told_apart_by_their_formulas() -> None:
    X, y = load("iris")
    b = Param("b", 0.3)
    balls, tails = ([ucm.Hull(S, weights=D(b)) for S in (pos, neg)] for D in (ucm.NormBall, Tail))
    for U in (balls[0] - tails[1], tails[0] - balls[1]):
        assert "one set larger and another one smaller" in one(U, X, y).how
    found, by_cvar = one(tails[0] - tails[1], X, y), one(ucm.CVaR(pos, b) - ucm.CVaR(neg, b), X, y)
    assert (found.lower, found.upper) == pytest.approx((by_cvar.lower, by_cvar.upper), rel=1e-9)
    model, data = as_model(tails[0] - tails[1], ""), bind(X, y)
    assert not isinstance(size_of(model, data, "b"), str)  # the functions of two calls of size() are equal
    unlike = as_model(ucm.ReducedHull(pos, eta=b) - ucm.Hull(neg, weights=ucm.NormBall(2.0 * b)), "")
    assert "different kinds" in str(size_of(unlike, data, "b"))
    twice = one(Hulls(Tail(2.0 * b)), X, y)
    assert (2.0 * twice.lower, 2.0 * twice.upper) == pytest.approx((found.lower, found.upper), rel=1e-6)


def Hulls(D: Any) -> Any:
    return ucm.Hull(pos, weights=D) - ucm.Hull(neg, weights=D)


def test_a_parameter_in_the_terms_of_a_combination() -> None:
    """It meets 0 where the box does: at the least largest deviation between points of both hulls."""
    rng = np.random.default_rng(5)
    y = np.repeat([1.0, -1.0], 10)
    X = 3.0 * y[:, None] + rng.standard_normal((20, 3))
    found = one(ucm.Hull(pos) - ucm.Hull(neg) + Zonotope(Param("s", 0.3)), X, y)
    p, q = cp.Variable(10, nonneg=True), cp.Variable(10, nonneg=True)
    apart = cp.norm_inf(X[:10].T @ p - X[10:].T @ q)
    expected = cp.Problem(cp.Minimize(apart), [cp.sum(p) == 1, cp.sum(q) == 1]).solve(solver="CLARABEL")
    assert found.lower == 0.0 and found.upper == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "lower", "upper", "closed"),
    [
        (lambda d: ucm.TotalVariation(pos, d) - ucm.TotalVariation(neg, d), 0.0, math.inf, False),
        (lambda d: ucm.ChiSquare(pos, level=d / 2) - ucm.ChiSquare(neg, level=0.6), 1.0, 2.0, False),
        (lambda d: ucm.TotalVariation(pos, 1 - d) - ucm.TotalVariation(neg, 0.1), 0.0, 1.0, True),
        (lambda d: ucm.ChiSquare(pos, level=d) - ucm.ChiSquare(neg, level=d), 0.5, 1.0, False),
        (lambda d: ucm.CVaR(pos, d) - ucm.CVaR(neg, d), 0.0, 1.0, True),
    ],
)
def test_an_interval_has_values_of_the_sets(make: Any, lower: float, upper: float, closed: bool) -> None:
    """The classes are far apart, so that 0 never enters."""
    y = np.repeat([1.0, -1.0], 8)
    X = 100.0 * y[:, None] + np.random.default_rng(0).standard_normal((16, 3))
    U = make(Param("d", 0.5 * min(upper, 1.0) + 0.4 * lower))
    found = one(U, X, y)
    assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=1e-9)
    assert (found.upper in found) == closed and found.gap == 0.0
    for fraction in (0.01, 0.5, 0.99):
        U.with_params(d=found.at(fraction))
        relative = ucm.solve(make(Param("d", fraction, relative=True)), X, y)
        assert relative.params["d"] == pytest.approx(found.at(fraction))


def test_a_whole_number_has_no_interval_but_values() -> None:
    X, y = load("iris")
    model = ucm.Logistic() + ucm.L2() + ucm.Cardinality(Param("k", 2))
    assert ucm.admissible(model, X, y)["k"].how == "k is a whole number; name its values"
    with pytest.raises(ucm.ParameterError, match=r"name its values, as param_range=\[1, 2, 3\]"):
        ucm.ClassifierCV(model).fit(X, y)
