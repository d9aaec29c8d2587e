"""The certificate of `loss + penalty`: the Fenchel gap, or the residual of criticality if not convex.

Everything is computed from the declaration and the samples: the split of its terms, their values, slopes and
conjugates. The form that a solver was given is not used, so that a wrong one cannot confirm itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.evidence.bound import Normal, SampleDual, lower_bound
from ucm.evidence.certificate import fault, of_objective
from ucm.forms.solution import Certificate
from ucm.language.objective import ConvexPart, Objective
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.terms import ConvexLoss


@dataclass(frozen=True)
class Tangent:
    """The tangent plane `height + <margin, t> + <normal, w>` of the subtracted function H at a point."""

    margin: Vec
    normal: Vec
    height: float


def tangent_plane(H: ConvexPart, data: Data, normal: Normal, margin: Vec) -> Tangent:
    """Return the tangent plane of the subtracted function H at a normal w and its margins."""
    slopes = _slopes(H, data, margin)
    height = sum(loss.value(margin, data.y, data.weights, data.groups) for loss in H.losses)
    u, constant = normal.tangent(H.penalties)  # type: ignore[arg-type]
    return Tangent(slopes, u, height - float(slopes @ margin) + constant)


def _slopes(part: ConvexPart, data: Data, margin: Vec) -> Vec:
    """Return the derivative of the losses of a convex part in each margin, at a kink a subgradient."""
    slopes = np.zeros(data.m)
    for loss in part.losses:
        c = weights_in(loss, data)
        slopes -= (1.0 if c is None else c) * loss.gradient(loss.offset - margin)
    return slopes


def loss_slopes(model: Objective, data: Data, margin: Vec) -> Vec:
    """Return the derivative of the total loss in each margin."""
    G, H = model.dc()
    return _slopes(G, data, margin) - _slopes(H, data, margin)


def certify_objective(
    model: Objective, data: Data, normal: Normal, b: float, slopes: Vec | None, tol: float = 0.0
) -> Certificate:
    """Return the certificate of (w, b) for `loss + penalty`, by Fenchel duality at a dual point.

    The split G - H of the declaration is majorised at (w, b) by G minus the tangent plane of H.
    Fenchel's inequality bounds this convex problem from below: for a convex objective (H = 0) the gap
    bounds the distance to the optimum (kind "global"); otherwise it is the residual of criticality, 0
    exactly when the slopes of the plane are a subgradient of G too, equation (12) of Ong and Le Thi
    (2013) (kind "local"). The dual point `slopes` is minus the slopes of the convex losses; None takes
    those at (w, b). A relative gap of `tol` is enough.
    """
    G, H = model.dc()
    margin = data.y * (normal.scores + b)
    primal = model.loss.value(margin, data.y, data.weights, data.groups)
    primal += normal.value(model.penalty)
    plane = tangent_plane(H, data, normal, margin)
    losses = [(loss, data.factors if (c := weights_in(loss, data)) is None else c) for loss in G.losses]
    point = SampleDual(losses, data.y, margin, slopes, plane.margin if H.losses else None)
    penalty = CombinedPenalty(G.penalties)  # type: ignore[arg-type]
    enough = primal - tol * abs(primal) + plane.height
    bound, violation = lower_bound(point, normal, penalty, plane.normal, enough)
    dual, at_zero, wrong = bound - plane.height, 0.0, None
    if primal < dual:  # only then the size of the terms matters
        at_zero = model.loss.value(np.zeros(data.m), data.y, data.weights, data.groups)
        # where a kernel is indefinite, the dual may exceed the primal objective
        wrong = None if normal.indefinite else fault("the conjugate of a term", model)
    kind = "global" if model.convex else "local"
    return of_objective(primal, dual, violation, at_zero, kind=kind, wrong=wrong)


def weights_in(loss: ConvexLoss, data: Data) -> Vec | None:
    """Return the weights of all samples in a loss, 0 outside its group; None if all weights are 1."""
    counts = loss.counts(data.y, data.groups)
    return data.weights if counts is None else np.where(counts, data.factors, 0.0)


# --- unattained and local minima ----------------------------------------------------------------------
def is_unattained(model: Objective, data: Data, w: Vec, b: float) -> str | None:
    """Return the reason why the objective attains no minimum near (w, b), or None if none is known.

    A loss that falls for every margin (logistic, exponential) tends to 0 along s (w, b), s to infinity, when
    (w, b) separates the samples, and along s (0, b) when the losses count one class. With a bounded penalty
    the objective tends to a limit; where it is above that at (w, b), it falls along the whole ray.
    """
    margin = data.y * (data.X @ w + b)
    value = model.value(margin, w, data.y, data.weights, data.groups)
    added, _ = model.loss.split()
    falling = [loss for loss in added if float(loss.gradient(np.array([-30.0]))[0]) > 0.0]
    classes = [loss.counts(data.y, data.groups) for loss in added]
    for normal, t in ((w, margin), (np.zeros_like(w), b * data.y)):
        counted = [t if counts is None else t[counts] for counts in classes]
        limit, before = model.penalty.value(1e12 * normal), model.penalty.value(1e9 * normal)
        separates = bool(falling) and bool((np.concatenate(counted) > 0.0).all())
        if separates and limit <= before * (1.0 + 1e-12) and value >= limit:
            break
    else:
        return None
    remedy = "add a multiple of L1() or L2()" if normal.any() else "count both classes in the loss"
    return (
        f"no minimum is attained: the samples are separated, and the objective falls towards {limit:.6g} "
        f"as (w, b) grows, since {falling[0]!r} falls for every margin and the penalty is bounded; {remedy}"
    )


def is_local(model: Objective, data: Data, w: Vec, b: float, tol: float = 1e-9) -> bool:
    """True if the subtracted function H is affine near (w, b).

    A critical point is then a local minimum, as the objective is convex near it. Theorem 3.1 (IV) of Ong and
    Le Thi (2013), with its conditions `|w_j| != a` and `t_i != -mu^2`.
    """
    H = model.dc()[1]
    margin = data.y * (data.X @ w + b)
    for loss in H.losses:
        if loss.slope() is None or (np.abs(margin - loss.offset) <= tol).any():
            return False
    return all(h.affine(w, tol) for h in H.penalties)  # type: ignore[union-attr]
