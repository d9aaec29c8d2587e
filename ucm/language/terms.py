"""The contracts of what an objective is made of: losses and penalties.

An objective is `sum_i l(t_i) + R(w)`, `t_i = y_i (w'x_i + b)`. Each term knows its value and its *split*:
the convex terms to add and the convex terms to subtract. A convex term brings what solvers,
certificates and the CVXPY twin need; reading this page is enough to write one.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.node import (
    OPERATORS,
    Arithmetic,
    Node,
    Notation,
    RotationInvariant,
    converted,
)
from ucm.language.parameter import Scalar, Scope
from ucm.language.statistics.samples import Samples, signed

__all__ = [
    "Bound",
    "Boxed",
    "ConvexLoss",
    "FoldedConcave",
    "Loss",
    "Penalty",
    "PointwiseLoss",
    "ProximalPenalty",
    "Scope",
    "SubsetLoss",
    "SubtractedPart",
    "SubtractedPenalty",
    "Term",
    "box_cone",
    "box_gauge",
    "loss_cvxpy",
    "shrink_box",
]

Bound = float | Vec
"""A bound of every coordinate, or one for each."""
_FAR = 60.0  # a power of 2 beyond which a gauge is 0 or inf
_DIFFERENCE = 1e-7  # of the largest entry, for Jacobians by differences


class Term(Arithmetic[Any]):
    """What can be multiplied by positive numbers and added: losses, penalties, objectives."""

    def combine(self, symbol: str, a: Any, b: Any) -> Any:
        meaning = OPERATORS.get(f"term {symbol}")
        return NotImplemented if meaning is None else meaning(a, b)


# --- losses ----------------------------------------------------------------------------------------
class Loss(Term, RotationInvariant):
    """A loss of the margin, summed over the samples."""

    example: ClassVar[str] = "Hinge()"

    @abstractmethod
    def values(self, margin: Vec, y: Vec | None = None, subgroup: Any = None, /) -> Vec:
        """The loss of each sample, (m,); the labels y and the groups tell which samples count where a loss
        is of a class or of a group."""

    def value(
        self, margin: Vec, y: Vec | None = None, weights: Vec | None = None, subgroup: Any = None
    ) -> float:
        """The sum over the samples, each times its weight."""
        each = self.values(margin, y, subgroup)
        if weights is None:
            return float(each.sum())
        return float(weights @ np.where(weights > 0.0, each, 0.0))  # 0 times inf is 0 here

    @functools.cached_property
    def counted(self) -> Samples | None:
        """The samples whose loss counts; None for all."""
        return next((node.on for node in self.walk() if isinstance(node, SubsetLoss)), None)

    def counts(self, y: Vec | None, subgroup: Any = None) -> NDArray[np.bool_] | None:
        """(m,) whether each sample counts; None where all do.

        Parameters
        ----------
        subgroup : (m,) labels of groups; None where samples have none

        Raises
        ------
        CompositionError
            The loss is of a class or a group, and there are no labels.
        DataError
            The loss is of a group that no sample is in, or there are no groups.
        """
        if self.counted is None:
            return None
        if y is None:
            raise CompositionError(
                f"{self!r}: expected the labels of the samples, as it is a loss of a class or a group, got "
                "margins alone; write value(margin, y)"
            )
        return self.counted.among(np.asarray(y), subgroup)

    @abstractmethod
    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        """Convex losses to add, and convex losses to subtract."""


def _counted(on: Any, where: str = "") -> Samples | None:
    if on is None or (isinstance(on, Samples) and on != signed):
        return on
    raise CompositionError(
        f"{where}: on is pos or neg, the class whose samples count, or a group of samples as pos.group('A'), "
        f"got {brief(on)}; leave it out for all"
    )


class SubsetLoss(Node):
    """A loss that counts all samples, or those of one class or group.

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos`, `neg.group("A")` or `signed.group("A")`; None for all.

    Raises
    ------
    CompositionError
        `on` is something else.
    """

    on: Samples | None = converted(converter=_counted, default=None, kw_only=True)

    def over(self, term: str, notation: Notation) -> str:
        """The term summed over the samples i that count."""
        if self.on is None:
            return notation.sum_over("i", term)
        return notation.sum_over(self.on.index(notation), term)


class PointwiseLoss(Loss):
    """A loss that applies one function to every margin."""

    @abstractmethod
    def each(self, margin: Vec) -> Vec:
        """The loss of each margin, (m,)."""

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Any = None, /) -> Vec:
        found, counts = self.each(np.asarray(margin, dtype=float)), self.counts(y, subgroup)
        return found if counts is None else np.where(counts, found, 0.0)


class ConvexLoss(PointwiseLoss):
    """`sum_i l(offset - t_i)`, l convex, with its conjugate `l*(s) = sup_u s u - l(u)`. All but
    `LeastSquares` are non-decreasing: s_min = 0. `LossBall` reads l, without the offset."""

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        return (self,), ()

    @property
    def offset(self) -> float:
        """The margin at which l is read at 0."""
        return 0.0

    def slope(self) -> float | None:
        """c where `l(u) = c max(0, u)`; None for any other loss."""
        return None

    def smooth(self) -> bool:
        """True if l has a locally Lipschitz gradient."""
        return False

    @abstractmethod
    def conjugate(self, s: Vec) -> Vec:
        """`l*(s)` elementwise; inf outside its domain, which is `[s_min, s_max]`."""

    @abstractmethod
    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        """`argmin_s (s - v)^2 / 2 + t l*(s)` elementwise, t >= 0 a number or one for each entry."""

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        """ds/dv elementwise, s what `conjugate_prox(v, t)` gave: `1 / (1 + t l*''(s))`, and 0 where s stays
        at an end of the domain; at a kink any number between those of both sides. By default a difference
        quotient."""
        h = 1e-6 * (1.0 + np.abs(v))
        ahead, behind = self.conjugate_prox(v + h, t), self.conjugate_prox(v - h, t)
        return np.clip((ahead - behind) / (2.0 * h), 0.0, 1.0)

    @abstractmethod
    def gradient(self, u: Vec) -> Vec:
        """`l'(u)` elementwise: the maximiser s of `s u - l*(s)`; `l'(-inf)` is s_min, `l'(inf)` s_max."""

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        """CVXPY: `l*(s)` elementwise on its domain, and s in this domain. `LossBall` needs it, and `verify`
        for the dual problem.

        Raises
        ------
        CompositionError
            By default, as a loss need not have one.
        """
        raise CompositionError(
            f"{self!r}: no conjugate in CVXPY is known; write the method conjugate_cvxpy(s)"
        )

    def steepest(self) -> float:
        """s_max, the largest slope: the end of the domain of `l*`."""
        return float(self.gradient(np.array([np.inf]))[0])

    def lowest(self) -> float:
        """s_min, the smallest slope: 0 where l is non-decreasing."""
        return float(self.gradient(np.array([-np.inf]))[0])

    def to_set(self, radius: Any) -> Any:
        """The set of weights that stands for this loss with the squared l2 norm, of this size or, given
        a `Solution` of `loss + lam * L2()`, of the fitted one: `ucm.language.loss_sets.to_set`."""
        return OPERATORS["to_set"](self, radius)

    @abstractmethod
    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        """`factor l(offset - margin_i)` in CVXPY, for each margin."""


def loss_cvxpy(
    loss: ConvexLoss, margin: cp.Expression, weights: Vec | None, scope: Scope
) -> cp.Expression:
    """`sum_i c_i l(t_i)` in CVXPY; without weights all c_i are 1, and samples of weight 0 are left out."""
    if weights is None:
        return cp.sum(loss.cvxpy(margin, 1.0, scope))
    rows = np.flatnonzero(weights)
    return weights[rows] @ loss.cvxpy(margin[rows], 1.0, scope)


# --- penalties -------------------------------------------------------------------------------------
class Penalty(Term):
    """A penalty of the normal w, never of the bias b.

    Parameters
    ----------
    *args, **kwargs
        The fields of the class; others are refused by name.
    """

    example: ClassVar[str] = "L1()"

    def __new__(cls, *args: Any, **kwargs: Any) -> Penalty:
        names = cls._names
        unknown = [k for k in kwargs if k not in names]
        if len(args) > len(names) or unknown:
            got = unknown[0] if unknown else repr(args[len(names)])
            takes = f"takes {', '.join(names)}" if names else "takes nothing"
            if not unknown and not isinstance(args[len(names)], str):
                raise CompositionError(
                    f"{cls.__name__}: {takes}, got {got} too; its weight is a factor: write "
                    f"lam * {cls.__name__}({', '.join(names)})"
                )
            raise CompositionError(
                f"{cls.__name__}: {takes}, got {got}; a penalty is of w, never of the bias b "
                "(a shift of the features would change the classifier)"
            )
        return super().__new__(cls)

    @abstractmethod
    def value(self, w: Vec, /) -> float:
        """The penalty of w."""

    @abstractmethod
    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        """Convex penalties to add, and convex functions to subtract."""

    def check_features(self, n: int) -> None:
        """Refuse n features where the penalty is written for another number; by default it is for any."""
        return

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        """The convex penalties that DCA starts from: by default those that the split adds."""
        return self.split()[0]


class SubtractedPenalty(Node):
    """A convex function of w that a split subtracts: known through its subgradients."""

    @abstractmethod
    def value(self, w: Vec) -> float:
        """Its value at w."""

    @abstractmethod
    def subgradient(self, w: Vec) -> Vec:
        """A subgradient, (n,)."""

    def each(self, s: Vec) -> Vec | None:
        """Its value at each `s_j = |w_j|`, (n,), where it is a sum of functions of these; else None."""
        return None

    @abstractmethod
    def affine(self, w: Vec, tol: float) -> bool:
        """Whether it is an affine function near w, no kink within tol of a coordinate."""


class ProximalPenalty(Penalty):
    """A convex penalty with a proximal map and a conjugate. `value`, `prox`, `conjugate` and `cvxpy` are
    enough; the other methods have defaults, which a class replaces where it knows more.

    Attributes
    ----------
    keeps_signs : True if the proximal map changes no sign and leaves 0 at 0: then L1, or any other penalty
        that has a `box`, may be added
    """

    keeps_signs: ClassVar[bool] = True

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        return (self,), ()

    @abstractmethod
    def prox(self, v: Vec, t: float) -> Vec:
        """`argmin_w ||w - v||^2 / 2 + t R(w)`, t >= 0."""

    @abstractmethod
    def conjugate(self, z: Vec) -> float:
        """`R*(z) = sup_w <z, w> - R(w)`, for z in its domain, with rounding. Outside of it, inf unless
        there is a `gauge`."""

    @abstractmethod
    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        """`factor R(w)` in CVXPY."""

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """A generalised Jacobian of `prox(v, t)` in v, symmetric with eigenvalues in [0, 1], times M, an
        (n, k) array. By default from differences: n proximal maps and an eigenvalue decomposition."""
        step = _DIFFERENCE * (float(np.abs(v).max(initial=0.0)) or 1.0)
        x = self.prox(v, t)
        slopes = np.array([(self.prox(v + step * e, t) - x) / step for e in np.eye(v.size)])
        e, V = np.linalg.eigh(0.5 * (slopes + slopes.T))
        return V @ (np.clip(e, 0.0, 1.0)[:, None] * (V.T @ M))

    def gauge(self, z: Vec) -> float:
        """The least s with z in s times the domain of R*: at most 1 when `R*(z)` is finite. By default a
        bisection for where `conjugate` becomes infinite."""
        low, high = -_FAR, _FAR  # powers of 2
        if math.isinf(self.conjugate(z * 2.0**-high)):
            return math.inf
        if math.isfinite(self.conjugate(z * 2.0**-low)):
            return 0.0
        while high - low > 1e-12:
            middle = 0.5 * (low + high)
            inside = math.isfinite(self.conjugate(z * 2.0**-middle))
            low, high = (low, middle) if inside else (middle, high)
        return 2.0**high

    def spanned(self, z: Vec) -> Vec:
        """The nearest point of the cone that the domain of R* spans. By default the cone is the space."""
        return z

    def norms(self) -> tuple[float, float, float] | None:
        """(a, c, s) where the penalty is `a ||w||_1 + c ||w||_2^2 + s ||w||_inf`; else None."""
        return None

    def box(self) -> tuple[Bound, Bound] | None:
        """(lower, upper) where the penalty is `sup of <z, w> over lower <= z <= upper`; else None."""
        return None

    def gradient(self, w: Vec) -> Vec | None:
        """The gradient at w of a penalty that is differentiable everywhere, with which sums without a
        proximal map have tight bounds; else None."""
        return None


def _times(t: float, bound: Bound) -> Bound:
    """`t` times a bound; inf stays inf for t = 0, the limit from above."""
    return t * bound if t > 0.0 else np.where(np.isinf(bound), bound, 0.0)


def shrink_box(v: Vec, lower: Bound, upper: Bound, t: float = 1.0) -> Vec:
    """What the projection of v on t times the box leaves: `argmin_w ||w - v||^2 / 2 + t R(w)`, R the
    support function of the box; for t = 0 the projection on the domain of R."""
    return v - np.clip(v, _times(t, lower), _times(t, upper))


def box_gauge(z: Vec, lower: Bound, upper: Bound) -> float:
    """The least r with z in r times the box, inf where there is none; lower <= 0 <= upper."""
    wall = np.abs(np.where(z > 0.0, upper, lower))
    out = z != 0.0
    with np.errstate(divide="ignore"):
        return float((np.abs(z[out]) / wall[out]).max(initial=0.0))


def box_cone(z: Vec, lower: Bound, upper: Bound) -> Vec:
    """The nearest point of the cone that the box spans."""
    wall = np.where(z > 0.0, upper, lower)
    return np.where(wall != 0.0, z, 0.0)


class Boxed(ProximalPenalty):
    """`sup of <z, w> over lower <= z <= upper`, lower <= 0 <= upper; said by `box` alone."""

    @abstractmethod
    def box(self) -> tuple[Bound, Bound]:
        """(lower, upper), numbers or one for each feature."""

    def value(self, w: Vec, /) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        lower, upper = self.box()
        wall = np.where(w > 0.0, upper, lower)
        out = w != 0.0
        return float(wall[out] @ w[out])

    def prox(self, v: Vec, t: float) -> Vec:
        return shrink_box(np.asarray(v, dtype=float), *self.box(), t)

    def conjugate(self, z: Vec) -> float:
        return 0.0

    def gauge(self, z: Vec) -> float:
        return box_gauge(np.asarray(z, dtype=float), *self.box())

    def spanned(self, z: Vec) -> Vec:
        return box_cone(z, *self.box())


class FoldedConcave(Penalty):
    """`sum_j r(|w_j|)`, r concave and increasing from r(0) = 0, its slope finite at 0.

    It splits as `tangent - excess`: `r'(0) ||w||_1` and the convex
    `sum_j r'(0) |w_j| - r(|w_j|)`.
    """

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPenalty, ...]]:
        return (self.tangent(),), (SubtractedPart(self),)

    def value(self, w: Vec, /) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        return float(self.profile(self.lengths(w)).sum())

    @abstractmethod
    def profile(self, s: Vec) -> Vec:
        """r(s) elementwise, s >= 0."""

    @abstractmethod
    def slope(self, s: Vec) -> Vec:
        """r'(s) elementwise, from the right, s >= 0."""

    @abstractmethod
    def tangent(self) -> ProximalPenalty:
        """`r'(0) ||w||_1` as a declaration."""

    def lengths(self, w: Vec) -> Vec:
        """The arguments of r: by default `|w_j|`. A penalty of groups has their norms, with `spread`."""
        return np.abs(w)

    def spread(self, of_lengths: Vec) -> Vec:
        """(n,) for each feature the entry of its length."""
        return of_lengths

    def straight(self, s: Vec, tol: float) -> bool:
        """True if r is known to be affine within tol of every s (near s = 0: to its right)."""
        return False

    def excess_formula(self, notation: Notation) -> str:
        """`sum_j r'(0) |w_j| - r(|w_j|)` as mathematics."""
        return f"({self.tangent().formula(notation)} - {self.formula(notation)})"


class SubtractedPart(SubtractedPenalty):
    """`sum_j r'(0) |w_j| - r(|w_j|)` of a folded concave penalty: convex, as r is concave.

    Its subgradient is `sign(w_j) (r'(0) - r'(|w_j|))`, r' from the right, 0 at w_j = 0: equations
    (21) and (27) of Ong and Le Thi (2013). For groups `w_g / ||w_g||` takes the place of the sign.

    Examples
    --------
    >>> import ucm
    >>> added, subtracted = ucm.CappedL1(1).split()
    >>> print(added[0], "-", subtracted[0])
    ‖w‖₁ - Σ_{j} max(0, |w_j| - 1)
    """

    penalty: FoldedConcave

    def _steepest(self) -> float:
        return float(self.penalty.slope(np.zeros(1))[0])

    def _excess(self, s: Vec) -> Vec:
        return self._steepest() * s - self.penalty.profile(s)

    def each(self, s: Vec) -> Vec | None:
        alone = type(self.penalty).lengths is FoldedConcave.lengths
        return self._excess(s) if alone else None

    def value(self, w: Vec) -> float:
        return float(self._excess(self.penalty.lengths(np.asarray(w, dtype=float))).sum())

    def subgradient(self, w: Vec) -> Vec:
        w = np.asarray(w, dtype=float)
        s = self.penalty.lengths(w)
        unit = np.divide(w, self.penalty.spread(s), out=np.zeros_like(w), where=w != 0.0)
        return unit * self.penalty.spread(self._steepest() - self.penalty.slope(s))

    def affine(self, w: Vec, tol: float) -> bool:
        return self.penalty.straight(self.penalty.lengths(np.asarray(w, dtype=float)), tol)

    def formula(self, notation: Notation) -> str:
        return self.penalty.excess_formula(notation)
