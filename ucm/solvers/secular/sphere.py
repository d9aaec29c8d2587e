"""The point of the surface of an ellipsoid around 0 that is nearest to 0, p = 2.

For `U = {c + F u : ||u||_2 <= r}` with `S = r^2 F F' = V diag(s) V'` in the span of U the point is `x_i = t
c_i / (s_i + t)` for the root t in `[-min s, 0]` of `sum s_i c_i^2 / (s_i + t)^2 = 1`; w is along `c_i / (s_i
+ t)`. In the hard case, c orthogonal to the thinnest axes, `t = -min s` and w has any share of these. The
dual value `sum t c_i^2 / (s_i + t) - t` proves it: the trust-region problem has no gap.

Ito, Takeda and Toh (2015), equation (34), beyond its largest kappa.
"""

from __future__ import annotations

import math

import numpy as np

from ucm.errors import ParameterError
from ucm.forms.answer import Answer, LowerBoundProof
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm
from ucm.forms.trust_region import secular_root
from ucm.language.domains import NormBall


def refused(form: UnitNorm) -> str | None:
    """Return why a set is no ellipsoid, or p is not 2; None where it fits."""
    blocks = form.image.blocks
    if form.norm != 2.0:
        return "it takes p = 2 only"
    one = not form.image.couplings and len(blocks) == 1
    if not one or not isinstance(blocks[0].domain, NormBall) or not blocks[0].domain.euclidean:
        return "it takes a single ellipsoid"
    return None


def least_on_surface(form: UnitNorm, monitor: Monitor) -> Answer:
    """Return the global minimum over the unit sphere, and the multiplier that proves it."""
    block = form.image.blocks[0]
    size = block.domain.size()
    if size is None:
        raise ParameterError(
            f"TrustRegionSecular: expected a ball of parameters, got {block.domain!r}; take "
            "ucm.solvers.Linearize()"
        )
    r, c = size.number, form.lower(form.image.center)
    if form.basis is None:
        S = block.map.weighted_gram(np.ones(block.map.shape[1]))
    else:
        F = np.column_stack([block.map.rmatvec(e) for e in form.basis.T])
        S = F.T @ F
    monitor.passes += form.rank
    s, V = np.linalg.eigh(r * r * S)
    s = np.maximum(s, 1e-300)
    a, away = V.T @ c, s - s[0]
    above = float(secular_root(away, s * a * a, 1.0)[0])  # t + min s
    t = min(above - float(s[0]), 0.0)  # 0: the point 0 lies on the surface
    gaps = away + (float(s[0]) if t == 0.0 else above)
    w = np.divide(a, gaps, out=np.zeros(a.size), where=gaps > 0.0)
    left = 1.0 - float((s * w * w).sum())
    if above == 0.0 and left > 0.0:
        w[0] = -math.sqrt(left / s[0])
    v = form.unit(V @ w)
    monitor.report(1, form.height(v), 0.0)
    _, q = form.highest(v)
    return Answer(q, form.lift(v), witness=LowerBoundProof("sphere", multiplier=t))
