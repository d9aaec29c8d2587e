"""Losses and penalties: their laws over the whole catalogue, printing, and what is refused."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any, assert_type

import cvxpy as cp
import numpy as np
import pytest
from catalogue import LOSSES, OBJECTIVES, OTHER_LOSSES, PENALTIES
from scipy import sparse
from scipy.optimize import Bounds

import ucm
from ucm import Param, neg, pos
from ucm.data.linear_map import Vec
from ucm.testing import check_loss, check_penalty


@pytest.mark.parametrize("loss", [*LOSSES, *OTHER_LOSSES], ids=str)
def test_a_loss_satisfies_the_laws(loss: Any) -> None:
    check_loss(loss)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_a_penalty_satisfies_the_laws(penalty: Any) -> None:
    check_penalty(penalty)


@pytest.mark.parametrize("node", [*OTHER_LOSSES, *PENALTIES, *OBJECTIVES], ids=str)
def test_declarations_survive_every_journey(node: Any) -> None:
    assert ucm.from_json(ucm.to_json(node)) == node
    assert pickle.loads(pickle.dumps(node)) == node
    assert copy.deepcopy(node) is node
    names = {name: getattr(ucm, name) for name in ucm.__all__}
    names |= {"inf": np.inf, "csr_matrix": sparse.csr_matrix}
    assert eval(repr(node), names) == node
    assert node._repr_latex_().startswith("$")


def test_the_types_of_sums_and_multiples() -> None:
    """Pyright checks the types; here the objects have them."""
    lam, hinge, ridge = Param("lam", 0.5), ucm.Hinge(), ucm.L2()
    assert isinstance(assert_type(hinge + 0.5 * ridge, ucm.Objective), ucm.Objective)
    assert isinstance(assert_type(ridge / 2 + lam * hinge + 2 * lam * ucm.L1(), ucm.Objective), ucm.Objective)
    assert isinstance(assert_type(lam * ridge + ucm.L1(), ucm.extend.Penalty), ucm.extend.Penalty)
    assert isinstance(assert_type(hinge + ucm.Ramp(), ucm.extend.Loss), ucm.extend.Loss)
    assert isinstance(assert_type(2 * hinge, ucm.extend.ConvexLoss), ucm.extend.ConvexLoss)
    assert isinstance(assert_type(hinge + Bounds(0.0, 1.0), ucm.Objective), ucm.Objective)
    assert isinstance(ucm.RobustMargin(ucm.Hull(pos)) + lam * ridge, ucm.RobustMargin)


def test_a_check_fails_a_wrong_penalty() -> None:
    class Wrong(ucm.extend.ProximalPenalty):
        """`||w||_1` with the proximal map of half of it."""

        def value(self, w: Vec) -> float:
            return float(np.abs(w).sum())

        def split(self) -> Any:
            return (self,), ()

        def prox(self, v: Vec, t: float) -> Vec:
            return np.sign(v) * np.maximum(np.abs(v) - 0.5 * t, 0.0)

        def conjugate(self, z: Vec) -> float:
            return 0.0

        def gauge(self, z: Vec) -> float:
            return float(np.abs(z).max())

        def norms(self) -> None:
            return None

        def cvxpy(self, w: Any, factor: Any, scope: Any) -> Any:
            import cvxpy as cp

            return scope.of(factor) * cp.norm1(w)

        def formula(self, notation: Any) -> str:
            return "wrong"

    with pytest.raises(AssertionError, match="at the proximal map"):
        check_penalty(Wrong())


def test_a_check_fails_a_wrong_slope() -> None:
    class Steep(ucm.Hinge):
        def conjugate_prox_slope(self, v: Vec, t: Any, s: Vec) -> Vec:
            return 0.5 * super().conjugate_prox_slope(v, t, s)

    for p in (1.0, 1.5):
        with pytest.raises(AssertionError, match="the slope of the proximal map"):
            check_loss(Steep(p))


def test_losses_and_penalties_have_their_values() -> None:
    assert ucm.Ramp(0.5).value(np.array([-1.0])) == pytest.approx(1.5)  # 1 + mu
    assert ucm.Ramp(0.5).value(np.array([0.0])) == pytest.approx(1.0)  # 1 - t / mu
    assert ucm.Ramp(0.5).value(np.array([0.5])) == 0.0
    assert ucm.ExpL0(2).value(np.array([0.0, 1.0])) == pytest.approx(1 - np.exp(-2))
    assert ucm.CappedL1(0.5).value(np.array([0.25, -3.0])) == 0.75
    assert ucm.MCP(1, 3).value(np.array([6.0])) == pytest.approx(1.5)  # gamma lam^2 / 2
    assert ucm.SCAD(1, 3.7).value(np.array([9.0])) == pytest.approx(2.35)  # lam^2 (a + 1) / 2


def test_the_eight_models_print_their_splits() -> None:
    model = ucm.models.rlsvm0(0.5, 1.0, 4.0)
    G, H = model.dc()
    assert str(model).startswith("min_{w, b} 1/μ·Σ_{i} (max(0, μ - t_i) - max(0, -μ^2 - t_i))")
    assert str(G).startswith("1/μ·Σ_{i} max(0, μ - t_i) + λ·a·‖w‖₁,")
    assert "λ·Σ_{j} (a·|w_j| - 1 + exp(-a·|w_j|))" in str(H)
    assert str(ucm.models.svm(1.0).dc()[1]) == "0"


def test_splits_are_subtractions_at_random_points() -> None:
    generator = np.random.default_rng(0)
    for objective in OBJECTIVES:
        if "shapes" in objective.needs:
            continue  # its losses are no function of the margins
        G, H = objective.dc()
        for _ in range(3):
            t, w = 2 * generator.standard_normal(9), 2 * generator.standard_normal(4)
            whole = objective.value(t, w, b=0.0)
            assert G.value(t, w) - H.value(t, w) == pytest.approx(whole, abs=1e-10, rel=1e-10)


def test_parameters_are_shared_and_replaced() -> None:
    model = ucm.Ramp(Param("mu", 0.5)) + Param("lam", 2.0) * ucm.ExpL0(Param("a", 4))
    assert model.params() == {"mu": 0.5, "lam": 2.0, "a": 4.0}
    assert model.with_params(a=1.0).params()["a"] == 1.0
    with pytest.raises(ucm.CompositionError, match="two values"):
        _ = ucm.Ramp(Param("a", 0.5)) + ucm.ExpL0(Param("a", 4))


def test_a_penalty_times_0_ends_a_path() -> None:
    X, y = ucm.datasets.load("iris")
    lam = Param("lam", 1.0)
    path = ucm.path(ucm.SquaredHinge() + lam * ucm.L1() + 0.1 * ucm.L2(), X, y, lam=[1.0, 0.1, 0.0])
    alone = ucm.solve(ucm.SquaredHinge() + 0.1 * ucm.L2(), X, y)
    assert [solution.status for solution in path] == ["optimal"] * 3
    assert path[-1].objective == pytest.approx(alone.objective, rel=1e-6)
    nothing = 0 * ucm.NonNegative()
    assert nothing.value(-np.ones(1)) == nothing.gauge(np.zeros(1)) == 0.0
    assert nothing.gauge(np.ones(1)) == np.inf and nothing.prox(np.array([-1.0]), 2.0) == [-1.0]


def test_terms_add_and_scale() -> None:
    hinge, l1 = ucm.Hinge(), ucm.L1()
    assert l1 + hinge == hinge + l1
    assert (hinge + l1) + ucm.L2() == hinge + (l1 + ucm.L2())
    assert 2 * (hinge + l1) == 2 * hinge + 2 * l1
    assert np.float64(2) * l1 == 2 * l1 == l1 * 2
    assert 2 * (l1 + ucm.L2()) == 2 * l1 + 2 * ucm.L2()
    assert (2 * (hinge + ucm.Ramp())).value(np.zeros(1)) == 4.0


REFUSED = {
    "ucm.Ramp(0)": r"mu must lie in \(0, 1\]",
    "ucm.Ramp(1.5)": r"mu must lie in \(0, 1\]",
    "ucm.Ramp(Param('mu', -1))": r"mu must lie in \(0, 1\]",
    "ucm.CappedL1(0)": r"a must lie in \(0, inf",
    "ucm.ExpL0(-1)": r"a must lie in \(0, inf",
    "ucm.ExpL0(Param('a', 0))": r"a must lie in \(0, inf",
    "ucm.SCAD(1, 0.5)": r"a must lie in \(1, inf",
    "ucm.MCP(0)": r"lam must lie in \(0, inf",
    "ucm.Lp(0.5)": "ExpL0",
    "ucm.Lp(1)": r"take L1\(\)",
    "ucm.ElasticNet(2)": "ratio",
    "ucm.Hinge(p=0.5)": r"p must lie in \[1, inf\)",
    "-1 * ucm.L1()": "positive",
    "0 * ucm.Hinge()": "positive",
    "0 * ucm.CappedL1(1)": "positive",
    "-ucm.Hinge()": "concave",
    "-ucm.Ramp()": "concave",
    "Param('lam', -0.1) * ucm.L2()": "positive",
    "np.inf * ucm.L2()": "positive",
    "ucm.Hinge() - ucm.L1()": "only added",
    "1 - ucm.L1()": "only added",
    "ucm.L2('b')": "never of the bias",
    "ucm.L2(3.0)": "its weight is a factor: write lam",
    "ucm.L2(b=1)": "never of the bias",
    "ucm.CappedL1(1, 'b')": "never of the bias",
    "ucm.Hinge() * ucm.L1()": "do not multiply",
    "ucm.Hinge() + 3": "expected losses and penalties",
    "ucm.L1() + ucm.pos": "expected losses and penalties",
    "ucm.Objective(ucm.L1(), ucm.Hinge())": "loss: expected a Loss",
    "ucm.LossBall(ucm.Ramp(), 1.0)": "loss: expected a ConvexLoss",
}


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_terms_are_refused_when_written(text: str) -> None:
    with pytest.raises(ucm.CompositionError, match=REFUSED[text]) as caught:
        eval(text, {"ucm": ucm, "Param": Param, "np": np})
    assert re.search(r"[:;]", str(caught.value))  # what and got; remedy


def test_a_parameter_out_of_range_is_refused_when_it_is_set() -> None:
    model = ucm.models.rlsvmc1(0.5)
    for bad in ({"mu": 0.0}, {"a": -1.0}, {"lam": 0.0}):
        with pytest.raises(ucm.CompositionError):
            model.with_params(**bad)


def test_a_factor_of_one_does_not_change_a_term() -> None:
    """Equal declarations have equal source text, and equal source text is of equal declarations."""
    for term in (
        ucm.Hinge(),
        ucm.Ramp(),
        ucm.L1(),
        ucm.ExpL0(2.0),
        ucm.Hinge() + ucm.Logistic(),
        ucm.Hinge() + ucm.L2(),
    ):
        for same in (term * 1, 1 * term, term / 1, 1.0 * (1.0 * term)):
            assert same == term and repr(same) == repr(term)
        assert 1 * (2 * term) == 2 * term
        one = Param("one", 1.0)
        assert one * term != term and (one * term).params() == {"one": 1.0}


def test_slopes_of_conjugates_at_slopes_that_overflow() -> None:
    """`l*''` of the exponential loss is 1 / s: the slope of its proximal map is 0 at 0 and 1 at infinity."""
    s = np.array([0.0, 1e-300, 1.0, np.inf])
    found = ucm.Exponential().conjugate_prox_slope(s, 1.0, s)
    assert found == pytest.approx([0.0, 0.0, 0.5, 1.0])


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_conjugate_prox_of_each_sample_alone(loss: Any) -> None:
    """With a bound for each entry, 0 among them, it is that of every entry with its number."""
    v, t = np.array([-1.0, 0.3, 0.7, 0.7, 2.0, 2.0]), np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.5])
    each = [loss.conjugate_prox(np.array([x]), bound)[0] for x, bound in zip(v, t, strict=True)]
    assert loss.conjugate_prox(v, t) == pytest.approx(each, rel=1e-12)


def test_conjugate_prox_where_quotients_overflow() -> None:
    v, t = np.array([1e3, 0.7, -1.0]), 1e-320
    assert ucm.Exponential().conjugate_prox(v, t) == pytest.approx([1e3, 0.7, 0.0])
    assert ucm.Exponential().conjugate_prox_slope(v, 1e10, np.full(3, 1e-310)) == pytest.approx(0.0)
    assert ucm.Logistic().conjugate_prox(v, t) == pytest.approx([1.0, 0.7, 0.0])


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("start", [-0.5, 0.0, 2.0])
def test_a_hinge_that_starts_elsewhere(p: float, start: float) -> None:
    X, y = ucm.datasets.load("iris")
    y = np.where(y == y.max(), 1.0, -1.0)
    parameter = ucm.Hinge(p, start=Param("start", start), on=pos)
    plan = ucm.compile(Param("c", 0.5) * (parameter + ucm.Hinge(p, on=neg)) + 0.5 * ucm.L2(), X, y)
    solution = plan.solve()
    assert solution.status == "optimal" and plan.verify(solution).agrees
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    short = cp.pos(np.where(y > 0.0, start, 1.0) - cp.multiply(y, X @ w + b))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum(short**p) + 0.5 * cp.sum_squares(w)))
    problem.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(problem.value, rel=1e-6)
