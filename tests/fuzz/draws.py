"""What is drawn: samples, domains, set expressions, objectives."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

import ucm
from ucm import neg, pos, signed

INF = float("inf")
EXPONENTS = (2.0, 1.0, INF, 1.5, 3.0, 1.001, 1.01, 30.0, 100.0)
FEW = 40
T = TypeVar("T")


class Source:
    """Where choices come from; seeded here, Hypothesis in the tests.

    Attributes
    ----------
    grouped : whether the samples that are drawn have groups "A" and "B"
    """

    grouped = False

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def often(self, of: int) -> bool:
        """False once in `of` times."""
        return self.integer(0, of - 1) > 0


class Drawn(Source):
    """Choices drawn by Hypothesis, so that it can shrink them."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def integer(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))


@dataclass(frozen=True)
class Case:
    """A random model with the samples it is bound to."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)

    def solve(self) -> Any:
        return ucm.solve(self.model, self.X, self.y, **self.options)

    def __repr__(self) -> str:
        given = "".join(
            f"\n{k} = {v.tolist() if isinstance(v, np.ndarray) else v!r}" for k, v in self.options.items()
        )
        return f"{self.model!r}\nX = {self.X.tolist()}\ny = {self.y.astype(int).tolist()}{given}"


# --- samples --------------------------------------------------------------------------------------
def matrix(s: Source, rows: int, columns: int, reach: int = 16) -> np.ndarray:
    """Eighths, each drawn where they are few."""
    if rows * columns <= FEW:
        entries = [s.integer(-reach, reach) for _ in range(rows * columns)]
    else:
        rng = np.random.default_rng(s.integer(0, 10**6))
        entries = rng.integers(-reach, reach + 1, rows * columns)
    return np.reshape(entries, (rows, columns)) / 8


def vector(s: Source, n: int, reach: int = 16) -> np.ndarray:
    return matrix(s, 1, n, reach)[0]


def samples(s: Source) -> tuple[np.ndarray, np.ndarray]:
    """A few samples; once in 12 times up to 60 with up to 40 features; some of them
    repeated, on a line, with a feature that is constant, or one of a class."""
    many = not s.often(12)
    m, n = (s.integer(10, 60), s.integer(1, 40)) if many else (s.integer(4, 10), s.integer(1, 4))
    positives = s.integer(1, m - 1)
    y = np.where(np.arange(m) < positives, 1.0, -1.0)
    apart = s.integer(0, 16) / 8
    X = matrix(s, m, n) + apart * y[:, None]
    kind = s.integer(0, 11)
    if kind == 0:
        X[s.integer(0, m - 1)] = X[s.integer(0, m - 1)]
    elif kind == 1:
        X[:, s.integer(0, n - 1)] = 1.5
    elif kind == 2:
        X = np.outer(X[:, 0], vector(s, n))
    elif kind == 3:
        X[: positives // 2] = X[0]
    return X, y


def columns(s: Source, n: int) -> np.ndarray:
    """Factors of the features: two times in three 1, else from 1e-3 to 1e6."""
    if s.integer(0, 2):
        return np.ones(n)
    return np.array([s.pick([1e-3, 0.1, 1.0, 1.0, 30.0, 1e3, 1e6]) for _ in range(n)])


def tolerance(s: Source) -> dict[str, Any]:
    """The default every other time, else from 1e-8 to 0.5."""
    if s.integer(0, 1):
        return {}
    return {"tol": s.pick([1e-8, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.2, 0.5])}


def weighing(s: Source, y: np.ndarray) -> dict[str, Any]:
    """One time in five weights of samples, of classes, or both."""
    options: dict[str, Any] = {}
    if s.often(5):
        return options
    kind = s.integer(0, 3)
    if kind != 1:
        c = np.array([s.pick([1.0, 1.0, 2.0, 3.0, 0.0, 0.5, 0.125, 7.0]) for _ in y])
        for o in (1, -1):
            if not c[y == o].any():
                c[y == o] = 1.0
        options["sample_weight"] = c
    if kind in (1, 2):
        options["class_weight"] = s.pick(["balanced", {1: 2.0}, {-1: 0.25}, (3.0, 0.5)])
    return options


def tuned(s: Source, x: float) -> Any:
    """x, or one time in eight arithmetic of a parameter with that value."""
    if s.often(8) or not 0.0 < x < 100.0:
        return x

    def named(v: float) -> Any:
        return ucm.Param("p" + float(v).hex().translate(str.maketrans("-+.", "mpd")), v)

    kind = s.integer(0, 6)
    return [
        named(x), 2 * named(x / 2), named(2 * x) / 2, 1 - named(1 - x), named(math.sqrt(x)) ** 2,
        named(x * x) ** 0.5, named(x / 2) + named(x / 2),
    ][kind]  # fmt: skip


# --- domains --------------------------------------------------------------------------------------
def loss_of_ball(s: Source) -> Any:
    return s.pick([
        ucm.Exponential(), ucm.SquaredHinge(), ucm.Hinge(1.5), ucm.Hinge() / 0.4, ucm.Logistic() / 0.3,
        ucm.Hinge(3.0), 2 * ucm.Exponential(), ucm.Hinge(1.1),
    ])  # fmt: skip


def weights(s: Source, deep: bool = True) -> Any:
    """A domain for the weights of a hull, most often not empty on the simplex."""
    kind = s.integer(0, 8 if deep else 7)
    t = s.integer(1, 8) / 8 if s.integer(0, 2) == 0 else s.integer(4, 8) / 8
    size = tuned(s, t)
    if kind == 7:
        return ucm.CappedSimplex(1 / size, relative=True)
    if kind == 6:
        if s.integer(0, 1):
            return ucm.ChiSquareBall(rho=size) if s.integer(0, 1) else ucm.ChiSquareBall(level=0.5 + t / 2.1)
        return ucm.NormBall(size, s.pick([1.0, 1.0, 1.5, 2.0, 3.0, math.inf]), "uniform")
    if kind == 0:
        return ucm.Simplex()
    if kind == 1:
        return ucm.CappedSimplex(s.pick([size, size, 1.5, 8.0]), relative=not s.often(4))
    if kind == 2:
        p = s.pick(EXPONENTS)
        return ucm.NormBall(size if 1.1 < p < 10.0 or s.often(2) else s.pick([1.0, 0.9985, 0.25]), p)
    if kind == 3:
        return ucm.KLBall(size)
    if kind == 4:
        return ucm.LossBall(loss_of_ball(s), s.integer(-4, 16) / 8)
    if kind == 5:
        return ucm.Box(s.integer(-1, 1) / 16, t)
    return weights(s, False) & weights(s, False)


def domain(s: Source, deep: bool = True) -> Any:
    """A domain by itself, for `AffineImage`."""
    radius = s.integer(0, 12) / 8
    kind = s.integer(0, 6 if deep else 5)
    if kind == 0:
        return ucm.Simplex()
    if kind == 1:
        return ucm.NormBall(radius, s.pick(EXPONENTS), s.pick([None, None, "uniform"]))
    if kind == 2:
        return ucm.Box(-radius, s.pick([0.5, 0.0, 2.0]))
    if kind == 3:
        return ucm.KLBall(s.integer(1, 8) / 8)
    if kind == 4:
        return ucm.LossBall(loss_of_ball(s), radius)
    if kind == 5:
        return ucm.CappedSimplex(s.pick([0.5, 1.0, 0.75]))
    return domain(s, False) & domain(s, False)


# --- sets -----------------------------------------------------------------------------------------
def center(s: Source, dim: int, n: int) -> Any:
    if dim != n or s.integer(0, 2) == 0:
        return vector(s, dim)
    return s.pick([pos.mean, neg.mean, signed.mean, pos.mean - neg.mean, 2 * pos.mean, 0])


def shape(s: Source, dim: int, n: int) -> Any:
    if dim != n or s.integer(0, 2) == 0:
        root = matrix(s, dim, s.integer(1, min(dim, 4)))
        return root @ root.T
    return s.pick([pos.cov, neg.cov, signed.cov, pos.cov + neg.cov, 0.5 * pos.cov])


def grouped(s: Source, samples: Any) -> Any:
    """Samples, or those of a group of them."""
    return samples.group(s.pick(["A", "B"])) if s.grouped and s.integer(0, 1) else samples


def part(s: Source, dim: int, n: int) -> Any:
    """An operand of a union: a set that is written with its bounds times its share."""
    kind = s.integer(0, 5 if dim == n else 2)
    radius = s.integer(0, 12) / 8
    if kind == 0:
        return ucm.Point(center(s, dim, n))
    if kind == 1:
        return ucm.Ball(center(s, dim, n), radius, s.pick((2.0, 2.0, 1.0, INF, 1.5, 3.0)))
    if kind == 2:
        return ucm.Ellipsoid(center(s, dim, n), shape(s, dim, n), radius)
    own = grouped(s, s.pick([pos, neg, signed] if kind == 3 else [pos, neg]))
    t = s.integer(2, 8) / 8
    if kind == 3:
        domains = [None, ucm.CappedSimplex(1 / t, relative=True), ucm.NormBall(1.0 + t, 1.5)]
        return ucm.Hull(own, weights=s.pick(domains))
    if kind == 4:
        return ucm.ReducedHull(own, eta=s.pick([1.0, t, t]))
    return s.pick([1.0, -1.0, 0.5]) * ucm.CVaR(own, t) + ucm.Ball(np.zeros(dim), radius / 4)


def union(s: Source, dim: int, n: int) -> Any:
    """Two to four of them, now and then one in another or in an intersection."""
    found = [part(s, dim, n) for _ in range(s.integer(2, 4))]
    if not s.often(5):
        found[0] = 0.5 * (found[0] | vector(s, dim)) + found[1]
    if not s.often(5):
        found[-1] = found[-1] & (found[-1] + ucm.Ball(np.zeros(dim), 0.5))
    return ucm.ConvexUnion(*found)


def ambiguity(s: Source) -> Any:
    """A set of a name of its own."""
    own, t, eps = grouped(s, s.pick([pos, neg])), s.integer(1, 8) / 8, tuned(s, s.integer(0, 4) / 8)
    kind = s.integer(0, 5)
    if kind == 0:
        return ucm.CVaR(s.pick([own, own, signed]), tuned(s, t))
    if kind == 1:
        return ucm.ChiSquare(own, level=0.5 + t / 2.1) if s.integer(0, 1) else ucm.ChiSquare(own, t)
    if kind == 2:
        return ucm.TotalVariation(s.pick([own, own, signed]), tuned(s, t))
    if kind == 3:
        return ucm.SpectralRisk(own, (t, 1.0), (0.25, 0.75))
    if kind == 4:
        return ucm.Wasserstein(own, eps, s.pick([1.0, math.inf]), t, s.pick(EXPONENTS))
    return ucm.Gelbrich(own, eps, t)


def leaf(s: Source, dim: int, n: int) -> Any:
    if dim == n and not s.often(6):
        return ambiguity(s)
    kind = s.integer(0, 6 if dim == n else 3)
    radius = tuned(s, s.integer(0, 12) / 8)
    if kind == 0:
        return ucm.Point(center(s, dim, n))
    if kind == 1:
        return ucm.Ball(center(s, dim, n), radius, s.pick(EXPONENTS))
    if kind == 2:
        return ucm.Ellipsoid(center(s, dim, n), shape(s, dim, n), radius)
    if kind == 3:
        return ucm.AffineImage(matrix(s, dim, s.integer(1, 4)), domain(s), center(s, dim, n))
    if kind == 4:
        own = grouped(s, s.pick([pos, neg]))
        if s.integer(0, 1):
            return ucm.ReducedHull(own, nu=tuned(s, s.integer(1, 8) / 8))
        return ucm.ReducedHull(own, eta=tuned(s, s.integer(1, 8) / 8))
    own = grouped(s, s.pick([pos, neg, signed]))
    return ucm.Hull(own) if s.integer(0, 3) == 0 else ucm.Hull(own, weights=weights(s))


def expression(s: Source, dim: int, n: int, depth: int) -> Any:
    """A set in R^dim over samples in R^n."""
    kind = s.integer(0, 10) if depth > 1 else 0
    if kind == 10:
        return union(s, dim, n)
    if kind <= 1:
        return leaf(s, dim, n)
    if kind == 2:
        return s.pick([-1.0, 0.5, 2.0, -3.0, 0.0]) * expression(s, dim, n, depth - 1)
    if kind == 3:
        inner = n if s.integer(0, 2) else s.integer(1, 4)
        return matrix(s, dim, inner) @ expression(s, inner, n, depth - 1)
    left = expression(s, dim, n, depth - 1)
    if kind >= 8 and s.integer(0, 2):  # operands that meet, most often
        near = ucm.Ball(vector(s, dim, 4), s.integer(2, 12) / 8, s.pick(EXPONENTS))
        return left & (left + near) if s.integer(0, 1) else (left + near) & left
    right = expression(s, dim, n, depth - 1)
    if kind <= 5:
        return left + right
    if kind <= 7:
        return left - right
    return left & right


def case(s: Source) -> Case:
    """A set, and one time in three a norm of w other than 2; one time in four the samples have groups, one in
    three the features scales of their own; and a tolerance."""
    X, y = samples(s)
    n = X.shape[1]
    X = X * columns(s, n)
    s.grouped = _divisible(s, y)
    dim = n if s.integer(0, 4) else s.integer(1, 4)
    U = expression(s, dim, n, 4)
    p = 2.0 if s.often(3) else s.pick(EXPONENTS)
    options = _groups(s, y) or weighing(s, y)
    return Case(ucm.RobustMargin(U, p), X, y, {**options, **tolerance(s)})


def _divisible(s: Source, y: Any) -> bool:
    return min((y > 0).sum(), (y < 0).sum()) >= 2 and not s.often(4)


def _groups(s: Source, y: Any) -> dict[str, Any]:
    """Those of the samples of each class in turn, where they have some."""
    turn = np.where(y > 0, np.cumsum(y > 0), np.cumsum(y < 0)) % 2
    return {"subgroup": np.array(["A", "B"])[turn]} if s.grouped else {}


# --- objectives -----------------------------------------------------------------------------------
def loss(s: Source, convex: bool, deep: bool = True) -> Any:
    factor = tuned(s, s.pick([1.0, 1.0, 0.5, 3.0, 0.01, 100.0]))
    if deep and not s.often(6):
        return factor * loss(s, convex, False) + loss(s, True, False)
    on: dict[str, Any] = {}
    if not s.often(8):
        on["on"] = s.pick([pos, neg])
    elif s.grouped and s.integer(0, 1):
        on["on"] = s.pick([pos, neg, signed]).group(s.pick(["A", "B"]))
    smooth = [
        ucm.Exponential(**on), ucm.Logistic(**on), ucm.SquaredHinge(**on),
        ucm.HuberHinge(tuned(s, s.pick([0.5, 2.0, 0.01])), **on), ucm.LeastSquares(**on),
    ]  # fmt: skip
    every = [*smooth, *(ucm.Hinge(p, **on) for p in (1.0, 1.0, 1.5, 3.0, 1.01))]
    ramps = [ucm.Ramp(**on), ucm.Ramp(0.5, **on), ucm.Ramp(0.01)]
    return factor * s.pick(every if convex else [*every, *ramps, *ramps])


def penalty(s: Source, convex: bool, n: int | None = None, deep: bool = True) -> Any:
    """With n, one for n features now and then."""
    factor = tuned(s, s.pick([1.0, 0.5, 0.1, 3.0, 0.001, 100.0]))
    if deep and not s.often(5):
        return factor * penalty(s, convex, n, False) + penalty(s, True, n, False)
    if n is not None and not s.often(4):
        return factor * featured(s, convex, n)
    every = [
        ucm.L1(), ucm.L2(), ucm.LInf(), ucm.Lp(1.5), ucm.Lp(3), ucm.ElasticNet(0.4), ucm.Lp(1.01),
        *(ucm.Norm(p) for p in (1.0, 2.0, 1.5, 3.0, INF)), ucm.NonNegative() + ucm.L2(),
        ucm.NonNegative() + ucm.L1(),
    ]  # fmt: skip
    folded = [
        ucm.ExpL0(4),
        ucm.ExpL0(0.5),
        ucm.CappedL1(0.5),
        ucm.MCP(),
        ucm.MCP(0.5, 1.5),
        ucm.SCAD(),
    ]
    return factor * s.pick(every if convex else [*every, *folded])


def featured(s: Source, convex: bool, n: int) -> Any:
    """A penalty for n features."""
    groups = [s.integer(0, max(1, n // 2)) for _ in range(n)]
    kind = s.integer(0, 2 if convex else 3)
    if kind == 0:
        walls = [s.integer(0, 8) / 4 for _ in range(n)]
        return ucm.L1(weights=[*walls[:-1], 1.0])
    if kind == 1:
        return ucm.GroupLasso(groups)
    if kind == 2:
        root = matrix(s, n, s.integer(1, n))
        return ucm.Quadratic(root @ root.T)
    return ucm.GroupMCP(groups, s.pick([1.0, 0.5]), s.pick([3.0, 1.5]))


def objective(s: Source, groups: bool = True) -> Case:
    """A loss and a penalty, convex every other time; the features at scales from 1e-6 to 1e6, one in three
    each at its own; one time in four the samples have groups; and a tolerance."""
    X, y = samples(s)
    s.grouped = groups and _divisible(s, y)
    convex = s.often(2)
    size = 1.0 if s.often(4) else s.pick([1e-6, 1e-3, 30.0, 1e3, 1e6])
    X = size * X * columns(s, X.shape[1])
    model = loss(s, convex) + penalty(s, convex, X.shape[1])
    return Case(model, X, y, {**_groups(s, y), **weighing(s, y), **tolerance(s)})


# --- worst means, constraints and intercepts --------------------------------------------------------
def worst_mean(s: Source) -> Any:
    """The worst mean of a convex loss, over samples or, where these have groups, over groups of them."""
    D = s.pick([None, weights(s), weights(s), weights(s)])
    if not s.grouped or s.integer(0, 1):
        return ucm.WorstMean(loss(s, True, False), D)
    every = [signed.group("A"), signed.group("B"), pos.group("A"), neg.group("A"), pos, neg]
    groups = [s.pick(every) for _ in range(s.integer(1, 4))]
    return ucm.WorstMean(s.pick([ucm.Hinge(), ucm.Logistic(), 2.0 * ucm.SquaredHinge()]), D, groups)


def limits(s: Source, count: int) -> tuple[Any, Any]:
    """Bounds of `count` constraints: equations, intervals or half-lines, most often with 0 inside."""
    size = s.pick([1.0, 1.0, 0.125, 1e-3, 1e3])
    low, high = [], []
    for _ in range(1 if s.integer(0, 1) else count):
        ends = -size * s.integer(0, 8) / 8, size * s.integer(0, 8) / 8
        at = size * s.pick([0, 0, s.integer(-8, 8) / 8])
        one = s.pick([ends, (-INF, ends[1]), (ends[0], INF), (at, at), (-INF, INF), (at, at + size)])
        low.append(one[0])
        high.append(one[1])
    return (low[0], high[0]) if len(low) == 1 else (low, high)


def fairness(s: Source) -> Any:
    """A difference of means, of classes or of groups."""
    every = [pos.mean - neg.mean, signed.mean]
    if s.grouped:
        pooled = [ucm.PooledMean(pos.group(g), neg.group(g)) for g in "AB"]
        every += [pos.group("A").mean - pos.group("B").mean, pooled[0] - pooled[1], pooled[0] - pooled[1]]
    return s.pick(every)


def constraint(s: Source, n: int) -> Any:
    kind = s.integer(0, 5)
    if kind == 0:
        return ucm.NonNegative([j == n - 1 or s.integer(0, 1) for j in range(n)])
    if kind == 1:
        return ucm.Bounds(*limits(s, n))
    if kind == 2:
        rows = [fairness(s) for _ in range(s.integer(1, 2))]
        return ucm.LinearConstraint(rows, *limits(s, len(rows)))
    rows = s.integer(1, min(n + 1, 4))
    A = matrix(s, rows, n)
    if not s.often(6):
        A[-1] = 2.0 * A[0]
    return ucm.LinearConstraint(A, *limits(s, rows))


def constrained(s: Source) -> Case:
    """An objective with worst means, constraints, or an intercept that is not free, and samples as in
    `objective`."""
    X, y = samples(s)
    n = X.shape[1]
    s.grouped = _divisible(s, y)
    size = 1.0 if s.often(4) else s.pick([1e-6, 1e-3, 30.0, 1e3, 1e6])
    X = size * X * columns(s, n)
    joint, bound = s.pick([(True, False), (False, True), (True, True), (False, False)])
    convex = joint or s.often(3)
    total = loss(s, convex) if not joint else worst_mean(s)
    if joint and not s.often(4):
        total = total + s.pick([worst_mean, lambda s: loss(s, True, False)])(s)
    R = penalty(s, convex, n)
    for _ in range(s.integer(1, 2) if bound else 0):
        R = R + constraint(s, n) if s.often(6) else constraint(s, n)
    model = total + R
    kind = s.integer(0 if joint or bound else 2, 4)
    if kind >= 2:
        free = None if kind < 4 and s.integer(0, 1) else "penalised"
        model = model.with_intercept(free, s.pick([1.0, 1.0, 10.0, 0.125]) if free else 1.0)
    return Case(model, X, y, {**_groups(s, y), **weighing(s, y), **tolerance(s)})


# --- robust samples, numbers of features, label flips -----------------------------------------------
def perturbations(s: Source, n: int, reach: float) -> Any:
    """A set about each sample of a size in units of `reach`, one time in three with a factor of its own; or
    the deletion of features, or a matrix of each sample."""
    r = tuned(s, reach * s.pick([0.0, 0.05, 0.25, 1.0]))
    kind = s.integer(0, 5)
    if kind == 0:
        k = s.integer(1, n)
        return ucm.FeatureDeletion(k if s.often(3) else ucm.Param("k", k))
    if kind == 1:
        return ucm.per_sample("factor") @ ucm.Ball(0, r, s.pick(EXPONENTS))
    root = matrix(s, n, s.integer(1, n))
    U = s.pick([
        ucm.Ball(0, r), ucm.Ball(0, r, INF), ucm.Ball(0, r, s.pick(EXPONENTS)),
        ucm.Ball(0, r) + ucm.Ball(0, reach / 8, INF), ucm.Ellipsoid(0, root @ root.T, r),
        np.diag(vector(s, n)) @ ucm.Ball(np.zeros(n), 1.0, INF),
    ])  # fmt: skip
    return U if s.integer(0, 2) else ucm.per_sample("radius") * U


def quantities(s: Source, model: Any, m: int, n: int) -> dict[str, Any]:
    """Radii and matrices of the samples, or the diagonals of these, where a model has their names."""
    given: dict[str, Any] = {}
    if "per_sample('radius')" in repr(model):
        given["radius"] = np.array([s.integer(0, 4) / 4 for _ in range(m)])
    if "per_sample('factor')" in repr(model):
        columns = s.integer(0, 3)
        given["factor"] = matrix(s, m, n * max(columns, 1)).reshape((m, n, columns) if columns else (m, n))
    return {"per_sample": given} if given else {}


def robust(s: Source, n: int, reach: float) -> Any:
    """Losses of the worst point about each sample, of one class or of both, or the worst mean of one."""
    kinds = [ucm.Hinge, ucm.Logistic, ucm.SquaredHinge, ucm.Exponential]
    U, first, second = perturbations(s, n, reach), s.pick(kinds), s.pick(kinds)
    factor = tuned(s, s.pick([1.0, 1.0, 0.5, 0.01]))
    kind = s.integer(0, 5)
    if kind == 0:
        return factor * ucm.Robust(first(on=pos), U) + second(on=neg)
    if kind == 1:
        return ucm.WorstMean(ucm.Robust(first(), U), s.pick([None, weights(s)]))
    if kind == 2:
        return factor * ucm.Robust(first(), U) + ucm.Robust(second(), U)
    return factor * ucm.Robust(first(), U)


def extended(s: Source) -> Case:
    """An objective with robust samples, a number of features, or label flips, and samples as in `objective`;
    those of the cardinality with few features, which the twin enumerates."""
    X, y = samples(s)
    kind = s.integer(0, 5)
    X = X[:, :4] if kind == 4 else X
    n = X.shape[1]
    size = 1.0 if s.often(4) else s.pick([1e-3, 30.0, 1e3])
    X = size * X * (columns(s, n) if kind else 1.0)
    if kind == 5:
        p, flips = s.pick([2.0, 1.0, INF, 1.5]), s.pick([0.0, 0.25, 1.0, INF])
        loss_ = s.pick([ucm.Hinge(), ucm.Logistic(), ucm.HuberHinge(0.5)])
        eps = tuned(s, size * s.pick([1e-3, 0.125, 0.5, 4.0]))
        free = s.pick(["free", "free", None])
        model: Any = ucm.WassersteinObjective(loss_, free, eps=eps, kappa=tuned(s, flips), norm=p)
    elif kind >= 3:
        k = s.integer(1, n)
        lam = tuned(s, s.pick([1.0, 0.5, 0.1, 3.0]))
        R = lam * ucm.L2() + ucm.Cardinality(k) if kind == 4 else lam * ucm.KSupport(k)
        R = R if s.integer(0, 2) else R + 0.5 * ucm.L1()
        R = R if kind == 4 or s.often(6) else R + constraint(s, n)
        model = (loss(s, True) if kind == 4 or s.often(4) else robust(s, n, size)) + R
    else:
        R = penalty(s, True, n)
        model = robust(s, n, size) + (R if s.integer(0, 2) else R + constraint(s, n))
    if kind < 5 and not s.often(3):
        free = s.pick([None, "penalised"])
        model = model.with_intercept(free, s.pick([1.0, 10.0]) if free else 1.0)
    return Case(model, X, y, {**quantities(s, model, *X.shape), **weighing(s, y), **tolerance(s)})
