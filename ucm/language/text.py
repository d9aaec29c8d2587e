"""Expressions that write down what is done to them, as Python source.

What CVXPY and NumPy make of a `Text` is a `Text` too, so that one description of a domain, a loss or a
penalty gives its CVXPY expression and the source of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["Text", "called", "code", "joined", "spoken"]

_SYMBOLS = {
    "add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "true_divide": ("/", 2), "divide": ("/", 2),
    "matmul": ("@", 2), "power": ("**", 4), "less_equal": ("<=", 0), "greater_equal": (">=", 0),
    "less": ("<", 0), "greater": (">", 0), "equal": ("==", 0),
}  # fmt: skip
"""The operator of each ufunc, and how strongly it binds: comparison 0, sum 1, product 2, sign 3, power 4."""


class Text:
    """Source text of an expression, with how strongly its outermost operator binds; 5: a name or a call."""

    def __init__(self, source: str, binds: int = 5) -> None:
        self.source, self.binds = source, binds

    def __str__(self) -> str:
        return self.source

    def __getattr__(self, name: str) -> Text:
        if name.startswith("__"):
            raise AttributeError(name)
        return Text(f"{code(self, 5)}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Text:
        return called(self.source, *args, **options)

    def __getitem__(self, key: Any) -> Text:
        return Text(f"{code(self, 5)}[{code(key)}]")

    def __bool__(self) -> bool:
        raise TypeError("source text is neither true nor false")

    __iter__ = None
    __hash__ = object.__hash__

    def __neg__(self) -> Text:
        return Text(f"-{code(self, 3)}", 3)

    def __add__(self, other: Any) -> Text:
        return joined("add", self, other)

    def __radd__(self, other: Any) -> Text:
        return joined("add", other, self)

    def __sub__(self, other: Any) -> Text:
        return joined("subtract", self, other)

    def __rsub__(self, other: Any) -> Text:
        return joined("subtract", other, self)

    def __mul__(self, other: Any) -> Text:
        return joined("multiply", self, other)

    def __rmul__(self, other: Any) -> Text:
        return joined("multiply", other, self)

    def __truediv__(self, other: Any) -> Text:
        return joined("true_divide", self, other)

    def __rtruediv__(self, other: Any) -> Text:
        return joined("true_divide", other, self)

    def __matmul__(self, other: Any) -> Text:
        return joined("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Text:
        return joined("matmul", other, self)

    def __pow__(self, other: Any) -> Text:
        return joined("power", self, other)

    def __rpow__(self, other: Any) -> Text:
        return joined("power", other, self)

    def __le__(self, other: Any) -> Text:
        return joined("less_equal", self, other)

    def __ge__(self, other: Any) -> Text:
        return joined("greater_equal", self, other)

    def __lt__(self, other: Any) -> Text:
        return joined("less", self, other)

    def __gt__(self, other: Any) -> Text:
        return joined("greater", self, other)

    def __eq__(self, other: object) -> Text:  # type: ignore[override]
        return joined("equal", self, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = "absolute" if ufunc is np.abs else ufunc.__name__
        if method != "__call__" or options:
            return NotImplemented
        if name in _SYMBOLS:
            return joined(name, *inputs)
        return (
            Text(f"-{code(inputs[0], 3)}", 3)
            if name == "negative"
            else called(f"np.{name}", *inputs)
        )

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Text:
        return called(f"np.{function.__name__}", *args, **options)


def joined(name: str, a: Any, b: Any) -> Text:
    """`a symbol b`; what changes nothing is left out."""
    if (name == "multiply" and _is(a, 1.0)) or (name == "add" and _is(a, 0.0)):
        return _text(b)
    neutral = {"multiply": 1.0, "true_divide": 1.0, "divide": 1.0, "add": 0.0, "subtract": 0.0}
    if name in neutral and _is(b, neutral[name]):
        return _text(a)
    if (name == "subtract" and _is(a, 0.0)) or (name == "multiply" and _is(a, -1.0)):
        return Text(f"-{code(b, 3)}", 3)
    symbol, binds = _SYMBOLS[name]
    left, right = code(a, binds + (name == "power")), code(b, binds + (name != "power"))
    if name == "add" and right.startswith("-"):
        return Text(f"{left} - {right[1:]}", binds)
    return Text(f"{left} {symbol} {right}", binds)


def _is(x: Any, number: float) -> bool:
    return isinstance(x, int | float) and x == number


def _text(x: Any) -> Text:
    return x if isinstance(x, Text) else Text(code(x))


def code(x: Any, least: int = 0) -> str:
    """Source text of an expression, a number or an array; in parentheses where it binds less than `least`."""
    if isinstance(x, Text):
        return x.source if x.binds >= least else f"({x.source})"
    if isinstance(x, str | bool) or x is None:
        return repr(x)
    if sparse.issparse(x):
        return f"np.array({x.toarray().tolist()!r})"
    if isinstance(x, np.ndarray) and x.ndim:
        return f"np.array({x.tolist()!r})"
    if isinstance(x, list | tuple):
        inner = ", ".join(code(item) for item in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if isinstance(x, slice):
        return f"{code(x.start)}:{code(x.stop)}"
    if isinstance(x, type):
        return x.__name__
    number = float(x)
    short = repr(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if not np.isfinite(number):
        short = "np.inf" if number > 0.0 else "-np.inf"
    return f"({short})" if short.startswith("-") and least > 1 else short


def called(function: str, *args: Any, **options: Any) -> Text:
    """`function(args)`."""
    words = [code(a) for a in args] + [f"{name}={code(x)}" for name, x in options.items()]
    return Text(f"{function}({', '.join(words)})")


def spoken(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of CVXPY that writes itself down where an argument is a `Text`."""

    def either(*args: Any, **options: Any) -> Any:
        found = called(f"cp.{name}", *args, **options) if _among(args) else None
        return function(*args, **options) if found is None else found

    return either


def _among(args: Iterable[Any]) -> bool:
    return any(isinstance(a, Text) or (isinstance(a, list | tuple) and _among(a)) for a in args)
