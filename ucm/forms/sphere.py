"""The non-convex problem for 0 in U: the least worst case `max over U of -w'x` over the unit sphere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucm.data.deadline import check_time
from ucm.data.linear_map import Vec
from ucm.data.moments import weighted_sums
from ucm.forms.distance import MinNorm, endless_box, in_dual_cone
from ucm.forms.faces import SumOfHulls, min_norm_point
from ucm.forms.solver import Answer, Expected
from ucm.language.contracts import Block
from ucm.language.domains import Box
from ucm.language.robust import dual_exponent

_ORTHOGONAL = 1e-12  # of a unit vector
_FLAT = 1e-7  # of the width of U: thinner is rounding of the samples


@dataclass(frozen=True)
class UnitNorm:
    """The non-convex problem of a robust margin with 0 in U.

    `min f(w)` over `||w||_p = 1` in the span of U, `f(w) = max over x in U of -w'x`.

    f is convex, positively homogeneous and not negative; its minimum is the distance, in the dual norm,
    from 0 to the boundary of U. Directions orthogonal to the span are excluded, as f is 0 there. f is finite
    on the dual cone of the recession cone of U only: w is orthogonal to the lines in U, and `<r, w> >= 0`
    for its other rays r. If these w do not span R^n, w = basis v, and all methods use the coordinates v.

    Attributes
    ----------
    image : the lowered set
    norm : p in [1, inf]
    basis : (n, r) orthonormal columns that span U without its lines; None if they span R^n
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
        hulls, groups = None, [() if _is_free(b) else b.groups for b in image.blocks]
        if not image.couplings and None not in groups:
            rows = (b.map.matrix().T for b in image.blocks)
            hulls = SumOfHulls.of(image.center, zip(rows, groups, strict=True))
        if hulls is None:
            basis = _span_of(image)
        else:
            differences = image.off_lines(hulls.directions().T).T
            basis = _span(differences, np.abs(hulls.points).max(axis=0))[0]
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

    @functools.cached_property
    def rays(self) -> NDArray[np.float64]:
        """The rays of U that are no lines, in the coordinates v, (r, k)."""
        rays = self.image.endless[1]
        return rays if self.basis is None else self.basis.T @ rays

    @property
    def flat(self) -> bool:
        """True if w is restricted to the span of U, which is not R^n, and not by the lines in U alone."""
        return self.rank + self.image.endless[0].shape[1] < self.image.n

    @functools.cached_property
    def bounded(self) -> bool:
        """True if U has no rays but lines, by f at a random direction and its opposite, or is coupled."""
        v = np.random.default_rng(0).standard_normal(self.rank)
        return bool(self.image.couplings) or all(np.isfinite(self.height(u)) for u in (v, -v))

    def inside(self, v: Vec) -> Vec:
        """Return the coordinates nearest to v for which `<r, v> >= 0` for all rays r of U."""
        return in_dual_cone(self.rays, v)

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

    def centers(self) -> list[Vec]:
        """Return the centre of the domain of every block; of a box without a bound its point nearest to 0."""
        pairs = zip(self.image.blocks, self.image.centers(), strict=True)
        boxes = ((endless_box(b), c) for b, c in pairs)
        return [c if box is None else box.project(0.0 * c) for box, c in boxes]

    def start(self) -> Vec:
        """Return the default start: the difference of the barycentres or, if 0, the thinnest coordinate.

        It is moved to where f is finite. Barbero, Takeda and Lopez (2015), section 5.5.
        """
        v = self.inside(self.lower(self.image.matvec(self.centers())))
        scale = max((float(b.map.column_norms().max(initial=0.0)) for b in self.image.blocks), default=0.0)
        if self.image.space.norm(v) > 1e-12 * scale:
            return self.unit(v)
        units = map(self.inside, np.vstack([np.eye(self.rank), -np.eye(self.rank)]))
        feasible = [self.unit(v) for v in units if self.image.space.norm(v) > _ORTHOGONAL]
        return min(feasible, key=self.height, default=np.eye(self.rank)[0])

    def height(self, v: Vec) -> float:
        """Return the worst case f at the coordinates v, without the couplings."""
        if self.hulls is not None:
            return self.hulls.face(v).value
        return self.highest(v)[0]

    def highest(self, v: Vec) -> tuple[float, list[Vec]]:
        """Return f without the couplings, and the blocks of a maximiser x of `-w'x`."""
        w = self.lift(v)
        supports = self.image.farthest(-w)
        return -float(self.image.center @ w) + sum(h for h, _ in supports), [q for _, q in supports]

    def normal(self, v: Vec) -> Vec:
        """Return an element of the subdifferential of `||w||_p` at `||w||_p = 1`, in the coordinates v."""
        base, kinks = self.normals(v)
        return base + sum(k.mean(axis=0) for k in kinks)

    def normals(self, v: Vec) -> tuple[Vec, list[NDArray[np.float64]]]:
        """Return the subdifferential of `||w||_p`: `base + sum over k of conv(rows of kinks[k])`."""
        w = self.lift(v)
        size = np.abs(w)
        top = float(size.max())
        if self.norm == np.inf:
            at = np.flatnonzero(size >= top * (1.0 - 1e-9))
            rows = np.zeros((at.size, w.size))
            rows[np.arange(at.size), at] = np.sign(w[at])
            return np.zeros(v.size), [self.lower(rows.T).T]
        if self.norm == 1.0:
            zero = np.flatnonzero(size <= 1e-9 * top)
            base = np.sign(w)
            base[zero] = 0.0
            units = np.zeros((zero.size, w.size))
            units[np.arange(zero.size), zero] = 1.0
            return self.lower(base), [self.lower(np.array([u, -u]).T).T for u in units]
        base = np.sign(w) * size ** (self.norm - 1.0)
        return self.lower(base / float(base @ w)), []

    def corners(self, v: Vec) -> list[Vec]:
        """Return elements of the subdifferential of the norm: the gradient, or several elements at a kink."""
        base, kinks = self.normals(v)
        if self.norm == np.inf:
            return list(kinks[0])
        return [base, *(base + u for pair in kinks for u in pair)]

    def vertices(self) -> Iterator[Vec]:
        """Return the vertices g of the dual-norm ball in the coordinates v; `||w||_p = max <g, w>`.

        They are +-e_j for p = inf, and for p = 1 all signs in the order of a Gray code. Vertices orthogonal
        to the span of U are left out. If the rays R of U span the space, one vector g is enough, and
        `<g, w> >= ||w||_p` for all w with `u = R'w >= 0`: with P the pseudoinverse of R', `w = P u` and
        `||w||_p <= sum_i u_i ||P_i||_p = <g, w>`.
        """
        if self.rays.size:
            P = np.linalg.pinv(self.rays.T)
            if np.linalg.matrix_rank(self.rays) == self.rank:
                yield self.rays @ [self.length(column) for column in P.T]
            return
        n = self.image.n
        rows: Iterable[Vec] = ()
        if self.norm == np.inf:
            rows = (sign * e for e in np.eye(n) for sign in (1.0, -1.0))
        elif self.norm == 1.0:
            flips = ((k ^ k >> 1) >> np.arange(n) & 1 for k in range(2**n))
            rows = (np.where(each, -np.ones(n), 1.0) for each in flips)
        yield from (g for g in map(self.lower, rows) if np.linalg.norm(g) > _ORTHOGONAL)

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


# --- the span of U ---------------------------------------------------------------------------------
def _is_free(block: Block) -> bool:
    """True if the domain of a block is a whole space."""
    return isinstance(block.domain, Box) and bool(np.isinf(np.hstack(block.domain.bounds())).all())


def _span_of(image: MinNorm) -> NDArray[np.float64] | None:
    """Return orthonormal columns that span U without its lines; None if they span R^n.

    The span is that of the differences of points, as 0 lies in U, by the weights q where these are fewer than
    the features. Couplings are left out, and where U has no end the direction itself counts as a difference:
    the span may be too large, which is safe, as the minimum over more w is lower (0 at worst). Over too few w
    it would be no bound.
    """
    far = image.extremes()
    if not far:
        return np.zeros((image.n, 0))
    large = sum((b.map.sizes(q) for b, q in zip(image.blocks, far, strict=True)), start=np.abs(image.center))
    ends = np.cumsum([q.size for q in far])

    def along_weights(u: Vec) -> Vec:
        check_time()
        u = np.where(np.abs(u) <= 1e-14 * np.abs(u).max(), 0.0, u)  # rounding
        g = np.split(u, ends[:-1])
        q = _difference(image.supports(g), image.supports([-v for v in g]))
        return u if q is None else np.concatenate(q)

    def along_features(u: Vec) -> Vec:
        check_time()
        q = _difference(image.farthest(u), image.farthest(-u))
        return image.off_lines(u if q is None else image.matvec(q) - image.center)

    if ends[-1] < image.n:
        found = _all_differences(along_weights, np.eye(ends[-1]), np.zeros(ends[-1]))
        rows = [image.off_lines(image.matvec(np.split(q, ends[:-1])) - image.center) for q in found]
        return _span(np.array(rows), large)[0]
    return _span(_all_differences(along_features, image.off_lines(np.eye(image.n)), large), large)[0]


def _difference(far: list[tuple[float, Vec]], near: list[tuple[float, Vec]]) -> list[Vec] | None:
    """Return the differences of maximisers by block; None if a support is infinite."""
    if not all(np.isfinite(height) for height, _ in (*far, *near)):
        return None
    return [a - b for (_, a), (_, b) in zip(far, near, strict=True)]


def _all_differences(
    across: Callable[[Vec], Vec], probes: NDArray[np.float64], large: Vec
) -> NDArray[np.float64]:
    """Return rows that span all differences of points of a set; `across(u)` is one that is longest along u.

    The longest `<u, x - y>` is a seminorm of u, 0 exactly for u orthogonal to all differences. So a span of
    some differences holds all of them if the seminorm is 0 along each vector of a basis of the complement.
    The differences along these vectors, at first along the `probes`, which span the space, are therefore
    added until the rank grows no more.
    """
    rows, rank = np.zeros((0, large.size)), -1
    while True:
        rows = np.vstack([rows, *map(across, probes)])
        basis, probes = _span(rows, large)
        if basis is None or basis.shape[1] == rank:
            return rows
        rank = basis.shape[1]


def _span(rows: NDArray[np.float64], large: Vec) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return orthonormal columns that span the rows, None if they span R^n, and rows for the complement.

    The rank is that of the columns scaled to length one, so that units of the features do not count; a
    column is 0 when it is rounding of the coordinate's size. The complement is orthonormal over the scaled
    columns, and leaves out columns that are 0; it has no rows for thousands of columns of fewer rows.
    """
    n = rows.shape[1]
    sizes = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    used = np.flatnonzero(sizes > 1e-13 * np.sqrt(rows.shape[0]) * large)
    none = np.zeros((0, n))
    if used.size == 0:
        return none.T, none
    check_time()
    scaled = (rows if used.size == n else rows[:, used]) / sizes[used]
    if scaled.shape[0] >= used.size:
        gram = weighted_sums(scaled, np.ones(scaled.shape[0]))[0]
        check_time()
        if float(np.linalg.eigvalsh(gram)[0]) > 1e3 * _FLAT**2 * used.size:
            return (None if used.size == n else np.eye(n)[:, used]), none
    check_time()
    if scaled.shape[0] > used.size:
        scaled = np.linalg.qr(scaled, mode="r")
    _, s, V = np.linalg.svd(scaled, full_matrices=used.size < 3000)
    rank = int((s > _FLAT * s[0]).sum())
    if rank == used.size:
        return (None if used.size == n else np.eye(n)[:, used]), none
    basis = np.zeros((n, rank))
    if V.shape[0] < used.size:
        basis[used] = np.linalg.qr((V[:rank] * sizes[used]).T)[0]
        return basis, none
    complement = np.zeros((used.size - rank, n))
    complement[:, used] = V[rank:] / sizes[used]
    # orthogonal to the null vectors of the unscaled columns
    basis[used] = np.linalg.qr(complement[:, used].T, mode="complete")[0][:, used.size - rank :]
    return basis, complement
