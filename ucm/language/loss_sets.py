"""Conversion of losses to uncertainty sets and back: Ito, Takeda and Toh (2015), section 5.2.

The dual of `loss + lam ||w||_2^2` is over slopes alpha of the loss with `y'alpha = 0`. With their sum s
held, `q = alpha / s` is a distribution over the samples with mass 1/2 on each class, w is a positive
multiple of `sum q_i y_i x_i`, and among all q with `sum l*(s q_i)` no larger that sum is the nearest to
0. So the robust model of `Hull(signed, weights=D)`, D the ball of l* through q, has the same classifier:

| loss | D |
| --- | --- |
| `Hinge()`, `Ramp` parts | `CappedSimplex(slope / s)` |
| `Hinge(p)`, 1/p + 1/p' = 1 | `NormBall(||q||_p', p')` |
| `Exponential()` | `KLBall(exp(-KL(q, uniform)))` |
| any other | `LossBall((m / s) l, (1 / s) sum l*(alpha_i))` |

Which radius belongs to which lam is known only at the optimum (their Lemma 5): a solution gives it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import xlogy

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language.contracts import BoundDomain, Domain, SampleWeights, UncertaintySet
from ucm.language.domains import CappedSimplex, KLBall, LossBall, NormBall
from ucm.language.domains.divergence_ball import ConjugateFunction, check_slopes
from ucm.language.domains.norm_ball import PowerFunction
from ucm.language.domains.separable_constraint import SimplexSublevelSet
from ucm.language.domains.simplex import Capped
from ucm.language.losses import Exponential, Hinge
from ucm.language.node import operator
from ucm.language.objective import split_scalar
from ucm.language.parameter import Scalar, as_factor
from ucm.language.robust import dual_exponent
from ucm.language.sets.combination import summands
from ucm.language.sets.hull import Hull
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.terms import ConvexLoss


@operator("to_set")
def to_set(loss: ConvexLoss, radius: object) -> UncertaintySet:
    """Return the set `Hull(signed, weights=D)` with the classifier of `loss + lam * L2()` for some lam.

    Parameters
    ----------
    loss : ConvexLoss
    radius : float, Param or Solution
        The size of D (the cap, the radius, or alpha), or a solution of `loss + lam * L2()`.

    Raises
    ------
    CompositionError
        The radius is neither, the solution has no weights, l falls somewhere (`LeastSquares`), or its slopes
        are too small for any size: then a multiple of the loss has a set.

    Examples
    --------
    >>> import ucm
    >>> ucm.Hinge(2).to_set(0.3)
    Hull(signed, weights=NormBall(0.3))
    """
    check_slopes(loss, f"{loss!r}.to_set")
    base = split_scalar(loss)[1]  # a multiple changes the size only
    size, weights = as_factor(radius), getattr(radius, "weights", None)
    if size is None and (weights is None or not np.any(weights)):
        raise CompositionError(
            f"{loss!r}.to_set: expected a number, a Param or a Solution of loss + lam * L2(), got {radius!r}"
        )
    if size is not None and base.slope() is None and loss.steepest() <= 1.0:
        raise CompositionError(
            f"{loss!r}.to_set: empty whatever the size, the loss has slope at most {loss.steepest():g}, and "
            f"the weights, N times each, have mean 1; multiply the loss, as (2 * {base!r}).to_set({radius!r})"
        )
    return Hull(signed, weights=_ball(loss, base, size, np.asarray(weights, dtype=float)))


def _ball(loss: ConvexLoss, base: ConvexLoss, size: Scalar | None, alpha: Vec) -> Domain:
    """Return the ball D of a size, by default the size with `q = alpha / sum(alpha)` on its boundary."""
    total, slope = alpha.sum(), loss.slope()
    q = alpha / total
    if slope is not None:
        return CappedSimplex(slope / total if size is None else size)
    match base:
        case Hinge():
            dual = dual_exponent(base.p)
            return NormBall(float(np.linalg.norm(q, dual)) if size is None else size, p=dual)
        case Exponential():
            return KLBall(float(np.exp(-xlogy(q, q * q.size).sum())) if size is None else size)
    if size is not None:
        return LossBall(loss, size)
    return LossBall((q.size / total) * loss, loss.conjugate(alpha).sum() / total)


@operator("to_loss")
def to_loss(U: UncertaintySet) -> ConvexLoss:
    """Return the loss, up to a positive multiple, whose generalised nu-SVM has the set U.

    Raises
    ------
    CompositionError
        The set is no positive multiple of a hull of all samples with a ball of weights, or of the difference
        of the reduced hulls of the classes with one cap.

    Examples
    --------
    >>> import ucm
    >>> ucm.models.l2_nu_svm(0.3).to_loss()
    Hinge(p=2)
    """
    match sorted(summands(U.substitute(U.params())), key=lambda part: -part[1]):  # fractions as numbers, too
        case [(Hull(samples=samples, weights=Domain() as weights), c)] if samples == signed and c > 0.0:
            if isinstance(weights, LossBall):
                return weights.loss
            bound = weights.bind(SampleWeights(2))
            if isinstance(bound, Capped) and bound.groups is not None and bound.cap < math.inf:
                return Hinge()
            loss_ball = as_loss_ball(bound)
            if loss_ball is not None:
                return split_scalar(loss_ball[0])[1]
        case [(Hull(weights=CappedSimplex(relative=False)) as A, c), (Hull() as B, d)] if c > 0.0:
            if (A.samples, B.samples, B.weights, d) == (pos, neg, A.weights, -c):
                return Hinge()
    raise CompositionError(
        f"{U!r}: no loss is known for it; a loss belongs to Hull(signed, weights=...) with a capped "
        "simplex, a norm ball, a KL ball or a LossBall, and to ReducedHull(pos, ...) - ReducedHull(neg, ...) "
        "of one cap"
    )


def as_loss_ball(D: BoundDomain) -> tuple[ConvexLoss, float] | None:
    """Return the loss and the radius of the `LossBall` equal to a bound domain, or None for others."""
    if not isinstance(D, SimplexSublevelSet):
        return None
    h = D.h
    if isinstance(h, ConjugateFunction):
        return h.loss, D.radius
    if not isinstance(h, PowerFunction) or (h.middle and h.p != 2.0):
        return None
    if h.middle:  # on the simplex the mean of `(N q_i)^2` is at most N radius^2 + 1
        return Hinge(2.0), 0.25 * (D.radius**2 * D.samples.total + 1.0)
    dual = dual_exponent(h.p)
    power = (D.radius * D.samples.total ** (1.0 / dual)) ** h.p
    return Hinge(dual), (dual - 1.0) * dual**-h.p * power
