"""Rows as a table, as they come or all at once, and as JSON."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from ucm.bench.registry import COURSE, Cell, Row
from ucm.language.notation import TEXT

__all__ = [
    "Lines",
    "alike",
    "as_json",
    "as_they_come",
    "cell",
    "console",
    "kept",
    "line_by_line",
    "table",
]

FORMATS = {"here": ".5g", "gap": ".1e", "difference": ".1e", "accuracy": ".1%", "seconds": ".2g"}


def console(quiet: bool = False) -> Console:
    """Standard output; 100 columns wide where no terminal says how wide it is."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 100)


def table(rows: list[Row], title: str) -> Table:
    """A column for every name, in the order in which they come up, `within` at the end."""
    shown = Table(
        title=f"\n{escape(title)}" if title else None,
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    columns = dict.fromkeys(name for row in rows for name in row)
    columns = sorted(columns, key=lambda name: name == "within")
    for name in columns:
        numeric = any(isinstance(row.get(name), float | int) for row in rows)
        shown.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(cell(name, row.get(name)) for name in columns))
    return shown


def alike(rows: list[Row]) -> list[list[Row]]:
    """The rows in their order, in lists whose rows share most of their columns: a table each."""
    found: list[list[Row]] = []
    columns: set[str] = set()
    for row in rows:
        if not found or 2 * len(columns & row.keys()) <= len(row):
            found.append([])
            columns = set()
        found[-1].append(row)
        columns |= row.keys()
    return found


def cell(name: str, entry: Any) -> str:
    """An entry of the column of that name as text."""
    if entry is None:
        return ""
    if isinstance(entry, bool):
        return "yes" if entry else "NO"
    if isinstance(entry, dict):
        return ", ".join(f"{TEXT.symbol(name)}={value:.3g}" for name, value in entry.items())
    return (
        format(entry, FORMATS.get(name, ".4g")) if isinstance(entry, float) else escape(str(entry))
    )


class Lines:
    """Rows as they come, a line each, under a head for each part; what they say in words at its end."""

    def __init__(self, out: Console, cells: Callable[[str, Row], list[Cell]]) -> None:
        self.out, self.cells = out, cells
        self.part, self.heads = "", [""]
        self.words: list[str] = []

    def add(self, part: str, row: Row) -> None:
        """Prints a row, or keeps its words."""
        if part != self.part:
            self.end()
            self.part, self.heads = part, [""]
            self._print(f"\n{part}")
        if "summary" in row:
            self.words.append(str(row["summary"]))
            return
        cells = self.cells(part, row)
        heads = [cell.head for cell in cells]
        if heads != self.heads[: len(heads)]:
            self.heads = heads
            self._print("  ".join(_placed(cell.head, cell.width) for cell in cells))
        line = "  ".join(_placed(cell.text, cell.width) for cell in cells).rstrip()
        note = str(row.get("note") or "")
        if note and len(line) + 2 + len(note) > self.out.width:
            self._print(line)
            line = "   "
        self._print(f"{line}  {note}")

    def end(self) -> None:
        """Prints the words of a part."""
        for words in self.words:
            self._print(textwrap.fill(words, self.out.width))
        self.words = []

    def _print(self, text: str) -> None:
        self.out.print(text.rstrip(), markup=False, highlight=False, soft_wrap=True)


def _placed(text: str, width: int) -> str:
    return text.ljust(-width) if width < 0 else text.rjust(width)


def line_by_line(work: Iterable[Row], cells: Callable[[str, Row], list[Cell]], quiet: bool) -> None:
    """Prints the rows as they come."""
    lines = Lines(console(quiet), cells)
    try:
        for row in work:
            lines.add(COURSE.within, row)
    finally:
        lines.end()


def kept(work: Iterable[Row], rows: list[Row]) -> Iterator[Row]:
    """The rows, which also go to a list."""
    for row in work:
        rows.append(row)
        yield row


def as_they_come(work: Iterable[Row], title: str, quiet: bool) -> list[Row]:
    """All rows; the last of them stand on a terminal's standard error meanwhile, over a bar with an
    estimate of the rest. Nothing runs beside the work, whose seconds may be measured: both change with a
    row or a set. One that is interrupted leaves the rows so far."""
    rows: list[Row] = []
    errors = Console(stderr=True, quiet=quiet)
    began = time.perf_counter()
    try:
        with Live(console=errors, transient=True, auto_refresh=False) as live:

            def show() -> None:
                last = table((alike(rows) or [[]])[-1][-errors.height // 2 :], title)
                words = _course(time.perf_counter() - began)
                bar = ProgressBar(total=1.0, completed=COURSE.share, width=40)
                live.update(Group(last, bar, escape(words)), refresh=True)

            COURSE.told = show
            for row in work:
                rows.append(row)
                show()
    finally:
        COURSE.told = lambda: None
        if rows:
            first, *more = alike(rows)
            console(quiet).print(table(first, title), *(table(part, "") for part in more))
    return rows


def _course(seconds: float) -> str:
    """What is at work, how long it took so far, and what the rest takes when every set takes the same."""
    where = f"{COURSE.name}, {COURSE.done + 1} of {COURSE.sets}"
    if COURSE.parts > 1:
        where += f" in part {COURSE.part + 1} of {COURSE.parts}"
    if not 0.0 < COURSE.share < 1.0:
        return f"{where}; {seconds:.0f} s"
    left = seconds * (1.0 - COURSE.share) / COURSE.share
    return f"{where}; {seconds:.0f} s, about {left:.0f} s more"


def as_json(document: Any) -> str:
    """`document` in JSON's own types; NaN and infinities become null."""
    return json.dumps(_plain(document), indent=2, allow_nan=False)


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _plain(item) for name, item in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(item) for item in x]
    if isinstance(x, np.ndarray | np.generic):
        return _plain(x.tolist())
    return None if isinstance(x, float) and not math.isfinite(x) else x
