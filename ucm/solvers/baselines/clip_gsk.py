"""Clipped GSK, which can get stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.solvers.baselines.nearest import BaselineState, NearestPointBaseline


@dataclass(frozen=True)
class ClipGSK(NearestPointBaseline):
    """The point of one class moves towards one sample below its cap: one row of the Gram matrix a step.

    The samples that would lower the norm may all be at the cap, far from the optimum (Figure 2 of the
    paper).

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), section 4.1, equations (3), (11) and (12).
    """

    name: ClassVar[str] = "clip-gsk"

    def step(self, at: BaselineState) -> bool:
        hulls, best, k, L = at.hulls, 0.0, -1, -1
        for g, own in enumerate(at.groups):
            room = np.where(own & (at.a < at.cap[g]), at.F, np.inf)
            low = int(room.argmin())
            fall = float(at.a[own] @ at.F[own]) - hulls.mass[g] * float(room[low])
            if fall > best:
                best, k, L = fall, g, low
        if k < 0:
            return False
        own, cap, mass = hulls.group == k, at.cap[k], hulls.mass[k]
        e = np.zeros(hulls.n)
        e[L] = mass
        row, H = at.products(e), at.H[k]  # Z' = (1 - t) Z + t mass z_L
        at.operations += hulls.n
        eta = float(at.a[own] @ H[own] - 2.0 * mass * H[L] + mass * row[L])
        t = min(1.0, (cap - at.a[L]) / (mass - at.a[L]))
        if eta > 1e-14 * mass * abs(float(row[L])):
            t = min(t, best / eta)
        if t <= 1e-15:
            return False
        at.a[own] *= 1.0 - t
        at.a[L] = min(at.a[L] + t * mass, cap)
        at.H[k] += t * (row - H)
        at.F[:] = hulls.center_products + at.H.sum(axis=0)
        return True
