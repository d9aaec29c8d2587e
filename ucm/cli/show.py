"""Rows as a table of the terminal, and as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ucm.language.notation import TEXT

_FORMATS = {"gap": ".1e", "accuracy": ".1%", "seconds": ".2g"}


def console(quiet: bool = False) -> Console:
    """Return standard output, 100 columns wide unless it is a terminal."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 100)


def say(out: Console, text: str) -> None:
    """Print a text as it is, without rich's markup."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the present step on standard error.

    On a terminal the text stands beside a spinner; elsewhere each step is a line.
    """
    errors = Console(stderr=True, quiet=quiet)
    if not errors.is_terminal:
        yield lambda text: say(errors, text)
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text: bar.update(task, description=text, refresh=True)


def table(rows: list[dict[str, Any]], title: str = "") -> Table:
    """Return a table with a column for every name, in the order of their occurrence."""
    shown = Table(
        title=f"\n{escape(title)}" if title else None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    names = list(dict.fromkeys(name for row in rows for name in row))
    for name in names:
        numeric = any(isinstance(row.get(name), float | int) for row in rows)
        shown.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(escape(cell(name, row.get(name))) for name in names))
    return shown


def cell(name: Any, entry: Any) -> str:
    """Return an entry of the column of that name as text."""
    if entry is None:
        return ""
    if isinstance(entry, bool):
        return "yes" if entry else "NO"
    if isinstance(entry, dict):
        return ", ".join(f"{TEXT.symbol(name)}={value:.3g}" for name, value in entry.items())
    return format(entry, _FORMATS.get(name, ".4g")) if isinstance(entry, float) else str(entry)


def as_json(document: Any) -> str:
    """Return a document as JSON; NaN and infinities become null."""
    return json.dumps(_plain(document), indent=2, allow_nan=False)


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _plain(item) for name, item in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(item) for item in x]
    if isinstance(x, np.ndarray | np.generic):
        return _plain(x.tolist())
    return None if isinstance(x, float) and not math.isfinite(x) else x
