"""CVXPY expressions and NumPy formulas as Python source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy import sparse

from ucm.language import cvx as cp

_SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "divide": "/", "matmul": "@",
    "power": "**", "less_equal": "<=", "greater_equal": ">=", "less": "<", "greater": ">", "equal": "==",
}  # fmt: skip
"""The symbol of each ufunc."""
_NEUTRAL = {"multiply": "1", "true_divide": "1", "divide": "1", "add": "0", "subtract": "0"}


class Text(NDArrayOperatorsMixin):
    """The source text of an expression, with no more parentheses than needed. Arithmetic and NumPy's
    functions of a `Text` give the `Text` of the result.

    Parameters
    ----------
    source : Python source, or its syntax tree
    """

    def __init__(self, source: str | ast.expr) -> None:
        self.node = ast.parse(source, mode="eval").body if isinstance(source, str) else source

    def __str__(self) -> str:
        return ast.unparse(self.node)

    def __getattr__(self, name: str) -> Text:
        if name.startswith("__"):
            raise AttributeError(name)
        return Text(f"({self}).{name}")

    def __call__(self, *args: Any, **options: Any) -> Text:
        words = [*map(code, args), *(f"{name}={code(x)}" for name, x in options.items())]
        return Text(f"{self}({', '.join(words)})")

    def __getitem__(self, key: Any) -> Text:
        return Text(f"({self})[{code(key)}]")

    def __bool__(self) -> bool:
        raise TypeError("source text is neither true nor false")

    __iter__ = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        texts = [Text(code(x)) for x in inputs]
        if ufunc is np.negative:
            return _negative(texts[0])
        if ufunc.__name__ in _SYMBOLS:
            return _joined(ufunc.__name__, *texts)
        return Text("np.abs" if ufunc is np.abs else f"np.{ufunc.__name__}")(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Text:
        return Text(f"np.{function.__name__}")(*args, **options)


def _joined(name: str, a: Text, b: Text) -> Text:
    """Return `a symbol b` without neutral elements and double signs."""
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
    """Return minus an expression; of a product or a quotient the sign of the first factor changes."""
    node = x.node
    if isinstance(node, ast.UnaryOp):
        return Text(node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.MatMult):
        return Text(ast.BinOp(_negative(Text(node.left)).node, node.op, node.right))
    return Text(f"-({x})")


def code(x: Any) -> str:
    """Return the source text of an expression, a number or an array."""
    if isinstance(x, Text):
        return str(x)
    if isinstance(x, str | bool) or x is None:
        return repr(x)
    if sparse.issparse(x):
        x = x.toarray()
    if isinstance(x, np.ndarray) and x.ndim:
        return f"np.array({x.tolist()!r})".replace("inf", "np.inf")
    if isinstance(x, list):
        return f"[{', '.join(map(code, x))}]"
    if isinstance(x, tuple):
        return f"({', '.join(map(code, x))})"
    if isinstance(x, type):
        return x.__name__
    if isinstance(x, slice):
        return f"{code(x.start)}:{code(x.stop)}"
    number = float(x)
    if not np.isfinite(number):
        return "np.inf" if number > 0.0 else "-np.inf"
    return repr(int(number) if number.is_integer() and abs(number) < 1e15 else number)


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
        """Return an unused name."""
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
            return Text(code(x))
        known = self.array(x)
        if known is None and len(x.shape) == 2:
            known = Text(self.fresh("A"))
            self.definitions.append(f"{known} = {code(x)}")
        return Text(code(x)) if known is None else known

    def text(self, e: Any) -> Text:
        """Return the source of an expression or a constraint."""
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
        """Return an atom by its function in CVXPY, the arguments that differ from their defaults by name."""
        name = type(e).__name__
        name = name.lower() if hasattr(cp, name.lower()) else name
        name = "transforms.indicator" if name == "indicator" else name
        if isinstance(e, cp.constraints.constraint.Constraint):
            return Text(f"cp.{name}")(*args)
        given = inspect.signature(type(e).__init__).bind(e, *e.args, *(e.get_data() or ())).arguments
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
