"""Norm penalties of w, their powers, the elastic net and the group lasso."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.cone import Bound, PolyhedralCone
from ucm.language.domains.norm_ball import NormBall
from ucm.language.domains.norm_ball import norm as length
from ucm.language.node import Node, Notation, number_in, restricted
from ucm.language.objective import PenaltySum, multiplied, summed
from ucm.language.parameter import Scalar, Scope, within
from ucm.language.power import power_root
from ucm.language.robust import dual_exponent
from ucm.language.terms import BoxSupport, Penalty, ProximalPenalty, SupportFunction


def _listed(x: object, where: str) -> object:
    """Return a tuple as a list, which becomes an array."""
    return list(x) if isinstance(x, tuple) else x


def weights_of(each: str) -> Any:
    """Return a dataclass field for a vector of weights that are not negative, or None."""
    return restricted(
        lambda x: x is None or (np.ndim(x) == 1 and np.size(x) > 0 and np.min(x) >= 0.0 and np.any(x)),
        f"weights is a vector, one number for each {each}, which must not be negative, nor all 0",
        f"a {each} of weight 0 is free; write for example weights=[1.0, 0.5]",
        default=None,
        converter=_listed,
    )


def groups_of_features() -> Any:
    """Return a dataclass field for the group of each feature."""
    return restricted(
        lambda x: np.ndim(x) == 1 and np.size(x) > 0 and not np.any(x % 1.0),
        "groups has a whole number for each feature",
        "write for example [0, 0, 1] for two groups of three features",
        converter=_listed,
    )


def check_length(node: Node, field: str, given: int, n: int) -> None:
    """Raise a `CompositionError` unless the length of a field equals the number n of features."""
    if given != n:
        raise CompositionError(
            f"{type(node).__name__}: {field} has entries for {given} features, got samples of {n}; give "
            "one for each feature"
        )


class L1(BoxSupport):
    """The 1-norm penalty `||w||_1`, or with weights `sum_j weights_j |w_j|`.

    Parameters
    ----------
    weights : (n,) array, optional
        Non-negative, one for each feature, not all 0; a feature of weight 0 is not penalised.

    Notes
    -----
    With weights: Zou (2006), The adaptive lasso and its oracle properties.

    Examples
    --------
    >>> import ucm
    >>> ucm.L1().value([3.0, -4.0])
    7.0
    >>> ucm.L1(weights=[1.0, 0.5]).value([3.0, -4.0])
    5.0
    """

    weights: Any = weights_of("feature")

    def check_features(self, n: int) -> None:
        if self.weights is not None:
            check_length(self, "weights", self.weights.size, n)

    def with_column(self, n: int) -> L1:
        return self if self.weights is None else L1(np.append(self.weights, 0.0))

    def box(self) -> tuple[Bound, Bound]:
        top = 1.0 if self.weights is None else self.weights
        return -top, top

    def norms(self) -> tuple[float, float, float] | None:
        return (1.0, 0.0, 0.0) if self.weights is None else None

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        inner = w if self.weights is None else cp.multiply(self.weights, w)
        return cp.norm1(scope.of(factor) * inner)

    def formula(self, notation: Notation) -> str:
        if self.weights is None:
            return notation.norm("w", "1")
        weight, w = (notation.sub(name, "j") for name in ("c", "w"))
        return notation.sum_over("j", f"{weight}{notation.times}|{w}|")


class Norm(SupportFunction):
    """The p-norm penalty `||w||_p`, not squared.

    Its conjugate `R*` is 0 on the unit ball of the dual norm, 1/p + 1/p' = 1.

    Parameters
    ----------
    p : float, optional
        1 <= p <= inf. `Lp(p)` is the p-th power, `L2()` the square of `Norm(2)`.

    Notes
    -----
    Parikh and Boyd (2014), Proximal algorithms, section 6.5: the proximal map is the residual of the
    projection on the dual ball. From some weight on w = 0 is optimal, as for every norm.

    Examples
    --------
    >>> import ucm
    >>> ucm.Norm().value([3.0, -4.0])
    5.0
    """

    p: float = number_in("[1, inf]", "p", "write Norm(p=1.5)", default=2.0)

    @property
    def rotation_invariant(self) -> bool:
        return self.p == 2.0

    def value(self, w: Vec) -> float:
        return length(np.asarray(w, dtype=float), self.p)

    def prox(self, v: Vec, t: float) -> Vec:
        return v - NormBall(t, dual_exponent(self.p)).project(v)

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        return M - NormBall(t, dual_exponent(self.p)).jacobian(v).matvec(M)

    def gauge(self, z: Vec) -> float:
        return length(np.asarray(z, dtype=float), dual_exponent(self.p))

    def norms(self) -> tuple[float, float, float] | None:
        return {1.0: (1.0, 0.0, 0.0), math.inf: (0.0, 0.0, 1.0)}.get(self.p)

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        v = scope.of(factor) * w
        if self.p in (1.0, 2.0, math.inf):
            return cp.norm(v, "inf" if self.p == math.inf else int(self.p))
        return cp.pnorm(v, self.p, approx=False)

    def formula(self, notation: Notation) -> str:
        return notation.norm("w", "inf" if self.p == math.inf else f"{self.p:g}")


def LInf() -> Norm:
    """The inf-norm penalty `||w||_inf = max_j |w_j|`, which is `Norm(inf)`.

    Examples
    --------
    >>> import ucm
    >>> ucm.LInf().value([3.0, -4.0])
    4.0
    """
    return Norm(math.inf)


def ElasticNet(ratio: Scalar = 0.5) -> Penalty:
    """The elastic-net penalty `ratio ||w||_1 + (1 - ratio) ||w||_2^2`.

    Parameters
    ----------
    ratio : float or Param, optional
        0 <= ratio <= 1; 1 is `L1()` and 0 is `L2()`.

    Examples
    --------
    >>> import ucm
    >>> ucm.ElasticNet(0.25)
    0.25 * L1() + 0.75 * L2()
    """
    ratio = within("ElasticNet", "ratio", ratio, "[0, 1]")
    terms = [multiplied(c, R) for c, R in ((ratio, L1()), (1.0 - ratio, L2())) if c != 0.0]
    return summed(PenaltySum, terms)


class Lp(ProximalPenalty):
    """The p-th power of the p-norm as a penalty, `||w||_p^p = sum_j |w_j|^p`.

    Its conjugate is `R*(z) = (p - 1) sum (|z_j|/p)^p'` with 1/p + 1/p' = 1.

    Parameters
    ----------
    p : float
        1 < p < inf; for p = 1 it is `L1()`. Below 1 the power has an infinite slope at 0 and no split into
        convex parts with a finite one: `ExpL0`, `CappedL1`, `MCP` and `SCAD` stand in for it.

    Examples
    --------
    >>> import ucm
    >>> ucm.Lp(3).value([1.0, -2.0])
    9.0
    """

    p: float = number_in(
        "(1, inf)", "p", "for 1 take L1(), below 1 ExpL0(a), CappedL1(a), MCP() or SCAD(), for inf LInf()"
    )

    @property
    def rotation_invariant(self) -> bool:
        return self.p == 2.0

    def value(self, w: Vec) -> float:
        return float((np.abs(w) ** self.p).sum())

    def prox(self, v: Vec, t: float) -> Vec:
        # x + t p x^(p-1) = |v|
        return np.sign(v) * power_root(np.abs(v), t * self.p, self.p - 1.0)

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.abs(self.prox(v, t))
        with np.errstate(divide="ignore", over="ignore"):
            bend = t * self.p * (self.p - 1.0) * x ** (self.p - 2.0)
        return M / (1.0 + bend)[:, None]

    def conjugate(self, z: Vec) -> float:
        dual = dual_exponent(self.p)
        with np.errstate(over="ignore"):
            return (self.p - 1.0) * float(((np.abs(z) / self.p) ** dual).sum())

    def gauge(self, z: Vec) -> float:
        return 0.0

    def gradient(self, w: Vec) -> Vec:
        return self.p * np.sign(w) * np.abs(w) ** (self.p - 1.0)

    def norms(self) -> tuple[float, float, float] | None:
        return (0.0, 1.0, 0.0) if self.p == 2.0 else None

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        powers = cp.sum_squares(w) if self.p == 2.0 else cp.sum(cp.power(cp.abs(w), self.p, approx=False))
        return scope.of(factor) * powers

    def formula(self, notation: Notation) -> str:
        return notation.power(notation.norm("w", f"{self.p:g}"), f"{self.p:g}")


class L2(Lp):
    """The ridge penalty `||w||_2^2`, the squared Euclidean norm.

    Examples
    --------
    >>> import ucm
    >>> ucm.L2().value([3.0, -4.0])
    25.0
    """

    p: ClassVar[float] = 2.0  # pyright: ignore[reportIncompatibleVariableOverride]


class GroupLasso(SupportFunction):
    """The group lasso penalty `sum_g weights_g ||w_g||_2`, which sets whole groups w_g to 0.

    Parameters
    ----------
    groups : (n,) integers
        The group of each feature; equal numbers are one group.
    weights : array, optional
        One for each group, in ascending order of its number; not negative, not all 0. None: 1 for each.
        The square roots of the sizes of the groups make large and small ones comparable.

    Notes
    -----
    Yuan and Lin (2006), Model selection and estimation in regression with grouped variables. With `L1()` it
    is the sparse group lasso: Simon, Friedman, Hastie and Tibshirani (2013).

    Examples
    --------
    >>> import ucm
    >>> ucm.GroupLasso([0, 0, 1]).value([3.0, 4.0, -2.0])
    7.0
    """

    groups: Any = groups_of_features()
    weights: Any = weights_of("group")

    def _check(self) -> None:
        if self.weights is not None and self.weights.size != self._count:
            raise CompositionError(
                f"GroupLasso: weights has one number for each of the {self._count} groups, got "
                f"{self.weights.size}; they are in ascending order of the groups"
            )

    @functools.cached_property
    def _index(self) -> NDArray[np.intp]:
        """The index of the group of each feature among the sorted group numbers, (n,)."""
        return np.unique(self.groups, return_inverse=True)[1]

    @functools.cached_property
    def _count(self) -> int:
        return int(self._index.max()) + 1

    @functools.cached_property
    def _members(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The features sorted by group, and the start index of each group in that order."""
        order = np.argsort(self._index, kind="stable")
        return order, np.searchsorted(self._index[order], np.arange(self._count))

    @functools.cached_property
    def _factors(self) -> Vec:
        return np.ones(self._count) if self.weights is None else self.weights

    def lengths(self, w: Vec) -> Vec:
        """Return the length `||w_g||_2` of each group."""
        top = float(np.abs(w).max(initial=0.0)) or 1.0
        squares = np.bincount(self._index, weights=(w / top) ** 2, minlength=self._count)
        return top * np.sqrt(squares)

    def spread(self, of_groups: Vec) -> Vec:
        """Return the values of groups repeated for their features, (n,)."""
        return of_groups[self._index]

    def check_features(self, n: int) -> None:
        check_length(self, "groups", self.groups.size, n)

    def with_column(self, n: int) -> GroupLasso:
        alone = self.groups.max() + 1.0
        return GroupLasso(np.append(self.groups, alone), np.append(self._factors, 0.0))

    def value(self, w: Vec) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        return float(self._factors @ self.lengths(w))

    def prox(self, v: Vec, t: float) -> Vec:
        size = self.lengths(v)
        shrunk = np.maximum(size - t * self._factors, 0.0)
        return v * self.spread(np.divide(shrunk, size, out=np.zeros_like(size), where=size > 0.0))

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        size = self.lengths(v)
        active = size > t * self._factors
        ratio = np.divide(t * self._factors, size, out=np.zeros_like(size), where=active)
        unit = v * self.spread(np.divide(1.0, size, out=np.zeros_like(size), where=active))
        order, starts = self._members
        products = np.add.reduceat((unit[:, None] * M)[order], starts)
        scaled = self.spread(active - ratio)[:, None] * M
        return scaled + (unit * self.spread(ratio))[:, None] * products[self._index]

    def gauge(self, z: Vec) -> float:
        size = self.lengths(z)
        nonzero = size > 0.0
        with np.errstate(divide="ignore"):
            return float((size[nonzero] / self._factors[nonzero]).max(initial=0.0))

    def domain_cone(self) -> PolyhedralCone:
        size = self.spread(self._factors)
        return PolyhedralCone(-size, size)

    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        order, starts = self._members
        sizes, total, v = np.bincount(self._index), 0.0, scope.of(factor) * w
        for size in np.unique(sizes):  # the groups of one size as rows of one table
            chosen = np.flatnonzero(sizes == size)
            members = order[starts[chosen][:, None] + np.arange(size)]
            table = cp.reshape(v[members.ravel()], members.shape, order="C")
            total += self._factors[chosen] @ cp.norm(table, 2, axis=1)
        return total

    def formula(self, notation: Notation) -> str:
        size = notation.norm(notation.sub("w", "g"), "2")
        head = "" if self.weights is None else notation.sub("c", "g") + notation.times
        return notation.sum_over("g", f"{head}{size}")
