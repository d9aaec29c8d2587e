"""The range-space presolve: a Euclidean problem with more features than parameters in coordinates of its
span.

All points `c + sum A_k q_k` lie in the span of the columns of `[c, A_1, A_2, ...]`, and so does every dual
vector that matters. With `[c, A_1, A_2, ...] = Q R`, Q with orthonormal columns, the norm of a point is that
of its coordinates: `MinNorm` over `R`, whose dimension is the number of columns. The equations of a coupling
are written in coordinates of their own span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Space
from ucm.data.linear_map import Vec
from ucm.data.maps import MatrixMap
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.language.contracts import Block, Coupling
from ucm.solvers.coordinates import columns, factoring, orthonormal_coordinates

Matrix = NDArray[np.float64]
_FEWER = 2.0  # times fewer dimensions, else the QR factor does not pay
_WORTH = 300.0  # passes for the factor; blocks without couplings take fewer by APG
_ENTRIES = 2e8  # of the matrix to factor, 1.6 GB


def range_space_shape(form: MinNorm) -> MinNorm | None:
    """Return the form in the range space, its sizes only, where its QR factor pays; else None."""
    small = _shape(form)
    order, rows = small.n + small.coupled, form.n + form.coupled
    if form.norm != 2.0 or _FEWER * order > rows or rows * order > _ENTRIES:
        return None
    if not form.couplings and factoring(form, form.n, small.n) > _WORTH:
        return None
    return small


@dataclass(frozen=True)
class RangeSpace:
    """A Euclidean form in coordinates of the span of its columns, and the way back.

    Attributes
    ----------
    form : in these coordinates
    basis, bases : orthonormal columns that span the points, and the equations of every coupling
    """

    form: MinNorm
    basis: Matrix
    bases: tuple[Matrix, ...]

    @classmethod
    def of(cls, form: MinNorm, monitor: Monitor) -> RangeSpace:
        """Factor the columns of a form."""
        Q, center, parts = orthonormal_coordinates(form.center, [b.map for b in form.blocks])
        blocks = tuple(_with(b, M) for b, M in zip(form.blocks, parts, strict=True))
        couplings, bases = [], []
        for c in form.couplings:
            basis, offset, parts = orthonormal_coordinates(c.offset, [B for _, B in c.terms])
            bases.append(basis)
            couplings.append(_coupled(c, offset, parts))
        monitor.hessian_passes += sum(factoring(form, *A.shape) for A in (Q, *bases))
        space = Space()
        small = MinNorm(center, blocks, tuple(couplings), 2.0, form.stored, space)
        return cls(small, Q, tuple(bases))

    def back(self, answer: Answer) -> Answer:
        """Return an answer to the smaller form as one to the form."""
        answer.w = None if answer.w is None else self.basis @ answer.w
        pairs = zip(self.bases, answer.multipliers, strict=False)
        answer.multipliers = [A @ mu for A, mu in pairs]
        return answer


def _with(block: Block, M: Matrix) -> Block:
    return replace(block, map=MatrixMap(np.ascontiguousarray(M)))


def _coupled(coupling: Coupling, offset: Vec, parts: Sequence[Matrix]) -> Coupling:
    terms: Any = zip((k for k, _ in coupling.terms), map(MatrixMap, parts), strict=True)
    return replace(coupling, terms=tuple(terms), offset=offset)


def _shape(form: MinNorm) -> MinNorm:
    """Return the form in the span, its sizes only: the matrices hold nothing."""
    r = min(form.n, 1 + columns(form))
    blocks = tuple(_with(b, np.empty((r, b.map.shape[1]))) for b in form.blocks)
    couplings = []
    for c in form.couplings:
        rows = min(c.offset.size, 1 + sum(B.shape[1] for _, B in c.terms))
        parts = [np.empty((rows, B.shape[1])) for _, B in c.terms]
        couplings.append(_coupled(c, np.empty(rows), parts))
    return MinNorm(np.empty(r), blocks, tuple(couplings), 2.0, form.stored, Space())
