"""Results in notebooks and reports: data frames, and HTML tables without a style sheet, script or colours.

The tables inherit font and colours from the page, so that they suit light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from numbers import Integral, Real
from typing import Any

from ucm.errors import missing_extra

_CELL = "padding:.15em .8em .15em 0;vertical-align:top;text-align:"
_RULE = "border-bottom:1px solid currentColor;"


class Raw(str):
    """Text that is already HTML."""


def shown(x: object) -> str:
    """Return an entry as HTML: a number with six digits, `yes` or `no`, a dash for None, or its text."""
    if isinstance(x, Raw):
        return x
    if x is None:
        return "–"
    if str(x) in ("True", "False"):  # of NumPy too
        return "yes" if x else "no"
    if isinstance(x, Real) and not isinstance(x, Integral):
        return "–" if math.isnan(x) else escape(f"{x:.6g}".replace("-", "−").replace("inf", "∞"))
    return escape(str(x))


def table(rows: Iterable[Iterable[object]], head: Iterable[str] = (), marks: Iterable[str] = ()) -> Raw:
    """Return rows as an HTML table; `head` names the columns, `marks` are "", "bold" or "grey"."""
    styles = {"bold": "font-weight:bold", "grey": "opacity:.65"}
    body = [list(row) for row in rows]
    each = [styles.get(mark, "") for mark in marks] or [""] * len(body)
    top = "".join(f"<th style='{_RULE}{_CELL}left'>{escape(name)}</th>" for name in head)
    lines = [f"<tr>{top}</tr>"] if top else []
    for row, style in zip(body, each, strict=True):
        sides = ("right" if isinstance(x, Real) and not isinstance(x, bool) else "left" for x in row)
        cells = "".join(
            f"<td style='{_CELL}{side}'>{shown(x)}</td>" for side, x in zip(sides, row, strict=True)
        )
        lines.append(f"<tr style='background:none;{style}'>{cells}</tr>")
    return Raw(f"<table style='border-collapse:collapse;margin:.4em 0'>{''.join(lines)}</table>")


def sheet(title: str, facts: Mapping[str, object], *more: object) -> Raw:
    """Return a title, a table of named facts, without those that are None, and further paragraphs as HTML."""
    rows = [
        (Raw(f"<span style='opacity:.65'>{escape(name)}</span>"), Raw(shown(x)))
        for name, x in facts.items()
        if x is not None
    ]
    paragraphs = [x if isinstance(x, Raw) else f"<div>{escape(str(x))}</div>" for x in more if x]
    return Raw(
        f"<div class='ucm' style='margin:.4em 0'><strong>{escape(title)}</strong>"
        f"{table(rows) if rows else ''}{''.join(paragraphs)}</div>"
    )


def digits(relative: float) -> int | None:
    """Return the number of decimal digits proven by a relative error, at most 15; None from 1 on."""
    if not relative < 1.0:  # NaN too
        return None
    return 15 if relative <= 1e-15 else math.floor(-math.log10(relative))


def frame(name: str, rows: Iterable[Mapping[str, object]]) -> Any:
    """Return rows as a `pandas.DataFrame`; raise `MissingExtraError` without pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise missing_extra(
            f"{name}.to_frame: expected pandas, which is not here (rows() needs none)", "plot"
        ) from error
    return pd.DataFrame(list(rows))
