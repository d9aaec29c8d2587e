"""The span of a point and all columns of some maps: an orthonormal basis, and everything in it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import LinearMap, Vec
from ucm.forms.distance import MinNorm

__all__ = ["columns", "coordinates", "factoring"]

Matrix = NDArray[np.float64]


def columns(form: MinNorm) -> int:
    """The number of columns of all blocks."""
    return sum(b.map.shape[1] for b in form.blocks)


def factoring(form: MinNorm, rows: int, columns: int) -> float:
    """Return the cost of a basis in passes: `rows columns^2` multiplications; a pass has two an entry."""
    return rows * columns**2 / (2.0 * max(1, form.stored))


def coordinates(point: Vec, maps: Iterable[LinearMap]) -> tuple[Matrix, Vec, list[Matrix]]:
    """The basis as columns of Q, and the point and the maps in its coordinates, by one QR factor."""
    dense = [A.matmat(np.eye(A.shape[1])) for A in maps]
    Q, R = np.linalg.qr(np.column_stack([point, *dense]))
    ends = np.cumsum([1, *(A.shape[1] for A in dense)])
    return Q, R[:, 0], np.split(R, ends, axis=1)[1:-1]
