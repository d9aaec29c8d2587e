"""The best affine rule over hulls: a semidefinite program, solved by SCS.

The dual of `max r` over the rules of `Hulls` is

    min over Y = [[1, w'], [w, W]] psd, tr W = 1, theta, tau of
        <center, w> + <fixed, W> + sum over groups of mass theta + sum_i cap_i phi(s_i, rho_i),
    s_i = <z_i, w> - theta,  rho_i = ||W z_i - tau||,  phi(s, rho) = max(0, (s + rho) / 2, s).

The multipliers `(lambda_i, -V_i)` of `rho_i <= 2 phi_i - s_i` and `mu_i` of `s_i <= phi_i` are the rule, with
`q_i = lambda_i + mu_i`. The bound is computed from the rule alone, once it is rounded into its domains.

Notes
-----
SCS, a first-order method, factors its matrix once, with O(N r^2) entries. The factor of an interior-point
method fills up by the second-order cones in every iteration: the same program takes Clarabel longer.
"""

from __future__ import annotations

import numpy as np

from ucm.forms.answer import LowerBoundProof
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm
from ucm.solvers.programs import accuracy, attempt
from ucm.solvers.sphere.affine_rules import AffineRule, Hulls, PointsAndBalls, majorised, refused

_LONG = 5e6  # multiplications, of one set of moments; the program then takes 1.5 GB
_ACCURACY = 1e-6  # relative to the bound of the quick rule
_INWARD = (
    1e-2,
    1e-3,
    1e-4,
    1e-5,
    1e-6,
)  # of the way from the solution to the centre: room for rounding
_STEPS = 5000  # of SCS


def long_rule(form: UnitNorm, monitor: Monitor) -> LowerBoundProof | str:
    """Return the best rule of hulls, beside rules of balls; or why there is none."""
    why = refused(form, monitor, _LONG)
    if why:
        return why
    parts = PointsAndBalls.of(form)
    rule = None
    if parts.hulls is not None:
        quick = majorised(parts.hulls, monitor)
        found = (quick, best_rule(parts.hulls, quick, monitor))
        rule = max(filter(None, found), key=lambda rule: rule.bound, default=None)
    return parts.completed(rule, monitor)


def best_rule(hulls: Hulls, quick: AffineRule | None, monitor: Monitor) -> AffineRule | None:
    """Return the best rule, to the accuracy of SCS; None where the time is over before there is one.

    Parameters
    ----------
    hulls : the points
    quick : another rule, whose bound is the unit of the objective where it is finite
    monitor : of the solve, for the time that is left
    """
    import cvxpy as cp

    z, member, (G, r) = hulls.points, hulls.member, (hulls.masses.size, hulls.center.size)
    Y = cp.Variable((r + 1, r + 1), PSD=True)
    theta, tau, phi = cp.Variable(G), cp.Variable((G, r)), cp.Variable(hulls.caps.size)
    w, W = Y[0, 1:], Y[1:, 1:]
    s = z @ w - member @ theta
    cone, above = cp.SOC(2 * phi - s, z @ W - member @ tau, axis=1), s <= phi
    value = hulls.center @ w + cp.sum(cp.multiply(hulls.fixed, W))
    value += hulls.masses @ theta + hulls.caps @ phi
    unit = 1.0 if quick is None or not np.isfinite(quick.bound) else abs(quick.bound) or 1.0
    constraints = [cone, above, phi >= 0, Y[0, 0] == 1, cp.trace(W) == 1]
    options = accuracy("SCS", _ACCURACY) | {"max_iters": _STEPS}
    attempt(cp.Problem(cp.Minimize(value / unit), constraints), "SCS", monitor, **options)
    if above.dual_value is None:
        return None
    sizes, slopes = cone.dual_value
    q = np.clip(unit * (np.ravel(sizes) + above.dual_value), 0.0, hulls.caps)
    centre = hulls.caps * (hulls.masses / hulls.sums(hulls.caps))[hulls.group]
    tried = (hulls.rule(q + t * (centre - q), -unit * slopes) for t in _INWARD)
    return max(tried, key=lambda rule: rule.bound)
