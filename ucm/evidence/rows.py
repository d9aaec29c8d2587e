"""What one pass over all rows proves of two reduced hulls.

For `x = sum_c f_c sum_i q_i x_i` with `0 <= q_i <= cap_c c_i`, `sum q_i = mass_c`, and any w of length 1
at most and theta,

    min over the set of w'x  >=  sum_c { mass_c theta_c - cap_c sum_i c_i max(0, theta_c - f_c w'x_i) },

a sum over rows, so that no vector of their number is needed; the best theta_c is an order statistic, another
weakens the bound and never breaks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.forms.rows import RowHulls
from ucm.forms.solution import Certificate

__all__ = ["RowProof", "below", "proven"]


def below(d: Vec, positive: NDArray[np.bool_], weights: Vec | None = None) -> tuple[float, float]:
    """`sum c_i max(0, -d_i)` over class +1 and over class -1."""
    short = np.minimum(d, 0.0)
    if weights is not None:
        short *= weights
    whole, first = float(short.sum()), float(short @ positive)
    return -first, first - whole


@dataclass(frozen=True)
class RowProof:
    """What the last pass over the rows told.

    Attributes
    ----------
    w : (n,) for which `below` is
    theta, below : for each class theta_c and the sum of `c_i max(0, theta_c - f_c w'x_i)`
    points : (2, n) the sums of q_i x_i; None where no weights are known yet
    totals : the sums of the q_i
    outside : how far they are outside of `[0, cap_c]`, in caps
    rows : what knows the weights, where they are
    """

    w: Vec
    theta: tuple[float, float]
    below: tuple[float, float]
    points: NDArray[np.float64] | None
    totals: tuple[float, float]
    outside: float
    rows: Any = None


def proven(form: RowHulls, proof: RowProof) -> tuple[Certificate, Vec | None]:
    """The certificate of a pass, and the point x."""
    terms = zip(form.masses, form.caps, proof.theta, proof.below, strict=True)
    lower = sum(mass * theta - cap * short for mass, cap, theta, short in terms)
    # of a longer w the bound is that of its direction; a shorter one weakens it
    primal = -lower / max(1.0, float(np.linalg.norm(proof.w)))
    if proof.points is None:
        return Certificate(primal, -np.inf, np.inf, np.inf, np.nan, "none"), None
    x = form.factors[0] * proof.points[0] + form.factors[1] * proof.points[1]
    norm = form.data.space.norm(x)
    off = max(abs(t - m) / m for t, m in zip(proof.totals, form.masses, strict=True))
    violation = max(off, proof.outside)
    gap = primal + norm
    relative = gap / max(norm, 1e-12 * form.data.scale)
    violation = 0.0 if violation <= 1e-12 else violation
    return Certificate(primal, -norm, gap, relative, violation), x
