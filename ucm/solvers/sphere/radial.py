"""How far U reaches in a direction: one convex program, warm from direction to direction.

For a normal g the program linearised at `<g, w> = 1`,

    min over <g, w> = 1 of max over x in U of -w'x = max {s : -s g in U},

has w for its dual vector. Over sums of reduced hulls it is linear, with one column for every sample and
one for s, one row for every feature and every group; another g changes the column of s only, so the basis
is kept. Over any other set it is conic, and g a parameter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.forms.sphere import UnitNorm

__all__ = ["Radial", "Reach", "Reached", "radial"]


class Radial:
    """`fixed + sum_i q_i z_i`, `0 <= q <= caps`, the sum of group g `rest[g]`, in HiGHS.

    Parameters
    ----------
    fixed : (r,)
    points : (k, r)
    caps : (k,)
    group : (k,)
    rest : (G,)
    """

    def __init__(
        self,
        fixed: Vec,
        points: NDArray[np.float64],
        caps: Vec,
        group: NDArray[np.int64],
        rest: Vec,
    ) -> None:
        import highspy

        self.r, self.k = fixed.size, caps.size
        self.highs: Any = highspy.Highs()
        for option, setting in (
            ("output_flag", False),
            ("presolve", "off"),
            ("simplex_scale_strategy", 0),
            ("primal_feasibility_tolerance", 1e-10),
            ("dual_feasibility_tolerance", 1e-10),
        ):
            self.highs.setOptionValue(option, setting)
        self.done = highspy.HighsModelStatus.kOptimal
        # features in units of their own: rows of size one
        self.unit = np.maximum(np.abs(points).max(axis=0, initial=0.0), np.abs(fixed))
        self.unit[self.unit == 0.0] = 1.0
        r, k = self.r, self.k
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = k + 1, r + rest.size
        lp.col_cost_ = np.r_[np.zeros(k), -1.0]
        lp.col_lower_ = np.r_[np.zeros(k), -np.inf]
        lp.col_upper_ = np.r_[caps, np.inf]
        lp.row_lower_ = lp.row_upper_ = np.r_[-fixed / self.unit, rest]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        rows = np.hstack([np.tile(np.arange(r), (k, 1)), r + group[:, None]]).ravel()
        values = np.hstack([points / self.unit, np.ones((k, 1))]).ravel()
        lp.a_matrix_.start_ = np.r_[np.arange(k + 1) * (r + 1), k * (r + 1) + r]
        lp.a_matrix_.index_ = np.r_[rows, np.arange(r)]
        lp.a_matrix_.value_ = np.r_[values, np.ones(r)]
        self.highs.passModel(lp)

    def reach(self, g: Vec) -> tuple[float, Vec, Vec] | None:
        """(s, w, q); None when no multiple of g is in the set."""
        for i, value in enumerate(g / self.unit):
            self.highs.changeCoeff(i, self.k, float(value))
        self.highs.run()
        if self.highs.getModelStatus() != self.done:  # a basis gone bad: once more without it
            self.highs.clearSolver()
            self.highs.run()
            if self.highs.getModelStatus() != self.done:
                return None
        answer = self.highs.getSolution()
        w = np.array(answer.row_dual)[: self.r] / self.unit
        q = np.array(answer.col_value)
        along = float(w @ g)
        return None if along == 0.0 else (float(q[-1]), w / along, q[:-1])


class Reached(NamedTuple):
    """The largest s with `-s g` in U, its dual vector v with `<g, v> = 1`, the blocks there, and the
    multipliers of the couplings, scaled to v."""

    s: float
    v: Vec
    q: list[Vec]
    multipliers: list[Vec]


Reach = Callable[[Vec], Reached | None]
"""What g reaches; None when no multiple of g is in U, or the program failed."""


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
