"""Nearest points in the norms 1 and inf: linear programs through HiGHS.

`min sum_j (u_j + v_j)` (q = 1) or `min t, u_j + v_j <= t` (q = inf) over `c + sum A_k q_k = u - v`,
`u, v >= 0` and the polyhedra of the q_k; minus the duals of the equations are a w with `||w||_p = 1`.
The linear programs of appendix D of Barbero, Takeda and Lopez (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.errors import ParameterError, SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Block, Polyhedral, Polyhedron, Projectable
from ucm.solvers.programs import LinearProgram, units

__all__ = ["HiGHSDistance"]

Index = NDArray[np.intp]


@dataclass(frozen=True)
class HiGHSDistance(Solver[MinNorm]):
    """Linear programs over polyhedral domains."""

    name: ClassVar[str] = "highs-distance"

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm not in (1.0, math.inf):
            return "it takes the norms 1 and inf of x (inf and 1 of w)"
        for b in form.blocks:
            if _polyhedron(b) is None:
                return f"{b.domain!r} is no polyhedron"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        return float("nan")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        if monitor.late:
            return Answer(form.centers()).interrupted()
        program, one = LinearProgram(monitor), form.norm == 1.0
        columns = [_columns(program, b) for b in form.blocks]
        scale, meets = units(form)
        equations = _image(program, form, columns, scale)
        couplings = []
        for c, unit in zip(form.couplings, meets, strict=True):
            parts = [(columns[k], B.matrix() / unit) for k, B in c.terms]
            couplings.append(program.rows(parts, -c.offset / unit, -c.offset / unit))
        found = program.solve()
        monitor.iterations = found.pivots
        if found.status == "infeasible":
            return Answer(form.centers(), status="infeasible", message="HiGHS found no point")
        if found.status == "late":
            return Answer(form.centers()).interrupted()
        if found.status != "optimal":
            raise SolverError(
                f"highs: the linear program ended with {found.words!r}; scale the features, or take "
                'solver="clarabel"'
            )
        q = [found.x[k] for k in columns]
        if not form.couplings:
            q = [
                b.domain.project(v, classes=b.classes) if isinstance(b.domain, Projectable) else v
                for b, v in zip(form.blocks, q, strict=True)
            ]
        answer = Answer(q)
        w = -found.dual[equations]
        length = form.space.norm(w, math.inf if one else 1.0)
        if length > 0.0:
            answer.w = w / length
            answer.multipliers = [
                -found.dual[rows] * (scale / (unit * length))
                for unit, rows in zip(meets, couplings, strict=True)
            ]
        height = -form.space.norm(form.matvec(q), form.norm)
        monitor.report(monitor.iterations, height, float("nan"))
        return answer


def _image(program: LinearProgram, form: MinNorm, columns: list[Index], scale: float) -> Index:
    """`u - v = x(q)` in units of `scale`, and the norm of u - v as the cost; where the equations are."""
    n, eye = form.n, sparse.eye_array(form.n)
    cost = float(form.norm == 1.0)
    up = program.columns(n, 0.0, math.inf, cost)
    down = program.columns(n, 0.0, math.inf, cost)
    terms = [(k, b.map.matrix() / scale) for k, b in zip(columns, form.blocks, strict=True)]
    center = -form.center / scale
    equations = program.rows([*terms, (up, -eye), (down, eye)], center, center)
    if form.norm != 1.0:
        top = program.columns(1, 0.0, math.inf, 1.0)
        program.rows([(up, eye), (down, eye), (top, -np.ones((n, 1)))], -np.inf, np.zeros(n))
    return equations


def _columns(program: LinearProgram, block: Block) -> Index:
    """New variables in the domain of a block."""
    found = _polyhedron(block)
    if found is None:
        raise ParameterError(f"HiGHSDistance: {block.domain!r} is no polyhedron")
    at = program.columns(found.lower.size, found.lower, found.upper)
    if found.most.size:
        program.rows([(at, found.A)], found.least, found.most)
    return at[: block.map.shape[1]]


def _polyhedron(block: Block) -> Polyhedron | None:
    if not isinstance(block.domain, Polyhedral):
        return None
    return block.domain.polyhedron(block.map.shape[1], classes=block.classes)
