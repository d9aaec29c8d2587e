"""Certificates: never negative for a point of U, never "optimal" for a wrong one."""

# pyright: reportReturnType=false
from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from catalogue import SETS
from conftest import Loader
from scipy.optimize import brentq
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from typed import known

import ucm
from ucm import neg, pos
from ucm.data.bound_data import bind
from ucm.errors import ConvergenceWarning, EmptySetError, SolverError
from ucm.evidence import reference
from ucm.evidence.certificate import bracket, certify, fault, interval, is_proven
from ucm.evidence.feasible_point import INSIDE, _jacobian, moved_inside
from ucm.evidence.reference import CvxpyResult, compared
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate
from ucm.forms.solver import Answer, Solver
from ucm.language.contracts import UncertaintySet
from ucm.language.robust import RobustMargin

MODELS = {
    "nu-SVM": ucm.models.nu_svm(0.85),
    "MM-MPM": ucm.models.mm_mpm(0.4),
    "MM-FDA": ucm.models.mm_fda(0.4),
    "l2 nu-SVM": ucm.models.l2_nu_svm(0.11),
    "biased": ucm.models.biased_l2_nu_svm(0.15, 0.15),
    "KL": ucm.models.kl_svm(0.85),
    "coherent MM-MPM": ucm.models.coherent_mm_mpm(0.4),
    "coherent MM-FDA": ucm.models.coherent_mm_fda(0.4),
    "cut weights": ucm.Hull(pos, weights=ucm.NormBall(0.15) & ucm.CappedSimplex(0.03))
    - ucm.Ellipsoid(neg.mean, neg.cov, 0.3),
}


class Fixed(Solver[MinNorm]):
    """Answers with a given point, whatever the form; `spoil` changes a proper answer first."""

    name = "fixed"

    def __init__(self, spoil: Any = None) -> None:
        self.spoil = spoil

    def refuse(self, form: Any) -> str | None:
        return None

    def solve(self, form: Any, monitor: Any, start: Any = None) -> Answer:
        answer = ucm.solvers.Conic("clarabel").solve(form, monitor, start)
        return self.spoil(form, answer)


@pytest.mark.parametrize("name", MODELS)
def test_the_gap_bounds_the_error_of_every_point(name: str) -> None:
    """Points of U on the way to the best one: -norm <= optimum <= primal, the optimum by CVXPY."""
    X, y = load("iris")
    plan = ucm.compile(MODELS[name], X, y)
    sol = plan.solve()
    assert sol.status == "optimal" and sol.certificate.kind == "global"
    reference = plan.reference(scaled=True)
    reference.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert sol.objective == pytest.approx(reference.value, rel=1e-6)
    model = plan.model
    assert isinstance(model, RobustMargin)
    if plan.form.couplings:
        return
    start = plan.form.centers()
    for t in (0.0, 0.3, 0.9, 0.999, 1.0):
        q = [t * a + (1 - t) * b for a, b in zip(sol.answer.q, start, strict=True)]
        certificate, w, x, _ = certify(model, plan.data, q)
        assert certificate.violation <= 1e-12
        assert certificate.gap >= -1e-9 * abs(certificate.dual)
        assert certificate.dual == pytest.approx(-np.linalg.norm(x), rel=1e-14)
        assert certificate.dual <= reference.value * (1 - 1e-7)
        assert certificate.primal >= reference.value * (1 + 1e-7)
        assert np.linalg.norm(w) == pytest.approx(1.0)
        if t < 0.99:
            assert certificate.relative_gap > 1e-5


@pytest.mark.parametrize("U", SETS, ids=repr)
def test_weak_duality_over_the_catalogue(U: UncertaintySet) -> None:
    rng = np.random.default_rng(0)
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    X = rng.standard_normal((9, 3)) + 3.0 * y[:, None]
    data = bind(X, y, subgroup=list("ABABABBAB"))
    image = U.lower(data)
    if image.couplings:
        return
    for norm in (1.0, 1.5, 2.0, np.inf):
        model = RobustMargin(U, norm)
        q = [b.domain.center(b.map.shape[1]) for b in image.blocks]
        w = rng.standard_normal(image.center.size)
        w /= np.linalg.norm(w, norm)
        certificate, chosen, *_ = certify(model, data, q, w)
        size = np.linalg.norm(image.center) + abs(certificate.dual) + 1.0
        assert certificate.gap >= -1e-9 * size
        if certificate.dual < 0.0:
            assert np.linalg.norm(chosen, norm) == pytest.approx(1.0)


SPOILED = {
    "the start": lambda form, answer: Answer(form.centers()),
    "half-way": lambda form, answer: Answer(
        [0.5 * (a + b) for a, b in zip(answer.q, form.centers(), strict=True)], answer.w
    ),
    "beyond the set": lambda form, answer: Answer(
        [a + 0.05 * (a - b) for a, b in zip(answer.q, form.centers(), strict=True)], answer.w
    ),
    "far outside": lambda form, answer: Answer([0 * a + 3.0 for a in answer.q], answer.w),
    "zero": lambda form, answer: Answer([0 * a for a in answer.q], answer.w),
    "another dual vector": lambda form, answer: Answer(form.centers(), -answer.w),
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("name", ["nu-SVM", "MM-MPM", "MM-FDA", "KL"])
def test_a_wrong_answer_is_never_optimal(name: str, how: str) -> None:
    X, y = load("iris")
    plan = ucm.compile(MODELS[name], X, y, solver=Fixed(SPOILED[how]))
    form, model = plan.form, plan.model
    assert isinstance(model, RobustMargin)
    blocks = plan.solver.solve(form, Monitor()).q
    if certify(model, plan.data, blocks)[0].violation > 1e-2:
        with pytest.raises(SolverError, match=r"answer in its domains .* got a relative violation of"):
            plan.solve()
        return
    if how == "beyond the set":  # so near that projections bring it back
        sol = plan.solve()
        assert sol.status == "optimal" and sol.certificate.violation <= 1e-12
        assert plan.verify().agrees
        return
    with pytest.warns(ConvergenceWarning, match=r"relative gap of .* and a violation of"):
        sol = plan.solve()
    assert sol.status not in ("optimal", "zero_in_set")
    assert not plan.verify().agrees


def test_a_wrong_multiplier_is_never_optimal() -> None:
    """Intersections: without its split, or with the opposite one, the gap stays open."""
    X, y = load("iris")
    U = MODELS["cut weights"]
    for factor, status in ((1.0, "optimal"), (0.0, "converged"), (-1.0, "converged")):

        def spoil(form: Any, answer: Answer, factor: float = factor) -> Answer:
            answer.multipliers = [factor * mu for mu in answer.multipliers]
            return answer

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            sol = ucm.solve(U, X, y, solver=Fixed(spoil))
        assert sol.status == status
        assert bool(caught) == (status != "optimal")
        assert sol.certificate.gap >= -1e-8


class Bent(ucm.extend.UncertaintySet):
    """A hull whose lowering is wrong by a factor; everything else is right."""

    hull: UncertaintySet
    factor: float

    def dimension(self, n: int | None) -> int | None:
        return n

    def infeasibility_reason(self, data: Any) -> str | None:
        return None

    def size(self, data: Any) -> None:
        return None

    def lower(self, data: Any) -> Any:
        return (self.factor * self.hull).lower(data)

    def evaluate(self, data: Any, q: Any) -> Any:
        # a lowering that also misleads the way back
        return (self.factor * self.hull).evaluate(data, q)

    def cvxpy(self, data: Any, scope: Any) -> Any:
        return self.hull.cvxpy(data, scope)

    def support(self, data: Any, d: Any, splits: Any) -> Any:
        return self.hull.support(data, d, splits)

    def formula(self, notation: Any) -> str:
        return self.hull.formula(notation)


@pytest.mark.parametrize("solver", ["ssnal", "apg", "clarabel"])
def test_a_wrong_lowering_is_caught(solver: str) -> None:
    X, y = load("wine")
    difference = ucm.Hull(pos) - ucm.Hull(neg)
    with pytest.raises(SolverError, match=r"contradicts the answer .* lowering of this set is wrong"):
        ucm.solve(Bent(difference, 0.9), X, y, solver=solver)
    with pytest.warns(ConvergenceWarning):  # too far away: the gap stays open
        assert ucm.solve(Bent(difference, 1.1), X, y, solver=solver).status != "optimal"
    assert ucm.solve(Bent(difference, 1.0), X, y, solver=solver).status == "optimal"


def test_a_point_outside_proves_nothing() -> None:
    """Raw features: blocks that missed their coupling by 6e-6 were said to prove -137.63 <= optimum <=
    -139.84; the optimum is -149.563."""
    X, y = load_breast_cancer(return_X_y=True)
    y = 2 * y - 1
    plan = ucm.compile(ucm.models.coherent_mm_mpm(1.0), X, y, solver="ssnal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        named = plan.solve()
    whole = ucm.solve(ucm.models.coherent_mm_mpm(1.0), X, y)
    for sol in (named, whole):
        certificate = sol.certificate
        assert certificate.dual - 1e-6 <= -149.563339 <= certificate.primal + 1e-6
        assert certificate.dual <= sol.objective <= certificate.primal + 1e-6
        assert certificate.relative_gap >= -1e-9 and certificate.violation <= 1e-9
    # under "auto" the next route goes on
    assert whole.status == "optimal" and whole.certificate.relative_gap <= 1e-6


RAW = {
    "mm_mpm": ucm.models.mm_mpm(0.5),
    "mm_fda": ucm.models.mm_fda(0.5),
    "coherent_mm_mpm": ucm.models.coherent_mm_mpm(1.0),
    "coherent_mm_fda": ucm.models.coherent_mm_fda(1.0),
    "nu_svm": ucm.models.nu_svm(0.3),
    "l2_nu_svm": ucm.models.l2_nu_svm(0.15),
    "kl_svm": ucm.models.kl_svm(0.5),
}


def raw(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of a set of scikit-learn, its features as they are."""
    if name == "diabetes":
        X, target = load_diabetes(return_X_y=True, scaled=False)
        return X, np.where(target > np.median(target), 1, -1)
    X, y = {"breast_cancer": load_breast_cancer, "wine": load_wine}[name](return_X_y=True)
    kept = y < 2
    return X[kept], 2 * y[kept] - 1


@pytest.mark.parametrize("tol", [1e-6, 0.2])
@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("data", ["breast_cancer", "wine", "diabetes"])
def test_statuses_on_raw_features_have_their_proof(data: str, name: str, tol: float) -> None:
    """Of 70 runs on raw sets 19 were "optimal" at relative gaps from 0.9 on: norms up to tol counted as 0."""
    X, y = raw(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sol = ucm.solve(RAW[name], X, y, tol=tol)
    certificate = sol.certificate
    assert certificate.relative_gap >= -1e-9
    if sol.status == "optimal":
        assert certificate.relative_gap <= tol and certificate.violation <= 1e-9
    elif sol.status == "zero_in_set":
        assert np.linalg.norm(sol.x) <= 1e-9 * sol.size and certificate.violation <= 1e-9
    else:
        assert data == "diabetes" and sol.objective > 0.0


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e5])
def test_coherent_sets_near_0_on_raw_features_are_proven(shift: float) -> None:
    """The sums that cancel in x leave 2e-12 of its norm: rounding, which took 0.06 to 0.98 of the gap."""
    X, y = raw("diabetes")
    sol = ucm.solve(ucm.models.coherent_mm_fda(1.0), X + shift, y)
    assert sol.status == "optimal" and sol.certificate.violation <= INSIDE
    assert sol.certificate.dual == pytest.approx(-0.0723252513, rel=1e-6)


def test_rounding_of_cancelling_sums_is_no_distance_and_more_is_one() -> None:
    """Two points of an intersection that differ by e, relative to the entries of the feature, at x near 0."""
    X = np.array([[1e3, 1.0], [1e3 + 1.0, 2.0], [1e3 - 1.0, 0.0], [1e3, 3.0]])
    data = bind(X, np.array([1, 1, -1, -1]))
    U = (ucm.Hull(pos) - ucm.Hull(neg)) & ucm.Ball([0.0, 0.0], 2.0)

    def violation(e: float, j: int) -> float:
        q, ball = np.array([0.5, 0.5]), np.array([1.0, 0.0]) + e * np.eye(2)[j] * data.sizes[j]
        return U.evaluate(data, iter([q, q, ball]))[1]

    for j in (0, 1):
        assert violation(4e-16, j) == 0.0 and violation(1e-14, j) <= 1e-11
        assert violation(1e-11, j) > INSIDE


@pytest.mark.parametrize("solver", ["auto", "apg"])
def test_a_small_distance_is_not_0_at_a_loose_tolerance(solver: str, shared_data: Loader) -> None:
    """Sonar, separable: the distance is 0.0249; "apg" said that 0 lies in the set at tol = 0.1."""
    X, y = shared_data("sonar")
    sol = ucm.solve(ucm.models.nu_svm(0.117), X, y, tol=0.1, solver=solver)
    assert sol.status == "optimal" and 0.0 <= sol.certificate.relative_gap <= 0.1
    assert sol.certificate.dual <= -0.0248759 <= sol.certificate.primal


@pytest.mark.parametrize("violation", [1e-6, 1e-9, INSIDE, 0.0])
def test_no_gap_below_rounding_is_printed(violation: float) -> None:
    """Bounds that cross: by more than the violation explains, by what it may, and by rounding."""
    found = interval(-1.0 - 1e-7, 1.0, violation, 1.0, wrong=fault("it"))
    assert found.primal == -1.0 - 1e-7 and found.dual == -np.inf and found.kind == "none"
    if violation <= INSIDE:
        rounded = interval(-1.0 - 1e-7, 1.0, violation, 1e8, wrong=fault("it"))
        assert rounded.relative_gap >= 0.0 and rounded.dual < -1.0 - 1e-7 < rounded.primal + 1e-7
        with pytest.raises(SolverError, match=r"contradicts the answer .* is wrong: please report it"):
            interval(-1.1, 1.0, violation, 1.0, wrong=fault("it"))


@pytest.mark.parametrize(("terms", "proven"), [(1e8, True), (0.0, False)])
def test_terms_that_cancel_explain_bounds_that_cross(terms: float, proven: bool) -> None:
    """The lowering misses U by 1e-7 of the norm: the rounding of terms of this size, or a wrong point."""
    data = bind(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    model = RobustMargin(Bent(ucm.Hull(pos) - ucm.Hull(neg), 1.0 - 1e-7))
    found = certify(model, data, [np.ones(1), np.ones(1)], terms=lambda: terms).certificate
    assert (found.kind == "global") == proven and found.gap >= 0.0


def test_a_point_slightly_outside_is_moved_into_the_set_and_0_needs_no_normal() -> None:
    data = bind(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    model = RobustMargin(ucm.Hull(pos) - ucm.Hull(neg))
    found = certify(model, data, [np.array([1.0 + 1e-6]), np.ones(1)]).certificate
    assert found.violation <= INSIDE and found.dual == pytest.approx(-2.0) == found.primal
    joint = RobustMargin(ucm.Hull(ucm.signed) - ucm.Point([1.0]))
    zero = certify(joint, data, [np.full(2, 0.5)])
    assert zero.certificate.primal == 0.0 == zero.certificate.gap and not zero.w.any()


@pytest.mark.parametrize("loss", ["Hinge", "SquaredHinge", "Logistic", "Exponential"])
@pytest.mark.parametrize("penalty", ["L2", "L1"])
def test_a_loss_and_a_penalty_are_never_bounded_below_0(loss: str, penalty: str) -> None:
    """The slopes at a bad w are a bad dual point: between it and 0 lies a better one."""
    X, y = load("wine")
    plan = ucm.compile(getattr(ucm, loss)() + 1e-3 * getattr(ucm, penalty)(), X, y)
    optimum = plan.solve().objective
    for w in (np.zeros(X.shape[1]), np.full(X.shape[1], 1e-3)):
        found = plan.certify(w=w, b=0.0)
        assert 0.0 <= found.dual <= optimum * (1.0 + 1e-5) and found.kind == "global"


def test_splits_close_the_gap_of_an_intersection_that_binds() -> None:
    X, y = load("iris")
    for name in ("coherent MM-MPM", "coherent MM-FDA", "cut weights"):
        plan = ucm.compile(MODELS[name], X, y)
        sol = plan.solve(tol=1e-8)
        assert sol.status == "optimal" and abs(sol.certificate.relative_gap) <= 1e-8
        splits = plan.form.splits(sol.answer)
        assert set(splits) == {c.path for c in plan.form.couplings}
    assert isinstance(plan.model, RobustMargin)
    blind = plan.model.set.support(plan.data, -sol.w, {})[0]
    assert blind - sol.objective > 1e-4  # "cut weights": both bounds are active


def test_sets_that_do_not_meet() -> None:
    X, y = load("iris")
    apart = ucm.Ball([0.0, 0.0], 1.0) & ucm.Ball([3.0, 0.0], 1.0)
    for solver in ("auto", "alm", "clarabel"):
        with pytest.raises(EmptySetError, match=r"Ball\(.*empty, .* Make one of the sets that meet larger"):
            ucm.solve(apart + ucm.Hull(pos), X, y, solver=solver)
    points = ucm.Point([1.0, 0.0]) & ucm.Point([1.0, 0.5])
    with pytest.raises(EmptySetError, match=r"its points lie 0\.5 apart"):
        ucm.solve(points, X, y)
    assert ucm.solve(ucm.Point([1.0, 0.0]) & ucm.Point([1.0, 0.0]), X, y).objective == -1.0
    with pytest.raises(EmptySetError):
        ucm.compile(apart + ucm.Hull(pos), X, y).verify()
    with pytest.raises(EmptySetError):
        ucm.Classifier(apart + ucm.Hull(pos)).fit(X, y)
    with pytest.raises(EmptySetError, match="nu must be at most"):
        ucm.compile(ucm.models.nu_svm(1.5), X, y)


def test_zero_in_the_set() -> None:
    X, y = load("iris")
    for model in (ucm.models.nu_svm(0.1), ucm.models.mm_mpm(5.0), ucm.models.coherent_mm_mpm(3.0)):
        plan = ucm.compile(model, X, y, solver="ssnal")
        sol = plan.solve()
        assert sol.status == "zero_in_set" and sol.objective == 0.0 and not sol.w.any()
        assert np.linalg.norm(sol.x) <= 1e-6 * sol.size and sol.certificate.violation <= 1e-6
        name, value = next(iter(plan.model.params().items()))
        assert f"{name} must lie in " in sol.message and f"now {value:g}" in sol.message
        assert plan.verify().agrees
    sol = ucm.solve(ucm.Ball(0, 1.0), X, y, solver="ssnal")
    assert sol.status == "zero_in_set" and "name its size with a Param" in sol.message


def test_a_certificate_prints_its_bounds() -> None:
    text = str(Certificate(-1.0, -1.1, 0.1, 0.1 / 1.1, 0.0))
    assert text == "global: -1.1 <= optimum <= -1, relative gap 0.091, violation 0"


def test_a_point_beside_two_discs_that_nearly_touch_is_none_of_both() -> None:
    """It misses each by 4.5e-6 and their lens by 3e-3, which the answer's own w proves."""
    far, thin = 3e-3, 1e-9
    centres = [np.array([side * (1.0 - thin), far]) for side in (1.0, -1.0)]
    U = ucm.Ball(centres[0], 1.0) & ucm.Ball(centres[1], 1.0)
    X, y = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -1.0])
    plan = ucm.compile(U, X, y, solver="ssnal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        answer = plan.solve().answer
    beside = Answer([-c for c in centres], answer.w, multipliers=answer.multipliers)
    proof = plan.lowering.certify(beside, 1e-6)
    assert proof.x is not None and proof.w is not None
    # the point of both that is nearest to it
    assert proof.certificate.violation <= 1e-9 and proof.x[1] >= 0.9 * far
    assert proof.certificate.primal <= -0.9 * far and proof.w.any()


def test_an_optimum_of_nothing_is_known_to_rounding() -> None:
    """The dual bound was 6e-33 above a primal value of 0."""
    X, y = np.array([[0.125], [-1.75], [0.75], [-0.625], [0.625]]), np.array([-1, -1, -1, -1, 1])
    model = ucm.LeastSquares(on=ucm.neg) + 0.001 * ucm.Lp(3) + 3 * ucm.GroupLasso([0.0])
    solution = ucm.solve(model, X, y)
    assert solution.status == "optimal" and solution.objective == 0.0 == solution.certificate.gap


@pytest.mark.parametrize("model", [ucm.models.mm_fda(2.0), ucm.models.enu_svm(0.2, norm=1)])
def test_bounds_in_the_span_of_a_flat_set_say_so(model: Any) -> None:
    """A constant feature: the direction orthogonal to U has the value 0, below both bounds."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(60, 2)), np.full(60, 1.5)])
    y = np.where(np.arange(60) < 30, 1.0, -1.0)
    plan = ucm.compile(model, X, y)
    solution = plan.solve()
    found = solution.certificate
    assert found.dual > 0.1 and plan.certify(w=np.array([0.0, 0.0, 1.0])).primal < 1e-9
    assert found.span == 2 and "; w in the span of U, of dimension 2" in str(found)
    assert "of the span of U" in found._repr_html_()
    whole = ucm.solve(model, X[:, :2], y).certificate
    assert whole.span is None and "span" not in str(whole)
    assert whole.primal == pytest.approx(found.primal, rel=1e-6)


@pytest.mark.parametrize("seed", [7, 12, 13])
def test_operands_of_an_intersection_agree_in_every_feature(seed: int) -> None:
    """Features from 1e-3 to 1e8: points of the operands, 1e-10 of their length apart but different in
    the small features, proved bounds above the optimum."""
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
    X = generator.standard_normal((30, 30)) + 0.3 * y[:, None]
    scales = 10.0 ** generator.uniform(-3.0, 8.0, 30)
    U = ucm.models.mm_fda(0.6) & (ucm.Hull(pos) - ucm.Hull(neg))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ucm.solve(U, X * scales, y)
    plus, minus = X[y > 0], X[y < 0]
    F = np.vstack([plus - plus.mean(0), minus - minus.mean(0)]) / np.sqrt(15.0)
    a, b, u = cp.Variable(15, nonneg=True), cp.Variable(15, nonneg=True), cp.Variable(30)
    z = plus.T @ a - minus.T @ b  # in units of the features
    same = plus.mean(0) - minus.mean(0) + F.T @ u == z
    unit = scales.max()
    problem = cp.Problem(
        cp.Minimize(cp.norm(cp.multiply(scales / unit, z))),
        [same, cp.norm(u) <= 0.6, cp.sum(a) == 1, cp.sum(b) == 1],
    )
    optimum = -unit * problem.solve(solver="CLARABEL")
    slack = 1e-5 * abs(optimum)
    certificate = found.certificate
    assert certificate.dual <= optimum + slack and optimum <= certificate.primal + slack


def disc(q: Any) -> list[Any]:
    return [cp.norm(q) <= 1.0]


def moved(U: UncertaintySet, perturb: Any) -> tuple[np.ndarray, np.ndarray]:
    """A block of U between two farthest points, perturbed, and the block that it is moved to."""
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    data = bind(np.random.default_rng(1).standard_normal((20, 3)) + 3.0 * y[:, None], y)
    form = MinNorm.of(U.lower(data), 2.0, data.stored, data.space)
    (_, one), (_, other) = (
        form.supports(form.rmatvec(d))[0] for d in (np.ones(3), np.array([-1.0, 0.0, 0.0]))
    )
    q = perturb(0.8 * one + 0.2 * other)
    x, violation = U.evaluate(data, iter([q]))
    found = moved_inside(U, data, ([q], x, violation))
    assert violation > 1e-5 and found is not None and found[2] <= INSIDE
    return q, found[0][0]


def test_weights_slightly_outside_are_projected() -> None:
    noise = 1e-4 * np.random.default_rng(0).standard_normal(10)
    q, p = moved(ucm.ReducedHull(pos, eta=0.3), lambda q: q + noise)
    s = brentq(lambda s: np.clip(q - s, 0.0, 0.3).sum() - 1.0, -1.0, 1.0, xtol=1e-15)
    np.testing.assert_allclose(p, np.clip(q - s, 0.0, 0.3), atol=1e-12)


def test_a_point_far_from_a_tiny_set_moves_by_less_than_the_rounding_of_the_samples() -> None:
    """The violation is relative to the radius, 1e-3, the move to the size 1e6 of the samples."""
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    data = bind(1e6 * np.random.default_rng(1).standard_normal((20, 3)), y)
    for radius, found in ((1e-3, True), (1e3, False)):
        U = ucm.Ball(pos.mean, radius)
        q = np.array([1.1 * radius, 0.0, 0.0])
        x, violation = U.evaluate(data, iter([q]))
        assert violation > 0.05 and (moved_inside(U, data, ([q], x, violation)) is not None) == found


def test_operands_of_a_union_are_moved_each_by_itself() -> None:
    q, p = moved(ucm.Hull(pos) | ucm.Ball(neg.mean, 0.5), lambda q: (1.0 + 1e-4) * q)
    assert np.abs(p - q).max() <= 1e-3


def test_a_point_outside_of_a_domain_without_a_projection_goes_towards_its_centre() -> None:
    q, p = moved(ucm.AffineImage(np.eye(3), ucm.CvxpyDomain(disc)), lambda q: 1.0001 * q / np.linalg.norm(q))
    np.testing.assert_allclose(np.cross(p, q), 0.0, atol=1e-12)
    assert 0.999 <= np.linalg.norm(p) <= 1.0


def test_a_bound_that_is_no_number_proves_nothing() -> None:
    for primal, dual in ((np.nan, 0.0), (1.0, np.nan), (np.inf, np.inf)):
        found = bracket(primal, dual, 0.0, 1.0, rounding=0.0, size=1.0, wrong=None)
        assert found.kind == "none" and np.isnan(found.gap)


def test_a_gap_equal_to_the_tolerance_is_proven() -> None:
    met = bracket(-1.0, -1.0, 0.0, 1.0, rounding=0.0, size=1.0, wrong=None)
    assert is_proven(met, 0.0) and not is_proven(met, -1e-300)


# --- the report of verify -------------------------------------------------------------------------
def test_the_report_of_a_comparison_says_what_was_compared() -> None:
    X, y = load("iris")
    report = ucm.compile(ucm.models.nu_svm(0.9), X, y).verify()
    assert report and not np.isnan(report.x_distance)
    wrong = replace(report, agrees=False, x_distance=np.nan)
    for shown in (report, wrong):
        for text in (str(shown), shown._repr_html_()):
            assert ("agrees" in text) == ("DIFFERS" not in text) == ("points" in text) == shown.agrees
            assert ("lower bound" in text) == (not shown.agrees)


def test_a_comparison_is_of_values_points_and_weights() -> None:
    X, y = load("iris")
    solution = ucm.solve(ucm.models.nu_svm(0.9), X, y)
    value, weights = solution.objective, known(solution.weights).copy()
    same = CvxpyResult(value, "optimal", "CLARABEL")
    assert compared(solution, same, 1e-6, apart=1e-4)
    assert not compared(solution, same, 1e-6, apart=0.1)
    assert not compared(solution, same._replace(value=1.01 * value), 1e-6)
    assert compared(solution, same._replace(value=1.01 * value), 1e-6, unit=1e4 * abs(value) / 1e-3)
    weights[0] = -1e-3
    assert not compared(replace(solution, weights=weights), same, 1e-6)


def test_the_reference_that_is_further_away_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load("iris")
    plan = ucm.compile(ucm.Hinge() + 0.5 * ucm.L2(), X, y)
    assert plan.verify()
    monkeypatch.setattr(reference, "dual_problem", lambda *_: cp.Problem(cp.Maximize(0.0)))
    assert not plan.verify()


def test_a_majorant_without_a_point_is_that_at_0() -> None:
    X, y = load("iris")
    model, data = ucm.Ramp() + 0.5 * ucm.L2(), bind(X, y)
    points = None, np.zeros(X.shape[1])
    ends = [reference.majorant(model, data, w, 0.0).solve(solver="CLARABEL") for w in points]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_common_point_is_found_in_directions_in_which_the_samples_are_nearly_flat(seed: int) -> None:
    """Sums of features in single precision: the hulls are 1e-8 thick there, the ellipsoids are not."""
    r, y = np.random.default_rng(seed), np.where(np.arange(200) % 2, 1.0, -1.0)
    rgb = np.exp(r.standard_normal((200, 3))) + 0.5 * y[:, None]
    total = rgb.sum(axis=1, keepdims=True)
    X = np.hstack([rgb, total / 3.0, 3.0 * rgb - total, r.standard_normal((200, 3))]).astype(np.float32)
    X = (X - X.mean(axis=0, dtype=float)) / X.std(axis=0, dtype=float)
    plan = ucm.compile(ucm.models.coherent_mm_fda(0.6), X, y, solver="ssnal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        certificate = plan.solve().certificate
    assert certificate.violation <= INSIDE
    assert np.isfinite(certificate.gap)


@pytest.mark.parametrize("domain", [ucm.CappedSimplex(0.3), ucm.NormBall(0.4), ucm.Box(-0.5, 0.5)], ids=repr)
def test_differences_of_a_projection_give_its_jacobian(domain: Any) -> None:
    """Without time the identity, the largest Jacobian, takes its place."""
    only: Any = SimpleNamespace(project=domain.project)
    for seed in range(5):
        v = np.random.default_rng(seed).standard_normal(8)
        dense = [
            np.diag(J.d) + J.U @ J.S @ J.U.T
            for J in (
                _jacobian(only, v, Monitor()),
                domain.jacobian(v),
                _jacobian(only, v, Monitor(time_limit=1e-9)),
            )
        ]
        np.testing.assert_allclose(dense[0], dense[1], atol=1e-6)
        assert np.array_equal(dense[2], np.eye(8))
