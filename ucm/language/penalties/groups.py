"""Penalties of groups of weights: the group lasso and the group MCP."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.node import Notation, restricted
from ucm.language.objective import ScaledPenalty
from ucm.language.parameter import Scalar, Scope
from ucm.language.penalties.folded_concave import MCP, above
from ucm.language.penalties.norms import check_length, weights_of
from ucm.language.terms import FoldedConcave, ProximalPenalty


def groups_of_features(**options: Any) -> Any:
    """Return a dataclass field for the group of each feature; with the default None it may be left out."""
    return restricted(
        lambda x: x is None or (np.ndim(x) == 1 and np.size(x) > 0 and not np.any(x % 1.0)),
        "groups has a whole number for each feature",
        "write for example [0, 0, 1] for two groups of three features",
        **options,
    )


class GroupLasso(ProximalPenalty):
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

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def conjugate(self, z: Vec) -> float:
        return 0.0

    def gauge(self, z: Vec) -> float:
        size = self.lengths(z)
        nonzero = size > 0.0
        with np.errstate(divide="ignore"):
            return float((size[nonzero] / self._factors[nonzero]).max(initial=0.0))

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        return np.where(self.spread(self._factors) > 0.0, z, 0.0)

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


class GroupMCP(FoldedConcave):
    """The group MCP penalty `sum_g r(||w_g||_2)`, r the MCP, constant from `||w_g||_2 = gamma lam` on.

    It splits as `lam sum_g ||w_g||_2` minus a convex function of the lengths; DCA solves a sequence of
    reweighted group lassos.

    Parameters
    ----------
    groups : (n,) integers
        The group of each feature.
    lam, gamma : float or Param, optional
        As in `MCP`; positive.

    Notes
    -----
    Huang, Breheny and Ma (2012), A selective review of group selection in high-dimensional models, section 4.

    Examples
    --------
    >>> import ucm
    >>> ucm.GroupMCP([0, 0, 1], lam=1, gamma=2).value([3.0, 4.0, -1.0])
    1.75
    """

    groups: Any = groups_of_features()
    lam: Scalar = above("lam", default=1.0)
    gamma: Scalar = above("gamma", default=3.0)

    @functools.cached_property
    def _mcp(self) -> MCP:
        """The profile r of one group length, as an `MCP`."""
        return MCP(self.lam, self.gamma)

    @functools.cached_property
    def lasso(self) -> GroupLasso:
        """The unweighted group lasso `sum_g ||w_g||_2` of the same groups."""
        return GroupLasso(self.groups)

    def check_features(self, n: int) -> None:
        self.lasso.check_features(n)

    def profile(self, s: Vec) -> Vec:
        return self._mcp.profile(s)

    def slope(self, s: Vec) -> Vec:
        return self._mcp.slope(s)

    def tangent(self) -> ProximalPenalty:
        return ScaledPenalty(self.lam, self.lasso)

    def lengths(self, w: Vec) -> Vec:
        return self.lasso.lengths(w)

    def spread(self, of_lengths: Vec) -> Vec:
        return self.lasso.spread(of_lengths)

    def formula(self, notation: Notation) -> str:
        size = notation.norm(notation.sub("w", "g"), "2")
        clip = f"{notation.scalar(self.lam)},{notation.scalar(self.gamma)}"
        name = notation.sub(notation.word("MCP"), clip)
        return notation.sum_over("g", f"{name}({size})")
