"""What one pass over all rows proves of hulls whose weights lie in balls of conjugates of losses.

For `x = sum_c f_c sum_i q_i x_i` as in `ucm.forms.rows.RowBalls`, any w, mu_c and t_k > 0, with
`v_i = (-f_c w'x_i - mu_c) / t_k`,

    max over the set of -w'x  <=  sum_c mass_c mu_c + sum_k t_k (radius_k + sum_c share_c sum_i c_i l_k(v_i)),

c over the classes of k, c_i what a sample weighs; `q_i = share_c c_i l_k'(v_i)` attains it where mu and t are
best (Ito, Takeda and Toh 2015, section 5.2). Brought to their masses, and moved to weights proportional to
the c_i as far as the balls ask, these are weights of a point of the set. All of it are sums over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.forms.rows import RowBalls
from ucm.forms.solution import Certificate

__all__ = ["BallProof", "balls_proven", "rooms", "support_bound", "within"]


@dataclass(frozen=True)
class BallProof:
    """What the last pass over the rows told, by class where nothing else is said.

    Attributes
    ----------
    w, mu, t : (n,), (2,) and one for each ball
    losses, heights : the sums of `share l(v_i)` and of `share l*(q_i / share)`
    totals, sums : the sums of q_i, and (2, n) of q_i x_i
    means : (2, n) of all samples
    rows : what knows the weights, where they are
    """

    w: Vec
    mu: Vec
    t: Vec
    losses: Vec
    heights: Vec
    totals: Vec
    sums: NDArray[np.float64]
    means: NDArray[np.float64]
    rows: Any = None

    @property
    def theta(self) -> Vec:
        """The thresholds of `f_c w'x` for w of length 1."""
        return -self.mu / (float(np.linalg.norm(self.w)) or 1.0)


def rooms(form: RowBalls) -> Vec:
    """By ball, how far its radius is above the height of the uniform weights; 0 where that is rounding: the
    ball is one point."""
    found = np.array([radius for _, radius in form.balls])
    sizes = np.maximum(np.abs(found), 1.0)
    for c, k in enumerate(form.of):
        whole = form.shares[c] * form.data.totals[c]
        found[k] -= whole * float(form.balls[k][0].conjugate(np.array([form.masses[c] / whole]))[0])
    return np.where(found > 1e-13 * sizes, found, 0.0)


def within(form: RowBalls, totals: Vec, heights: Vec) -> tuple[Vec, Vec]:
    """By class a factor and a summand which make weights with these sums some of the set.

    A mean with weights that are all the same, 0 or larger ones, gives them their mass, one with the uniform
    weights brings them into their ball; the heights of means are no more than the means of heights.
    """
    masses, totals_of = np.array(form.masses), np.array(form.data.totals)
    wholes, end, top = totals_of * form.shares, np.zeros(2), np.zeros(2)
    for c, k in enumerate(form.of):
        loss = form.balls[k][0]
        if totals[c] < masses[c]:
            end[c] = min(2.0 * masses[c], wholes[c] * loss.steepest())
        top[c] = wholes[c] * float(loss.conjugate(np.array([end[c] / wholes[c]]))[0])
    part = np.where(
        totals == masses, 0.0, (masses - totals) / np.where(end == totals, 1.0, end - totals)
    )
    above = -np.array([radius for _, radius in form.balls])
    np.add.at(above, list(form.of), (1.0 - part) * heights + part * top)
    to = np.clip(above / np.maximum(above + rooms(form), 1e-300), 0.0, 1.0)[list(form.of)]
    return (1.0 - to) * (1.0 - part), ((1.0 - to) * part * end + to * masses) / totals_of


def support_bound(form: RowBalls, mu: Vec, t: Vec, losses: Vec) -> float:
    """The bound of `max over the set of -w'x`, by the sums of `share l(v_i)` of each class."""
    radii = np.array([radius for _, radius in form.balls])
    return float(np.dot(form.masses, mu) + t @ radii + t[list(form.of)] @ losses)


def balls_proven(form: RowBalls, proof: BallProof) -> tuple[Certificate, NDArray[np.float64]]:
    """The certificate of a pass, and the point of each class."""
    norm = float(np.linalg.norm(proof.w))
    support = support_bound(form, proof.mu, proof.t, proof.losses)
    primal = support / norm if norm > 0.0 else np.inf
    scale, shift = within(form, proof.totals, proof.heights)
    shift *= form.data.totals
    points = scale[:, None] * proof.sums + shift[:, None] * proof.means
    size = form.data.space.norm(form.factors[0] * points[0] + form.factors[1] * points[1])
    if norm == 0.0:  # no direction yet
        return Certificate(np.inf, -size, np.inf, np.inf, 0.0, "none"), points
    gap = primal + size
    relative = gap / max(size, 1e-12 * form.data.scale)
    return Certificate(primal, -size, gap, relative, 0.0), points
