"""Declarations as immutable trees: parameters, nodes, printing, JSON.

A node is a frozen dataclass whose fields are numbers, `Param`s, arrays, strings, other nodes, or
tuples of these. Equality and hash are structural; `repr` is source text; `str` is mathematics.
"""

from __future__ import annotations

import functools
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from numbers import Real
from typing import Any, Self, dataclass_transform

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError, UCMError

__all__ = ["LATEX", "TEXT", "Node", "Notation", "Param", "Scalar", "from_json", "to_json", "value"]


@dataclass(frozen=True)
class Param:
    """A named hyperparameter with its present value.

    Parameters
    ----------
    name : str
        A Python identifier; equal names within one model must carry equal values.
    value : float
        The present value; `model.with_params(name=...)` returns a model with another one.

    Raises
    ------
    CompositionError
        The name is no identifier, or the value no real number.

    Examples
    --------
    >>> import ucm
    >>> nu = ucm.Param("nu", 0.3)
    >>> ucm.ReducedHull(ucm.pos, nu=nu).params()
    {'nu': 0.3}
    """

    name: str
    value: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise CompositionError(
                f"Param: the name must be a Python identifier, got {self.name!r}; "
                'write for example Param("nu", 0.3)'
            )
        object.__setattr__(self, "value", _number(self.value, f"Param({self.name!r})"))

    def __repr__(self) -> str:
        return f"Param({self.name!r}, {self.value:.12g})"


Scalar = float | Param


def value(scalar: Scalar) -> float:
    """The number behind a constant or a `Param`."""
    return scalar.value if isinstance(scalar, Param) else scalar


def _number(x: Any, where: str) -> float:
    """`x` as a float; refuses what is no real number."""
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x.item()
    if isinstance(x, bool) or not isinstance(x, Real) or math.isnan(float(x)):
        raise CompositionError(f"{where}: expected a real number or a Param, got {x!r}")
    return float(x)


def _frozen_array(x: Any, where: str) -> Any:
    """A read-only float64 copy of an array (a CSR matrix stays CSR)."""
    if sparse.issparse(x):
        csr = sparse.csr_matrix(x, dtype=np.float64, copy=True)
        csr.sort_indices()
        for part in (csr.data, csr.indices, csr.indptr):
            part.flags.writeable = False
        finite = csr.data
    else:
        if np.iscomplexobj(x):
            raise CompositionError(f"{where}: expected an array of real numbers, got complex ones")
        try:
            csr = finite = np.array(x, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise CompositionError(f"{where}: expected an array of numbers, got {x!r}") from error
        csr.flags.writeable = False
    if not np.isfinite(finite).all():
        raise CompositionError(f"{where}: the array holds NaN or inf; give finite entries")
    return csr


def _freeze(x: Any, where: str) -> Any:
    if isinstance(x, Node | Param | str | type(None) | bool):
        return x
    if isinstance(x, tuple):
        return tuple(_freeze(item, where) for item in x)
    if sparse.issparse(x) or isinstance(x, list) or (isinstance(x, np.ndarray) and x.ndim > 0):
        return _frozen_array(x, where)
    return _number(x, where)


def _key(x: Any) -> Any:
    """A hashable stand-in that is equal exactly when the field is."""
    if sparse.issparse(x):
        return (x.shape, x.data.tobytes(), x.indices.tobytes(), x.indptr.tobytes())
    if isinstance(x, np.ndarray):
        return (x.shape, x.tobytes())
    if isinstance(x, tuple):
        return tuple(_key(item) for item in x)
    return x


_REGISTRY: dict[str, type[Node]] = {}


@dataclass_transform(frozen_default=True)
class Node(ABC):
    """An immutable declaration. Subclasses list their fields as in a dataclass.

    Subclassing makes the class a frozen dataclass and registers its name for `from_json`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(frozen=True, eq=False, repr=False)(cls)
        old = _REGISTRY.get(cls.__name__)
        if (
            old is not None
            and old.__module__ != cls.__module__
            and old.__module__.startswith("ucm.")
        ):
            raise CompositionError(
                f"{cls.__module__}: a declaration named {cls.__name__!r} exists in {old.__module__}; "
                "choose another name"
            )
        _REGISTRY[cls.__name__] = cls

    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]
            where = f"{type(self).__name__}: {f.name}"
            object.__setattr__(self, f.name, _freeze(getattr(self, f.name), where))
        self.params()  # refuses one name with two values

    @abstractmethod
    def formula(self, notation: Notation) -> str:
        """The node as mathematics."""

    # --- structure -------------------------------------------------------------------------
    def operands(self) -> tuple[Any, ...]:
        """The field values, in order."""
        return tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def walk(self) -> Iterator[Node | Param]:
        """This node, then every node and `Param` below it, depth first."""
        yield self
        yield from _walk(self.operands())

    def params(self) -> dict[str, float]:
        """Names and values of the `Param`s in this declaration, in order of appearance.

        Raises
        ------
        CompositionError
            One name carries two values.
        """
        found: dict[str, float] = {}
        for p in self.walk():
            if isinstance(p, Param) and found.setdefault(p.name, p.value) != p.value:
                raise CompositionError(
                    f"{type(self).__name__}: the parameter {p.name!r} has two values, "
                    f"{found[p.name]:g} and {p.value:g}; use one Param, or two names"
                )
        return found

    def with_params(self, **values: float) -> Self:
        """The same declaration with other parameter values.

        Raises
        ------
        CompositionError
            A name that the declaration does not have.
        """
        known = self.params()
        for name in values:
            if name not in known:
                raise CompositionError(
                    f"with_params: no parameter {name!r} in {self!r}; "
                    f"it has {', '.join(known) or 'none'}"
                )
        return _substitute(self, values) if values else self

    # --- identity --------------------------------------------------------------------------
    @functools.cached_property
    def _identity(self) -> tuple[Any, ...]:
        return (type(self).__name__, *(_key(x) for x in self.operands()))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._identity == other._identity  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._identity)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, x in state.items():
            object.__setattr__(self, name, x)
        self.__post_init__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    # --- printing --------------------------------------------------------------------------
    def __repr__(self) -> str:
        words = []
        positional = True
        for f in fields(self):  # type: ignore[arg-type]
            x = getattr(self, f.name)
            if f.default is not MISSING and _key(x) == _key(f.default):
                positional = False
                continue
            required = f.default is MISSING
            words.append(_source(x) if required and positional else f"{f.name}={_source(x)}")
        return f"{type(self).__name__}({', '.join(words)})"

    def __str__(self) -> str:
        return _with_values(self, TEXT)

    def _repr_latex_(self) -> str:
        return f"${_with_values(self, LATEX)}$"


def _walk(items: tuple[Any, ...]) -> Iterator[Node | Param]:
    for x in items:
        if isinstance(x, Node):
            yield from x.walk()
        elif isinstance(x, Param):
            yield x
        elif isinstance(x, tuple):
            yield from _walk(x)


def _substitute(x: Any, values: dict[str, float]) -> Any:
    if isinstance(x, Param):
        return Param(x.name, values[x.name]) if x.name in values else x
    if isinstance(x, tuple):
        return tuple(_substitute(item, values) for item in x)
    if isinstance(x, Node):
        names = [f.name for f in fields(x)]  # type: ignore[arg-type]
        return replace(x, **{n: _substitute(getattr(x, n), values) for n in names})  # type: ignore[type-var]
    return x


def _source(x: Any) -> str:
    if isinstance(x, float):
        return "inf" if x == math.inf else f"{x:.12g}"
    if sparse.issparse(x):
        return f"csr_matrix(shape={x.shape}, nnz={x.nnz})"
    if isinstance(x, np.ndarray):
        text = np.array2string(x, separator=", ", threshold=8, max_line_width=10**9)
        return "array(" + re.sub(r"\s+", " ", text) + ")"
    if isinstance(x, tuple):
        inner = ", ".join(_source(item) for item in x)
        return f"({inner},)" if len(x) == 1 else f"({inner})"
    return repr(x)


def _with_values(node: Node, notation: Notation) -> str:
    values = (f"{notation.symbol(n)} = {v:.6g}" for n, v in node.params().items())
    listed = ", ".join(values)
    return notation.separated(node.formula(notation), *([listed] if listed else []))


# --- notation ----------------------------------------------------------------------------------
_GREEK = {
    "Delta": "Δ", "Sigma": "Σ", "alpha": "α", "beta": "β", "eta": "η", "gamma": "γ", "kappa": "κ", "lam": "λ", "mu": "μ",
    "nu": "ν", "rho": "ρ", "sigma": "σ", "tau": "τ", "theta": "θ",
}  # fmt: skip
_SUBSCRIPTS = str.maketrans("0123456789+-", "₀₁₂₃₄₅₆₇₈₉₊₋")


class Notation(ABC):
    """How the pieces of a formula are written: as plain text, or as LaTeX."""

    minkowski_sum: str
    minkowski_difference: str
    intersection: str
    leq: str
    element: str
    times: str

    @abstractmethod
    def symbol(self, name: str) -> str:
        """A name, Greek where it is a Greek letter; `kappa_pos` becomes a subscripted κ."""

    @abstractmethod
    def sub(self, base: str, index: str) -> str: ...

    @abstractmethod
    def power(self, base: str, exponent: str) -> str: ...

    @abstractmethod
    def norm(self, inner: str, p: str) -> str: ...

    @abstractmethod
    def bar(self, inner: str) -> str: ...

    @abstractmethod
    def set_of(self, element: str, condition: str) -> str: ...

    @abstractmethod
    def sum_over(self, index: str, term: str) -> str: ...

    @abstractmethod
    def fraction(self, top: str, bottom: str) -> str: ...

    @abstractmethod
    def word(self, text: str) -> str: ...

    @abstractmethod
    def under(self, operation: str, index: str) -> str:
        """An operation with its index below, as in a minimum over a set."""

    @abstractmethod
    def separated(self, *clauses: str) -> str:
        """Clauses one after the other."""

    def scalar(self, x: Scalar) -> str:
        """A constant as a number, a `Param` as its symbol."""
        if isinstance(x, Param):
            return self.symbol(x.name)
        return self.word("inf") if x == math.inf else f"{x:.6g}"

    def array(self, x: Any) -> str:
        """A constant vector or matrix: entries when short, the shape otherwise."""
        if not sparse.issparse(x) and x.ndim == 1 and x.size <= 4:
            return "(" + ", ".join(f"{v:.6g}" for v in x) + ")"
        return "[" + "×".join(str(d) for d in x.shape) + "]"


class _Text(Notation):
    minkowski_sum, minkowski_difference, intersection = " ⊕ ", " ⊖ ", " ∩ "
    leq, element, times = " ≤ ", " ∈ ", "·"

    def symbol(self, name: str) -> str:
        base, _, index = name.partition("_")
        return self.sub(_GREEK.get(base, base), index) if index else _GREEK.get(base, base)

    def sub(self, base: str, index: str) -> str:
        plain = index.translate(_SUBSCRIPTS)
        return base + (plain if all(ch in "₀₁₂₃₄₅₆₇₈₉₊₋" for ch in plain) else f"_{index}")

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{exponent}"

    def norm(self, inner: str, p: str) -> str:
        return self.sub(f"‖{inner}‖", "∞" if p == "inf" else p)

    def bar(self, inner: str) -> str:
        return inner[0] + "\u0304" + inner[1:]

    def set_of(self, element: str, condition: str) -> str:
        return f"{{{element} : {condition}}}"

    def sum_over(self, index: str, term: str) -> str:
        return f"Σ_{{{index}}} {term}"

    def fraction(self, top: str, bottom: str) -> str:
        return f"{top}/({bottom})" if " " in bottom or len(bottom) > 1 else f"{top}/{bottom}"

    def word(self, text: str) -> str:
        return "∞" if text == "inf" else text

    def under(self, operation: str, index: str) -> str:
        return f"{operation}_{{{index}}}"

    def separated(self, *clauses: str) -> str:
        return ",  ".join(clauses)


class _Latex(Notation):
    minkowski_sum, minkowski_difference, intersection = r" \oplus ", r" \ominus ", r" \cap "
    leq, element, times = r" \le ", r" \in ", r" \cdot "

    def symbol(self, name: str) -> str:
        base, _, index = name.partition("_")
        greek = {"lam": r"\lambda"}.get(base, f"\\{base}" if base in _GREEK else base)
        return self.sub(greek, r"\mathrm{" + index.replace("_", r"\_") + "}") if index else greek

    def sub(self, base: str, index: str) -> str:
        return f"{base}_{{{index}}}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{{{exponent}}}"

    def norm(self, inner: str, p: str) -> str:
        index = r"\infty" if p == "inf" else p
        return rf"\lVert {inner} \rVert_{{{index}}}"

    def bar(self, inner: str) -> str:
        return rf"\bar {inner}"

    def set_of(self, element: str, condition: str) -> str:
        return rf"\left\{{ {element} : {condition} \right\}}"

    def sum_over(self, index: str, term: str) -> str:
        return rf"\sum_{{{index}}} {term}"

    def fraction(self, top: str, bottom: str) -> str:
        return rf"\frac{{{top}}}{{{bottom}}}"

    def word(self, text: str) -> str:
        return r"\infty" if text == "inf" else rf"\mathrm{{{text}}}"

    def under(self, operation: str, index: str) -> str:
        return rf"\{operation}_{{{index}}}"

    def separated(self, *clauses: str) -> str:
        return r",\quad ".join(clauses)


TEXT: Notation = _Text()
LATEX: Notation = _Latex()


# --- JSON --------------------------------------------------------------------------------------
_FORMAT = 1


def to_json(node: Node, *, indent: int | None = None) -> str:
    """The declaration as JSON text; `from_json` reads it back unchanged.

    Examples
    --------
    >>> import ucm
    >>> U = ucm.ReducedHull(ucm.pos, nu=0.3) - ucm.ReducedHull(ucm.neg, nu=0.3)
    >>> ucm.from_json(ucm.to_json(U)) == U
    True
    """
    if not isinstance(node, Node):
        raise CompositionError(f"to_json: expected a declaration, got {type(node).__name__}")
    return json.dumps({"ucm": _FORMAT, "model": _encode(node)}, indent=indent, allow_nan=False)


def from_json(text: str) -> Node:
    """The declaration that `to_json` wrote. Nothing in the text is executed: a node is rebuilt
    only by the class registered under its name, which checks its fields as it does when written.

    Raises
    ------
    CompositionError
        The text is no JSON, or no declaration of this library.
    """
    try:
        document = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise CompositionError(f"from_json: not JSON text ({error})") from error
    if not isinstance(document, dict) or document.get("ucm") != _FORMAT or "model" not in document:
        raise CompositionError(
            f'from_json: expected {{"ucm": {_FORMAT}, "model": ...}}; write the file with to_json'
        )
    try:
        node = _decode(document["model"])
    except UCMError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError) as error:
        raise CompositionError(f"from_json: malformed declaration ({error})") from error
    if not isinstance(node, Node):
        raise CompositionError(f"from_json: expected a declaration, got {type(node).__name__}")
    return node


def _encode(x: Any) -> Any:
    if isinstance(x, Node):
        names = [f.name for f in fields(x)]  # type: ignore[arg-type]
        return {"node": type(x).__name__, "fields": {n: _encode(getattr(x, n)) for n in names}}
    if isinstance(x, Param):
        return {"param": x.name, "value": _encode(x.value)}
    if isinstance(x, tuple):
        return {"tuple": [_encode(item) for item in x]}
    if sparse.issparse(x):
        return {
            "csr": list(x.shape),
            "data": x.data.tolist(),
            "indices": x.indices.tolist(),
            "indptr": x.indptr.tolist(),
        }
    if isinstance(x, np.ndarray):
        return {"array": x.tolist()}
    if isinstance(x, float) and math.isinf(x):
        return {"float": "inf" if x > 0 else "-inf"}
    return x


def _decode(x: Any) -> Any:
    if not isinstance(x, dict):
        if isinstance(x, list):
            raise CompositionError("from_json: a bare list stands where a declaration should")
        return x
    if "node" in x:
        cls = _REGISTRY.get(x["node"])
        if cls is None or getattr(cls, "__abstractmethods__", None):
            raise CompositionError(
                f"from_json: no declaration is named {x['node']!r}; import the module that defines it"
            )
        return cls(**{name: _decode(item) for name, item in x["fields"].items()})
    if "param" in x:
        return Param(x["param"], _decode(x["value"]))
    if "tuple" in x:
        return tuple(_decode(item) for item in x["tuple"])
    if "csr" in x:
        return sparse.csr_matrix((x["data"], x["indices"], x["indptr"]), shape=tuple(x["csr"]))
    if "array" in x:
        return np.array(x["array"], dtype=np.float64)
    if "float" in x:
        return float(x["float"])
    raise CompositionError(f"from_json: unknown entry {sorted(x)}")
