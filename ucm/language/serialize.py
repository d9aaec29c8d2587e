"""Serialisation of declarations to JSON and back."""

from __future__ import annotations

import functools
import importlib
import json
import math
import pkgutil
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from scipy import sparse

from ucm import language
from ucm.errors import CompositionError, UCMError, brief
from ucm.language.node import Node, registered

_FORMAT = 1
_LARGEST = np.iinfo(np.int32).max  # of an index
_INFINITE = {"inf": math.inf, "-inf": -math.inf}


def to_json(node: Node, *, indent: int | None = None) -> str:
    """Return a declaration as JSON text for `from_json`.

    Parameters
    ----------
    node : Node
        The declaration.
    indent : int, optional
        Spaces of each level; None for one line.

    Examples
    --------
    >>> import ucm
    >>> U = ucm.ReducedHull(ucm.pos, nu=0.3) - ucm.ReducedHull(ucm.neg, nu=0.3)
    >>> ucm.from_json(ucm.to_json(U)) == U
    True
    """
    if not isinstance(node, Node):
        raise CompositionError(
            f"to_json: expected a declaration, got {type(node).__name__}; give a set, a loss or an objective"
        )
    return json.dumps({"ucm": _FORMAT, "model": _encode(node)}, indent=indent, allow_nan=False)


def from_json(text: str) -> Node:
    """Return the declaration in a JSON text written by `to_json`.

    Nothing in the text is executed: a node is built by the class registered under its name, which checks its
    fields.

    Parameters
    ----------
    text : str
        Text that `to_json` wrote.

    Raises
    ------
    CompositionError
        The text is no JSON, or not that of a declaration.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (TypeError, ValueError, RecursionError) as error:
        raise CompositionError(f"from_json: not JSON text ({error}); write it with to_json") from error
    if not isinstance(document, dict) or document.get("ucm") != _FORMAT or "model" not in document:
        raise CompositionError(
            f'from_json: expected {{"ucm": {_FORMAT}, "model": ...}}; write the file with to_json'
        )
    try:
        node = _decode(document["model"])
    except UCMError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise CompositionError(
            f"from_json: malformed declaration ({error}); write the text with to_json"
        ) from error
    if not isinstance(node, Node):
        raise CompositionError(
            f"from_json: expected a declaration, got {type(node).__name__}; write the text with to_json"
        )
    return node


def _refuse_constant(word: str) -> Any:
    raise CompositionError(f'from_json: {word} is no number of JSON; to_json writes {{"float": "inf"}}')


def _encode(x: Any) -> Any:
    """Return the JSON entry of a node or a field value."""
    if isinstance(x, Node):
        names = (name for name in x._names if name in x._compared or getattr(x, name))
        return {
            "node": type(x).__name__,
            "fields": {name: _encode(getattr(x, name)) for name in names},
        }
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
    if isinstance(x, FunctionType):
        _function(x.__qualname__, x.__module__)
        return {"function": x.__qualname__, "module": x.__module__}
    if isinstance(x, float) and math.isinf(x):
        return {"float": "inf" if x > 0 else "-inf"}
    return x


def _decode(x: Any) -> Any:
    """Return the value that a JSON entry encodes; the keys of the entry determine the type."""
    if not isinstance(x, dict | list):
        return x
    for keys, build in _ENTRIES.items():
        if isinstance(x, dict) and keys[0] in x:
            if set(x) == set(keys):
                return build(*(x[key] for key in keys))
            break
    raise CompositionError(
        f"from_json: expected an entry that to_json writes, got {brief(x)}; write the text with to_json"
    )


def _node(name: str, entries: dict) -> Node:
    """Return a node from a class name and encoded fields, importing the language if the name is unknown."""
    cls = registered(name)
    if cls is None:
        _import_all()
        cls = registered(name)
    if cls is None or cls.__abstractmethods__:
        raise CompositionError(
            f"from_json: no declaration is named {brief(name)}; import the module that defines it"
        )
    unknown = [field for field in entries if field not in cls._names]
    if unknown:
        raise CompositionError(
            f"{cls.__name__}: no field is named {brief(unknown[0])}; it has {', '.join(cls._names) or 'none'}"
        )
    return cls(**{field: _decode(entry) for field, entry in entries.items()})


def _function(name: str, module: str) -> FunctionType:
    """Return a function of an already imported module, without any import or call."""
    function = getattr(sys.modules.get(module), name, None)
    if not isinstance(function, FunctionType) or function.__module__ != module:
        raise CompositionError(
            f"expected a function of an imported module, got {brief(name)} of {brief(module)}; define it at "
            "the top of a module, and import that"
        )
    return function


def _array(rows: list) -> Any:
    """Return a float64 array of nested lists, whose entries must be int or float."""
    array = np.array(rows, dtype=np.float64)
    if not all(type(x) in (int, float) for x in np.array(rows, dtype=object).ravel()):
        raise CompositionError(
            f"from_json: expected an array of numbers, got {brief(rows)}; write the text with to_json"
        )
    return array


def _csr(shape: list[int], data: list[float], indices: list[int], indptr: list[int]) -> Any:
    """Return a CSR matrix from its parts; refuse indices that are not whole numbers from 0 on.

    `Node` checks that the parts fit each other.
    """
    valid = all(type(k) is int and 0 <= k <= _LARGEST for k in (*shape, *indices, *indptr))
    if not valid or len(shape) != 2 or len(indptr) != shape[0] + 1:  # before a large array is made
        raise CompositionError(
            "from_json: expected whole numbers from 0 on in the shape, indices and row pointers of a sparse "
            f"matrix, one row pointer more than rows, got the shape {brief(shape)}; write it with "
            "to_json"
        )
    return sparse.csr_matrix((_array(data), indices, indptr), shape=tuple(shape))


_ENTRIES: dict[tuple[str, ...], Callable[..., Any]] = {
    ("node", "fields"): _node,
    ("function", "module"): _function,
    ("tuple",): lambda items: tuple(_decode(item) for item in items),
    ("csr", "data", "indices", "indptr"): _csr,
    ("array",): _array,
    ("float",): _INFINITE.__getitem__,
}


@functools.cache
def _import_all() -> None:
    for module in pkgutil.walk_packages(language.__path__, f"{language.__name__}."):
        importlib.import_module(module.name)
