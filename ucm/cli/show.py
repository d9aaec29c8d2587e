"""Rows as a table, and as JSON."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ucm.language.notation import TEXT

__all__ = ["Row", "as_json", "cell", "console", "table"]

Row = dict[str, Any]
FORMATS = {"gap": ".1e", "accuracy": ".1%", "seconds": ".2g"}


def console(quiet: bool = False) -> Console:
    """Standard output; 100 columns wide where no terminal says how wide it is."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 100)


def table(rows: list[Row], title: str) -> Table:
    """A column for every name, in the order in which they come up."""
    shown = Table(
        title=f"\n{escape(title)}" if title else None,
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    columns = dict.fromkeys(name for row in rows for name in row)
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
