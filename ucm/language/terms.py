"""Abstract base classes of losses and penalties, the terms of an objective.

An objective is `sum_i l(t_i) + R(w)`, `t_i = y_i (w'x_i + b)`. Each term knows its value and its *split*:
the convex terms to add and the convex terms to subtract, whose difference it is. A convex loss needs `each`,
`gradient`, `conjugate`, `conjugate_prox` and `cvxpy`; a convex penalty `value`, `prox`, `conjugate` and
`cvxpy`. The other methods have defaults.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.cone import Bound, PolyhedralCone
from ucm.language.contracts import UncertaintySet
from ucm.language.node import (
    OPERATORS,
    Arithmetic,
    Node,
    Notation,
    Result,
    RotationInvariant,
    binary,
    converted,
    number_in,
)
from ucm.language.parameter import Scalar, Scope, value
from ucm.language.statistics.samples import Samples, signed

if TYPE_CHECKING:  # of sums, which the operators below name
    from ucm.language.objective import Objective

Subgroup = Sequence[str | float] | np.ndarray | None
"""The group of each sample, (m,); None where samples have none."""
NEGLIGIBLE = 1e-12  # of a dual point: an entry that counts as 0
_FAR = 60.0  # the power of 2 from which on a gauge counts as inf, and its inverse as 0
_DIFFERENCE = 1e-7  # of the largest entry, for Jacobians by differences


class Term(Arithmetic[Result]):
    """A loss, a penalty or an objective, which supports sums and positive multiples."""

    __pow__, __lt__, __gt__ = binary("**"), binary("<"), binary(">")  # refused with a remedy

    def combine(self, symbol: str, a: object, b: object) -> Result:
        return OPERATORS["terms"](symbol, a, b)

    def addends(self) -> tuple[Any, ...]:
        """Return the terms of a sum; any other term is its only one."""
        return (self,)


def last(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return neighbours (low, high) of a bisection, where `holds` is true at low and false at high."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


# --- losses ----------------------------------------------------------------------------------------
class Loss(Term["Loss"], RotationInvariant):
    """A loss of the margin, summed over all samples or over those of a class or group."""

    example: ClassVar[str] = "Hinge()"

    if TYPE_CHECKING:

        @overload
        def __add__(self, other: Loss) -> Loss: ...  # pyright: ignore[reportOverlappingOverload]
        @overload
        def __add__(self, other: object) -> Objective: ...  # with a penalty, or a constraint of SciPy
        def __add__(self, other: object) -> Loss | Objective: ...

    @abstractmethod
    def values(self, margin: Vec, y: Vec | None = None, subgroup: Subgroup = None, /) -> Vec:
        """Return the loss of each sample, (m,); a loss of a class or group, 0 outside, needs y and groups."""

    def value(
        self, margin: Vec, y: Vec | None = None, weights: Vec | None = None, subgroup: Subgroup = None
    ) -> float:
        """Return the weighted sum of the losses of the samples, with weights 1 by default."""
        each = self.values(margin, y, subgroup)
        if weights is None:
            return float(each.sum())
        return float(weights @ np.where(weights > 0.0, each, 0.0))  # 0 times inf is 0 here

    @functools.cached_property
    def counted(self) -> Samples | None:
        """The class or group over which the loss is summed, or None for all samples."""
        return next((node.on for node in self.nodes_of_type(SubsetLoss)), None)

    def counts(self, y: Vec | None, subgroup: Subgroup = None) -> NDArray[np.bool_] | None:
        """Return the mask (m,) of the samples over which the loss is summed, or None for all.

        Raises `DataError` for a group that no sample is in, or without groups.
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
        """Return the convex losses to add and the convex losses to subtract."""


def counted_samples(on: object, where: str = "") -> Samples | None:
    """Return the samples of one class or group, or None for all; refuse anything else."""
    match on:
        case Samples() if on != signed:
            return on
        case None:
            return None
    raise CompositionError(
        f"{where}: on is pos or neg, the class whose samples count, or a group of samples as pos.group('A'), "
        f"got {brief(on)}; leave it out for all"
    )


class SubsetLoss(Node):
    """A loss summed over all samples, or over the samples of the class or group `on`.

    Parameters
    ----------
    on : pos, neg or a group of samples, optional
        Whose samples count, as `pos` or `neg.group("A")`; None for all.
    """

    on: Samples | None = converted(converter=counted_samples, default=None, kw_only=True)

    def over(self, term: str, notation: Notation) -> str:
        """Return the formula of the sum of a term over the samples of this loss."""
        if self.on is None:
            return notation.sum_over("i", term)
        return notation.sum_over(self.on.index(notation), term)


class PointwiseLoss(Loss):
    """A loss that applies one scalar function to every margin."""

    @abstractmethod
    def each(self, margin: Vec) -> Vec:
        """Return the loss of each margin, (m,), whatever its class or group."""

    def values(self, margin: Vec, y: Vec | None = None, subgroup: Subgroup = None, /) -> Vec:
        losses, counts = self.each(np.asarray(margin, dtype=float)), self.counts(y, subgroup)
        return losses if counts is None else np.where(counts, losses, 0.0)


class ConvexLoss(PointwiseLoss):
    """A loss `sum_i l(offset - t_i)`, l convex, with its conjugate `l*(s) = sup_u s u - l(u)`.

    The domain of `l*` is `[s_min, s_max]`; s_min = 0 where l is non-decreasing, as for every built-in loss
    except `LeastSquares`. `LossBall` uses l, without the offset.
    """

    if TYPE_CHECKING:

        def __mul__(self, other: object) -> ConvexLoss: ...

        __rmul__ = __truediv__ = __mul__

    @property
    def moves(self) -> str:
        """The `Need` of a loss whose margins are those of perturbed samples; empty for other losses."""
        return ""

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        return (self,), ()

    @property
    def offset(self) -> float:
        """The margin t at which the argument `offset - t` of l is 0."""
        return 0.0

    def slope(self) -> float | None:
        """Return c if `l(u) = c max(0, u)`, else None."""
        return None

    def smooth(self) -> bool:
        """Return True if l is known to have a locally Lipschitz gradient."""
        return False

    @abstractmethod
    def conjugate(self, s: Vec) -> Vec:
        """Return the conjugate `l*(s)` elementwise, inf outside of its domain."""

    @abstractmethod
    def conjugate_prox(self, v: Vec, t: Bound) -> Vec:
        """Return the proximal map of `t l*`, `argmin_s (s - v)^2 / 2 + t l*(s)`, elementwise.

        t >= 0 is a number or an array like v.
        """

    def conjugate_prox_slope(self, v: Vec, t: Bound, s: Vec) -> Vec:
        """Return the derivative of `conjugate_prox(v, t)` in v elementwise, by default a difference quotient.

        With `s = conjugate_prox(v, t)` it is `1 / (1 + t l*''(s))`, and 0 where s stays at an end of the
        domain; at a kink any number between the one-sided derivatives.
        """
        h = 1e-6 * (1.0 + np.abs(v))
        after, before = self.conjugate_prox(v + h, t), self.conjugate_prox(v - h, t)
        return np.clip((after - before) / (2.0 * h), 0.0, 1.0)

    @abstractmethod
    def gradient(self, u: Vec) -> Vec:
        """Return the derivative `l'(u)` elementwise, at a kink a subgradient.

        It is a maximiser s of `s u - l*(s)`: s_min at u = -inf, s_max at u = inf.
        """

    def conjugate_cvxpy(self, s: cp.Expression) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the conjugate `l*(s)` elementwise in CVXPY, and the constraints of its domain.

        `LossBall` needs this method, and `verify` for the dual problem. By default a `CompositionError`.
        """
        raise CompositionError(
            f"{self!r}: no conjugate in CVXPY is known; write the method conjugate_cvxpy(s)"
        )

    def steepest(self) -> float:
        """Return s_max, the largest slope of l."""
        return float(self.gradient(np.array([np.inf]))[0])

    def lowest(self) -> float:
        """Return s_min, the smallest slope of l."""
        return float(self.gradient(np.array([-np.inf]))[0])

    @functools.cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest slope of l, the ends of the domain of l*."""
        return self.lowest(), self.steepest()

    def to_set(self, radius: object) -> Any:
        """Return the set whose robust margin has the classifier of this loss with the squared l2 norm.

        `radius` is the size of the set, or a `Solution` of `loss + lam * L2()`: see `ucm.language.loss_sets`.
        """
        return OPERATORS["to_set"](self, radius)

    @abstractmethod
    def cvxpy(self, margin: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        """Return `factor l(offset - margin_i)` for each margin as a CVXPY expression."""


class JointLoss(Loss):
    """A loss of all samples together, `max over q of sum_i q_i l(t_i)`, l convex, q >= 0 in a set of weights.

    It is no sum over samples, so that its split is empty: an objective keeps it apart from its other losses.
    """

    loss: ConvexLoss

    @property
    @abstractmethod
    def weight_set(self) -> UncertaintySet:
        """The set of the weights q of all samples, in R^m, as an image of a domain."""

    @abstractmethod
    def weights_cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the point of the domain of `weight_set` as CVXPY variables, and the constraints."""

    @abstractmethod
    def means(self, each: Callable[[NDArray[np.intp]], cp.Expression], data: Data) -> cp.Expression:
        """Return the entries that the weights multiply: losses `each(rows)` of samples, or their means."""

    def split(self) -> tuple[tuple[ConvexLoss, ...], tuple[ConvexLoss, ...]]:
        return (), ()

    def times(self, factor: Scalar) -> Self:
        """Return the positive multiple of the loss, by that of l."""
        return replace(self, loss=factor * self.loss)


def loss_cvxpy(loss: ConvexLoss, margin: cp.Expression, weights: Vec | None, scope: Scope) -> cp.Expression:
    """Return the weighted sum of a convex loss over the margins in CVXPY, without samples of weight 0."""
    if weights is None:
        return cp.sum(loss.cvxpy(margin, 1.0, scope))
    rows = np.flatnonzero(weights)
    return weights[rows] @ loss.cvxpy(margin[rows], 1.0, scope)


# --- penalties -------------------------------------------------------------------------------------
class Penalty(Term["Penalty"]):
    """A penalty of the normal w, never of the bias b."""

    example: ClassVar[str] = "L1()"
    remedy: ClassVar[str] = "its weight is a factor: write lam * {}, a penalty of w, never of the bias b"

    if TYPE_CHECKING:

        @overload
        def __add__(self, other: Loss | Objective) -> Objective: ...  # pyright: ignore[reportOverlappingOverload]
        @overload
        def __add__(self, other: object) -> Penalty: ...  # another one, or a constraint of SciPy
        def __add__(self, other: object) -> Penalty | Objective: ...

    @abstractmethod
    def value(self, w: Vec, /) -> float:
        """Return the penalty R(w)."""

    @abstractmethod
    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPart, ...]]:
        """Return the convex penalties to add and the convex functions to subtract, whose difference it is."""

    def check_features(self, n: int) -> None:
        """Refuse n features if the penalty is for another number of features; by default accept any n."""
        return

    def with_column(self, n: int) -> Penalty:
        """Return the penalty of n features over one more, which is in no weights, groups and matrices.

        By default the penalty itself, defined for any number of features.
        """
        return self

    def surrogates(self) -> tuple[ProximalPenalty, ...]:
        """Return the convex penalties at which DCA starts, by default the added part of the split."""
        return self.split()[0]


class ProximalPenalty(Penalty):
    """A convex penalty with a proximal map and a conjugate.

    `value`, `prox`, `conjugate` and `cvxpy` are enough; the other methods have defaults, which a class
    replaces where it knows more.
    """

    if TYPE_CHECKING:

        def __mul__(self, other: object) -> ProximalPenalty: ...

        __rmul__ = __truediv__ = __mul__

    keeps_signs: ClassVar[bool] = True
    """True if the proximal map keeps signs and zeros: then a penalty with a `box`, as L1, may be added."""

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPart, ...]]:
        return (self,), ()

    @abstractmethod
    def prox(self, v: Vec, t: float) -> Vec:
        """Return the proximal map `argmin_w ||w - v||^2 / 2 + t R(w)`, t >= 0."""

    @abstractmethod
    def conjugate(self, z: Vec) -> float:
        """Return the conjugate `R*(z) = sup_w <z, w> - R(w)` for z in the domain of R*, up to rounding.

        Outside of the domain it is inf, or any number where the class has a `gauge`.
        """

    @abstractmethod
    def cvxpy(self, w: cp.Expression, factor: Scalar, scope: Scope) -> cp.Expression:
        """Return `factor R(w)` as a CVXPY expression."""

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return J M for a generalised Jacobian J of `prox(v, t)` in v and a matrix M (n, k).

        J is symmetric with eigenvalues in [0, 1]. By default J is from differences: n proximal maps and an
        eigenvalue decomposition.
        """
        step = _DIFFERENCE * (float(np.abs(v).max(initial=0.0)) or 1.0)
        x = self.prox(v, t)
        slopes = np.array([(self.prox(v + step * e, t) - x) / step for e in np.eye(v.size)])
        e, V = np.linalg.eigh(0.5 * (slopes + slopes.T))
        return V @ (np.clip(e, 0.0, 1.0)[:, None] * (V.T @ M))

    def gauge(self, z: Vec) -> float:
        """Return the gauge of the domain of R* at z: the least s >= 0 with z in s times the domain.

        `R*(z)` is finite if s <= 1. By default a bisection for the s at which `conjugate(z / s)` becomes
        finite.
        """

        def outside(power: float) -> bool:
            return math.isinf(self.conjugate(z * 2.0**-power))

        if outside(_FAR):
            return math.inf
        return 2.0 ** last(outside, -_FAR, _FAR)[1] if outside(-_FAR) else 0.0

    def domain_cone(self) -> PolyhedralCone | None:
        """Return the cone spanned by the domain of R* if it is polyhedral and not the whole space, else None.

        Where all penalties of a sum have such a cone, a point is projected on the sum of the cones at once.
        """
        return None

    def project_onto_domain_cone(self, z: Vec) -> Vec:
        """Return the projection of z on the cone spanned by the domain of R*.

        The default projects on `domain_cone()`; if that is None, it takes the cone as the whole space, and
        returns z itself.
        """
        cone = self.domain_cone()
        return z if cone is None else cone.project(z)

    def project_domain(self, w: Vec) -> Vec:
        """Return the projection of w on the domain of R, by default w itself, for a finite penalty."""
        return w

    def order(self) -> int:
        """Return the order of the systems of the proximal map; 0, the default, if they cost little."""
        return 0

    def norms(self) -> tuple[float, float, float] | None:
        """Return (a, c, s) if the penalty is `a ||w||_1 + c ||w||_2^2 + s ||w||_inf`, else None."""
        return None

    def box(self) -> tuple[Bound, Bound] | None:
        """Return (lower, upper) if the penalty is `sup of <z, w> over lower <= z <= upper`, else None."""
        return None

    def gradient(self, w: Vec) -> Vec | None:
        """Return the gradient at w if the penalty is differentiable everywhere, else None.

        Sums of penalties without a proximal map have tight bounds with the gradient.
        """
        return None


def _times(t: float, bound: Bound) -> Bound:
    """Return `t * bound`, for t = 0 the limit from above, so that inf stays inf."""
    return t * bound if t > 0.0 else np.where(np.isinf(bound), bound, 0.0)


def shrink_box(v: Vec, lower: Bound, upper: Bound, t: float = 1.0) -> Vec:
    """Return the proximal map at v of t times the support function of a box: v minus its projection."""
    return v - np.clip(v, _times(t, lower), _times(t, upper))


def box_gauge(z: Vec, lower: Bound, upper: Bound) -> float:
    """Return the gauge of a box at z: the least r >= 0 with z in r times the box, or inf."""
    bound = np.abs(np.where(z > 0.0, upper, lower))
    out = z != 0.0
    with np.errstate(divide="ignore"):
        return float((np.abs(z[out]) / bound[out]).max(initial=0.0))


class SupportFunction(ProximalPenalty):
    """The support function of a convex set with 0: the conjugate is 0 on the set, the gauge at most 1."""

    def conjugate(self, z: Vec) -> float:
        return 0.0


class BoxSupport(SupportFunction):
    """The support function of a box, `sup of <z, w> over lower <= z <= upper`, lower <= 0 <= upper."""

    @abstractmethod
    def box(self) -> tuple[Bound, Bound]:
        """Return the bounds (lower, upper) of the box, numbers or arrays (n,)."""

    def value(self, w: Vec, /) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        lower, upper = self.box()
        bound = np.where(w > 0.0, upper, lower)
        out = w != 0.0
        return float(bound[out] @ w[out])

    def prox(self, v: Vec, t: float) -> Vec:
        return shrink_box(np.asarray(v, dtype=float), *self.box(), t)

    def gauge(self, z: Vec) -> float:
        return box_gauge(np.asarray(z, dtype=float), *self.box())

    def domain_cone(self) -> PolyhedralCone:
        return PolyhedralCone(*self.box())


class Relaxed(Penalty):
    """A penalty that is no difference of convex functions, with a convex lower bound of its sum."""

    @property
    @abstractmethod
    def exact(self) -> bool:
        """True if the lower bound is the sum itself."""

    @abstractmethod
    def envelope(self, added: Sequence[ProximalPenalty]) -> tuple[ProximalPenalty, ...]:
        """Return convex penalties whose sum is at most that of the given ones and this penalty."""

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPart, ...]]:
        return self.envelope(()), ()


class FoldedConcave(Penalty):
    """A penalty `sum_j r(|w_j|)`, r concave and increasing from r(0) = 0, its slope finite at 0.

    It splits as `tangent - excess`: `r'(0) ||w||_1` and the convex
    `sum_j r'(0) |w_j| - r(|w_j|)`.
    """

    def split(self) -> tuple[tuple[ProximalPenalty, ...], tuple[SubtractedPart, ...]]:
        return (self.tangent(),), (FoldedExcess(self),)

    def value(self, w: Vec, /) -> float:
        w = np.asarray(w, dtype=float)
        self.check_features(w.size)
        return float(self.profile(self.lengths(w)).sum())

    @abstractmethod
    def profile(self, s: Vec) -> Vec:
        """Return r(s) elementwise for s >= 0."""

    @abstractmethod
    def slope(self, s: Vec) -> Vec:
        """Return the right derivative r'(s) elementwise for s >= 0."""

    @abstractmethod
    def tangent(self) -> ProximalPenalty:
        """Return the added part `r'(0) ||w||_1` of the split, as a declaration."""

    def lengths(self, w: Vec) -> Vec:
        """Return the arguments of r: by default `|w_j|`, for groups of features the norms `||w_g||`.

        A class with groups overrides `spread` as well.
        """
        return np.abs(w)

    def spread(self, of_lengths: Vec) -> Vec:
        """Return for each feature the entry of `of_lengths` of that feature or of its group, (n,)."""
        return of_lengths

    def excess_formula(self, notation: Notation) -> str:
        """Return the formula of the subtracted part `sum_j r'(0) |w_j| - r(|w_j|)`."""
        return f"({self.tangent().formula(notation)} - {self.formula(notation)})"


class SubtractedPart(Node):
    """A multiple of a convex function h of w, which a penalty subtracts: the second part of `Penalty.split`.

    A class states `height`, `slopes` and `term`, the value of h, a subgradient and the formula. DCA replaces
    h by its tangent planes; the penalty must be bounded below.

    Parameters
    ----------
    factor : float or Param, optional
        Not negative; the penalty's own factor multiplies it.
    """

    factor: Scalar = number_in(
        "[0, inf)", "factor", "write it as the factor of the penalty", default=1.0, kw_only=True
    )

    @abstractmethod
    def height(self, w: Vec, /) -> float:
        """Return h(w)."""

    @abstractmethod
    def slopes(self, w: Vec, /) -> Vec:
        """Return a subgradient of h at w, (n,)."""

    @abstractmethod
    def term(self, notation: Notation) -> str:
        """Return the formula of h."""

    @property
    def coordinatewise(self) -> bool:
        """True if the function is a sum over single weights; by default False."""
        return False

    def value(self, w: Vec) -> float:
        """Return the value of the function at w."""
        return value(self.factor) * self.height(np.asarray(w, dtype=float))

    def subgradient(self, w: Vec) -> Vec:
        """Return a subgradient of the function at w, (n,)."""
        return value(self.factor) * self.slopes(np.asarray(w, dtype=float))

    def affine(self, w: Vec, tol: float) -> bool:
        """Return True if the function is known to be affine near w, in `|w_j|` within `tol max(1, |w_j|)`."""
        return False

    def formula(self, notation: Notation) -> str:
        return multiple(self.factor, self.term(notation), notation)


class FoldedExcess(SubtractedPart):
    """The convex function `sum_j (r'(0) |w_j| - r(|w_j|))`, subtracted by a folded concave penalty.

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

    @property
    def coordinatewise(self) -> bool:
        return type(self.penalty).lengths is FoldedConcave.lengths

    def _steepest(self) -> float:
        return float(self.penalty.slope(np.zeros(1))[0])

    def each(self, s: Vec) -> Vec:
        """Return the summands, times the factor, at the lengths s, which are `|w_j|` or norms of groups."""
        return value(self.factor) * (self._steepest() * s - self.penalty.profile(s))

    def height(self, w: Vec) -> float:
        s = self.penalty.lengths(w)
        return float((self._steepest() * s - self.penalty.profile(s)).sum())

    def slopes(self, w: Vec) -> Vec:
        s = self.penalty.lengths(w)
        unit = np.divide(w, self.penalty.spread(s), out=np.zeros_like(w), where=w != 0.0)
        return unit * self.penalty.spread(self._steepest() - self.penalty.slope(s))

    def affine(self, w: Vec, tol: float) -> bool:
        # as r is concave, its slope is constant between two points of equal slope
        s, slope = np.abs(w), self.penalty.slope
        reach = tol * np.maximum(1.0, s)  # far above rounding, where equal slopes say nothing
        return self.coordinatewise and bool(np.all(slope(np.maximum(s - reach, 0.0)) == slope(s + reach)))

    def term(self, notation: Notation) -> str:
        return self.penalty.excess_formula(notation)


def multiple(factor: Scalar, term: str, notation: Notation) -> str:
    """Return the formula `factor * term`, without a factor of 1."""
    return term if factor == 1.0 else notation.scalar(factor) + notation.times + term
