"""The non-convex problem for 0 in U: the least worst case `max over U of -w'x` over the unit sphere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucm.data.deadline import check_time
from ucm.data.linear_map import Vec
from ucm.data.moments import weighted_sums
from ucm.forms.distance import MinNorm
from ucm.forms.faces import SumOfHulls, min_norm_point
from ucm.forms.solver import Answer, Expected
from ucm.language.robust import dual_exponent

_ROUNDING = 1e-13  # of a coordinate
_ORTHOGONAL = 1e-12  # of a unit vector
_FLAT = 1e-7  # of the width of U: thinner is rounding of the samples


@dataclass(frozen=True)
class UnitNorm:
    """The non-convex problem of a robust margin with 0 in U.

    `min f(w)` over `||w||_p = 1` in the span of U, `f(w) = max over x in U of -w'x`.

    f is convex, positively homogeneous and not negative; its minimum is the distance, in the dual norm,
    from 0 to the boundary of U. Directions orthogonal to the span are excluded, as f is 0 there.
    If U does not span R^n, w = basis v, and all methods use the coordinates v.

    Attributes
    ----------
    image : the lowered set
    norm : p in [1, inf]
    basis : (n, r) orthonormal columns that span U; None if U spans R^n
    hulls : the set as a sum of reduced hulls in the coordinates v; None for another set

    Notes
    -----
    Barbero, Takeda and Lopez (2015), equations (7) and (15).
    """

    image: MinNorm
    norm: float = 2.0
    basis: NDArray[np.float64] | None = None
    hulls: SumOfHulls | None = None

    @classmethod
    def of(cls, image: MinNorm, norm: float) -> UnitNorm:
        """Return the problem over the unit sphere of a lowered set that contains 0."""
        hulls = None
        if not image.couplings and all(b.groups is not None for b in image.blocks):
            hulls = SumOfHulls.of(image.center, [(b.map.matrix().T, b.groups) for b in image.blocks])
        if hulls is None:
            basis = _span(*_directions(image))
        else:
            basis = _span(hulls.directions(), np.abs(hulls.points).max(axis=0))
        if hulls is not None and basis is not None:
            hulls = hulls.in_basis(basis)
        return cls(image, norm, basis, hulls)

    @property
    def expected(self) -> Expected:
        return self.image.expected

    @property
    def rank(self) -> int:
        """The dimension of the span of U."""
        return self.image.n if self.basis is None else self.basis.shape[1]

    def lift(self, v: Vec) -> Vec:
        """Return `w = basis v` of the coordinates v."""
        return v if self.basis is None else self.basis @ v

    def block_matrix(self, k: int) -> NDArray[np.float64]:
        """Return the transposed map of block k in the coordinates v, as a (d, r) matrix."""
        F = self.image.blocks[k].map
        if F.shape[1] <= self.rank:
            return np.array([self.lower(F.matvec(e)) for e in np.eye(F.shape[1])])
        units = np.eye(self.image.n) if self.basis is None else self.basis.T
        return np.array([F.rmatvec(e) for e in units]).T

    def trace_record(self, v: Vec) -> dict:
        """Return the trace record of the coordinates v, which holds w."""
        return {"w": self.lift(v)}

    def lower(self, w: Vec) -> Vec:
        """Return the coordinates v of w, or of the orthogonal projection of w onto the span."""
        return w if self.basis is None else self.basis.T @ w

    def unit(self, v: Vec) -> Vec:
        """Return the coordinates v scaled to `||w||_p = 1`."""
        return v / self.length(v)

    def length(self, v: Vec) -> float:
        """Return the norm `||w||_p` of the coordinates v."""
        return self.image.space.norm(self.lift(v), self.norm)

    def begin(self, start: Answer | None) -> Vec:
        """Return the starting coordinates: those of the given w at norm 1, or `start()`."""
        return self.start() if start is None or start.w is None else self.unit(self.lower(start.w))

    def start(self) -> Vec:
        """Return the default start: the difference of the barycentres or, if 0, the thinnest coordinate.

        Barbero, Takeda and Lopez (2015), section 5.5; f is least in the thinnest coordinate.
        """
        v = self.lower(self.image.matvec(self.image.centers()))
        scale = max((float(b.map.column_norms().max(initial=0.0)) for b in self.image.blocks), default=0.0)
        if self.image.space.norm(v) > 1e-12 * scale:
            return self.unit(v)
        units = [self.unit(e) for e in np.eye(self.rank)]
        return min(units, key=self.height)

    def height(self, v: Vec) -> float:
        """Return the worst case f at the coordinates v, without the couplings."""
        if self.hulls is not None:
            return self.hulls.face(v).value
        return self.highest(v)[0]

    def highest(self, v: Vec) -> tuple[float, list[Vec]]:
        """Return f without the couplings, and the blocks of a maximiser x of `-w'x`."""
        w = self.lift(v)
        supports = self.image.supports([-u for u in self.image.rmatvec(w)])
        return -float(self.image.center @ w) + sum(h for h, _ in supports), [q for _, q in supports]

    def normal(self, v: Vec) -> Vec:
        """Return an element of the subdifferential of `||w||_p` at `||w||_p = 1`, in the coordinates v."""
        base, kinks = self.normals(v)
        return base + sum(k.mean(axis=0) for k in kinks)

    def normals(self, v: Vec) -> tuple[Vec, list[NDArray[np.float64]]]:
        """Return the subdifferential of `||w||_p`: `base + sum over k of conv(rows of kinks[k])`.

        `sign(w) |w|^(p-1)` for 1 < p < inf; for p = inf the hull of the largest coordinates, for p = 1
        an interval for every coordinate that is 0.
        """
        w = self.lift(v)
        size = np.abs(w)
        top = float(size.max())
        if self.norm == np.inf:
            at = np.flatnonzero(size >= top * (1.0 - 1e-9))
            rows = np.zeros((at.size, w.size))
            rows[np.arange(at.size), at] = np.sign(w[at])
            return np.zeros(v.size), [self._lowered(rows)]
        if self.norm == 1.0:
            zero = np.flatnonzero(size <= 1e-9 * top)
            base = np.sign(w)
            base[zero] = 0.0
            units = np.zeros((zero.size, w.size))
            units[np.arange(zero.size), zero] = 1.0
            return self.lower(base), [self._lowered(np.stack([u, -u])) for u in units]
        base = np.sign(w) * size ** (self.norm - 1.0)
        return self.lower(base / float(base @ w)), []

    def corners(self, v: Vec) -> list[Vec]:
        """Return elements of the subdifferential of the norm: the gradient, or several elements at a kink."""
        base, kinks = self.normals(v)
        if self.norm == np.inf:
            return list(kinks[0])
        return [base, *(base + u for pair in kinks for u in pair)]

    def _lowered(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows if self.basis is None else rows @ self.basis

    def vertices(self) -> Iterator[Vec]:
        """Return the vertices g of the dual-norm ball in the coordinates v; `||w||_p = max <g, w>`.

        They are +-e_j for p = inf, and for p = 1 all signs in the order of a Gray code. Vertices orthogonal
        to the span of U are left out.
        """
        n = self.image.n
        rows: Iterable[Vec] = ()
        if self.norm == np.inf:
            rows = (sign * e for e in np.eye(n) for sign in (1.0, -1.0))
        elif self.norm == 1.0:
            flips = ((k ^ k >> 1) >> np.arange(n) & 1 for k in range(2**n))
            rows = (np.where(each, -np.ones(n), 1.0) for each in flips)
        return (g for g in map(self.lower, rows) if np.linalg.norm(g) > _ORTHOGONAL)

    def box(self) -> Vec:
        """Return the largest `|v_i|` over `||w||_p <= 1`, (r,)."""
        if self.basis is None:
            return np.ones(self.image.n)
        dual = dual_exponent(self.norm)
        return np.array([self.image.space.norm(b, dual) for b in self.basis.T])

    def residual(self, v: Vec) -> tuple[float, Vec, Vec]:
        """Return the residual `dist(df(w), f(w) d||w||_p)` over hulls, the sample weights and the normal.

        It is one quadratic program over both sets.

        0 at a stationary point. The multiplier of the constraint is -f(w), by Euler's identity.
        """
        if self.hulls is None:
            raise TypeError("residual: needs a sum of reduced hulls")
        face = self.hulls.face(v)
        base, kinks = self.normals(v)
        f, first = face.value, face.rest.size
        rows = [self.hulls.points[face.index], *(f * k for k in kinks)]
        caps = [self.hulls.caps[face.index], *(np.ones(k.shape[0]) for k in kinks)]
        group = [face.group, *(np.full(k.shape[0], first + j) for j, k in enumerate(kinks))]
        shares, residual = min_norm_point(
            face.fixed + f * base,
            np.concatenate(rows),
            np.concatenate(caps),
            np.concatenate(group).astype(np.int64),
            np.concatenate([face.rest, np.ones(len(kinks))]),
        )
        normal, k = base.copy(), face.index.size
        for points in kinks:
            normal += shares[k : k + points.shape[0]] @ points
            k += points.shape[0]
        return float(np.linalg.norm(residual)), face.weights(shares[: face.index.size]), normal


def _directions(image: MinNorm) -> tuple[NDArray[np.float64], Vec]:
    """Return rows that span the differences of points of U, and the sizes of the points by coordinate.

    The rows are maximisers in at most n + 2 random directions, minus the centre of U.
    """
    generator = np.random.default_rng(0)
    center = image.matvec(image.centers())
    rows, large = [], np.abs(image.center)
    for k in range(min(image.n, sum(b.map.shape[1] for b in image.blocks)) + 2):
        check_time()
        g = [generator.standard_normal(b.map.shape[1]) for b in image.blocks]
        q = [p for _, p in image.supports(g)]
        rows.append(image.matvec(q) - center)
        if k == 0:  # without cancellation: signed samples may sum to rounding
            for b, p in zip(image.blocks, q, strict=True):
                large = large + b.map.sizes(p)
    return np.array(rows), large


def _span(rows: NDArray[np.float64], large: Vec) -> NDArray[np.float64] | None:
    """Return orthonormal columns that span the rows; None if the rows span R^n.

    The rank is that of the columns scaled to length one, so that units of the features do not count; a
    column is 0 when it is rounding of the coordinate's size.
    """
    n = rows.shape[1]
    sizes = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    used = np.flatnonzero(sizes > _ROUNDING * np.sqrt(rows.shape[0]) * large)
    if used.size == 0:
        return np.zeros((n, 0))
    scaled = rows[:, used] / sizes[used]
    if scaled.shape[0] >= used.size:
        gram = weighted_sums(scaled, np.ones(scaled.shape[0]))[0]
        check_time()
        if float(np.linalg.eigvalsh(gram)[0]) > 1e3 * _FLAT**2 * used.size:
            return None if used.size == n else np.eye(n)[:, used]
    check_time()
    if scaled.shape[0] > used.size:
        scaled = np.linalg.qr(scaled, mode="r")
    _, s, V = np.linalg.svd(scaled, full_matrices=used.size < 3000)
    rank = int((s > _FLAT * s[0]).sum())
    if rank == used.size:
        return None if used.size == n else np.eye(n)[:, used]
    basis = np.zeros((n, rank))
    if V.shape[0] == used.size:  # orthogonal to the null vectors of the unscaled columns
        null = np.linalg.qr((V[rank:] / sizes[used]).T, mode="complete")[0]
        basis[used] = null[:, used.size - rank :]
    else:
        basis[used] = np.linalg.qr((V[:rank] * sizes[used]).T)[0]
    return basis
