"""Domains in which an entry can stand for several copies: what weights of samples make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from ucm.data.linear import Vec
from ucm.language import masses
from ucm.language.contracts import Weighable
from ucm.language.node import converted

__all__ = ["Copied"]


def _copies(given: Any, where: str = "") -> Vec | None:
    return None if given is None else masses.copies_of(given, where)


class Copied(Weighable):
    """A domain of q that is another one of the vector in which every q_i is split evenly into `copies_i`
    entries `q_i / copies_i`.

    Parameters
    ----------
    copies : (N,) array, optional
        Positive, whole or not: the weights of the samples whose weights the q_i are; None for 1.

    Raises
    ------
    CompositionError
        `copies` is no vector of positive numbers.
    """

    copies: Any = converted(converter=_copies, default=None, kw_only=True)

    def weighed(self, weights: Vec, *, classes: Vec | None = None) -> Self:
        own = 1.0 if self.copies is None else self.copies
        return replace(self, copies=own * weights)

    @property
    def bare(self) -> Self:
        """The same without copies, as it was written."""
        return self if self.copies is None else replace(self, copies=None)

    def miscounted(self, dim: int) -> str | None:
        """Why the copies have no meaning in this dimension, if so."""
        if self.copies is None or self.copies.size == dim:
            return None
        return masses.other_copies(self, self.copies, dim)

    @property
    def c(self) -> Any:
        """The copies, or 1."""
        return 1.0 if self.copies is None else self.copies

    def count(self, dim: int) -> float:
        """N: the number of all copies."""
        return dim if self.copies is None else float(self.copies.sum())
