"""The catalogue of benchmarks: a file that ends with its `BENCHMARK`, and its line here."""

from __future__ import annotations

import argparse
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from ucm.errors import ParameterError

__all__ = ["COURSE", "Benchmark", "Cell", "Course", "Part", "Row", "columns", "every", "get"]

_CATALOGUE = (
    "apg",
    "boundary",
    "clarabel",
    "compare",
    "dca",
    "dca_speed",
    "default",
    "erch",
    "imports",
    "kernels",
    "memory",
    "npp",
    "projection",
    "psvm",
    "scale",
    "speed",
    "tables",
)

T = TypeVar("T")
Row = dict[str, Any]
"""One line of the answer. `within` is True, False, or None where no figure is set."""


class Cell(NamedTuple):
    """An entry of a line: the head of its column, how wide that is, negative to the left, and the text."""

    head: str
    width: int
    text: str


Part = Callable[..., Iterator[Row]]
"""What yields the rows; the options of its benchmark by name."""


def columns(*names: str) -> Callable[..., Row]:
    """The head of a table: a function that makes a row of these entries, and of further ones by name."""

    def row(*entries: Any, **more: Any) -> Row:
        return {**dict(zip(names, entries, strict=True)), **more}

    return row


@dataclass
class Course:
    """How far the benchmark at work is, and whether it is to be quick.

    Attributes
    ----------
    quick : only the first sets of every part, and few repeats
    parts, part : how many, and those that are done
    within : the part at work
    sets, done, name : of this part: how many, those that are done, the one at work
    told : called after every change
    """

    quick: bool = False
    parts: int = 1
    part: int = 0
    within: str = ""
    sets: int = 1
    done: int = 0
    name: str = ""
    told: Callable[[], object] = lambda: None

    FEW: ClassVar[int] = 2

    @property
    def share(self) -> float:
        """The part that is done, every set for the same."""
        return (self.part + self.done / self.sets) / self.parts

    def over(self, names: Iterable[T]) -> Iterator[T]:
        """The names one by one, the first two where it is quick."""
        chosen = list(names)[: self.FEW if self.quick else None]
        for k, name in enumerate(chosen):
            self._is(len(chosen), k, str(name))
            yield name

    def repeats(self, whole: int) -> int:
        """How often to repeat something."""
        return min(whole, self.FEW) if self.quick else whole

    def begin(self, part: int, parts: int, name: str) -> None:
        self.part, self.parts, self.within = part, parts, name
        self._is(1, 0, name)

    def _is(self, sets: int, done: int, name: str) -> None:
        self.sets, self.done, self.name = max(sets, 1), done, name
        self.told()


COURSE = Course()
"""That of the one benchmark at work."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes
    ----------
    name, what : its name, and what it measures
    parts : each yields rows
    arguments : adds its options to a parser
    printed : the cells of a row of a part, printed as it comes; None: all rows in one table at the end
    by_name : parts that run only where they are asked for
    """

    name: str
    what: str
    parts: Mapping[str, Part]
    arguments: Callable[[argparse.ArgumentParser], None] | None = None
    printed: Callable[[str, Row], list[Cell]] | None = None
    by_name: tuple[str, ...] = ()

    def rows(self, part: str | None = None, quick: bool = False, **options: Any) -> Iterator[Row]:
        """The rows of one part, or of all; what their solves warn of is in the rows. `quick`: of the first
        sets, with few repeats."""
        if part is not None and part not in self.parts:
            known = ", ".join(self.parts)
            raise ParameterError(f"benchmark {self.name!r}: no part {part!r}; it has {known}")
        works = {
            name: work
            for name, work in self.parts.items()
            if name == part or (part is None and name not in self.by_name)
        }
        COURSE.quick = quick
        try:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                for k, (name, work) in enumerate(works.items()):
                    COURSE.begin(k, len(works), name)
                    own = {"quick": quick} if "quick" in inspect.signature(work).parameters else {}
                    for row in work(**options, **own):
                        plain = {name: _plain(entry) for name, entry in row.items()}
                        yield {"part": COURSE.within, **plain} if self.printed else plain
        finally:
            COURSE.quick = False


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
