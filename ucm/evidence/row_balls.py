"""What one pass over all rows proves of hulls whose weights lie in balls of conjugates of losses.

For `x = sum_c f_c sum_i q_i x_i` as in `ucm.forms.rows.RowBalls`, any w, mu_c and t_k > 0, with
`v_i = (-f_c w'x_i - mu_c) / t_k`,

    max over the set of -w'x  <=  sum_c mass_c mu_c + sum_k t_k (radius_k + sum_c share_c sum_i l_k(v_i)),

c over the classes of k; `q_i = share_c l_k'(v_i)` attains it where mu and t are best (Ito, Takeda and Toh
2015, section 5.2). Moved to the uniform weights as far as the balls ask, and brought to their masses, these
are weights of a point of the set, up to the relative error of the sums of q_i: the violation. All of it are
sums over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.forms.rows import RowBalls
from ucm.forms.solution import Certificate

__all__ = ["BallProof", "balls_proven", "moved", "rooms"]


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
        whole = form.shares[c] * form.data.sizes[c]
        found[k] -= whole * float(form.balls[k][0].conjugate(np.array([form.masses[c] / whole]))[0])
    return np.where(found > 1e-13 * sizes, found, 0.0)


def moved(form: RowBalls, heights: Vec) -> Vec:
    """How far the weights of each class are moved to the uniform ones: until their ball, which is convex,
    holds them."""
    above = -np.array([radius for _, radius in form.balls])
    np.add.at(above, list(form.of), heights)
    found = np.clip(above / np.maximum(above + rooms(form), 1e-300), 0.0, 1.0)
    return found[list(form.of)]


def balls_proven(form: RowBalls, proof: BallProof) -> tuple[Certificate, NDArray[np.float64]]:
    """The certificate of a pass, and the point of each class."""
    masses, norm = np.array(form.masses), float(np.linalg.norm(proof.w))
    radii = np.array([radius for _, radius in form.balls])
    support = float(masses @ proof.mu + proof.t @ radii)
    support += float(proof.t[list(form.of)] @ proof.losses)
    primal = support / norm if norm > 0.0 else np.inf
    part = moved(form, proof.heights)[:, None]
    own = proof.sums / proof.totals[:, None]
    points = masses[:, None] * ((1.0 - part) * own + part * proof.means)
    size = form.data.space.norm(form.factors[0] * points[0] + form.factors[1] * points[1])
    violation = float(np.abs(proof.totals / masses - 1.0).max())
    if norm == 0.0:  # no direction yet
        return Certificate(np.inf, -size, np.inf, np.inf, violation, "none"), points
    gap = primal + size
    relative = gap / max(size, 1e-12 * form.data.scale)
    violation = 0.0 if violation <= 1e-12 else violation
    return Certificate(primal, -size, gap, relative, violation), points
