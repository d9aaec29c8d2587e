"""The programs of the zoo in CVXPY, each written from the formula of its paper and without `ucm`.

A function takes a `Problem` and returns an objective, or an objective and constraints. That of a
non-convex classifier has the tangent of its subtracted part at a plane: a critical point is a minimum of it,
and the value there is that of the classifier.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

PROGRAMS: dict[str, Callable[[Problem], Any]] = {}


@dataclass
class Problem:
    """Samples and variables of a linear classifier.

    Attributes
    ----------
    X, y, groups : the samples, labels and groups
    c : weights of samples
    w, b : the variables
    plane : the plane at which a non-convex classifier is linearised
    """

    X: Any
    y: Any
    groups: Any
    c: Any = None
    plane: tuple[Any, float] | None = None
    w: Any = field(init=False)
    b: Any = field(init=False)

    def __post_init__(self) -> None:
        self.w, self.b = cp.Variable(self.X.shape[1]), cp.Variable()

    @property
    def t(self) -> Any:
        """The margins, with the intercept."""
        return cp.multiply(self.y, self.X @ self.w + self.b)

    @property
    def t0(self) -> Any:
        """The margins without an intercept."""
        return cp.multiply(self.y, self.X @ self.w)

    def part(self, sign: int, group: str | None = None) -> Any:
        """The indices of the samples of a class, or of a group of it."""
        inside = self.y == sign
        return np.flatnonzero(inside if group is None else inside & (self.groups == group))

    @property
    def plus(self) -> Any:
        return self.part(1)

    @property
    def minus(self) -> Any:
        return self.part(-1)

    def moments(self, sign: int, group: str | None = None) -> tuple[Any, Any]:
        """The mean and the covariance of a class."""
        Z = self.X[self.part(sign, group)]
        return Z.mean(axis=0), np.cov(Z, rowvar=False, bias=True)

    @property
    def norm(self) -> Any:
        return cp.sum_squares(self.w) / 2

    @property
    def norm_b(self) -> Any:
        return (cp.sum_squares(self.w) + self.b**2) / 2


def program(*names: str) -> Callable:
    """Name the classifiers of a program."""

    def named(build: Callable[[Problem], Any]) -> Callable[[Problem], Any]:
        for name in names:
            assert name not in PROGRAMS
            PROGRAMS[name] = build
        return build

    return named


def simple(name: str, build: Callable[[Problem], Any]) -> None:
    program(name)(build)


SCORES = np.sin(np.arange(60.0))


# --- parts -----------------------------------------------------------------------------------------
def hinge(t: Any, start: float = 1.0) -> Any:
    return cp.sum(cp.pos(start - t))


def squared(t: Any) -> Any:
    return cp.sum_squares(cp.pos(1 - t))


def logistic(t: Any) -> Any:
    return cp.sum(cp.logistic(-t))


def huber(t: Any, delta: float) -> Any:
    """sum of `min over s >= 0 of (1 - t - s)_+^2 / (2 delta) + s`."""
    s = cp.Variable(t.shape[0], nonneg=True)
    return cp.sum_squares(cp.pos(1 - t - s)) / (2 * delta) + cp.sum(s)


def tail(losses: Any, cap: float) -> Any:
    """The largest mean over weights of at most `cap`."""
    theta = cp.Variable()
    return theta + cap * cp.sum(cp.pos(losses - theta))


def ball(losses: Any, radius: float, dual: Any = 2, around: bool = True) -> Any:
    """The largest mean over weights within `radius` of the uniform ones or of 0; `dual` is the dual norm."""
    m = losses.shape[0]
    theta, up = cp.Variable(), cp.Variable(m, nonneg=True)
    rest = losses + up - theta
    return theta + (cp.sum(rest) / m if around else 0) + radius * cp.norm(rest, dual)


def chi_square(losses: Any, rho: float) -> Any:
    return ball(losses, (rho / losses.shape[0]) ** 0.5)


def entropic(losses: Any, alpha: float) -> tuple[Any, list[Any]]:
    """The largest mean over weights whose relative entropy to the uniform ones is at most -log alpha."""
    m = losses.shape[0]
    t, s, u = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(m)
    return s - t * np.log(alpha), [cp.ExpCone(losses - s, t * np.ones(m), u), cp.sum(u) <= m * t]


def deviation(cov: Any, w: Any) -> Any:
    values, vectors = np.linalg.eigh(cov)
    return cp.norm((vectors * np.sqrt(np.maximum(values, 0.0))).T @ w, 2)


def largest(entries: list[Any]) -> Any:
    return cp.max(cp.hstack(entries))


def margin_program(s: Problem, worst: Any, *constraints: Any, norm: Any = 2) -> Any:
    """Minimise the worst value of -w'x over ||w|| <= 1: it is negative, so that ||w|| = 1 there."""
    return worst, [cp.norm(s.w, norm) <= 1, *constraints]


def losses_of(s: Problem) -> tuple[Any, Any]:
    """The values of -w'x of class +1, and of w'x of class -1."""
    return -s.X[s.plus] @ s.w, s.X[s.minus] @ s.w


# --- a squared norm, and other norms ---------------------------------------------------------------
simple("Soft-margin SVM", lambda s: 0.7 * hinge(s.t) + s.norm)
simple("SVM with squared slacks", lambda s: 0.7 * squared(s.t) + s.norm)
simple(
    "SVM with slacks to a power",
    lambda s: 0.7 * cp.sum(cp.power(cp.pos(1 - s.t), 1.5, approx=False)) + s.norm,
)
simple("SVM of LIBLINEAR", lambda s: 0.7 * hinge(s.t) + s.norm_b)
simple("SVM without intercept", lambda s: hinge(s.t0) / 60 + 0.1 * s.norm)
simple("Lagrangian SVM", lambda s: squared(s.t) + s.norm_b)
simple("Least-squares SVM", lambda s: cp.sum_squares(s.y - s.X @ s.w - s.b) / 2 + s.norm)
simple("Proximal SVM", lambda s: cp.sum_squares(s.y - s.X @ s.w - s.b) / 2 + s.norm_b)
simple(
    "Regularised least-squares classification", lambda s: cp.sum_squares(s.y - s.X @ s.w) / 60 + 0.2 * s.norm
)
simple("Ridge logistic regression", lambda s: logistic(s.t) + s.norm)
simple("Exponential loss with a squared norm", lambda s: cp.sum(cp.exp(-s.t)) + s.norm)
simple(
    "Modified Huber loss",
    lambda s: cp.sum(cp.huber(cp.pos(1 - s.t), 2)) + s.norm,  # u^2 to u = 2, then 4 u - 4
)
simple("Smooth hinge", lambda s: huber(s.t, 1) + s.norm)
simple("Bridge penalty", lambda s: logistic(s.t) + 0.5 * cp.sum(cp.power(cp.abs(s.w), 1.5, approx=False)))
simple("Norm of any order", lambda s: 0.7 * hinge(s.t) + cp.pnorm(s.w, 3, approx=False))
simple("Unhinged SVM", lambda s: cp.sum(1 - s.t) / 60 + s.norm_b)
simple("Pinball SVM", lambda s: cp.sum(cp.maximum(1 - s.t, 0.5 * (s.t - 1))) + s.norm)


@program("Distance-weighted discrimination")
def _(s: Problem) -> Any:
    r, slack = cp.Variable(60, pos=True), cp.Variable(60, nonneg=True)
    # min of 1 / r + C slack in units in which the slope of the loss is -1
    return cp.sum(cp.inv_pos(r)) / 4 + cp.sum(slack) + s.norm, [r == s.t + slack]


# --- sparse classifiers ----------------------------------------------------------------------------
simple("1-norm SVM", lambda s: hinge(s.t) + 2 * cp.norm1(s.w))
simple("SVM with the max norm", lambda s: hinge(s.t) + 2 * cp.norm_inf(s.w))
simple("l1 logistic regression", lambda s: logistic(s.t) + 2 * cp.norm1(s.w))
simple("l1 squared hinge", lambda s: squared(s.t) + 2 * (cp.norm1(s.w) + cp.abs(s.b)))
simple(
    "Sparse discriminant by least squares",
    lambda s: cp.sum_squares(s.y - s.X @ s.w - s.b) / 60 + 0.1 * cp.norm1(s.w),
)
simple("Boosting with an l1 penalty", lambda s: cp.sum(cp.exp(-s.t0)) + 2 * cp.norm1(s.w))
simple("Doubly regularised SVM", lambda s: hinge(s.t) + cp.norm1(s.w) + cp.sum_squares(s.w))
simple("Hybrid huberised SVM", lambda s: huber(s.t, 0.5) + cp.norm1(s.w) + s.norm)
simple("Elastic net logistic regression", lambda s: logistic(s.t) / 60 + 0.05 * cp.norm1(s.w) + 0.04 * s.norm)
simple(
    "Elastic net least squares",
    lambda s: cp.sum_squares(s.y - s.X @ s.w - s.b) + 2 * cp.norm1(s.w) + cp.sum_squares(s.w),
)
simple("Adaptive lasso", lambda s: logistic(s.t) + np.array([0.5, 1, 2, 0.2, 4]) @ cp.abs(s.w))
simple(
    "Group lasso logistic regression",
    lambda s: logistic(s.t) + 2 * (2**0.5 * cp.norm(s.w[:2]) + 3**0.5 * cp.norm(s.w[2:])),
)
simple(
    "Group lasso with squared hinge",
    lambda s: squared(s.t) + 2 * (cp.norm(s.w[:2]) + cp.norm(s.w[2:])),
)
simple("Sparse group lasso", lambda s: logistic(s.t) + cp.norm(s.w[:2]) + cp.norm(s.w[2:]) + cp.norm1(s.w))
simple(
    "Hierarchical selection",
    lambda s: (
        logistic(s.t)
        + (cp.norm(s.w[[0, 2, 4]]) + cp.abs(s.w[1]) + cp.abs(s.w[3]))
        + 0.5 * (cp.norm(s.w[:2]) + cp.norm(s.w[2:4]) + cp.abs(s.w[4]))
    ),
)
simple(
    "Network-constrained selection",
    lambda s: logistic(s.t) + cp.norm1(s.w) + 0.5 * cp.sum_squares(s.w[1:] - s.w[:-1]),
)
simple(
    "Fused lasso with the hinge loss",
    lambda s: 0.2 * hinge(s.t) + 0.5 * cp.norm1(s.w) + cp.norm1(s.w[1:] - s.w[:-1]),
)


@program("OSCAR")
def _(s: Problem) -> Any:
    pairs = [cp.maximum(cp.abs(s.w[i]), cp.abs(s.w[j])) for i, j in itertools.combinations(range(5), 2)]
    loss = cp.sum_squares(s.y - s.X @ s.w - s.b) / 60
    return loss + 0.05 * (cp.norm1(s.w) + 0.5 * cp.sum(cp.hstack(pairs)))


# --- weights, margins and costs --------------------------------------------------------------------
simple(
    "SVM with class weights",
    lambda s: 2 * hinge(s.t[s.plus]) + 0.5 * hinge(s.t[s.minus]) + s.norm,
)
simple("Fuzzy SVM", lambda s: s.c @ cp.pos(1 - s.t) + s.norm)
simple(
    "Weighted logistic regression for rare events",
    lambda s: 3 * logistic(s.t[s.plus]) + 0.6 * logistic(s.t[s.minus]) + 0.2 * s.norm,
)
simple(
    "Cost-sensitive hinge",
    lambda s: 2 * hinge(s.t[s.plus]) + 0.7 * hinge(s.t[s.minus], 0.4) + s.norm,
)
simple("SVM with uneven margins", lambda s: hinge(s.t[s.plus]) + hinge(s.t[s.minus], 0.3) + s.norm)


@program("Label-distribution-aware margin")
def _(s: Problem) -> Any:
    C = 0.8 * len(s.plus) ** 0.25  # margins C / n^(1/4), that of the rare class 0.8
    hinges = [hinge(s.t[rows], C / len(rows) ** 0.25) for rows in (s.plus, s.minus)]
    return sum(hinges) / 60 + 0.1 * s.norm


@program("Classification with a reject option")
def _(s: Problem) -> Any:
    a = 4.0  # (1 - d) / d of the cost d = 0.2
    return cp.sum(cp.maximum(0, 1 - s.t, 1 - a * s.t)) + s.norm


@program("Universum SVM")
def _(s: Problem) -> Any:
    rows, others = np.flatnonzero(s.groups == "a"), np.flatnonzero(s.groups == "b")[:15]
    scores = s.X[others] @ s.w + s.b
    return hinge(s.t[rows]) + 0.3 * cp.sum(cp.pos(cp.abs(scores) - 0.1)) + s.norm


@program("Symmetric label noise, corrected")
def _(s: Problem) -> Any:
    rho = 0.2  # the loss ((1 - rho) l(t) - rho l(-t)) / (1 - 2 rho), with l(-t) = l(t) + t
    return ((1 - 2 * rho) * logistic(s.t) - rho * cp.sum(s.t)) / (1 - 2 * rho) + 10 * s.norm


@program("Learning from positive and unlabelled samples")
def _(s: Problem) -> Any:
    f = s.X @ s.w + s.b
    unlabelled = f[s.minus]
    double = cp.maximum(0, (1 + unlabelled) / 2, unlabelled)
    return -0.4 * cp.sum(f[s.plus]) / 22 + cp.sum(double) / 38 + 0.2 * s.norm


simple(
    "Twin bounded SVM, first plane",
    lambda s: (
        cp.sum_squares(s.X[s.plus] @ s.w + s.b) / 2
        + cp.sum(cp.pos(1 + s.X[s.minus] @ s.w + s.b)) / 2
        + s.norm_b
    ),
)


# --- structure and noise in the penalty ------------------------------------------------------------
@program("Minimum class variance SVM")
def _(s: Problem) -> Any:
    within = s.moments(1)[1] + s.moments(-1)[1]
    return 0.7 * hinge(s.t) + cp.quad_form(s.w, within) / 2


@program("SVM and LDA together")
def _(s: Problem) -> Any:
    within = s.moments(1)[1] + s.moments(-1)[1]
    return 0.7 * hinge(s.t) + s.norm + 0.3 * cp.quad_form(s.w, within)


@program("Structural regularised SVM")
def _(s: Problem) -> Any:
    clusters = sum(s.moments(sign, g)[1] for sign in (1, -1) for g in "ab")
    return 0.7 * hinge(s.t) + s.norm + 0.3 * cp.quad_form(s.w, clusters)


@program("Linear Laplacian SVM")
def _(s: Problem) -> Any:
    Z = np.random.default_rng(0).normal(size=(40, 5))
    pairs = [(i, j) for i in range(40) for j in range(i)]
    near = np.array([np.exp(-np.sum((Z[i] - Z[j]) ** 2)) for i, j in pairs])
    apart = np.array([Z[i] - Z[j] for i, j in pairs]) @ s.w
    return hinge(s.t) / 60 + 0.1 * s.norm + 0.01 * (near @ cp.square(apart))


@program("Marginalised corrupted features, squared loss")
def _(s: Problem) -> Any:
    # a feature is 0 with probability 1/4, else divided by 3/4: its variance is x^2 / 3
    variance = 60 * np.array([0.5, 1.0, 1.5, 0.8, 1.2]) / 3
    return cp.sum_squares(s.y - s.X @ s.w - s.b) + variance @ cp.square(s.w)


simple("Robustness as regularisation", lambda s: hinge(s.t) + 2 * cp.norm(s.w))
simple("Wasserstein DRO of the logistic loss", lambda s: logistic(s.t) / 60 + 0.1 * cp.norm(s.w))
simple("Wasserstein DRO of the hinge loss, max norm", lambda s: hinge(s.t) / 60 + 0.1 * cp.norm1(s.w))


# --- worst means of losses -------------------------------------------------------------------------
simple(
    "Conditional value-at-risk of the hinge loss",
    lambda s: tail(cp.pos(1 - s.t), 1 / (0.7 * 60)) + 0.1 * s.norm,
)
simple("Average of the largest losses", lambda s: cp.sum_largest(cp.logistic(-s.t), 40) / 40 + 0.1 * s.norm)
simple("Largest loss", lambda s: cp.max(cp.pos(1 - s.t)) + 0.1 * s.norm)
simple(
    "Superquantile of the logistic loss",
    lambda s: cp.sum_largest(cp.logistic(-s.t), 30) / 30 + 0.1 * s.norm,
)


@program("Variance-based regularisation")
def _(s: Problem) -> Any:
    z = cp.Variable(60)
    return chi_square(z, 0.1) + 0.1 * s.norm, [z >= cp.logistic(-s.t)]


@program("Fairness without demographics")
def _(s: Problem) -> Any:
    z = cp.Variable(60)
    return chi_square(z, 0.2) + 0.1 * s.norm, [z >= cp.pos(1 - s.t)]


@program("Upper confidence bound of the mean loss")
def _(s: Problem) -> Any:
    z = cp.Variable(60)
    return chi_square(z, 1.6448536269514722**2 / 60) + 0.1 * s.norm, [z >= cp.logistic(-s.t)]


@program("Relative-entropy DRO")
def _(s: Problem) -> Any:
    z = cp.Variable(60)
    worst, inside = entropic(z, 0.8)
    return worst + 0.1 * s.norm, [z >= cp.logistic(-s.t), *inside]


@program("Total-variation DRO")
def _(s: Problem) -> Any:
    losses = cp.logistic(-s.t)  # a tenth of the mass moves to the largest loss
    return 0.1 * cp.max(losses) + 0.9 * cp.sum_largest(losses, 54) / 54 + 0.1 * s.norm


simple(
    "Spectral risk of the loss",
    lambda s: 0.3 * cp.sum_largest(cp.pos(1 - s.t), 12) / 12 + 0.7 * hinge(s.t) / 60 + 0.1 * s.norm,
)


def by_class_and_group(s: Problem) -> list[Any]:
    rows = [s.part(sign, g) for sign in (1, -1) for g in "ab"]
    return [logistic(s.t[k]) / len(k) for k in rows]


simple("Group DRO", lambda s: largest(by_class_and_group(s)) + 0.1 * s.norm)
simple(
    "Minimax group fairness",
    lambda s: largest([hinge(s.t[s.groups == g]) / np.sum(s.groups == g) for g in "ab"]) + 0.1 * s.norm,
)
simple(
    "Fairness risk measure",
    lambda s: cp.sum_largest(cp.hstack(by_class_and_group(s)), 2) / 2 + 0.1 * s.norm,
)


@program("Agnostic mixture of domains")
def _(s: Problem) -> Any:
    a, b = (logistic(s.t[s.groups == g]) / np.sum(s.groups == g) for g in "ab")
    return cp.maximum(0.3 * a + 0.7 * b, 0.7 * a + 0.3 * b) + 0.1 * s.norm


simple(
    "Tail of the rare class beside a plain loss",
    lambda s: tail(cp.pos(1 - s.t[s.plus]), 1 / (0.2 * 22)) + hinge(s.t[s.minus]) / 38 + 0.1 * s.norm,
)
simple(
    "Tail of the loss with l1",
    lambda s: cp.sum_largest(cp.pos(1 - s.t), 48) / 48 + 0.02 * cp.norm1(s.w),
)


# --- robust samples and labels ---------------------------------------------------------------------
NOISE = np.array([0.5, 1.0, 1.5, 0.8, 1.2])


@program("Robust SVM of second-order cones")
def _(s: Problem) -> Any:
    slack = cp.Variable(60, nonneg=True)
    return cp.sum(slack) + s.norm, [s.t - 1 + slack >= 0.3 * cp.norm(np.diag(NOISE**0.5) @ s.w)]


@program("SVM with missing values, a covariance for each sample")
def _(s: Problem) -> Any:
    factors = 0.3 * np.cos(np.arange(600.0)).reshape(60, 5, 2)
    deviations = cp.hstack([cp.norm(F.T @ s.w, 2) for F in factors])
    return hinge(s.t - 0.5 * deviations) + s.norm


@program("Imprecise data")
def _(s: Problem) -> Any:
    widths = 0.2 * np.sin(np.arange(300.0)).reshape(60, 5) ** 2
    return hinge(s.t - widths @ cp.abs(s.w)) + s.norm


def deleted(s: Problem, k: int) -> Any:
    """The margins without the k features that lower them most."""
    each = [cp.sum_largest(cp.pos(cp.multiply(y * x, s.w)), k) for x, y in zip(s.X, s.y, strict=True)]
    return s.t - cp.hstack(each)


simple("Robust learning by feature deletion", lambda s: hinge(deleted(s, 2)) + s.norm)
simple("Missing features with a largest weight", lambda s: hinge(deleted(s, 2)) + 3 * cp.norm(s.w, "inf"))
simple("Logistic regression under feature deletion", lambda s: logistic(deleted(s, 1)) + s.norm)
simple("Logistic regression with an offset", lambda s: logistic(s.t + cp.multiply(s.y, SCORES)) + s.norm)
simple(
    "Local case-control sampling",
    lambda s: logistic(s.t - cp.multiply(s.y, SCORES)) + 0.001 * cp.sum_squares(s.w),
)
simple("Adaptive SVM", lambda s: 0.7 * hinge(s.t0 + cp.multiply(s.y, SCORES)) + s.norm)


@program("SVM with missing values")
def _(s: Problem) -> Any:
    slack, radius = cp.Variable(60, nonneg=True), np.arange(60) % 3 / 10
    return cp.sum(slack) + s.norm, [s.t - 1 + slack >= radius * cp.norm(np.diag(NOISE**0.5) @ s.w)]


@program("SVM of interval data")
def _(s: Problem) -> Any:
    # the worst point of an interval is an end, u the bounds of |w|
    u = cp.Variable(5)
    return hinge(s.t - np.array([0.1, 0.2, 0.0, 0.3, 0.1]) @ u) + s.norm, [u >= s.w, u >= -s.w]


for _name, _radius, _dual in (("l1 ball", 0.2, "inf"), ("l2 ball", 0.2, 2), ("max norm", 0.1, 1)):
    for _loss, _of in (("hinge", hinge), ("logistic", logistic)):
        simple(
            f"Adversarial {_loss} loss, {_name}",
            lambda s, r=_radius, q=_dual, of=_of: of(s.t - r * cp.norm(s.w, q)) + s.norm,
        )


@program("Tail of an adversarial loss")
def _(s: Problem) -> Any:
    return cp.sum_largest(cp.pos(1 - s.t + 0.2 * cp.norm(s.w)), 18) / 18 + 0.1 * s.norm


@program("Wasserstein DRO of the hinge loss, label flips")
def _(s: Problem) -> Any:
    lam = cp.Variable()
    worst = cp.maximum(cp.pos(1 - s.t), cp.pos(1 + s.t) - 0.5 * lam)
    return 0.1 * lam + cp.sum(worst) / 60, [lam >= cp.norm(s.w)]


@program("Wasserstein DRO of the logistic loss, label flips")
def _(s: Problem) -> Any:
    lam = cp.Variable()
    worst = cp.maximum(cp.logistic(-s.t), cp.logistic(s.t) - 0.5 * lam)
    return 0.1 * lam + cp.sum(worst) / 60, [lam >= cp.norm(s.w)]


# --- subsets of features ---------------------------------------------------------------------------
def best_subset(s: Problem, loss: Callable[[Any], Any]) -> Any:
    """The least optimum over the pairs of features, each a program."""
    optima = []
    for pair in itertools.combinations(range(5), 2):
        w = cp.Variable(2)
        objective = loss(cp.multiply(s.y, s.X[:, pair] @ w + s.b)) + cp.sum_squares(w) / 2
        optima.append(cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL"))
    least = cp.Variable()
    return least, [least >= min(optima)]


program("Best-subset SVM")(lambda s: best_subset(s, hinge))
program("Best-subset logistic regression")(lambda s: best_subset(s, logistic))


@program("k-support norm")
def _(s: Problem) -> Any:
    # half the squared norm: min over theta of sum w_j^2 / (2 theta_j), 0 <= theta <= 1, sum theta <= 2
    theta, part = cp.Variable(5), cp.Variable(5)
    cones = [cp.quad_over_lin(s.w[j], theta[j]) <= part[j] for j in range(5)]
    return hinge(s.t) + cp.sum(part) / 2, [*cones, theta >= 0, theta <= 1, cp.sum(theta) <= 2]


# --- constraints and fairness ----------------------------------------------------------------------
def parity(s: Problem) -> Any:
    return s.X[s.groups == "a"].mean(axis=0) - s.X[s.groups == "b"].mean(axis=0)


def gap(s: Problem, sign: int) -> Any:
    return s.moments(sign, "a")[0] - s.moments(sign, "b")[0]


simple(
    "Fair logistic regression",
    lambda s: (logistic(s.t) + 0.2 * s.norm, [cp.abs(parity(s) @ s.w) <= 0.01]),
)
simple("Fair SVM", lambda s: (hinge(s.t) + 0.2 * s.norm, [cp.abs(parity(s) @ s.w) <= 0.01]))
simple("Fair empirical risk minimisation", lambda s: (0.7 * hinge(s.t) + s.norm, [gap(s, 1) @ s.w == 0]))
simple(
    "Equal mean scores in both classes",
    lambda s: (
        cp.sum_squares(s.y - s.X @ s.w - s.b) + s.norm,
        [gap(s, 1) @ s.w == 0, gap(s, -1) @ s.w == 0],
    ),
)
simple("Compositional data", lambda s: (logistic(s.t) + cp.norm1(s.w), [cp.sum(s.w) == 0]))
simple("Sign constraints", lambda s: (cp.sum_squares(s.y - s.X @ s.w - s.b), [s.w[[0, 2, 4]] >= 0]))
simple("Stacking with weights of sum 1", lambda s: (logistic(s.t0), [s.w >= 0, cp.sum(s.w) == 1]))
simple("Bounded weights", lambda s: (hinge(s.t), [cp.norm_inf(s.w) <= 1]))
simple(
    "Penalised and constrained classification",
    lambda s: (logistic(s.t) + 0.5 * cp.norm1(s.w), [s.w[1:] >= s.w[:-1]]),
)
simple("Boosting with nonnegative weights", lambda s: (hinge(s.t) + cp.sum(s.w), [s.w >= 0]))


# --- hulls of samples ------------------------------------------------------------------------------
def tails(s: Problem, cap: float, other: float) -> Any:
    first, second = losses_of(s)
    return tail(first, cap) + tail(second, other)


simple("Maximum margin", lambda s: margin_program(s, cp.max(losses_of(s)[0]) + cp.max(losses_of(s)[1])))
simple("nu-SVM", lambda s: margin_program(s, tails(s, 2 / (60 * 0.4), 2 / (60 * 0.4))))
simple("Reduced convex hulls", lambda s: margin_program(s, tails(s, 0.2, 0.1)))
simple("Dual nu-SVM", lambda s: margin_program(s, tails(s, 2 / (60 * 0.6), 2 / (60 * 0.3))))
simple(
    "Arbitrary-norm separating plane",
    lambda s: margin_program(s, cp.max(losses_of(s)[0]) + cp.max(losses_of(s)[1]), norm=1),
)
simple("LP machine with nu", lambda s: margin_program(s, tails(s, 2 / (60 * 0.4), 2 / (60 * 0.4)), norm=1))


@program("Extended nu-SVM, max norm")
def _(s: Problem) -> Any:
    """The least of the linear programs with one weight held at 1 or -1: a face of the ball of w each."""
    least = np.inf
    for j, sign in itertools.product(range(5), (1.0, -1.0)):
        face = [cp.norm_inf(s.w) <= 1, s.w[j] == sign]
        cap = 2 / (60 * 0.15)
        least = min(least, cp.Problem(cp.Minimize(tails(s, cap, cap)), face).solve(solver="CLARABEL"))
    return cp.Constant(least)


@program("One-class SVM")
def _(s: Problem) -> Any:
    """min ||w||^2 / 2 - rho + mean of (rho - w'x)_+ / nu is -||w||^2 / 2 at the point w nearest to 0."""
    rho = cp.Variable()
    short = cp.sum(cp.pos(rho - s.X[s.plus] @ s.w)) / (0.3 * 30)
    value = cp.Problem(cp.Minimize(s.norm - rho + short)).solve(solver="CLARABEL")
    return cp.Constant(-((-2 * value) ** 0.5))


@program("nu-SVM with squared slacks")
def _(s: Problem) -> Any:
    # weights of sum 1/2 in each class, of 2-norm 0.2 together
    z, up, (theta, other) = cp.Variable(60), cp.Variable(60, nonneg=True), (cp.Variable(), cp.Variable())
    shift = theta * (s.y > 0) + other * (s.y < 0)
    worst = (theta + other) / 2 + 0.2 * cp.norm(z + up - shift)
    return margin_program(s, worst, z == -s.t0)


@program("nu-SVM with squared slacks, biased")
def _(s: Problem) -> Any:
    first, second = losses_of(s)
    return margin_program(s, ball(first, 0.3, around=False) + ball(second, 0.2, around=False))


@program("Exponential-loss nu-SVM")
def _(s: Problem) -> Any:
    # the dual of max over q of mass 1/2 in each class, with KL(q, uniform) <= -log alpha
    t, b, c, u = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(), cp.Variable(60)
    losses = -s.t0 - b * s.y
    inside = [cp.ExpCone(losses - c, t * np.ones(60), u), cp.sum(u) <= 60 * t]
    return margin_program(s, c - t * np.log(0.9), *inside)


simple("Tail of the margins of each class", lambda s: margin_program(s, tails(s, 1 / (0.3 * 30), 1 / 18)))


@program("Spectral risk of the margins")
def _(s: Problem) -> Any:
    return margin_program(s, sum(0.4 * tail(x, 1 / 6) + 0.6 * cp.sum(x) / 30 for x in losses_of(s)))


@program("Chi-square ambiguity of the margins")
def _(s: Problem) -> Any:
    return margin_program(s, sum(chi_square(x, 0.5) for x in losses_of(s)))


@program("Total-variation ambiguity of the margins")
def _(s: Problem) -> Any:
    return margin_program(s, sum(0.1 * cp.max(x) + 0.9 * tail(x, 1 / 27) for x in losses_of(s)))


@program("Bounded noise in every sample")
def _(s: Problem) -> Any:
    return margin_program(s, sum(cp.max(x) for x in losses_of(s)) + 0.1 * cp.norm1(s.w))


@program("Interval data")
def _(s: Problem) -> Any:
    reach = np.array([0.1, 0.3, 0.0, 0.2, 0.1])
    return margin_program(s, sum(cp.max(x) for x in losses_of(s)) + reach @ cp.abs(s.w))


@program("Knowledge sets")
def _(s: Problem) -> Any:
    corners = np.array([[3, 2, 0, 0, 1], [3, 0, 1, 1, 1], [2, 2, 1, 0, 2]])
    first, second = losses_of(s)
    return margin_program(s, cp.maximum(tail(first, 0.1), cp.max(-corners @ s.w)) + tail(second, 0.1))


@program("Wasserstein ambiguity of the tails")
def _(s: Problem) -> Any:
    worst = sum(tail(x, 1 / 15) + 0.05 / 0.5 * cp.norm1(s.w) for x in losses_of(s))
    return margin_program(s, worst)


@program("Worst group of each class")
def _(s: Problem) -> Any:
    worst = 0
    for sign in (1, -1):
        rows = [s.part(sign, g) for g in "ab"]
        worst += largest([tail(-sign * s.X[k] @ s.w, 1 / (0.5 * len(k))) for k in rows])
    return margin_program(s, worst)


# --- means and covariances -------------------------------------------------------------------------
def of_moments(s: Problem, kappa: float, other: float, added: float = 0.0) -> Any:
    (mean, cov), (mean2, cov2) = s.moments(1), s.moments(-1)
    more = added * np.eye(5)
    return (mean2 - mean) @ s.w + kappa * deviation(cov + more, s.w) + other * deviation(cov2 + more, s.w)


simple("Mean difference", lambda s: margin_program(s, of_moments(s, 0, 0)))
simple("Specified error rates", lambda s: margin_program(s, of_moments(s, 0.8, 0.4)))
simple("Minimax probability machine with margin", lambda s: margin_program(s, of_moments(s, 0.5, 0.5)))
simple(
    "Robust minimax probability machine with margin",
    lambda s: margin_program(s, of_moments(s, 0.5, 0.5, 0.1)),
)


@program("Fisher discriminant with margin")
def _(s: Problem) -> Any:
    (mean, cov), (mean2, cov2) = s.moments(1), s.moments(-1)
    return margin_program(s, (mean2 - mean) @ s.w + 0.5 * deviation(cov + cov2, s.w))


def nearest(x: Any, *constraints: Any) -> Any:
    """Minus the least norm of a point x: by duality the optimum over w of norm 1."""
    return cp.Constant(-cp.Problem(cp.Minimize(cp.norm(x)), list(constraints)).solve(solver="CLARABEL"))


def ellipsoid(x: Any, mean: Any, cov: Any, kappa: float) -> Any:
    return cp.norm(np.linalg.solve(np.linalg.cholesky(cov), np.eye(5)) @ (x - mean)) <= kappa


def hull(s: Problem, rows: Any) -> tuple[Any, list[Any]]:
    q = cp.Variable(len(rows), nonneg=True)
    return s.X[rows].T @ q, [cp.sum(q) == 1]


@program("Coherent minimax probability machine")
def _(s: Problem) -> Any:
    (x, inside), (z, inside2) = hull(s, s.plus), hull(s, s.minus)
    near = [ellipsoid(x, *s.moments(1), 0.8), ellipsoid(z, *s.moments(-1), 0.8)]
    return nearest(x - z, *inside, *inside2, *near)


@program("Coherent Fisher discriminant")
def _(s: Problem) -> Any:
    (x, inside), (z, inside2) = hull(s, s.plus), hull(s, s.minus)
    (mean, cov), (mean2, cov2) = s.moments(1), s.moments(-1)
    return nearest(x - z, *inside, *inside2, ellipsoid(x - z, mean - mean2, cov + cov2, 0.8))


@program("Clusters as ellipsoids")
def _(s: Problem) -> Any:
    worst = 0
    for sign in (1, -1):
        moments = [s.moments(sign, g) for g in "ab"]
        worst += largest([-sign * mean @ s.w + 0.7 * deviation(cov, s.w) for mean, cov in moments])
    return margin_program(s, worst)


@program("Single-class minimax probability machine")
def _(s: Problem) -> Any:
    mean, cov = s.moments(1)
    return margin_program(s, -mean @ s.w + 0.5 * deviation(cov, s.w))


@program("Gelbrich ambiguity")
def _(s: Problem) -> Any:
    more = 2 * 0.1 * (1 + 0.4**2) ** 0.5 * cp.norm(s.w)
    return margin_program(s, of_moments(s, 0.4, 0.4) + more, norm=1)


@program("Missing data, one covariance for a class")
def _(s: Problem) -> Any:
    spread = deviation(s.moments(1)[1], s.w) + deviation(s.moments(-1)[1], s.w)
    return margin_program(s, tails(s, 0.2, 0.2) + 0.3 * spread)


# --- kernels: w = sum of alpha_i phi(x_i), from a factor of the Gram matrix ------------------------
def gaussian(s: Problem, rows: Any = slice(None)) -> Any:
    Z = s.X[rows]
    K = np.exp(-0.2 * ((Z[:, None] - Z) ** 2).sum(axis=2))
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def over(s: Problem) -> tuple[Any, Any]:
    """The margins and half the squared norm in the feature space."""
    F = gaussian(s)
    v = cp.Variable(F.shape[1])
    return cp.multiply(s.y, F @ v + s.b), cp.sum_squares(v) / 2


@program("SVM with a Gaussian kernel")
def _(s: Problem) -> Any:
    t, norm = over(s)
    return 2 * hinge(t) + norm


@program("Kernel logistic regression")
def _(s: Problem) -> Any:
    t, norm = over(s)
    return 2 * logistic(t) + norm


@program("Least-squares SVM with a kernel")
def _(s: Problem) -> Any:
    t, norm = over(s)
    return cp.sum_squares(1 - t) + norm


@program("Tail of the loss with a kernel")
def _(s: Problem) -> Any:
    t, norm = over(s)
    return cp.sum_largest(cp.pos(1 - t), 18) / 18 + 0.1 * norm


@program("nu-SVM with a kernel")
def _(s: Problem) -> Any:
    F = gaussian(s)
    q = cp.Variable(60, nonneg=True)
    classes = [cp.sum(q[s.plus]) == 1, cp.sum(q[s.minus]) == 1]
    return nearest(F.T @ cp.multiply(s.y, q), *classes, q <= 2 / (60 * 0.4))


@program("One-class SVM with a Gaussian kernel")
def _(s: Problem) -> Any:
    q = cp.Variable(30, nonneg=True)
    return nearest(gaussian(s, s.plus).T @ q, cp.sum(q) == 1, q <= 1 / (0.3 * 30))


# --- non-convex classifiers: the value at a plane, and the convex part with a tangent ------------------
def at(s: Problem) -> tuple[Any, Any]:
    """The margins and the weights at the plane."""
    assert s.plane is not None
    w, b = s.plane
    return s.y * (s.X @ w + b), w


def tangent(s: Problem, convex: Any, minus: float, margin_slope: Any, slope: Any) -> Any:
    """A convex part, less the tangent of a subtracted part of value `minus` at the plane."""
    t, w = at(s)
    return convex - minus - (margin_slope @ (s.t - t)) - (slope @ (s.w - w))


def ramp_part(s: Problem, low: float) -> tuple[float, Any]:
    """The subtracted hinge that starts at the margin `low`: value and slopes."""
    t = at(s)[0]
    return np.maximum(low - t, 0.0).sum(), -(t < low).astype(float)


def nonconvex(
    name: str,
    loss: Callable[[Any], Any],
    penalty: Callable[[Any], Any],
    ramp: tuple[float, float] | None = None,
    excess: Callable[[Any], tuple[float, Any]] | None = None,
) -> None:
    """Name a classifier `loss + penalty - c sum max(0, low - t) - excess(w)`, with `ramp = (c, low)`."""

    def build(s: Problem) -> Any:
        t, w = at(s)
        minus, by_margin, by_weight = 0.0, np.zeros(t.size), np.zeros(w.size)
        if ramp is not None:
            value, slopes = ramp_part(s, ramp[1])
            minus, by_margin = minus + ramp[0] * value, by_margin + ramp[0] * slopes
        if excess is not None:
            value, slopes = excess(w)
            minus, by_weight = minus + value, by_weight + slopes
        convex = loss(s.t) + penalty(s.w)
        return tangent(s, convex, minus, by_margin, by_weight)

    program(name)(build)


def capped(lam: float, a: float) -> Callable[[Any], tuple[float, Any]]:
    return lambda w: (lam * np.maximum(abs(w) - a, 0).sum(), lam * np.sign(w) * (abs(w) > a))


def concave_exponential(lam: float, a: float) -> Callable[[Any], tuple[float, Any]]:
    """lam (a |w| - 1 + exp(-a |w|)), what lam (1 - exp(-a |w|)) is less than its tangent at 0."""
    return lambda w: (
        lam * (a * abs(w) - 1 + np.exp(-a * abs(w))).sum(),
        lam * a * np.sign(w) * (1 - np.exp(-a * abs(w))),
    )


def scad(lam: float, a: float) -> Callable[[Any], tuple[float, Any]]:
    """lam |w| less SCAD, by its derivative: lam to lam, then (a lam - w)_+ / (a - 1)."""

    def excess(w: Any) -> tuple[float, Any]:
        s = abs(w)
        middle = (np.clip(s, lam, a * lam) - lam) ** 2 / (2 * (a - 1))
        beyond = lam * np.maximum(s - a * lam, 0)
        slope = lam - np.where(s <= lam, lam, np.maximum(a * lam - s, 0) / (a - 1))
        return (middle + beyond).sum(), np.sign(w) * slope

    return excess


def mcp(s: Any, lam: float, gamma: float) -> tuple[Any, Any]:
    """lam s less MCP at s >= 0, and its slope."""
    inner = np.minimum(s, gamma * lam)
    return inner**2 / (2 * gamma) + lam * np.maximum(s - gamma * lam, 0), inner / gamma


def group_excess(w: Any) -> tuple[float, Any]:
    total, slope = 0.0, np.zeros(5)
    for part in (slice(0, 2), slice(2, 5)):
        size = np.linalg.norm(w[part])
        value, rise = mcp(size, 0.05, 3)
        total += value
        slope[part] = rise * w[part] / size if size else 0.0
    return total, slope


def half(w: Any) -> Any:
    return cp.sum_squares(w) / 2


nonconvex("Ramp-loss SVM", hinge, half, ramp=(1.0, -1.0))
nonconvex("Robust truncated hinge", hinge, half, ramp=(1.0, 0.0))
nonconvex("Ramp loss with l1", lambda t: hinge(t, 0.5) / 0.5, cp.norm1, ramp=(2.0, -0.25))
nonconvex(
    "Ramp loss with an approximate 0-norm",
    hinge,
    lambda w: 4 * cp.norm1(w),
    ramp=(1.0, -1.0),
    excess=concave_exponential(1.0, 4.0),
)
nonconvex("Ramp loss with capped l1", hinge, cp.norm1, ramp=(1.0, -1.0), excess=capped(1.0, 1.0))
nonconvex(
    "Zero-norm machine",
    hinge,
    lambda w: 10 * cp.norm1(w),
    excess=lambda w: (
        (10 * abs(w) - np.log1p(10 * abs(w))).sum(),
        np.sign(w) * (10 - 1 / (0.1 + abs(w))),
    ),
)
nonconvex("Capped l1 logistic regression", logistic, lambda w: 2 * cp.norm1(w), excess=capped(2.0, 0.5))
nonconvex("SCAD SVM", lambda t: hinge(t) / 60, lambda w: 0.1 * cp.norm1(w), excess=scad(0.1, 3.7))
nonconvex(
    "Elastic SCAD SVM",
    lambda t: hinge(t) / 60,
    lambda w: 0.1 * cp.norm1(w) + 0.02 * cp.sum_squares(w),
    excess=scad(0.1, 3.7),
)
nonconvex(
    "MCP logistic regression",
    lambda t: logistic(t) / 60,
    lambda w: 0.05 * cp.norm1(w),
    excess=lambda w: (mcp(abs(w), 0.05, 3)[0].sum(), np.sign(w) * mcp(abs(w), 0.05, 3)[1]),
)
nonconvex(
    "Group MCP",
    lambda t: logistic(t) / 60,
    lambda w: 0.05 * (cp.norm(w[:2]) + cp.norm(w[2:])),
    excess=group_excess,
)


@program("Feature selection by a concave penalty")
def _(s: Problem) -> Any:
    minus, slope = concave_exponential(0.05, 5.0)(at(s)[1])
    convex = hinge(s.t[s.plus]) / 22 + hinge(s.t[s.minus]) / 38 + 0.25 * cp.norm1(s.w)
    return tangent(s, convex, minus, np.zeros(60), slope)


@program("Transductive SVM by the concave-convex procedure")
def _(s: Problem) -> Any:
    t, labelled = at(s)[0], s.groups == "a"
    beyond = ~labelled & (t < -1.0)
    minus = 0.3 * np.maximum(-1.0 - t[~labelled], 0.0).sum()
    convex = hinge(s.t[labelled]) + 0.3 * hinge(s.t[~labelled]) + s.norm
    return tangent(s, convex, minus, -0.3 * beyond.astype(float), np.zeros(5))
