"""What declarations mean, written once more: sets and domains in CVXPY, objectives in NumPy and CVXPY."""

from __future__ import annotations

import functools
import math
import warnings
from statistics import NormalDist
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import minimize_scalar

import ucm
from ucm import value

TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
Twin = tuple[Any, list[Any]]


def solve(problem: cp.Problem) -> str:
    """Clarabel's word: "optimal", "empty" or "failed"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL, **TIGHT)
        except (cp.error.SolverError, ArithmeticError, ValueError):
            return "failed"
    if problem.status == "optimal":
        return "optimal"
    return "empty" if problem.status == "infeasible" else "failed"


def norm(x: Any, p: float) -> Any:
    return cp.norm(x, p) if p in (1.0, 2.0, math.inf) else cp.pnorm(x, p, approx=False)


# --- statistics -----------------------------------------------------------------------------------
def rows(kind: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return {"pos": X[y > 0], "neg": X[y < 0], "signed": y[:, None] * X}[kind]


def statistic(v: Any, X: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """A vector or a matrix of feature space."""
    kind = type(v).__name__
    if kind == "Origin":
        return np.zeros(dim)
    if kind == "Mean":
        return rows(v.samples.kind, X, y).mean(axis=0)
    if kind == "Covariance":
        R = rows(v.samples.kind, X, y)
        return (R - R.mean(axis=0)).T @ (R - R.mean(axis=0)) / len(R)
    if kind in ("VectorSum", "MatrixSum"):
        return sum(c * statistic(term, X, y, dim) for c, term in v.terms)  # type: ignore[return-value]
    return np.asarray(v.entries, float)


# --- domains --------------------------------------------------------------------------------------
def conjugate(loss: Any, s: Any) -> tuple[Any, list[Any]]:
    """The sum of `l*(s_i)`, and what s must satisfy."""
    kind = type(loss).__name__
    if kind == "ScaledLoss":  # (c l)*(s) = c l*(s / c)
        c = value(loss.factor) / value(loss.divisor)
        inner, inside = conjugate(loss.term, s / c)
        return c * inner, inside
    if kind == "Exponential":
        return cp.sum(-cp.entr(s) - s), [s >= 0]
    if kind == "Logistic":
        return cp.sum(-cp.entr(s) - cp.entr(1 - s)), []
    if loss.p == 1.0:
        return cp.Constant(0.0), [s >= 0, s <= 1]
    dual = loss.p / (loss.p - 1.0)
    return (loss.p - 1.0) * cp.sum(cp.power(s / loss.p, dual, approx=False)), [s >= 0]


def cap(domain: Any, N: int) -> float:
    return value(domain.cap) / (N if domain.relative else 1)


def confined(domain: Any, q: Any) -> list[Any]:
    """That q lies in a domain."""
    kind, N = type(domain).__name__, q.size
    if kind == "DomainIntersection":
        return confined(domain.left, q) + confined(domain.right, q)
    if kind == "Simplex":
        return [q >= 0, cp.sum(q) == 1]
    if kind == "CappedSimplex":
        return [q >= 0, cp.sum(q) == 1, q <= cap(domain, N)]
    if kind == "NormBall":
        middle = 0.0 if domain.around is None else 1.0 / N
        return [norm(q - middle, domain.p) <= value(domain.radius)]
    if kind == "ChiSquareBall":
        at = domain.level
        rho = value(domain.rho) if at is None else NormalDist().inv_cdf(value(at)) ** 2 / N
        return [cp.norm(N * q - 1, 2) <= math.sqrt(rho * N)]
    if kind == "Box":
        return [q >= value(domain.lower), q <= value(domain.upper)]
    if kind == "KLBall":
        return [cp.sum(-cp.entr(N * q)) / N <= -math.log(value(domain.alpha))]
    total, inside = conjugate(domain.loss, N * q)
    return [total / N <= value(domain.radius), *inside]


def weighed(domain: Any, q: Any, y: np.ndarray | None) -> list[Any]:
    """That q is a distribution in a domain; over both classes half of it on each, and caps as given."""
    halves = [(q >= 0), cp.sum(q) == 1]
    if y is not None:
        halves = [q >= 0, cp.sum(q[y > 0]) == 0.5, cp.sum(q[y < 0]) == 0.5]
    if domain is None or type(domain).__name__ == "Simplex":
        return halves
    if type(domain).__name__ == "DomainIntersection":
        return weighed(domain.left, q, y) + weighed(domain.right, q, y)
    if type(domain).__name__ == "CappedSimplex":
        return [*halves, q <= cap(domain, q.size)]
    return halves + confined(domain, q)


# --- sets -----------------------------------------------------------------------------------------
def points(U: Any, X: np.ndarray, y: np.ndarray, dim: int) -> Twin:
    """An expression for the points of a set in R^dim, and the constraints on its variables."""
    kind = type(U).__name__
    where = functools.partial(points, X=X, y=y)
    if kind == "Point":
        return cp.Constant(statistic(U.vector, X, y, dim)), []
    if kind == "Ball":
        u = cp.Variable(dim)
        return statistic(U.center, X, y, dim) + u, [norm(u, U.p) <= value(U.radius)]
    if kind == "Ellipsoid":
        values, vectors = np.linalg.eigh(statistic(U.shape, X, y, dim))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        u = cp.Variable(dim)
        return statistic(U.center, X, y, dim) + root @ u, [cp.norm(u, 2) <= value(U.radius)]
    if kind == "Hull":
        R = rows(U.samples.kind, X, y)
        q = cp.Variable(len(R))
        return R.T @ q, weighed(U.weights, q, y if U.samples.kind == "signed" else None)
    if kind == "ReducedHull":
        R = rows(U.samples.kind, X, y)
        q = cp.Variable(len(R))
        cap = value(U.eta) if U.nu is None else 2.0 / (len(X) * value(U.nu))
        return R.T @ q, [q >= 0, q <= cap, cp.sum(q) == 1]
    if kind == "Image":
        A = np.asarray(U.A)
        q = cp.Variable(A.shape[1])
        return statistic(U.center, X, y, dim) + A @ q, confined(U.domain, q)
    if kind == "Scaled":
        x, inside = where(U.operand, dim=dim)
        return value(U.factor) * x, inside
    if kind == "LinearImage":
        M = np.asarray(U.matrix)
        x, inside = where(U.operand, dim=M.shape[1])
        return M @ x, inside
    (a, in_a), (b, in_b) = where(U.left, dim=dim), where(U.right, dim=dim)
    if kind == "Sum":
        return a + b, in_a + in_b
    if kind == "Intersection":
        return a, [*in_a, *in_b, a == b]
    raise NotImplementedError(kind)


def slack(inside: list[Any], *, equations: bool) -> float:
    """The least t for which every inequality holds up to t (negative: with room to spare); with
    `equations`, every operand of an `&` may also miss the other by t."""
    t = cp.Variable()
    relaxed: list[Any] = [t >= -1.0]
    for c in inside:
        if isinstance(c, cp.constraints.Inequality):
            relaxed.append(c.expr <= t)
        elif equations:
            relaxed.append(cp.norm(cp.vec(c.expr, order="F"), 2) <= t)
        else:
            relaxed.append(c)
    solve(cp.Problem(cp.Minimize(t), relaxed))
    return math.inf if t.value is None else float(t.value)


# --- objectives -----------------------------------------------------------------------------------
def loss(term: Any, t: Any) -> float:
    """The sum of a loss over the margins t."""
    kind = type(term).__name__
    if kind in ("ScaledLoss", "ScaledDifference"):
        return value(term.factor) / value(term.divisor) * loss(term.term, t)
    if kind == "LossSum":
        return sum(loss(one, t) for one in term.terms)
    with np.errstate(over="ignore"):
        if kind == "Exponential":
            return float(np.exp(-t).sum())
        if kind == "Logistic":
            return float(np.logaddexp(0.0, -t).sum())
        if kind == "Ramp":
            mu = value(term.mu)
            both = np.maximum(0.0, mu - t) - np.maximum(0.0, -(mu**2) - t)
            return float(np.where(t < -(mu**2), mu + mu**2, both).sum() / mu)
        return float((np.maximum(0.0, 1.0 - t) ** term.p).sum())


def penalty(term: Any, w: np.ndarray) -> float:
    kind, a = type(term).__name__, np.abs(w)
    if kind in ("ScaledPenalty", "ScaledFolded", "ScaledSplit"):
        return value(term.factor) / value(term.divisor) * penalty(term.term, w)
    if kind == "PenaltySum":
        return sum(penalty(one, w) for one in term.terms)
    if kind == "L1":
        return float(a.sum())
    if kind == "L2":
        return float(a @ a)
    if kind == "LInf":
        return float(a.max())
    if kind == "Lp":
        return float((a**term.p).sum())
    if kind == "ElasticNet":
        ratio = value(term.ratio)
        return float(ratio * a.sum() + (1.0 - ratio) * (a @ a))
    if kind == "ExpL0":
        return float((1.0 - np.exp(-value(term.a) * a)).sum())
    if kind == "CappedL1":
        return float(np.minimum(a, value(term.a)).sum())
    lam = value(term.lam)
    if kind == "MCP":
        gamma = value(term.gamma)
        flat = gamma * lam**2 / 2.0
        return float(np.where(a <= gamma * lam, lam * a - a * a / (2.0 * gamma), flat).sum())
    if kind == "SCAD":
        c = value(term.a)
        middle = (2.0 * c * lam * a - a * a - lam**2) / (2.0 * (c - 1.0))
        tail = lam**2 * (c + 1.0) / 2.0
        return float(np.where(a <= lam, lam * a, np.where(a <= c * lam, middle, tail)).sum())
    raise NotImplementedError(kind)


def objective(model: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float) -> float:
    return loss(model.loss, y * (X @ w + b)) + penalty(model.penalty, w)


def intercept(model: Any, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """The best b found for w on the kinks of the losses and between them, and the value there."""
    reach, scores = [0.0, 1.0, 0.5, 0.25, 0.01, -1e-4], X @ w
    kinks = {float(c) for k in reach for c in (y * k - scores)}
    tries = sorted(kinks | {b + d for b in kinks for d in (-1e-3, 1e-3)} | {-3.0, 3.0, -30.0, 30.0})
    best = min(tries, key=lambda b: objective(model, X, y, w, b))
    with np.errstate(all="ignore"):
        near: Any = minimize_scalar(
            lambda b: objective(model, X, y, w, b), bracket=(best - 0.1, best + 0.1)
        )
    candidates = [(objective(model, X, y, w, b), b) for b in (best, float(near.x))]
    least = min(c for c in candidates if math.isfinite(c[0]))
    return least[1], least[0]


def convex(term: Any) -> bool:
    return not any(isinstance(node, ucm.Ramp | ucm.FoldedConcave) for node in term.walk())


def loss_expression(term: Any, t: Any) -> Any:
    kind = type(term).__name__
    if kind == "ScaledLoss":
        return value(term.factor) / value(term.divisor) * loss_expression(term.term, t)
    if kind == "LossSum":
        return sum(loss_expression(one, t) for one in term.terms)
    if kind == "Exponential":
        return cp.sum(cp.exp(-t))
    if kind == "Logistic":
        return cp.sum(cp.logistic(-t))
    short = cp.pos(1 - t)
    return cp.sum(short if term.p == 1.0 else cp.power(short, term.p, approx=False))


def penalty_expression(term: Any, w: Any) -> Any:
    kind = type(term).__name__
    if kind == "ScaledPenalty":
        return value(term.factor) / value(term.divisor) * penalty_expression(term.term, w)
    if kind == "PenaltySum":
        return sum(penalty_expression(one, w) for one in term.terms)
    if kind == "L1":
        return cp.norm1(w)
    if kind == "L2":
        return cp.sum_squares(w)
    if kind == "LInf":
        return cp.norm_inf(w)
    if kind == "Lp":
        return cp.sum(cp.power(cp.abs(w), term.p, approx=False))
    ratio = value(term.ratio)
    return ratio * cp.norm1(w) + (1.0 - ratio) * cp.sum_squares(w)


def minimum(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[str, float, np.ndarray, float]:
    """What Clarabel says of a convex objective, the value there by its definition, w and b."""
    scale = max(float(np.abs(X).max()), 1e-300)
    v, b = cp.Variable(X.shape[1]), cp.Variable()
    losses = loss_expression(model.loss, cp.multiply(y, (X / scale) @ v + b))
    said = solve(cp.Problem(cp.Minimize(losses + penalty_expression(model.penalty, v / scale))))
    if said != "optimal" or v.value is None:
        return "failed", math.inf, np.zeros(X.shape[1]), 0.0
    w, at = v.value / scale, float(b.value)
    return said, objective(model, X, y, w, at), w, at
