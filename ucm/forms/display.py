"""Results in notebooks and reports: data frames, and HTML tables without a style sheet, script or colours.

The tables inherit font and colours from the page, so that they suit light and dark pages.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar, overload

from ucm.errors import missing_extra

_CELL = "padding:.15em .8em .15em 0;vertical-align:top;text-align:"
_RULE = "border-bottom:1px solid currentColor;"


Item = TypeVar("Item", covariant=True)


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


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Return rows of text as lines with columns of equal width, the columns `right` flushed right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [">" if k in right else "<" for k in range(len(widths))]
    return [
        "  ".join(f"{x:{side}{n}}" for x, side, n in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]


class Report(Sequence[Item]):
    """A sequence of results with a row of numbers and text for each; `_listed` names their attribute."""

    _listed: ClassVar[str]

    def __len__(self) -> int:
        return len(getattr(self, self._listed))

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return getattr(self, self._listed)[index]

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each result, with plain numbers and text."""

    def to_frame(self) -> Any:
        """Return `rows()` as a `pandas.DataFrame`.

        Raises
        ------
        MissingExtraError
            pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            name = type(self).__name__
            raise missing_extra(
                f"{name}.to_frame: expected pandas, which is not here (rows() needs none)", "plot"
            ) from error
        return pd.DataFrame(self.rows())
