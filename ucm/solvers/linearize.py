"""Successive linearisation of the unit sphere: a convex program for every step, any set."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ucm.contracts import Vec
from ucm.errors import ParameterError
from ucm.forms import Raw, UnitNorm, UnitSolver
from ucm.radial import Radial
from ucm.solvers.driver import Monitor

__all__ = ["Linearize", "Reach", "radial"]


class Reached(NamedTuple):
    """The largest s with `-s g` in U, its dual vector v with `<g, v> = 1`, the blocks there, and the
    multipliers of the couplings, scaled to v."""

    s: float
    v: Vec
    q: list[Vec]
    multipliers: list[Vec]


Reach = Callable[[Vec], Reached | None]
"""What g reaches; None when no multiple of g is in U, or the program failed."""


@dataclass(frozen=True)
class Linearize(UnitSolver):
    """`min f(w)` over `<g_k, w> = 1`, g_k a subgradient of `||.||_p` at w_k; then `w / ||w||_p`.

    As `||w||_p >= <g_k, w> = 1` and f >= 0 the objective never increases, and where it stays w_k is
    stationary. Each problem is solved in its dual, `max {s : -s g_k in U}`: for sums of reduced hulls one
    linear program with the basis of the last one (HiGHS), for the others a conic program (Clarabel).

    Parameters
    ----------
    max_steps : limit of programs

    Notes
    -----
    The method of Perez-Cruz et al. (2003) and of Takeda and Sugiyama (2008) for p = 2; see Barbero,
    Takeda and Lopez (2015), section 6.4. With w_k in place of g_k the objective can increase when p != 2.
    """

    max_steps: int = 500
    name: ClassVar[str] = "linearize"

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ParameterError(f"Linearize: max_steps is at least 1, got {self.max_steps}")

    def refuse(self, form: UnitNorm) -> str | None:
        return None

    def predicted_passes(self, form: UnitNorm) -> float:
        return float("nan")

    def solve(self, form: UnitNorm, monitor: Monitor, start: Sequence[Vec] | None = None) -> Raw:
        v = form.start() if start is None else form.unit(start[0])
        reach = radial(form, monitor.tol, monitor.verbose)
        height = np.inf if form.image.couplings else form.height(v)
        raw = Raw(form.image.centers(), form.lift(v))
        # a conic answer is known to its tolerance only
        same = 1e-13 if form.hulls is not None else 1e-2 * monitor.tol
        limit = monitor.limit(self.max_steps)
        for _ in range(limit):
            better = False
            for g in form.corners(v):
                found = reach(g)
                monitor.passes += 1.0
                if found is None:
                    raw.status = "max_iter"
                    raw.message = "a program had no answer; scale the features"
                    return raw
                length = form.length(found.v)
                new = found.v / length
                below = found.s / length if form.image.couplings else form.height(new)
                better = below < height * (1.0 - same)
                raw.q = found.q
                if better:
                    v, height = new, below
                    raw.w = form.lift(v)
                    raw.multipliers = [mu / length for mu in found.multipliers]
                    break
            if monitor.report(monitor.iterations + 1, height, float("nan")):
                raw.status, raw.message = "interrupted", "stopped by the callback"
                return raw
            if not better:
                return raw
        raw.status, raw.message = "max_iter", f"{limit} programs solved; raise max_iter"
        return raw


def radial(form: UnitNorm, tol: float, verbose: bool = False) -> Reach:
    """How far U reaches: a linear program over hulls, a conic one over any other set."""
    return _polyhedral(form) if form.hulls is not None else _conic(form, tol, verbose)


def _polyhedral(form: UnitNorm) -> Reach:
    hulls = form.hulls
    if hulls is None:
        raise ParameterError("Linearize: no sum of reduced hulls")
    group = np.repeat(np.arange(hulls.masses.size), np.diff(hulls.bounds))
    program = Radial(hulls.center, hulls.points, hulls.caps, group, hulls.masses)

    def reach(g: Vec) -> Reached | None:
        found = program.reach(g)
        return None if found is None else Reached(found[0], found[1], hulls.blocks(found[2]), [])

    return reach


def _conic(form: UnitNorm, tol: float, verbose: bool) -> Reach:
    import cvxpy as cp

    image = form.image
    norms = [float(b.map.column_norms().max(initial=0.0)) for b in image.blocks]
    scale = max(image.space.norm(image.center), *norms, 1e-300)
    s, g = cp.Variable(), cp.Parameter(form.rank)
    q: list[Any] = []
    x: Any = form.lower(image.center) / scale
    constraints: list[Any] = []
    for b in image.blocks:
        d = b.map.shape[1]
        v = cp.Variable(d) / (d if b.samples is not None else 1)
        q.append(v)
        A = b.map.matrix() if form.basis is None else form.basis.T @ b.map.matrix()
        x = x + (A / scale) @ v
        size = b.domain.size()
        number = None if size is None else size.number
        constraints += b.domain.constraints(v, number, classes=b.classes)
    meets: list[tuple[float, Any]] = []
    for c in image.couplings:
        unit = max(float(np.linalg.norm(c.offset)), scale if c.offset.any() else 1.0)
        total: Any = cp.Constant(c.offset)
        for k, B in c.terms:
            total = total + B.matrix() @ q[k]
        meets.append((unit, total / unit == 0))
    along = x + s * g == 0
    problem = cp.Problem(cp.Maximize(s), [along, *constraints, *(m for _, m in meets)])

    def reach(normal: Vec) -> Reached | None:
        length = float(np.linalg.norm(normal))
        g.value = normal / length
        for tight in (1e-3 * tol, tol):
            options = {"tol_gap_abs": tight, "tol_gap_rel": tight, "tol_feas": tight}
            try:
                with (
                    warnings.catch_warnings()
                ):  # its status and the certificate say it with numbers
                    warnings.filterwarnings("ignore", "Solution may be inaccurate")
                    problem.solve(solver="CLARABEL", verbose=verbose, **options)
            except (cp.error.SolverError, ArithmeticError):
                continue
            if s.value is not None:
                break
        if s.value is None or along.dual_value is None:
            return None
        w = np.asarray(along.dual_value, dtype=np.float64).ravel()
        slope = float(w @ normal)
        if slope == 0.0:
            return None
        blocks = [np.asarray(v.value, dtype=np.float64).ravel() for v in q]
        multipliers = [
            np.asarray(m.dual_value, dtype=np.float64).ravel() * (scale / (unit * slope))
            for unit, m in meets
        ]
        return Reached(scale * float(s.value) / length, w / slope, blocks, multipliers)

    return reach
