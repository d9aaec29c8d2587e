"""CVXPY in both directions: the worst case of a set in a problem of one's own, a domain from constraints."""

from __future__ import annotations

import json
import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from catalogue import SETS
from typed import known, untyped

import ucm
from ucm import Param, neg, pos, signed
from ucm.testing import check_domain, check_set

X, Y = load("breast_cancer")
TIGHT: Any = {
    "solver": "CLARABEL",
    **dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-9),
}


# --- the worst case ---------------------------------------------------------------------------------
@pytest.mark.parametrize("U", SETS, ids=repr)
def test_the_worst_case_is_the_model(U: ucm.extend.UncertaintySet) -> None:
    """Its minimum over the ball is minus the distance of the set from 0; the set is moved off 0."""
    rng = np.random.default_rng(2)
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    samples = rng.standard_normal((9, 3)) + y[:, None]
    n = known(U.dimension(3))
    far = U + np.full(n, 10.0)
    w = cp.Variable(n)
    groups = list("ABABABBAB")
    worst = ucm.worst_case(far, samples, y, w, subgroup=groups)
    assert worst.is_convex() and worst.shape == ()
    problem = cp.Problem(cp.Minimize(worst), [cp.norm(w, 2) <= 1])
    value = problem.solve(**TIGHT)
    assert value == pytest.approx(ucm.solve(far, samples, y, subgroup=groups).objective, rel=1e-6)
    height = ucm.support(far, samples, y, -known(w.value), subgroup=groups).value
    assert worst.value == pytest.approx(height, rel=1e-6)


def cubes(q: cp.Variable) -> list[cp.Constraint]:
    """The ball of the 3-norm, in power cones."""
    t = cp.Variable(2)
    return [cp.PowCone3D(t, np.ones(2), q, np.full(2, 1 / 3)), cp.sum(t) <= 1.0]


def test_the_worst_case_of_a_domain_in_power_cones() -> None:
    centre = np.array([3.0, 1.0])
    U = ucm.AffineImage(np.eye(2), ucm.CvxpyDomain(cubes), center=centre)
    w = cp.Variable(2)
    worst = ucm.worst_case(U, np.eye(2), np.array([1.0, -1.0]), w)
    value = cp.Problem(cp.Minimize(worst), [cp.norm(w) <= 1]).solve(**TIGHT)
    angles = np.linspace(0.0, 2.0 * np.pi, 100_001)
    directions = np.array([np.cos(angles), np.sin(angles)])
    heights = np.sum(np.abs(directions) ** 1.5, axis=0) ** (2 / 3) - centre @ directions
    assert value == pytest.approx(heights.min(), rel=1e-6)


@pytest.mark.parametrize("name", ["breast_cancer", "iris", "wine", "digits"])
@pytest.mark.parametrize("norm", [1.0, 2.0, np.inf])
def test_models_written_in_cvxpy_agree_on_real_sets(name: str, norm: float) -> None:
    X, y = load(name)
    nu = {"breast_cancer": 0.8, "iris": 0.9}.get(name, 0.4)
    for U in (ucm.models.nu_svm(nu), ucm.models.mm_mpm(0.2)):
        model = ucm.RobustMargin(U, norm)
        w = cp.Variable(X.shape[1])
        problem = cp.Problem(
            cp.Minimize(ucm.worst_case(model, X, y, w)),
            [cp.norm(w, "inf" if norm == np.inf else int(norm)) <= 1],
        )
        assert problem.solve(**TIGHT) == pytest.approx(ucm.solve(model, X, y).objective, rel=1e-6)


def test_several_sets_and_a_budget_in_one_problem() -> None:
    """The worst of two sets is that of their union; a budget on w holds."""
    hull, round_ = ucm.models.nu_svm(0.8), ucm.models.mm_mpm(0.2)
    w = cp.Variable(3)
    worst = [ucm.worst_case(U, X, Y, w) for U in (hull, round_)]
    cost = np.array([1.0, 3.0, 2.0])
    budget = [cp.norm(w) <= 1, cost @ cp.abs(w) <= 1.5]
    value = cp.Problem(cp.Minimize(cp.maximum(*worst)), budget).solve(**TIGHT)
    found = known(w.value)
    ends = [ucm.support(U, X, Y, -found).value for U in (hull, round_)]
    assert value == pytest.approx(max(ends), rel=1e-6) and cost @ np.abs(found) <= 1.5 + 1e-6
    assert value > max(ucm.solve(U, X, Y).objective for U in (hull, round_)) + 1e-3
    # by duality a point x of the hull of both: checked by brute force over w
    rng = np.random.default_rng(0)
    for v in found + 0.05 * rng.standard_normal((200, 3)):
        v = v / max(1.0, float(np.linalg.norm(v)), float(cost @ np.abs(v)) / 1.5)
        assert max(ucm.support(U, X, Y, -v).value for U in (hull, round_)) >= value - 1e-6


def test_affine_expressions_and_numbers() -> None:
    U = ucm.Hull(pos) - neg.mean
    v = cp.Variable(2)
    M = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])
    value = cp.Problem(cp.Minimize(ucm.worst_case(U, X, Y, M @ v)), [cp.norm(M @ v) <= 1]).solve()
    assert value >= ucm.solve(U, X, Y).objective - 1e-7
    d = np.array([0.3, -0.2, 0.1])
    assert ucm.worst_case(U, X, Y, d).value == pytest.approx(ucm.support(U, X, Y, -d).value)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_the_worst_case_of_a_ball_of_any_norm(p: float) -> None:
    """Its cones are powers, which the support function of CVXPY does not take; the least is the distance."""
    w, x, center = cp.Variable(3), cp.Variable(3), np.array([3.0, 1.0, -0.5])
    height = ucm.worst_case(ucm.Ball(center.tolist(), 0.9, p=p), X, Y, w)
    value = cp.Problem(cp.Minimize(height), [cp.norm(w) <= 1.0]).solve(solver="CLARABEL")
    nearest = cp.Problem(cp.Minimize(cp.norm(x)), [cp.pnorm(x - center, p, approx=False) <= 0.9])
    assert value == pytest.approx(-float(nearest.solve(solver="CLARABEL")), rel=1e-6)


@pytest.mark.parametrize(
    ("U", "w", "error", "words"),
    [
        (ucm.Hull(pos), cp.Variable(4), ucm.DataError, r"shape \(3,\)"),
        (ucm.Hull(pos), cp.square(cp.Variable(3)), ucm.DataError, "affine"),
        (ucm.Hull(pos), "w", ucm.DataError, "affine"),
        (ucm.Ball(pos.mean, 1e-3) & ucm.Ball(neg.mean, 1e-3), cp.Variable(3), ucm.EmptySetError, "empty"),
        (ucm.Hinge(), cp.Variable(3), ucm.CompositionError, "loss"),
    ],
)  # fmt: skip
def test_worst_case_refuses_invalid_normals(U: Any, w: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ucm.worst_case(U, X, Y, w)


# --- a domain from constraints ----------------------------------------------------------------------
def budget(q: Any, amount: Any) -> list[Any]:
    return [cp.norm(q, "inf") <= 1, cp.norm1(q) <= amount]


def lifted(q: Any) -> list[Any]:
    t = cp.Variable(q.size)
    return [cp.abs(q) <= t, cp.sum(t) <= 1.5]


def ordered(q: Any) -> list[Any]:
    """Unbounded alone, a polytope on the simplex: the first entry is at most twice the last."""
    return [q[0] <= 2 * q[q.size - 1]]


def not_convex(q: Any) -> list[Any]:
    return [cp.norm(q) >= 1]


def empty(q: Any) -> list[Any]:
    return [cp.norm(q) <= 1, q >= 2]


def a_number(q: Any) -> Any:
    return cp.sum(q)


@pytest.mark.parametrize("D", [ucm.CvxpyDomain(budget, Param("gamma", 1.5)), ucm.CvxpyDomain(lifted)])
def test_a_domain_obeys_its_laws(D: ucm.extend.Domain) -> None:
    check_domain(D, dims=(3,), tol=1e-6)
    for U in (ucm.AffineImage(np.eye(3), D, [1.0, 2.0, 3.0]), ucm.Hull(pos, weights=D)):
        check_set(U, tol=1e-6)


def test_a_domain_written_in_cvxpy_satisfies_the_laws() -> None:
    check_domain(ucm.CvxpyDomain(ordered), dims=(4,), tol=1e-6)
    U = ucm.Hull(pos, weights=ucm.CvxpyDomain(ordered)) - ucm.Hull(neg)
    solution = ucm.solve(U, X[:40] + Y[:40, None], Y[:40])
    weights = known(solution.weights)[Y[:40] > 0]
    assert solution.status == "optimal" and weights[0] <= 2 * weights[-1] + 1e-7
    check_set(ucm.Hull(signed, weights=ucm.CvxpyDomain(ordered)), tol=1e-6)


def test_a_domain_written_in_cvxpy_equals_the_built_in_domain() -> None:
    def ball(q: Any, radius: Any) -> list[Any]:
        return [cp.norm(q, 2) <= radius]

    spread = np.diag([1.0, 2.0, 0.5])
    center = pos.mean - neg.mean
    r = Param("r", 0.2)
    mine, same = (ucm.AffineImage(spread, D, center) for D in (ucm.CvxpyDomain(ball, r), ucm.NormBall(r)))
    plan = ucm.compile(mine, X, Y)
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify()
    assert solution.objective == pytest.approx(ucm.solve(same, X, Y).objective, rel=1e-7)
    assert mine.with_params(r=0.3).params() == {"r": 0.3}
    one, other = (ucm.admissible(U, X, Y)["r"].upper for U in (mine, same))
    assert one == pytest.approx(other, rel=1e-6)
    assert mine.in_features() is not None  # of the matrix, not of the domain
    assert ucm.Hull(pos, weights=ucm.CvxpyDomain(lifted)).in_features() is None


def test_text_json_and_pickle() -> None:
    D = ucm.CvxpyDomain(budget, Param("gamma", 1.5))
    assert repr(D) == "CvxpyDomain(budget, amount=Param('gamma', 1.5))"
    assert str(D) == "budget(q, γ),  γ = 1.5" and "budget" in D._repr_latex_()
    again = ucm.from_json(ucm.to_json(D), functions=[budget])
    assert again == D and hash(again) == hash(D) and pickle.loads(pickle.dumps(D)) == D
    assert ucm.CvxpyDomain(lifted) != ucm.CvxpyDomain(ordered)

    def inside(q: Any) -> list[Any]:
        return [q >= 0, q <= 1]

    for build in (inside, lambda q: [cp.norm(q) <= 1]):
        with pytest.raises(ucm.CompositionError, match="top of a module"):
            ucm.to_json(ucm.CvxpyDomain(build))


def written(name: str, module: str) -> str:
    build = {"function": name, "module": module}
    return json.dumps({"ucm": 1, "model": {"node": "CvxpyDomain", "fields": {"build": build}}})


@pytest.mark.parametrize(
    ("name", "module"),
    [("rmtree", "shutil"), ("getoutput", "subprocess"), ("system", "os"), ("budget", __name__)],
)
def test_json_takes_only_functions_that_its_reader_named(name: str, module: str) -> None:
    """The functions belong to imported modules, and a conic program would call them."""
    for functions in ([], [lifted]):
        with pytest.raises(ucm.CompositionError, match=rf"got none for '{name}'.*functions="):
            ucm.from_json(written(name, module), functions=functions)
    D = ucm.from_json(written("lifted", __name__), functions=[budget, lifted])
    assert ucm.CvxpyDomain(lifted) == D


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (not_convex, ucm.CompositionError, "expected convex constraints, got .*; write"),
        (a_number, ucm.CompositionError, "expected a list of CVXPY constraints, got .*; return"),
        (empty, ucm.EmptySetError, "empty, no q of 3 entries .*; relax"),
        (ordered, ucm.EmptySetError, "unbounded, .*; bound"),
    ],
)
def test_invalid_domains_are_refused_before_any_solve(build: Any, error: type[Exception], words: str) -> None:
    U = ucm.AffineImage(np.eye(3), ucm.CvxpyDomain(build), center=pos.mean)
    for work in (ucm.compile, ucm.solve, lambda U, X, y: ucm.worst_case(U, X, y, cp.Variable(3))):
        with pytest.raises(error, match=words):
            work(U, X, Y)
    with pytest.raises(error, match=words):
        ucm.Classifier(U).fit(X, Y)


def test_a_build_is_a_function() -> None:
    for wrong in (3, "budget", [cp.Variable() >= 0], np.ones(2)):
        with pytest.raises(ucm.CompositionError, match="expected a function"):
            untyped.CvxpyDomain(wrong)


def test_a_set_written_in_cvxpy_is_tuned_in_a_classifier() -> None:
    U = ucm.AffineImage(
        np.diag(X.std(axis=0)), ucm.CvxpyDomain(budget, Param("gamma", 0.5)), pos.mean - neg.mean
    )
    clf = ucm.Classifier(U).fit(X, Y)
    assert clf.get_params()["model__gamma"] == 0.5 and clf.score(X, Y) > 0.7
    assert clf.set_params(model__gamma=0.1).fit(X, Y).solution_.status == "optimal"
