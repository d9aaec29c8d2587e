"""The certificate of a convex robust model, from the declaration alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.forms.solution import Certificate
from ucm.language.contracts import Splits, UncertaintySet, height_of
from ucm.language.robust import RobustMargin

__all__ = ["certify"]


def certify(
    model: RobustMargin,
    data: Data,
    q: Sequence[Vec],
    w: Vec | None = None,
    splits: Splits | None = None,
    tol: float = 0.0,
) -> tuple[Certificate, Vec, Vec]:
    """Bound the error of the point that the blocks q stand for.

    For x in U and any w with `||w||_p <= 1`, `-||x||_q <= optimum <= sigma_U(-w)`; both ends come from
    the definition of U (its `rebuild` and its `support`), not from the lowered form.

    Parameters
    ----------
    model : the declared problem
    q : blocks of the lowered set
    w : a dual vector of any length besides that of x; the one with the smaller gap is taken
    splits : shares of the direction at intersections, for `||w||_p = 1`
    tol : relative gap at which w is enough and x is not looked at

    Returns
    -------
    certificate, w, x
    """
    U: UncertaintySet = model.set
    w = None if w is None else data.space.direction(w, model.norm)
    x, violation = U.rebuild(data, iter(q))
    norm = data.space.norm(x, model.dual)
    splits = splits or {}
    primal, chosen = np.inf, np.zeros_like(x) if w is None else w
    if w is not None:
        primal = height_of(U, data, -w, splits)
    if norm > 0.0 and not abs(primal + norm) <= tol * norm:
        unit = data.space.dual_vector(x, model.dual)
        height = height_of(U, data, -unit, splits)
        if height < primal or w is None:
            primal, chosen = height, unit
    elif w is None:
        primal = 0.0
    gap = primal + norm
    relative = gap / max(norm, 1e-12 * data.scale)
    return Certificate(primal, -norm, gap, relative, violation), chosen, x
