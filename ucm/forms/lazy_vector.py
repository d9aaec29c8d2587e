"""A vector that is computed at the first access to its entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

__all__ = ["LazyVector"]


class LazyVector(NDArrayOperatorsMixin):
    """A vector of known length whose entries are computed once, at the first access.

    It computes, compares and indexes like an array. A pickle holds the entries that are known by then, else
    only the length.
    """

    def __init__(self, size: int, make: Callable[[], Any] | None) -> None:
        self.size, self.shape, self.ndim = size, (size,), 1
        self._make, self._found = make, None

    @property
    def known(self) -> bool:
        """True if the entries are computed."""
        return self._found is not None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._found is None:
            if self._make is None:
                raise AttributeError("the rows of these weights were left out of the pickle")
            self._found, self._make = self._make(), None
        found = self._found if dtype is None else self._found.astype(dtype, copy=False)
        return found.copy() if copy else found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, LazyVector) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]

    def __repr__(self) -> str:
        return repr(self._found) if self.known else f"LazyVector(size={self.size})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_make": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
