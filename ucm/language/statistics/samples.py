"""The symbolic samples `pos`, `neg`, `signed`, their means and covariances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound import Data
from ucm.data.linear import LinearMap, Vec
from ucm.errors import CompositionError, brief
from ucm.language.node import CoordinateFree, Notation
from ucm.language.operators import Arithmetic
from ucm.language.statistics.matrices import MatrixNode
from ucm.language.statistics.vectors import VectorNode

__all__ = ["Covariance", "Mean", "Samples", "neg", "pos", "signed"]

_SIGN = {"pos": "+", "neg": "-", "signed": "±"}  # the subscripts of statistics


class Samples(Arithmetic[Any], CoordinateFree):
    """The samples of class +1 (`pos`), of class -1 (`neg`), or all `y_i x_i` (`signed`).

    Attributes
    ----------
    mean : their mean, a vector
    cov : their covariance, divided by the number of samples (the 1/m convention)

    Examples
    --------
    >>> import ucm
    >>> ucm.pos.mean - ucm.neg.mean
    pos.mean - neg.mean
    >>> print(ucm.pos.cov + ucm.neg.cov)
    Σ₊ + Σ₋
    """

    kind: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in _SIGN:
            raise CompositionError(
                f"Samples: expected one of {', '.join(_SIGN)}, got {brief(self.kind)}; "
                "use ucm.pos, ucm.neg or ucm.signed"
            )

    @property
    def mean(self) -> Mean:
        return Mean(self)

    @property
    def cov(self) -> Covariance:
        return Covariance(self)

    def __repr__(self) -> str:
        return self.kind

    def formula(self, notation: Notation) -> str:
        return notation.word(self.kind)

    def combine(self, symbol: str, a: Any, b: Any) -> Any:
        if symbol == "*" and not (isinstance(a, float) and a == -1.0):  # -1.0: of a minus sign
            raise CompositionError(
                f"{self!r} are samples, not a set; did you mean {a!r} * Hull({self!r})?"
            )
        raise CompositionError(
            f"{self!r} are samples, not a set, so they take no arithmetic; "
            f"did you mean Hull({self!r}), or {self!r}.mean?"
        )


pos = Samples("pos")
neg = Samples("neg")
signed = Samples("signed")


class Mean(VectorNode, CoordinateFree):
    """The mean of the samples: `(1/m_o) sum_i x_i`."""

    samples: Samples

    def dimension(self, n: int | None) -> int | None:
        return n

    def evaluate(self, data: Data) -> Vec:
        return data.mean(self.samples.kind)

    def __repr__(self) -> str:
        return f"{self.samples!r}.mean"

    def formula(self, notation: Notation) -> str:
        return notation.sub(notation.bar("x"), _SIGN[self.samples.kind])


class Covariance(MatrixNode, CoordinateFree):
    """The covariance `(1/m_o) sum_i (x_i - mean)(x_i - mean)'` of the samples."""

    samples: Samples

    def dimension(self, n: int | None) -> int | None:
        return n

    def factors(self, data: Data) -> list[LinearMap]:
        return [data.covariance_factor(self.samples.kind)]

    def evaluate(self, data: Data) -> NDArray[np.float64]:
        return data.covariance(self.samples.kind)

    def __repr__(self) -> str:
        return f"{self.samples!r}.cov"

    def formula(self, notation: Notation) -> str:
        return notation.sub(notation.symbol("Sigma"), _SIGN[self.samples.kind])
