"""More features than parameters: the same nearest point in coordinates of the span of the maps.

With the Gram matrix `T'T = F F'` of the columns `T = [A_1, ..., A_K, c]`, row j of F has the inner
products of column j with all others: `x = sum_k A_k q_k + c` and `F'(q, 1)` have the same norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.contracts import Block, LinearMap, Vec
from ucm.forms import MinNorm
from ucm.gram import pivoted_factor
from ucm.operators import CenteredMap, ComposedMap, MatrixMap

__all__ = ["Spanned", "forming", "in_span", "spannable"]

_MOST = 2000  # parameters
_DENSE = 8.0  # entries of the maps written out, over those stored


@dataclass(frozen=True)
class Spanned:
    """A form in coordinates of its span.

    Attributes
    ----------
    form : of as many features as the maps have independent columns; the same parameters
    """

    form: MinNorm
    original: MinNorm
    factor: NDArray[np.float64]
    pivots: NDArray[np.intp]

    def lift(self, w: Vec) -> Vec:
        """The unit vector along w in the space of the features: `sum_j c_j t_j` over the pivots, with
        `L'c = w`."""
        r = w.size
        c = np.zeros(self.factor.shape[0])
        L = self.factor[self.pivots[:r]]
        c[self.pivots[:r]] = linalg.solve_triangular(L, w, lower=True, trans=1)
        parts = np.split(c, _ends(self.original))
        out = c[-1] * self.original.center
        for b, part in zip(self.original.blocks, parts, strict=False):
            out = out + b.map.matvec(part)
        return out / float(np.linalg.norm(out))


def _ends(form: MinNorm) -> NDArray[np.intp]:
    return np.cumsum([b.map.shape[1] for b in form.blocks])


def spannable(form: MinNorm) -> bool:
    """Whether there are more features than parameters and one, of few enough maps to write out."""
    parameters = int(_ends(form)[-1]) if form.blocks else 0
    written = sum(_written(b.map) for b in form.blocks)
    few = not form.couplings and 0 < parameters < form.n - 1 and parameters <= _MOST
    return few and written <= _DENSE * max(form.stored, 1_000_000)


def forming(form: MinNorm) -> float:
    """Passes over the data that the Gram matrix takes, about."""
    parameters = float(_ends(form)[-1])
    return 0.25 * parameters * sum(_written(b.map) for b in form.blocks) / max(1, form.stored)


def _written(A: LinearMap) -> int:
    """Entries of the matrix of A, of which sparse samples less their mean have all."""
    inner = A.inner if isinstance(A, ComposedMap) else A
    return A.shape[0] * A.shape[1] if isinstance(inner, CenteredMap) else A.entries


def in_span(form: MinNorm) -> Spanned:
    """The form in coordinates of its span."""
    columns: list[Any] = [b.map.matrix() for b in form.blocks]
    columns.append(form.center[:, None])
    whole = all(not sparse.issparse(T) for T in columns)
    T: Any = np.hstack(columns) if whole else sparse.hstack(columns, "csc")
    unit = float(np.abs(T if whole else T.data).max(initial=0.0)) or 1.0
    T = T / unit
    K = T.T @ T
    F, pivots = pivoted_factor(K if whole else K.toarray())
    F *= unit
    rows = np.split(F, _ends(form))
    blocks = tuple(
        Block(MatrixMap(np.ascontiguousarray(R.T)), b.domain, b.classes)
        for b, R in zip(form.blocks, rows, strict=False)
    )
    small = MinNorm(F[-1].copy(), blocks, stored=form.stored)
    return Spanned(small, form, F, pivots)
