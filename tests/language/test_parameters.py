"""Arithmetic of parameters, wherever a scalar stands: twins, JSON, admissible ranges."""

# pyright: reportArgumentType=false
from __future__ import annotations

import math
import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from bundled import load

import ucm
from ucm import L1, L2, Ball, Ellipsoid, Hinge, Hull, Param, ReducedHull, neg, pos, signed
from ucm.errors import CompositionError
from ucm.language.parameter import BinaryExpression

NU, KAPPA = Param("nu", 0.5), Param("kappa", 0.2)


def both(nu: Any) -> Any:
    return ReducedHull(pos, nu=nu) - ReducedHull(neg, nu=nu)


DECLARED = [
    both(2 * NU / 3),
    both(1 - NU),
    (2 * NU) * Hull(pos) - (1 - NU) * Hull(neg),
    Hull(pos) / NU - Hull(neg),
    -NU * Hull(pos) + Hull(neg),
    Ellipsoid(pos.mean, pos.cov, NU * KAPPA) - Ellipsoid(neg.mean, neg.cov, (1 - NU) * KAPPA),
    Hull(signed, weights=ucm.NormBall(1 / (2 - NU))),
    Hull(pos) + Ball(0, 2 * (NU - (KAPPA - NU / 4))) - Hull(neg),
    Hinge() + (1 - NU) * L1() + NU * L2(),
    Hinge() / (NU * KAPPA) + L2(),
    ucm.Ramp(1 - NU) + KAPPA * L1(),
    ucm.Logistic() + ucm.ElasticNet(NU / 2),
    ucm.HuberHinge(NU / 2) / (1 - NU) + NU * KAPPA * L2(),
    Hinge() + ucm.MCP(NU * 2, 1 + KAPPA),
]


@pytest.mark.parametrize("node", DECLARED, ids=repr)
def test_derived_parameters_replace_any_scalar(node: Any) -> None:
    assert ucm.from_json(ucm.to_json(node)) == node
    assert pickle.loads(pickle.dumps(node)) == node
    assert eval(repr(node), {name: getattr(ucm, name) for name in ucm.__all__}) == node
    assert node._repr_latex_().startswith("$") and "ν" in str(node)
    assert node.params()["nu"] == 0.5
    other = node.with_params(nu=0.4)
    assert other.params()["nu"] == 0.4 and other != node
    assert other.with_params(nu=0.5) == node


@pytest.mark.parametrize("node", DECLARED, ids=repr)
def test_the_twin_follows_its_parameters(node: Any) -> None:
    """The problem stays DPP; set to another value it is the twin of the other declaration."""
    X, y = ucm.datasets.load("iris")
    plan = ucm.compile(node, X, y)
    problem = plan.reference()
    assert problem.is_dcp(dpp=True)
    assert plan.verify().agrees
    convex = not isinstance(node, ucm.Objective) or node.convex
    if convex and plan.solve().status == "optimal":
        problem.param_dict["nu"].value = 0.45
        other = ucm.solve(node.with_params(nu=0.45), X, y)
        value = problem.solve(solver=cp.CLARABEL)
        assert other.objective == pytest.approx(value, rel=1e-5)


def test_expressions_of_parameters_have_their_values() -> None:
    for derived, number in (
        (2 * NU, 1.0), (NU / 4, 0.125), (1 - NU, 0.5), (NU * KAPPA, 0.1), (1 / KAPPA, 5.0), (-NU, -0.5),
        (NU + KAPPA - 1, -0.3), (NU - (KAPPA - NU), 0.8), (np.float64(3) * NU, 1.5), (np.array(2) * NU, 1.0),
    ):  # fmt: skip
        assert isinstance(derived, BinaryExpression)
        assert derived.value == pytest.approx(number)
        assert eval(repr(derived), {"Param": Param}) == derived
    assert (NU - (KAPPA - NU)).name == "nu - (kappa - nu)"
    assert (2 * (1 - NU)).name == "2 * (1 - nu)"


def test_numpy_takes_the_square_root_of_a_parameter() -> None:
    assert np.sqrt(KAPPA) == KAPPA**0.5
    assert np.float64(2.0) * KAPPA == 2 * KAPPA and np.float64(1.0) - NU == 1 - NU
    changed: Any = ucm.Ball(0, np.sqrt(KAPPA)).with_params(kappa=0.25).radius
    assert changed.value == 0.5
    with pytest.raises(ucm.CompositionError, match=r"np\.exp of .*declare a Param for the result"):
        np.exp(KAPPA)
    assert KAPPA * np.eye(3) == np.eye(3) * KAPPA and KAPPA * [1.0, 2.0] == [1.0, 2.0] * KAPPA
    for wrong in (lambda: KAPPA * np.ones((1, 2, 2)), lambda: KAPPA + np.eye(3)):
        with pytest.raises(ucm.CompositionError, match="an array of shape"):
            wrong()


def test_parameters_are_immutable_and_have_no_order() -> None:
    doubled = NU
    doubled *= 2
    assert doubled == NU * 2 and NU.value == 0.5 and doubled != NU
    with pytest.raises(CompositionError, match=r"np\.less of .*declare a Param"):
        _ = NU < 1.0  # pyright: ignore[reportOperatorIssue]
    assert list((2 * NU).walk()) == [2 * NU, NU]


def test_operands_that_are_no_numbers_have_the_say() -> None:
    assert 2 * NU * Hull(pos) == Hull(pos) * (2 * NU)
    assert (2 * NU) * L1() == L1() * (2 * NU)
    wrong: Any
    for wrong in ("a", True, None, [1.0], np.ones(2)):
        kind = TypeError if np.ndim(wrong) == 0 else ucm.CompositionError
        with pytest.raises(kind):
            _ = NU - wrong
        with pytest.raises(kind):
            _ = wrong + NU


def test_derived_parameters_have_admissible_ranges() -> None:
    X, y = ucm.datasets.load("iris")
    plain = ucm.admissible(both(NU), X, y)["nu"]

    def interval(nu: Any, name: str = "nu") -> Any:
        return ucm.admissible(both(nu), X, y)[name]

    double = interval(2 * NU / 3)
    assert (double.lower, double.upper) == pytest.approx((1.5 * plain.lower, 1.5 * plain.upper))
    rest = interval(1 - NU)
    assert (rest.lower, rest.upper) == pytest.approx((1 - plain.upper, 1 - plain.lower), abs=1e-9)
    assert rest.lower_closed and not rest.upper_closed
    inverse = interval(0.25 / NU)
    assert (inverse.lower, inverse.upper) == pytest.approx((0.25 / plain.upper, 0.25 / plain.lower))
    scaled = interval(NU * KAPPA, "kappa")
    assert (scaled.lower, scaled.upper) == pytest.approx((2 * plain.lower, 2 * plain.upper))
    unknown = interval(NU * (1 - NU))
    assert unknown.lower == -math.inf and "not computed" in unknown.how
    assert "rise or fall" in unknown.how


def test_parameters_are_set_in_estimators_and_paths() -> None:
    X, y = ucm.datasets.load("iris")
    model = Hinge() + NU * KAPPA * L2()
    fitted = ucm.Classifier(model).set_params(model__nu=0.25).fit(X, y)
    assert fitted.model is not None
    assert fitted.model.params() == {"nu": 0.25, "kappa": 0.2}
    plain = ucm.solve(Hinge() + 0.05 * L2(), X, y).objective
    assert ucm.solve(model.with_params(nu=0.25), X, y).objective == pytest.approx(plain, rel=1e-6)
    first, second = ucm.path(model, X, y, nu=[0.25, 0.5])
    assert first.objective == pytest.approx(plain, rel=1e-5)
    assert second.objective > first.objective


REFUSED = {
    "ucm.Ramp(nu + 1)": r"mu must lie in \(0, 1\], got Param\('nu', 0.5\) \+ 1 = 1.5",
    "(ucm.Ramp(1 - nu) + ucm.L1()).with_params(nu=1.0)": r"mu must lie in \(0, 1\], got .* = 0",
    "(nu - 1) * ucm.L1()": r"positive finite numbers, got .* = -0.5",
    "ucm.ElasticNet(3 * nu)": r"ratio must lie in \[0, 1\], got .* = 1.5",
    "ucm.HuberHinge(nu - 0.5)": r"delta must lie in \(0, inf\), got .* = 0",
    "ucm.MCP(nu - 1)": r"lam must lie in \(0, inf\), got .* = -0.5",
    "nu / 0": "nu / 0: expected a number, got 0.5 / 0",
    "(1 / (nu - kappa) * ucm.L1()).with_params(nu=0.2)": r"1 / \(nu - kappa\): expected a number",
    "nu * Param('nu', 0.1) * ucm.L1()": "has two values",
    "Param('mu', float('nan'))": r"Param\('mu'\): expected a number, got nan",
    "ucm.solve(ucm.models.nu_svm(0), X, y)": r"nu must be positive and at most 1 \(= 2 min",
    "ucm.Hinge(2 * nu)": "expected a plain number",
    "ucm.NormBall(1, p=2 * nu)": "expected a plain number",
    "ucm.Hull(ucm.pos) / (nu - 0.5)": "expected a number, got 1 / 0",
    "ucm.solve(ucm.ReducedHull(ucm.pos, nu=4 * nu) - ucm.Hull(ucm.neg), X, y)": r"4 \* nu must be at most",
    "ucm.solve(ucm.Hull(ucm.pos, weights=ucm.CappedSimplex(nu / 90)) - ucm.Hull(ucm.neg), X, y)": "nu / 90",
    "ucm.from_json(ucm.to_json(2 * nu * ucm.L1()).replace('*', '^'))": r"one of \+ - \* /",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_parameter_out_of_range_is_named(text: str) -> None:
    X, y = ucm.datasets.load("iris")
    with pytest.raises(ucm.UCMError, match=REFUSED[text]):
        eval(text, {"ucm": ucm, "nu": NU, "kappa": KAPPA, "Param": Param, "X": X, "y": y})


# --- parameters in statistics and bounds --------------------------------------------------------------
def _moments() -> tuple[Any, ...]:
    X, y = load("iris")
    A, B = X[y > 0], X[y < 0]
    cov = [np.cov(C.T, bias=True) for C in (A, B)]
    return X, y, A.mean(0), B.mean(0), *cov


@pytest.mark.parametrize("t", [0.3, 0.8])
def test_parameters_multiply_statistics_and_arrays(t: float) -> None:
    """The declaration by parameters against the one of the arrays that NumPy makes of them."""
    X, y, a, b, S, T = _moments()
    rho, eye = Param("rho", 0.5), np.eye(X.shape[1])
    pairs = [
        (ucm.Ellipsoid(pos.mean, (1 - rho) * pos.cov + rho * eye, 0.4) - neg.mean,
         ucm.Ellipsoid(a, (1 - t) * S + t * eye, 0.4) - ucm.Point(b)),
        (ucm.Ellipsoid(pos.mean, rho * (pos.cov + neg.cov), 0.4) - neg.mean,
         ucm.Ellipsoid(a, t * (S + T), 0.4) - ucm.Point(b)),
        (ucm.Ball(pos.mean - rho * neg.mean, 0.1) + rho * np.ones(eye.shape[0]),
         ucm.Ball(a - t * b + t, 0.1)),
        (ucm.Ellipsoid(pos.mean - neg.mean, eye * rho, 0.4), ucm.Ellipsoid(a - b, t * eye, 0.4)),
        (ucm.AffineImage(eye, ucm.Box(-rho * X.std(0), rho * X.std(0)), pos.mean - neg.mean),
         ucm.AffineImage(eye, ucm.Box(-t * X.std(0), t * X.std(0)), a - b)),
        (ucm.AffineImage(eye, ucm.Box(-0.1, X.std(0) * rho / 2), rho * pos.mean - neg.mean),
         ucm.AffineImage(eye, ucm.Box(-0.1, t * X.std(0) / 2), t * a - b)),
    ]  # fmt: skip
    for declared, arrays in pairs:
        U = declared.with_params(rho=t)
        plan, wanted = ucm.compile(U, X, y), ucm.solve(arrays, X, y)
        assert plan.solve().objective == pytest.approx(wanted.objective, rel=1e-6)
        assert plan.verify().agrees and ucm.from_json(ucm.to_json(U)) == U
        reference = plan.reference()
        assert reference.is_dcp(dpp=True) and "rho" in reference.param_dict
        assert eval(repr(declared), {**vars(ucm), "Param": Param}) == declared


def test_a_covariance_keeps_a_factor_that_is_not_negative() -> None:
    U = ucm.Ellipsoid(0, Param("rho", 0.5) * pos.cov, 1.0)
    with pytest.raises(CompositionError, match="must not be negative"):
        U.with_params(rho=-0.1)
    with pytest.raises(CompositionError, match="must not be negative"):
        _ = Param("rho", -0.5) * pos.cov
    with pytest.raises(CompositionError, match="expected a real number or a Param"):
        ucm.Box(0.0, pos.mean)  # type: ignore[arg-type]
