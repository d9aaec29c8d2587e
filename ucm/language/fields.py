"""What a field of a declaration may hold: its annotation, read at run time."""

from __future__ import annotations

import functools
import types
from collections.abc import Collection
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from ucm.errors import CompositionError, brief
from ucm.language.node import Node

__all__ = ["check_fields"]


def check_fields(cls: type[Node], given: dict[str, Any]) -> None:
    """Refuse what is no field of a class, a field that is missing, or one of another type than the class
    declares.

    Raises
    ------
    CompositionError
    """
    unknown = [name for name in given if name not in cls._names]
    if unknown:
        raise CompositionError(
            f"{cls.__name__}: no field is named {brief(unknown[0])}; it has "
            f"{', '.join(cls._names) or 'none'}"
        )
    hints = _hints(cls)
    for name, x in given.items():
        hint = hints.get(name, Any)
        loose = name in cls._converters and _is_array(x)  # the converter judges it
        if not (loose or _admits(hint, x)):
            shown = hint.__name__ if isinstance(hint, type) else hint
            raise CompositionError(
                f"{cls.__name__}: {name}: expected {shown}, got {brief(x)}; give one"
            )


@functools.cache
def _hints(cls: type[Node]) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except NameError:  # a class of one's own, in words that only its type checker knows
        return {}


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray | float | int) or sparse.issparse(x)


def _admits(hint: Any, x: Any) -> bool:
    """Whether a value is of an annotated type; an annotation that says nothing here admits everything."""
    origin, words = get_origin(hint), get_args(hint)
    if hint in (float, int):  # a number is kept as a float
        return isinstance(x, float | int) and not isinstance(x, bool)
    if hint is Any:
        return True
    if hint is None:
        return x is None
    if isinstance(hint, type) and origin is None:
        return isinstance(x, hint)
    if origin in (Union, types.UnionType):
        return any(_admits(word, x) for word in words)
    if origin is Literal:
        return x in words
    if origin is tuple:
        if not isinstance(x, tuple):
            return False
        if words[1:] == (...,):
            return all(_admits(words[0], item) for item in x)
        return len(x) == len(words) and all(map(_admits, words, x))
    if isinstance(origin, type) and issubclass(origin, Collection):
        return isinstance(x, origin) or _is_array(x)  # a list is kept as an array
    return isinstance(x, origin) if isinstance(origin, type) else True
