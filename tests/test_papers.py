"""docs/papers.md: every numbered item of the papers has a line, and every name and command in it exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ucm
from ucm import bench

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "papers.md").read_text(encoding="utf-8")
STATES = ("yes", "in part", "not yet", "not held", "step")


def numbers(words: str) -> set[int]:
    """ "1 3-5" as {1, 3, 4, 5}."""
    spans = [word.partition("-") for word in words.split()]
    return {k for low, _, high in spans for k in range(int(low), int(high or low) + 1)}


# the author, and the numbers that the paper gives to its equations and other items
PAPERS: dict[str, dict[str, str]] = {
    "Ito": {
        "": "1-50", "Theorem": "1", "Lemma": "1-5", "Remark": "1", "Definition": "1-2", "Proposition": "1-4",
        "Example": "1-5", "Algorithm": "1-3", "Table": "1-9", "Figure": "1-11",
    },
    "Barbero": {
        "": "1-32", "Proposition": "1-2 18", "Lemma": "3 7 16-17 19", "Definition": "4 11 13-15 21",
        "Remark": "5", "Theorem": "6 8 10 12 20", "Corollary": "9", "Algorithm": "1-2", "Table": "1-3",
        "Figure": "1-11",
    },
    "Lopez": {"": "1-19", "Table": "1-3", "Figure": "1-2"},
    "Ong": {"": "1-33", "A.": "1-5", "Algorithm": "1-4", "Table": "1-2", "Table A": "1-2", "Figure": "1-15"},
    "Sun": {
        "": "1-22", "Theorem": "1-3", "Corollary": "1", "Lemma": "1-2", "Definition": "1-3", "Algorithm": "1",
        "Table": "1-3", "Figure": "1-3",
    },
}  # fmt: skip


def sections() -> dict[str, list[list[str]]]:
    """The rows of every paper's table, by its first author."""
    found = {}
    for part in TEXT.split("\n## ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("| ")]
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        found[re.split(r"\W", part)[0]] = [row for row in rows if row[0] not in ("item", "---")]
    return found


def items(cell: str) -> Iterator[tuple[str, int]]:
    """What a first column names: ("", 4) is equation (4)."""
    equation = re.fullmatch(r"\((A\.)?(\d+)\)(?:-\((\d+)\))?", cell)
    named = re.fullmatch(r"([A-Z][a-z]+)( A)?\s?(\d+)(?:-(\d+))?", cell)
    match = equation or named
    assert match, f"{cell!r} is no item"
    *kinds, low, high = match.groups()
    kind = kinds[0] or ""
    if named:
        kind = ("Corollary" if kind == "Corollaries" else kind.removesuffix("s")) + (kinds[1] or "")
    for k in range(int(low), int(high or low) + 1):
        yield kind, k


@pytest.mark.parametrize("author", PAPERS)
def test_every_item_has_one_line(author: str) -> None:
    there = [item for row in sections()[author] for item in items(row[0])]
    expected = {(kind, k) for kind, words in PAPERS[author].items() for k in numbers(words)}
    assert sorted(there) == sorted(expected)


def test_states() -> None:
    for rows in sections().values():
        for row in rows:
            assert len(row) == 4, row
            assert row[3].startswith(STATES), row
            assert row[1], row


def test_names_exist() -> None:
    names = set(re.findall(r"`(ucm\.[\w.]+)(?:\([^`]*\))?`", TEXT))
    assert len(names) > 50
    for name in sorted(names):
        value: Any = ucm
        for word in name.split(".")[1:]:
            value = getattr(value, word)


def test_options_of_solvers_and_models_exist() -> None:
    calls = re.findall(r"`(ucm\.[\w.]+\([^`]*\))`", TEXT)
    assert len(set(calls)) >= 10
    for call in set(calls):
        eval(call, {"ucm": ucm, "loss": ucm.Exponential()})


def test_commands_exist() -> None:
    commands = {c for c in re.findall(r"`(ucm bench [^`]+)`", TEXT) if "NAME" not in c}
    assert len(commands) > 20
    for command in sorted(commands):
        _, _, name, *rest = shlex.split(command)
        part = [word for word in rest if not word.startswith("--")]
        assert len(part) <= 1, command
        benchmark = bench.get(name)
        assert not part or part[0] in benchmark.parts, command
