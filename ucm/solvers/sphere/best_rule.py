"""The best affine rule over hulls: a primal-dual interior point method for the program of its moments.

The dual of `max r` over the rules of `Hulls` is

    min over Y = [[1, w'], [w, W]] psd, tr W = 1, theta, tau of
        <center, w> + <fixed, W> + sum over groups of mass theta + sum_i cap_i phi(s_i, rho_i),
    s_i = <z_i, w> - theta,  rho_i = ||W z_i - tau||,  phi(s, rho) = max(0, (s + rho) / 2, s),

as in (q, |V|) the room of a weight is a square that stands on its corner, so that `p = q + |V|` and
`q - |V|` lie between 0 and the cap, each by itself. There are r (r + 1) / 2 + r unknowns and some for each
group; the systems have that order, whatever the number of points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear import Vec
from ucm.forms.answer import Witness
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm
from ucm.solvers.sphere.rules import Hulls, Parts, Rule, majorised, quick_rule, refused

__all__ = ["best_rule", "long_rule"]

_LONG = 1e7  # multiplications, of one set of moments
_TOL = 1e-4  # relative: below it rounding is seen
_SHORT = 0.9  # of what no rule exceeds
_STEPS = 60
_NEAR = 0.95  # of the way to the boundary
_REFINED = 2  # residuals of a system


def long_rule(form: UnitNorm, tol: float, monitor: Monitor) -> Witness | str:
    """The best rule of hulls within `tol`, beside rules of balls; or why there is none."""
    why = refused(form, monitor, _LONG)
    if why:
        return why
    parts = Parts.of(form)
    if parts.hulls is None:
        return quick_rule(form, monitor)
    rule, most = best_rule(parts.hulls, max(0.1 * tol, _TOL), monitor)
    if rule is None or rule.bound < _SHORT * most:  # few weights are between their bounds
        quick = majorised(parts.hulls, monitor)
        if quick is not None and (rule is None or quick.bound > rule.bound):
            rule = quick
    if parts.rounds and not monitor.late:
        parts.mix(rule)
    return parts.witness(rule)


class _Place(NamedTuple):
    """An iterate: P and its multipliers lower, upper are (2 N,), those of q + |V| first; Z is dual to Y.
    V moves along the linear steps, which keep its sums at 0 where `|V| u` does not."""

    Y: NDArray[np.float64]
    theta: Vec
    tau: NDArray[np.float64]
    P: Vec
    V: NDArray[np.float64]
    lower: Vec
    upper: Vec
    Z: NDArray[np.float64]

    def moved(self, d: _Place, primal: float, dual: float) -> _Place:
        """The weights along d by `primal`, the moments by `dual`."""
        return _Place(
            self.Y + dual * d.Y,
            self.theta + dual * d.theta,
            self.tau + dual * d.tau,
            self.P + primal * d.P,
            self.V + primal * d.V,
            self.lower + dual * d.lower,
            self.upper + dual * d.upper,
            self.Z + primal * d.Z,
        )


@np.errstate(divide="raise", invalid="raise", over="raise")
def best_rule(hulls: Hulls, tol: float, monitor: Monitor) -> tuple[Rule | None, float]:
    """The best rule found, and what no rule exceeds: until they meet within `tol`, relative.

    Parameters
    ----------
    hulls : the points
    tol : relative
    monitor : its time ends it
    """
    system = _System(hulls)
    at = system.start()
    best: Rule | None = None
    most = np.inf
    for _ in range(_STEPS):
        if monitor.late:
            break
        try:
            local = system.local(at)
            rule = hulls.rule(local.q, at.V)
            best = rule if best is None or rule.bound > best.bound else best
            most = min(most, system.value(at, local))
            if best.bound >= most - tol * abs(most):
                break
            system.factor(at, local)
            step = system.direction(at, local, 0.0)
            primal, dual = system.room(at, step)
            mu = system.gap(at)
            left = system.gap(at.moved(step, min(1.0, primal), min(1.0, dual))) / mu
            step = system.direction(at, local, min(1.0, max(left, 1e-3)) ** 2 * mu)
            primal, dual = system.room(at, step)
        except (LinAlgError, ValueError, FloatingPointError):  # rounding is all that is left
            break
        at = at.moved(step, min(1.0, _NEAR * primal), min(1.0, _NEAR * dual))
    return best, most


class _Local(NamedTuple):
    """What the points say at an iterate.

    s, rho : (N,); u : (N, r) the units of `W z_i - tau`; slopes : (2 N,) `(s +- rho) / 2`
    q, size : (N,) q and |V|
    """

    s: Vec
    rho: Vec
    u: NDArray[np.float64]
    slopes: Vec
    q: Vec
    size: Vec


class _System:
    """The Newton system: unknowns W (its upper triangle), w, theta, tau."""

    def __init__(self, hulls: Hulls) -> None:
        self.hulls = hulls
        r, G = hulls.center.size, hulls.masses.size
        self.r, self.G = r, G
        self.a, self.b = np.triu_indices(r)
        self.half = np.where(self.a == self.b, 0.5, 1.0)
        self.N = self.a.size
        self.order = self.N + r + G + G * r
        # of Y without its corner: W, then w
        self.fa = np.concatenate([self.a + 1, np.zeros(r, dtype=np.intp)])
        self.fb = np.concatenate([self.b + 1, np.arange(1, r + 1)])
        self.fhalf = np.concatenate([self.half, np.ones(r)])
        self.trace = np.zeros(self.order)
        self.trace[: self.N] = self.a == self.b
        self.caps = np.tile(hulls.caps, 2)
        member = hulls.member
        self.rows = np.hstack([hulls.points, -member])  # ds by w and theta

    def start(self) -> _Place:
        hulls, r = self.hulls, self.r
        Y = np.eye(r + 1) / r
        Y[0, 0] = 1.0
        tau = hulls.sums(hulls.points) / np.diff(hulls.bounds)[:, None] / r
        rho = np.linalg.norm(hulls.points / r - tau[hulls.group], axis=1)
        mu = max(float(rho.mean() * hulls.caps.mean()), 1e-12)
        full = (hulls.masses / hulls.sums(hulls.caps))[hulls.group]
        P = (
            np.concatenate([np.clip(1.05 * full, 0.06, 0.96), np.clip(full, 0.05, 0.95)])
            * self.caps
        )
        Z = mu * np.asarray(np.linalg.inv(Y), dtype=np.float64)
        V = np.zeros_like(hulls.points)
        return _Place(Y, np.zeros(self.G), tau, P, V, mu / P, mu / (self.caps - P), Z)

    def gap(self, at: _Place) -> float:
        """The mean product of what is complementary."""
        products = at.P @ at.lower + (self.caps - at.P) @ at.upper + (at.Y * at.Z).sum()
        return float(products) / (2 * self.caps.size + self.r + 1)

    def local(self, at: _Place) -> _Local:
        hulls, N = self.hulls, self.hulls.caps.size
        s = hulls.points @ at.Y[0, 1:] - at.theta[hulls.group]
        gamma = hulls.points @ at.Y[1:, 1:] - at.tau[hulls.group]
        rho = np.linalg.norm(gamma, axis=1) + 1e-300
        u = gamma / rho[:, None]
        size = 0.5 * np.maximum(at.P[:N] - at.P[N:], 0.0)
        slopes = np.concatenate([0.5 * (s + rho), 0.5 * (s - rho)])
        return _Local(s, rho, u, slopes, 0.5 * (at.P[:N] + at.P[N:]), size)

    def value(self, at: _Place, local: _Local) -> float:
        """The dual value, at least the bound of every rule."""
        hulls, N = self.hulls, self.hulls.caps.size
        most = np.maximum(0.0, np.maximum(local.slopes[:N], local.s))
        linear = hulls.center @ at.Y[0, 1:] + (hulls.fixed * at.Y[1:, 1:]).sum()
        return float(linear + hulls.masses @ at.theta + hulls.caps @ most)

    def factor(self, at: _Place, local: _Local) -> None:
        """The matrix of the system, of the directions of `direction`."""
        hulls, r, N = self.hulls, self.r, self.N
        z, n, u, a, b, half = hulls.points, hulls.caps.size, local.u, self.a, self.b, self.half
        self.h = 1.0 / (at.lower / at.P + at.upper / (self.caps - at.P))
        up, down = self.h[:n], self.h[n:]
        k = local.size / local.rho  # of V across u
        along, cross = 0.25 * (up + down), 0.25 * (up - down)
        first = N + r + self.G
        R = np.zeros((n, self.order))  # drho
        R[:, :N] = (u[:, a] * z[:, b] + u[:, b] * z[:, a]) * half
        R[:, first:] = -(hulls.member[:, :, None] * u[:, None, :]).reshape(n, -1)
        H = R.T @ ((along - k)[:, None] * R)
        mixed = self.rows.T @ (cross[:, None] * R)
        H[N:first] += mixed
        H[:, N:first] += mixed.T
        H[N:first, N:first] += self.rows.T @ (along[:, None] * self.rows)
        kz = k[:, None] * z
        K, unit = z.T @ kz, np.eye(r)
        twice = K[np.ix_(b, a)] * unit[np.ix_(a, b)]
        both = K[np.ix_(b, b)] * unit[np.ix_(a, a)] + K[np.ix_(a, a)] * unit[np.ix_(b, b)]
        H[:N, :N] += (twice + twice.T + both) * np.multiply.outer(half, half)
        sums, entries = hulls.sums(kz), np.arange(N)
        for g, total in enumerate(hulls.sums(k)):
            B = np.zeros((N, r))
            B[entries, a] += half * sums[g, b]
            B[entries, b] += half * sums[g, a]
            mine = slice(first + g * r, first + (g + 1) * r)
            H[:N, mine] -= B
            H[mine, :N] -= B.T
            H[mine, mine] += total * unit
        root = np.linalg.inv(np.linalg.cholesky(at.Y))
        self.inverse = root.T @ root
        fa, fb = self.fa, self.fb
        cross_terms = at.Z[np.ix_(fa, fb)] * self.inverse[np.ix_(fb, fa)]
        straight = at.Z[np.ix_(fa, fa)] * self.inverse[np.ix_(fb, fb)]
        straight += self.inverse[np.ix_(fa, fa)] * at.Z[np.ix_(fb, fb)]
        H[: N + r, : N + r] += (cross_terms + cross_terms.T + straight) * np.multiply.outer(
            self.fhalf, self.fhalf
        )
        self.unit = 1.0 / np.sqrt(np.diag(H))
        self.matrix = H * self.unit[:, None] * self.unit
        self.cholesky = linalg.cho_factor(
            self.matrix + 1e-14 * np.eye(self.order), lower=True, check_finite=False
        )
        self.of_trace = self.solved(self.trace)

    def solved(self, side: Vec) -> Vec:
        side = self.unit * side
        x = linalg.cho_solve(self.cholesky, side, check_finite=False)
        for _ in range(_REFINED):
            x += linalg.cho_solve(self.cholesky, side - self.matrix @ x, check_finite=False)
        return self.unit * x

    def direction(self, at: _Place, local: _Local, mu: float) -> _Place:
        """Towards the point of the central path where every product is mu."""
        hulls, r, N, n = self.hulls, self.r, self.N, self.hulls.caps.size
        z, rest = hulls.points, self.caps - at.P
        lack = self.h * (local.slopes + mu / at.P - mu / rest)
        q = local.q + 0.5 * (lack[:n] + lack[n:])
        V = (local.size + 0.5 * (lack[:n] - lack[n:]))[:, None] * local.u
        A = z.T @ V
        A = A + A.T + 2.0 * hulls.fixed - (2.0 * mu) * self.inverse[1:, 1:]
        slope = np.concatenate(
            [
                A[self.a, self.b] * self.half,
                hulls.center + z.T @ q - 2.0 * mu * self.inverse[0, 1:],
                hulls.masses - hulls.sums(q),
                -hulls.sums(V).ravel(),
            ]
        )
        x = self.solved(slope)
        d = self.of_trace * ((self.trace @ x) / (self.trace @ self.of_trace)) - x
        dY = np.zeros((r + 1, r + 1))
        dY[self.fa, self.fb] = d[: N + r]
        dY[self.fb, self.fa] = d[: N + r]
        first = N + r + self.G
        dtheta, dtau = d[N + r : first], d[first:].reshape(self.G, r)
        ds = z @ dY[0, 1:] - dtheta[hulls.group]
        dgamma = z @ dY[1:, 1:] - dtau[hulls.group]
        drho = (local.u * dgamma).sum(axis=1)
        dP = lack + self.h * np.concatenate([0.5 * (ds + drho), 0.5 * (ds - drho)])
        along = local.size + 0.5 * (dP[:n] - dP[n:])
        across = (local.size / local.rho)[:, None] * (dgamma - drho[:, None] * local.u)
        dV = along[:, None] * local.u + across - at.V
        lower = mu / at.P - at.lower - (at.lower / at.P) * dP
        upper = mu / rest - at.upper + (at.upper / rest) * dP
        scaled = at.Z @ dY @ self.inverse
        dZ = mu * self.inverse - at.Z - 0.5 * (scaled + scaled.T)
        return _Place(dY, dtheta, dtau, dP, dV, lower, upper, dZ)

    def room(self, at: _Place, d: _Place) -> tuple[float, float]:
        """How far the weights may go along d, and the moments."""
        primal = min(_room(at.P, d.P), _room(self.caps - at.P, -d.P), _psd_room(at.Z, d.Z))
        dual = min(_room(at.lower, d.lower), _room(at.upper, d.upper), _psd_room(at.Y, d.Y))
        return primal, dual


def _room(x: Vec, d: Vec) -> float:
    falls = d < 0.0
    return float((-x[falls] / d[falls]).min(initial=np.inf))


def _psd_room(X: NDArray[np.float64], d: NDArray[np.float64]) -> float:
    L = np.linalg.cholesky(X)
    inner = linalg.solve_triangular(L, d, lower=True)
    inner = linalg.solve_triangular(L, inner.T, lower=True)
    least = float(np.linalg.eigvalsh(0.5 * (inner + inner.T))[0])
    return -1.0 / least if least < 0.0 else np.inf
