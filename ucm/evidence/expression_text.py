"""CVXPY expressions and NumPy formulas as Python source."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy import sparse

from ucm.language import cvx as cp

__all__ = ["ExpressionPrinter", "Text", "code"]

_OPERATORS = {
    "add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "true_divide": ("/", 2), "divide": ("/", 2),
    "matmul": ("@", 2), "power": ("**", 4), "less_equal": ("<=", 0), "greater_equal": (">=", 0),
    "less": ("<", 0), "greater": (">", 0), "equal": ("==", 0),
}  # fmt: skip
"""The symbol and the precedence of each ufunc: comparison 0, sum 1, product 2, sign 3, power 4, atom 5."""


class Text(NDArrayOperatorsMixin):
    """Source text of an expression with the precedence of its outermost operator. Arithmetic and NumPy's
    functions of a `Text` give the `Text` of the result."""

    def __init__(self, source: str, precedence: int = 5) -> None:
        self.source, self.precedence = source, precedence

    def __str__(self) -> str:
        return self.source

    def __getattr__(self, name: str) -> Text:
        if name.startswith("__"):
            raise AttributeError(name)
        return Text(f"{code(self, 5)}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Text:
        words = [code(a) for a in args] + [f"{name}={code(x)}" for name, x in options.items()]
        return Text(f"{self}({', '.join(words)})")

    def __getitem__(self, key: Any) -> Text:
        return Text(f"{code(self, 5)}[{code(key)}]")

    def __bool__(self) -> bool:
        raise TypeError("source text is neither true nor false")

    __iter__ = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.negative:
            return _negative(inputs[0])
        if ufunc.__name__ in _OPERATORS:
            return _joined(ufunc.__name__, *inputs)
        return Text("np.abs" if ufunc is np.abs else f"np.{ufunc.__name__}")(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Text:
        return Text(f"np.{function.__name__}")(*args, **options)


def _joined(name: str, a: Any, b: Any) -> Text:
    """`a symbol b`, without neutral elements."""
    neutral = {"multiply": "1", "true_divide": "1", "divide": "1", "add": "0", "subtract": "0"}
    left, right = (
        str(a if isinstance(a, Text) else code(a)),
        str(b if isinstance(b, Text) else code(b)),
    )
    if neutral.get(name) == right:
        return a if isinstance(a, Text) else Text(left)
    if (name, left) in (("multiply", "1"), ("add", "0")):
        return b if isinstance(b, Text) else Text(right)
    if (name, left) in (("multiply", "-1"), ("subtract", "0")):
        return _negative(b)
    symbol, precedence = _OPERATORS[name]
    left, right = code(a, precedence + (name == "power")), code(b, precedence + (name != "power"))
    if name == "add" and right.startswith("-"):
        return Text(f"{left} - {right[1:]}", precedence)
    return Text(f"{left} {symbol} {right}", precedence)


def _negative(x: Text) -> Text:
    return Text(f"-{code(x, 2)}", min(3, x.precedence))


def code(x: Any, least: int = 0) -> str:
    """Source text of an expression, a number or an array, in parentheses below the precedence `least`."""
    if isinstance(x, Text):
        return x.source if x.precedence >= least else f"({x})"
    if isinstance(x, str | bool) or x is None:
        return repr(x)
    if sparse.issparse(x):
        return code(x.toarray())
    if isinstance(x, np.ndarray) and x.ndim:
        return f"np.array({x.tolist()!r})".replace("inf", "np.inf")
    if isinstance(x, list | tuple):
        inner = ", ".join(code(item) for item in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if isinstance(x, type):
        return x.__name__
    if isinstance(x, slice):
        return f"{code(x.start)}:{code(x.stop)}"
    number = float(x)
    short = repr(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if not np.isfinite(number):
        short = "np.inf" if number > 0.0 else "-np.inf"
    return f"({short})" if short.startswith("-") and least > 1 else short


class ExpressionPrinter:
    """Prints CVXPY expressions; names variables and arrays on the way.

    Parameters
    ----------
    parameter : text of a `cvxpy.Parameter`
    array : text of a constant array, None for a literal one

    Attributes
    ----------
    definitions : lines that define the variables and the literal matrices, in order of appearance
    """

    def __init__(
        self,
        parameter: Callable[[cp.Parameter], Text],
        array: Callable[[Any], Text | None],
        taken: Iterable[str],
    ) -> None:
        self.parameter, self.array = parameter, array
        self.definitions: list[str] = []
        self.names: dict[int, Text] = {}  # of variables by their id
        self._taken = set(taken)

    def fresh(self, name: str) -> str:
        """A name that nothing else has."""
        found, k = name, 1
        while found in self._taken:
            found, k = f"{name}_{k}", k + 1
        self._taken.add(found)
        return found

    def variable(self, v: cp.Variable) -> Text:
        if v.id not in self.names:
            own = v.name()
            name = self.fresh("v" if own.startswith("var") or not own.isidentifier() else own)
            shape = "" if v.shape == () else code(v.shape[0] if len(v.shape) == 1 else v.shape)
            sign = ", nonneg=True" if v.attributes["nonneg"] else ""
            self.definitions.append(f"{name} = cp.Variable({shape}{sign})")
            self.names[v.id] = Text(name)
        return self.names[v.id]

    def constant(self, x: Any) -> Text:
        if np.ndim(x) == 0 and not sparse.issparse(x):
            return Text(code(x), 5 if x >= 0.0 else 3)
        known = self.array(x)
        if known is None and len(x.shape) == 2:
            known = Text(self.fresh("A"))
            self.definitions.append(f"{known} = {code(x)}")
        return Text(code(x)) if known is None else known

    def text(self, e: Any) -> Text:
        """The source of an expression or a constraint."""
        if isinstance(e, cp.Variable):
            return self.variable(e)
        if isinstance(e, cp.Parameter):
            return self.parameter(e)
        if isinstance(e, cp.Constant):
            return self.constant(e.value)
        kind = type(e).__name__
        if kind == "MulExpression" and isinstance(e.args[0], cp.Constant):
            weights = e.args[0].value  # of all entries 1
            if weights.ndim == 1 and not sparse.issparse(weights) and (weights == 1.0).all():
                return Text("cp.sum")(self.text(e.args[1]))
        args = [self.text(a) for a in e.args]
        match kind:
            case "Promote" | "broadcast_to":
                return args[0]
            case "AddExpression":
                return reduce(lambda a, b: a + b, args)
            case "NegExpression":
                return -args[0]
            case "MulExpression":
                return args[0] @ args[1]
            case "DivExpression":
                return args[0] / args[1]
            case "multiply":
                plain = any(_is_scalar(a) for a in e.args)
                return args[0] * args[1] if plain else Text("cp.multiply")(*args)
            case "Inequality":
                if isinstance(e.args[0], cp.Constant):
                    return args[1] >= args[0]
                return args[0] <= args[1]
            case "Equality":
                return args[0] == args[1]
            case "transpose":
                return args[0].T
            case "index" | "special_index":
                return self._indexed(e, args[0])
            case "quad_over_lin" if str(args[1]) == "1":
                return Text("cp.sum_squares")(args[0])
            case "Pnorm" | "PnormApprox":
                return _norm(args[0], *e.get_data()[:3])
            case "norm1" | "norm_inf":
                return _norm(args[0], 1 if kind == "norm1" else "inf", *e.get_data())
            case "Power" | "PowerApprox":
                p = e.get_data()[0]
                p = p.value if isinstance(p, cp.Constant) else p
                return Text("cp.square" if p == 2 else "cp.power")(
                    args[0],
                    *([] if p == 2 else [float(p)]),
                    **({} if p == 2 else {"approx": False}),
                )
            case "maximum" if str(args[-1]) == "0" and len(args) == 2:
                return Text("cp.pos")(args[0])
        return self._called(e, args)

    def _indexed(self, e: Any, x: Text) -> Text:
        key = e.get_data()[-1]
        key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        if isinstance(key, np.ndarray):
            if np.array_equal(key, np.arange(e.args[0].size)):
                return x
            known = self.array(key)
            return x[list(map(int, key))] if known is None else x[known]
        if isinstance(key, slice) and key.step in (None, 1):
            whole = key.start in (None, 0) and key.stop in (None, e.args[0].shape[0])
            return x if whole else x[slice(key.start, key.stop)]
        return x[key]

    def _called(self, e: Any, args: list[Text]) -> Text:
        """An atom by its function in CVXPY, the arguments that differ from their defaults by name."""
        name = type(e).__name__
        name = name.lower() if hasattr(cp, name.lower()) else name
        name = "transforms.indicator" if name == "indicator" else name
        if isinstance(e, cp.constraints.constraint.Constraint):
            return Text(f"cp.{name}")(*args)
        given = (
            inspect.signature(type(e).__init__).bind(e, *e.args, *(e.get_data() or ())).arguments
        )
        defaults = inspect.signature(type(e).__init__).parameters
        options = {
            key: self.text(x) if isinstance(x, cp.Expression) else x
            for key, x in given.items()
            if key not in ("self", "args") and not any(x is a for a in e.args)
            and defaults[key].kind is not inspect.Parameter.VAR_POSITIONAL
            and (isinstance(x, cp.Expression) or not (x is None or x == defaults[key].default))
        }  # fmt: skip
        one_list = name in ("hstack", "vstack", "transforms.indicator")
        return Text(f"cp.{name}")(*([args] if one_list else args), **options)


def _norm(x: Text, p: Any, axis: Any = None, keepdims: bool = False) -> Text:
    options = {} if axis is None else {"axis": axis}
    if float(p) in (1.0, 2.0, np.inf):
        return Text("cp.norm")(x, "inf" if p == "inf" else p, **options)
    return Text("cp.pnorm")(x, float(p), approx=False, **options)


def _is_scalar(e: Any) -> bool:
    return e.is_scalar() or type(e).__name__ in ("Promote", "broadcast_to")
