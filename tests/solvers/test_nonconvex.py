"""Where 0 lies in U: against brute force over rays, CVXPY, and bad input."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from conftest import Loader
from numpy.testing import assert_allclose
from sklearn import preprocessing
from typed import known, scikit

import ucm
from ucm import neg, pos
from ucm.compiler.route import routes
from ucm.data.bound_data import bind
from ucm.errors import ParameterError, SolverError
from ucm.evidence import sphere as proofs
from ucm.evidence.sphere import _in_box
from ucm.forms import sphere
from ucm.forms.distance import MinNorm
from ucm.forms.faces import SumOfHulls
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof
from ucm.language.parameter import Parameters
from ucm.solvers import Facets, Linearize, Rapminos
from ucm.solvers.sphere import ray_shooting
from ucm.solvers.sphere.ray_shooting import PolyhedralRay, radial

NORMS = (1.0, 1.5, 2.0, 3.0, np.inf)


def small(seed: int, m: int = 24, n: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping classes."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(m) < m // 2, 1.0, -1.0)
    return rng.standard_normal((m, n)) + 0.3 * y[:, None], y


def support(X: np.ndarray, y: np.ndarray, eta: float, w: np.ndarray) -> float:
    """`max over the reduced hulls of w'x_- - w'x_+` by sorting."""

    def lowest(s: np.ndarray) -> float:
        s, left, total = np.sort(s), 1.0, 0.0
        for v in s:
            part = min(eta, left)
            total, left = total + part * v, left - part
        return total

    return -lowest(X[y > 0] @ w) - lowest(-(X[y < 0] @ w))


def rays(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """All directions orthogonal to n - 1 differences of samples of one class; n = 1, 2 or 3."""
    n = X.shape[1]
    pairs = [X[i] - X[j] for c in (1, -1) for i, j in itertools.combinations(np.flatnonzero(y == c), 2)]
    d = np.array(pairs)
    if n == 1:
        w = np.ones((1, 1))
    elif n == 2:
        w = np.column_stack([-d[:, 1], d[:, 0]])
    else:
        i, j = np.triu_indices(len(d), 1)
        w = np.cross(d[i], d[j])
    size = np.linalg.norm(w, axis=1)
    w = w[size > 1e-9] / size[size > 1e-9, None]
    return np.vstack([w, -w])


def supports(X: np.ndarray, y: np.ndarray, eta: float, W: np.ndarray) -> np.ndarray:
    """`support` for every row of W at once."""
    total = np.zeros(len(W))
    for c in (1.0, -1.0):
        s = np.sort(c * (X[y == c] @ W.T), axis=0)
        caps = np.clip(1.0 - eta * np.arange(len(s)), 0.0, eta)
        total -= caps @ s
    return total


def exact(X: np.ndarray, y: np.ndarray, eta: float, p: float) -> float:
    """The global minimum: polyhedral U attain it on a ray, for every norm."""
    W = rays(X, y)
    return float((supports(X, y, eta, W) / np.linalg.norm(W, p, axis=1)).min())


def hulls(eta: float) -> Any:
    return ucm.ReducedHull(pos, eta=eta) - ucm.ReducedHull(neg, eta=eta)


# --- RAPMINOS -----------------------------------------------------------------------------------
@pytest.mark.parametrize("p", NORMS)
def test_global_minimum_of_small_instances_by_starts(p: float) -> None:
    found = 0
    for seed in range(8):
        X, y = small(seed, n=2 + seed % 2)
        sol = ucm.solve(ucm.RobustMargin(hulls(0.4), p), X, y, solver="rapminos", n_starts=20)
        least = exact(X, y, 0.4, p)
        assert sol.objective >= least * (1 - 1e-9)
        assert_allclose(np.linalg.norm(sol.w, p), 1.0)
        assert_allclose(sol.objective, support(X, y, 0.4, sol.w), rtol=1e-12)
        found += sol.objective <= least * (1 + 1e-8)
    assert found >= 7


@pytest.mark.parametrize("kind", [ucm.solvers.Rapminos, ucm.solvers.Linearize])
def test_further_starts_have_a_seed(kind: Any) -> None:
    X, y = load("breast_cancer")
    model = ucm.models.enu_svm(0.05)
    one, other = (ucm.solve(model, X, y, solver=kind(seed=seed), n_starts=3) for seed in (0, 1))
    firsts = [next(r["objective"] for r in s.history if r["start"] > 0) for s in (one, other)]
    assert firsts[0] != firsts[1]
    with pytest.raises(ucm.ParameterError, match="seed is a whole number from 0 on"):
        kind(seed=-1)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("name", ["iris", "wine"])
def test_a_local_minimum_on_real_data(name: str, p: float) -> None:
    X, y = load(name)
    X = X[:, :8]
    model = ucm.RobustMargin(hulls(0.9), p)
    if ucm.compile(model, X, y).regime.convex:
        X = X[:, :2]
    plan = ucm.compile(model, X, y, solver="rapminos")
    sol = plan.solve()
    assert sol.status == "local"
    assert (sol.certificate.kind == "global") == (sol.certificate.dual > 0.0)
    assert sol.certificate.dual <= sol.objective
    assert known(sol.certificate.residual) <= 1e-9
    assert sol.weights is not None and sol.weights.min() >= 0.0
    values = [record["objective"] for record in sol.history]
    assert all(b <= a * (1 + 1e-14) for a, b in itertools.pairwise(values))
    assert plan.verify().agrees
    # no nearby direction is lower
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-4, 1e-2):
        w = sol.w + size * rng.standard_normal((30, X.shape[1]))
        near = supports(X, y, 0.9, w) / np.linalg.norm(w, p, axis=1)
        if size < 1e-3:
            assert near.min() >= sol.objective * (1 - 1e-12)


@pytest.mark.parametrize("p", NORMS)
def test_the_printed_algorithm_reaches_a_critical_point(p: float) -> None:
    X, y = small(3)
    form = UnitNorm.of(MinNorm.of(hulls(0.4).lower(bind(X, y)), 2.0, X.size), p)
    for solver in (Rapminos(step="nearest"), Rapminos(), Linearize()):
        answer = solver.solve(form, Monitor())
        assert answer.status == "converged"
        w = known(answer.w)
        residual, _, normal = form.residual(w)
        assert residual <= 1e-9
        assert_allclose(normal @ w, 1.0)


@pytest.mark.parametrize("p", [1.5, 2.0, np.inf])
def test_programs_have_few_of_many_samples(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of a descent over 4,000 samples have fewer columns together than one of each sample."""
    sizes: list[int] = []
    begin = PolyhedralRay.__init__

    def counted(self: PolyhedralRay, hulls: SumOfHulls, monitor: Monitor) -> None:
        sizes.append(hulls.caps.size)
        begin(self, hulls, monitor)

    X, y = small(0, 4000, 15)
    X = X + np.where(y > 0, 1.0, 1.5)[:, None] * np.sin(np.arange(15) * np.arange(4000)[:, None])
    plan = ucm.compile(ucm.RobustMargin(hulls(1 / 400), p), X, y, solver="rapminos")
    assert not plan.regime.convex  # by a program of all samples
    monkeypatch.setattr(PolyhedralRay, "__init__", counted)
    sol = plan.solve()
    assert sol.status == "local"
    assert sizes and sum(sizes) < 4000 and plan.verify().agrees
    assert_allclose(sol.objective, support(X, y, 1 / 400, sol.w), rtol=1e-12)
    w = sol.w + 1e-5 * np.random.default_rng(0).standard_normal((30, 15))
    near = supports(X, y, 1 / 400, w) / np.linalg.norm(w, p, axis=1)
    assert near.min() >= sol.objective * (1 - 1e-12)


class Central(Rapminos):
    """The answer has a point of the set that is not its farthest one in the direction of -w."""

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        answer = super().solve(form, monitor, start)
        return replace(answer, q=[b.domain.center(b.map.shape[1]) for b in form.image.blocks])


def test_a_point_that_does_not_attain_the_support_is_far_from_stationary() -> None:
    X, y = small(3)
    plan = ucm.compile(ucm.RobustMargin(hulls(0.4), 2.0), X, y, solver=Central())
    with pytest.warns(ucm.ConvergenceWarning):
        sol = plan.solve()
    w, f, x = sol.w, sol.objective, known(sol.x)
    assert sol.status != "local" and f + w @ x > 0.1
    residual = np.linalg.norm(x + f * w) + f + w @ x
    assert known(sol.certificate.residual) == pytest.approx(residual, rel=1e-9)


def test_a_descent_ends_no_higher_than_its_start() -> None:
    X, y = load("wine")
    for p in NORMS:
        model = ucm.RobustMargin(hulls(0.9), p)
        first = ucm.compile(model, X[:, :4], y, solver="subgradient")
        with pytest.warns(ucm.ConvergenceWarning, match="from stationary"):
            start = first.solve(max_iter=40)
        assert start.status == "converged"
        plan = ucm.compile(model, X[:, :4], y, solver="rapminos")
        assert plan.solve(warm_start=start).objective <= start.objective


def test_a_stationary_point_that_is_a_maximum_is_left() -> None:
    """The residual is 0 at w = e_1, where no two samples are tied."""
    X = np.array([[0.0, 1.0], [0.0, -1.0], [3.0, 0.0], [-3.0, 0.0]])
    X, y = np.vstack([X, X]), np.repeat([1.0, -1.0], 4)
    form = UnitNorm.of(MinNorm.of(hulls(1.0).lower(bind(X, y)), 2.0, 16), 2.0)
    top = np.array([1.0, 0.0])
    assert form.residual(top)[0] <= 1e-12
    w = known(Rapminos().solve(form, Monitor(), Answer(w=top)).w)
    assert_allclose(form.height(w), exact(X, y, 1.0, 2.0), rtol=1e-12)
    assert form.height(w) < form.height(top)


# --- every set ----------------------------------------------------------------------------------
SETS = {
    "MM-MPM": ucm.models.mm_mpm(3.0),
    "MM-FDA": ucm.models.mm_fda(4.0),
    "KL": ucm.models.kl_svm(0.2),
    "l2": ucm.models.l2_nu_svm(0.4),
    "mixed": ucm.Ellipsoid(pos.mean, pos.cov, 2.0) - hulls(0.5).terms()[1][0],
    "coherent": ucm.models.coherent_mm_mpm(3.0),
}


@pytest.mark.parametrize("p", [1.5, 2.0, np.inf])
@pytest.mark.parametrize("name", SETS)
def test_every_set_has_a_stationary_point(name: str, p: float) -> None:
    X, y = load("iris")
    plan = ucm.compile(ucm.RobustMargin(SETS[name], p), X, y, solver="linearize")
    sol = plan.solve()
    assert sol.status in ("stationary", "optimal") and sol.objective > 0.0
    assert_allclose(np.linalg.norm(sol.w, p), 1.0)
    values = [record["objective"] for record in sol.history]
    assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(values))
    assert plan.verify().agrees
    # the value itself, by CVXPY
    problem = plan.reference(sol)
    loose = {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-7}  # rtol is 1e-5
    assert_allclose(problem.solve(solver=cp.CLARABEL, **loose), sol.objective, rtol=1e-5)
    assert "not convex" in plan.explain() and "chosen, by name" in plan.explain()


# --- global answers -----------------------------------------------------------------------------
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_exact_routes_against_brute_force(n: int, p: float) -> None:
    for seed in range(4):
        X, y = small(seed, m=30, n=n)
        least = exact(X, y, 0.37, p)
        model = ucm.RobustMargin(hulls(0.37), p)
        for solver in ("auto", "facets", *(("faces",) if p in (1.0, np.inf) else ())):
            sol = ucm.solve(model, X, y, solver=solver)
            assert sol.status == "optimal" and sol.certificate.kind == "global"
            assert_allclose(sol.objective, least, rtol=1e-10)
            assert sol.certificate.dual <= least * (1 + 1e-10)
            assert known(sol.certificate.residual) <= 1e-9


@pytest.mark.parametrize("p", [1.0, np.inf])
def test_faces_against_cvxpy_over_each_face(p: float) -> None:
    """In w: `min f(w)` over `{w_j = s, |w_i| <= 1}`, over an orthant; here for ellipsoids."""
    X, y = load("wine")
    X = X[:, :3]
    a, b = X[y > 0], X[y < 0]
    factors = [np.linalg.cholesky(np.cov(Z.T, bias=True)) for Z in (a, b)]
    w, signs = cp.Variable(3), cp.Parameter(3)
    f = -w @ (a.mean(axis=0) - b.mean(axis=0)) + 4.0 * sum(cp.norm(F.T @ w) for F in factors)
    least = np.inf
    if p == np.inf:
        faces = [s * e for e in np.eye(3) for s in (1.0, -1.0)]
        constraints = [signs @ w == 1, cp.norm(w, "inf") <= 1]
    else:
        faces = [np.array(s) for s in itertools.product((1.0, -1.0), repeat=3)]
        constraints = [cp.multiply(signs, w) >= 0, signs @ w == 1]
    problem = cp.Problem(cp.Minimize(f), constraints)
    for face in faces:
        signs.value = face
        least = min(least, float(problem.solve(solver=cp.CLARABEL)))
    for solver in ("faces", "facets"):
        sol = ucm.solve(ucm.RobustMargin(ucm.models.mm_mpm(4.0), p), X, y, solver=solver)
        assert sol.status == "optimal"
        assert_allclose(sol.objective, least, rtol=1e-6)


def test_faces_of_a_round_set_take_few_cuts() -> None:
    """20 features: the cuts alone took 900 supports. The least over all faces is that of CVXPY by hand."""
    X, label = scikit.load_breast_cancer(return_X_y=True)
    X, y = preprocessing.scale(X[:, :20]), 2.0 * label - 1.0
    a, b = X[y > 0], X[y < 0]
    F = np.linalg.cholesky(np.cov(a.T, bias=True) + np.cov(b.T, bias=True))
    w, side = cp.Variable(20), cp.Parameter(20)
    f = -w @ (a.mean(axis=0) - b.mean(axis=0)) + 5.0 * cp.norm(F.T @ w)
    problem, least = cp.Problem(cp.Minimize(f), [side @ w == 1, cp.norm(w, "inf") <= 1]), np.inf
    for side.value in (*np.eye(20), *-np.eye(20)):
        least = min(least, float(problem.solve(solver=cp.CLARABEL)))
    sol = ucm.solve(ucm.RobustMargin(ucm.models.mm_fda(5.0), np.inf), X, y, solver="faces")
    assert sol.status == "optimal" and sol.stats.passes < 300
    assert_allclose(sol.objective, least, rtol=1e-6)


def test_one_ellipsoid_by_its_secular_equation() -> None:
    """Against many starts of the linearisation, against a grid, and in the hard case."""
    X, y = load("iris")
    plan = ucm.compile(ucm.models.mm_fda(4.0), X, y)
    sol = plan.solve()
    assert sol.stats.solver == "secular" and sol.status == "optimal"
    assert plan.verify().agrees
    angles = np.linspace(0.0, 2.0 * np.pi, 20001)
    W = np.column_stack([np.cos(angles), np.sin(angles)])
    for c in ([0.3, 0.1], [0.3, 0.0], [0.0, 0.1], [0.0, 0.0], [1e-9, 0.3], [0.999, 0.0]):
        shape = np.diag([1.0, 0.25]) if c[0] < 0.9 else np.eye(2)
        U = ucm.Ellipsoid(np.array(c), shape, 1.0)
        found = ucm.solve(U, X[:, :2], y)
        grid = (-W @ np.array(c) + np.sqrt(np.einsum("ij,jk,ik->i", W, shape, W))).min()
        assert found.status == "optimal", c
        assert found.objective <= grid + 1e-12 and grid <= found.objective + 1e-6
    for kappa in (2.6, 3.0, 8.0):
        model = ucm.models.mm_fda(kappa)
        other = ucm.solve(model, X, y, solver="linearize", n_starts=4)
        assert ucm.solve(model, X, y).objective <= other.objective + 1e-9


class Liar(Solver[UnitNorm]):
    """RAPMINOS, with points that are too large for a witness."""

    name = "liar"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def refuse(self, form: Any) -> None:
        return None

    def solve(self, form: Any, monitor: Any, start: Any = None) -> Any:
        raw = Rapminos().solve(form, monitor)
        honest = known(Facets().solve(form, Monitor()).witness)
        large = [[3.0 * block for block in q] for q in honest.points]
        raw.witness = LowerBoundProof(self.kind, large)
        return raw


def test_a_false_witness_proves_nothing() -> None:
    """A solver that claims a ball which U does not hold ends as local."""

    X, y = small(2)
    for kind in ("points", "vertices", "rule"):
        liar = Liar(kind)
        model = ucm.RobustMargin(hulls(0.4), np.inf if kind == "vertices" else 2.0)
        sol = ucm.solve(model, X, y, solver=liar)
        assert sol.status == "local" and sol.certificate.kind == "local"


def test_thin_sets_show_few_points_at_first() -> None:
    """All first directions meet two samples of each class: the polytope is a line until one goes across."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(24) < 12, 1.0, -1.0)
    X = rng.standard_normal((24, 1)) @ np.array([[1.0, 1.4]]) + 0.02 * rng.standard_normal((24, 2))
    for eta in (0.5, 0.8, 1.0):
        sol = ucm.solve(hulls(eta), X, y, solver="facets")
        assert sol.status == "optimal"
        assert_allclose(sol.objective, exact(X, y, eta, 2.0), rtol=1e-9)


def test_exact_solvers_refuse_other_forms() -> None:
    X, y = load("wine")
    for solver in ("facets", "faces"):
        with pytest.raises(SolverError, match="where 0 lies in U"):
            ucm.solve(ucm.models.mm_mpm(9.0), X, y, solver=solver)
    # a method of both sides that takes one of them only, as the solvers of the other side
    assert ucm.solve(ucm.models.mm_mpm(9.0), X, y, solver="secular").status == "zero_in_set"
    with pytest.raises(SolverError, match="up to 12 features"):
        ucm.solve(ucm.RobustMargin(ucm.models.mm_mpm(9.0), 1.0), X, y, solver="faces")


def _form(X: np.ndarray, y: np.ndarray) -> UnitNorm:
    return UnitNorm.of(MinNorm.of(hulls(0.9).lower(bind(X, y)), 2.0, X.size), 2.0)


# --- a bound for every face ---------------------------------------------------------------------
CURVED = {
    "l2": ucm.models.l2_nu_svm(0.3),
    "biased l2": ucm.models.biased_l2_nu_svm(0.5, 0.5),
    "KL": ucm.models.kl_svm(0.2),
    "ellipsoids": ucm.models.mm_mpm(4.0),
    "ellipsoid and hull": ucm.Ellipsoid(pos.mean, pos.cov, 2.0) - ucm.Hull(neg),
}


def overlapping(n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of 40 that hardly differ, in features of several sizes, the last of them constant, not
    a sum of powers of 2."""
    rng = np.random.default_rng(4)
    y = np.where(np.arange(80) < 40, 1.0, -1.0)
    X = (rng.standard_normal((80, n)) + 0.1 * y[:, None]) * np.logspace(-1.0, 1.0, n)
    return np.column_stack([X, np.full(80, 0.1)]), y


@pytest.mark.parametrize("p", [1.0, np.inf])
@pytest.mark.parametrize("name", CURVED)
def test_auto_proves_the_least_over_all_faces(name: str, p: float) -> None:
    """Against a conic program for every face."""
    X, y = overlapping()
    model = ucm.RobustMargin(CURVED[name], p)
    sol = ucm.solve(model, X, y)
    assert sol.stats.solver == "faces" and sol.status == "optimal"
    assert sol.certificate.relative_gap <= 1e-6
    X = X[:, :5]
    form = UnitNorm.of(MinNorm.of(CURVED[name].lower(bind(X, y)), 2.0, X.size), p)
    reach = radial(form, Monitor(1e-8))
    least = min(known(reach(g)).s for g in form.vertices())
    assert_allclose(sol.objective, least, rtol=1e-5)
    assert sol.certificate.dual <= least * (1.0 + 1e-7)


@pytest.mark.parametrize("p", [1.0, np.inf])
@pytest.mark.parametrize("name", CURVED)
def test_the_bounds_of_the_faces_scale_with_the_features(name: str, p: float) -> None:
    X, y = overlapping(3)
    model = ucm.RobustMargin(CURVED[name], p)
    once = ucm.solve(model, X[:, :3], y, solver="faces")
    for scale in (1e-12, 1e-5, 1e7, 1e12):
        sol = ucm.solve(model, scale * X[:, :3], y, solver="faces")
        assert sol.status == "optimal"
        assert_allclose(sol.objective, scale * once.objective, rtol=1e-6)


@pytest.mark.parametrize("p", NORMS)
def test_linear_programs_over_hulls_scale_with_the_features(p: float) -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) < 30, 1.0, -1.0)
    X = rng.standard_normal((60, 6))
    for set_ in (ucm.models.nu_svm(0.3), ucm.Hull(pos) - ucm.ReducedHull(neg, nu=0.3)):
        once = ucm.solve(ucm.RobustMargin(set_, p), X, y)
        for scale in (1e-12, 1e-6, 1e6, 1e12):
            sol = ucm.solve(ucm.RobustMargin(set_, p), scale * X, y)
            assert sol.status == once.status in ("local", "optimal")
            assert_allclose(sol.objective, scale * once.objective, rtol=1e-7)


@pytest.mark.parametrize("p", [1.0, np.inf])
def test_a_constant_feature_has_no_face(p: float) -> None:
    X, y = overlapping()
    sol = ucm.solve(ucm.RobustMargin(hulls(0.2), p), X, y, solver="faces")
    assert sol.status == "optimal"
    less = ucm.solve(ucm.RobustMargin(hulls(0.2), p), X[:, :5], y, solver="faces")
    assert_allclose(sol.objective, less.objective, rtol=1e-9)


def test_faces_of_many_samples_are_searched() -> None:
    """3,000 samples: RAPMINOS ends in a local minimum here."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(3000) < 1500, 1.0, -1.0)
    X = rng.standard_normal((3000, 8)) + 0.05 * y[:, None]
    for p in (1.0, np.inf):
        model = ucm.RobustMargin(hulls(0.02), p)
        sol = ucm.solve(model, X, y)
        assert sol.stats.solver == "faces" and sol.status == "optimal"
        assert sol.objective <= ucm.solve(model, X, y, solver="rapminos").objective * (1 + 1e-12)


@pytest.mark.parametrize("name", ["uci_heart", "ida_image"])
def test_the_inf_norm_on_the_papers_data(shared_data: Loader, name: str) -> None:
    """In image KL made the conic programs fail; U lies in a span of 14 of 18 dimensions there."""
    X, y = shared_data(name)
    for set_ in (CURVED["l2"], CURVED["KL"], CURVED["biased l2"]):
        sol = ucm.solve(ucm.RobustMargin(set_, np.inf), X, y)
        assert sol.status == "optimal" and sol.certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("p", [1.0, np.inf])
def test_the_bound_in_the_box_against_a_grid(p: float) -> None:
    """`r - sum R_i |x_i + r g_i|` over r, kinks included; the witness of a span that has a basis."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        box, g, x = rng.uniform(0.5, 2.0, 4), rng.standard_normal(4), rng.standard_normal(4)
        g /= float(box @ np.abs(g)) * rng.uniform(0.2, 1.0)
        r = np.r_[np.linspace(-60.0, 60.0, 4001), -x / g]
        grid = (r - np.abs(x + r[:, None] * g) @ box).max()
        assert_allclose(_in_box(box, g, x), grid, rtol=1e-12)


# --- the regime ---------------------------------------------------------------------------------
def test_a_path_crosses_the_boundary() -> None:
    X, y = load("iris")
    end = ucm.admissible(ucm.models.nu_svm(0.5), X, y)["nu"].lower
    objectives = []
    for nu in end * np.array([1.3, 1.1, 1.01, 1.0, 0.99, 0.9, 0.7]):
        plan = ucm.compile(ucm.models.nu_svm(nu), X, y)
        sol = plan.solve()
        at_end = nu == end and sol.status == "zero_in_set"  # to rounding
        assert at_end or sol.status in ("optimal", "local")
        assert sol.w.any() and sol.b is not None
        if abs(nu / end - 1.0) > 1e-3:
            assert plan.regime.convex == (nu > end) == (sol.objective < 0.0)
            assert ("not convex" in plan.explain()) == (nu < end)
        objectives.append(sol.objective)
    assert all(a < b for a, b in itertools.pairwise(objectives))
    assert abs(objectives[3]) <= 1e-6 * X.max()


def test_data_that_do_not_span_the_space() -> None:
    X, y = small(1)
    wide = np.column_stack([X, X[:, 0] - X[:, 1], np.ones(len(X))])
    plan = ucm.compile(hulls(0.4), wide, y)
    sol = plan.solve()
    assert sol.status == "optimal" and "dimension 3 of 5" in plan.explain()
    centred = wide - wide.mean(axis=0)
    row_space = np.linalg.svd(centred, full_matrices=False)[2][:3]
    assert_allclose(row_space.T @ (row_space @ sol.w), sol.w, atol=1e-9)
    # coordinates of the span, in which it is the small problem
    inner = ucm.solve(hulls(0.4), wide @ row_space.T, y)
    assert_allclose(inner.objective, sol.objective, rtol=1e-9)


@pytest.mark.parametrize("constant", [1.0, 0.1, 100.1])
@pytest.mark.parametrize("model", [ucm.models.mm_fda(2.0), ucm.models.mm_mpm(2.0)])
def test_a_constant_feature_is_no_direction(model: Any, constant: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((13, 2)) @ rng.standard_normal((2, 29))  # few samples: centred implicitly
    y = np.where(np.arange(13) < 5, 1, -1)
    plain = ucm.solve(model, X, y)
    beside = ucm.solve(model, np.column_stack([X, np.full(13, constant)]), y)
    assert beside.status == plain.status == "optimal" and plain.objective > 0.1
    assert beside.objective == pytest.approx(plain.objective, rel=1e-6)
    assert abs(beside.w[-1]) < 1e-9


# --- the span of sets that are no sums of hulls -------------------------------------------------
CROSS = ucm.AffineImage(np.hstack([np.eye(5), -np.eye(5)]), ucm.Simplex(), 0.05 * np.ones(5))


def test_a_polytope_of_few_vertices_spans_the_space() -> None:
    """10 vertices in 5 dimensions; the least f is by hand, `max_i |w_i| - sum_i w_i / 20` on the sphere."""
    X, y = small(0, n=5)
    plan = ucm.compile(CROSS, X, y)
    sol = plan.solve()
    assert_allclose(sol.objective, 0.75 / np.sqrt(5.0), rtol=1e-8)
    assert sol.certificate.dual <= 0.75 / np.sqrt(5.0) and sol.certificate.span is None
    assert plan.verify().agrees
    vertices = np.vstack([np.eye(5), -np.eye(5)]) + 0.05
    for p in (1.0, np.inf):
        found = ucm.solve(ucm.RobustMargin(CROSS, p), X, y)
        W = np.random.default_rng(0).standard_normal((10_000, 5))
        least = (-W @ vertices.T).max(axis=1) / np.linalg.norm(W, p, axis=1)
        assert found.status == "optimal" and found.objective <= least.min()


@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_a_span_that_is_too_small_is_no_proof(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lie of the lowering: the declared set is wider than the span, and verify does not take it over."""
    X, y = small(0, n=5)
    monkeypatch.setattr(sphere, "_span_of", lambda *_: np.eye(5)[:, :3])
    plan = ucm.compile(ucm.RobustMargin(CROSS, p), X, y)
    with pytest.raises(SolverError, match="beside the span"):
        plan.solve()
    for side in (1.0, -1.0):  # 0 is at one end of U in the direction that is left out
        vertices = np.hstack([np.eye(5)[:, :3], -np.eye(5)[:, :3], side * np.eye(5)[:, 3:4]])
        U = ucm.AffineImage(vertices, ucm.Simplex(), np.append(0.05 * np.ones(3), [0.0, 0.0]))
        with pytest.raises(SolverError, match="beside the span"):
            ucm.solve(ucm.RobustMargin(U, p), X, y)
    monkeypatch.setattr(proofs, "contradiction", lambda *_: "")
    assert plan.solve().certificate.dual > 0.0 and not plan.verify().agrees


def test_repeated_rows_and_weights_give_the_status_of_one_feature() -> None:
    """With one feature w is 1 or -1: the least of the two supports, by CVXPY from the definition."""
    U = ucm.Wasserstein(pos, 1.0, beta=1.0) - ucm.Wasserstein(neg, 1.0, beta=1.0, norm=1)
    for seed in range(4):
        X, y = np.random.default_rng(seed).standard_normal((5, 1)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
        x, constraints = U.cvxpy(bind(X, y), Parameters())
        ends = [cp.Problem(cp.Maximize(-w * x[0]), constraints).solve() for w in (1.0, -1.0)]
        found = ucm.solve(U, X, y)
        assert found.status == "optimal"
        assert_allclose(found.objective, min(ends), rtol=1e-6)
        twice = ucm.solve(U, np.vstack([X, X]), np.r_[y, y])
        weighed = ucm.solve(U, X, y, sample_weight=np.full(5, 2.0))
        assert found.status == twice.status == weighed.status
        assert_allclose([twice.objective, weighed.objective], found.objective, rtol=1e-6)


def on_simplex(q: cp.Expression) -> list[Any]:
    return [cp.sum(q) == 1, q >= 0]


AXES = np.eye(8)
SPANS = {
    "ball": (ucm.NormBall(0.7), np.vstack([0.7 * AXES, -0.7 * AXES])),
    "box with a point for a side": (ucm.Box(-0.5, [0.5, -0.5, *6 * [0.5]]), -0.5 + np.delete(AXES, 1, 0)),
    "point": (ucm.NormBall(0.0), 0.0 * AXES),
    "simplex by CVXPY": (ucm.CvxpyDomain(on_simplex), AXES),
}


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize(("n", "rank"), [(3, 3), (8, 6), (8, 8), (12, 8), (12, 5)])
def test_the_span_against_points_of_the_domain(name: str, n: int, rank: int) -> None:
    """Features in units from 1e-3 to 1e3, and a ball in one direction."""
    rng = np.random.default_rng(0)
    units, (domain, points) = np.logspace(-3.0, 3.0, n), SPANS[name]
    A = units[:, None] * (rng.standard_normal((n, rank)) @ rng.standard_normal((rank, 8)))
    U = ucm.AffineImage(A, domain, center=A[:, 0]) + ucm.AffineImage(A[:, :1], ucm.NormBall(0.1))
    found = sphere._span_of(MinNorm.of(U.lower(bind(*small(1, n=n))), 2.0, 1))
    differences = np.vstack([(points - points[-1]) @ A.T, 0.1 * A[:, 0]]) / units
    s = np.linalg.svd(differences, compute_uv=False)
    basis = (np.eye(n) if found is None else found) / units[:, None]
    assert basis.shape[1] == int((s > 1e-9 * s[0]).sum())
    shares = np.linalg.lstsq(basis, differences.T)[0]
    assert np.abs(basis @ shares - differences.T).max() <= 1e-6 * s[0]


# --- sets without a bound -----------------------------------------------------------------------
def least_on_simplex(X: np.ndarray, y: np.ndarray, nu: float) -> float:
    """The least f of the nu-SVM over w >= 0 with sum 1, by a linear program in CVXPY: at most that over
    ||w||_2 = 1, as ||w||_1 is no smaller than ||w||_2."""
    w, cap = cp.Variable(X.shape[1], nonneg=True), 2.0 / (len(y) * nu)
    heights = []
    for c in (1.0, -1.0):  # max over q of -c <q, X w>, by its dual
        theta, excess = cp.Variable(), cp.Variable(int((y == c).sum()), nonneg=True)
        heights.append((theta + cap * cp.sum(excess), excess >= -c * (X[y == c] @ w) - theta))
    program = cp.Problem(cp.Minimize(sum(h for h, _ in heights)), [cp.sum(w) == 1, *(c for _, c in heights)])
    return float(program.solve())


def test_nonnegative_weights_where_0_lies_in_the_set() -> None:
    """Written by hand, and as a penalty on named features."""
    X, y = load("wine")
    with pytest.raises(ucm.CompositionError, match=r"write NonNegative\(\[True\] \* n\) for n features"):
        _ = ucm.RobustMargin(ucm.models.nu_svm(0.3)) + ucm.NonNegative()
    U = ucm.models.nu_svm(0.3) + ucm.AffineImage(np.eye(X.shape[1]), ucm.Box(0, np.inf))
    assert ucm.RobustMargin(ucm.models.nu_svm(0.3)) + ucm.NonNegative(
        [True] * X.shape[1]
    ) == ucm.RobustMargin(U)
    plan = ucm.compile(ucm.RobustMargin(U), -X, y)
    sol = plan.solve()
    least = least_on_simplex(-X, y, 0.3)
    assert least > 0.3 and sol.objective >= least * (1.0 - 1e-9)
    assert sol.status == "stationary" and sol.certificate.kind == "global" and plan.verify().agrees
    assert_allclose(sol.certificate.dual, least, rtol=1e-6)
    assert (sol.w >= 0.0).all()
    assert_allclose(np.linalg.norm(sol.w), 1.0)
    assert_allclose(support(-X, y, 2.0 / (len(y) * 0.3), sol.w), sol.objective, rtol=1e-9)
    assert "<r, w> >= 0" in plan.explain()
    # the norm of the bound: a global optimum
    exact = ucm.solve(ucm.RobustMargin(U, 1.0), -X, y)
    assert exact.status == "optimal"
    assert_allclose(exact.objective, least, rtol=1e-6)
    # of a few features, where 0 lies in U of the samples too: the bound is at most a value on random w
    few = ucm.models.nu_svm(0.3) + ucm.AffineImage(np.eye(X.shape[1])[:, :2], ucm.Box(-np.inf, [0.0, 1.0]))
    mixed = np.random.default_rng(0).permutation(y)
    some = ucm.solve(few, X, mixed)
    W = np.random.default_rng(0).standard_normal((10_000, X.shape[1]))
    W[:, :2] = -np.abs(W[:, :2])
    heights = supports(X, mixed, 2.0 / (len(y) * 0.3), W) / np.linalg.norm(W, axis=1)
    assert (some.w[:2] <= 0.0).all() and 0.0 < some.certificate.dual <= some.objective <= heights.min()
    for name in ("rapminos", "facets", "faces", "subgradient"):
        with pytest.raises(SolverError, match="does not take this model"):
            ucm.solve(ucm.RobustMargin(U, np.inf), -X, y, solver=name)


@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_a_set_with_lines_is_that_of_the_samples_without_them(p: float) -> None:
    """No score along some directions, the columns of A, one of them twice. For p = 2 it is the plain model in
    coordinates orthogonal to them."""
    X, y = load("wine")
    y = np.random.default_rng(0).permutation(y)
    rng = np.random.default_rng(1)
    for A in (np.eye(13)[:, :1], rng.standard_normal((13, 2))[:, [0, 1, 0]]):
        U = ucm.models.nu_svm(0.3) + ucm.AffineImage(A, ucm.Box(-np.inf, np.inf))
        plan = ucm.compile(ucm.RobustMargin(U, p), X, y)
        sol = plan.solve()
        assert sol.status in ("local", "optimal", "stationary") and plan.verify().agrees
        assert sol.certificate.span is None and "orthogonal to the lines" in plan.explain()
        assert np.abs(A.T @ sol.w).max() <= 1e-12
        assert_allclose(np.linalg.norm(sol.w, p), 1.0)
        assert_allclose(support(X, y, 2.0 / (len(y) * 0.3), sol.w), sol.objective, rtol=1e-9)
        assert 0.0 <= sol.certificate.dual <= sol.objective * (1.0 + 1e-9)
        if p == 2.0:
            rest = np.linalg.svd(A)[0][:, np.linalg.matrix_rank(A) :]
            inner = ucm.solve(ucm.models.nu_svm(0.3), X @ rest, y)
            assert_allclose(inner.objective, sol.objective, rtol=1e-6)
            assert_allclose(inner.certificate.dual, sol.certificate.dual, rtol=1e-3)


def test_a_set_that_is_the_whole_space_has_no_finite_worst_case() -> None:
    X, y = small(0)
    for A, low in ((np.eye(3), -np.inf), (np.hstack([np.eye(3), -np.ones((3, 1))]), 0.0)):
        sol = ucm.solve(hulls(0.4) + ucm.AffineImage(A, ucm.Box(low, np.inf)), X, y)
        assert sol.status == "zero_in_set" and not sol.w.any()
        assert sol.certificate.kind == "none" and sol.certificate.primal == np.inf


# --- w = 0 --------------------------------------------------------------------------------------
@pytest.mark.parametrize("solver", ["ssnal", "apg", "active-set", "smo", "clarabel", "highs", "level-set"])
def test_a_convex_solver_that_meets_0_claims_no_upper_bound(solver: str) -> None:
    """w = 0 has not the length 1; the optimum is positive."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 8)), np.where(np.arange(40) % 2, 1.0, -1.0)
    models = {
        "enu": ucm.models.enu_svm(0.05), "inf": ucm.models.enu_svm(0.3, norm=np.inf),
        "l2": ucm.models.l2_nu_svm(0.5), "kl": ucm.models.kl_svm(0.1),
    }  # fmt: skip
    met = 0
    for name, model in models.items():
        try:
            sol = ucm.solve(model, X, y, solver=solver)
        except SolverError:  # of another norm, or another form
            continue
        best, met = ucm.solve(model, X, y), met + 1
        assert sol.status == "zero_in_set" and not sol.w.any() and best.objective > 0.1, name
        assert (sol.certificate.kind, sol.certificate.primal) == ("none", np.inf)
        assert -1e-6 <= sol.certificate.dual <= 0.0 and "<= optimum" in str(sol.certificate)
        assert "a lower bound only" in str(sol.certificate) and sol.certificate.digits is None
    assert met


def test_domains_below_the_accuracy_of_a_program() -> None:
    X, y = small(0, n=3)
    for radius in (1e-12, 1e-10, 1e-8):
        balls = (ucm.Ball(0, radius, p=1.0), ucm.Ellipsoid(np.zeros(3), pos.cov, radius))
        sets = [ucm.Hull(pos) - ucm.Hull(neg) + ball for ball in balls]
        sets.append((ucm.Ellipsoid(pos.mean, pos.cov, radius) & ucm.Hull(pos)) - ucm.Hull(neg))
        for U, p, solver in itertools.product(sets, (1.0, 1.5, np.inf), ("linearize", "faces")):
            if p == 1.5 and solver == "faces":
                continue
            sol = ucm.solve(ucm.RobustMargin(U, p), X, y, solver=solver)
            assert sol.certificate.violation <= 1e-9 and sol.objective > 0.0


@pytest.mark.parametrize("model", [
    ucm.models.l2_nu_svm(0.6), ucm.models.kl_svm(0.3), ucm.models.nu_svm(0.1), ucm.models.mm_fda(0.5),
    ucm.models.coherent_mm_fda(0.5), ucm.models.coherent_mm_mpm(0.5),
])  # fmt: skip
def test_constant_features_hold_0(model: Any) -> None:
    """Sums of equal samples differ by rounding, which is no distance."""
    for m, n, constant in itertools.product((13, 29, 33, 42), (1, 4), (0.3, -7.7, 1000.1)):
        y = np.where(np.arange(m) < m // 3, 1.0, -1.0)
        sol = ucm.solve(model, np.full((m, n), constant), y)
        assert sol.status == "zero_in_set" and "constant" in sol.message


def test_a_set_that_is_the_origin() -> None:
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    origin = ucm.Point(ucm.pos.mean) - ucm.Point(ucm.neg.mean)
    sol = ucm.solve(origin, X, np.array([1.0, 1.0, -1.0, -1.0]))
    assert sol.status == "zero_in_set" and not sol.w.any()


def test_kernels_go_through_the_span_of_the_samples() -> None:
    X, y = load("iris")
    plain = ucm.solve(ucm.models.nu_svm(0.05), X, y)
    through = ucm.solve(ucm.models.nu_svm(0.05), X, y, kernel="linear")
    assert_allclose(through.objective, plain.objective, rtol=1e-8)
    assert_allclose(through.decision(X), plain.decision(X), atol=1e-6)
    curved = ucm.solve(ucm.models.nu_svm(0.02), X, y, kernel="poly", degree=2, coef0=1.0)
    assert curved.status in ("local", "optimal") and curved.coefficients is not None
    # strictly positive definite: the hulls of distinct samples never meet
    X, where = np.unique(X, axis=0, return_index=True)
    rbf = ucm.solve(ucm.models.nu_svm(0.05), X, y[where], kernel="rbf", gamma=20.0)
    assert rbf.objective < 0.0


@pytest.mark.parametrize(("gamma", "nu"), [(0.01, 0.1), (0.1, 0.02)])
def test_a_kernel_that_does_not_resolve_the_distance(gamma: float, nu: float) -> None:
    """Most eigenvalues of the Gram matrix are rounding, and along these 0 is on the boundary of U: RAPMINOS
    went on among them for minutes."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(160) < 80, 1.0, -1.0)
    X = rng.standard_normal((160, 2)) + 0.1 * y[:, None]
    sol = ucm.solve(ucm.models.nu_svm(nu), X, y, kernel="rbf", gamma=gamma)
    assert sol.status == "zero_in_set" and sol.objective == 0.0
    assert "narrower" in sol.message and sol.stats.iterations < 200
    assert -1e-5 <= sol.certificate.dual <= 0.0
    if sol.coefficients is not None:
        assert not sol.coefficients.any()


def test_a_kernel_that_does_not_resolve_the_distance_of_banana(shared_data: Loader) -> None:
    X, y = shared_data("ida_banana")
    for m in (600, 800):
        sol = ucm.solve(ucm.models.nu_svm(0.1), X[:m], y[:m], kernel="rbf")
        assert sol.status in ("zero_in_set", "optimal") and abs(sol.objective) <= 1e-5


def test_descent_ends_where_0_is_on_the_boundary() -> None:
    """The objective is rounding of the size of U: no more steps."""
    X, y = small(0, n=2)
    flat = np.column_stack([X, 1e-7 * X[:, :1] ** 2])
    form = UnitNorm.of(MinNorm.of(hulls(0.4).lower(bind(flat, y)), 2.0, flat.size), 2.0)
    monitor = Monitor()
    answer = Rapminos().solve(form, monitor, Answer(w=np.array([0.0, 1e-3, 1.0])))
    assert answer.status == "converged" and monitor.iterations <= 30


def test_thousands_of_ties_take_no_matrix_of_their_products() -> None:
    """Along a feature that few samples have, all others tie."""
    m, nu = 7000, 0.1
    X = np.random.default_rng(0).standard_normal((m, 3))
    X[:, 2] = np.arange(m) < 5
    tracemalloc.start()
    sol = ucm.solve(ucm.models.nu_svm(nu), X, np.where(np.arange(m) % 2, 1, -1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sol.status == "optimal" and peak < 50e6
    assert_allclose(sol.objective, 2 * 2 / (m * nu), rtol=1e-9)  # two of the class +1 have it


def test_the_bias_is_that_of_the_multipliers() -> None:
    """Appendix E: alpha and beta, at which the weights leave their bounds, enclose -2 b."""
    X, y = load("iris")
    model = ucm.models.enu_svm(0.05)
    sol = ucm.compile(model, X, y).solve(bias_rule="multipliers")
    assert sol.bias_rule == "multipliers"
    scores, eta = X @ sol.w, 2.0 / (len(y) * 0.05)
    ends = []
    for c in (1.0, -1.0):
        s, q = scores[y == c], known(sol.weights)[y == c]
        free = (q > 1e-9) & (q < eta * (1 - 1e-9))
        assert free.any()
        ends.append(float(s[free].mean()))
        assert np.ptp(s[free]) <= 1e-9
    assert_allclose(known(sol.b), -0.5 * sum(ends), rtol=1e-9)
    clf = ucm.Classifier(model).fit(X, y)
    assert clf.score(X, y) > 0.7 and clf.solution_.status == "optimal"


# --- bad input ----------------------------------------------------------------------------------
def test_norms_and_sizes_outside_their_range() -> None:
    X, y = small(0)
    with pytest.raises(ucm.CompositionError, match=r"norm must lie in \[1, inf\]"):
        ucm.models.enu_svm(0.3, norm=0.5)
    with pytest.raises(ucm.EmptySetError, match="at least"):
        ucm.compile(hulls(0.01), X, y)
    with pytest.raises(ucm.EmptySetError, match="nu must be at most"):
        ucm.compile(ucm.models.enu_svm(1.5), X, y)
    with pytest.raises(ParameterError):
        Rapminos(step="far")
    with pytest.raises(SolverError, match="sums of reduced hulls"):
        ucm.solve(ucm.models.mm_mpm(9.0), X, y, solver="rapminos")


@pytest.mark.parametrize("p", NORMS)
def test_degenerate_samples_are_solved(p: float) -> None:
    same, y = np.ones((6, 2)), np.array([1.0, 1, 1, -1, -1, -1])
    for model in (hulls(0.5), ucm.models.mm_fda(0.5)):
        sol = ucm.solve(ucm.RobustMargin(model, p), same, y)
        assert sol.status == "zero_in_set" and not sol.w.any()
    # one point against a cloud around it; every sample twice; hulls of one point each
    X, y = small(5, n=2)
    one = np.vstack([X[y > 0], X[y > 0].mean(axis=0)])
    labels = np.r_[np.ones(len(one) - 1), -1.0]
    point = ucm.solve(ucm.RobustMargin(ucm.Hull(pos) - ucm.Hull(neg), p), one, labels)
    assert point.status in ("local", "optimal") and point.objective > 0.0
    twice = ucm.solve(ucm.RobustMargin(hulls(0.2), p), np.vstack([X, X]), np.r_[y, y])
    once = ucm.solve(ucm.RobustMargin(hulls(0.4), p), X, y)
    assert_allclose(twice.objective, once.objective, rtol=1e-9)
    barycentres = ucm.solve(ucm.RobustMargin(hulls(1 / 12), p), X, y)
    assert barycentres.status == "optimal" and barycentres.objective < 0.0


@pytest.mark.parametrize("p", NORMS)
def test_hulls_that_touch_in_one_point_and_ties_everywhere(p: float) -> None:
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    y = np.repeat([1.0, -1.0], 4)
    touching = ucm.RobustMargin(ucm.Hull(pos) - ucm.Hull(neg), p)
    sol = ucm.solve(touching, np.vstack([corners + np.array([2.0, 0.3]), corners]), y)
    assert sol.status == "optimal" and abs(sol.objective) <= 1e-8
    # the grids are the same: the start is 0, and every ordering has ties
    grid = np.array(list(itertools.product([-1.0, 0, 1], repeat=2)))
    X, y = np.vstack([grid, grid]), np.repeat([1.0, -1.0], 9)
    for eta in (1.0, 0.5, 0.25, 0.2):  # 1/eta whole
        sol = ucm.solve(ucm.RobustMargin(hulls(eta), p), X, y, n_starts=6)
        assert sol.status in ("local", "stationary", "optimal")
        assert_allclose(sol.objective, exact(X, y, eta, p), rtol=1e-9)


def test_the_table_names_every_solver() -> None:
    X, y = small(0)
    form = UnitNorm.of(ucm.compile(hulls(0.4), X, y).form, 2.0)
    names = {route.solver.name for route in routes(form)}
    assert names == {
        "secular", "facets", "faces", "rapminos", "linearize", "subgradient",
    }  # fmt: skip
    text = ucm.compile(hulls(0.4), X, y).explain(verbose=True)
    assert all(name in text for name in names)
    other = ucm.solve(hulls(0.4), *small(0, n=2))
    plan = ucm.compile(hulls(0.4), X, y, solver="rapminos")
    with pytest.raises(ParameterError, match="warm_start"):
        plan.solve(warm_start=other)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_quasi_newton_steps_leave_few_programs_where_a_ball_makes_f_smooth(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linearisations alone take 8 to 36 programs; CVXPY's linearisation at the answer agrees."""
    programs, attempt = [], ray_shooting.attempt

    def counted(*given: Any, **options: Any) -> str:
        programs.append(1)
        return attempt(*given, **options)

    monkeypatch.setattr(ray_shooting, "attempt", counted)
    plan = ucm.compile(ucm.models.l2_nu_svm(0.2), *small(seed, 200, 5))
    solution = plan.solve()
    assert solution.status == "stationary"
    assert plan.verify().agrees
    assert len(programs) <= 5
