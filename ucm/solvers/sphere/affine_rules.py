"""Affine decision rules: points of U that answer every direction, and so bound f over the sphere from below.

A rule `q(u) = q0 + V u` that stays in the domains for all `||u||_2 <= 1` gives `f(-u) >= <b, u> + u'A u` with
`b = x(q0)` and A the symmetric part of `M V`, M the linear part of x: the least value of a quadratic over the
sphere. The best rule solves a semidefinite program, whose dual is over the moments `W = E[u u']`, `E[u]` of a
random direction.

Which rules stay inside is known of the weights of hulls (`|V_i| <= min(q0_i, cap - q0_i)`, row by row, and
the columns of V sum to 0 in each group) and of balls (`||q0|| + ||V|| <= radius`). A simplex cut by a
symmetric ball holds the one with the largest cap whose vertices are inside. Of any other domain the centre
is taken.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import Vec
from ucm.forms.affine_rule_bounds import inner_radius, rooms
from ucm.forms.answer import LowerBoundProof
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm
from ucm.forms.trust_region import least_on_sphere

Mat = NDArray[np.float64]

_QUICK = 1e8  # multiplications, of one set of moments
_STAGES = 5  # of the smoothing
_ROUNDS = 4  # of moments in each stage
_SHRINK = 0.2  # of the smoothing, from stage to stage
_TRIMMED = 3
_MIXED = 12  # rules of balls that are mixed
_INSIDE = 1.0 - 1e-12
_BALANCED = 0.7  # of the room of a weight, used to make b = 0


@dataclass(frozen=True)
class AffineRule:
    """An affine rule `q0 + V u` of the weights of `Hulls`, and the lower bound that it proves."""

    q: Vec
    V: Mat
    bound: float


@dataclass
class Hulls:
    """A sum of reduced hulls, in units of the largest coordinate of the points.

    `center + sum_i q_i z_i` with `0 <= q <= caps` and the sum `masses[g]` in group g; `fixed` is the matrix A
    of the other blocks.

    Attributes
    ----------
    center : (r,)
    points : (N, r)
    caps : (N,)
    bounds : (G + 1,) where the groups begin
    masses : (G,)
    fixed : (r, r)
    """

    center: Vec
    points: Mat
    caps: Vec
    bounds: NDArray[np.int64]
    masses: Vec
    fixed: Mat

    @functools.cached_property
    def group(self) -> NDArray[np.intp]:
        """The group of each point, (N,)."""
        return np.repeat(np.arange(self.masses.size), np.diff(self.bounds))

    @functools.cached_property
    def member(self) -> Mat:
        """The indicator matrix of the groups, (N, G)."""
        return np.equal.outer(self.group, np.arange(self.masses.size)).astype(float)

    def sums(self, rows: Mat) -> Mat:
        """Return the sums of rows over every group."""
        return np.add.reduceat(rows, self.bounds[:-1])

    def rule(self, q: Vec, V: Mat) -> AffineRule:
        """Return the feasible rule near (q, V), with b as near to 0 as possible, and its bound."""
        room = q * (self.caps - q)
        total = self.sums(room)
        if not (total > 0.0).all():
            return AffineRule(q, 0.0 * V, -math.inf)
        share = room / total[self.group]
        q = q + share * (self.masses - self.sums(q))[self.group]
        room = np.minimum(q, self.caps - q)
        if not (room > 0.0).all():
            return AffineRule(q, 0.0 * V, -math.inf)
        rows = np.hstack([self.points, self.member])
        weights = room * room
        wanted = np.concatenate([-self._b(q), np.zeros(self.masses.size)])
        y = np.linalg.lstsq((rows * weights[:, None]).T @ rows, wanted, rcond=1e-13)[0]
        d = weights * (rows @ y)
        far = float((np.abs(d) / room).max())
        if far > 0.0:
            q = q + min(1.0, _BALANCED / far) * d
        room = np.minimum(q, self.caps - q)
        share = room / self.sums(room)[self.group]
        for _ in range(_TRIMMED):  # each row within its room, then the sums
            V = V * np.minimum(1.0, room / np.maximum(np.linalg.norm(V, axis=1), 1e-300))[:, None]
            V = V - share[:, None] * self.sums(V)[self.group]
        over = float((np.linalg.norm(V, axis=1) / room).max())
        V = V * min(1.0, _INSIDE / max(over, 1e-300))
        A = self.points.T @ V
        return AffineRule(q, V, least_on_sphere(0.5 * (A + A.T) + self.fixed, self._b(q)))

    def _b(self, q: Vec) -> Vec:
        return self.center + self.points.T @ q


def _smoothed(slope: Vec, caps: Vec, mu: float) -> tuple[Vec, Vec, float]:
    """Maximise `slope p + mu log(p (cap - p) / cap^2)` over p; return p, its derivative and the total."""
    x = slope * caps / mu
    root, size = np.sqrt(4.0 + x * x), np.abs(x)
    small = (2.0 + 4.0 / (root + size)) / (2.0 * (root + 2.0))
    p = np.where(x > 0.0, 1.0 - small, small)
    rest = np.where(x > 0.0, small, 1.0 - small)
    curve = caps * caps / (mu * (1.0 / p**2 + 1.0 / rest**2))
    return p * caps, curve, mu * float((x * p + np.log(p * rest)).sum())


@dataclass
class _Round:
    """A block that holds a ball, `c + F u` for `||u||_2 <= radius`.

    Attributes
    ----------
    place : of the block
    middle : (d,) its centre in the domain
    map : (d, r) F' in the coordinates of the form
    radius : of the ball
    V, q : the rule: V is (d, r)
    """

    place: int
    middle: Vec
    map: Mat
    radius: float
    V: Mat
    q: Vec

    def along(self, W: Mat, mean: Vec) -> tuple[Mat, Vec]:
        """Return the best rule for directions of these moments, V or q0 alone."""
        P, s, Q = np.linalg.svd(self.map @ W, full_matrices=False)
        g = self.map @ mean
        far = float(np.linalg.norm(g))
        if far > float(s.sum()):
            return 0.0 * self.V, (self.radius * _INSIDE / far) * g
        kept = s > 1e-14 * max(float(s[0]), 1e-300)
        return self.radius * _INSIDE * (P[:, kept] @ Q[kept]), 0.0 * self.q

    def terms(self, V: Mat, q: Vec) -> tuple[Mat, Vec]:
        """Return the A and the b of a rule."""
        A = self.map.T @ V
        return 0.5 * (A + A.T), self.map.T @ q


@dataclass
class PointsAndBalls:
    """A form as points and balls, and the way back to its blocks.

    Attributes
    ----------
    hulls : None where no block is the weights of a hull
    rounds : the blocks with balls
    owner : of every group of the hulls its block, its entries there, and the rows of these
    """

    form: UnitNorm
    hulls: Hulls | None
    rounds: list[_Round]
    fixed: tuple[Mat, Vec]
    owner: list[tuple[int, NDArray[np.intp], NDArray[np.intp]]]
    centers: list[Vec]
    scale: float

    @classmethod
    def of(cls, form: UnitNorm) -> PointsAndBalls:
        """Return the parts; couplings are left out."""
        r, image = form.rank, form.image
        center = form.lower(image.center)
        centers = image.centers()
        rounds: list[_Round] = []
        owner, points, caps, masses = [], [], [], []
        size = 0
        for k, block in enumerate(image.blocks):
            F = _rows(form, k)
            d = F.shape[0]
            radius = inner_radius(block.domain, d)
            found = rooms(block)
            if found is not None:
                for index, mass, most in found:
                    at = np.arange(d)[index]
                    owner.append((k, at, size + np.arange(at.size)))
                    points.append(F[at])
                    caps.append(most)
                    masses.append(mass)
                    size += at.size
            else:
                center = center + F.T @ centers[k]
                if radius is not None and radius > 0.0:
                    none = np.zeros((d, r))
                    rounds.append(_Round(k, centers[k], F, radius, none, np.zeros(d)))
        rows = np.concatenate(points) if points else np.zeros((0, r))
        scale = max(
            [float(np.abs(rows).max(initial=0.0)), float(np.abs(center).max(initial=0.0))]
            + [float(np.abs(b.map).max(initial=0.0)) * b.radius for b in rounds]
        )
        scale = scale or 1.0
        for b in rounds:
            b.map = b.map / scale
        A, b0 = np.zeros((r, r)), center / scale
        for block in rounds:
            block.V, block.q = block.along(np.eye(r) / r, np.zeros(r))
            A = A + block.terms(block.V, block.q)[0]
        hulls = None
        if points:
            starts = np.cumsum([0, *(len(p) for p in points)]).astype(np.int64)
            hulls = Hulls(b0, rows / scale, np.concatenate(caps), starts, np.array(masses), A)
        return cls(form, hulls, rounds, (A, b0), owner, centers, scale)

    def completed(self, rule: AffineRule | None, monitor: Monitor) -> LowerBoundProof:
        """Return the rule of the hulls and those of the balls beside it, block by block."""
        if self.rounds and not monitor.timed_out:
            self._mix(rule)
        r = self.form.rank
        q = [c.copy() for c in self.centers]
        V = [np.zeros((c.size, r)) for c in self.centers]
        if rule is not None:
            for k, at, rows in self.owner:
                q[k][at], V[k][at] = rule.q[rows], rule.V[rows]
        for block in self.rounds:
            q[block.place] = block.middle + block.q
            V[block.place] = block.V
        return LowerBoundProof("rule", [q], slopes=V)

    def _mix(self, rule: AffineRule | None) -> None:
        """Improve the rules of the balls for a rule of the hulls, by successive mixtures.

        Each new rule is the best one for the directions in which the last sum was near its minimum.
        """
        A, b = self.fixed
        if rule is not None and self.hulls is not None:
            S = self.hulls.points.T @ rule.V
            A = A + 0.5 * (S + S.T)
            b = b + self.hulls.points.T @ rule.q
        value = least_on_sphere(A, b)
        spread = 0.3 * float(np.linalg.norm(A, 2)) + 0.3 * float(np.linalg.norm(b))
        for _ in range(_MIXED):
            W, mean = _moments(A, b, max(spread, 1e-300))
            found = [block.along(W, mean) for block in self.rounds]
            terms = [x.terms(V - x.V, q - x.q) for x, (V, q) in zip(self.rounds, found, strict=True)]
            dA, db = sum(t[0] for t in terms), sum(t[1] for t in terms)
            steps = [2.0**-k for k in range(8)]
            values = [least_on_sphere(A + t * dA, b + t * db) for t in steps]
            k = int(np.argmax(values))
            if values[k] > value:
                t, value = steps[k], values[k]
                A, b = A + t * dA, b + t * db
                for block, (V, q) in zip(self.rounds, found, strict=True):
                    block.V = block.V + t * (V - block.V)
                    block.q = block.q + t * (q - block.q)
            spread *= 0.6


def _moments(A: Mat, b: Vec, spread: float) -> tuple[Mat, Vec]:
    """Return the moments of directions of which those with a small `<b, u> + u'A u` have the most weight."""
    r = b.size
    whole = np.zeros((r + 1, r + 1))
    whole[1:, 1:], whole[0, 1:], whole[1:, 0] = A, 0.5 * b, 0.5 * b
    whole[0, 0] = np.trace(A) / r
    e, Q = np.linalg.eigh(whole)
    share = np.exp(-(e - e[0]) / spread)
    Y = (Q * share) @ Q.T
    return Y[1:, 1:] / np.trace(Y[1:, 1:]), Y[0, 1:] / np.trace(Y[1:, 1:])


def _rows(form: UnitNorm, k: int) -> Mat:
    """Return the transposed map of a block in the coordinates of the form, (d, r)."""
    F = form.image.blocks[k].map
    if F.shape[1] <= form.rank:
        return np.array([form.lower(F.matvec(e)) for e in np.eye(F.shape[1])])
    units = np.eye(form.image.n) if form.basis is None else form.basis.T
    return np.array([F.rmatvec(e) for e in units]).T


def refused(form: UnitNorm, monitor: Monitor, most: float) -> str:
    """Why no rule is looked for; empty when one is. `most` is the largest number of multiplications for one
    set of moments."""
    if form.image.couplings:
        return "the operands of an intersection are coupled"
    entries = sum(b.map.shape[1] for b in form.image.blocks)
    if float(entries + form.rank) * form.rank**2 > most:
        return f"{entries} weights in {form.rank} dimensions take too long"
    return "the time was over" if monitor.timed_out else ""


def quick_rule(form: UnitNorm, monitor: Monitor) -> LowerBoundProof | str:
    """Return a rule in some twenty passes over the moments, or why there is none.

    For fixed moments of the second order the best q0 is that of a smooth problem in (E[u], the multipliers
    of the masses), for which a few Newton steps are taken. With its weights k_i on `|W z_i - tau|` the
    moments that bound the dual value best are `W = K^-1 / tr K^-1`, `K = sum k_i (z_i - mean) (z_i - mean)'`:
    a majorant, so that the dual value falls. The smoothing shrinks until the rule gains no more.
    """
    why = refused(form, monitor, _QUICK)
    if why:
        return why
    parts = PointsAndBalls.of(form)
    rule = None if parts.hulls is None else majorised(parts.hulls, monitor)
    return parts.completed(rule, monitor)


def majorised(hulls: Hulls, monitor: Monitor) -> AffineRule | None:
    """Return the rule of `quick_rule` for hulls; None where their points do not move."""
    z, caps, r = hulls.points, hulls.caps, hulls.center.size
    rows = np.hstack([z, -hulls.member])
    line = np.concatenate([hulls.center, hulls.masses])
    y = np.zeros(line.size)
    k = up = down = caps
    gamma = z
    best: AffineRule | None = None
    mu = 0.0
    for _ in range(_STAGES):
        for step in range(_ROUNDS):
            if monitor.timed_out:
                return best
            total = hulls.sums(k)
            if not (total > 0.0).all():
                return best
            away = z - (hulls.sums(z * k[:, None]) / total[:, None])[hulls.group]
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
        rule = hulls.rule(0.5 * (up + down), k[:, None] * gamma)
        if best is not None and not rule.bound > best.bound:
            return best
        best = rule
        mu *= _SHRINK
    return best


def _inverse(K: Mat) -> Mat:
    """Return `K^-1 / tr K^-1`."""
    inverse = np.asarray(np.linalg.pinv(K, hermitian=True), dtype=np.float64)
    return inverse / max(float(np.trace(inverse)), 1e-300)


def _centred(
    rows: Mat, line: Vec, y: Vec, rho: Vec, caps: Vec, mu: float, steps: int
) -> tuple[Vec, Vec, Vec]:
    """Minimise `<line, y> + sum of the smoothed values at (s_i +- rho_i) / 2`, `s = rows y`, by Newton."""

    def at(y: Vec) -> tuple[float, tuple[Vec, Vec, float], tuple[Vec, Vec, float]]:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # too far: not taken
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
            found = at(y + t * d)
            if found[0] <= value - 0.1 * t * gain:
                break
            t *= 0.5
        else:
            break
        y, (value, up, down) = y + t * d, found
    return y, up[0], down[0]
