"""Linear constraints on w as penalties: 0 where they hold, else infinite, with SciPy's names and objects."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.cone import Bound, PolyhedralCone, nonnegative_least_squares
from ucm.language.node import Notation, converted, operator
from ucm.language.objective import split_scalar
from ucm.language.parameter import Scalar, Scope
from ucm.language.penalties.norms import check_length
from ucm.language.statistics.affine import VectorNode
from ucm.language.terms import Penalty, ProximalPenalty

_HOLDS = 1e-9  # of the terms of a row: a violation that counts as rounding
_PROJECTED = 1e-13  # of the product of a row and the largest weight: the rounding of a projection
_ROUNDING = 1e-10  # of a vector: its distance from a cone that counts as 0
_ACTIVE = 1e-6  # of the terms of a row: a slack that counts as 0 for multipliers
_ZERO = 1e-15  # of the largest entry of a point: an entry, distance or violation that is rounding
_SMALL_ANGLE, _PARALLEL = 1e-3, 1e-12  # between equations: to take orthonormal ones, and one for two
_EXPONENT = 500  # of the largest bound of a row of entries near 1
_WITHOUT = 1e-13  # of the sum of the multipliers: a residual of the distance program that is rounding

Rows = NDArray[np.float64]


def _rows(x: Any, where: str = "") -> Rows | tuple[VectorNode, ...]:
    """Return the matrix of a constraint, (r, n), or statistics as its rows."""
    if isinstance(x, VectorNode):
        return (x,)
    if isinstance(x, tuple | list) and x and all(isinstance(row, VectorNode) for row in x):
        return tuple(x)
    try:
        x = x.toarray() if sparse.issparse(x) else x  # pyright: ignore[reportAttributeAccessIssue]
        A = np.atleast_2d(np.asarray(x, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        A = np.empty((0, 0))
    if A.ndim != 2 or not A.size or not np.isfinite(A).all():
        raise CompositionError(
            f"{where}: A has a row of finite numbers, one for each feature, or a statistic for each "
            f"constraint, got {brief(x)}; write for example [[1.0, -1.0]], or pos.mean - neg.mean"
        )
    return A


def _numbers(x: object, where: str = "") -> float | tuple[float, ...]:
    """Return a bound as a number for all rows, or a tuple with one for each."""
    try:
        bound = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        bound = np.empty(0)
    if bound.ndim > 1 or not bound.size or np.isnan(bound).any():
        raise CompositionError(
            f"{where}: lb and ub are a number, or one for each constraint, without NaN, got {brief(x)}; "
            "write np.inf for none"
        )
    return tuple(bound.tolist()) if bound.ndim else float(bound)


def _orthonormal(A: Rows, b: Vec) -> tuple[Rows, Vec, Rows] | None:
    """Return orthonormal equations `Q w = c` in place of `A w = b`, and a matrix with `Q = M A`.

    None unless rows of A are at small angles, and if they contradict each other.
    """
    U, s, Q = np.linalg.svd(A, full_matrices=False)
    if len(A) < 2 or not s[-1] < _SMALL_ANGLE * s[0]:
        return None
    kept = s > _PARALLEL * s[0]
    M, Q = (U[:, kept] / s[kept]).T, Q[kept]
    c = M @ b
    holds = np.abs(A @ (Q.T @ c) - b).max() <= _HOLDS * np.abs(b).max()
    return (Q, c, M) if holds else None


class LinearConstraint(ProximalPenalty):
    """The constraint `lb <= A w <= ub` as a penalty: 0 if it holds, else infinite.

    A row holds if its violation is at most 1e-9 of the size of its terms.

    Parameters
    ----------
    A : (r, n) array, a statistic or a list of these
        The rows. The statistics, as `pos.mean - neg.mean`, are those of the samples of each fit.
    lb, ub : float or (r,) array, optional
        The bounds; equal ones make an equation, infinite ones are none.

    Notes
    -----
    `scipy.optimize.LinearConstraint` may stand in its place. The projection is a least distance program of
    Lawson and Hanson (1974), Solving least squares problems, chapter 23.

    Examples
    --------
    >>> import ucm
    >>> constraint = ucm.LinearConstraint([[1.0, -1.0]], lb=0.0)
    >>> constraint.value([2.0, 1.0]), constraint.value([1.0, 2.0])
    (0.0, inf)
    """

    keeps_signs: ClassVar[bool] = False

    A: Any = converted(converter=_rows)
    lb: float | tuple[float, ...] = converted(converter=_numbers, default=-np.inf)
    ub: float | tuple[float, ...] = converted(converter=_numbers, default=np.inf)

    def _check(self) -> None:
        self._check_bounds(len(self.A))

    def _check_bounds(self, count: int) -> None:
        sizes = {np.size(x) for x in (self.lb, self.ub) if np.ndim(x)} - {count}
        if sizes:
            raise CompositionError(
                f"{type(self).__name__}: lb and ub have a number for each of {count} constraints, got "
                f"{np.size(self.lb)} and {np.size(self.ub)}; give as many, or one number for all"
            )
        low, high = np.atleast_1d(*np.broadcast_arrays(self.lb, self.ub))
        crossed = np.flatnonzero(~((low <= high) & (low < np.inf) & (high > -np.inf)))
        if crossed.size:
            k = int(crossed[0])
            raise CompositionError(
                f"{type(self).__name__}: no w has {low[k]:g} <= value <= {high[k]:g}, in constraint {k}; "
                "give lb <= ub"
            )

    @property
    def of_statistics(self) -> bool:
        """True if the rows of A are statistics, whose values come with samples."""
        return isinstance(self.A, tuple)

    @property
    def matrix(self) -> Rows:
        """The matrix A; a `CompositionError` for statistics without samples."""
        if self.of_statistics:
            raise CompositionError(
                f"{self!r}: expected samples for its statistics, got none; compile or solve a loss with it"
            )
        return self.A

    @functools.cached_property
    def bounds(self) -> tuple[Vec, Vec]:
        """The bounds of the rows, two vectors (r,)."""
        r = len(self.A)
        return np.broadcast_to(self.lb, r).astype(float), np.broadcast_to(self.ub, r).astype(float)

    @functools.cached_property
    def sides(self) -> tuple[Rows, Vec, NDArray[np.intp], Vec]:
        """The constraint as `G w <= h` of finite bounds, with the row of A and the sign of each row of G."""
        (lb, ub), A = self.bounds, self.matrix
        high, low = np.flatnonzero(np.isfinite(ub)), np.flatnonzero(np.isfinite(lb))
        rows, signs = np.concatenate([high, low]), np.repeat([1.0, -1.0], [high.size, low.size])
        return signs[:, None] * A[rows], np.concatenate([ub[high], -lb[low]]), rows, signs

    @functools.cached_property
    def upper(self) -> tuple[Rows, Vec, NDArray[np.bool_], Rows]:
        """The constraint as `G w <= h`: (G, h, equations, back), rows of one size by powers of 2.

        `equations` marks the rows that are of equations, and `back` takes multipliers of these rows to those
        of the rows of A. Equations at small angles are replaced by orthonormal ones, whose violation is a
        distance.
        """
        G, h, rows, signs = self.sides
        _, exponent = np.frexp(np.abs(G).max(axis=1, initial=0.0))
        size = np.ldexp(1.0, 1 - np.maximum(exponent, np.frexp(h)[1] - _EXPONENT))  # h does not overflow
        size[~G.any(axis=1)] = 1.0
        G, h = size[:, None] * G, size * h
        back = np.zeros((len(self.A), h.size))
        back[rows, np.arange(h.size)] = size * signs
        equal = np.equal(*self.bounds)[rows]
        at = np.flatnonzero(equal & (signs > 0.0))
        found = _orthonormal(G[at], h[at])
        if found is None:
            return G, h, equal, back
        Q, level, M = found
        turned = back[:, at] @ M.T
        return (
            np.vstack([Q, -Q, G[~equal]]), np.concatenate([level, -level, h[~equal]]),
            np.arange(2 * len(Q) + np.count_nonzero(~equal)) < 2 * len(Q),
            np.hstack([turned, -turned, back[:, ~equal]]),
        )  # fmt: skip

    def check_features(self, n: int) -> None:
        check_length(self, "A", self.matrix.shape[1], n)

    def with_column(self, n: int) -> LinearConstraint:
        return LinearConstraint(np.pad(self.matrix, ((0, 0), (0, 1))), self.lb, self.ub)

    def slacks(self, w: Vec) -> Vec:
        """Return the slack of each row of `upper`, relative to the size of its terms.

        The rounding of a projection is that of the largest weight, so that a row has at least the size at
        which this is a violation of 1e-9.
        """
        G, h, _, _ = self.upper
        weights = np.abs(w)
        least = _PROJECTED / _HOLDS * np.abs(G).sum(axis=1)
        least *= ((G != 0.0) * weights).max(axis=1, initial=0.0)
        size = np.maximum(np.abs(G) @ weights + np.abs(h), least)
        return (h - G @ w) / np.where(size > 0.0, size, 1.0)

    def value(self, w: Vec) -> float:
        return 0.0 if self.slacks(np.asarray(w, dtype=float)).min(initial=0.0) >= -_HOLDS else np.inf

    def prox(self, v: Vec, t: float) -> Vec:
        return self.project(np.asarray(v, dtype=float))[0]

    def project(self, v: Vec) -> tuple[Vec, NDArray[np.intp]]:
        """Return the projection of v, and the rows of `upper` that are equations or have multipliers."""
        G, h, equations, _ = self.upper
        equal, gap = np.flatnonzero(equations), h - G @ v
        if not np.isfinite(gap).all():  # a v without a projection stays, so that its objective tells
            return v, equal
        if (self.slacks(v) >= -_ZERO).all():
            return self.nearest(v, equal[:0]), equal
        active = np.union1d(np.flatnonzero(_distance_multipliers(G, gap)[0] > 0.0), equal)
        return self.nearest(v, active), active

    def nearest(self, v: Vec, active: NDArray[np.intp]) -> Vec:
        """Return the point next to v where the given rows of `upper` hold with equality."""
        G, h, size = self.upper[0][active], self.upper[1][active], float(np.abs(v).max())
        inverse = np.linalg.pinv(G) if h.size else G.T
        for _ in range(2):  # the second corrects the rounding of the first
            v = v + inverse @ (h - G @ v)
        v = np.where(np.abs(v) > _ZERO * max(size, float(np.abs(v).max())), v, 0.0)
        return np.clip(v, *self._single)

    @functools.cached_property
    def _single(self) -> tuple[Vec, Vec]:
        """The bounds by rows with one entry, which then hold exactly."""
        G, h, _, _ = self.upper
        low, high = np.full(G.shape[1], -np.inf), np.full(G.shape[1], np.inf)
        for k in np.flatnonzero(np.count_nonzero(G, axis=1) == 1):
            j = int(np.flatnonzero(G[k])[0])
            end = h[k] / G[k, j]
            low[j], high[j] = (low[j], min(high[j], end)) if G[k, j] > 0.0 else (max(low[j], end), high[j])
        return low, high

    def project_domain(self, w: Vec) -> Vec:
        return self.prox(w, 0.0)

    def order(self) -> int:
        return len(self.upper[1])

    def prox_slope_times(self, v: Vec, t: float, M: Rows) -> Rows:
        G = self.upper[0][self.project(np.asarray(v, dtype=float))[1]]
        return M - np.linalg.pinv(G) @ (G @ M)

    def conjugate(self, z: Vec) -> float:
        """Return the least `h'u` over u >= 0 with `G'u = z`, z projected on the cone of these."""
        G, h, _, back = self.upper
        u, nearest = nonnegative_least_squares(G.T, z)
        top, size = float(u.max(initial=0.0)), float(np.abs(h).max(initial=0.0)) or 1.0
        own = np.count_nonzero(back.any(axis=1))  # both bounds of a row have a multiplier in no vertex
        if top > 0.0 and np.linalg.matrix_rank(G) < own:  # several u, each an upper bound
            found = scipy.optimize.linprog(h / size, A_eq=G.T, b_eq=G.T @ u / top, method="highs-ds")
            active = np.flatnonzero(found.x > _ROUNDING) if found.status == 0 else np.arange(h.size)
            better = nonnegative_least_squares(G[active].T, z)[0]
            rest, distance = nonnegative_least_squares(G.T, z - G[active].T @ better)
            if distance <= nearest + _ZERO * float(np.abs(z).max()):
                return float(min(h @ u, h[active] @ better + h @ rest))
        return float(h @ u)

    def gauge(self, z: Vec) -> float:
        away = np.abs(self.project_onto_domain_cone(z) - z).max(initial=0.0)
        return 0.0 if away <= _ROUNDING * np.abs(z).max(initial=0.0) else np.inf

    @functools.cached_property
    def _cone(self) -> PolyhedralCone:
        G, _, equal, _ = self.upper
        return PolyhedralCone(lines=(G[equal].T,), rays=(G[~equal].T,))

    def domain_cone(self) -> PolyhedralCone:
        return self._cone

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        # several entries of a column: orthonormal equations, which Clarabel solves where angles are small
        turned = np.count_nonzero(self.upper[3], axis=0).max(initial=0) > 1
        G, h = (self.upper if turned else self.sides)[:2]
        return cp.indicator([G @ w <= h]) if h.size else 0.0 * cp.sum(w)

    def formula(self, notation: Notation) -> str:
        if self.of_statistics and len(self.A) == 1:
            inner = f"({self.A[0].formula(notation)})'w"
        else:
            inner = "Aw" if self.of_statistics else f"{notation.array(self.A)}w"
        return _within(self.lb, inner, self.ub, notation)


class Bounds(LinearConstraint):
    """The bounds `lb <= w <= ub` as a penalty: 0 if they hold, else infinite.

    Parameters
    ----------
    lb, ub : float or (n,) array, optional
        Of each weight; infinite ones are none.

    Notes
    -----
    `scipy.optimize.Bounds` may stand in its place.

    Examples
    --------
    >>> import ucm
    >>> ucm.Bounds(-1.0, 1.0).value([0.5, -1.0]), ucm.Bounds(-1.0, 1.0).value([2.0, 0.0])
    (0.0, inf)
    """

    A: ClassVar[Any] = None
    lb: float | tuple[float, ...] = converted(converter=_numbers, default=-np.inf)
    ub: float | tuple[float, ...] = converted(converter=_numbers, default=np.inf)

    def _check(self) -> None:
        self._check_bounds(max(np.size(self.lb), np.size(self.ub)))

    @property
    def keeps_signs(self) -> bool:  # type: ignore[override]
        return bool(np.all(self.bounds[0] <= 0.0) and np.all(self.bounds[1] >= 0.0))

    @functools.cached_property
    def bounds(self) -> tuple[Vec, Vec]:
        return np.asarray(self.lb, dtype=float), np.asarray(self.ub, dtype=float)

    def box(self) -> tuple[Bound, Bound] | None:
        """Return the box whose support function the bounds are if all are 0 or infinite."""
        if not all(np.all((x == 0.0) | np.isinf(x)) for x in self.bounds):
            return None
        low, high = (np.where(np.isinf(x), 0.0, np.inf) for x in self.bounds)
        return -low, high

    def over(self, n: int) -> LinearConstraint:
        """Return the constraint of n weights with its matrix."""
        return LinearConstraint(np.eye(n), self.lb, self.ub)

    def check_features(self, n: int) -> None:
        for name, x in (("lb", self.lb), ("ub", self.ub)):
            if np.ndim(x):
                check_length(self, name, np.size(x), n)

    def with_column(self, n: int) -> Bounds:
        lb, ub = (np.broadcast_to(x, n) for x in self.bounds)
        return Bounds(np.append(lb, -np.inf), np.append(ub, np.inf))

    def value(self, w: Vec) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        return 0.0 if bool(np.all(np.abs(w - np.clip(w, *self.bounds)) <= _HOLDS * np.abs(w))) else np.inf

    def prox(self, v: Vec, t: float) -> Vec:
        return np.clip(v, *self.bounds)

    def order(self) -> int:
        return 0

    def prox_slope_times(self, v: Vec, t: float, M: Rows) -> Rows:
        return ((self.bounds[0] <= v) & (v <= self.bounds[1]))[:, None] * M

    def conjugate(self, z: Vec) -> float:
        ends = np.where(z > 0.0, self.bounds[1], self.bounds[0])
        return float(z @ np.where(np.isfinite(ends), ends, 0.0))

    @functools.cached_property
    def _cone(self) -> PolyhedralCone:
        low, high = self.bounds
        return PolyhedralCone(-1.0 * np.isfinite(low), 1.0 * np.isfinite(high))

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        def finite(x: Vec) -> tuple[cp.Expression, Vec | float] | None:
            x = np.broadcast_to(x, w.shape[0])
            at = np.flatnonzero(np.isfinite(x))
            if not at.size:
                return None
            first = at[-1] == at.size - 1  # a program for any number of features has a slice, and a number
            return w[: at.size] if first else w[at], float(x[at[0]]) if np.ptp(x[at]) == 0.0 else x[at]

        low, high = map(finite, self.bounds)
        inside = ([low[0] >= low[1]] if low else []) + ([high[0] <= high[1]] if high else [])
        return cp.indicator(inside) if inside else 0.0 * cp.sum(w)

    def formula(self, notation: Notation) -> str:
        return _within(self.lb, "w", self.ub, notation)


def NonNegative(features: ArrayLike | None = None) -> Bounds:
    """The constraint `w >= 0` as a penalty, which is `Bounds(0)`: 0 if all `w_j >= 0`, else infinite.

    It suits features whose effects have known signs: a larger value may only favour class +1. Change the
    sign of a feature for the opposite.

    Parameters
    ----------
    features : (n,) booleans, optional
        True for the features whose weights are not negative; None for all.

    Notes
    -----
    Parikh and Boyd (2014), Proximal algorithms, section 6.4.

    Examples
    --------
    >>> import ucm
    >>> ucm.NonNegative([True, False])
    Bounds(lb=(0, -inf))
    >>> ucm.NonNegative().value([3.0, 0.0]), ucm.NonNegative().value([3.0, -1.0])
    (0.0, inf)
    """
    if features is None:
        return Bounds(0.0)
    try:
        x = np.asarray(features)
    except ValueError:  # rows of different lengths
        x = np.array(None)
    if x.dtype.kind not in "biuf" or x.ndim != 1 or not x.any() or not np.isin(x, (0, 1)).all():
        raise CompositionError(
            "NonNegative: features has True or False for each feature, and True for one at least, got "
            f"{brief(features)}; write for example features=[True, False]"
        )
    return Bounds(np.where(x, 0.0, -np.inf))


def _within(
    lb: float | tuple[float, ...], inner: str, ub: float | tuple[float, ...], notation: Notation
) -> str:
    """Return the formula of the indicator of `lb <= inner <= ub`, without infinite bounds."""
    low, high = (
        notation.array(np.array(x)) if isinstance(x, tuple) else notation.scalar(x) for x in (lb, ub)
    )
    if np.array_equal(lb, ub):
        return f"{notation.word('ind')}({inner} = {low})"
    above = "" if np.isneginf(lb).all() else f"{notation.geq}{low}"
    below = "" if np.isposinf(ub).all() else f"{notation.leq}{high}"
    both = f"{low}{notation.leq}{inner}{below}" if above and below else f"{inner}{above}{below}"
    return f"{notation.word('ind')}({both})"


def _distance_multipliers(G: Rows, h: Vec) -> tuple[Vec, float]:
    """Return the multipliers u >= 0 of `min ||x|| over G x <= h`, up to a positive factor, and a residual.

    A residual of 0 means that no x has `G x <= h`: then `G'u = 0` and `h'u < 0` (Farkas).
    """
    length = np.linalg.norm(G, axis=1)
    length[length == 0.0] = 1.0
    h = h / length
    target = np.eye(1, G.shape[1] + 1, G.shape[1])[0]
    u, residual = nonnegative_least_squares(
        np.vstack([-(G / length[:, None]).T, -h / (np.abs(h).max() or 1.0)]), target
    )
    return u / length, residual


def constraints_of(terms: Sequence[Penalty], n: int) -> list[tuple[int, LinearConstraint]]:
    """Return the constraints among the terms of a sum as matrices of n columns, with their places."""
    found: list[tuple[int, LinearConstraint]] = []
    for k, term in enumerate(terms):
        match split_scalar(term)[1]:
            case Bounds() as R:
                found.append((k, R.over(n)))
            case LinearConstraint() as R:
                found.append((k, R))
    return found


def merged(constraints: Sequence[LinearConstraint]) -> LinearConstraint:
    """Return the constraints of the same features as one."""
    if len(constraints) == 1:
        return constraints[0]
    lows, highs = zip(*(R.bounds for R in constraints), strict=True)
    A = np.vstack([R.matrix for R in constraints])
    return LinearConstraint(A, np.concatenate(lows), np.concatenate(highs))


def joined(terms: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Return the penalties of n features with several constraints as one, so that it has a projection."""
    constraints = constraints_of(terms, n)
    bases = [split_scalar(terms[k])[1] for k, _ in constraints]
    if len(bases) < 2:
        return terms
    left = [R for k, R in enumerate(terms) if k not in dict(constraints)]
    if all(isinstance(R, Bounds) for R in bases):
        lows, highs = zip(*(R.bounds for R in bases), strict=True)
        return (*left, Bounds(functools.reduce(np.maximum, lows), functools.reduce(np.minimum, highs)))
    return (*left, merged([R for _, R in constraints]))


def check_constraints(penalty: Penalty, n: int) -> None:
    """Raise `CompositionError` if the constraints of a penalty exclude every w of n features."""
    terms = penalty.split()[0]
    constraints = constraints_of(terms, n)
    if not constraints:
        return
    G, h, _, back = merged([R for _, R in constraints]).upper
    if not (h < 0.0).any():  # w = 0 meets them
        return
    u, residual = _distance_multipliers(G, h)
    if residual > _WITHOUT * u.sum() or -(h @ u) <= 2.0 * _HOLDS * (np.abs(h) @ u):
        return  # a w exists, or one that violates rows by rounding; 2.0: equations count twice, as two rows
    used = np.flatnonzero(back[:, u > _ROUNDING * u.max()].any(axis=1)).tolist()
    words, first = [], 0
    for k, R in constraints:
        own = [str(row - first) for row in used if first <= row < first + len(R.A)]
        words += [f"{', '.join(own)} of {brief(terms[k])}"] if own else []
        first += len(R.A)
    raise CompositionError(
        f"constraints on w: expected a w that meets all of them, got rows that contradict each other: "
        f"{'; '.join(words)} (multiplied by numbers >= 0 they add up to 0 <= a negative number); relax one"
    )


def active_multipliers(
    constraints: Sequence[LinearConstraint], w: Vec, z: Vec, unit: float = 0.0
) -> list[Vec]:
    """Return by constraint the multipliers of its rows at w whose combination of rows is nearest to z.

    They are not negative at upper bounds, not positive at lower bounds, and 0 beyond their rounding: that of
    a projection, of the size of the largest weight, counts beside a bound of 0 too. At w = 0 this is the
    rounding of steps towards it, of the size of `unit`, a weight that moves margins by 1.
    """
    whole = merged(constraints)
    G, h, _, back = whole.upper
    rounding = _PROJECTED * np.abs(w).max(initial=unit) * np.abs(G).sum(axis=1)
    active = np.flatnonzero((whole.slacks(w) <= _ACTIVE) | (h - G @ w <= rounding))
    mu = np.zeros(len(whole.A))
    if active.size:
        mu = back[:, active] @ nonnegative_least_squares(G[active].T, z)[0]
    return np.split(mu, np.cumsum([len(R.A) for R in constraints])[:-1])


@operator("as constraint")
def as_constraint(x: Any) -> Any:
    """Return a constraint of SciPy as a penalty; any other object unchanged."""
    kind = type(x).__name__ if type(x).__module__.startswith("scipy.optimize") else ""
    if kind in ("LinearConstraint", "Bounds"):
        ends = [np.squeeze(b) if np.size(b) == 1 else b for b in (x.lb, x.ub)]  # a number is an array there
        return Bounds(*ends) if kind == "Bounds" else LinearConstraint(x.A, *ends)
    return x
