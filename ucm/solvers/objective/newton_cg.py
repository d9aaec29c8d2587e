"""Newton systems of smooth losses with L2, by conjugate gradients without a preconditioner.

`(ridge I + (X - 1 s')' diag(h) (X - 1 s')) d = g`, s the mean of the samples by the weights h. A direction is
worth some tens of products, of the samples with h_i > 0 alone. A preconditioner, from the diagonal or from
the systems before, costs more here than the products that it saves (text: a sample has few entries).

Steihaug (1983), The conjugate gradient method and trust regions in large scale optimization; Lin, Weng and
Keerthi (2008), Trust region Newton method for large-scale logistic regression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.solvers.newton_systems import conjugate_gradients

_FORCING = 0.1  # relative residual
_MOST = 200  # iterations
_ALL = 0.7  # share of the samples in use from which on the others stay


class NewtonCG:
    """The systems of one set of samples.

    Parameters
    ----------
    X : (m, n) array or CSR matrix
    """

    def __init__(self, X: Any) -> None:
        self.X, self.Xt = X, _transposed(X)

    def solve(
        self, h: Vec, mean: Vec, ridge: float, g: Vec, timed_out: Callable[[], bool]
    ) -> tuple[Vec, float]:
        """Return d, and the work of the products of X and of its transpose in passes over all samples.

        `timed_out` is called before each product.
        """
        X, Xt, share = self.X, self.Xt, 1.0
        used = np.flatnonzero(h)
        if used.size < _ALL * h.size:
            X, h, share = X[used], h[used], used.size / h.size
            Xt = _transposed(X)

        def times(v: Vec) -> Vec:
            u = h * (X @ v)
            return Xt @ u - float(u.sum()) * mean + ridge * v

        d, count = conjugate_gradients(times, g, _FORCING, _MOST, timed_out)
        return d, share * count


def _transposed(X: Any) -> Any:
    """Return the transpose, by rows."""
    return sparse.csr_matrix(X.T) if sparse.issparse(X) else X.T
