"""Two saved runs side by side: every figure of our seconds and of our passes that both have."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ucm.bench.registry import Row
from ucm.bench.speed.options import Options
from ucm.errors import DataError, ParameterError

__all__ = ["compare"]

_FIGURES = (
    "own, s", "seconds", "ms", "ours, ms", "fit, ms", "fits", "us a model", "path, s", "one fit, s",
    "import, s", "passes", "path, passes", "one fit, passes",
)  # fmt: skip
_SHOWN = (
    "model",
    "pair",
    "terms",
    "folds",
    "call",
    "method",
    "disk cache",
    "lam",
)  # beside its set
_WHAT = ("set", *_SHOWN, "nu", "m")  # of a row
_SAME = 0.1  # of a figure: less is no difference, nor is less than what the runs spread


def compare(options: Options) -> Iterator[Row]:
    """The figures of both files, B over A, and their geometric means.

    Raises
    ------
    ParameterError
        There are not two files.
    DataError
        A file is none that `ucm bench speed --save` wrote.
    """
    if len(options.files) != 2:
        raise ParameterError(
            f"bench speed: expected two saved runs to compare, got {len(options.files)}; write "
            "ucm bench speed compare A.json B.json"
        )
    before, after = (_read(file) for file in options.files)
    ratios: dict[str, list[float]] = {}
    changed: dict[str, list[int]] = {}
    for key, row in after.items():
        old = before.get(key, {})
        for figure in _FIGURES:
            a, b = old.get(figure), row.get(figure)
            if not a or not b:
                continue
            ratio = b / a
            spread = max(
                old.get(f"spread of {figure}", 0.0) / a, row.get(f"spread of {figure}", 0.0) / b
            )
            differs = abs(ratio - 1.0) > max(_SAME, 2.0 * spread)
            ratios.setdefault(figure, []).append(ratio)
            changed.setdefault(figure, [0, 0])[ratio > 1.0] += differs
            named = {"set": row.get("set", ""), "method": _method(row)}
            yield {"part": key[0], **named, "figure": figure, "A": a, "B": b, "B/A": ratio}
    if not ratios:
        raise DataError(
            f"bench speed: expected runs with rows in common, got none in {options.files[0]} and "
            f"{options.files[1]}; run the same parts and sets"
        )
    for figure, found in ratios.items():
        mean, (less, more) = statistics.geometric_mean(found), changed[figure]
        words = (
            f"{figure}: B takes {mean:.3g} of A in geometric mean of {len(found)}; {less} fell and "
            f"{more} rose by more than {_SAME:.0%} and what the runs spread."
        )
        yield {"figure": figure, "B/A": mean, "summary": words}


def _method(row: Row) -> str:
    """What a row is of, beside its set."""
    known = [row[name] for name in _SHOWN if row.get(name) is not None]
    return " ".join(f"{x:g}" if isinstance(x, float) else str(x) for x in known)


def _read(file: str) -> dict[tuple[Any, ...], Row]:
    """The rows of a file, by what they are of."""
    try:
        rows = json.loads(Path(file).read_text(encoding="utf-8"))["rows"]
        return {_key(row): row for row in rows if "summary" not in row}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"bench speed: {file}: expected what ucm bench speed --save wrote, got {type(error).__name__}: "
            f"{error}; save the run anew"
        ) from error


def _key(row: Row) -> tuple[Any, ...]:
    return (row.get("part", ""), *(row.get(name) for name in _WHAT))
