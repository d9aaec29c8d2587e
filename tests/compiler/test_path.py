"""A grid of one parameter: every solution is the one that a fit of its own finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bundled import load
from scipy import sparse

import ucm
from ucm.errors import CompositionError, EmptySetError, ParameterError

GRIDS = {
    "nu": (ucm.models.nu_svm(0.3), [0.2, 0.5, 0.3]),
    "kappa": (ucm.models.mm_mpm(0.3), [0.3, 0.1, 0.2]),
    "alpha": (ucm.models.kl_svm(0.8), (0.9, 0.7)),
    "C": (ucm.models.psvm(1.5, 1.0), np.array([0.1, 1.0])),
    "lam": (ucm.models.one_norm_svm(1.0), [1.0, 2.0]),
}


@pytest.mark.parametrize("kernel", [None, "rbf"])
@pytest.mark.parametrize("name", GRIDS)
def test_path_against_single_fits(name: str, kernel: str | None) -> None:
    X, y = load("wine")
    model, grid = GRIDS[name]
    if kernel and name == "lam":
        pytest.skip("the l1 norm needs coordinates of w")
    options = {} if kernel is None else {"kernel": kernel, "gamma": 0.05}
    seen: list[int] = []
    found = ucm.path(model, X, y, **{name: grid}, **options, progress=lambda k, s: seen.append(k))
    assert len(found) == len(grid) and sorted(seen) == list(range(len(grid)))
    for value, solution in zip(grid, found, strict=True):
        alone = ucm.solve(model.with_params(**{name: float(value)}), X, y, **options)
        assert solution.status == alone.status
        assert solution.objective == pytest.approx(alone.objective, rel=3e-6)


def test_the_order_goes_from_small_sets_to_large_ones() -> None:
    X, y = load("wine")
    for name in ("nu", "kappa"):
        model, grid = GRIDS[name]
        steps = []
        ucm.path(model, X, y, progress=lambda *step: steps.append(step), **{name: grid})  # noqa: B023
        assert [place for place, _ in steps] == [1, 2, 0]


def test_a_path_through_zero_in_the_set() -> None:
    X, y = load("iris")
    lower = ucm.admissible(ucm.models.nu_svm(0.5), X, y)["nu"].lower
    found = ucm.path(ucm.models.nu_svm(0.5), X, y, solver="ssnal", nu=[0.9 * lower, 1.2 * lower])
    assert [s.status for s in found] == ["zero_in_set", "optimal"]


def test_bad_grids_are_refused() -> None:
    X, y = load("wine")
    model = ucm.models.nu_svm(0.3)
    wrong: list[dict[str, Any]] = [{}, {"kappa": [1.0]}]
    for given in wrong:
        with pytest.raises(ParameterError):
            ucm.path(model, X, y, **given)
    for misspelt, meant in (("nuu", "nu"), ("subgrup", "subgroup"), ("timelimit", "time_limit")):
        for values in ({}, {"nu": [0.3]}, {"nu": "all"}):
            options: dict[str, Any] = {**values, misspelt: [0.3]}
            with pytest.raises(ParameterError, match=f"{misspelt}; did you mean {meant}[?]"):
                ucm.path(model, X, y, **options)
    with pytest.raises(ParameterError, match="unknown option kappa; the model's parameters are nu;"):
        ucm.path(model, X, y, kappa=[0.3])
    for grid in ([], "0.3", 0.3, ["a"], [[0.3]], None):
        with pytest.raises(ParameterError, match="nu takes one number or more"):
            ucm.path(model, X, y, nu=grid)
    both: dict[str, Any] = {"kappa_pos": [0.5], "kappa_neg": [0.5]}
    with pytest.raises(ParameterError, match="one parameter of the model, which has kappa_pos"):
        ucm.path(ucm.models.biased_l2_nu_svm(0.5, 0.5), X, y, **both)
    with pytest.raises(ParameterError, match="leave warm_start out"):
        ucm.path(model, X, y, nu=[0.3], warm_start=None)
    with pytest.raises(EmptySetError, match="nu must be at most"):
        ucm.path(model, X, y, nu=[0.3, 0.99])
    with pytest.raises(CompositionError, match=r"Param\('nu'\): expected a number, got nan"):
        ucm.path(model, X, y, nu=[np.nan])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_path_of_reduced_hulls_costs_less_than_fits(form: Any) -> None:
    """Every start is the solution before it; the grid may be shuffled."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(8000) % 3 == 0, 1.0, -1.0)
    X = form(np.maximum(rng.standard_normal((y.size, 20)) + 0.3 * y[:, None], 0.0))
    grid = rng.permutation(np.linspace(0.5, 0.54, 15))
    model = ucm.models.nu_svm(0.5)
    found = ucm.path(model, X, y, nu=grid)
    alone = [ucm.solve(model.with_params(nu=float(nu)), X, y) for nu in grid]
    for one, other in zip(found, alone, strict=True):
        assert one.status == "optimal" and one.certificate.violation <= 1e-9
        assert one.objective == pytest.approx(other.objective, rel=2e-6)
        assert one.b == pytest.approx(other.b, rel=1e-2, abs=1e-2)
        assert abs(one.w @ other.w) >= 1.0 - 1e-5
    for count in ("systems", "passes"):
        spent, cold = (sum(getattr(s.stats, count) for s in group) for group in (found, alone))
        assert spent < cold, count


def test_a_path_of_caps_goes_on_from_the_point_before() -> None:
    """Ten of twelve values take about two passes each before their proofs."""
    X, y = load("breast_cancer")
    grid = list(np.linspace(0.5, 0.6, 12))
    path = ucm.path(ucm.models.nu_svm(0.5), X, y, nu=grid)
    alone = [ucm.solve(ucm.models.nu_svm(nu), X, y) for nu in grid]
    assert {solution.status for solution in path} == {"optimal"}
    spent, cold = (sum(sorted(s.stats.passes for s in group)[:10]) for group in (path, alone))
    assert spent < 21.0 and spent < 0.6 * cold


def test_a_start_from_a_near_problem() -> None:
    """Of more features than samples too, whose coordinates are of their span."""
    rng = np.random.default_rng(4)
    for m, n in ((3000, 6), (40, 200)):
        y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
        X = rng.standard_normal((m, n)) + 0.4 * y[:, None]
        before = ucm.solve(ucm.models.nu_svm(0.6), X, y)
        plan = ucm.compile(ucm.models.nu_svm(0.599), X, y)
        cold, warm = plan.solve(), plan.solve(warm_start=before)
        assert warm.status == "optimal"
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
        assert warm.stats.passes < 0.8 * cold.stats.passes


PAIRS = {
    "caps of both": ucm.models.nu_svm(0.6),
    "beside a point": ucm.ReducedHull(ucm.pos, nu=ucm.Param("nu", 0.6))
    - (ucm.ReducedHull(ucm.neg, nu=ucm.Param("nu", 0.6)) + 0.02 * ucm.Point(np.ones(6))),
    "one cap": ucm.ReducedHull(ucm.pos, nu=ucm.Param("nu", 0.6)) - ucm.ReducedHull(ucm.neg, eta=0.001),
}


@pytest.mark.parametrize("name", PAIRS)
def test_hulls_on_a_path_agree_with_single_solves(name: str) -> None:
    """One level of samples serves all values: near and far apart, and where 0 lies in U."""
    rng = np.random.default_rng(6)
    y = np.where(np.arange(2400) % 3 == 0, 1.0, -1.0)
    X = rng.standard_normal((2400, 6)) + 0.4 * y[:, None] + 3.0
    nus = [0.66, 0.659, 0.62, 0.6, 0.3, 0.56, 0.561]
    found = ucm.path(PAIRS[name], X, y, nu=nus, tol=1e-7)
    for nu, solution in zip(nus, found, strict=True):
        alone = ucm.solve(ucm.RobustMargin(PAIRS[name]).with_params(nu=nu), X, y, tol=1e-9)
        assert solution.status == alone.status
        assert solution.objective == pytest.approx(alone.objective, rel=1e-6)
        assert solution.b == pytest.approx(alone.b, abs=1e-3)
    assert {s.status for s in found[:4]} == {"optimal"}


def noisy(m: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    return rng.standard_normal((m, n)) + 0.3 * y[:, None], y


def alone(model: Any, X: Any, y: Any, solution: Any) -> float:
    return ucm.solve(model.with_params(**solution.params), X, y, tol=1e-8).objective


MOVED = ucm.Param("s", 0.5) * ucm.Point(np.ones(6))


@pytest.mark.parametrize(
    ("name", "model", "values"),
    [
        ("nu", ucm.models.nu_svm(0.3), [0.3, 0.3, 0.3, 0.5, 0.5]),
        ("s", ucm.ReducedHull(ucm.pos, nu=0.6) - (ucm.ReducedHull(ucm.neg, nu=0.6) + MOVED), [0.0, 0.1, 0.2]),
        (
            "nu",
            ucm.ReducedHull(ucm.pos, nu=ucm.Param("nu", 0.6))
            - ucm.Param("nu", 0.6) * ucm.ReducedHull(ucm.neg, nu=ucm.Param("nu", 0.6)),
            [0.5, 0.55, 0.6],
        ),
    ],
)  # fmt: skip
def test_hulls_on_a_path_may_be_constant(name: str, model: Any, values: list[float]) -> None:
    """Values that come twice, and a parameter that is more than a cap."""
    X, y = noisy(120, 6)
    model = ucm.RobustMargin(model) if isinstance(model, ucm.extend.UncertaintySet) else model
    X += 0.8 * y[:, None]
    grid: dict[str, Any] = {name: values}
    for solution in ucm.path(model, X, y, **grid):
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(alone(model, X, y, solution), rel=3e-6)


@pytest.mark.parametrize(
    "model",
    [
        ucm.Param("C", 1.0) * ucm.Logistic() + ucm.L1(),
        ucm.Logistic() + ucm.Param("C", 1.0) * ucm.Logistic(on=ucm.pos) + 2.0 * ucm.L1(),
        ucm.Param("C", 1.0) * (ucm.SquaredHinge() + ucm.ElasticNet(0.3)),
    ],
)
def test_a_path_over_the_weight_of_a_loss(model: Any) -> None:
    """The samples stay, what they weigh does not."""
    X, y = noisy(120, 6)
    for solution in ucm.path(model, X, y, C=[0.1, 0.2, 1.0, 10.0]):
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(alone(model, X, y, solution), rel=3e-6)


def test_a_path_refuses_samples_that_a_callback_changes() -> None:
    X, y = noisy(60, 4)

    def change(_: Any) -> None:
        X[0, 0] += 1.0

    with pytest.raises(ucm.DataError, match="changed in place"):
        ucm.path(ucm.models.nu_svm(0.3), X, y, nu=[0.3, 0.4], callback=change)


def test_a_value_of_a_path_goes_on_from_the_one_before() -> None:
    """The point is that of the last value: about two steps, and a proof."""
    X, y = load("breast_cancer")
    lasso = ucm.Logistic() + ucm.Param("lam", 1.0) * ucm.L1()
    found = ucm.path(lasso, X, y, n_values=30)
    assert {s.status for s in found} == {"optimal"}
    assert sum(s.stats.passes for s in found) <= 2.6 * len(found)
    assert sum(s.stats.systems for s in found) <= 2 * len(found)
    for solution in (found[9], found[19], found[29]):
        alone = ucm.solve(lasso.with_params(**solution.params), X, y, tol=1e-9)
        assert alone.certificate.dual <= solution.objective
        assert solution.objective == pytest.approx(alone.objective, rel=1e-6)


@pytest.mark.parametrize("case", ["few", "weights", "elastic", "columns", "sparse", "kernel features"])
def test_all_values_at_once(case: str) -> None:
    """Against fits of their own, and each certificate against that of one point."""
    X, y = load("breast_cancer")
    X = X[:, :200] / np.abs(X).max(0)
    loss: Any = ucm.Logistic() if case in ("few", "weights", "sparse") else 0.5 * ucm.SquaredHinge()
    penalty: Any = ucm.ElasticNet(0.5) if case == "elastic" else ucm.L1()
    model = loss + ucm.Param("lam", 1.0) * penalty
    if case == "columns":
        X = np.hstack([X, X[:, :1] * np.random.default_rng(0).standard_normal((len(y), 90))])
    given: dict[str, Any] = {}
    if case == "weights":
        given = {"sample_weight": np.arange(len(y)) % 3, "class_weight": (2.0, 0.5)}
    if case == "kernel features":
        given = {"kernel": "rbf", "kernel_approx": 20}
    table: Any = sparse.csr_matrix(X) if case == "sparse" else X
    found = ucm.path(model, table, y, n_values=12, **given)
    watched = ucm.path(model, table, y, n_values=12, progress=lambda *_: None, **given)
    assert found.values == pytest.approx(watched.values)
    for solution, other in zip(found, watched, strict=True):
        assert solution.status == other.status == "optimal"
        assert solution.certificate.dual <= other.objective * (1.0 + 1e-12)
        assert other.certificate.dual <= solution.objective * (1.0 + 1e-12)
        plan = ucm.compile(model.with_params(**solution.params), table, y, **given)
        proof = plan.certify(w=solution.w, b=solution.b, weights=solution.weights)
        assert proof.primal == pytest.approx(solution.objective, rel=1e-12)
        assert proof.dual == pytest.approx(solution.certificate.dual, rel=1e-9)
        assert solution.params == other.params and solution.stats.passes > 0.0
        scores = other.decision(table)
        np.testing.assert_allclose(solution.decision(table), scores, atol=0.01 * np.abs(scores).max())


def test_a_path_with_a_penalty_that_joins_features() -> None:
    X, y = load("wine")
    model = ucm.SquaredHinge() + ucm.Param("lam", 1.0) * ucm.LInf()
    for solution in ucm.path(model, X, y, lam=[3.0, 1.0, 0.3]):
        alone = ucm.solve(model.with_params(**solution.params), X, y, tol=1e-9)
        assert solution.objective == pytest.approx(alone.objective, rel=1e-6)
