"""Hyperparameters in CVXPY: numbers, parameters, a variable, of one and the same quantities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from catalogue import SETS

import ucm
from ucm import Param, neg, pos, signed
from ucm.data.bound_data import bind
from ucm.extend import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.parameter import Parameters, Scope, Size

RNG = np.random.default_rng(0)
Y = np.where(np.arange(20) % 2, 1.0, -1.0)
X = RNG.standard_normal((20, 3)) + 0.8 * Y[:, None]
LAM, MU = Param("lam", 0.4), Param("mu", 0.6)
MODELS: list[UncertaintySet | Objective] = [
    ucm.Hinge() + LAM * ucm.L1(),
    2 * (ucm.Hinge() + LAM * ucm.L2()),
    (ucm.Logistic() + LAM * ucm.ElasticNet(Param("ratio", 0.3))) / 3,
    ucm.Hinge() / Param("nu", 0.5) + LAM * ucm.L1() / 2,
    ucm.Ramp(MU) + LAM * ucm.CappedL1(1),
    ucm.models.psvm(1.5, 2.0),
    2 * ucm.models.psvm(2.0, 0.5),
    ucm.models.nu_svm(0.5),
    ucm.models.kl_svm(0.6),
    Param("c", -0.7) * ucm.Hull(neg) + Param("d", 2.0) * ucm.Hull(pos),
    ucm.Ball(pos.mean - neg.mean, Param("r", 0.1)),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_twin_has_every_parameter_under_its_name(model: UncertaintySet | Objective) -> None:
    plan = ucm.compile(model, X, Y)
    plan.solve()
    problem = plan.reference()
    assert problem.is_dcp(dpp=True)
    assert model.params().items() <= {n: p.value for n, p in problem.param_dict.items()}.items()


@pytest.mark.parametrize("k", [1, 2, 3, 6, 7, 8, 9, 10])
def test_a_parameter_that_is_set_is_another_declaration(k: int) -> None:
    model = MODELS[k]
    problem = ucm.compile(model, X, Y).reference()
    for name, value in model.params().items():
        problem.param_dict[name].value = 0.9 * value
    problem.solve(solver="CLARABEL")
    other = model.with_params(**{name: 0.9 * value for name, value in model.params().items()})
    again = ucm.compile(other, X, Y).reference()
    again.solve(solver="CLARABEL")
    assert problem.value == pytest.approx(again.value, rel=1e-6)


@pytest.mark.parametrize("U", [U for U in SETS if U.params()], ids=repr)
def test_numbers_and_parameters_are_the_same_twin(U: ucm.extend.UncertaintySet) -> None:
    import cvxpy as cp

    data, tops = bind(X, Y, subgroup=["AB"[k % 3 == 1] for k in range(len(Y))]), []
    for scope in (Scope(), Parameters()):
        x, constraints = U.cvxpy(data, scope)
        problem = cp.Problem(cp.Maximize(np.ones(x.size) @ x), constraints)
        problem.solve(solver=cp.CLARABEL)
        tops.append(problem.value)
    assert tops[0] == pytest.approx(tops[1], rel=1e-7)


def test_a_size_may_be_negative() -> None:
    D = ucm.LossBall(ucm.Logistic() / 0.3, Param("r", -1.2))
    plan = ucm.compile(ucm.Hull(signed, weights=D), X, Y)
    assert plan.solve().status == "optimal" and plan.verify()


def test_expressions_of_parameters_follow_their_values() -> None:
    c = LAM * 2.0 / MU * (1.0 - 0.25)
    assert c.value == pytest.approx(2.0 * 0.4 / 0.6 * 0.75) == Scope().of(c)
    scope = Parameters()
    plain: Any = scope.of(LAM)
    derived: Any = scope.of(c)
    assert derived.value == pytest.approx(c.value) and plain.name() == "lam"
    assert derived.is_nonneg() and plain.is_nonneg()
    assert scope.of(3.0) == 3.0 and scope.of(Size(0.5)) == 0.5
    plain.value = 0.8
    assert derived.value == pytest.approx(2.0 * c.value)
    assert derived.name() == "lam * 2 / mu * 0.75"
    radius: Any = scope.of(Size(Param("r", -1.0)))
    assert radius.value == -1.0
