"""Ambiguity sets by name, each against its definition: risks in CVXPY as their papers write them."""

from __future__ import annotations

import math
import pickle
import re
import warnings
from collections.abc import Callable
from typing import Any

import bundled
import cvxpy as cp
import numpy as np
import pytest
from conftest import load_shared
from scipy import sparse
from sklearn.preprocessing import scale

import ucm
from ucm import CVaR, Gelbrich, Param, SpectralRisk, TotalVariation, Wasserstein, neg, pos, signed
from ucm.language.contracts import SampleWeights

SETS = (*bundled.NAMES, *(pytest.param(name, marks=pytest.mark.data) for name in ("sonar", "heart")))
TIGHT: dict[str, Any] = {
    "solver": cp.CLARABEL, "tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9,
}  # fmt: skip


def solved(problem: cp.Problem) -> float:
    with warnings.catch_warnings():  # an end at reduced accuracy: the comparison says whether it serves
        warnings.simplefilter("ignore")
        problem.solve(**TIGHT)
    return float(problem.value)


Risk = Callable[[Any, int], tuple[Any, list[Any]]]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """At most 30 samples of each class, which keeps the twins small, at unit variance."""
    found: tuple[Any, Any] = bundled.load(name) if name in bundled.NAMES else load_shared(name)
    X, y = found
    X, y = X.toarray() if sparse.issparse(X) else X, np.asarray(y, float)
    kept = np.sort(np.concatenate([np.flatnonzero(y == label)[:30] for label in (1.0, -1.0)]))
    return np.asarray(scale(X[kept])), y[kept]


# --- risks of losses l, and constraints, as min problems -----------------------------------------
def tail(beta: float) -> Risk:
    """Rockafellar and Uryasev: min over t of t + mean (l - t)_+ / beta."""

    def risk(loss: Any, N: int) -> tuple[Any, list[Any]]:
        t = cp.Variable()
        return t + cp.sum(cp.pos(loss - t)) / (beta * N), []

    return risk


def chi_square(rho: Callable[[int], float]) -> Risk:
    """Duchi and Namkoong: min over t of t + sqrt((1 + rho) mean (l - t)_+^2)."""

    def risk(loss: Any, N: int) -> tuple[Any, list[Any]]:
        t = cp.Variable()
        return t + math.sqrt((1.0 + rho(N)) / N) * cp.norm(cp.pos(loss - t), 2), []

    return risk


def total_variation(d: float) -> Risk:
    """d times the worst and 1 - d times the mean of the worst part 1 - d."""

    def risk(loss: Any, N: int) -> tuple[Any, list[Any]]:
        rest, _ = tail(1.0 - d)(loss, N)
        return d * cp.max(loss) + (1.0 - d) * rest, []

    return risk


def in_order(steps: dict[int, float]) -> Risk:
    """sum_k c_k times the mean of the k largest losses."""

    def risk(loss: Any, N: int) -> tuple[Any, list[Any]]:
        return sum(c * cp.sum_largest(loss, k) / k for k, c in steps.items()), []

    return risk


def balls(p: float) -> Risk:
    """The largest mean over distributions with norm_p(q - 1/N) <= 0.01, by its conjugate: for
    shares s >= 0 of q >= 0, t + mean(l - t + s) + 0.01 dual norm(l - t + s)."""

    def risk(loss: Any, N: int) -> tuple[Any, list[Any]]:
        t, s = cp.Variable(), cp.Variable(N, nonneg=True)
        dual = math.inf if p == 1.0 else 1.0 if p == math.inf else p / (p - 1.0)
        size = cp.norm(loss - t + s, dual) if dual in (1.0, 2.0, math.inf) else cp.pnorm(
            loss - t + s, dual, approx=False
        )  # fmt: skip
        return t + cp.sum(loss - t + s) / N + 0.01 * size, []

    return risk


RISKS: dict[str, tuple[Callable[[Any], Any], Risk]] = {
    "cvar": (lambda S: CVaR(S, Param("beta", 0.85)), tail(0.85)),
    "chi-square": (lambda S: ucm.ChiSquare(S, rho=0.04), chi_square(lambda N: 0.04)),
    "chi-square by level": (
        lambda S: ucm.ChiSquare(S, level=0.95), chi_square(lambda N: 1.6448536269514722**2 / N),
    ),
    "total variation": (lambda S: TotalVariation(S, Param("d", 0.03)), total_variation(0.03)),
    "spectral": (
        lambda S: SpectralRisk(S, (10 / 30, 25 / 30, 1.0), (0.1, 0.2, 0.7)),
        in_order({10: 0.1, 25: 0.2, 30: 0.7}),
    ),
    **{
        f"norm ball, p = {p:g}": (
            lambda S, p=p: ucm.Hull(S, weights=ucm.NormBall(0.01, p, around="uniform")), balls(p),
        )
        for p in (1.0, 1.5, 2.0, 3.0, math.inf)
    },
}  # fmt: skip


def least_risk(risk: Risk, X: np.ndarray, y: np.ndarray) -> float:
    """min over ||w|| <= 1 of the risk of minus the margins of each class, without a bias."""
    w = cp.Variable(X.shape[1])
    total, inside = 0.0, [cp.norm(w, 2) <= 1]
    for label in (1.0, -1.0):
        rows = X[y == label]
        value, more = risk(-label * (rows @ w), len(rows))
        total, inside = total + value, inside + more
    problem = cp.Problem(cp.Minimize(total), inside)
    return solved(problem)


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("name", RISKS)
def test_a_set_is_the_worst_case_of_its_risk(name: str, data: str) -> None:
    X, y = load(data)
    build, risk = RISKS[name]
    if name == "spectral" and min((y > 0).sum(), (y < 0).sum()) < 30:
        X, y = bundled.load("breast_cancer")
        kept = np.concatenate([np.flatnonzero(y == label)[25:55] for label in (1.0, -1.0)])
        X, y = X[kept], y[kept]
    solution = ucm.solve(build(pos) - build(neg), X, y, tol=1e-8)
    reference = least_risk(risk, X, y)
    assert solution.status == "optimal", solution.message
    assert solution.objective == pytest.approx(reference, rel=1e-6)


# --- transport -----------------------------------------------------------------------------------
def moved(order: float, eps: float, beta: float, norm: float, X: Any, y: Any) -> float:
    """The least ||x_+ - x_-|| over tail means of every Q that transport reaches: a part u_i of
    the mass 1/N of sample i is in the tail, moved by v_i / u_i in all."""
    points, inside = [], []
    for label in (1.0, -1.0):
        rows = X[y == label]
        N = len(rows)
        u, v = cp.Variable(N, nonneg=True), cp.Variable(rows.shape)
        cost = cp.norm(v, norm, axis=1)
        inside += [cp.sum(u) == beta, N * u <= 1]
        inside += [cp.sum(cost) <= eps] if order == 1.0 else [cost <= eps * u]
        points.append((rows.T @ u + cp.sum(v, axis=0)) / beta)
    problem = cp.Problem(cp.Minimize(cp.norm(points[0] - points[1], 2)), inside)
    return solved(problem)


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize(
    ("order", "beta", "norm"), [(1.0, 1.0, 2.0), (1.0, 0.8, 1.0), (math.inf, 0.85, math.inf)]
)
def test_transport_moves_the_samples(order: float, beta: float, norm: float, data: str) -> None:
    X, y = load(data)
    eps = Param("eps", 0.02)
    sides = (Wasserstein(S, eps, order=order, beta=beta, norm=norm) for S in (pos, neg))
    solution = ucm.solve(ucm.RobustMargin(next(sides) - next(sides)), X, y, tol=1e-8)
    assert solution.status == "optimal", solution.message
    assert -solution.objective == pytest.approx(moved(order, 0.02, beta, norm, X, y), rel=1e-6)


@pytest.mark.parametrize("data", SETS)
def test_gelbrich_holds_for_all_moments_near_those_of_the_samples(data: str) -> None:
    X, y = load(data)
    X = X[:, :6]
    U = Gelbrich(pos, Param("eps", 0.05), Param("kappa", 0.2)) - Gelbrich(neg, 0.05, 0.2)
    solution = ucm.solve(U, X, y)
    assert solution.status == "optimal", solution.message
    w, worst = solution.w, 0.0
    for label in (1.0, -1.0):
        rows = X[y == label]
        n, center = rows.shape[1], rows.mean(axis=0)
        S = (rows - center).T @ (rows - center) / len(rows)
        unit = 0.05
        mu, joint = cp.Variable(n), cp.Variable((2 * n, 2 * n), PSD=True)
        Sigma, C = joint[:n, :n], joint[:n, n:]
        distance = cp.sum_squares(mu) + (cp.trace(Sigma) + np.trace(S) - 2 * cp.trace(C)) / unit**2
        goal = -label * (w @ center) - label * unit * (w @ mu) + 0.2 * cp.sqrt(w @ Sigma @ w)
        problem = cp.Problem(cp.Maximize(goal), [joint[n:, n:] == S, distance <= 1])
        worst += solved(problem)
    assert solution.objective == pytest.approx(worst, rel=1e-6, abs=1e-6)


# --- names for what is there ---------------------------------------------------------------------
def test_names_are_lines_of_the_language() -> None:
    X, y = bundled.load("breast_cancer")
    nu, m = 0.5, len(y)
    same = [
        (2 * CVaR(signed, nu), ucm.models.nu_svm(nu)),
        (CVaR(pos, 0.4), ucm.ReducedHull(pos, eta=1 / (0.4 * (y > 0).sum()))),
        (ucm.ChiSquare(signed, rho=0.6), ucm.Hull(signed, weights=ucm.NormBall((1.6 / m) ** 0.5))),
        (
            TotalVariation(pos, 0.2) - pos.mean,
            0.2 * ucm.Hull(pos) + 0.8 * CVaR(pos, 0.8) - pos.mean,
        ),
    ]
    rng = np.random.default_rng(0)
    from ucm.data.bound_data import bind

    data = bind(X, y)
    for one, other in same:
        for d in rng.standard_normal((5, X.shape[1])):
            assert one.support(data, d, {})[0] == pytest.approx(other.support(data, d, {})[0], 1e-9)


@pytest.mark.parametrize(
    "U",
    [
        CVaR(pos, Param("beta", 0.2)),
        ucm.ChiSquare(neg, level=Param("level", 0.9)),
        TotalVariation(signed, Param("d", 0.3)),
        SpectralRisk(pos, (Param("c", 0.2), 1.0), (0.4, 0.6)),
        Wasserstein(pos, Param("eps", 0.1), beta=Param("beta", 0.2), norm=1),
        Gelbrich(neg, Param("eps", 0.1), Param("kappa", 0.5)),
        ucm.AffineImage(np.eye(2), ucm.Box((0.0, -math.inf), (1.0, 2.0))),
    ],
)
def test_ambiguity_sets_print_and_pickle(U: Any) -> None:
    assert ucm.from_json(ucm.to_json(U)) == U
    assert pickle.loads(pickle.dumps(U)) == U
    assert str(U) and U._repr_latex_().count("{") == U._repr_latex_().count("}")
    words = {**vars(ucm), "Param": Param, "inf": math.inf}
    assert eval(repr(U), {name: getattr(ucm, name) for name in ucm.__all__} | words) == U
    for name in U.params():
        assert U.with_params(**{name: 0.6}).params()[name] == 0.6


def test_the_size_follows_the_samples_of_a_fold() -> None:
    X, y = bundled.load("iris")
    U = ucm.ChiSquare(pos, level=0.95) - ucm.ChiSquare(neg, level=0.95)
    for rows in (slice(0, 60), slice(20, 100)):
        plan = ucm.compile(U, X[rows], y[rows])
        solution = plan.solve()
        for label in (1.0, -1.0):
            q = np.asarray(solution.weights)[y[rows] == label]
            assert q.size * (q @ q) - 1.0 <= 1.6448536269514722**2 / q.size * (1 + 1e-9)
        assert plan.verify().agrees


@pytest.mark.parametrize(
    "build",
    [
        lambda t: CVaR(pos, Param("t", t)) - CVaR(neg, Param("t", t)),
        lambda t: TotalVariation(pos, Param("t", t)) - TotalVariation(neg, Param("t", t)),
        lambda t: ucm.ChiSquare(pos, rho=Param("t", t)) - ucm.ChiSquare(neg, rho=Param("t", t)),
        lambda t: Wasserstein(pos, Param("t", t)) - Wasserstein(neg, Param("t", t)),
    ],
    ids=["cvar", "total variation", "chi-square", "wasserstein"],
)
def test_where_0_enters_the_set(build: Callable[[float], Any]) -> None:
    X, y = bundled.load("iris")
    interval = ucm.admissible(build(0.3), X, y)["t"]
    end = interval.lower if interval.lower > 0.0 else interval.upper
    assert 0.0 < end < math.inf, interval
    inner, outer = (0.99 * end, 1.01 * end)[:: 1 if end == interval.upper else -1]
    assert ucm.solve(build(inner), X, y).objective < 0.0 < ucm.solve(build(outer), X, y).objective


def test_two_hulls_of_densities_take_the_fast_route() -> None:
    X, y = bundled.load("iris")
    fast = ucm.compile(CVaR(pos, 0.9) - CVaR(neg, 0.9), X, y)
    assert fast.solver.name == ucm.compile(ucm.models.nu_svm(0.9), X, y).solver.name


# --- bad input -----------------------------------------------------------------------------------
def test_the_parts_of_a_spectral_risk_are_any_iterable() -> None:
    assert SpectralRisk(pos, (b for b in (0.1, 1.0)), {0.25: 1, 0.75: 2}) == SpectralRisk(
        pos, np.array([0.1, 1.0]), [0.25, 0.75]
    )


BAD = {
    "CVaR(pos, 0)": r"CVaR: beta must lie in \(0, 1\], got 0",
    "CVaR(pos, Param('b', 1.5))": r"beta must lie in \(0, 1\], got Param\('b', 1.5\)",
    "CVaR(ucm.Hull(pos), 0.5)": "CVaR: expected pos, neg, signed or an array",
    "ucm.ChiSquare(pos)": "exactly one of rho and level, got rho=None and level=None",
    "ucm.ChiSquare(pos, 0.1, 0.9)": "exactly one of rho and level",
    "ucm.ChiSquare(pos, -0.1)": r"rho must lie in \[0, inf\], got -0.1",
    "SpectralRisk(pos, (0.5, 1), (Param('v', 0.5), 0.5))": r"write c \* CVaR\(S, 0.1\) \+ \(1 - c\)",
    "TotalVariation(pos, 1.2)": r"d must lie in \[0, 1\], got 1.2",
    "SpectralRisk(pos, (0.5,), (0.5, 0.5))": "a weight for each beta, got 1 betas and 2 weights",
    "SpectralRisk(pos, (0.5, 1), (0.5, 0.4))": r"add up to 1, got \[0.5, 0.4\]",
    "SpectralRisk(pos, (0.5, 1), (1.5, -0.5))": "numbers of at least 0 that add up to 1, got",
    "SpectralRisk(pos, 0.5, 1)": "betas are numbers or Params",
    "SpectralRisk(pos, np.array(0.5), [1])": "betas are numbers or Params",
    "Wasserstein(pos, -1)": r"eps must lie in \[0, inf\), got -1",
    "Wasserstein(pos, 1, order=2)": "order is 1 or inf, got 2",
    "Wasserstein(pos, 1, norm=0.5)": r"p must lie in \[1, inf\]",
    "Gelbrich(pos, 0.1, float('nan'))": "expected a real number",
    "Gelbrich(pos, 0.1, -1)": r"kappa must lie in \[0, inf\), got -1",
    "ucm.NormBall(0.2, around='mean')": "around is None .* or \"uniform\", got 'mean'",
    "ucm.NormBall([0.1, 0.2])": "NormBall: radius: expected a real number or a Param, got .* write NormBall",
    "ucm.Ball(0, [0.1, 0.2])": "expected a real number or a Param, .* for one size a sample Robust",
    "ucm.NonNegative([[True], [True, False]])": "NonNegative: features has True or False for each feature",
    "ucm.WorstMean([ucm.Hinge()])": "expected one convex loss .* add worst means of several losses",
    "ucm.WassersteinObjective(ucm.Ramp(1), eps=0.1)": r"as Hinge\(\) or Logistic\(\), got Ramp\(\)",
    "Param(['a'], 1)": "the name must be a Python identifier, got",
    "ucm.Box([0, 1], [1, 2, 3])": r"as many lower bounds as upper ones, got \[2, 3\]",
    "ucm.Box([0, float('nan')])": "one number for each coordinate",
    "ucm.Box('a')": "expected a real number or a Param, got 'a'",
    "ucm.Hull(pos, weights=ucm.Box(0, [0.5, 1]))": "bounds for each sample cannot pass",
    "Param('a', 2) ** Param('b', 2)": "the exponent is a number other than 0",
    "Param('a', -2) ** 0.5": r"a \*\* 0.5: expected a number, got -2 \*\* 0.5",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_input_is_refused_when_written(text: str) -> None:
    with pytest.raises(ucm.CompositionError, match=BAD[text]):
        eval(text)


# --- the sets refuse later values of their parameters ---------------------------------------------
Maker = Callable[..., Any]
RANGES: dict[str, tuple[Maker, dict[str, float], dict[str, float]]] = {
    "rho": (lambda r: ucm.ChiSquare(pos, rho=r), {"r": 0.5}, {"r": -1.0}),
    "factor of a covariance": (lambda c: ucm.Ellipsoid(0, c * pos.cov, 1), {"c": 0.5}, {"c": -1.0}),
    "factor of a set": (lambda c: c * ucm.Hull(pos), {"c": 0.5}, {"c": math.inf}),
    "divisor of a set": (lambda c: ucm.Hull(pos) / c, {"c": 0.5}, {"c": 0.0}),
    "factor of a penalty": (lambda c: c * ucm.L1(), {"c": 0.5}, {"c": -1.0}),
    "mu": (lambda mu: ucm.models.rlsvm2(0.5, mu), {"mu": 0.5}, {"mu": 2.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_a_later_value_is_refused_as_the_first_one(name: str) -> None:
    """Another value is refused in the words in which it is refused when written: by `with_params`, by an
    estimator, in JSON, of a copy, below other sets."""
    make, inside, change = RANGES[name]
    node = make(*(Param(word, x) for word, x in inside.items()))
    with pytest.raises(ucm.CompositionError) as written:
        make(*(Param(word, x) for word, x in {**inside, **change}.items()))
    text, number = ucm.to_json(node), change.popitem()
    word, x = number
    wrong = '{"float": "inf"}' if math.isinf(x) else repr(x)
    before = f'"name": "{word}", "value": {inside[word]}'
    assert before in text
    above = 2.0 * node if isinstance(node, ucm.extend.UncertaintySet) else node
    for change_to in (
        lambda: node.with_params(**{word: x}),
        lambda: above.with_params(**{word: x}),
        lambda: pickle.loads(pickle.dumps(node)).with_params(**{word: x}),
        lambda: node.as_fractions([word]).substitute({word: x}),
        lambda: ucm.from_json(text).with_params(**{word: x}),
        lambda: ucm.from_json(text.replace(before, f'"name": "{word}", "value": {wrong}')),
    ):
        with pytest.raises(ucm.CompositionError) as error:
            change_to()
        assert str(error.value) == str(written.value)
    names = {word: getattr(ucm, word) for word in ucm.__all__}
    assert ucm.from_json(text) == node == eval(repr(node), names)
    with pytest.raises(ucm.CompositionError):
        ucm.Classifier(node).set_params(**{f"model__{word}": x})


LATER: dict[str, tuple[Any, dict[str, float], str]] = {
    "beta of CVaR": (CVaR(pos, Param("b", 0.5)), {"b": 2.0}, "1 / b = 0.5 .* 1 / b must be at least 1"),
    "beta of CVaR, 0": (CVaR(pos, Param("b", 0.5)), {"b": 0.0}, "1 / b: expected a number, got 1 / 0"),
    "beta of CVaR, below 0": (CVaR(pos, Param("b", 0.5)), {"b": -1.0}, r"cap must lie in .*got .* = -1"),
    "beta of SpectralRisk": (
        SpectralRisk(pos, (Param("b", 0.5), 1), (0.5, 0.5)), {"b": 1.5}, "1 / b must be at least 1"
    ),
    "beta of Wasserstein": (
        Wasserstein(pos, 0.5, beta=Param("b", 0.5)), {"b": 1.5}, "1 / b must be at least 1"
    ),
    "beta of groups": (
        ucm.models.group_dro(["A", "B"], Param("b", 0.8)), {"b": 1.5}, "1 / b .*must be at least"
    ),
    "level": (ucm.ChiSquare(pos, level=Param("c", 0.9)), {"c": 1.0}, r"c must lie in \[0.5, 1\)"),
    "total variation": (TotalVariation(pos, Param("d", 0.5)), {"d": -0.1}, r"radius must lie in \[0, inf"),
    "eps of Wasserstein": (Wasserstein(pos, Param("e", 0.5)), {"e": -1.0}, r"radius must lie in \[0, inf"),
    "eps of Gelbrich": (Gelbrich(pos, Param("e", 0.5), 0.5), {"e": -1.0}, r"radius must lie in \[0, inf"),
    "kappa": (Gelbrich(pos, 0.5, Param("k", 0.5)), {"k": -1.0}, r"radius must lie in \[0, inf"),
}  # fmt: skip


@pytest.mark.parametrize("name", LATER)
def test_a_later_value_without_a_set_is_refused(name: str) -> None:
    """Either when it is written or when samples are bound: by the set that the function returned."""
    model, change, words = LATER[name]
    X, y = bundled.load("iris")
    groups: dict[str, Any] = (
        {"subgroup": np.array(["A", "B"])[np.arange(len(y)) % 2]} if "groups" in name else {}
    )
    with pytest.raises(ucm.UCMError, match=words) as error:
        ucm.compile(model.with_params(**change), X, y, **groups)
    assert isinstance(error.value, ucm.CompositionError | ucm.EmptySetError)


def test_an_interval_may_end_beyond_the_range_of_a_function() -> None:
    """The search for it looks at the set, which has a meaning there; a value beyond is refused."""
    X, y = bundled.load("iris")
    U = TotalVariation(pos, Param("d", 0.5)) - TotalVariation(neg, Param("d", 0.5))
    interval = ucm.admissible(U, X, y)["d"]
    assert interval.lower == 0.0
    for fraction in (0.3, 0.9):
        V = TotalVariation(pos, Param("d", fraction, True)) - TotalVariation(neg, 0.2)
        assert 0.0 < ucm.solve(V, X, y).params["d"] < 2.0  # from 1 on it is the hull


EMPTY = {
    "CVaR(signed, 0.9)": r"the cap 1.11111 / 4 times 1 entries is below 0.5; the cap must be at least 2",
    "ucm.ChiSquare(signed, rho=0.1)": "the size must be at least 0.333333",
    "ucm.ChiSquare(signed, level=Param('l', 0.6)).with_params(l=0.55)": "l must be at least 0.87",
    "TotalVariation(signed, 0.1)": "the size must be at least 0.5",
    "ucm.AffineImage(np.eye(2), ucm.Box([0, 1, 1], 2))": "bounds for 3 coordinates, got 2",
    "ucm.AffineImage(np.eye(2), ucm.Box([0, 3], 2))": "upper bound 2 of coordinate 1 is below .* 3",
}


@pytest.mark.parametrize("text", EMPTY)
def test_a_radius_that_empties_the_set_is_refused_when_bound(text: str) -> None:
    X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [4.0, 3.0]], [1, -1, -1, -1]
    with pytest.raises(ucm.EmptySetError, match=EMPTY[text]) as error:
        ucm.compile(eval(text), X, y)
    assert re.search("must|give", str(error.value))


# --- boxes of features, powers of parameters -----------------------------------------------------
def test_a_bound_for_every_feature() -> None:
    X, y = bundled.load("iris")
    reach = (0.1, 0.3)
    U = ucm.Hull(pos, weights=ucm.NormBall(0.2)) - ucm.Hull(neg, weights=ucm.NormBall(0.2))
    moved = ucm.AffineImage(np.eye(2), ucm.Box((-0.1, -0.3), reach))
    plan = ucm.compile(U + moved, X, y)
    solution = plan.solve()
    assert solution.status == "optimal"
    assert plan.verify().agrees
    alone = U.support(plan.data, -solution.w, {})[0]
    assert solution.objective == pytest.approx(alone + np.abs(solution.w) @ reach, abs=1e-6)


@pytest.mark.parametrize("ball", [{"around": "uniform"}, {}], ids=repr)
def test_an_image_of_a_ball_that_is_not_around_0(ball: Any) -> None:
    """No solver of ellipsoids may take it for one."""
    X, y = bundled.load("iris")
    A = [[1.0, 0.5], [0.3, -1.0]]
    for radius, names in ((0.2, ("auto", "ssnal", "clarabel")), (5.0, ("auto",))):
        U = ucm.AffineImage(A, ucm.NormBall(radius, **ball), center=pos.mean - neg.mean)
        for name in names:
            plan = ucm.compile(U, X, y, solver=name)
            solution = plan.solve()
            assert (solution.objective < 0.0) == (radius < 1.0)
            assert solution.status != "optimal" or plan.verify().agrees


def test_the_losses_of_balls_near_the_uniform_distribution() -> None:
    for D in (ucm.ChiSquareBall(rho=0.5), ucm.NormBall(0.2, around="uniform")):
        assert ucm.Hull(signed, weights=D).to_loss() == ucm.Hinge(2)
    assert CVaR(signed, 0.3).to_loss() == ucm.Hinge()
    with pytest.raises(ucm.CompositionError, match="no loss is known"):
        ucm.Hull(signed, weights=ucm.NormBall(0.2, 3, "uniform")).to_loss()


@pytest.mark.slow
def test_a_nearly_round_set_around_0_ends() -> None:
    """Its polytope has facets without end near the nearest one."""
    rng = np.random.default_rng(0)
    X, y = 1e-3 * rng.standard_normal((20, 3)), np.where(np.arange(20) < 10, 1.0, -1.0)
    plan = ucm.compile(Gelbrich(pos, 0.5, 0.8), X, y)
    solution = plan.solve(tol=1e-4)
    assert solution.objective == pytest.approx(0.5 * math.sqrt(1.64), rel=1e-2)
    assert solution.plan is not None and len(solution.answer.witness.points) <= 5000


def test_powers_of_parameters_have_values_and_inverses() -> None:
    kappa = Param("kappa", 0.5)
    root = (1 + kappa**2) ** 0.5
    assert root.value == pytest.approx(math.sqrt(1.25))
    inverse = root.inverse("kappa")
    assert inverse is not None and inverse(2.0) == pytest.approx(3**0.5)
    for unknown in ((kappa - 2) ** 2, kappa * (1 - kappa), 1 / (kappa - 2), 0 * kappa):
        assert unknown.inverse("kappa") is None
    assert eval(repr(root), {"Param": Param}) == root
    assert (kappa**-1).value == 2.0
    assert (Param("big", 1e200) ** 2).value == math.inf


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("radius", [1e-6, 1e-3, 0.1, 0.8])
@pytest.mark.parametrize("classes", [None, [1] * 13 + [-1] * 7])
def test_balls_around_the_uniform_distribution(p: float, radius: float, classes: Any) -> None:
    """The projection by its variational inequality, in a dimension that CVXPY checks are too small for."""
    samples = SampleWeights(20, None, None if classes is None else np.array(classes))
    rng = np.random.default_rng(int(p * 10))
    D: Any = ucm.NormBall(radius, p, "uniform").bind(samples)
    if D.infeasibility_reason(20):
        radius += float(re.findall(r"at least ([\d.e-]+)", str(D.infeasibility_reason(20)))[0])
        D = ucm.NormBall(1.0001 * radius, p, "uniform").bind(samples)
    for size in (1e-3, 1.0, 100.0):
        v = size * rng.standard_normal(20)
        q = D.project(v)
        assert D.violation(q) <= 1e-9
        assert D.support(v - q)[0] - (v - q) @ q <= 1e-9 * size


def test_levels_are_quantiles_of_the_normal_distribution() -> None:
    D = ucm.ChiSquareBall(level=0.975)
    g = np.random.default_rng(0).standard_normal(500)
    expected = g.mean() + 1.959963984540054 * math.sqrt(g.var() / 500)
    assert D.support(g)[0] == pytest.approx(expected, rel=1e-9)
