"""mu-MDM: weight moves from one support vector to an extreme point of the reduced convex hull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.solvers.baselines.nearest import BaselineState, NearestPointBaseline


@dataclass(frozen=True)
class MDM(NearestPointBaseline):
    """Weight moves from the support vector with the largest F to the extreme point with the least `<W, Z>`.

    Terms at the cap cannot take weight and are passed over; where too few are left, or none lowers the
    norm, the method stalls short of the optimum (Figure 1 of the paper), and says so.

    Parameters
    ----------
    stop, eps
        "gap" (relative duality gap below tol), or "paper" (every class gap below `eps ||W||`).

    Notes
    -----
    Lopez, Barbero and Dorronsoro (2011), equation (10), after Tao, Wu and Wang (2008).
    """

    name: ClassVar[str] = "mdm"

    def step(self, at: BaselineState) -> bool:
        hulls, best, found = at.hulls, 0.0, None
        for k, own in enumerate(at.groups):
            cap, mass = at.cap[k], hulls.mass[k]
            giver = int(np.where(own & (at.a > 0.0), at.F, -np.inf).argmax())
            room = own & (at.a < cap)
            room[giver] = False
            point = at.extreme(room, cap, mass)
            if point is not None and mass * at.F[giver] - point.value > best:
                best, found = mass * at.F[giver] - point.value, (k, giver, point.weights)
        if found is None:
            return False
        k, giver, w = found
        cap, mass = at.cap[k], hulls.mass[k]
        d = w.copy()
        d[giver] -= mass
        row = at.products(d)  # <X_L - mass z_U, z_k>
        count = int(np.count_nonzero(d))
        at.operations += count * hulls.n + 2 * count * count
        eta, takers = float(d @ row), w > 0.0
        most = min(at.a[giver] / mass, float(((cap - at.a)[takers] / w[takers]).min()))
        t = min(most, best / eta) if eta > 0.0 else most
        if t <= 1e-15:
            return False
        at.a[takers] = np.minimum(at.a[takers] + t * w[takers], cap)
        at.a[giver] = 0.0 if t >= at.a[giver] / mass else at.a[giver] - t * mass
        at.H[k] += t * row
        at.F += t * row
        return True
