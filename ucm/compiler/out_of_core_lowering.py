"""Common base of the lowerings over samples read block by block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ucm.compiler.lowering import ExternalAnswer, Lowering
from ucm.data.first_pass import RowData, refuse_gathering
from ucm.data.linear_map import Vec
from ucm.data.source import RowSource, given_rows, spread
from ucm.errors import ParameterError
from ucm.forms.answer import Answer
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solution import Certificate, Solution
from ucm.language.node import Node
from ucm.language.statistics.samples import Samples

_WRITTEN = 1000  # rows in a reference problem without an active set

Form = TypeVar("Form", bound=OutOfCoreForm)


class OutOfCoreLowering(Lowering[Form]):
    """Base class of the lowerings over samples read block by block.

    Attributes
    ----------
    rows : the statistics of the samples
    """

    rows: RowData

    @abstractmethod
    def describe_form(self) -> str:
        """Return the description of the form, for a line of `explain()`."""

    def describe(self) -> dict[str, str]:
        rows = self.rows
        return {
            "data": f"{self.describe_data()}; {rows.source!r}",
            "form": self.describe_form(),
            "cost": f"1 pass reads every block of rows once, {2 * rows.stored:,} operations",
        }

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        refuse_gathering(self.rows.source, "a certificate of an answer from elsewhere")

    def lazily(self, weights: Callable[[], Vec]) -> Any:
        """Return the weights of all rows as a `LazyVector`, computed at the first access."""
        return lazy_weights(self.rows.source, weights)

    def written(self, found: Any) -> tuple[Any, Vec, Vec, float]:
        """Return X, y (labels times sample weights), weights and gain of the rows in a reference problem.

        The rows are the active set, or some rows of the sample. All other rows keep their weights.
        """
        X, y = self.rows.sample
        step = -(-y.size // _WRITTEN)
        return found.rows.written((X[::step], y[::step]))


def groups_in(model: Node) -> tuple[tuple[str, Any], ...]:
    """Return the distinct (kind, label) pairs of the groups that a model names."""
    parts = (x.part for x in model.walk() if isinstance(x, Samples) and x.label is not None)
    return tuple(dict.fromkeys(parts))


class LazyVector(NDArrayOperatorsMixin):
    """A vector of known length whose entries are computed at the first access, and kept.

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
        values = self._found if dtype is None else self._found.astype(dtype, copy=False)
        return values.copy() if copy else values

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

    def __getstate__(self) -> dict:
        return {**vars(self), "_make": None}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)


def lazy_weights(source: RowSource, weights: Callable[[], Vec]) -> Any:
    """Return the weights of all given rows as a `LazyVector`, 0 for rows of sample weight 0."""
    return LazyVector(given_rows(source), partial(spread, source, weights))


def answer_of(solution: Solution | None) -> Answer:
    """Return the answer of a solution over rows, with the sums of its last pass.

    Raises
    ------
    ParameterError
        There are none.
    """
    answer = None if solution is None else solution.answer
    if answer is None or answer.rows is None or answer.rows.points is None:
        raise ParameterError(
            "reference: over rows that are read block by block the program holds some rows, and the others "
            "keep their weights in a solution; give one, reference(solution)"
        )
    return answer
