"""Clipped MDM: two weights of one class exchange mass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.solvers.baselines.nearest import BaselineState, NearestPointBaseline


@dataclass(frozen=True)
class ClipMDM(NearestPointBaseline):
    """The clipped Mitchell-Demyanov-Malozemov method (Lopez, Barbero and Dorronsoro, 2011).

    In each class L has the least F among `a < cap` and U the largest among `a > 0`; the class with the larger
    `F_U - F_L` moves weight from U to L, clipped to the bounds: two rows of the Gram matrix for each step.

    `ucm.solvers.SMO` chooses the pair by second order, leaves samples out and keeps rows.

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), equations (7), (13) and (14).
    """

    name: ClassVar[str] = "clip-mdm"

    def step(self, at: BaselineState) -> bool:
        hulls, best, pair = at.hulls, 0.0, None
        for g, own in enumerate(at.groups):
            low = int(np.where(own & (at.a < at.cap[g]), at.F, np.inf).argmin())
            high = int(np.where(own & (at.a > 0.0), at.F, -np.inf).argmax())
            if at.F[high] - at.F[low] > best:
                best, pair = float(at.F[high] - at.F[low]), (g, low, high)
        if pair is None:
            return False
        g, L, U = pair
        d = np.zeros(hulls.n)
        d[L], d[U] = 1.0, -1.0
        row = at.products(d)  # <z_L - z_U, z_k>
        at.operations += 2 * hulls.n
        eta = float(row[L] - row[U])
        most = min(at.cap[g] - at.a[L], at.a[U])
        scale = float(hulls.gram.diagonal[hulls.index[[L, U]]] @ hulls.s[[L, U]] ** 2)
        t = min(most, best / eta) if eta > 1e-14 * scale else most  # of equal points all weight moves
        at.a[L] = at.cap[g] if t >= at.cap[g] - at.a[L] else at.a[L] + t
        at.a[U] = 0.0 if t >= at.a[U] else at.a[U] - t
        at.H[g] += t * row
        at.F += t * row
        return True
