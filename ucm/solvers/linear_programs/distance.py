"""Nearest points in the norms 1 and inf: linear programs through HiGHS.

`min sum_j (u_j + v_j)` (q = 1) or `min t, u_j + v_j <= t` (q = inf) over `c + sum A_k q_k = u - v`,
`u, v >= 0` and the polyhedra of the q_k; minus the duals of the equations are a w with `||w||_p = 1`.
The linear programs of appendix D of Barbero, Takeda and Lopez (2015).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.errors import ParameterError, SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.language.contracts import Block, Polyhedron, Projectable
from ucm.solvers.programs import LinearProgram, units

Index = NDArray[np.intp]


def nearest_point(form: MinNorm, monitor: Monitor) -> Answer:
    """Return the nearest point of a polyhedral set to 0 in the norm 1 or inf."""
    if monitor.timed_out:
        return Answer(form.centers()).interrupted()
    program = LinearProgram(monitor)
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
    if found.status == "time_limit":
        return Answer(form.centers()).interrupted()
    if found.status != "optimal":
        raise SolverError(
            f"highs: the linear program ended with {found.words!r}; scale the features, or take "
            'solver="clarabel"'
        )
    q = [found.x[k] for k in columns]
    if not form.couplings:
        q = [
            b.domain.project(v) if isinstance(b.domain, Projectable) else v
            for b, v in zip(form.blocks, q, strict=True)
        ]
    answer, w = Answer(q), -found.dual[equations]
    length = form.space.norm(w, math.inf if form.norm == 1.0 else 1.0)
    if length > 0.0:
        answer.w = w / length
        answer.multipliers = [
            -found.dual[rows] * (scale / (unit * length)) for unit, rows in zip(meets, couplings, strict=True)
        ]
    height = -form.space.norm(form.matvec(q), form.norm)
    monitor.report(monitor.iterations, height, float("nan"))
    return answer


def _image(program: LinearProgram, form: MinNorm, columns: list[Index], scale: float) -> Index:
    """Add the equations `u - v = x(q)`, in units of `scale`, and the norm of u - v as the cost; return
    the indices of the equations."""
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
    """Add variables in the domain of a block; return their indices."""
    found = polyhedron(block)
    if found is None:
        raise ParameterError(f"HiGHS: {block.domain!r} is no polyhedron")
    at = program.columns(found.lower.size, found.lower, found.upper)
    if found.most.size:
        program.rows([(at, found.A)], found.least, found.most)
    return at[: block.map.shape[1]]


def polyhedron(block: Block) -> Polyhedron | None:
    """Return the domain of a block as a polyhedron; None where it is none."""
    return block.domain.polyhedron(block.map.shape[1])
