"""Folded concave penalties: exponential, capped 1-norm, MCP and SCAD, and the MCP of groups."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language.node import Notation, number_in
from ucm.language.objective import ScaledPenalty
from ucm.language.parameter import Scalar, value
from ucm.language.penalties.norms import L1, GroupLasso, groups_of_features
from ucm.language.terms import FoldedConcave, Penalty, ProximalPenalty

_REMEDY = "give a positive number"


class ExpL0(FoldedConcave):
    """The exponential penalty `sum_j 1 - exp(-a |w_j|)`, which approximates the number of nonzero w_j.

    Parameters
    ----------
    a : float or Param
        Positive; the larger, the closer to the l0 norm.

    Notes
    -----
    Ong and Le Thi (2013), equations (4) and (5).

    Examples
    --------
    >>> import ucm
    >>> round(ucm.ExpL0(4).value([0.0, 1.0]), 4)
    0.9817
    """

    a: Scalar = number_in("(0, inf)", "a", _REMEDY)

    def profile(self, s: Vec) -> Vec:
        return -np.expm1(-value(self.a) * s)

    def slope(self, s: Vec) -> Vec:
        a = value(self.a)
        return a * np.exp(-a * s)

    def tangent(self) -> ProximalPenalty:
        return ScaledPenalty(self.a, L1())

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        return (L1(),)  # at the weight of this penalty

    def excess_formula(self, notation: Notation) -> str:
        a, w = notation.scalar(self.a), f"|{notation.sub('w', 'j')}|"
        term = f"{a}{notation.times}{w} - 1 + {notation.word('exp')}(-{a}{notation.times}{w})"
        return notation.sum_over("j", f"({term})")

    def formula(self, notation: Notation) -> str:
        a, w = notation.scalar(self.a), f"|{notation.sub('w', 'j')}|"
        return notation.sum_over("j", f"(1 - {notation.word('exp')}(-{a}{notation.times}{w}))")


class CappedL1(FoldedConcave):
    """The capped 1-norm penalty `sum_j min(a, |w_j|)`, which is not convex.

    Parameters
    ----------
    a : float or Param
        Positive.

    Notes
    -----
    Ong and Le Thi (2013), equations (6) and (7).

    Examples
    --------
    >>> import ucm
    >>> ucm.CappedL1(1).value([0.25, -3.0])
    1.25
    """

    a: Scalar = number_in("(0, inf)", "a", _REMEDY)

    def profile(self, s: Vec) -> Vec:
        return np.minimum(value(self.a), s)

    def slope(self, s: Vec) -> Vec:
        return (s < value(self.a)).astype(float)

    def tangent(self) -> ProximalPenalty:
        return L1()

    def excess_formula(self, notation: Notation) -> str:
        w = f"|{notation.sub('w', 'j')}|"
        term = f"{notation.word('max')}(0, {w} - {notation.scalar(self.a)})"
        return notation.sum_over("j", term)

    def formula(self, notation: Notation) -> str:
        w = f"|{notation.sub('w', 'j')}|"
        return notation.sum_over("j", f"{notation.word('min')}({notation.scalar(self.a)}, {w})")


class _ClippedSlope(FoldedConcave):
    """The base class of MCP and SCAD, whose slope falls from lam at 0 to 0."""

    lam: Scalar = number_in("(0, inf)", "lam", _REMEDY, default=1.0)

    @abstractmethod
    def clip(self) -> Scalar:
        """Return the parameter k, gamma or a, with slope 0 from `|w_j| = k lam` on."""

    def tangent(self) -> ProximalPenalty:
        return ScaledPenalty(self.lam, L1())

    def formula(self, notation: Notation) -> str:
        lam, clip = notation.scalar(self.lam), notation.scalar(self.clip())
        name = notation.sub(notation.word(type(self).__name__), f"{lam},{clip}")
        return notation.sum_over("j", f"{name}({notation.sub('w', 'j')})")


class MCP(_ClippedSlope):
    """The minimax concave penalty: `lam s - s^2 / (2 gamma)` for `s = |w_j| <= gamma lam`, then constant.

    Parameters
    ----------
    lam, gamma : float or Param, optional
        Positive; `lam` is the slope at 0.

    Notes
    -----
    Zhang (2010), Nearly unbiased variable selection under minimax concave penalty.

    Examples
    --------
    >>> import ucm
    >>> ucm.MCP(1, 2).value([1.0, 5.0])
    1.75
    """

    gamma: Scalar = number_in("(0, inf)", "gamma", _REMEDY, default=3.0)

    def profile(self, s: Vec) -> Vec:
        lam, gamma = value(self.lam), value(self.gamma)
        t = np.minimum(s, gamma * lam)
        return lam * t - t * t / (2.0 * gamma)

    def slope(self, s: Vec) -> Vec:
        return np.maximum(value(self.lam) - s / value(self.gamma), 0.0)

    def clip(self) -> Scalar:
        return self.gamma


class SCAD(_ClippedSlope):
    """The smoothly clipped absolute deviation (SCAD): slope lam for `|w_j| <= lam`, falling to 0 at `a lam`.

    Parameters
    ----------
    lam : float or Param, optional
        Positive; the slope at 0.
    a : float or Param, optional
        Above 1.

    Notes
    -----
    Fan and Li (2001), Variable selection via nonconcave penalized likelihood, equation (2.7).

    Examples
    --------
    >>> import ucm
    >>> ucm.SCAD(1, 3).value([1.0, 5.0])
    3.0
    """

    a: Scalar = number_in("(1, inf)", "a", "the penalty would not be concave in |w|", default=3.7)

    def profile(self, s: Vec) -> Vec:
        lam, a = value(self.lam), value(self.a)
        over = np.clip(s - lam, 0.0, (a - 1.0) * lam)
        return lam * np.minimum(s, a * lam) - over * over / (2.0 * (a - 1.0))

    def slope(self, s: Vec) -> Vec:
        lam, a = value(self.lam), value(self.a)
        return np.clip((a * lam - s) / (a - 1.0), 0.0, lam)

    def clip(self) -> Scalar:
        return self.a


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
    lam: Scalar = number_in("(0, inf)", "lam", _REMEDY, default=1.0)
    gamma: Scalar = number_in("(0, inf)", "gamma", _REMEDY, default=3.0)

    @functools.cached_property
    def lasso(self) -> GroupLasso:
        """The unweighted group lasso `sum_g ||w_g||_2` of the same groups."""
        return GroupLasso(self.groups)

    def check_features(self, n: int) -> None:
        self.lasso.check_features(n)

    def with_column(self, n: int) -> Penalty:
        raise CompositionError(
            f"with_intercept: a penalised intercept is in no group, got {self!r}; take intercept='free'"
        )

    profile, slope = MCP.profile, MCP.slope  # of the length of a group

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
