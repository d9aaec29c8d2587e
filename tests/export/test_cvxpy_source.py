"""Declarations as standalone CVXPY source: the text is run, and held against the compiled model."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from bundled import load
from catalogue import OBJECTIVES, SETS
from typed import untyped

import ucm
from ucm import Param, neg, pos
from ucm.errors import ConvergenceWarning
from ucm.evidence.reference import majorant
from ucm.export.expression_text import Text
from ucm.language.models import __all__ as MODELS

X, Y = load("breast_cancer")
SHIFT = np.array([9.0, 0.0, 0.0])


def run(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """The names that the text leaves behind. Nothing but NumPy, CVXPY, X and y is there for it."""
    text = ucm.to_cvxpy_source(model)
    names: dict[str, Any] = {"X": X, "y": y, "groups": np.resize([*"ABABABBAB"], len(y))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "source", "exec"), names)
    return names


@pytest.mark.parametrize("U", SETS, ids=repr)
def test_the_source_of_a_set_solves_the_model(U: ucm.extend.UncertaintySet) -> None:
    """The sets are translated so that 0 lies outside."""
    rng = np.random.default_rng(2)
    y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    samples = rng.standard_normal((9, 3)) + y[:, None]
    far = U + np.full(U.dimension(3) or 3, 30.0)
    found = run(far, samples, y)
    plan = ucm.compile(far, samples, y, subgroup=[*"ABABABBAB"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = plan.solve()
    assert found["objective"] == pytest.approx(solution.objective, rel=1e-6)
    assert plan.certify(w=found["w"]).primal == pytest.approx(solution.objective, rel=1e-5)


def test_one_feature_is_no_multiple_of_a_mean() -> None:
    """Every vector of one entry is one of every other, on each data set by another factor."""
    X = np.array([[3.0], [4.5], [-2.0], [-1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    U = ucm.Hull(ucm.pos) + ucm.AffineImage([[0.3]], ucm.Box(-1, 1)) - ucm.neg.mean
    assert run(U, X, y)["objective"] == pytest.approx(-(3.0 - 0.3 + 1.5), rel=1e-6)


def _squared(u: np.ndarray) -> np.ndarray:
    return np.maximum(u, 0.0) ** 2


_OTHERS = ("enu_svm", "generalised_nu_svm", "group_dro")  # below, and in the catalogue


@pytest.mark.parametrize(
    ("model", "up", "down"),
    [
        (ucm.models.generalised_nu_svm(ucm.Exponential(), Param("rho", 1e-3)), np.exp, np.exp),
        (ucm.models.generalised_nu_svm(ucm.Hinge(2), 1e3), _squared, _squared),  # an inactive bound
        (
            ucm.Hull(ucm.pos, weights=ucm.LossBall(ucm.Hinge(2), lam=0.5))
            - ucm.Hull(ucm.neg, weights=ucm.LossBall(2 * ucm.Hinge(2), lam=0.5)),
            _squared,
            lambda u: 2.0 * _squared(u),
        ),
    ],
)
def test_the_source_of_a_generalised_nu_svm_solves_the_model(model: Any, up: Any, down: Any) -> None:
    found, sol = run(model, X, Y), ucm.solve(model, X, Y)
    assert sol.b is not None and sol.rho is not None
    length = np.linalg.norm(found["w"]) / np.linalg.norm(sol.w)
    w, b, rho = length * sol.w, length * sol.b, length * sol.rho
    left = rho - Y * (X @ w + b)
    value = np.where(Y > 0, up(left), down(left)).mean() - rho
    assert found["objective"] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found["w"], w, atol=1e-3 * float(np.linalg.norm(w)))


@pytest.mark.parametrize("name", [n for n in MODELS if n not in _OTHERS])
def test_the_source_of_a_named_model_solves_the_model(name: str) -> None:
    make: Any = getattr(ucm.models, name)
    sizes = {
        "kl_svm": 0.9,
        "l2_nu_svm": 0.12,
        "biased_l2_nu_svm": 0.16,
        "nu_svm": 0.75,
        "psvm": 1.5,
    }
    args = [sizes.get(name, 0.3)]
    args += [1.0] if name == "psvm" else [0.16] if name == "biased_l2_nu_svm" else []
    check_model(make(*args))


def check_model(model: Any) -> None:
    found = run(model, X, Y)
    plan = ucm.compile(model, X, Y)
    solution = plan.solve()
    if isinstance(model, ucm.Objective):
        w, b = found["w"], found["b"]
        own = plan.certify(w=w, b=b)
        assert found["objective"] == pytest.approx(own.primal, rel=1e-5, abs=1e-6)
        if model.convex:
            assert found["objective"] == pytest.approx(solution.objective, rel=1e-6, abs=1e-7)
        return
    assert solution.objective < 0.0
    assert found["objective"] == pytest.approx(solution.objective, rel=1e-6)
    np.testing.assert_allclose(found["w"], solution.w, atol=1e-3)


@pytest.mark.parametrize(
    "model",
    [*OBJECTIVES, ucm.Hinge() + 0.5 * ucm.GroupMCP(np.arange(X.shape[1]) % 3 + 2, 2.0, 3.0)],
    ids=repr,
)
def test_the_source_of_an_objective_solves_the_model(model: ucm.Objective) -> None:
    """The loop for a non-convex objective ends at a critical point: the next convex problem gains nothing."""
    found = run(model, X, Y)
    plan = ucm.compile(model, X, Y)
    if "Bounds" in repr(model):  # to the accuracy of the program
        assert found["w"].min() >= -1e-6
        found["w"] = np.maximum(found["w"], 0.0)
    own = plan.certify(w=found["w"], b=found["b"])
    assert found["objective"] == pytest.approx(own.primal, rel=1e-5, abs=1e-5)
    if model.convex:
        assert found["objective"] == pytest.approx(plan.solve().objective, rel=1e-6, abs=1e-6)
        return
    margin = Y * (X @ found["w"] + found["b"])
    assert model.value(margin, found["w"], b=found["b"]) == pytest.approx(found["objective"], rel=1e-6)
    # at a kink of what is subtracted its slope is one of several, and rounding chooses
    next_one = majorant(model, plan.data, found["w"], found["b"])
    assert next_one.solve(solver="CLARABEL") >= found["objective"] * (1.0 - 1e-4) - 1e-5


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_the_source_of_bounds_has_any_number_of_features(intercept: str | None) -> None:
    model = (ucm.Logistic() + 0.5 * ucm.L2() + ucm.Bounds(-0.1, 0.25)).with_intercept(intercept)
    assert "-0.1" in ucm.to_cvxpy_source(model)
    assert run(model, X, Y)["objective"] == pytest.approx(ucm.solve(model, X, Y).objective, rel=1e-5)
    assert "None:" not in ucm.to_cvxpy_source(model)


# --- classes and functions of one's own -------------------------------------------------------------
OWN = """
import cvxpy as cp
import numpy as np

import ucm
from ucm.extend import value


class Diamond(ucm.extend.Domain):
    radius: ucm.extend.Scalar

    def size(self):
        return ucm.extend.Size(self.radius)

    def support(self, g):
        q = np.zeros(g.size)
        k = int(np.argmax(np.abs(g)))
        q[k] = value(self.radius) * np.sign(g[k])
        return float(g @ q), q

    def violation(self, q):
        return max(0.0, float(np.abs(q).sum()) / value(self.radius) - 1.0)

    def center(self, dim):
        return np.zeros(dim)

    def infeasibility_reason(self, dim):
        return None

    def cvxpy(self, q, size):
        return [cp.norm1(q) <= size]

    def formula(self, notation):
        return "diamond"


class Far(ucm.extend.Combination):
    operand: ucm.extend.UncertaintySet

    def terms(self):
        return ((self.operand, 2.0), (ucm.Point([9.0, 9.0, 9.0]), 1.0))

    def formula(self, notation):
        return "far"


class LogSum(ucm.extend.FoldedConcave):
    def profile(self, s):
        return np.log1p(s)

    def slope(self, s):
        return 1.0 / (1.0 + s)

    def tangent(self):
        return ucm.L1()

    def excess_formula(self, notation):
        return "excess"

    def formula(self, notation):
        return "logsum"


class Branching(LogSum):  # asks for numbers
    def profile(self, s):
        return np.log1p(s) if np.max(s) < np.inf else s


class Absolute(ucm.extend.ConvexLoss):
    @property
    def offset(self):
        return 1.0

    def each(self, margin):
        return np.abs(1.0 - margin)

    def slope(self):
        return None

    def smooth(self):
        return False

    def gradient(self, u):
        return np.sign(u)

    def conjugate(self, s):
        return np.where(np.abs(s) <= 1.0, 0.0, np.inf)

    def conjugate_prox(self, v, t):
        return np.clip(v, -1.0, 1.0)

    def conjugate_prox_slope(self, v, t, s):
        return (np.abs(v) < 1.0).astype(float)

    def cvxpy(self, margin, factor, scope):
        return scope.of(factor) * cp.abs(1 - margin)

    def conjugate_cvxpy(self, s):
        return 0 * s, [s >= -1, s <= 1]

    def formula(self, notation):
        return "absolute"


class SoftHinge(Absolute):  # max(0, s + (sqrt(1 + s^2) - 1) / 2), s = 1 - t
    def each(self, margin):
        s = 1.0 - margin
        return np.maximum(0.0, s + 0.5 * (np.sqrt(1.0 + s**2) - 1.0))

    def gradient(self, u):
        return np.where(u > 0.0, 1.0 + 0.5 * u / np.sqrt(1.0 + np.minimum(u, 1e150) ** 2), 0.0)


class Bent(ucm.extend.PointwiseLoss):  # a difference of convex losses
    def each(self, margin):
        return np.abs(1.0 - margin) - 0.25 * SoftHinge().each(margin)

    def split(self):
        return (Absolute(),), (0.25 * SoftHinge(),)

    def formula(self, notation):
        return "bent"


class HuberNorm(ucm.extend.ProximalPenalty):
    delta: ucm.extend.Scalar = 1.0

    def value(self, w):
        delta, s = value(self.delta), np.abs(w)
        bent = np.minimum(s, delta)
        return float((s - bent + bent**2 / (2.0 * delta)).sum())

    def prox(self, v, t):
        delta = value(self.delta)
        return np.where(np.abs(v) <= delta + t, v / (1.0 + t / delta), v - t * np.sign(v))

    def conjugate(self, z):
        return 0.5 * value(self.delta) * float((np.clip(z, -1.0, 1.0) ** 2).sum())

    def gauge(self, z):
        return float(np.abs(z).max(initial=0.0))

    def norms(self):
        return None

    def cvxpy(self, w, factor, scope):
        delta = value(self.delta)
        return scope.of(factor) * (delta / 2 * cp.sum(cp.huber(w / delta)))

    def formula(self, notation):
        return "huber"


def budget(q, amount):
    t = cp.Variable(q.size)
    return [cp.abs(q) <= t, t <= 1, cp.sum(t) <= amount]
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Any]:
    """A reader's module, as `import reader` gives it."""
    module: Any = types.ModuleType("reader_of_sources")
    sys.modules["reader_of_sources"] = module
    exec(OWN, vars(module))
    yield module
    del sys.modules["reader_of_sources"]


def test_the_source_of_custom_declarations_solves_the_model(own: Any) -> None:
    A = np.diag([1.0, 2.0, 3.0])
    for U in (
        ucm.AffineImage(A, own.Diamond(Param("r", 0.7)), [5.0, 6.0, 7.0]),
        own.Far(ucm.Hull(pos) - ucm.Hull(neg)),
        ucm.AffineImage(A, ucm.CvxpyDomain(own.budget, Param("gamma", 1.5)), [5.0, 6.0, 7.0]),
        ucm.Hull(pos, weights=ucm.CvxpyDomain(own.budget, 1.5) & ucm.NormBall(0.3)) + SHIFT,
    ):
        check_model(U)
    for model in (
        ucm.Hinge() + 0.5 * own.LogSum(),
        own.Absolute() + 0.1 * own.HuberNorm(0.3),
        Param("C", 0.2) * own.Absolute() + own.HuberNorm(Param("delta", 0.3)) / Param("nu", 2.0),
        ucm.Hinge() + Param("C", 0.2) * own.Absolute() + 0.5 * ucm.L2() + own.HuberNorm(),
        own.Bent() + 0.5 * ucm.L2(),
    ):
        check_model_value(model)
    with pytest.raises(ucm.CompositionError, match=r"Branching.*np\.where"):
        ucm.to_cvxpy_source(ucm.Hinge() + 0.5 * own.Branching())
    assert "C * cp.abs(1 - t)" in ucm.to_cvxpy_source(Param("C", 0.2) * own.Absolute() + ucm.L2())


def check_model_value(model: Any) -> None:
    found = run(model, X, Y)
    margin = Y * (X @ found["w"] + found["b"])
    assert model.value(margin, found["w"]) == pytest.approx(found["objective"], rel=1e-6)


def test_a_scalar_of_an_extension_takes_arithmetic(own: Any) -> None:
    s = Param("s", 0.4)
    D = own.Diamond(2 * s)
    assert D.params() == {"s": 0.4} and D._scalars == ("radius",)


def test_a_local_function_is_written_out() -> None:
    def inside(q: Any) -> list[Any]:
        return [q >= 0, q <= 1]

    check_model(ucm.AffineImage(np.diag([1.0, 2.0, 3.0]), ucm.CvxpyDomain(inside), [5.0, 6.0, 7.0]))


def test_a_penalty_alone_is_refused() -> None:
    with pytest.raises(ucm.CompositionError, match="penalty"):
        ucm.to_cvxpy_source(untyped.L1())


# --- the text itself --------------------------------------------------------------------------------
def test_parameters_stand_at_the_top_by_name() -> None:
    nu = Param("nu", 0.8)
    U = ucm.ReducedHull(pos, nu=nu) - ucm.ReducedHull(neg, nu=(1 + nu) / 2)
    text = ucm.to_cvxpy_source(U)
    assert "nu = 0.8\n" in text and "len(y) * q_neg <= 2 / ((1 + nu) / 2)" in text
    changed = text.replace("nu = 0.8", "nu = 0.7")
    names: dict[str, Any] = {"X": X, "y": Y}
    exec(changed, names)
    solution = ucm.solve(U.with_params(nu=0.7), X, Y)
    assert names["objective"] == pytest.approx(solution.objective, rel=1e-6)


def test_reserved_names_are_replaced() -> None:
    for name in ("lambda", "X", "w", "np", "q_A", "constraints"):
        U = ucm.Ball([3.0, 4.0, 0.0], Param(name, 1.0))
        assert run(U, X, Y)["objective"] == pytest.approx(-4.0, rel=1e-6)


@pytest.mark.parametrize("name", ["len", "print", "float", "\uff4c\uff45\uff4e"])
def test_a_parameter_named_like_a_builtin_leaves_the_builtin_alone(name: str) -> None:
    """The last name is `len` in wide letters, which Python reads as `len`."""
    nu = Param(name, 0.75)
    check_model(ucm.ReducedHull(pos, nu=nu) - ucm.ReducedHull(neg, nu=nu))


@pytest.mark.parametrize(
    "label", ['"""\nraise SystemExit("ran")\n"""', "'''", "\\", "a\nb", "neg.mean", "\u00b2"]
)
def test_a_label_is_text_in_the_program(label: str) -> None:
    """No label ends the text that stands around it; the label of a second group is a part of the first."""
    groups = np.where(Y > 0, label, "other")
    far = 9.0 * np.std(X, axis=0)
    for U in (
        ucm.Hull(pos.group(label)) - ucm.Ball(neg.mean, 0.1) + far,
        ucm.Hull(neg) - ucm.Ball(pos.group(label).mean, 0.1) + far,
    ):
        names: dict[str, Any] = {"X": X, "y": Y, "groups": groups}
        exec(ucm.to_cvxpy_source(U), names)
        expected = ucm.solve(U, X, Y, subgroup=groups).objective
        assert names["objective"] == pytest.approx(expected, rel=1e-6)


def test_labels_of_one_spelling_are_two_groups() -> None:
    groups = np.resize(["a b", "a_b", "c"], Y.size)
    U = ucm.Hull(pos.group("a b")) - ucm.Ball(pos.group("a_b").mean, 0.01) + 9.0 * np.std(X, axis=0)
    names: dict[str, Any] = {"X": X, "y": Y, "groups": groups}
    exec(ucm.to_cvxpy_source(U), names)
    expected = ucm.solve(U, X, Y, subgroup=groups).objective
    assert names["objective"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (lambda a, b: a - (b - 1), "a - (b - 1)"),
        (lambda a, b: (a + b) * 2 / -b, "(a + b) * 2 / -b"),
        (lambda a, b: a / (b * 2.5), "a / (b * 2.5)"),
        (lambda a, b: -((a + b) ** 2), "-(a + b) ** 2"),
        (lambda a, b: (a**b) ** 2, "(a ** b) ** 2"),
        (lambda a, b: 0.0 + 1.0 * a - 0.0 + -1.0 * b, "a - b"),
        (lambda a, b: np.float64(2.0) * a @ b, "2 * a @ b"),
        (lambda a, b: np.array([1.0, 2.0]) - a[b], "np.array([1.0, 2.0]) - a[b]"),
        (lambda a, b: np.exp(-a) * (b < 3).astype(float), "np.exp(-a) * (b < 3).astype(float)"),
        (lambda a, b: np.clip(a, 0.0, np.inf), "np.clip(a, 0, np.inf)"),
        (lambda a, b: a**-b, "a ** (-b)"),
    ],
)
def test_expressions_are_written_with_the_needed_parentheses(expression: Any, text: str) -> None:
    found = expression(Text("a"), Text("b"))
    assert str(found) == text
    numbers = {"a": np.array([0.5, 2.0]), "b": np.array([1.0, 1.0]), "np": np}
    if "a[b]" not in text:
        np.testing.assert_allclose(eval(str(found), numbers), expression(numbers["a"], numbers["b"]))


def test_text_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError):
        bool(Text("a") > 0)


@pytest.mark.parametrize(("name", "value"), [("rho", 0.3), ("level", 0.9), ("alpha", 0.8), ("nu", 0.5)])
def test_the_size_of_a_ball_follows_its_parameter(name: str, value: float) -> None:
    """Written with a value and run with another one, a program solves the model of the latter."""
    domain = {"alpha": ucm.KLBall, "nu": lambda nu: ucm.CappedSimplex(nu=nu)}.get(
        name, lambda size: ucm.ChiSquareBall(**{name: size})
    )
    D = domain(Param(name, value))
    U = ucm.Hull(pos, weights=D) - ucm.Hull(neg, weights=D) + SHIFT
    other = 0.8 if name == "level" else 0.7
    text = ucm.to_cvxpy_source(U)
    assert f"{name} = {value}" in text
    names: dict[str, Any] = {"X": X, "y": Y}
    exec(text.replace(f"{name} = {value}", f"{name} = {other}"), names)
    assert names["objective"] == pytest.approx(
        ucm.solve(U.with_params(**{name: other}), X, Y).objective, rel=1e-6
    )


@pytest.mark.parametrize(
    "constraint",
    [
        ucm.LinearConstraint(pos.mean - neg.mean, ub=0.5),
        ucm.LinearConstraint([pos.mean - neg.mean, 2 * neg.mean], -0.1, 0.3),
        ucm.LinearConstraint(
            ucm.PooledMean(pos.group("a"), neg.group("a")) - ucm.PooledMean(pos.group("b"), neg.group("b")),
            -0.01,
            0.01,
        ),
    ],
    ids=repr,
)
def test_the_source_of_a_constraint_has_the_statistics_of_the_samples(constraint: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(50) > 0.2, 1.0, -1.0)
    groups = np.where(np.arange(50) % 3 == 0, "a", "b")
    model = ucm.Hinge() + ucm.Param("lam", 0.3) * ucm.L2() + constraint
    names = {"X": X, "y": y, "groups": groups}
    exec(ucm.to_cvxpy_source(model), names)
    found = ucm.solve(model, X, y, subgroup=groups).objective
    assert names["objective"] == pytest.approx(found, rel=1e-6)
