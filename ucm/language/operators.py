"""What `+ - * / @ & |` between declarations do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ucm.language.node import Node

__all__ = ["OPERATORS", "Arithmetic", "operator"]

Result = TypeVar("Result")

OPERATORS: dict[str, Callable[..., Any]] = {}
"""The meanings by name. The floors above install their nodes here, so that no contract imports one."""


def operator(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Install a function as the meaning of an operator between declarations."""

    def install(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS[name] = function
        return function

    return install


class Arithmetic(Node, Generic[Result]):
    """A declaration that stands in expressions, all of them through `combine`."""

    __array_ufunc__ = None  # lets `array + U` and `np.float64 * loss` reach the methods below

    @abstractmethod
    def combine(self, symbol: str, a: Any, b: Any) -> Result:
        """`a symbol b`, this node among them. NotImplemented: the other operand has the say."""

    def __add__(self, other: object) -> Result:
        return self.combine("+", self, other)

    def __radd__(self, other: object) -> Result:
        return self.combine("+", other, self)

    def __sub__(self, other: object) -> Result:
        return self.combine("-", self, other)

    def __rsub__(self, other: object) -> Result:
        return self.combine("-", other, self)

    def __mul__(self, other: object) -> Result:
        return self.combine("*", other, self)

    def __rmul__(self, other: object) -> Result:
        return self.combine("*", other, self)

    def __neg__(self) -> Result:
        return self.combine("*", -1.0, self)

    def __truediv__(self, other: object) -> Result:
        return self.combine("/", self, other)

    def __matmul__(self, other: object) -> Result:
        return self.combine("@", self, other)

    def __rmatmul__(self, other: object) -> Result:
        return self.combine("@", other, self)

    def __and__(self, other: object) -> Result:
        return self.combine("&", self, other)

    def __rand__(self, other: object) -> Result:
        return self.combine("&", other, self)

    def __or__(self, other: object) -> Result:
        return self.combine("|", self, other)

    def __ror__(self, other: object) -> Result:
        return self.combine("|", other, self)
