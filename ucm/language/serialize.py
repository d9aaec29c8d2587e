"""Declarations to JSON and back."""

from __future__ import annotations

import functools
import importlib
import json
import math
import pkgutil
import sys
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
    """Return a declaration as JSON text, which `from_json` reads.

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
    """Return the declaration of a JSON text written by `to_json`.

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
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
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
        if _function(x.__module__, x.__qualname__) is not x:
            raise CompositionError(
                f"to_json: expected a function of a module, got {x.__qualname__} of {x.__module__}; define "
                "it at the top of a module"
            )
        return {"function": x.__qualname__, "module": x.__module__}
    if isinstance(x, float) and math.isinf(x):
        return {"float": "inf" if x > 0 else "-inf"}
    return x


def _decode(x: Any) -> Any:
    if not isinstance(x, dict):
        if isinstance(x, list):
            raise CompositionError(
                "from_json: a bare list stands where a declaration should; write the text with to_json"
            )
        return x
    if "node" in x:
        name, given = _entry(x, node=str, fields=dict)
        cls = registered(name) or _sought(name)
        if cls is None or getattr(cls, "__abstractmethods__", None):
            raise CompositionError(
                f"from_json: no declaration is named {brief(name)}; import the module that defines it"
            )
        unknown = [field for field in given if field not in cls._names]
        if unknown:
            raise CompositionError(
                f"{cls.__name__}: no field is named {brief(unknown[0])}; it has "
                f"{', '.join(cls._names) or 'none'}"
            )
        return cls(**{field: _decode(item) for field, item in given.items()})
    if "function" in x:
        name, module = _entry(x, function=str, module=str)
        found = _function(module, name)
        if found is None:
            raise CompositionError(
                f"from_json: no function is named {brief(name)} in the module {brief(module)}, or that is "
                "not imported; import the module that defines it"
            )
        return found
    if "tuple" in x:
        (items,) = _entry(x, tuple=list)
        return tuple(_decode(item) for item in items)
    if "csr" in x:
        return _csr(*_entry(x, csr=list, data=list, indices=list, indptr=list))
    if "array" in x:
        (rows,) = _entry(x, array=list)
        return _numbers(rows)
    if "float" in x and x["float"] in _INFINITE:
        return _INFINITE[x["float"]]
    raise CompositionError(f"from_json: unknown entry {brief(sorted(x))}; write the text with to_json")


def _function(module: str, name: str) -> FunctionType | None:
    """The function of a module that is imported already; nothing is imported or called."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, FunctionType) and found.__module__ == module else None


def _entry(x: dict[str, Any], **kinds: type) -> list[Any]:
    """The parts of an entry; refuses others than these, and parts of another kind."""
    if set(x) != set(kinds) or not all(isinstance(x[name], kind) for name, kind in kinds.items()):
        words = ", ".join(f"{name}: {kind.__name__}" for name, kind in kinds.items())
        raise CompositionError(
            f"from_json: expected an entry {{{words}}}, got {brief(x)}; write the text with to_json"
        )
    return [x[name] for name in kinds]


def _numbers(rows: list[Any]) -> Any:
    """An array of numbers, and of nothing that reads as one."""
    array = np.array(rows, dtype=np.float64)
    each: list[Any] = rows
    for _ in array.shape[1:]:
        each = [item for row in each for item in row]
    if not all(type(item) in (int, float) for item in each):
        raise CompositionError(
            f"from_json: expected an array of numbers, got {brief(rows)}; write the text with to_json"
        )
    return array


def _csr(shape: list[Any], data: list[Any], indices: list[Any], indptr: list[Any]) -> Any:
    """A CSR matrix, whose parts `Node` holds against each other."""
    if len(shape) != 2 or not _whole(shape) or not _whole(indices) or not _whole(indptr):
        raise CompositionError(
            "from_json: the shape (2 numbers), indices and indptr of a sparse matrix are whole numbers "
            f"from 0 to {_LARGEST}, got the shape {brief(shape)}; write the text with to_json"
        )
    if len(indptr) != shape[0] + 1:  # before anything of that size is made
        raise CompositionError(
            f"from_json: a sparse matrix with {shape[0]} rows and {len(indptr)} row pointers; "
            "expected one more than rows"
        )
    return sparse.csr_matrix((_numbers(data), indices, indptr), shape=tuple(shape))


def _whole(numbers: list[Any]) -> bool:
    return all(type(k) is int and 0 <= k <= _LARGEST for k in numbers)


def _sought(name: str) -> type[Node] | None:
    """The class of that name, once every module of the language has been imported: that registers it."""
    _import_all()
    return registered(name)


@functools.cache
def _import_all() -> None:
    for module in pkgutil.walk_packages(language.__path__, f"{language.__name__}."):
        importlib.import_module(module.name)
