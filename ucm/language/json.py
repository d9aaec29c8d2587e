"""Declarations to JSON and back."""

from __future__ import annotations

import functools
import importlib
import json
import math
import pkgutil
from dataclasses import fields
from typing import Any

import numpy as np
from scipy import sparse

from ucm import language
from ucm.errors import CompositionError, UCMError
from ucm.language.node import Node, registered
from ucm.language.parameter import Derived, Param

__all__ = ["from_json", "to_json"]

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
    if isinstance(x, Derived):
        return {"operation": x.operation, "of": [_encode(x.left), _encode(x.right)]}
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
        cls = registered(x["node"]) or _sought(x["node"])
        if cls is None or getattr(cls, "__abstractmethods__", None):
            raise CompositionError(
                f"from_json: no declaration is named {x['node']!r}; import the module that defines it"
            )
        return cls(**{name: _decode(item) for name, item in x["fields"].items()})
    if "param" in x:
        return Param(x["param"], _decode(x["value"]))
    if "operation" in x:
        left, right = map(_decode, x["of"])
        return Derived(x["operation"], left, right)
    if "tuple" in x:
        return tuple(_decode(item) for item in x["tuple"])
    if "csr" in x:
        return sparse.csr_matrix((x["data"], x["indices"], x["indptr"]), shape=tuple(x["csr"]))
    if "array" in x:
        return np.array(x["array"], dtype=np.float64)
    if "float" in x:
        return float(x["float"])
    raise CompositionError(f"from_json: unknown entry {sorted(x)}")


def _sought(name: str) -> type[Node] | None:
    """The class of that name, once every module of the language has been imported: that registers it."""
    _import_all()
    return registered(name)


@functools.cache
def _import_all() -> None:
    for module in pkgutil.walk_packages(language.__path__, f"{language.__name__}."):
        importlib.import_module(module.name)
