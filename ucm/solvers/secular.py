"""The secular equation for the minimum-norm point over one Euclidean ball of parameters, an ellipsoid.

For `x = c + A q`, `||q|| <= r`, the point nearest to 0 is

    x = (I + s A A')^-1 c,   s ||A'x|| = r,   q = -s A'x,

for a scalar s >= 0. This is a trust-region problem: in the basis of the eigenvectors of A A' every radius
costs one scalar root. MM-FDA of Ito, Takeda and Toh (2015), equation (32), is such a problem; Conn, Gould
and Toint (2000), chapter 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Spectrum, Vec, has_spectrum, spectrum
from ucm.data.options import COUNT, check_fields
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, LowerBoundProof, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.trust_region import nearest_on_ellipsoid, polar_rule, secular_root
from ucm.language.contracts import Block
from ucm.language.domains import NormBall
from ucm.native import blas_threads

Matrix = NDArray[np.float64]
_TINY = 1e-150
_HUGE = 1e12  # s times the largest eigenvalue, at which x counts as 0


@dataclass(frozen=True)
class TrustRegionSecular(Solver[MinNorm | UnitNorm]):
    """Solve by a secular equation: the nearest point of a single ellipsoid, also on the sphere.

    Parameters
    ----------
    max_order
        Largest number of features of a nearest point, the order of A A'.
    """

    max_order: int = 1500
    name: ClassVar[str] = "secular"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: MinNorm | UnitNorm) -> str | None:
        distance = form.image if isinstance(form, UnitNorm) else form
        if distance.norm != 2.0:
            return "it takes the Euclidean norm only"
        for b in distance.blocks:
            if not isinstance(b.domain, NormBall) or not b.domain.euclidean:
                return f"{b.domain!r} is no Euclidean ball around 0"
        if len(distance.blocks) != 1 or distance.couplings:
            return "it takes a single ellipsoid"
        if isinstance(form, MinNorm) and form.n > self.max_order:
            return f"its matrix would have order {form.n}, above {self.max_order}"
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


def _radius(block: Block) -> float:
    """Return the radius of the ball that is the domain of a block; 0 without a size."""
    size = block.domain.size()
    return 0.0 if size is None else size.number


def _solve(form: MinNorm, monitor: Monitor, unit: float) -> Answer:
    """Solve a form, measured in `unit`."""
    (block,), c = form.blocks, form.center
    r = _radius(block)
    if not has_spectrum(block.map):
        monitor.hessian_passes += 0.5 * block.map.squares / max(1, form.stored)
    monitor.systems += 1
    S = spectrum(block.map)
    x, s = c.copy(), 0.0
    if r * math.sqrt(S.trace) > 1e-15 * float(np.linalg.norm(c)) > 0.0:  # smaller moves of x are rounding
        X, multipliers = one_ball(S, c, np.array([r]))
        x, s = X[:, 0], float(multipliers[0])
    product = block.map.rmatvec(x)
    size = float(np.linalg.norm(product))
    q = [-min(s, r / max(size, _TINY)) * product]
    monitor.passes += form.pass_cost()
    upper, length = form.space.norm(form.matvec(q)), float(np.linalg.norm(x))
    largest, gap, lower = max(upper, form.space.norm(c)), np.inf, -np.inf
    if length > 0.0:
        lower = (float(c @ x) - r * size) / length
        gap = (upper - lower) / max(upper, 1e-12 * largest, _TINY)
    if monitor.at_zero(upper, lower, largest):
        gap = 0.0
    answer = Answer(q, x / length if length > 0.0 else None)
    monitor.report(monitor.iterations + 1, -unit * upper, gap)
    if monitor.reached(gap, monitor.tol):
        return answer
    left = f"the secular equation is solved up to a relative gap of {gap:.2g}; take another solver"
    return answer.after("interrupted" if monitor.timed_out else "stalled", left)


def one_ball(S: Spectrum, c: Vec, radii: Vec) -> tuple[Matrix, Vec]:
    """Solve the secular equation of one ball for every radius; return the points x in columns, and s.

    s is 1/u, u the root of `||q(u)|| = r` with `q(u) = -(u I + A'A)^-1 A'c`.
    """
    values, vectors = S.values, S.vectors
    b = vectors.T @ c
    u = secular_root(values, values * b * b, radii, float(values[-1]) / _HUGE)
    return vectors @ (b[:, None] * (u / (u + values[:, None]))), 1.0 / u


def _least_on_surface(form: UnitNorm, monitor: Monitor) -> Answer:
    """Return the global minimum over the unit sphere for one ellipsoid, with its proof.

    The proof is the ellipsoid itself, as an affine rule.
    """
    block = form.image.blocks[0]
    F, c, r = form.block_matrix(0), form.lower(form.image.center), _radius(block)
    monitor.passes += form.rank
    v = form.unit(nearest_on_ellipsoid(r * r * (F.T @ F), c)[1])
    monitor.report(1, form.height(v), 0.0)
    _, q = form.highest(v)
    return Answer(
        q, form.lift(v), witness=LowerBoundProof("rule", [form.image.centers()], slopes=[polar_rule(F, r)])
    )
