"""A plan is frozen, its reference means one thing, its solvers have names of their own."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import FrozenInstanceError, replace
from typing import Any
from xml.etree import ElementTree

import cvxpy as cp
import numpy as np
import pytest
from bundled import load
from scipy import sparse

import ucm
from ucm.compiler.compile import LOWERINGS
from ucm.compiler.lowering import BoundModel, Lowering
from ucm.compiler.robust import DistanceLowering
from ucm.compiler.route import ROUTES, label
from ucm.data.bound_data import bind
from ucm.data.first_pass import first_pass
from ucm.errors import ParameterError, ScaleWarning
from ucm.forms.display import digits
from ucm.language.robust import as_model
from ucm.solvers import DCA

INSIDE = ucm.models.enu_svm(0.4)  # iris: 0 lies in U


def test_a_plan_is_frozen() -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.8), *load("iris"))
    with pytest.raises(FrozenInstanceError):
        plan.solver = None  # type: ignore[misc, assignment]  # pyright: ignore[reportAttributeAccessIssue]


def test_statistics_are_of_one_solve() -> None:
    X, y = load("wine")
    models: list[Any] = [ucm.models.nu_svm(0.3), ucm.models.kl_svm(0.8), ucm.Logistic() + 0.5 * ucm.LInf()]
    for model in models:
        plan = ucm.compile(model, X, y)
        first, second = (replace(plan.solve().stats, solve_time=0.0) for _ in range(2))
        assert first == second and first.passes > 0.0


def test_the_reference_does_not_change_with_a_solve() -> None:
    X, y = load("iris")
    plan = ucm.compile(INSIDE, X, y)
    before = plan.reference().solve(solver=cp.CLARABEL)
    solution = plan.solve()
    assert solution.objective > 0.01 and solution.plan is not None
    assert plan.reference().solve(solver=cp.CLARABEL) == pytest.approx(before, abs=1e-7)
    around = plan.reference(solution).solve(solver=cp.CLARABEL)
    assert around == pytest.approx(solution.objective, rel=1e-6)
    assert solution.plan.reference(solution).solve(solver=cp.CLARABEL) == around
    assert plan.verify().agrees
    with pytest.raises(ParameterError, match="around a solution"):
        solution.plan.reference()


def test_the_reference_of_a_difference_of_convex_functions() -> None:
    X, y = load("iris")
    plan = ucm.compile(ucm.models.rlsvmc1(0.5), X, y)
    at_zero = plan.reference().solve(solver=cp.CLARABEL)
    solution = plan.solve()
    assert plan.reference().solve(solver=cp.CLARABEL) == pytest.approx(at_zero, rel=1e-7)
    around = plan.reference(solution).solve(solver=cp.CLARABEL)
    assert around == pytest.approx(solution.objective, rel=1e-6)


def test_a_solution_is_pickled_without_its_data() -> None:
    X, y = load("iris")
    solution = ucm.solve(INSIDE, X, y)
    again = pickle.loads(pickle.dumps(solution))
    assert solution.plan is not None and again.plan is None
    assert np.array_equal(again.w, solution.w) and again.status == solution.status


@pytest.mark.parametrize("first", ["clarabel", "smo", "prox-alm"])
@pytest.mark.parametrize("second", ["auto", "clarabel", "prox-alm", "smo"])
def test_any_solution_is_a_start_of_any_solver(first: str, second: str) -> None:
    X, y = load("iris")
    model = ucm.models.svm(0.5)
    cold = ucm.solve(model, X, y, solver=first)
    warm = ucm.compile(model, X, y, solver=second).solve(warm_start=cold)
    assert warm.status == "optimal"
    assert warm.objective == pytest.approx(cold.objective, rel=2e-6)


def test_different_solvers_of_a_form_have_different_names() -> None:
    names = [(form, label(route.solver)) for route in ROUTES for form in route.solver.takes]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("model", [ucm.models.nu_svm(1 / 3), ucm.models.rlsvmc1(0.5), INSIDE])
def test_explain_is_short_and_rounded_by_default(model: Any) -> None:
    X, y = load("iris")
    plan = ucm.compile(model, X, y)
    short, whole = plan.explain().splitlines(), plan.explain(verbose=True).splitlines()
    routes = [line for line in short if line.startswith("  ")]
    assert len(short) <= 16 and len(routes) <= 8 and set(whole) > set(short) - set(routes)
    assert sum("chosen" in line for line in routes) == sum("chosen" in line for line in whole)
    assert any("explain(verbose=True)" in line for line in routes)
    assert not re.search(r"\d\.\d{7}", "\n".join(whole)), "a number is not rounded"


@pytest.mark.parametrize(
    "model", [ucm.models.nu_svm(0.8), ucm.models.svm(1.0), ucm.models.rlsvmc1(0.5), INSIDE]
)
@pytest.mark.parametrize("solver", ["auto", "clarabel"])
def test_results_show_themselves_as_html(model: Any, solver: str) -> None:
    """One well-formed element each, no number of NumPy in it nor in a repr."""
    X, y = load("iris")
    plan = ucm.compile(model, X, y, solver=solver)
    solution = plan.solve()
    results = [plan, solution, solution.certificate, plan.verify()]
    if isinstance(plan.model, ucm.RobustMargin):
        results += ucm.admissible(model, X, y).values()
    for result in results:
        page = result._repr_html_()
        ElementTree.fromstring(page)
        assert "<script" not in page and "<style" not in page and "np." not in page
        assert "np." not in repr(result)
    assert f"<strong>Solution: {solution.status}" in solution._repr_html_()
    assert ("digits proven" in solution._repr_html_()) == (solution.certificate.kind == "global")
    assert "np." not in repr([solution.history, solution.stats, solution.objective, solution.b])
    bold = re.findall(r"font-weight:bold'><td[^>]*>([^<]*)<", plan._repr_html_())
    inner = plan.solver.inner if isinstance(plan.solver, DCA) else None
    assert bold == [(inner or plan.solver).name]


def test_printed_digits_follow_the_gap() -> None:
    assert [digits(x) for x in (0.0, 3e-7, 1e-6, 0.5, 1.0, float("nan"))] == [
        15,
        6,
        6,
        0,
        None,
        None,
    ]
    lone = ucm.Certificate(-1.0, -1.1, 0.1, 1e-9, 1e-4)
    assert lone.digits == 4  # what lies outside of the set proves no more


def test_the_variables_of_a_reference_are_named_as_in_the_formula_with_their_units() -> None:
    X, y = load("iris")
    named = {
        ucm.models.nu_svm(0.8): {"x / 7.7", "50 q_pos", "50 q_neg"},
        ucm.models.mm_mpm(0.3) + ucm.Ball(0, 0.1): {"x / 7.7", "u", "u / 7.7"},
        ucm.models.svm(1.0): {"7.7 w", "b", "t"},
    }
    scale = f"{np.abs(X).max():.3g}"
    for model, names in named.items():
        found = {v.name() for v in ucm.compile(model, X, y).reference(scaled=True).variables()}
        assert found == {name.replace("7.7", scale) for name in names}
    problem = ucm.compile(ucm.models.nu_svm(0.8), X, y).reference(scaled=True)
    problem.solve(solver=cp.CLARABEL)
    x = next(v.value for v in problem.variables() if v.name().startswith("x / "))
    unit = np.abs(X).max()
    assert -np.linalg.norm(unit * x) == pytest.approx(problem.value, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (ucm.models.nu_svm(0.3), {"x", "q_pos", "q_neg"}),
        (ucm.models.kl_svm(0.2), {"x", "q_signed"}),
        (ucm.models.mm_mpm(0.3) + ucm.Ball(0, 0.1), {"x", "u"}),
        (ucm.models.svm(0.7), {"w", "b", "t"}),
        (ucm.models.rlsvmc1(0.5), {"w", "b", "t"}),
    ],
)
def test_an_unscaled_reference_says_the_same_in_the_letters_of_the_formula(
    model: Any, names: set[str]
) -> None:
    X, y = ucm.datasets.load("wine")
    plan = ucm.compile(model, X[:, :4], y)
    scaled, plain = plan.reference(scaled=True), plan.reference()
    assert {v.name() for v in plain.variables()} == names
    values = [problem.solve(solver=cp.CLARABEL) for problem in (scaled, plain)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert not any("param" in p.name() for p in plain.parameters())


@pytest.mark.parametrize(
    ("name", "options"), [("clarabel", {"max_iter": 100}), ("scs", {"max_iters": 50_000})]
)
def test_a_conic_solver_takes_sets_and_losses_by_one_name(name: str, options: dict[str, Any]) -> None:
    X, y = load("iris")
    for model in (ucm.models.nu_svm(0.8), ucm.models.mm_mpm(0.3), ucm.SquaredHinge() + ucm.L2()):
        known = ucm.solve(model, X, y)
        found = ucm.solve(model, X, y, solver=ucm.solvers.Conic(name, **options), tol=1e-4)
        assert found.objective == pytest.approx(known.objective, rel=1e-3)
        assert found.stats.solver == name


def test_a_conic_solver_that_is_not_installed_is_refused() -> None:
    X, y = load("iris")
    with pytest.raises(ucm.SolverError, match=r"'nothing' does not take .* not installed"):
        ucm.compile(ucm.models.nu_svm(0.8), X, y, solver=ucm.solvers.Conic("nothing"))
    wrong: Any = 3
    with pytest.raises(ucm.ParameterError, match="the name of a solver"):
        ucm.solvers.Conic(wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"w": np.ones(3)}, r"verify: .*got w; .*plan\.certify\(w=\.\.\.\)"),
        ({"digits": 3}, r"verify: expected options .*got digits .*leave out"),
    ],
)
def test_verify_refuses_invalid_arguments(options: Any, words: str) -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.3), *ucm.datasets.load("wine"))
    plan.solve()
    with pytest.raises(ucm.ParameterError, match=words):
        plan.verify(**options)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_explain_hints_at_features_of_different_scales(container: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), np.repeat([1, -1], 20)
    for factor, hint in ((1e2, False), (1e5, True)):
        text = ucm.compile(ucm.models.nu_svm(0.9), container(X * [1, 1, factor]), y).explain()
        assert ("a StandardScaler changes the classifier" in text) == hint


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_fit_says_once_that_the_scales_of_features_differ(container: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.repeat(["a", "b", "c"], 20)
    clf = ucm.Classifier(ucm.models.svm(1.0), multi_class="ovo", max_iter=3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        clf.fit(container(X * [1, 100, 0]), y)
        assert not [w for w in said if "StandardScaler" in str(w.message)]
        clf.fit(container(X * [1, 1e5, 0]), y)
    (found,) = (w for w in said if "StandardScaler" in str(w.message))
    assert found.category is ScaleWarning and found.filename == __file__


class _Means(DistanceLowering):
    """The lowering of the nu-SVM with nu = 1 and equal classes, whose hulls are their means."""

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        means = bound.model.params() == {"nu": 1.0}
        model = ucm.RobustMargin(ucm.Point(ucm.pos.mean - ucm.neg.mean))
        return (cls(model, bound.data, bound.requested),) if means else ()


def test_a_lowering_is_an_entry_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load("iris")
    X, y = np.concatenate([X[y > 0][:40], X[y < 0][:40]]), np.repeat([1, -1], 40)
    general = ucm.solve(ucm.models.nu_svm(1.0), X, y)
    monkeypatch.setitem(LOWERINGS, "set", (_Means, *LOWERINGS["set"]))
    plan, other = (ucm.compile(ucm.models.nu_svm(nu), X, y) for nu in (1.0, 0.8))
    assert type(plan.lowering) is _Means and type(other.lowering) is DistanceLowering
    assert plan.solve().objective == pytest.approx(general.objective, rel=1e-6)
    between = float(np.linalg.norm(X[:40].mean(axis=0) - X[40:].mean(axis=0)))
    assert general.objective == pytest.approx(-between, rel=1e-6)


def test_the_lowerings_of_every_kind_of_problem() -> None:
    X, y = load("iris")
    data, rows = bind(X, y), first_pass(ucm.open_rows(X, y), None, None)
    models = as_model(ucm.models.nu_svm(0.8), "test"), ucm.models.svm(1.0)
    few = ucm.Hinge() + ucm.L2() + ucm.Cardinality(2)
    special = ucm.WassersteinObjective(ucm.Hinge(), eps=0.1), few
    kinds = {BoundModel(model, of).kind for model in models for of in (data, rows)}
    kinds |= {BoundModel(model, data).kind for model in special}
    kinds.add(
        BoundModel(as_model(ucm.Hull(ucm.signed, weights=ucm.LossBall(ucm.Hinge(2), lam=1.0)), ""), data).kind
    )
    assert kinds == LOWERINGS.keys()
