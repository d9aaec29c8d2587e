"""Sums of reduced hulls and their faces in a direction.

`U = c + sum over groups of {sum_i q_i z_i : 0 <= q <= cap, sum q = mass}`. For w the largest `-w'x` is
taken by the samples with the largest scores `-w'z_i`; those tied at the threshold share the rest of the
mass freely, which is the whole subdifferential (Barbero, Takeda and Lopez 2015, equations (18) to (20)).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm import native
from ucm.data.deadline import check_time
from ucm.data.linear_map import Matrix, Vec
from ucm.forms.monitor import Monitor
from ucm.language.contracts import MassConstraint

_TIED = 1e-10  # of the largest score: closer than this is the same
_WHOLE = 1e-10  # of a mass
_STEPS = 2000  # of clipped MDM, before the system of the free weights is solved


@dataclass(frozen=True)
class Face:
    """The face of U of the maximisers of `-w'x`.

    Attributes
    ----------
    value : `max over x in U of -w'x`
    fixed : c and the samples above the threshold, at their caps, (r,)
    index : the samples tied at a threshold whose weights are not determined, group by group
    group : the group of each tied sample
    rest : the mass that the tied samples of each group share
    weight : (N,) the determined weights, 0 for tied samples
    """

    value: float
    fixed: Vec
    index: NDArray[np.intp]
    group: NDArray[np.int64]
    rest: Vec
    weight: Vec

    def weights(self, shares: Vec) -> Vec:
        """Return the weights of all samples, (N,), for given weights of the tied samples."""
        q = self.weight.copy()
        q[self.index] = shares
        return q


@dataclass(frozen=True)
class SumOfHulls:
    """A sum of G reduced hulls, with duplicate samples of a hull merged.

    Attributes
    ----------
    center : (r,) the point c
    points : (N, r), the z_i, group by group
    caps : (N,) the bounds of the weights
    bounds : (G + 1,) the first sample of each group
    masses : (G,) the sums of the weights
    owner : for every group its block, its entries in the block, and for each entry the merged sample and the
        part of the weight of this sample
    shapes : the lengths of the blocks
    """

    center: Vec
    points: NDArray[np.float64]
    caps: Vec
    bounds: NDArray[np.int64]
    masses: Vec
    owner: tuple[tuple[int, slice | NDArray[np.intp], NDArray[np.intp], Vec], ...]
    shapes: tuple[int, ...]

    @classmethod
    def of(
        cls, center: Vec, blocks: Iterable[tuple[Matrix, Sequence[MassConstraint] | None]]
    ) -> SumOfHulls | None:
        """Return the sum of the hulls of blocks, given by their samples (d, r) and mass constraints.

        None without constraints, or if a block has None.
        """
        points, caps, masses, owner, shapes = [], [], [], [], []
        first = 0
        for k, (rows, constraints) in enumerate(blocks):
            if constraints is None:
                return None
            rows = rows.tocsr() if sparse.issparse(rows) else np.asarray(rows)
            shapes.append(rows.shape[0])
            for g in constraints:
                check_time()
                part: Matrix = rows[g.entries]
                dense = np.asarray(part.toarray() if sparse.issparse(part) else part)
                distinct, merged = _merged(dense + 0.0)  # no -0.0
                most = np.broadcast_to(g.most, g.size)
                cap = np.bincount(merged, most)
                points.append(distinct)
                caps.append(np.minimum(cap, g.mass))
                masses.append(g.mass)
                owner.append((k, g.entries, merged + first, most / cap[merged]))
                first += cap.size
        if not points:
            return None
        sizes = [cap.size for cap in caps]
        check_time()
        return cls(
            center,
            np.ascontiguousarray(np.concatenate(points)),
            np.concatenate(caps),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.array(masses),
            tuple(owner),
            tuple(shapes),
        )

    @property
    def n(self) -> int:
        return self.center.size

    @functools.cached_property
    def group(self) -> NDArray[np.int64]:
        """The group of each sample, (N,)."""
        return np.repeat(np.arange(self.masses.size), np.diff(self.bounds))

    def directions(self) -> NDArray[np.float64]:
        """Return rows that span the differences of the points of U, `z_i - mean` of the free groups."""
        parts = [np.zeros((0, self.n))]
        for g, mass in enumerate(self.masses):
            rows = slice(self.bounds[g], self.bounds[g + 1])
            if self.caps[rows].sum() > mass * (1.0 + _WHOLE):
                check_time()
                points = self.points[rows]
                parts.append(points - points.mean(axis=0))
        return np.concatenate(parts)

    def in_basis(self, basis: NDArray[np.float64]) -> SumOfHulls:
        """Return the sum of hulls in the coordinates `basis' x`."""
        points = np.ascontiguousarray(self.points @ basis)
        return replace(self, center=basis.T @ self.center, points=points)

    def scores(self, w: Vec) -> Vec:
        return -(self.points @ w)

    def face(self, w: Vec, scores: Vec | None = None, count: int = 0) -> Face:
        """Return the face of U of the maximisers of `-w'x`, with ties up to rounding.

        With a count, that many samples nearest to the threshold of each group count as tied: an
        epsilon-subdifferential.
        """
        s = self.scores(w) if scores is None else scores
        tolerance = _TIED * max(float(np.abs(s).max(initial=0.0)), 1e-300)
        value = -float(self.center @ w)
        weight = np.zeros(s.size)
        index, group, remainders = [], [], []
        for g, mass in enumerate(self.masses):
            a, b = self.bounds[g], self.bounds[g + 1]
            u, cap = s[a:b], self.caps[a:b]
            theta = native.fill_to_mass(u, cap, mass)[2][1]
            sure = u > theta
            value += float(cap[sure] @ u[sure]) + (mass - float(cap[sure].sum())) * theta
            distances, width = np.abs(u - theta), tolerance
            if count > 0:
                k = min(count, distances.size - 1)
                width = max(width, float(np.partition(distances, k)[k]))
            inside = distances <= width
            at, above = np.flatnonzero(inside), sure & ~inside
            weight[a:b][above] = cap[above]
            full = float(cap[at].sum())
            left = min(mass - float(cap[above].sum()), full)
            if left >= full - _WHOLE * mass or at.size == 1:
                weight[a + at] = cap[at] * (left / full)
            elif left > _WHOLE * mass:
                index.append(a + at)
                group.append(np.full(at.size, len(remainders), dtype=np.int64))
                remainders.append(left)
        used = np.flatnonzero(weight)
        return Face(
            value,
            self.center + weight[used] @ self.points[used],
            np.concatenate([np.zeros(0, dtype=np.intp), *index]),
            np.concatenate([np.zeros(0, dtype=np.int64), *group]),
            np.array(remainders),
            weight,
        )

    def part(self, face: Face) -> SumOfHulls:
        """Return the sum of hulls in which the tied samples of a face vary alone, a subset of U.

        Its support function lies below that of U, and equals it at the w of the face.
        """
        sizes = np.bincount(face.group, minlength=face.rest.size)
        bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        points = np.ascontiguousarray(self.points[face.index])
        return SumOfHulls(face.fixed, points, self.caps[face.index], bounds, face.rest, (), ())

    def differences(self, face: Face) -> NDArray[np.float64]:
        """Return rows `z_i - z_j` of tied samples of each group, which span the differences in the face."""
        parts = [np.zeros((0, self.n))]
        for g in range(face.rest.size):
            points = self.points[face.index[face.group == g]]
            parts.append(points[1:] - points[0])
        return np.concatenate(parts)

    def blocks(self, q: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the weights (N,), or their slopes (N, r), by block; merged samples share theirs by caps."""
        weights = [np.zeros((size, *q.shape[1:])) for size in self.shapes]
        for k, index, merged, part in self.owner:
            weights[k][index] = (q[merged].T * part).T
        return weights

    def line_minimum(self, scores: Vec, w: Vec, d: Vec, first: float) -> float:
        """Return the step t > 0 that minimises `max over x in U of -(w + t d)'x`, from the trial `first`."""
        move, offset = self.scores(d), (-float(self.center @ w), -float(self.center @ d))
        groups = [slice(a, b) for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)]

        def at(t: float) -> tuple[float, float, float]:
            value, slope = offset[0] + t * offset[1], offset[1]
            for g, mass in zip(groups, self.masses, strict=True):
                q, height, _ = native.fill_to_mass(scores[g] + t * move[g], self.caps[g], mass)
                value, slope = value + height, slope + float(q @ move[g])
            return t, value, slope

        return least_of_tangents(at, first)

    def nearest_kink(self, w: Vec, d: Vec) -> float:
        """Return the least t > 0 at which another sample meets a threshold along `w + t d`; else inf.

        Barbero, Takeda and Lopez (2015), equation (29); ties are ordered by the scores of d.
        """
        s, move = self.scores(w), self.scores(d)
        tolerance = _TIED * max(float(np.abs(s).max(initial=0.0)), 1e-300)
        still = _TIED * max(float(np.abs(move).max(initial=0.0)), 1e-300)
        first = np.inf
        for g, mass in enumerate(self.masses):
            rows = slice(self.bounds[g], self.bounds[g + 1])
            u, v, cap = s[rows], move[rows], self.caps[rows]
            theta = native.fill_to_mass(u, cap, mass)[2][1]
            at = np.abs(u - theta) <= tolerance
            left = mass - float(cap[u > theta + tolerance].sum())
            filled = min(left, float(cap[at].sum()))
            speed = native.fill_to_mass(v[at], cap[at], filled)[2][1]
            lower = (u < theta - tolerance) & (v > speed + still)
            upper = (u > theta + tolerance) & (v < speed - still)
            meets = lower | upper
            if meets.any():
                first = min(first, float(((theta - u[meets]) / (v[meets] - speed)).min()))
        return first


def least_of_tangents(at: Callable[[float], tuple[float, float, float]], first: float) -> float:
    """Return a minimiser t > 0 of a convex, piecewise linear function, by its tangents.

    `at` takes t to t, the value and a slope there; `first` is a guess of t. Tangents of both sides meet
    above, or at, the minimum; where they meet at the graph it is found.
    """
    low, high = at(0.0), at(first)
    for _ in range(60):  # until the function rises
        if high[2] >= 0.0:
            break
        low, high = high, at(4.0 * high[0])
    if low[2] >= 0.0:  # ties at t = 0: any slope of the left may have come
        low = (*low[:2], min(low[2], (high[1] - low[1]) / (high[0] - low[0])))
    for _ in range(100):
        if not high[2] > low[2]:
            break
        t = (low[1] - high[1] + high[2] * high[0] - low[2] * low[0]) / (high[2] - low[2])
        if not low[0] < t < high[0]:
            break
        middle, meet = at(t), low[1] + low[2] * (t - low[0])
        if middle[1] <= meet + 1e-14 * abs(meet):
            return t
        low, high = (middle, high) if middle[2] < 0.0 else (low, middle)
    return low[0] if low[1] <= high[1] and low[0] > 0.0 else high[0]


def _merged(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the distinct rows by first occurrence, and the index of each row among these."""
    known: dict[bytes, int] = {}
    index = np.empty(len(rows), dtype=np.intp)
    for i, row in enumerate(np.ascontiguousarray(rows)):
        if i % 256 == 0:
            check_time()
        key = row.tobytes() if row.size <= 64 else blake2b(row, digest_size=16).digest()
        index[i] = known.setdefault(key, len(known))
    return rows if len(known) == len(rows) else rows[np.unique(index, return_index=True)[1]], index


def min_norm_point(
    fixed: Vec,
    points: NDArray[np.float64],
    caps: Vec,
    group: NDArray[np.int64],
    rest: Vec,
    monitor: Monitor | None = None,
) -> tuple[Vec, Vec]:
    """Return the weights q that minimise `||fixed + points' q||_2`, and the vector `fixed + points' q`.

    `0 <= q <= caps` and the sum of group g is `rest[g]`: equation (25) of Barbero, Takeda and Lopez
    (2015), by clipped MDM. The linear system of the shares between their bounds then gives full accuracy, if
    the time limit of the monitor allows it.
    """
    monitor = monitor or Monitor()
    q = np.zeros(caps.size)
    for g, mass in enumerate(rest):
        members = group == g
        q[members] = caps[members] * (mass / caps[members].sum())
    if q.size == 0 or q.size > 6000:  # the inner products of more samples exceed 288 MB: they keep the start
        return q, fixed + points.T @ q
    K = np.ascontiguousarray(points @ points.T)
    h = points @ fixed
    ends = np.empty((2, rest.size), np.int64)
    scale = max(float(np.abs(h).max()), float(np.abs(K).max()) * float(rest.sum()), 1e-300)
    for _ in range(20):  # each is followed by the system of the free weights
        steps = native.library.exchange(
            q.size, rest.size, K, group, caps, 1e-13 * scale, _STEPS, q, h + K @ q, *ends
        )
        q = _refined(fixed, points, caps, group, q, monitor)
        if steps < _STEPS or monitor.timed_out:
            break
    return q, fixed + points.T @ q


def _refined(
    fixed: Vec, points: NDArray[np.float64], caps: Vec, group: NDArray[np.int64], q: Vec, monitor: Monitor
) -> Vec:
    """Return q after active-set least-squares steps in the weights strictly between their bounds."""
    for _ in range(q.size):
        if monitor.timed_out:
            break
        free = np.flatnonzero((q > 0.0) & (q < caps))
        order = free[np.argsort(group[free], kind="stable")]
        heads, first = np.unique(group[order], return_index=True)
        b = np.delete(order, first)
        if not b.size:
            return q
        a = order[first][np.searchsorted(heads, group[b])]
        x = fixed + points.T @ q
        if not np.isfinite(x).all():
            return q  # of a set without bounds
        # by pivoted QR: a singular value decomposition need not converge
        step: Any = linalg.lstsq((points[b] - points[a]).T, -x, cond=1e-12, lapack_driver="gelsy")
        d = np.zeros(q.size)
        d[b] = step[0]
        np.subtract.at(d, a, step[0])
        steps = np.full(q.size, np.inf)
        down, up = d < 0.0, d > 0.0
        steps[down] = -q[down] / d[down]
        steps[up] = (caps[up] - q[up]) / d[up]
        k = int(np.argmin(steps))
        t = min(1.0, float(steps[k]))
        new = np.clip(q + t * d, 0.0, caps)
        if t < 1.0:
            new[k] = 0.0 if d[k] < 0.0 else caps[k]
        after, before = fixed + points.T @ new, x
        if after @ after > before @ before:
            return q
        q = new
        if t >= 1.0:
            return q
    return q
