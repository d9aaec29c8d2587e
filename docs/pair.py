"""The lectures as notebooks: `python docs/pair.py` writes the `.ipynb` beside every `docs/lectures/*.py`.

The source is py:percent, as jupytext reads it: a cell begins at `# %%`, one of text at `# %% [markdown]`.
Notebooks have no outputs; the site runs them.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

LECTURES = Path(__file__).resolve().parent / "lectures"
_HEAD = re.compile(r"# %%(?P<text> \[markdown\])?(?: tags=(?P<tags>\[.*\]))?\s*")


def notebook(source: str) -> dict[str, Any]:
    """The notebook of a py:percent source."""
    cells: list[dict[str, Any]] = []
    lines: list[str] = []
    for line in source.splitlines():
        head = _HEAD.fullmatch(line)
        if head is None:
            lines.append(line)
            continue
        lines = []
        tags = ast.literal_eval(head["tags"]) if head["tags"] else []
        cells.append({"text": head["text"] is not None, "tags": tags, "lines": lines})
    return {
        "cells": [_cell(**cell) for cell in cells],
        "metadata": {
            "jupytext": {"formats": "ipynb,py:percent"},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 4,
    }


def _cell(text: bool, tags: list[str], lines: list[str]) -> dict[str, Any]:
    if text:
        lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
    body = "\n".join(lines).strip("\n").splitlines(keepends=True)
    cell: dict[str, Any] = {
        "cell_type": "markdown" if text else "code",
        "metadata": {"tags": tags} if tags else {},
        "source": body,
    }
    return cell if text else {**cell, "execution_count": None, "outputs": []}


def text_of(source: str) -> str:
    """The file of that notebook."""
    return json.dumps(notebook(source), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for lecture in sorted(LECTURES.glob("[0-9]*.py")):
        written = text_of(lecture.read_text(encoding="utf-8"))
        lecture.with_suffix(".ipynb").write_text(written, encoding="utf-8")
