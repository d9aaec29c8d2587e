"""Proximal map, conjugate and domain of the conjugate of a sum of convex penalties."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec
from ucm.language.cone import Bound, PolyhedralCone
from ucm.language.contracts import round_violation
from ucm.language.objective import ScaledPenalty, split_scalar
from ucm.language.penalties.norms import L2, LInf
from ucm.language.penalties.quadratic import Quadratic
from ucm.language.terms import ProximalPenalty, box_gauge, last, shrink_box

_ZERO = ScaledPenalty(0.0, L2())  # the zero function
_STEP = 1e-6  # relative
_DENSE = 1000  # directions of dense systems
_SWEEPS = 30  # of projections on the cones of a sum
_FULL_STEP = 0.9  # the step from which on a differentiable term takes the remainder of z
_REACHES = 2.0 ** np.arange(0, 61, 4)  # upper bounds of a gauge, to begin a bisection with
_NEAR = 0.01  # relative distance from the boundary of the domain, from which a dual point is pulled back
_REPORTED = 1e-6  # the largest distance from the domain, relative to the terms that cancel in z, to report


def slope_near(h: ProximalPenalty, w: Vec, z: Vec) -> Vec:
    """Return a subgradient of h in dom h* at a proximal point near w; 0 if w or z is 0, or z overflows."""
    size, steep = float(np.abs(w).max(initial=0.0)), float(np.abs(z).max(initial=0.0))
    if size == 0.0 or not 0.0 < steep < np.inf:
        return np.zeros_like(w)
    t = _STEP * size / steep
    g = h.project_onto_domain_cone((w - h.prox(w, t)) / t)
    return g / max(h.gauge(g), 1.0)


def deviation(z: Vec, inside: Vec, size: Bound) -> float:
    """Return the largest entry of `z - inside` relative to the size of the terms that cancel in z."""
    missed = np.abs(z - inside)
    if inside[missed > 0.0].any():
        size = np.max(size)
    return float((missed / np.where(np.asarray(size) > 0.0, size, 1.0)).max(initial=0.0))


@dataclass(frozen=True)
class CombinedPenalty:
    """A sum of convex penalties, `R(w) = a ||w||_1 + c ||w||_2^2 + s ||w||_inf + f(w)`.

    f is the sum of the other terms.

    With B the sum of the boxes of the terms (`ProximalPenalty.box`), R is the support function of B plus
    c ||w||_2^2 plus the other terms. If there is one other term h at most, and its proximal map keeps signs,
    the proximal map of R is that of h after that of the box (Yu, 2013, On decomposing the proximal map), and
    all methods are exact. Otherwise `conjugate` has the other terms at 0, which gives an upper bound
    of `R*`.

    terms : the penalties; several quadratic forms `w'Qw` become one
    """

    terms: tuple[ProximalPenalty, ...]

    def __post_init__(self) -> None:
        forms, others = self._parted
        if len(forms) > 1:
            total = Quadratic(functools.reduce(operator.add, (c * S.Q for c, S in forms)))
            object.__setattr__(self, "terms", (*others, total))

    @property
    def _parted(self) -> tuple[list[tuple[float, Quadratic]], list[ProximalPenalty]]:
        """The pairs (c, S) of the terms `c S` that are quadratic forms, and the other terms."""
        forms, others = [], []
        for R in self.terms:
            c, S = split_scalar(R)
            if isinstance(S, Quadratic):
                forms.append((c, S))
            else:
                others.append(R)
        return forms, others

    @functools.cached_property
    def norms(self) -> tuple[float, float, float, tuple[ProximalPenalty, ...]]:
        """The factors (a, c, s) of the norms, and the tuple of the other terms."""
        a, c, s = map(sum, zip((0.0, 0.0, 0.0), *filter(None, (R.norms() for R in self.terms)), strict=True))
        return a, c, s, tuple(R for R in self.terms if R.norms() is None)

    @property
    def has_norm(self) -> bool:
        """True if the l1, squared l2 or inf-norm is a term, so that the cone of dom R* is the whole space."""
        return any(self.norms[:3])

    @functools.cached_property
    def _box(self) -> tuple[Bound, Bound] | None:
        """The bounds (lower, upper) of the box B; None if no term has a box."""
        a, _, _, remaining = self.norms
        boxes = [box for R in remaining if (box := R.box()) is not None]
        if not boxes:
            return (-a, a) if a > 0.0 else None
        return sum((low for low, _ in boxes), -a), sum((up for _, up in boxes), a)

    @functools.cached_property
    def _unboxed(self) -> tuple[ProximalPenalty, ...]:
        """The terms that have neither a box nor the form `c ||w||_2^2`."""
        _, _, s, remaining = self.norms
        largest = (ScaledPenalty(s, LInf()),) if s > 0.0 else ()
        return (*largest, *(R for R in remaining if R.box() is None))

    @functools.cached_property
    def _h(self) -> ProximalPenalty:
        """The term besides boxes and L2 (the first of several); the zero function if there is none."""
        return self._unboxed[0] if self._unboxed else _ZERO

    def proximal(self) -> bool:
        """True if the proximal map is known: at most one term h besides boxes and L2.

        With a box, h must have a proximal map that keeps signs.
        """
        return len(self._unboxed) <= 1 and (self._box is None or self._h.keeps_signs)

    def prox_splittings(self) -> list[tuple[CombinedPenalty, tuple[ProximalPenalty, ...]]]:
        """Return the partitions of the terms into a sum with a proximal map and the other terms.

        Empty if the whole sum has a proximal map.
        """
        if self.proximal():
            return []
        unboxed = [h for h in self.terms if CombinedPenalty((h,))._unboxed]
        partitions = []
        for first in (*unboxed, None):
            second = tuple(h for h in unboxed if h is not first)
            head = CombinedPenalty(tuple(h for h in self.terms if not any(h is x for x in second)))
            if head.proximal():
                partitions.append((head, second))
        return partitions

    @property
    def boxed(self) -> tuple[Bound, Bound, float] | None:
        """The triple (lower, upper, c) of a sum of `c ||w||_2^2` and a box's support function; else None."""
        if self._unboxed:
            return None
        lower, upper = self._box or (0.0, 0.0)
        return lower, upper, self.norms[1]

    @property
    def is_box_plus_ridge(self) -> bool:
        """True if the sum is the support function of a box plus c L2, c >= 0, with at least one box."""
        return self._box is not None and not self._unboxed

    @functools.cached_property
    def without_forms(self) -> tuple[NDArray[np.float64] | None, CombinedPenalty]:
        """The pair (B, R) of the sum `||B w||_2^2 + R(w)`, B from the `Quadratic` terms, None without any."""
        forms, others = self._parted
        if not forms:
            return None, self
        ((c, S),) = forms
        return np.sqrt(c) * S.root, CombinedPenalty(tuple(others))

    @property
    def square(self) -> float | None:
        """The factor c if the sum is `c ||w||_2^2` with c > 0; else None."""
        a, c, s, remaining = self.norms
        return c if c > 0.0 and not (a or s or remaining) else None

    def value(self, w: Vec) -> float:
        """Return the value `R(w)` of the sum."""
        return sum(penalty.value(w) for penalty in self.terms)

    def _shrunk(self, v: Vec, t: float = 1.0) -> Vec:
        return v if self._box is None else shrink_box(v, *self._box, t)

    def prox(self, v: Vec, t: float) -> Vec:
        """Return the proximal map `argmin_w ||w - v||^2 / 2 + t R(w)`, exact if `proximal()`."""
        c = self.norms[1]
        v, t = v / (1.0 + 2.0 * t * c), t / (1.0 + 2.0 * t * c)
        return self._h.prox(self._shrunk(v, t), t)

    def prox_slope_times(self, v: Vec, t: float, M: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product of a generalised Jacobian of `prox(v, t)` with M, (n, k)."""
        c = self.norms[1]
        scale = 1.0 / (1.0 + 2.0 * t * c)
        v, t = v * scale, t * scale
        inside = self._shrunk(v, t)
        free = np.ones(v.size)
        if self._box is not None:
            lower, upper = self._box
            free[(inside == 0.0) & ((np.asarray(lower) != 0.0) | (np.asarray(upper) != 0.0))] = 0.0
        return self._h.prox_slope_times(inside, t, (scale * free)[:, None] * M)

    def project_domain(self, w: Vec) -> Vec:
        """Return the projection of w on the domain of the sum, or a point near it if not `proximal()`."""
        bounded = self._box is not None and not all(np.isfinite(b).all() for b in self._box)
        w = self._shrunk(w, 0.0) if bounded else w
        for h in self._unboxed:
            w = h.project_domain(w)
        return w

    @property
    def order(self) -> int:
        """The order of the systems of the proximal map; 0 if they cost little."""
        return self._h.order()

    def conjugate(self, z: Vec) -> float:
        """Return `R*(z)` without a check of its domain; an upper bound if not `proximal()`."""
        zero = np.zeros_like(z)
        return self._of_first(z) + sum(R.conjugate(zero) for R in self._unboxed[1:])

    def _of_first(self, z: Vec) -> float:
        """Return the conjugate at z of the sum of box terms, L2 and h, or an upper bound by rounding.

        With c |w|^2 it is `min over r of h*(r) + |z - r|^2 / (4c)`, attained at `r = z - 2c w`, w the
        proximal map of h / (2c) at z / (2c). Any r bounds it from above; its value at w, from below, says
        nothing where z and r cancel.
        """
        h, c, z = self._h, self.norms[1], self._shrunk(z)
        if c == 0.0:
            return h.conjugate(z)
        r = h.project_onto_domain_cone(z - 2.0 * c * h.prox(z / (2.0 * c), 0.5 / c))
        r = r / max(h.gauge(r), 1.0)
        return h.conjugate(r) + 0.25 * float(np.square((z - r) / math.sqrt(c)).sum())  # no square underflows

    def gauge(self, z: Vec) -> float:
        """Return the gauge of the domain of R*: the least r with z in r dom R*, or inf."""
        if self.norms[1] > 0.0:
            return 0.0
        alone = math.inf if self._box is None else box_gauge(z, *self._box)
        top = min(alone, self._h.gauge(z))
        if self._box is None or not self._unboxed:
            return top
        if math.isinf(top):  # neither domain alone, but perhaps their sum
            reaches = (r for r in _REACHES if self._h.gauge(self._shrunk(z, r)) <= r)
            if (top := next(reaches, math.inf)) == math.inf:
                return top
        # z in r dom R* iff what r B leaves of z is in r dom h*
        return last(lambda r: self._h.gauge(self._shrunk(z, r)) > r, 0.0, top)[1]

    @functools.cached_property
    def _cone(self) -> PolyhedralCone | None:
        """The sum of the cones of the domains of the terms, if all are known as polyhedral cones."""
        cones = [h.domain_cone() for h in self._unboxed]
        if any(cone is None for cone in cones):
            return None
        return sum(filter(None, cones), start=PolyhedralCone(*(self._box or (0.0, 0.0))))

    def _project_onto_domain_cone(self, z: Vec) -> Vec:
        """Return the projection of z on the cone of dom R*, the sum of those of the terms."""
        if self.has_norm:
            return z
        if self._cone is not None:
            return self._cone.project(z)
        cones = [h.project_onto_domain_cone for h in self._unboxed]
        if self._box is not None:
            cones.insert(0, PolyhedralCone(*self._box).project)
        parts, left = [np.zeros_like(z) for _ in cones], z
        for _ in range(_SWEEPS):
            before = left
            for k, project in enumerate(cones):
                part = project(left + parts[k])
                parts[k], left = part, left + parts[k] - part
            if np.array_equal(left, before):
                break
        return z - left

    def normals(self, z: Vec) -> tuple[NDArray[np.float64], Vec] | None:
        """Return the normals, (n, d), of the face next to z of the cone of dom R*, and distances, (d,).

        None if z lies in the cone, the cone is not known as a polyhedral one, or d is too large for dense
        systems.
        """
        inside = self._project_onto_domain_cone(z)
        out = inside != z
        if not out.any():
            return None
        if not inside[out].any():  # some entries of z are 0 in the face
            return (np.eye(z.size)[:, out], z[out]) if out.sum() <= _DENSE else None
        if z.size > _DENSE or self._cone is None:
            return None
        inside, at, directions = self._cone.face(z)
        normal = np.eye(z.size)[:, at] @ scipy.linalg.null_space(directions.T)
        return normal, (z - inside) @ normal

    def excess(self, z: Vec, size: Callable[[], Bound], whole: bool) -> tuple[Matrix, Vec] | None:
        """Return directions, in columns, and how far z is outside of dom R* along each; None for no answer.

        They are the sides of a box near to z, or the normal of another domain at the nearest point; all
        features if `whole`, as outside of a domain that is small beside `size()`, the terms that cancel in z.
        There is no answer inside, far outside, and for a domain that is no box and no ball.
        """
        over = self.gauge(z) - 1.0 if self.proximal() else 0.0
        near = over <= _NEAR
        if not 0.0 < over < np.inf or not (near or deviation(z, z / (1.0 + over), size()) <= _REPORTED):
            return None
        missed = self.prox(z, 1.0)  # by Moreau's identity z less a point of the domain
        if near and not whole and self._unboxed:
            length = float(np.linalg.norm(missed))
            return (missed[:, None] / length, np.array([length])) if length > 0.0 else None
        bound = np.abs(np.broadcast_to(np.where(z > 0.0, *reversed(self._box or (0.0, 0.0))), z.shape))
        part = 1.0 - _NEAR if near and not self._unboxed else 0.0
        at = np.flatnonzero(np.abs(z) >= part * bound)
        if at.size > _DENSE:
            return None
        units = np.ones(at.size), (at, np.arange(at.size))
        return sparse.csc_array(units, shape=(z.size, at.size)), missed[at]

    def feasible_step(self, z: Vec, u: Vec, size: Callable[[], Bound]) -> tuple[float, float]:
        """Return the largest step t in [0, 1] with `u + t z` in dom R*, and the violation accepted.

        A violation at the size of rounding, relative to `size()`, that of the terms that cancel in z, is
        reported, since without it t would be 0. So is that of u, if no step from u reaches dom R*.
        """
        over, missed = self.gauge(u + z) - 1.0, 0.0
        if over == np.inf:  # the domain lies in a cone
            inside = self._project_onto_domain_cone(u + z)
            away = deviation(u + z, inside, size())
            if away <= _REPORTED:
                z, over, missed = inside - u, self.gauge(inside) - 1.0, round_violation(away)
        if over <= 0.0:
            return 1.0, missed
        if over <= 1e-7 and self.gauge(u) >= 1.0 - 1e-6:
            return 1.0, max(over, missed)
        if not u.any():  # the gauge of t z is t times the gauge of z
            return 1.0 / (1.0 + over), missed
        if self._box is not None and not self._unboxed:
            bound = np.where(z > 0.0, self._box[1], self._box[0])
            outside = (z != 0.0) & ((u + z) * np.sign(z) > np.abs(bound))
            steps = (bound[outside] - u[outside]) / z[outside]
            step = max(float(steps.min(initial=1.0)), 0.0)
        else:
            step = last(lambda t: self.gauge(u + t * z) <= 1.0, 0.0, 1.0)[0]
        return step, max(missed, round_violation(self.gauge(u + step * z) - 1.0))

    def conjugate_bound(
        self, z: Vec, u: Vec, size: Callable[[], Bound], w: Vec | None, priced: float = np.inf
    ) -> tuple[float, float, float]:
        """Return an upper bound of `R*(u + t z)`, with the step t and the violation of `feasible_step`.

        The bound is `R*` itself if the sum has a proximal map. Otherwise `R* <= sum_k R_k*(z_k)` for any z_k
        that sum to z, with equality for subgradients at the minimum: the differentiable terms take their
        gradients at w. A violation adds its product with w; of a deviation from the cone of dom R* only an
        optimal w would prove its price, so that the bound is inf if it is above `priced`.
        """
        if w is None or self.proximal():
            step, violation = self.feasible_step(z, u, size)
            point, cost = u + step * z, 0.0
            inside = self._project_onto_domain_cone(point)
            if w is not None and (violation or not np.array_equal(inside, point)):
                outside = deviation(point, inside, size())
                inside = inside / max(self.gauge(inside), 1.0) if violation else inside
                cost = abs(float((point - inside) @ w)) if outside <= priced else np.inf
                violation = max(violation, round_violation(outside))
            return self.conjugate(point) + cost, step, violation
        slopes = {R: g for R in self._unboxed if (g := R.gradient(w)) is not None}
        remaining = CombinedPenalty(tuple(R for R in self.terms if R not in slopes))
        z = z - sum(slopes.values(), start=np.zeros_like(z))
        free = next((R for R in slopes if R.gauge(z) == R.gauge(u) == 0.0), None)
        if free is not None and not remaining.terms:  # its conjugate is finite at any sum with z and u
            slopes[free] = slopes[free] + z + u
            return sum((R.conjugate(g) for R, g in slopes.items()), start=0.0), 1.0, 0.0
        point = w if remaining.proximal() else None
        value, step, violation = remaining.conjugate_bound(z, u, size, point, priced)
        if free is not None and step > _FULL_STEP:  # an error of second order
            slopes[free], step = slopes[free] + (1.0 - step) * z, 1.0
        return value + sum(R.conjugate(step * g) for R, g in slopes.items()), step, violation
