"""Certificates of hulls of rows from the sums of one pass over all rows.

With the sums of `ucm.forms.out_of_core.RowHulls.support` any w, mu and t bound the optimum,
`min over the set of w'x / ||w||_2 >= -support / ||w||_2`, so that no vector with an entry for each row is
needed. For caps and t = 1 the bound is

    sum_c { mass_c theta_c - cap_c sum_i c_i max(0, theta_c - f_c w'x_i) },    theta = -mu.

The best theta_c is an order statistic; with any other theta_c the bound is valid but weaker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.evidence.certificate import fault, interval
from ucm.forms.out_of_core import RowHulls
from ucm.forms.solution import Certificate
from ucm.language.simplex_projection import round_violation

__all__ = ["PASS", "HullProof", "hulls_proven"]

PASS = fault("the pass over the rows")
"""The probable cause of bounds that contradict each other."""


@dataclass(frozen=True)
class HullProof:
    """Sums of the last pass over the rows, by class unless stated otherwise.

    Attributes
    ----------
    w, mu, t : (n,), (2,) and one for each ball
    losses : the sums of `share c_i l(v_i)`
    points : (2, n) the sums of q_i x_i; None if no weights are known yet
    violation : the relative distance of the weights from the set
    rows : the weights of all rows
    heights : the sums of `share c_i l*(q_i / (share c_i))`, of weights in balls
    """

    w: Vec
    mu: Vec
    t: Vec
    losses: Vec
    points: NDArray[np.float64] | None
    violation: float = 0.0
    rows: Any = None
    heights: Vec | None = None

    @property
    def theta(self) -> Vec:
        """The thresholds of `f_c w'x` for w of length 1."""
        return -self.mu / (float(np.linalg.norm(self.w)) or 1.0)


def hulls_proven(form: RowHulls, proof: HullProof) -> Certificate:
    """Return the certificate of a pass."""
    norm = float(np.linalg.norm(proof.w))
    support = form.support(proof.mu, proof.t, proof.losses)
    primal = support / norm if norm > 0.0 else np.inf
    if proof.points is None:
        return Certificate(primal, -np.inf, np.inf, np.inf, np.nan, "none")
    size = form.data.space.norm(np.array(form.factors) @ proof.points)
    if norm == 0.0:  # no direction yet
        return Certificate(np.inf, -size, np.inf, np.inf, 0.0, "none")
    return interval(primal, size, round_violation(proof.violation), form.data.scale, wrong=PASS)
