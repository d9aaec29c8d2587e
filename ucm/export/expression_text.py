"""Conversion of CVXPY expressions and NumPy formulas to Python source code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from functools import reduce

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy import sparse

from ucm.data.linear_map import Matrix
from ucm.language import cvx as cp

_SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "divide": "/", "matmul": "@",
    "power": "**", "less_equal": "<=", "greater_equal": ">=", "less": "<", "greater": ">", "equal": "==",
}  # fmt: skip
"""The symbol of each ufunc."""
_LEAVES = ("Variable", "Parameter", "Constant")
_NEUTRAL = {"multiply": "1", "true_divide": "1", "divide": "1", "add": "0", "subtract": "0"}


class Text(NDArrayOperatorsMixin):
    """The Python source of an expression, with minimal parentheses; arithmetic returns texts."""

    def __init__(self, source: str | ast.expr) -> None:
        self.node = ast.parse(source, mode="eval").body if isinstance(source, str) else source

    def __str__(self) -> str:
        return ast.unparse(self.node)

    def __getattr__(self, name: str) -> Text:
        if name.startswith("__"):
            raise AttributeError(name)
        return Text(f"({self}).{name}")

    def __call__(self, *args: object, **options: object) -> Text:
        words = [*map(code, args), *(f"{name}={code(x)}" for name, x in options.items())]
        return Text(f"{self}({', '.join(words)})")

    def __getitem__(self, key: object) -> Text:
        return Text(f"({self})[{code(key)}]")

    def __bool__(self) -> bool:
        raise TypeError("source text is neither true nor false")

    __iter__ = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Text:
        if method != "__call__" or options:
            return NotImplemented
        texts = [Text(code(x)) for x in inputs]
        if ufunc is np.negative:
            return _negative(texts[0])
        if ufunc.__name__ in _SYMBOLS:
            return _joined(ufunc.__name__, *texts)
        name = "abs" if ufunc is np.abs else ufunc.__name__
        return Text(f"np.{name}" if hasattr(np, name) else name)(*inputs)  # the others of scipy.special

    def __array_function__(
        self, function: Callable[..., object], types: object, args: tuple, options: dict
    ) -> Text:
        return Text(f"np.{function.__name__}")(*args, **options)


def _joined(name: str, a: Text, b: Text) -> Text:
    """Return the text of a binary operation, without neutral elements 0 and 1 and without double signs."""
    left, right = str(a), str(b)
    if _NEUTRAL.get(name) == right:
        return a
    if (name, left) in (("multiply", "1"), ("add", "0")):
        return b
    if (name, left) in (("multiply", "-1"), ("subtract", "0")):
        return _negative(b)
    if name in ("add", "subtract") and right.startswith("-"):
        name, b = "subtract" if name == "add" else "add", _negative(b)
    return Text(f"({a}) {_SYMBOLS[name]} ({b})")


def _negative(x: Text) -> Text:
    """Return the text of `-x`; in a product or a quotient the first factor changes sign."""
    match x.node:
        case ast.UnaryOp(operand=operand):
            return Text(operand)
        case ast.BinOp(left, ast.Mult() | ast.Div() | ast.MatMult() as operation, right):
            return Text(ast.BinOp(_negative(Text(left)).node, operation, right))
    return Text(f"-({x})")


def code(x: object) -> str:
    """Return the Python source of a `Text`, number, string, slice, type, list, tuple or array."""
    if sparse.issparse(x):
        x = x.toarray()  # pyright: ignore[reportAttributeAccessIssue]
    match x:
        case Text():
            return str(x)
        case str() | bool() | None:
            return repr(x)
        case np.ndarray(ndim=1 | 2):
            return f"np.array({x.tolist()!r})".replace("inf", "np.inf")
        case list():
            return f"[{', '.join(map(code, x))}]"
        case tuple():
            return f"({', '.join(map(code, x))})"
        case type():
            return x.__name__
        case slice():
            start, stop = ("" if end is None else code(end) for end in (x.start, x.stop))
            return f"{start}:{stop}"
    number = float(x)  # pyright: ignore[reportArgumentType]
    if not np.isfinite(number):
        return "np.inf" if number > 0.0 else "-np.inf"
    return repr(int(number) if number.is_integer() and abs(number) < 1e15 else number)


class ExpressionPrinter:
    """A printer of CVXPY expressions as Python source; `definitions` are the variables and matrices.

    `parameter` gives the text of a `cvxpy.Parameter`, `array` that of a constant array, or None for a
    literal one; `reserved` are names that the program uses.
    """

    def __init__(
        self,
        parameter: Callable[[cp.Parameter], Text],
        array: Callable[[Matrix], Text | None],
        reserved: Iterable[str],
    ) -> None:
        self.parameter, self.array = parameter, array
        self.definitions: list[str] = []
        self.names: dict[int, Text] = {}  # of variables by their id
        self._reserved = set(reserved)

    def _define(self, name: str, definition: str) -> Text:
        """Append the definition of a new variable or matrix, and return its unique name."""
        word, k = name, 1
        while word in self._reserved:
            word, k = f"{name}_{k}", k + 1
        self._reserved.add(word)
        self.definitions.append(f"{word} = {definition}")
        return Text(word)

    def _variable(self, v: cp.Variable) -> Text:
        if v.id not in self.names:
            word = v.name()
            word = "v" if word.startswith("var") or not word.isidentifier() else word
            shape = "" if v.shape == () else code(v.shape[0] if len(v.shape) == 1 else v.shape)
            sign = ", nonneg=True" if v.attributes["nonneg"] else ""
            self.names[v.id] = self._define(word, f"cp.Variable({shape}{sign})")
        return self.names[v.id]

    def _constant(self, x: Matrix) -> Text:
        if np.ndim(x) == 0 and not sparse.issparse(x):
            return Text(code(x))
        text = self.array(x)
        if text is None:
            return self._define("A", code(x)) if len(x.shape) == 2 else Text(code(x))
        return text

    def text(self, e: cp.Expression | cp.Constraint) -> Text:
        """Return the Python source of a CVXPY expression or constraint."""
        kind = type(e).__name__
        args, data = [self.text(a) for a in e.args], [] if kind in _LEAVES else list(e.get_data() or ())
        match kind:
            case "Variable":
                return self._variable(e)
            case "Parameter":
                return self.parameter(e)
            case "Constant":
                return self._constant(e.value)
            case "Promote" | "broadcast_to":
                return args[0]
            case "AddExpression":
                return reduce(operator.add, args)
            case "NegExpression":
                return -args[0]
            case "MulExpression":
                first = e.args[0]  # a vector of equal entries has the text of one of them
                vector = type(first).__name__ == "Constant" and first.ndim == 1
                equal = vector and str(args[0]) == code(first.value[0])
                return args[0] * Text("cp.sum")(args[1]) if equal else args[0] @ args[1]
            case "DivExpression":
                return args[0] / args[1]
            case "multiply":
                promoted = any(
                    a.is_scalar() or type(a).__name__ in ("Promote", "broadcast_to") for a in e.args
                )
                return args[0] * args[1] if promoted else Text("cp.multiply")(*args)
            case "Inequality":
                return args[1] >= args[0] if e.args[0].is_constant() else args[0] <= args[1]
            case "Equality":
                return args[0] == args[1]
            case "transpose":
                return args[0].T
            case "index" | "special_index":
                return self._indexed(e.args[0], args[0], data[-1])
            case "quad_over_lin" if str(args[1]) == "1":
                return Text("cp.sum_squares")(args[0])
            case "Pnorm" | "PnormApprox":
                axis = {} if data[1] is None else {"axis": data[1]}
                if float(data[0]) == 2.0:
                    return Text("cp.norm")(args[0], 2, **axis)
                return Text("cp.pnorm")(args[0], float(data[0]), approx=False, **axis)
            case "Power" | "PowerApprox":
                p = float(np.asarray(getattr(data[0], "value", data[0])))
                if p == 2:
                    return Text("cp.square")(args[0])
                return Text("cp.power")(args[0], p, approx=False)
            case "maximum" if str(args[-1]) == "0" and len(args) == 2:
                return Text("cp.pos")(args[0])
            case "diag_vec":
                return Text("cp.diag")(args[0])
            case "Hstack" | "Vstack" as name:
                return Text(f"cp.{name.lower()}")(args)
            case "indicator":
                return Text("cp.transforms.indicator")(args)
            case name:  # the function of CVXPY, with its further arguments
                while data and (data[-1] is None or data[-1] is False):
                    data.pop()
                data = [self.text(x) if isinstance(x, cp.Expression) else x for x in data]
                return Text(f"cp.{name.lower() if hasattr(cp, name.lower()) else name}")(*args, *data)

    def _indexed(self, e: cp.Expression, x: Text, key: object) -> Text:
        match key:
            case (inner,):
                return self._indexed(e, x, inner)
            case np.ndarray():
                if np.array_equal(key, np.arange(e.size)):
                    return x
                text = self.array(key)
                return x[list(map(int, key)) if text is None else text]
            case slice(start=None | 0, step=None | 1) if key.stop in (None, e.shape[0]):
                return x
            case slice(step=1):
                return x[key.start : key.stop]
        return x[key]
