"""Serialisation of declarations to JSON and back."""

from __future__ import annotations

import functools
import importlib
import json
import math
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import language
from ucm.errors import VERSION, CompositionError, UCMError, brief
from ucm.language.node import REGISTRY, Node, registered_name

_FORMAT = 1
_LARGEST = np.iinfo(np.int32).max  # of an index
_Functions = Mapping[tuple[str, str], FunctionType]  # by module and name


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


def from_json(text: str, *, functions: Iterable[FunctionType] = ()) -> Node:
    """Return the declaration in a JSON text written by `to_json`.

    Nothing in the text is executed or imported: a node is built by the class registered under its name and
    module, which checks its fields.

    Parameters
    ----------
    text : str
        Text that `to_json` wrote.
    functions : iterable of functions, optional
        The functions that a `CvxpyDomain` in the text may have; no other one is taken.

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
            f'from_json: expected {{"ucm": {_FORMAT}, "model": ...}}, the format of version {VERSION}; '
            "write the file with to_json of this version"
        )
    try:
        node = _decode(document["model"], {(f.__module__, f.__qualname__): f for f in functions})
    except UCMError:
        raise
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError
    ) as error:  # fmt: skip
        raise CompositionError(
            f"from_json: malformed declaration ({error}); write the text with to_json"
        ) from error
    if not isinstance(node, Node):
        raise CompositionError(
            f"from_json: expected a declaration, got {type(node).__name__}; write the text with to_json"
        )
    return node


def _refuse_constant(word: str) -> NoReturn:
    raise CompositionError(f'from_json: {word} is no number of JSON; to_json writes {{"float": "inf"}}')


def _encode(x: object) -> object:
    """Return the JSON entry of a node or a field value."""
    match x:
        case Node():
            names = (name for name in x._names if name in x._compared or getattr(x, name))
            fields = {name: _encode(getattr(x, name)) for name in names}
            return {"node": registered_name(type(x)), "fields": fields}
        case tuple():
            return {"tuple": [_encode(item) for item in x]}
        case sparse.csr_matrix():
            parts = {name: getattr(x, name).tolist() for name in ("data", "indices", "indptr")}
            return {"csr": list(x.shape or ()), **parts}
        case np.ndarray():
            return {"array": x.tolist()}
        case FunctionType():
            if getattr(sys.modules.get(x.__module__), x.__qualname__, None) is not x:
                raise CompositionError(
                    f"to_json: expected a function of a module, got {brief(x)}; define it at the top of a "
                    "module"
                )
            return {"function": x.__qualname__, "module": x.__module__}
        case float() if math.isinf(x):
            return {"float": str(x)}
    return x


def _decode(x: object, known: _Functions) -> Any:
    """Return the value that a JSON entry encodes; the keys of the entry determine the type."""
    match x:
        case {"node": name, "fields": dict(entries), **more} if not more:
            return _node(name, entries, known)
        case {"function": str(name), "module": str(module), **more} if not more:
            return _function(name, module, known)
        case {"tuple": list(items), **more} if not more:
            return tuple(_decode(item, known) for item in items)
        case {"csr": list(shape), "data": data, "indices": indices, "indptr": indptr, **more} if not more:
            return _csr(shape, data, indices, indptr)
        case {"array": list(rows), **more} if not more:
            return _array(rows)
        case {"float": "inf" | "-inf" as infinite, **more} if not more:
            return float(infinite)
        case dict() | list():
            raise CompositionError(
                f"from_json: malformed declaration, got {brief(x)}; write the text with to_json"
            )
    return x


def _node(name: str, entries: dict, known: _Functions) -> Node:
    """Return a node from a class name and encoded fields; import the language if the name is unknown."""
    if name not in REGISTRY:
        _import_all()
    cls = REGISTRY.get(name)
    if cls is None or cls.__abstractmethods__:
        raise CompositionError(
            f"from_json: no declaration is named {brief(name)}; import the module that defines it"
        )
    unknown = [field for field in entries if field not in cls._names]
    if unknown:
        raise CompositionError(
            f"{cls.__name__}: no field is named {brief(unknown[0])}; it has {', '.join(cls._names) or 'none'}"
        )
    return cls(**{field: _decode(entry, known) for field, entry in entries.items()})


def _function(name: str, module: str, known: _Functions) -> FunctionType:
    """Return a function that the caller named; a text that chose one could have it called."""
    if (module, name) not in known:
        raise CompositionError(
            f"from_json: expected the functions that the text may name, got none for {brief(name)} of "
            f"{brief(module)}; if you trust it, write from_json(text, functions=[that function])"
        )
    return known[module, name]


def _array(rows: list) -> NDArray[np.float64]:
    """Return a float64 array of nested lists, whose entries must be int or float."""
    array = np.array(rows, dtype=np.float64)
    if not all(type(x) in (int, float) for x in np.array(rows, dtype=object).ravel()):
        raise CompositionError(
            f"from_json: expected an array of numbers, got {brief(rows)}; write the text with to_json"
        )
    return array


def _csr(shape: list[int], data: list[float], indices: list[int], indptr: list[int]) -> sparse.csr_matrix:
    """Return a CSR matrix from its parts, which `Node` checks further."""
    valid = all(type(k) is int and 0 <= k <= _LARGEST for k in (*shape, *indices, *indptr))
    if not valid or len(shape) != 2 or len(indptr) != shape[0] + 1:  # before a large array is made
        raise CompositionError(
            "from_json: expected whole numbers from 0 on in the shape, indices and row pointers of a sparse "
            f"matrix, one row pointer more than rows, got the shape {brief(shape)}; write it with "
            "to_json"
        )
    return sparse.csr_matrix((_array(data), indices, indptr), shape=tuple(shape))


@functools.cache
def _import_all() -> None:
    for module in pkgutil.walk_packages(language.__path__, f"{language.__name__}."):
        importlib.import_module(module.name)
