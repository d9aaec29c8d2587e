"""What vectors and matrices of statistics share: constants, linear combinations, coefficients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.bound import Data
from ucm.errors import CompositionError, brief
from ucm.language.arithmetic import as_factor, in_parentheses
from ucm.language.contracts import common_dimension
from ucm.language.node import Node, Notation, Scalar, source, value
from ucm.language.operators import Arithmetic
from ucm.language.parameter import as_declared

__all__ = ["ConstantStatistic", "Statistic", "StatisticSum", "coefficient", "gathered"]

Terms = list[tuple[Scalar, Any]]  # pairs (coefficient, statistic)


class Statistic(Arithmetic[Any]):
    """A vector or a matrix over feature space: a mean, a covariance, a constant, a combination."""

    @abstractmethod
    def dimension(self, n: int | None) -> int | None:
        """Its length or order over samples with n features."""

    @abstractmethod
    def evaluate(self, data: Data) -> NDArray[np.float64]:
        """The vector (n,), or the matrix itself, dense (n, n)."""


class ConstantStatistic(Statistic):
    """A fixed array."""

    entries: Any

    def dimension(self, n: int | None) -> int | None:
        return self.entries.shape[0]

    def evaluate(self, data: Data) -> NDArray[np.float64]:
        return self.entries.toarray() if sparse.issparse(self.entries) else self.entries

    def __repr__(self) -> str:
        return source(self.entries)

    def formula(self, notation: Notation) -> str:
        return notation.array(self.entries)


class StatisticSum(Statistic):
    """A linear combination; `terms` are pairs (coefficient, statistic)."""

    terms: tuple[tuple[Scalar, Any], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dimension(None)

    def dimension(self, n: int | None) -> int | None:
        return common_dimension(self, [v.dimension(n) for _, v in self.terms])

    def evaluate(self, data: Data) -> NDArray[np.float64]:
        return reduce(add, [value(c) * v.evaluate(data) for c, v in self.terms])

    def __repr__(self) -> str:
        return _signed([(c, repr(v)) for c, v in self.terms], "*", source)

    def formula(self, notation: Notation) -> str:
        return _signed([(c, v.formula(notation)) for c, v in self.terms], " ", notation.scalar)


def coefficient(c: Any, node: Node) -> Scalar:
    """Return `c` as the number, `Param` or arithmetic of them that multiplies `node`.

    Raises
    ------
    CompositionError
        It is none of these, or not finite.
    """
    factor = as_factor(c)
    if factor is None or not np.isfinite(as_declared(factor)):
        raise CompositionError(
            f"{node!r}: a statistic is multiplied by finite numbers and Params only, got {brief(c)}; "
            "write 2.0 * pos.mean"
        )
    return factor


def gathered(terms: Terms, constant: type[ConstantStatistic]) -> Terms:
    """The terms of a sum, those of sums in it taken out; all constants as one, in the place of the first.
    Constants of other sizes stay, to be refused."""
    flat: Terms = []
    for c, v in terms:
        flat += [(c * a, u) for a, u in v.terms] if isinstance(v, StatisticSum) else [(c, v)]
    at = [k for k, (c, v) in enumerate(flat) if isinstance(v, constant) and isinstance(c, float)]
    if not at or len({flat[k][1].dimension(None) for k in at}) > 1:
        return flat
    entries = reduce(add, [value(flat[k][0]) * flat[k][1].entries for k in at])
    flat[at[0]] = 1.0, constant(entries)
    return [term for k, term in enumerate(flat) if k not in at[1:]]


def _signed(terms: list[tuple[Scalar, str]], times: str, number: Callable[[Scalar], str]) -> str:
    """`a x - b y` from pairs (coefficient, word); a coefficient of 1 is not written."""
    text = ""
    for c, word in terms:
        minus = isinstance(c, float) and c < 0.0
        size = -c if minus else c
        one = isinstance(size, float) and size == 1.0
        body = word if one else f"{in_parentheses(number(size))}{times}{word}"
        if text:
            text += (" - " if minus else " + ") + body
        else:
            text = ("-" if minus else "") + body
    return text
