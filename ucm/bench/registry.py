"""The catalogue of benchmarks: a file that ends with its `BENCHMARK`, and its line here."""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ucm.errors import ParameterError

__all__ = ["Benchmark", "Part", "Row", "columns", "every", "get"]

_CATALOGUE = (
    "apg",
    "boundary",
    "clarabel",
    "dca",
    "dca_speed",
    "erch",
    "imports",
    "kernels",
    "memory",
    "npp",
    "projection",
    "psvm",
    "speed",
    "tables",
)

Row = dict[str, Any]
"""One line of the answer. `within` is True, False, or None where no figure is set."""

Part = Callable[..., Iterator[Row]]
"""What yields the rows; the options of its benchmark by name."""


def columns(*names: str) -> Callable[..., Row]:
    """The head of a table: a function that makes a row of these entries, and of further ones by name."""

    def row(*entries: Any, **more: Any) -> Row:
        return {**dict(zip(names, entries, strict=True)), **more}

    return row


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its name, what it measures, its parts, and what adds its options to a parser."""

    name: str
    what: str
    parts: Mapping[str, Part]
    arguments: Callable[[argparse.ArgumentParser], None] | None = None

    def rows(self, part: str | None = None, **options: Any) -> Iterator[Row]:
        """The rows of one part, or of all; what their solves warn of is in the rows."""
        if part is not None and part not in self.parts:
            known = ", ".join(self.parts)
            raise ParameterError(f"benchmark {self.name!r}: no part {part!r}; it has {known}")
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            for work in self.parts.values() if part is None else [self.parts[part]]:
                for row in work(**options):
                    yield {name: _plain(entry) for name, entry in row.items()}


def _plain(entry: Any) -> Any:
    """Python's own number instead of one of NumPy, whose False is not False."""
    return entry.item() if isinstance(entry, np.generic) else entry


@functools.cache
def every() -> tuple[Benchmark, ...]:
    """All of them. They load every solver and scikit-learn, so they are imported when asked for."""
    return tuple(import_module(f"ucm.bench.{module}").BENCHMARK for module in _CATALOGUE)


def get(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises
    ------
    ParameterError
        There is none.
    """
    known = {benchmark.name: benchmark for benchmark in every()}
    if name not in known:
        raise ParameterError(f"benchmark {name!r}: not known; known are {', '.join(known)}")
    return known[name]
