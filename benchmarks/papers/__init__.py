"""The tables and figures of the papers. What they print stands in the folder `printed`."""

from __future__ import annotations

import math
from pathlib import Path

__all__ = ["printed"]


def printed(paper: str) -> dict[str, dict[str, float]]:
    """Return the numbers that a paper prints, by set and column; NaN where it has none."""
    text = (Path(__file__).parent / "printed" / f"{paper}.txt").read_text(encoding="utf-8")
    (_, *names), *lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {
        name: {
            column: math.nan if cell == "-" else int(cell) if cell.isdigit() else float(cell)
            for column, cell in zip(names, cells, strict=True)
        }
        for name, *cells in lines
    }
