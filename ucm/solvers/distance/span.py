"""More features than parameters: the same problem in coordinates of the span.

All points `c + sum A_k q_k` lie in the span of the columns of `[c, A_1, A_2, ...]`, and so does every dual
vector that matters. With `[c, A_1, A_2, ...] = Q R`, Q with orthonormal columns, the norm of a point is that
of its coordinates: `MinNorm` over `R`, whose dimension is the number of columns. The equations of a coupling
are written in coordinates of their own span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound import EuclideanSpace
from ucm.data.linear import Vec
from ucm.data.maps import MatrixMap
from ucm.data.options import check_fields
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver, solver_of
from ucm.language.contracts import Block, Coupling
from ucm.solvers.distance.basis import columns, coordinates, factoring
from ucm.solvers.threads import blas_threads

__all__ = ["InSpan"]

Matrix = NDArray[np.float64]
_FEWER = 2.0  # times fewer dimensions, else the QR factor does not pay
_WORTH = 300.0  # passes for the factor; blocks without couplings take fewer by APG
_ENTRIES = 2e8  # of the matrix to factor, 1.6 GB


@dataclass(frozen=True)
class InSpan(Solver[MinNorm]):
    """A Euclidean solver in the span of the columns, for far more features than parameters.

    Parameters
    ----------
    inner
        What solves the problem in these coordinates.
    """

    inner: Solver[MinNorm]
    name: ClassVar[str] = "newton-span"

    def __post_init__(self) -> None:
        check_fields(self, inner=solver_of(MinNorm))

    def refuse(self, form: MinNorm) -> str | None:
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        small = _shape(form)
        order = small.n + small.coupled
        if _FEWER * order > form.n + form.coupled:
            return f"{form.n} features are not many for {columns(form)} parameters"
        if (form.n + form.coupled) * order > _ENTRIES:
            return f"a basis of the span would hold {form.n + form.coupled} x {order} numbers"
        if not form.couplings and factoring(form, form.n, small.n) > _WORTH:
            return f"a basis of the span would cost {factoring(form, form.n, small.n):.3g} passes"
        return self.inner.refuse(small)

    def predicted_passes(self, form: MinNorm) -> float:
        return self.inner.predicted_passes(_shape(form))

    def solve(self, form: MinNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        with blas_threads(columns(form)):
            return self._solve(form, monitor, start)

    def _solve(self, form: MinNorm, monitor: Monitor, start: Answer | None) -> Answer:
        Q, center, parts = coordinates(form.center, [b.map for b in form.blocks])
        blocks = tuple(_with(b, M) for b, M in zip(form.blocks, parts, strict=True))
        couplings, bases = [], []
        for c in form.couplings:
            basis, offset, parts = coordinates(c.offset, [B for _, B in c.terms])
            bases.append(basis)
            couplings.append(_coupled(c, offset, parts))
        monitor.forming += sum(factoring(form, *A.shape) for A in (Q, *bases))
        small = MinNorm(
            center, blocks, tuple(couplings), 2.0, form.stored, EuclideanSpace(center.size)
        )
        answer = self.inner.solve(small, monitor, None if start is None else Answer(start.q))
        answer.w = None if answer.w is None else Q @ answer.w
        answer.multipliers = [A @ mu for A, mu in zip(bases, answer.multipliers, strict=False)]
        return answer


def _with(block: Block, M: Matrix) -> Block:
    return replace(block, map=MatrixMap(np.ascontiguousarray(M)))


def _coupled(coupling: Coupling, offset: Vec, parts: Sequence[Matrix]) -> Coupling:
    terms: Any = zip((k for k, _ in coupling.terms), map(MatrixMap, parts), strict=True)
    return replace(coupling, terms=tuple(terms), offset=offset)


def _shape(form: MinNorm) -> MinNorm:
    """The form in the span, its sizes only: the matrices hold nothing."""
    r = min(form.n, 1 + columns(form))
    blocks = tuple(_with(b, np.empty((r, b.map.shape[1]))) for b in form.blocks)
    couplings = []
    for c in form.couplings:
        rows = min(c.offset.size, 1 + sum(B.shape[1] for _, B in c.terms))
        parts = [np.empty((rows, B.shape[1])) for _, B in c.terms]
        couplings.append(_coupled(c, np.empty(rows), parts))
    return MinNorm(np.empty(r), blocks, tuple(couplings), 2.0, form.stored, EuclideanSpace(r))
