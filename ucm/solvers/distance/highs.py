"""Nearest points in the norms 1 and inf: linear programs through HiGHS.

`min sum_j (u_j + v_j)` (q = 1) or `min t, u_j + v_j <= t` (q = inf) over `c + sum A_k q_k = u - v`,
`u, v >= 0` and the polyhedra of the q_k; minus the duals of the equations are a w with `||w||_p = 1`.
The linear programs of appendix D of Barbero, Takeda and Lopez (2015).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear import Vec
from ucm.errors import SolverError
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.language.contracts import Capped, Domain, Projectable
from ucm.language.domains import Box, NormBall, Product, SimplexBall
from ucm.language.node import value

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
            if not _polyhedral(b.domain):
                return f"{b.domain!r} is no polyhedron"
        return None

    def predicted_passes(self, form: MinNorm) -> float:
        return float("nan")

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        import highspy

        norms = [float(b.map.column_norms().max(initial=0.0)) for b in form.blocks]
        scale = max([form.space.norm(form.center), *norms]) or 1.0
        program = _Program()
        columns = [program.domain(b.domain, b.map.shape[1], b.classes) for b in form.blocks]
        n, one = form.n, form.norm == 1.0
        up, down = (
            program.columns(n, 0.0, math.inf, float(one)),
            program.columns(n, 0.0, math.inf, float(one)),
        )
        eye = sparse.eye_array(n)
        terms = [(k, b.map.matrix() / scale) for k, b in zip(columns, form.blocks, strict=True)]
        center = -form.center / scale
        equations = program.rows([*terms, (up, -eye), (down, eye)], center, center)
        if not one:
            top = program.columns(1, 0.0, math.inf, 1.0)
            ones = sparse.csr_array(np.ones((n, 1)))
            program.rows([(up, eye), (down, eye), (top, -ones)], -np.inf, np.zeros(n))
        meets = []
        for c in form.couplings:
            unit = max(float(np.linalg.norm(c.offset)), scale if c.offset.any() else 1.0)
            parts = [(columns[k], B.matrix() / unit) for k, B in c.terms]
            meets.append((unit, program.rows(parts, -c.offset / unit, -c.offset / unit)))
        highs = program.highs(monitor.verbose)
        highs.run()
        monitor.iterations = int(highs.getInfo().simplex_iteration_count)
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return Answer(form.centers(), status="infeasible", message="HiGHS found no point")
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(
                f"highs: the linear program ended with {highs.modelStatusToString(status)!r}; scale the "
                'features, or take solver="clarabel"'
            )
        answer = highs.getSolution()
        point, dual = np.array(answer.col_value), -np.array(answer.row_dual)
        q = [point[k] for k in columns]
        if not form.couplings:
            q = [
                b.domain.project(v, classes=b.classes) if isinstance(b.domain, Projectable) else v
                for b, v in zip(form.blocks, q, strict=True)
            ]
        answer = Answer(q)
        p = math.inf if one else 1.0
        w = dual[equations]
        length = form.space.norm(w, p)
        if length > 0.0:
            answer.w = w / length
            answer.multipliers = [dual[rows] * (scale / (unit * length)) for unit, rows in meets]
        monitor.report(
            monitor.iterations, -form.space.norm(form.matvec(q), form.norm), float("nan")
        )
        return answer


def _polyhedral(domain: Domain) -> bool:
    """Whether `_Program.domain` can write it."""
    if isinstance(domain, Product):
        return all(_polyhedral(part) for part in domain.parts)
    if isinstance(domain, NormBall):
        return domain.p in (1.0, math.inf)
    return isinstance(domain, Box) or _capped(domain) is not None


def _capped(domain: Domain) -> Capped | None:
    """The capped simplex that a domain is."""
    if isinstance(domain, SimplexBall):
        return domain.flat()
    return domain if isinstance(domain, Capped) else None


@dataclass
class _Program:
    """A linear program that grows by columns and rows."""

    cost: list[Any] = field(default_factory=list)
    lower: list[Any] = field(default_factory=list)
    upper: list[Any] = field(default_factory=list)
    width: int = 0
    parts: list[Any] = field(default_factory=list)  # (row indices, column indices, entries)
    least: list[Any] = field(default_factory=list)
    most: list[Any] = field(default_factory=list)
    height: int = 0

    def columns(self, d: int, lower: Any, upper: Any, cost: float = 0.0) -> Index:
        """New variables between bounds; where they are."""
        self.cost.append(np.full(d, cost))
        self.lower.append(np.broadcast_to(lower, d))
        self.upper.append(np.broadcast_to(upper, d))
        self.width += d
        return np.arange(self.width - d, self.width)

    def rows(self, terms: Sequence[tuple[Index, Any]], least: Any, most: Any) -> Index:
        """New rows `least <= sum A_k v_k <= most`; where they are."""
        d = np.size(most)
        for at, A in terms:
            A = sparse.coo_array(A)
            self.parts.append((A.row + self.height, at[A.col], A.data))
        self.least.append(np.broadcast_to(least, d))
        self.most.append(np.broadcast_to(most, d))
        self.height += d
        return np.arange(self.height - d, self.height)

    def domain(self, domain: Domain, d: int, classes: Vec | None) -> Index:
        """New variables in a domain."""
        if isinstance(domain, Product):
            parts = [self.domain(p, s.stop - s.start, y) for p, s, y in domain.pieces(classes)]
            return np.concatenate(parts)
        if isinstance(domain, NormBall):
            return self._ball(d, value(domain.radius), domain.p)
        if isinstance(domain, Box):
            return self.columns(d, value(domain.lower), value(domain.upper))
        capped = _capped(domain)
        groups = capped.groups(d, classes) if capped is not None else []
        most = np.empty(d)
        for g in groups:
            most[g.entries] = g.most
        at = self.columns(d, 0.0, most)
        for g in groups:
            self.rows([(at[g.entries], np.ones((1, g.size)))], g.mass, g.mass)
        return at

    def _ball(self, d: int, radius: float, p: float) -> Index:
        if p == math.inf:
            return self.columns(d, -radius, radius)
        at = self.columns(d, -radius, radius)
        size = self.columns(d, 0.0, radius)
        eye = sparse.eye_array(d)
        self.rows([(at, eye), (size, -eye)], -np.inf, np.zeros(d))
        self.rows([(at, -eye), (size, -eye)], -np.inf, np.zeros(d))
        self.rows([(size, np.ones((1, d)))], -np.inf, np.full(1, radius))
        return at

    def highs(self, verbose: bool) -> Any:
        """The program in HiGHS."""
        import highspy

        highs: Any = highspy.Highs()
        highs.setOptionValue("output_flag", verbose)
        highs.setOptionValue("primal_feasibility_tolerance", 1e-10)
        highs.setOptionValue("dual_feasibility_tolerance", 1e-10)
        i, j, entries = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        A: Any = sparse.csc_array((entries, (i, j)), shape=(self.height, self.width))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.width, self.height
        lp.col_cost_ = np.concatenate(self.cost)
        lp.col_lower_, lp.col_upper_ = np.concatenate(self.lower), np.concatenate(self.upper)
        lp.row_lower_, lp.row_upper_ = np.concatenate(self.least), np.concatenate(self.most)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = A.indptr, A.indices
        lp.a_matrix_.value_ = A.data
        highs.passModel(lp)
        return highs
