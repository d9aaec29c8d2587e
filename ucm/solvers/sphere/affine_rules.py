"""Affine decision rules, whose ellipsoid inside U proves a lower bound of f over the unit sphere.

A rule `q(u) = q0 + V u` that stays in the domains for all `||u||_2 <= 1` gives an ellipsoid in U,
`x0 + M u` with `x0 = x(q0)` and `M = A V`, A the linear part of x: f is at least the distance from 0 to its
surface. This distance is at least that for the quadratic `<x0, u> + u'M u`, whose best rule solves a
semidefinite program; its dual is over the moments `W = E[u u']`, `E[u]` of a random direction.

`ucm.forms.sphere_proof` states which rules stay inside. Of any other domain the centre is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.deadline import OutOfTime
from ucm.data.linear_map import Vec
from ucm.forms.faces import SumOfHulls
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof, inner_constraints, inner_radius
from ucm.numerics.conic_programs import accuracy, attempt, installed
from ucm.numerics.trust_region import nearest_on_ellipsoid, polar_rule

Mat = NDArray[np.float64]

_INSIDE = 1.0 - 1e-12


# --- the rules -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class AffineRule:
    """Affine rule `q0 + V u` for the weights of a sum of hulls, with the lower bound proved by the rule."""

    q: Vec
    V: Mat
    bound: float


@dataclass(frozen=True)
class Relaxation:
    """A set as a sum of reduced hulls and balls, each ball with the rule of its own ellipsoid.

    A ball of parameters is `c + F u` for `||u||_2 <= radius`.

    form : the form, without couplings
    hulls : the hulls and the center of the balls, in units of their largest entry; None without hulls
    fixed : (r, r) the matrix M of the balls, in the same unit
    V : the rule of every block, 0 over hulls
    """

    form: UnitNorm
    hulls: SumOfHulls | None
    fixed: Mat
    V: list[Mat]

    @classmethod
    def of(cls, form: UnitNorm) -> Relaxation:
        """Return the decomposition of a form without its couplings."""
        r, image = form.rank, form.image
        center, centers = form.lower(image.center), form.centers()
        fixed, V, parts = np.zeros((r, r)), [], []
        for k, block in enumerate(image.blocks):
            F, constraints = form.block_matrix(k), inner_constraints(block)
            slopes = np.zeros_like(F)
            if constraints is None:
                center = center + F.T @ centers[k]
                slopes = polar_rule(F, _INSIDE * (inner_radius(block.domain, F.shape[0]) or 0.0))
                fixed = fixed + F.T @ slopes
            V.append(slopes)
            parts.append((F, constraints or ()))
        hulls = SumOfHulls.of(center, parts)
        if hulls is not None:
            scale = float(max(np.abs(A).max(initial=0.0) for A in (hulls.points, center, fixed))) or 1.0
            hulls = replace(hulls, center=center / scale, points=hulls.points / scale)
            fixed = fixed / scale
        return cls(form, hulls, fixed, V)

    def completed(self, rule: AffineRule | None) -> LowerBoundProof:
        """Return the proof by the rule of the hulls, if given, and those of the balls, by block."""
        q, V = self.form.centers(), [S.copy() for S in self.V]
        if rule is not None and self.hulls is not None:
            weights, slopes = self.hulls.blocks(rule.q), self.hulls.blocks(rule.V)
            for k in {k for k, *_ in self.hulls.owner}:
                q[k], V[k] = weights[k], slopes[k]
        return LowerBoundProof("rule", [q], slopes=V)


def _sums(hulls: SumOfHulls, rows: Mat) -> Mat:
    """Return the sums of the rows of a matrix, or entries of a vector, by group."""
    return np.add.reduceat(rows, hulls.bounds[:-1])


def _members(hulls: SumOfHulls) -> Mat:
    """Return the indicator matrix of the groups, (N, G)."""
    return np.equal.outer(hulls.group, np.arange(hulls.masses.size)).astype(float)


def feasible_rule(hulls: SumOfHulls, fixed: Mat, q: Vec, V: Mat) -> AffineRule:
    """Return a feasible rule near (q, V) with its bound, with q moved to bring x0 near 0."""
    caps, group = hulls.caps, hulls.group
    slack = q * (caps - q)
    total = _sums(hulls, slack)
    if not (total > 0.0).all():
        return AffineRule(q, 0.0 * V, -math.inf)
    portion = slack / total[group]
    q = q + portion * (hulls.masses - _sums(hulls, q))[group]
    slack = np.minimum(q, caps - q)
    if not (slack > 0.0).all():
        return AffineRule(q, 0.0 * V, -math.inf)
    rows = np.hstack([hulls.points, _members(hulls)])
    weights = slack * slack
    target = np.concatenate([-hulls.center - hulls.points.T @ q, np.zeros(hulls.masses.size)])
    y = np.linalg.lstsq((rows * weights[:, None]).T @ rows, target, rcond=1e-13)[0]
    d = weights * (rows @ y)
    far = float((np.abs(d) / slack).max())
    if far > 0.0:
        q = q + min(1.0, 0.7 / far) * d  # at most 0.7 of the slack of a weight
    slack = np.minimum(q, caps - q)
    portion = slack / _sums(hulls, slack)[group]
    for _ in range(3):  # each row within its slack, then the sums
        V = V * np.minimum(1.0, slack / np.maximum(np.linalg.norm(V, axis=1), 1e-300))[:, None]
        V = V - portion[:, None] * _sums(hulls, V)[group]
    over = float((np.linalg.norm(V, axis=1) / slack).max())
    V = V * min(1.0, _INSIDE / max(over, 1e-300))
    M = hulls.points.T @ V + fixed
    return AffineRule(q, V, nearest_on_ellipsoid(M @ M.T, hulls.center + hulls.points.T @ q)[0])


def _smoothed(slope: Vec, caps: Vec, mu: float) -> tuple[Vec, Vec, float]:
    """Maximise `slope p + mu log(p (cap - p) / cap^2)`; return p, dp/dslope and the sum of the maxima."""
    x = slope * caps / mu
    root, size = np.sqrt(4.0 + x * x), np.abs(x)
    small = (2.0 + 4.0 / (root + size)) / (2.0 * (root + 2.0))
    p = np.where(x > 0.0, 1.0 - small, small)
    complement = np.where(x > 0.0, small, 1.0 - small)
    curve = caps * caps / (mu * (1.0 / p**2 + 1.0 / complement**2))
    return p * caps, curve, mu * float((x * p + np.log(p * complement)).sum())


def lower_bound_rule(form: UnitNorm, monitor: Monitor, best: bool = False) -> LowerBoundProof | str:
    """Return a proof by an affine rule (`best`: by the better of two methods), or why there is none."""
    entries = sum(b.map.shape[1] for b in form.image.blocks)
    if form.image.couplings:
        return "the operands of an intersection are coupled"
    # multiplications of one set of moments; at 5e6 the program of the best rule takes 1.5 GB
    if float(entries + form.rank) * form.rank**2 > (5e6 if best else 1e8):
        return f"{entries} weights in {form.rank} dimensions take too long"
    if monitor.timed_out:
        return "the time was over"
    try:
        parts = Relaxation.of(form)
    except OutOfTime:
        return "the time was over"
    if parts.hulls is None:
        return parts.completed(None)
    rule = majorised(parts.hulls, parts.fixed, monitor)
    if best:
        rules = (rule, best_rule(parts.hulls, parts.fixed, rule, monitor))
        rule = max(filter(None, rules), key=lambda rule: rule.bound, default=None)
    return parts.completed(rule)


def majorised(hulls: SumOfHulls, fixed: Mat, monitor: Monitor) -> AffineRule | None:
    """Return an approximately best rule over hulls, by some twenty passes over the moments.

    For fixed moments of the second order the best q0 is that of a smooth problem in (E[u], the multipliers
    of the masses), for which a few Newton steps are taken. With its weights k_i on `|W z_i - tau|` the
    moments that bound the dual value best are `W = K^-1 / tr K^-1`, `K = sum k_i (z_i - mean) (z_i - mean)'`:
    a majorant, so that the dual value falls. The smoothing shrinks until the rule gains no more.

    None if no stage of the smoothing ended, as if the points of each group coincide or time runs out early.
    """
    z, caps, r = hulls.points, hulls.caps, hulls.center.size
    rows = np.hstack([z, -_members(hulls)])
    line = np.concatenate([hulls.center, hulls.masses])
    y = np.zeros(line.size)
    k = up = down = caps
    gamma = z
    best: AffineRule | None = None
    mu = 0.0
    for _ in range(5):  # stages of the smoothing mu
        for step in range(4):  # updates of the moments
            if monitor.timed_out:
                return best
            total = _sums(hulls, k)
            if not (total > 0.0).all():
                return best
            away = z - (_sums(hulls, z * k[:, None]) / total[:, None])[hulls.group]
            K = (away * k[:, None]).T @ away
            W = _inverse(K + (1e-14 * np.trace(K) / r) * np.eye(r))
            gamma = away @ W
            rho = np.linalg.norm(gamma, axis=1)
            if mu == 0.0:
                mu = 0.3 * float(rho.mean() * caps.mean())
            if not mu > 0.0:
                return best
            y, up, down = _centred(rows, line, y, rho, caps, mu, 2 if step else 8)
            k = 0.5 * (up - down) / np.maximum(rho, 1e-300)
        rule = feasible_rule(hulls, fixed, 0.5 * (up + down), k[:, None] * gamma)
        if best is not None and rule.bound < best.bound:
            return best
        best = rule
        mu *= 0.2
    return best


def _inverse(K: Mat) -> Mat:
    """Return the pseudo-inverse of K, scaled to trace 1."""
    inverse = np.asarray(np.linalg.pinv(K, hermitian=True), dtype=np.float64)
    return inverse / max(float(np.trace(inverse)), 1e-300)


def _centred(
    rows: Mat, line: Vec, y: Vec, rho: Vec, caps: Vec, mu: float, steps: int
) -> tuple[Vec, Vec, Vec]:
    """Minimise `<line, y> + sum of the smoothed values at (s_i +- rho_i) / 2`, `s = rows y`, by Newton."""

    def at(y: Vec) -> tuple[float, tuple[Vec, Vec, float], tuple[Vec, Vec, float]]:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # points too far are rejected
            s = rows @ y
            up, down = _smoothed(0.5 * (s + rho), caps, mu), _smoothed(0.5 * (s - rho), caps, mu)
            return float(line @ y) + up[2] + down[2], up, down

    value, up, down = at(y)
    for _ in range(steps):
        g = line + rows.T @ (0.5 * (up[0] + down[0]))
        H = (rows * (0.25 * (up[1] + down[1]))[:, None]).T @ rows
        unit = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        scaled: Any = linalg.lstsq(H * unit[:, None] * unit, unit * g, cond=1e-14, lapack_driver="gelsy")
        d = -unit * scaled[0]
        gain = -float(g @ d)
        if not gain > 1e-3 * mu:
            break
        t = 1.0
        while t > 1e-6:
            trial = at(y + t * d)
            if trial[0] <= value - 0.1 * t * gain:
                break
            t *= 0.5
        else:
            break
        y, (value, up, down) = y + t * d, trial
    return y, up[0], down[0]


def best_rule(hulls: SumOfHulls, fixed: Mat, quick: AffineRule | None, monitor: Monitor) -> AffineRule | None:
    """Return the best rule over hulls by a semidefinite program; None if the solver has no solution.

    The dual of `max r` over the rules over the hulls is

        min over Y = [[1, w'], [w, W]] psd, tr W = 1, theta, tau of
            <center, w> + <fixed, W> + sum over groups of mass theta + sum_i cap_i phi(s_i, rho_i),
        s_i = <z_i, w> - theta,  rho_i = ||W z_i - tau||,  phi(s, rho) = max(0, (s + rho) / 2, s).

    The multipliers `(lambda_i, -V_i)` of `rho_i <= 2 phi_i - s_i` and `mu_i` of `s_i <= phi_i` are the rule,
    with `q_i = lambda_i + mu_i`. The bound is computed from the rule alone, once it is rounded into its
    domains. SCS, a first-order method, factors its matrix once, with O(N r^2) entries; the factor of
    Clarabel, which stands in where SCS is not installed, fills up by the second-order cones in every
    iteration. `fixed` is the matrix M of the balls; the bound of the rule `quick`, where finite, is the unit
    of the objective.
    """
    import cvxpy as cp

    z, member, (G, r) = hulls.points, _members(hulls), (hulls.masses.size, hulls.center.size)
    Y = cp.Variable((r + 1, r + 1), PSD=True)
    theta, tau, phi = cp.Variable(G), cp.Variable((G, r)), cp.Variable(hulls.caps.size)
    w, W = Y[0, 1:], Y[1:, 1:]
    s = z @ w - member @ theta
    cone, above = cp.SOC(2 * phi - s, z @ W - member @ tau, axis=1), s <= phi
    value = hulls.center @ w + cp.sum(cp.multiply(fixed, W))
    value += hulls.masses @ theta + hulls.caps @ phi
    unit = 1.0 if quick is None or not np.isfinite(quick.bound) else abs(quick.bound) or 1.0
    constraints = [cone, above, phi >= 0, Y[0, 0] == 1, cp.trace(W) == 1]
    solver, limit = ("SCS", {"max_iters": 5000}) if installed("SCS") else ("CLARABEL", {})
    options = accuracy(solver, 1e-6) | limit
    attempt(cp.Problem(cp.Minimize(value / unit), constraints), solver, monitor, **options)
    if above.dual_value is None:
        return None
    sizes, slopes = cone.dual_value
    q = np.clip(unit * (np.ravel(sizes) + above.dual_value), 0.0, hulls.caps)
    centre = hulls.caps * (hulls.masses / _sums(hulls, hulls.caps))[hulls.group]
    # steps towards the centre give slack for rounding
    tried = (
        feasible_rule(hulls, fixed, q + t * (centre - q), -unit * slopes)
        for t in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    )
    return max(tried, key=lambda rule: rule.bound)
