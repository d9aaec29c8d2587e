"""The certificate of `loss + penalty`: a Fenchel gap, or how far from critical a point is."""

from __future__ import annotations

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.forms.objective import Composite, DifferenceOfConvex
from ucm.forms.solution import Certificate
from ucm.language.objective import Objective
from ucm.language.penalties import PenaltySum
from ucm.language.terms import FoldedConcave, Penalty, ProximalPenalty

__all__ = ["certify_point", "difference_of_convex", "falls_forever", "is_local"]


def difference_of_convex(model: Objective, data: Data) -> DifferenceOfConvex:
    """The declared objective as a standard form, from the splits of its terms."""
    return data.once(("difference of convex", model), lambda: _form(model, data))


def _form(model: Objective, data: Data) -> DifferenceOfConvex:
    G, H = model.dc()
    form = Composite(data.X, data.y, G.losses, G.penalties, data.class_weight)  # type: ignore[arg-type]
    start = _relaxed(model.penalty)
    return DifferenceOfConvex(form, H.losses, H.penalties, start)  # type: ignore[arg-type]


def _relaxed(penalty: Penalty) -> tuple[ProximalPenalty, ...]:
    """Folded concave terms as L1 at their weight, the convex part of any other."""
    terms = penalty.terms if isinstance(penalty, PenaltySum) else (penalty,)
    found: list[ProximalPenalty] = []
    for term in terms:
        found += (term.relaxed(),) if isinstance(term, FoldedConcave) else term.split()[0]
    return tuple(found)


def certify_point(
    model: Objective, data: Data, w: Vec, b: float, slopes: Vec | None
) -> Certificate:
    """Bound what can be gained at (w, b), from the declaration and a dual point.

    The split G - H of the declaration is majorised at (w, b) by `G - <gamma, .>`, gamma a subgradient of
    H there. Fenchel's inequality bounds this convex problem from below: for a convex objective
    (H = 0) the gap bounds the distance to the optimum (kind "global"); otherwise it is the residual of
    criticality, 0 exactly when gamma is a subgradient of G too, equation (12) of Ong and Le Thi
    (2013) (kind "local").

    Parameters
    ----------
    slopes : (m,) minus the slopes of the convex losses, a dual point; None takes those at (w, b)
    """
    form = difference_of_convex(model, data)
    margin = form.G.margins(w, b)
    tilt = form.tilt(margin, w)
    primal = model.value(margin, w, data.y, data.class_weight)
    here = form.G.value(margin, w, tilt)
    slopes = form.G.gradient(margin) if slopes is None else slopes
    bound, violation = form.G.lower_bound(slopes, margin, tilt)
    gap = here - bound
    relative = gap / max(abs(primal), 1e-300)
    kind = "global" if form.convex else "local"
    return Certificate(primal, primal - gap, gap, relative, violation, kind)


def falls_forever(model: Objective, data: Data, w: Vec, b: float) -> str | None:
    """Why no minimum is attained near (w, b); None where this is not known.

    A loss that falls for every margin (logistic, exponential) tends to 0 along s (w, b), s to infinity, when
    (w, b) separates the samples. With a bounded penalty the objective tends to a limit; where it is
    above that at (w, b), it falls along the whole ray.
    """
    margin = data.y * (data.X @ w + b)
    added, _ = model.loss.split()
    falling = [loss for loss in added if float(loss.gradient(np.array([-30.0]))[0]) > 0.0]
    if not falling or not (margin > 0.0).all():
        return None
    limit, before = model.penalty.value(1e12 * w), model.penalty.value(1e9 * w)
    if not limit <= before * (1.0 + 1e-12) or model.value(margin, w) < limit:
        return None
    return (
        f"no minimum is attained: the samples are separated, and the objective falls towards {limit:.6g} "
        f"as (w, b) grows, since {falling[0]!r} falls for every margin and the penalty is bounded; add a "
        "multiple of L1() or L2()"
    )


def is_local(model: Objective, data: Data, w: Vec, b: float, tol: float = 1e-9) -> bool:
    """Whether H is affine near (w, b): a critical point is then a local minimum, as the objective is
    convex there. Theorem 3.1 (IV) of Ong and Le Thi (2013), with its conditions `|w_j| != a` and
    `t_i != -mu^2`."""
    form = difference_of_convex(model, data)
    margin = form.G.margins(w, b)
    for loss in form.losses:
        if loss.slope() is None or (np.abs(margin - loss.offset) <= tol).any():
            return False
    return all(penalty.affine(w, tol) for penalty in form.penalties)
