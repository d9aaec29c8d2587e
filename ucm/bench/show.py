"""Rows as a table, as they come or all at once, and as JSON."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from ucm.bench.registry import COURSE, Row
from ucm.language.notation import TEXT

__all__ = ["as_json", "as_they_come", "cell", "console", "table"]

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
                last = table(rows[-errors.height // 2 :], title)
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
            console(quiet).print(table(rows, title))
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
