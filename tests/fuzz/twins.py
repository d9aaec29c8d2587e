"""What declarations mean, written once more: sets and domains in CVXPY, objectives in NumPy and CVXPY."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.transforms.suppfunc import SuppFunc as suppfunc
from scipy.optimize import minimize_scalar

import ucm
from ucm.extend import value

TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
SOLVERS: tuple[dict[str, Any], ...] = (
    {"solver": cp.CLARABEL, **TIGHT},
    {"solver": cp.CLARABEL, **TIGHT, "equilibrate_enable": False},
    {"solver": cp.ECOS, "abstol": 1e-9, "reltol": 1e-9, "feastol": 1e-9, "max_iters": 500},
)
"""In this order, until one proves its answer or two of them agree."""
AGREE = 1e-8
"""Optimal values that differ by less, relative to 1 plus their size, are the same."""
MISSED, BARELY, TINY = 1e-9, 1e-8, 1e-15
"""By how much a point, and that of a reference, may miss a constraint relative to its terms, and absolute."""
FEW = (0.0, -1.0, 1.0, -0.25, 0.25)
"""Intercepts that are tried beside worst means."""
ReferenceProblem = tuple[Any, list[Any]]


def solve(problem: cp.Problem) -> str:
    """Return "optimal", "empty" or "failed".

    Near their last digits interior-point methods end as inaccurate; the value counts as optimal if a
    run with another scaling or another solver ends at the same value.
    """
    inaccurate: list[float] = []
    for options in SOLVERS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                problem.solve(**options)
            except (cp.error.SolverError, ArithmeticError, ValueError):
                continue
        if problem.status in ("optimal", "infeasible"):
            return "optimal" if problem.status == "optimal" else "empty"
        if problem.status == "optimal_inaccurate":
            value = float(problem.value)  # type: ignore[arg-type]
            if any(abs(value - other) <= AGREE * (1.0 + abs(value)) for other in inaccurate):
                return "optimal"
            inaccurate.append(value)
    return "failed"


def norm(x: Any, p: float) -> Any:
    return cp.norm(x, p) if p in (1.0, 2.0, math.inf) else cp.pnorm(x, p, approx=False)


def units(X: np.ndarray) -> np.ndarray:
    """The largest entry of every feature; of one without entries the least of the others."""
    tops = np.abs(X).max(axis=0)
    some = tops[tops > 0.0]
    return np.where(tops > 0.0, tops, some.min() if some.size else 1.0)


# --- samples --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Bound:
    """Samples with what they weigh: `c` with the factor of the class, `copies` without it, `m` the sum of
    these; their groups `g`; `units` of the features, their largest entries, in which points are written; the
    `radii` and the matrices `factors` of the samples, of the sets about them."""

    X: np.ndarray
    y: np.ndarray
    c: np.ndarray
    copies: np.ndarray
    m: float
    g: np.ndarray
    units: np.ndarray
    radii: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> Bound:
        copies = np.asarray(options.get("sample_weight", np.ones(y.size)))
        kept = copies > 0.0
        X, y, copies = X[kept], y[kept], copies[kept]
        given, m = options.get("class_weight", (1.0, 1.0)), float(copies.sum())
        if given == "balanced":
            given = [m / (2.0 * copies[y == o].sum()) for o in (1, -1)]
        elif isinstance(given, dict):
            given = [given.get(o, 1.0) for o in (1, -1)]
        groups = np.asarray(options.get("subgroup", np.full(kept.size, None)))[kept]
        own = options.get("per_sample", {})
        radii, factors = (
            np.asarray(own.get(name, np.ones(kept.size)))[kept] for name in ("radius", "factor")
        )
        if factors.ndim == 2:
            factors = factors[:, :, None] * np.eye(X.shape[1])
        return cls(X, y, copies * np.where(y > 0, *given), copies, m, groups, units(X), radii, factors)

    def in_units(self, U: Any, dim: int) -> np.ndarray:
        """The units of the space of a set: those of the features, unless a matrix mixes these."""
        sums = (node.parts for node in U.walk() if type(node).__name__ == "LinearCombination")
        mixed = dim != self.units.size or any(isinstance(L, np.ndarray) for parts in sums for L, _ in parts)
        return np.full(dim, self.units.max()) if mixed else self.units

    def rows(self, samples: Any) -> tuple[np.ndarray, np.ndarray]:
        """The samples of `pos`, `neg` or `signed`, or of a group of them, and what they weigh."""
        own, kind = self.which(samples), samples.kind
        return (self.y[own, None] if kind == "signed" else 1.0) * self.X[own], self.c[own]

    def which(self, samples: Any) -> np.ndarray:
        """Which they are."""
        mine = (self.y > 0) | (samples.kind != "pos")
        mine &= (self.y < 0) | (samples.kind != "neg")
        return mine if samples.label is None else mine & (self.g == samples.label)


# --- statistics -----------------------------------------------------------------------------------
def statistic(v: Any, data: Bound, dim: int) -> np.ndarray:
    """A vector or a matrix of feature space."""
    kind = type(v).__name__
    if kind == "Origin":
        return np.zeros(dim)
    if kind == "Mean":
        R, c = data.rows(v.samples)
        return c @ R / c.sum()
    if kind == "PooledMean":  # without the factors of the classes
        both = data.which(v.first) | data.which(v.second)
        return data.copies[both] @ data.X[both] / data.copies[both].sum()
    if kind == "Covariance":
        R, c = data.rows(v.samples)
        R = R - c @ R / c.sum()
        return (c * R.T) @ R / c.sum()
    if kind in ("VectorSum", "MatrixSum"):
        return sum(value(c) * statistic(term, data, dim) for c, term in v.terms)  # type: ignore[return-value]
    return np.asarray(v.entries, float)


# --- domains --------------------------------------------------------------------------------------
def conjugate(loss: Any, s: Any, c: Any = 1.0) -> tuple[Any, list[Any]]:
    """The sum of `c_i l*(s_i)`, and what s must satisfy."""
    kind = type(loss).__name__
    if kind == "ScaledLoss":  # (a l)*(s) = a l*(s / a)
        a = value(loss.factor)
        inner, inside = conjugate(loss.term, s / a, c)
        return a * inner, inside

    def total(each: Any) -> Any:
        return cp.sum(cp.multiply(c, each))

    if kind == "Exponential":
        return total(-cp.entr(s) - s), [s >= 0]
    if kind == "Logistic":
        return total(-cp.entr(s) - cp.entr(1 - s)), []
    if loss.p == 1.0:
        return cp.Constant(0.0), [s >= 0, s <= 1]
    dual = loss.p / (loss.p - 1.0)
    return (loss.p - 1.0) * total(cp.power(s / loss.p, dual, approx=False)), [s >= 0]


def confined(
    domain: Any, q: Any, c: np.ndarray | None = None, t: Any = 1.0, number: float | None = None
) -> list[Any]:
    """That q lies in t times a domain; c_i is how often entry i counts, and `number` how many there are, the
    weights of classes left out. Of entropies t is 1."""
    kind = type(domain).__name__
    c = np.ones(q.size) if c is None else c
    N = c.sum()
    each = cp.multiply(1.0 / c, q)
    if kind == "DomainIntersection":
        return [x for D in (domain.left, domain.right) for x in confined(D, q, c, t, number)]
    if kind == "Simplex":
        return [q >= 0, cp.sum(q) == t]
    if kind == "CappedSimplex":
        return [q >= 0, cp.sum(q) == t, *capped(domain, q, c, t)]
    if kind == "NormBall":
        p, middle = domain.p, 0.0 if domain.around is None else 1.0 / N
        shares = 1.0 if math.isinf(p) else c ** (1.0 / p)
        return [norm(cp.multiply(shares, each - middle * t), p) <= value(domain.radius) * t]
    if kind == "ChiSquareBall":
        at = domain.level
        rho = value(domain.rho) if at is None else NormalDist().inv_cdf(value(at)) ** 2 / (number or N)
        return [cp.norm(cp.multiply(np.sqrt(c), N * each - 1), 2) <= math.sqrt(rho * N)]
    if kind == "Box":
        return [each >= value(domain.lower), each <= value(domain.upper)]
    if kind == "KLBall" and value(domain.alpha) == 1.0:  # the uniform distribution alone
        return [N * each == 1]
    if kind == "KLBall":
        return [cp.sum(cp.multiply(c, -cp.entr(N * each))) / N <= -math.log(value(domain.alpha))]
    total, inside = conjugate(domain.loss, N * each, c)
    return [total / N <= value(domain.radius), *inside]


def simplex(domain: Any, q: Any, t: Any) -> list[Any]:
    """That q lies in t times the simplex, where a domain is a set of distributions."""
    if type(domain).__name__ == "DomainIntersection":
        return simplex(domain.left, q, t) + simplex(domain.right, q, t)
    divergence = type(domain).__name__ in ("ChiSquareBall", "KLBall", "LossBall")
    return [q >= 0, cp.sum(q) == t] if divergence else []


def cap(domain: Any, N: float, m: float | None = None) -> float:
    if domain.nu is not None:
        return 2.0 / (value(domain.nu) * (N if m is None else m))
    return value(domain.cap) / (N if domain.relative else 1)


def capped(domain: Any, q: Any, c: np.ndarray, t: Any = 1.0, m: float | None = None) -> list[Any]:
    return [q <= c * cap(domain, c.sum(), m) * t]


def weighed(
    domain: Any,
    q: Any,
    y: np.ndarray | None,
    c: np.ndarray | None = None,
    t: Any = 1.0,
    number: float | None = None,
    m: float | None = None,
) -> list[Any]:
    """That q is a distribution in a domain; over both classes half of it on each, and caps as given."""
    c = np.ones(q.size) if c is None else c
    halves = [(q >= 0), cp.sum(q) == t]
    if y is not None:
        halves = [q >= 0, cp.sum(q[y > 0]) == 0.5 * t, cp.sum(q[y < 0]) == 0.5 * t]
    if domain is None or type(domain).__name__ == "Simplex":
        return halves
    if type(domain).__name__ == "DomainIntersection":
        return [x for D in (domain.left, domain.right) for x in weighed(D, q, y, c, t, number, m)]
    if type(domain).__name__ == "CappedSimplex":
        return [*halves, *capped(domain, q, c, t, m)]
    return halves + confined(domain, q, c, t, number)


# --- sets -----------------------------------------------------------------------------------------
def points(U: Any, data: Bound, dim: int, t: Any = 1.0) -> ReferenceProblem:
    """An expression for the points of t times a set in R^dim, and the constraints on its variables."""
    kind = type(U).__name__
    if kind == "Point":
        return cp.Constant(statistic(U.vector, data, dim)) * t, []
    if kind == "Ball":
        u = cp.Variable(dim)
        return statistic(U.center, data, dim) * t + u, [norm(u, U.p) <= value(U.radius) * t]
    if kind == "Ellipsoid":
        values, vectors = np.linalg.eigh(statistic(U.shape, data, dim))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        u = cp.Variable(dim)
        return statistic(U.center, data, dim) * t + root @ u, [cp.norm(u, 2) <= value(U.radius) * t]
    if kind == "Hull":
        R, c = data.rows(U.samples)
        q = cp.Variable(len(R))
        y = data.y[data.which(U.samples)] if U.samples.kind == "signed" else None
        number = float(data.copies[data.which(U.samples)].sum())
        return R.T @ q, weighed(U.weights, q, y, c, t, number, data.m)
    if kind == "AffineImage":
        A = np.asarray(U.A)
        q = cp.Variable(A.shape[1])
        inside = confined(U.domain, q, None, t) + simplex(U.domain, q, t)
        return statistic(U.center, data, dim) * t + A @ q, inside
    if kind == "ConvexUnion":
        shares = cp.Variable(len(U.sets), nonneg=True)
        parts = [points(V, data, dim, shares[g]) for g, V in enumerate(U.sets)]
        inside = [cp.sum(shares) == t, *(c for _, own in parts for c in own)]
        return sum(x for x, _ in parts), inside
    if kind == "LinearCombination":
        total, found = 0.0, []
        for L, V in U.parts:
            matrix = isinstance(L, np.ndarray)
            x, inside = points(V, data, L.shape[1] if matrix else dim, t)
            total, found = total + (L @ x if matrix else value(L) * x), [*found, *inside]
        return total, found
    (a, in_a), (b, in_b) = points(U.left, data, dim, t), points(U.right, data, dim, t)
    if kind == "Intersection":
        unit = data.in_units(U, dim)
        return a, [*in_a, *in_b, cp.multiply(1.0 / unit, a - b) == 0]
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
def counted(term: Any, data: Bound) -> np.ndarray:
    """What the samples weigh in a loss, those that `on` leaves out nothing."""
    for name in ("term", "loss"):
        term = getattr(term, name, term)
    on = getattr(term, "on", None)
    return data.c if on is None else data.c * data.which(on)


def reach(U: Any, w: Any) -> Any:
    """The largest `<d, w>` of a set about 0, without the factors of the samples; w a vector or in CVXPY."""
    kind = type(U).__name__
    if kind == "PerSampleMultiple":
        return reach(U.set, w)
    if kind == "Ball":
        dual = {1.0: math.inf, math.inf: 1.0}.get(U.p) or U.p / (U.p - 1.0)
        if not isinstance(w, np.ndarray):
            return value(U.radius) * norm(w, dual)
        top = float(np.abs(w).max()) or 1.0  # its powers underflow
        return value(U.radius) * top * np.linalg.norm(w / top, dual)
    if kind == "Ellipsoid":
        sizes, axes = np.linalg.eigh(U.shape.entries)
        root = np.sqrt(np.maximum(sizes, 0.0))[:, None] * axes.T
        moved = root @ w
        return value(U.radius) * (np.linalg.norm(moved) if isinstance(w, np.ndarray) else cp.norm2(moved))
    total = 0.0
    for L, V in U.parts:
        matrix = isinstance(L, np.ndarray)
        total = total + (reach(V, L.T @ w) if matrix else abs(value(L)) * reach(V, w))
    return total


def lowered(term: Any, w: Any, data: Bound) -> Any:
    """By how much the worst point about each sample lowers its margin."""
    kind, joined = type(term.within).__name__, np.array if isinstance(w, np.ndarray) else cp.hstack
    if kind == "PerSampleImage":
        return joined([reach(term.within.set, F.T @ w) for F in data.factors])
    if kind == "FeatureDeletion":
        k, signed = round(value(term.within.k)), data.y[:, None] * data.X
        if isinstance(w, np.ndarray):
            return np.sort(np.maximum(signed * w, 0.0), axis=1)[:, -k:].sum(axis=1)
        return joined([cp.sum_largest(cp.pos(cp.multiply(x, w)), k) for x in signed])
    own = data.radii if kind == "PerSampleMultiple" else np.ones(data.y.size)
    return own * reach(term.within, w)


def loss(term: Any, t: Any, data: Bound, w: Any = None) -> float:
    """The sum of a loss over the margins t; at w, where the samples are perturbed."""
    kind = type(term).__name__
    if kind in ("ScaledLoss", "ScaledDifference"):
        return value(term.factor) * loss(term.term, t, data, w)
    if kind == "LossSum":
        return sum(loss(one, t, data, w) for one in term.terms)
    if kind == "Robust":
        return loss(term.loss, t if w is None else t - lowered(term, w, data), data)
    if kind == "WorstMean":
        q, inside, parts = worst(term, data)
        height = np.array([loss(term.loss, t, replace(data, c=c), w) for c in parts])
        unit = float(np.abs(height).max(initial=0.0)) or 1.0
        if not math.isfinite(unit):
            return math.inf
        problem = cp.Problem(cp.Maximize((height / unit) @ q), inside)
        return unit * float(problem.value) if solve(problem) == "optimal" else math.nan  # type: ignore[arg-type]
    c = counted(term, data)
    t, c = t[c > 0.0], c[c > 0.0]
    with np.errstate(over="ignore"):
        if kind == "Exponential":
            each = np.exp(-t)
        elif kind == "Logistic":
            each = np.logaddexp(0.0, -t)
        elif kind == "LeastSquares":
            each = (1.0 - t) ** 2
        elif kind == "HuberHinge":
            delta, u = value(term.delta), np.maximum(0.0, 1.0 - t)
            each = np.where(u <= delta, u * u / (2.0 * delta), u - delta / 2.0)
        elif kind == "Ramp":
            mu = value(term.mu)
            both = np.maximum(0.0, mu - t) - np.maximum(0.0, -(mu**2) - t)
            each = np.where(t < -(mu**2), mu + mu**2, both) / mu
        else:
            each = np.maximum(0.0, 1.0 - t) ** term.p
        return float(c @ each)


def worst(term: Any, data: Bound) -> tuple[Any, list[Any], list[np.ndarray]]:
    """The weights of a worst mean and their constraints, and the weights of the samples in each mean."""
    if term.groups:
        parts = [data.c * data.which(g) for g in term.groups]
        q = cp.Variable(len(parts))
        return q, weighed(term.weights, q, None), [c / c.sum() for c in parts]
    c = counted(term.loss, data)
    rows = np.flatnonzero(c)
    q = cp.Variable(rows.size)
    inside = weighed(term.weights, q, None, c[rows], m=float(data.c.sum()))
    return q, inside, list(np.eye(c.size)[rows])


def confines(term: Any, data: Bound, n: int) -> tuple[np.ndarray, Any, Any]:
    """The rows of a constraint on w, and their bounds."""
    kind = type(term).__name__
    if kind == "Bounds":
        return np.eye(n), term.lb, term.ub
    rows = [x if isinstance(x, np.ndarray) else statistic(x, data, n) for x in term.A]
    return np.array(rows), term.lb, term.ub


def penalty(term: Any, w: np.ndarray, data: Bound, last: float = 0.0, missed: float = MISSED) -> float:
    """The penalty of w, and of the weight of a penalised intercept, which is a part of its norms; constraints
    hold to `missed`."""
    kind = type(term).__name__
    if kind in ("ScaledPenalty", "ScaledSplit"):
        return value(term.factor) * penalty(term.term, w, data, last, missed)
    if kind == "PenaltySum":
        return sum(penalty(one, w, data, last, missed) for one in term.terms)
    if kind in ("Bounds", "LinearConstraint"):
        A, low, high = confines(term, data, w.size)
        size = np.abs(A) @ np.abs(w)
        least = 1e-13 * np.abs(A).sum(axis=1) * np.abs(w).max()  # the rounding of a projection
        size = np.maximum(missed * (size + TINY), least)
        return 0.0 if np.all(A @ w >= low - size) and np.all(A @ w <= high + size) else math.inf
    if (
        kind
        not in (
            "Quadratic",
            "GroupLasso",
            "GroupMCP",
            "KSupport",
            "Cardinality",
        )
        and getattr(term, "weights", None) is None
    ):
        w = np.append(w, last)
    a = np.abs(w)
    if kind == "L1":
        return float(a.sum() if term.weights is None else term.weights @ a)
    if kind == "Norm":
        top = float(a.max(initial=0.0)) or 1.0
        return top * float(np.linalg.norm(a / top, term.p))
    if kind == "Quadratic":
        sizes, axes = np.linalg.eigh(term.dense)  # no cancellation where w is far along 0
        sizes[sizes < 1e-14 * sizes[-1]] = 0.0
        return float(sizes @ (axes.T @ w) ** 2)
    if kind in ("GroupLasso", "GroupMCP"):
        sizes = np.array([np.linalg.norm(w[term.groups == g]) for g in np.unique(term.groups)])
        if kind == "GroupLasso":
            return float(sizes.sum())
        return penalty(ucm.MCP(term.lam, term.gamma), sizes, data)
    if kind == "L2":
        return float(a @ a)
    if kind == "Cardinality":
        return 0.0 if np.count_nonzero(w) <= value(term.k) else math.inf
    if kind == "KSupport":
        return k_support(w, round(value(term.k))) + last * last
    if kind == "Lp":
        return float((a**term.p).sum())
    if kind == "ExpL0":
        return float(-np.expm1(-value(term.a) * a).sum())
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


def k_support(w: np.ndarray, k: int) -> float:
    """The square of the k-support norm by its primal formula (Argyriou, Foygel and Srebro, 2012)."""
    a = np.sort(np.abs(w))[::-1]
    head, tail = np.append(0.0, np.cumsum(a * a)), np.append(np.cumsum(a[::-1])[::-1], 0.0)
    above = np.append(math.inf, a)
    for r in range(k):
        mean = tail[k - r - 1] / (r + 1)
        if above[k - r - 1] > mean * (1.0 - 1e-12) and mean >= a[k - r - 1] * (1.0 - 1e-12):
            return float(head[k - r - 1] + mean * mean * (r + 1))
    raise AssertionError(f"no r for {w} and k = {k}")


def flipped_mean(model: Any, t: np.ndarray, length: float, data: Bound) -> float:
    """The worst mean over distributions with flipped labels, by all kinks of the dual in lam."""
    ones = replace(data, c=np.ones(1))
    kept, flipped = (np.array([loss(model.loss, x, ones) for x in (s * t)[:, None]]) for s in (1.0, -1.0))
    eps, kappa, c = value(model.eps), value(model.kappa), data.c / data.c.sum()
    if kappa == math.inf:
        return eps * length + float(c @ kept)
    kinks = (flipped - kept) / kappa if kappa > 0.0 else np.zeros(0)
    lams = np.append(length, kinks[kinks > length])
    return min(eps * lam + float(c @ np.maximum(kept, flipped - kappa * lam)) for lam in lams)


def objective(model: Any, data: Bound, w: np.ndarray, b: float, missed: float = MISSED) -> float:
    if isinstance(model, ucm.WassersteinObjective):
        length = reach(ucm.Ball(0, 1.0, model.norm), w)
        return flipped_mean(model, data.y * (data.X @ w + b), length, data)
    last = b / model.scaling if model.intercept == "penalised" else 0.0
    losses = loss(model.loss, data.y * (data.X @ w + b), data, w)
    return losses + penalty(model.penalty, w, data, last, missed)


def intercept(model: Any, data: Bound, w: np.ndarray) -> tuple[float, float]:
    """The best b found for w on the kinks of the losses and between them, and the value there; beside worst
    means, whose values are programs, the best of a few."""
    if model.intercept is None:
        return 0.0, objective(model, data, w, 0.0)
    if any(isinstance(node, ucm.WorstMean) for node in model.walk()):
        few = (objective(model, data, w, b) for b in FEW)
        return min(zip(FEW, few, strict=True), key=lambda pair: pair[1])
    reach, scores = [0.0, 1.0, 0.5, 0.25, 0.01, -1e-4], data.X @ w
    kinks = {float(c) for k in reach for c in (data.y * k - scores)}
    tries = sorted(kinks | {b + d for b in kinks for d in (-1e-3, 1e-3)} | {-3.0, 3.0, -30.0, 30.0})
    best = min(tries, key=lambda b: objective(model, data, w, b))
    if not math.isfinite(objective(model, data, w, best)):
        return best, math.inf
    with np.errstate(all="ignore"):
        near: Any = minimize_scalar(lambda b: objective(model, data, w, b), bracket=(best - 0.1, best + 0.1))
    candidates = [(objective(model, data, w, b), b) for b in (best, float(near.x))]
    least = min(c for c in candidates if math.isfinite(c[0]))
    return least[1], least[0]


def convex(term: Any) -> bool:
    """Whether it is convex, or is so with the nonzero weights at given places, which the twin enumerates."""
    folded = (ucm.Ramp, ucm.extend.FoldedConcave, ucm.GroupMCP)
    return not any(isinstance(node, folded) for node in term.walk())


def loss_expression(term: Any, t: Any, data: Bound, w: Any = None) -> Any:
    kind = type(term).__name__
    if kind == "ScaledLoss":
        return value(term.factor) * loss_expression(term.term, t, data, w)
    if kind == "LossSum":
        return sum(loss_expression(one, t, data, w) for one in term.terms)
    if kind == "Robust":
        lower = cp.Variable(t.shape[0])
        inside = cp.transforms.indicator([lower <= t - lowered(term, w, data)])
        return loss_expression(term.loss, lower, data) + inside
    if kind == "WorstMean":
        q, inside, parts = worst(term, data)
        heights = cp.Variable(len(parts))
        own = [
            heights[k] >= loss_expression(term.loss, t, replace(data, c=c), w) for k, c in enumerate(parts)
        ]
        return suppfunc(q, inside)(heights) + cp.transforms.indicator(own)
    c = counted(term, data)
    t, c = t[np.flatnonzero(c > 0.0)], c[c > 0.0]
    if kind == "Exponential":
        return c @ cp.exp(-t)
    if kind == "Logistic":
        return c @ cp.logistic(-t)
    if kind == "LeastSquares":
        return c @ cp.square(1 - t)
    short = cp.pos(1 - t)
    if kind == "HuberHinge":  # cp.huber(u, M) is u^2 up to M, then 2 M u - M^2
        delta = value(term.delta)
        return c @ cp.huber(short, delta) / (2.0 * delta)
    return c @ (short if term.p == 1.0 else cp.power(short, term.p, approx=False))


def penalty_expression(term: Any, w: Any, data: Bound, last: Any = None) -> Any:
    kind = type(term).__name__
    if kind == "ScaledPenalty":
        return value(term.factor) * penalty_expression(term.term, w, data, last)
    if kind == "PenaltySum":
        return sum(penalty_expression(one, w, data, last) for one in term.terms)
    if kind in ("Bounds", "LinearConstraint"):
        A, low, high = confines(term, data, w.size)
        unit = np.abs(A * data.units).max(axis=1, initial=0.0)
        unit = np.where(unit > 0.0, unit, 1.0)
        ends = [(sign, np.broadcast_to(x, unit.shape)) for sign, x in ((1.0, low), (-1.0, high))]
        inside = [
            sign * ((A[k] / unit[k]) @ w - x[k] / unit[k]) >= 0
            for sign, x in ends for k in np.flatnonzero(np.isfinite(x))
        ]  # fmt: skip
        return cp.transforms.indicator(inside) if inside else 0.0
    if (
        last is not None
        and kind not in ("Quadratic", "GroupLasso", "KSupport")
        and getattr(term, "weights", None) is None
    ):
        w = cp.hstack([w, last])
    if kind == "L1":
        return cp.norm1(w if term.weights is None else cp.multiply(term.weights, w))
    if kind == "KSupport":
        shares = cp.Variable(w.shape[0])
        each = sum(cp.quad_over_lin(w[j], shares[j]) for j in range(w.shape[0]))
        inside = cp.transforms.indicator([shares <= 1, cp.sum(shares) <= value(term.k)])
        return each + inside + (0.0 if last is None else cp.square(last))
    if kind == "Norm":
        return norm(w, term.p)
    if kind == "Quadratic":
        return cp.quad_form(w, cp.psd_wrap(term.dense))
    if kind == "GroupLasso":
        return sum(cp.norm2(w[np.flatnonzero(term.groups == g)]) for g in np.unique(term.groups))
    if kind == "L2":
        return cp.sum_squares(w)
    if kind == "Cardinality":  # see `minimum`
        return 0.0
    assert kind == "Lp", kind
    return cp.sum(cp.power(cp.abs(w), term.p, approx=False))


def minimum(model: Any, data: Bound) -> tuple[str, float]:
    """What Clarabel says of a convex objective, and the value there by its definition."""
    n = data.X.shape[1]
    k = [round(value(node.k)) for node in model.walk() if isinstance(node, ucm.Cardinality)]
    if not k:
        return _least(model, data, [])
    found = [_least(model, data, list(out)) for out in itertools.combinations(range(n), n - k[0])]
    said = "optimal" if all(said == "optimal" for said, _ in found) else "failed"
    return said, min(best for _, best in found)


def _least(model: Any, data: Bound, zero: list[int]) -> tuple[str, float]:
    """The minimum where some weights are 0."""
    n, scale = data.X.shape[1], data.units
    v, b = cp.Variable(n), cp.Variable() if model.intercept else cp.Constant(0.0)
    last, inside = b / model.scaling if model.intercept == "penalised" else None, [v[zero] == 0] * bool(zero)
    t, w = cp.multiply(data.y, (data.X / scale) @ v + b), cp.multiply(1.0 / scale, v)
    try:
        if isinstance(model, ucm.WassersteinObjective):
            lam, parts = cp.Variable(), cp.Variable(data.y.size)
            ones, kappa = replace(data, c=np.ones(1)), value(model.kappa)
            total = value(model.eps) * lam + data.c / data.c.sum() @ parts
            inside += [lam >= reach(ucm.Ball(0, 1.0, model.norm), w)]
            for sign, cost in ((1.0, 0.0), *([(-1.0, kappa)] if kappa < math.inf else [])):
                each = cp.hstack([loss_expression(model.loss, sign * x, ones) for x in _singles(t)])
                inside.append(parts >= each - cost * lam)
        else:
            total = loss_expression(model.loss, t, data, w) + penalty_expression(model.penalty, w, data, last)
    except NotImplementedError:  # CVXPY has no support functions of sets with power cones
        return "failed", math.inf
    said = solve(cp.Problem(cp.Minimize(total), inside))
    if said != "optimal" or v.value is None:
        return "failed", math.inf
    w, at = v.value / scale, float(b.value)
    w[zero] = 0.0
    for node in model.walk():
        if isinstance(node, ucm.Bounds):
            w = np.clip(w, node.lb, node.ub)
    return said, objective(model, data, w, at, BARELY)


def _singles(t: Any) -> list[Any]:
    return [t[i : i + 1] for i in range(t.shape[0])]
