"""Secular equations for minimum-norm points over Euclidean balls of parameters (ellipsoids).

For `x = c + sum_k A_k q_k`, `||q_k|| <= r_k`, the point nearest to 0 is

    x = (I + sum_k s_k S_k)^-1 c,   S_k = A_k A_k',   s_k ||A_k'x|| = r_k,   q_k = -s_k A_k'x,

one scalar s_k >= 0 for each ball. With one ball this is a trust-region problem: in the basis of the
eigenvectors of S_1 every radius costs one scalar root. With several, u_k = 1/s_k minimises the convex

    g(u) = (sum_k r_k^2 u_k - c'(I + sum_k S_k / u_k)^-1 c) / 2.

MM-FDA and MM-MPM of Ito, Takeda and Toh (2015), equations (32) and (34), are such problems; Conn, Gould and
Toint (2000), chapter 7, treat one ball.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ucm.data.linear_map import Spectrum, Vec, has_spectrum, spectrum
from ucm.data.options import COUNT, option
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof
from ucm.language.contracts import Block
from ucm.native.threads import blas_threads
from ucm.numerics.trust_region import nearest_on_ellipsoid, polar_rule, secular_root

Matrix = NDArray[np.float64]
_TINY = 1e-150
_HUGE = 1e12  # s_k tr S_k at which x counts as 0
_POTRF: Any
_POTRS: Any
_POTRF, _POTRS = linalg.get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)  # SciPy's checks take longer


@dataclass(frozen=True)
class TrustRegionSecular(Solver[MinNorm | UnitNorm]):
    """Solve by secular equations: nearest points of sums of ellipsoids; on the sphere, a single ellipsoid.

    Parameters
    ----------
    max_order
        Largest number of features of a nearest point, the order of the S_k.
    """

    max_order: int = option(COUNT, 1500)
    name: ClassVar[str] = "secular"

    def refuse(self, form: MinNorm | UnitNorm) -> str | None:
        if isinstance(form, UnitNorm):
            one = len(form.image.blocks) == 1
            return _no_balls(form.image) if one or form.norm != 2.0 else "it takes a single ellipsoid"
        if (why := _no_balls(form)) is not None:
            return why
        if form.n > self.max_order:
            return f"its matrices would have order {form.n}, above {self.max_order}"
        return None

    def solve(self, form: MinNorm | UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        if isinstance(form, UnitNorm):
            return _least_on_surface(form, monitor)
        unit = float(np.abs(form.center).max(initial=0.0))
        if unit == 0.0 or 1e-30 < unit < 1e30:
            unit = 1.0
        else:  # powers of such lengths, up to the sixth, overflow or vanish
            blocks = tuple(replace(b, map=b.map.scaled(1.0 / unit)) for b in form.blocks)
            form = replace(form, center=form.center / unit, blocks=blocks)
        with blas_threads(form.n):
            return _solve(form, monitor, unit)


def _no_balls(form: MinNorm) -> str | None:
    """Return the reason why a form is no sum of ellipsoids in the Euclidean norm; None if it is."""
    others = (f"{b.domain!r} is no Euclidean ball around 0" for b in form.blocks if not b.domain.euclidean)
    return form.reason_against() or next(others, None)


def _radius(block: Block) -> float:
    """Return the radius of the ball that is the domain of a block; 0 without a size."""
    size = block.domain.size()
    return 0.0 if size is None else size.number


def _solve(form: MinNorm, monitor: Monitor, unit: float) -> Answer:
    """Solve a form, measured in `unit`, with its S_k."""
    new = [b.map for b in form.blocks if not has_spectrum(b.map)]
    monitor.hessian_passes += 0.5 * sum(A.squares for A in new) / max(1, form.stored)
    monitor.systems += 1
    radii = np.array([_radius(b) for b in form.blocks])
    x, s = _nearest([spectrum(b.map) for b in form.blocks], form.center, radii, monitor)
    products = form.rmatvec(x)
    sizes = np.array([float(np.linalg.norm(v)) for v in products])
    steps = np.minimum(s, radii / np.maximum(sizes, _TINY))
    q = [-t * v for t, v in zip(steps, products, strict=True)]
    point = form.matvec(q)
    monitor.passes += form.pass_cost()
    upper, length = form.space.norm(point), float(np.linalg.norm(x))
    largest, gap, lower = max(upper, form.space.norm(form.center)), np.inf, -np.inf
    if length > 0.0:
        lower = (float(form.center @ x) - float(radii @ sizes)) / length
        gap = (upper - lower) / max(upper, 1e-12 * largest, _TINY)
    if monitor.at_zero(upper, lower, largest):
        gap = 0.0
    answer = Answer(q, x / length if length > 0.0 else None)
    monitor.report(monitor.iterations + 1, -unit * upper, gap)
    if monitor.reached(gap, monitor.tol):
        return answer
    left = f"the secular equations are solved up to a relative gap of {gap:.2g}; take another solver"
    return answer.after("interrupted" if monitor.timed_out else "stalled", left)


def _nearest(S: Sequence[Spectrum], c: Vec, radii: Vec, monitor: Monitor) -> tuple[Vec, Vec]:
    """Solve for x and s."""
    least = 1e-15 * float(np.linalg.norm(c))  # smaller moves of x are rounding
    reach = [r * math.sqrt(T.trace) for T, r in zip(S, radii, strict=True)]
    used = [k for k, size in enumerate(reach) if size > least]
    all_s = np.zeros(radii.size)
    x = c.copy()
    if not c.any() or not used:
        return x, all_s
    parts = [S[k] for k in used]
    if len(used) == 1:
        X, multipliers = one_ball(parts[0], c, radii[used])
        x, all_s[used[0]] = X[:, 0], multipliers[0]
    else:
        x, all_s[used] = several(parts, c, radii[used], None, monitor)
    return x, all_s


def one_ball(S: Spectrum, c: Vec, radii: Vec) -> tuple[Matrix, Vec]:
    """Solve the secular equation of one ball for every radius; return the points x in columns, and s.

    s is 1/u, u the root of `||q(u)|| = r` with `q(u) = -(u I + A'A)^-1 A'c`.
    """
    values, vectors = S.values, S.vectors
    b = vectors.T @ c
    u = secular_root(values, values * b * b, radii, float(values[-1]) / _HUGE)
    return vectors @ (b[:, None] * (u / (u + values[:, None]))), 1.0 / u


class _Dual(NamedTuple):
    """The dual function g of several balls as a function of `s_k = 1 / u_k`, with its Newton steps in u."""

    S: list[Matrix]
    roots: list[Matrix]
    c: Vec
    radii: Vec

    def at(self, s: Vec) -> _Point:
        """Return the point x of s, by a Cholesky factor of `I + sum_k s_k S_k`, and g there."""
        H = np.eye(self.c.size, order="F")
        for a, T in zip(s, self.S, strict=True):
            H += a * T
        factor, info = _POTRF(H, lower=1, overwrite_a=1)
        if info != 0:
            raise linalg.LinAlgError("rounding leaves I + sum s_k S_k indefinite")
        x = _POTRS(factor, self.c, lower=1)[0]
        return _Point(s, x, 0.5 * float(self.radii**2 @ (1.0 / s) - self.c @ x), factor)

    def sizes(self, x: Vec) -> Vec:
        """Return the norms `||A_k'x||`; `s_k` times them are those of the q_k."""
        return np.array([max(float(np.linalg.norm(R.T @ x)), _TINY) for R in self.roots])

    def step(self, at: _Point, sizes: Vec, free: NDArray[np.bool_]) -> Vec | None:
        """Return the s of a Newton step in the free u_k, each at least 1/20 of u_k; None without descent."""
        s, Sx = at.s, np.column_stack([T @ at.x for T in self.S])
        slope = 0.5 * (self.radii**2 - (s * sizes) ** 2)
        curve = -np.outer(s**2, s**2) * (Sx.T @ _POTRS(at.factor, Sx, lower=1)[0])
        curve[np.diag_indices_from(curve)] += sizes**2 * s**3
        d = np.zeros_like(s)
        try:
            d[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        except np.linalg.LinAlgError:
            return None
        return 1.0 / np.maximum(1.0 / s + d, 0.05 / s) if float(d @ slope) < 0.0 else None


class _Point(NamedTuple):
    """The multipliers s, their x, the value g and the Cholesky factor of `I + sum_k s_k S_k`."""

    s: Vec
    x: Vec
    g: float
    factor: Matrix


def several(
    spectra: Sequence[Spectrum], c: Vec, radii: Vec, s: Vec | None, monitor: Monitor
) -> tuple[Vec, Vec]:
    """Solve for x and s with several balls, by Newton's method on the dual g(u) over u_k >= 0.

    If s_k is at its upper limit, q_k lies inside its ball, and x is orthogonal to the range of A_k up to
    1e-8. If all s_k are at their limits, 0 may lie in U, and the limits are raised.
    """
    dual = _Dual([T.matrix for T in spectra], [T.root for T in spectra], c, radii)
    traces = np.array([T.trace for T in spectra])
    if s is None:
        s = radii / np.sqrt([max(float(c @ T @ c), _TINY) for T in dual.S])
    x, s = _newton(dual, s, 1e8 / traces, monitor)
    far, tiny = s, float(np.linalg.norm(x)) <= 1e-4 * float(np.linalg.norm(c))
    for _ in range(50 if tiny else 0):  # the ratios of s_k for which no q_k leaves its ball
        if monitor.timed_out:
            break
        far = far * (_HUGE / float(far @ traces))
        H = sum((a * T for a, T in zip(far, dual.S, strict=True)), start=np.eye(c.size))
        nearer = linalg.solve(H, c, assume_a="pos", check_finite=False)
        sizes = dual.sizes(nearer)
        if np.all(far * sizes <= radii):
            return nearer, far
        far = radii / sizes
    return x, s


def _newton(dual: _Dual, s: Vec, most: Vec, monitor: Monitor) -> tuple[Vec, Vec]:
    """Run Newton's method from s, `s_k <= most_k`; `s_k <- r_k / ||A_k'x||` replaces a failing step."""
    at = dual.at(np.minimum(s, most))
    for _ in range(100):
        sizes = dual.sizes(at.x)
        ratios = at.s * sizes / dual.radii
        free = (at.s < most) | (ratios > 1.0)
        if np.all(np.abs(ratios[free] - 1.0) <= 1e-13) or monitor.timed_out:
            break
        tried = dual.step(at, sizes, free)
        new = None if tried is None else dual.at(np.minimum(tried, most))
        if new is None or not new.g <= at.g + 1e-15 * abs(at.g):
            fixed = np.clip(dual.radii / sizes, 1e-3 * at.s, 1e3 * at.s)
            new = dual.at(np.minimum(fixed, most))
        moved, at = float(np.abs(new.s / at.s - 1.0).max()), new
        if moved <= 1e-14:
            break
    return at.x, at.s


def _least_on_surface(form: UnitNorm, monitor: Monitor) -> Answer:
    """Return the minimum over the unit sphere for one ellipsoid, with itself as an affine rule for proof."""
    block = form.image.blocks[0]
    F, c, r = form.block_matrix(0), form.lower(form.image.center), _radius(block)
    monitor.passes += form.rank
    v = form.unit(nearest_on_ellipsoid(r * r * (F.T @ F), c)[1])
    monitor.report(1, form.height(v), 0.0)
    _, q = form.highest(v)
    return Answer(
        q, form.lift(v), witness=LowerBoundProof("rule", [form.image.centers()], slopes=[polar_rule(F, r)])
    )
