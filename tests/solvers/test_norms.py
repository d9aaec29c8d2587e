"""Every norm on the convex side: against Clarabel, against enumeration, and at its ends."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from bundled import load
from numpy.testing import assert_allclose

import ucm
from ucm import neg, pos, signed
from ucm.errors import CompositionError, ParameterError, SolverError
from ucm.solvers import ALM, APG, SSNAL, LevelSetNewton

NORMS = (1.0, 1.5, 2.0, 3.0, np.inf)
CENTER = pos.mean - neg.mean
SETS: dict[str, Any] = {
    "hulls": ucm.models.nu_svm(0.6),
    "signed": ucm.Hull(signed, weights=ucm.CappedSimplex(0.03)),
    "class ball": ucm.Hull(signed, weights=ucm.NormBall(0.04, p=np.inf)),
    "l2": ucm.models.l2_nu_svm(0.15),
    "KL": ucm.models.kl_svm(0.9),
    "MM-MPM": ucm.models.mm_mpm(0.3),
    "coherent": ucm.models.coherent_mm_mpm(0.4),
    "balls": ucm.Ball(CENTER, 0.2, p=1) + ucm.Ball(0, 0.1, p=np.inf),
    "box and segment": ucm.AffineImage(np.eye(4)[:, :1], ucm.NormBall(0.2, p=1), center=CENTER)
    + ucm.AffineImage(np.eye(4)[:, 1:], ucm.Box(-0.1, 0.2)),
    "met polyhedra": ucm.Hull(pos, weights=ucm.CappedSimplex(0.05) & ucm.NormBall(0.04, p=np.inf))
    - ucm.ReducedHull(neg, eta=0.04),
    "met hulls": (ucm.Hull(pos) & ucm.Ball(pos.mean, 0.4, p=np.inf)) - 1.0 * neg.mean,
}
POLYHEDRAL = {
    "hulls",
    "signed",
    "class ball",
    "balls",
    "box and segment",
    "met polyhedra",
    "met hulls",
}


def apart() -> tuple[np.ndarray, np.ndarray]:
    """Four features, the classes moved apart so that 0 is in none of the sets."""
    X, y = load("wine")
    return X[::2, :4] + 0.8 * y[::2, None], y[::2]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SETS)
def test_other_norms_agree_with_the_twin(name: str, norm: float) -> None:
    X, y = apart()
    plan: Any = ucm.compile(ucm.RobustMargin(SETS[name], norm), X, y)
    sol: Any = plan.solve()
    assert sol.status == "optimal", sol.message
    assert sol.certificate.violation <= 1e-6 and abs(sol.certificate.relative_gap) <= 1e-6
    report = plan.verify()
    assert report.agrees, str(report)
    assert np.linalg.norm(sol.w, norm) == pytest.approx(1.0, abs=1e-6)
    assert sol.objective == pytest.approx(-np.linalg.norm(sol.x, plan.model.dual), rel=1e-9)
    if norm == 2.0:
        assert plan.solver.name.split("-")[0] in ("secular", "active", "ssnal", "apg", "alm")
    elif norm in (1.0, np.inf):
        assert plan.solver.name == ("highs" if name in POLYHEDRAL else "level-set")
    else:
        assert plan.solver.name == "level-set"


@pytest.mark.parametrize("norm", [1.0, 1.2, 3.0, 8.0, np.inf])
@pytest.mark.parametrize("data", ["breast_cancer", "wine"])
def test_other_norms_are_solved_on_more_samples(data: str, norm: float) -> None:
    X, y = load(data)
    for model in (ucm.models.nu_svm(0.5), ucm.models.mm_mpm(0.4)):
        sol: Any = ucm.solve(ucm.RobustMargin(model, norm), X, y)
        assert sol.status == "optimal"
        # the definition, with the reported w and x
        assert abs(sol.certificate.primal - sol.objective) <= 1e-6 * abs(sol.objective)
        again = ucm.solve(ucm.RobustMargin(model, norm), X, y, tol=1e-5)
        assert again.objective == pytest.approx(sol.objective, rel=1e-5)


def test_inner_solvers_of_the_level_set_method_agree() -> None:
    X, y = load("breast_cancer")
    model = ucm.RobustMargin(ucm.models.nu_svm(0.5), 3.0)
    found = [
        ucm.solve(model, X, y, solver=LevelSetNewton((inner,)), tol=1e-7)
        for inner in (SSNAL(), SSNAL(iterative=True))
    ]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-6)
    assert found[0].stats.passes < found[1].stats.passes


@pytest.mark.parametrize("norm", [1.0, 1.5, 3.0, np.inf])
def test_two_segments_by_enumeration(norm: float) -> None:
    X = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, 0.0], [0.0, -2.0]])
    y = np.array([1, 1, -1, -1])
    sol = ucm.solve(ucm.RobustMargin(ucm.Hull(pos) - ucm.Hull(neg), norm), X, y)
    q = {1.0: np.inf, np.inf: 1.0}.get(norm) or norm / (norm - 1.0)
    grid = np.linspace(0.0, 1.0, 401)
    s, t = (v.ravel()[:, None] for v in np.meshgrid(grid, grid))
    points = s * X[0] + (1 - s) * X[1] - t * X[2] - (1 - t) * X[3]
    least = float(np.linalg.norm(points, q, axis=1).min())
    assert -sol.objective <= least + 1e-9 and -sol.objective >= least - 1e-2


@pytest.mark.parametrize("norm", [1.0, 1.5, 3.0, np.inf])
def test_zero_empty_and_equal(norm: float) -> None:
    X, y = load("iris")
    name = "highs" if norm in (1.0, np.inf) else "level-set"
    inside = ucm.solve(ucm.RobustMargin(ucm.models.nu_svm(0.05), norm), X, y, solver=name)
    assert inside.status == "zero_in_set" and not np.any(inside.w)
    apart = ucm.Ball(pos.mean, 0.1, p=1) & ucm.Ball(neg.mean, 0.1, p=np.inf)
    with pytest.raises(ucm.EmptySetError, match="empty, "):
        ucm.solve(ucm.RobustMargin(apart, norm), X, y)
    same = ucm.solve(ucm.RobustMargin(ucm.models.nu_svm(0.6), norm), np.ones((6, 2)), [1, 1, 1, -1, -1, -1])
    assert same.status == "zero_in_set"
    one = ucm.solve(ucm.RobustMargin(ucm.Hull(pos) - ucm.Hull(neg), norm), [[3.0, 4.0], [0.0, 0.0]], [1, -1])
    q = {1.0: np.inf, np.inf: 1.0}.get(norm) or norm / (norm - 1.0)
    assert one.objective == pytest.approx(-np.linalg.norm([3.0, 4.0], q), rel=1e-9)
    zeros = np.hstack([X, np.zeros((X.shape[0], 2))])  # constant features change nothing
    model = ucm.RobustMargin(ucm.models.nu_svm(0.8), norm)
    found: Any = ucm.solve(model, zeros, y)
    plain: Any = ucm.solve(model, X, y)
    assert found.objective == pytest.approx(plain.objective, rel=1e-6)
    assert_allclose(found.x[-2:], 0.0, atol=1e-12)


def test_sparse_and_scaled_samples() -> None:
    from scipy import sparse

    X, y = load("wine")
    for norm in (1.0, 1.5, np.inf):
        model = ucm.RobustMargin(ucm.models.nu_svm(0.4), norm)
        base = ucm.solve(model, X, y).objective
        assert ucm.solve(model, sparse.csr_matrix(X), y).objective == pytest.approx(base, rel=1e-6)
        for factor in (1e-6, 1e6):
            scaled = ucm.solve(model, factor * X, y)
            assert scaled.status == "optimal"
            assert scaled.objective == pytest.approx(factor * base, rel=1e-6)


def test_solvers_refuse_norms_that_they_do_not_take() -> None:
    X, y = load("iris")
    for norm in (0.5, -1.0, float("nan")):
        with pytest.raises(CompositionError, match=r"norm must lie in \[1, inf\]|real number"):
            ucm.RobustMargin(ucm.models.nu_svm(0.5), norm)
    model = ucm.models.nu_svm(0.5)
    for norm, name, why in (
        (3.0, "ssnal", "Euclidean"),
        (3.0, "apg", "Euclidean"),
        (3.0, "highs", "norms 1 and inf"),
        (2.0, "level-set", "Euclidean"),
    ):
        with pytest.raises(SolverError, match=f"'{name}' does not take this model: .*{why}"):
            ucm.compile(ucm.RobustMargin(model, norm), X, y, solver=name)
    with pytest.raises(SolverError, match="is no polyhedron"):
        ucm.compile(ucm.RobustMargin(ucm.models.mm_mpm(0.1), 1.0), X, y, solver="highs")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ucm.solve(ucm.RobustMargin(model, 1.0), X, y, solver="highs")


FOUR = np.array([[0.0, 1.0], [1.0, 3.0], [4.0, 4.0], [5.0, 7.0]])
ON_A_LINE = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0]])


@pytest.mark.parametrize("norm", [1.0001, 1.001, 1.005, 1.01, 1.05])
@pytest.mark.parametrize(("X", "best"), [(FOUR, -3.0), (ON_A_LINE, -2.0)])
def test_two_hulls_next_to_the_l1_norm(X: np.ndarray, best: float, norm: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sol = ucm.solve(ucm.RobustMargin(ucm.models.nu_svm(0.5), norm), X, [-1, -1, 1, 1])
    assert sol.status == "optimal"
    assert sol.objective == pytest.approx(best, rel=2e-5) and sol.objective <= best


@pytest.mark.parametrize(
    ("norm", "sizes"),
    [(1.0001, [2.0]), (1.001, [0.5, 2.0, 6.0]), (30.0, [0.5, 2.0, 6.0]), (1e3, [6.0]), (1e5, [0.5])],
)
def test_ellipsoids_at_extreme_exponents(norm: float, sizes: list[float]) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((8, 10)), np.where(np.arange(8) % 2, 1.0, -1.0)
    for size in sizes:
        root = rng.standard_normal((10, 10))
        U = ucm.Ellipsoid(size * rng.standard_normal(10), root @ root.T, 0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sol = ucm.solve(ucm.RobustMargin(U, norm), X, y)
        assert sol.status == "optimal", sol.message
        # between the l1 and linf norms of the nearest points, which differ little from these exponents
        end = 1.0 if norm < 2.0 else np.inf
        other = ucm.solve(ucm.RobustMargin(U, end), X, y)
        ends = 10.0 ** abs(1.0 / norm - 1.0 / end)
        assert 1.0 / ends - 1e-6 <= sol.objective / other.objective <= ends + 1e-6


@pytest.mark.parametrize("norm", [1.0, 1.001, 1.5, np.inf])
@pytest.mark.parametrize("name", ["l2", "KL", "MM-MPM", "balls", "box and segment", "met hulls"])
def test_a_growing_ball_agrees_with_the_default_route(name: str, norm: float) -> None:
    X, y = apart()
    model = ucm.RobustMargin(SETS[name], norm)
    sized_delimiters = LevelSetNewton((SSNAL(), APG(), ALM(APG())))
    sol = ucm.solve(model, X, y, solver=sized_delimiters)
    assert sol.status == "optimal", sol.message
    assert sol.stats.iterations <= 12
    other = ucm.solve(model, X, y)
    assert other.status == "optimal", other.message
    assert sol.objective == pytest.approx(other.objective, rel=2e-6)


def test_refusals_of_level_sets() -> None:
    X, y = apart()
    with pytest.raises(SolverError, match="but the Euclidean one"):
        ucm.compile(SETS["l2"], X, y, solver=LevelSetNewton((SSNAL(),)))
    met = ucm.RobustMargin(SETS["met hulls"], 3.0)
    with pytest.raises(SolverError, match="apg: the blocks are coupled"):
        ucm.compile(met, X, y, solver=LevelSetNewton((APG(),)))
    with pytest.raises(ParameterError, match="a tuple of solvers"):
        LevelSetNewton(())


@pytest.mark.parametrize(("norm", "first"), [(1.001, 0), (30.0, 1)])
def test_met_operands_are_met_to_the_tolerance(norm: float, first: int) -> None:
    """Every second set, beside a norm of either side; each is a sum of operands and one of them."""
    X, y = apart()
    ball = ucm.Ball([1.75] * 4, 0.875)
    near = ucm.Ball([0.5] * 4, 1.25, p=1.01)
    small = ucm.Ball([0.375, 0.25, -0.25, -0.5], 0.875, p=3)
    hull = ucm.Hull(pos, weights=ucm.LossBall(ucm.Hinge(2), 1.125))
    sets = (
        ball & (ball + near),
        (ucm.Hull(pos) + ucm.Ball([0.125] * 4, 1.25, p=30)) & ucm.Hull(pos),
        hull & (hull + small),
        ucm.Hull(pos) - (ucm.Hull(neg) & (ucm.Hull(neg) + near)),
        -3 * ((ucm.ReducedHull(neg, nu=0.5) + small) & ucm.ReducedHull(neg, nu=0.5)),
        ucm.Ellipsoid(pos.mean, pos.cov, 0.5) & ucm.Hull(pos),
    )
    for U in sets[first::2]:
        sol = ucm.solve(ucm.RobustMargin(U, norm), X, y)
        assert sol.status == "optimal", (U, sol.message)
        assert sol.certificate.violation <= 1e-6


@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 3.0, 30.0, np.inf])
def test_empty_intersections_raise_an_error(norm: float) -> None:
    X, y = apart()
    empty = (
        ucm.Ball(np.ones(4), 0.5) & ucm.Ball(-np.ones(4), 0.5),  # centres that cancel
        ucm.Hull(pos) & ucm.Ball(1e3 * np.ones(4), 1.0),
        (ucm.Hull(pos) - ucm.Hull(pos)) & (ucm.Ball(9 * np.ones(4), 1.0) & ucm.Ball(-9 * np.ones(4), 1.0)),
    )
    for U in empty:
        with pytest.raises(ucm.EmptySetError, match="empty, "):
            ucm.solve(ucm.RobustMargin(U, norm), X, y)


def test_a_centre_that_misses_the_couplings_is_no_point_of_the_set() -> None:
    """The centre of the image lies beyond 0, and {0.375} is all that the operands share."""
    wide = ucm.AffineImage([[1.75, -1.625, -2.0]], ucm.LossBall(2 * ucm.Exponential(), 1.5), center=[0.75])
    X, y = np.array([[0.0], [1.0]]), np.array([-1.0, 1.0])
    for norm in (1.0, 2.0, 3.0, np.inf):
        sol = ucm.solve(ucm.RobustMargin(wide & ucm.Point([0.375]), norm), X, y)
        assert (sol.status, sol.objective) == ("optimal", pytest.approx(-0.375, rel=1e-6)), norm


def test_steps_that_rounding_hides_end() -> None:
    """Line searches among rounding took 13 s of the process here, and 8 problems in a row that were one."""
    X = np.array([[1.75, 0.375, 0.875, 2.25], [2.0, 2.875, -1.125, 0.625], [2.5, 1.375, -1.125, -0.625],
                  [-1.5, -2.875, -1.125, -0.25]])  # fmt: skip
    y = np.array([1.0, 1.0, 1.0, -1.0])
    hull = ucm.Hull(pos, weights=ucm.LossBall(ucm.SquaredHinge(), 1.125))
    U = hull & (hull + ucm.Ball([0.375, 0.25, -0.25, -0.5], 0.875, p=3))
    sol = ucm.solve(ucm.RobustMargin(U, 1.01), X, y)
    assert sol.status == "optimal" and sol.objective == pytest.approx(-1.823707, rel=1e-6)
    assert sol.stats.passes < 5_000
