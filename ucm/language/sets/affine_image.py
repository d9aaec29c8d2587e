"""The image of any domain under a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.data.maps import MatrixMap
from ucm.errors import CompositionError, brief
from ucm.language import cvx as cp
from ucm.language.arithmetic import axes
from ucm.language.contracts import Domain, Scope
from ucm.language.node import Notation, converted
from ucm.language.sets.weights import OfWeights, WeightSpace
from ucm.language.statistics.vectors import Origin, VectorNode, as_vector, offset

__all__ = ["AffineImage", "as_linear_map"]


def as_linear_map(M: Any, where: str) -> Any:
    """`M` as a matrix, dense or sparse."""
    if sparse.issparse(M) and M.ndim == 2:
        return M
    if not isinstance(M, np.ndarray | list | tuple) or axes(M, where) != 2 or 0 in np.shape(M):
        raise CompositionError(
            f"{where}: expected a matrix with rows and columns, got {brief(M)}; "
            "give a two-dimensional array"
        )
    return np.asanyarray(M)  # a masked one is refused where it is kept


class AffineImage(OfWeights):
    """The affine image `{center + A q : q in D}` of a domain, as an uncertainty set.

    Parameters
    ----------
    A : (n, d) array or sparse matrix
        Maps the domain into feature space.
    domain : Domain
        Of vectors of length d.
    center : statistic, (n,) array, or 0
        Where the image of 0 lies.

    Examples
    --------
    >>> import ucm
    >>> print(ucm.AffineImage([[1.0, 0.0], [0.0, 2.0]], ucm.NormBall(1.0)))
    {[2×2] q : ‖q‖₂ ≤ 1}
    """

    A: Any
    domain: Domain
    center: VectorNode = converted(converter=as_vector, default=Origin())

    def __post_init__(self) -> None:
        object.__setattr__(self, "A", as_linear_map(self.A, "AffineImage"))
        super().__post_init__()
        if self.center.dimension(None) not in (None, self.A.shape[0]):
            raise CompositionError(
                f"{self!r}: expected a center of {self.A.shape[0]} entries, one for each row of A, got "
                f"{self.center.dimension(None)}; both must be equal"
            )

    def dimension(self, n: int | None) -> int | None:
        if not isinstance(self.center, Origin) and self.center.dimension(n) not in (
            None,
            self.A.shape[0],
        ):
            raise CompositionError(
                f"expected a matrix with {n} rows, the features of the samples, got one of shape "
                f"{self.A.shape}, in {brief(self)}; both must be equal"
            )
        return self.A.shape[0]

    def space(self, data: Data) -> WeightSpace:
        return WeightSpace(self.domain, self.A.shape[1])

    def image(self, data: Data) -> tuple[Vec, LinearMap]:
        own = isinstance(self.center, Origin)
        c = np.zeros(self.A.shape[0]) if own else self.center.evaluate(data)
        return c, MatrixMap(self.A)

    def cvxpy(self, data: Data, scope: Scope) -> tuple[cp.Expression, list[cp.Constraint]]:
        q = cp.Variable(self.A.shape[1], name="q")
        own = isinstance(self.center, Origin)
        c = np.zeros(self.A.shape[0]) if own else self.center.cvxpy(data, scope)
        return c + self.A @ q, self.bound_space(data).twin(q, scope)

    def formula(self, notation: Notation) -> str:
        image = offset(self.center, f"{notation.array(self.A)} q", notation)
        return notation.set_of(image, self.domain.formula(notation))
