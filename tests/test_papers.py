"""docs/papers.md: every numbered item of the papers has a line, and every name and command in it exists."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ucm
import ucm.extend
from benchmarks.papers import extended_nu_svm, nearest_points, psvm, sparse, unified
from benchmarks.speed import tables

STATES = ("met", "not met", "not comparable")
ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")


def numbers(words: str) -> set[str]:
    """ "1 3-5 A" as {"1", "3", "4", "5", "A"}."""
    found = set()
    for word in words.split():
        low, _, high = word.partition("-")
        found |= {str(k) for k in range(int(low), int(high) + 1)} if high else {low}
    return found


# the author, and the numbers that the paper gives to its equations and other items
PAPERS: dict[str, dict[str, str]] = {
    "Ito": {
        "": "1-50", "Theorem": "1", "Lemma": "1-5", "Remark": "1", "Definition": "1-2", "Proposition": "1-4",
        "Example": "1-5", "Algorithm": "1-3", "Table": "1-9", "Figure": "1-11", "Assumption": "1-2",
        "Section": "2.1 5.2 6.3.1",
    },
    "Barbero": {
        "": "1-32", "Proposition": "1-2 18", "Lemma": "3 7 16-17 19", "Definition": "4 11 13-15 21",
        "Remark": "5", "Theorem": "6 8 10 12 20", "Corollary": "9", "Algorithm": "1-2", "Table": "1-3",
        "Figure": "1-11", "Appendix": "A B C D E",
    },
    "Lopez": {"": "1-19", "Table": "1-3", "Figure": "1-2", "Section": "5"},
    "Ong": {
        "": "1-33 P_dc P_k", "A.": "1-5", "Theorem 3.1": "I II III IV", "Algorithm": "1-4",
        "Table": "1-2", "Table A": "1-2", "Figure": "1-15",
    },
    "Sun": {
        "": "1-22", "Theorem": "1-3", "Corollary": "1", "Lemma": "1-2", "Definition": "1-3", "Algorithm": "1",
        "Table": "1-3", "Figure": "1-3",
    },
}  # fmt: skip


def sections() -> dict[str, list[list[str]]]:
    """The rows of the table of items of every paper, by its first author."""
    found = {}
    for part in TEXT.split("\n## ")[1:]:
        table = part[part.index("| item |") :].split("\n\n")[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        found[re.split(r"\W", part)[0]] = rows[2:]
    return found


def items(cell: str) -> Iterator[tuple[str, str]]:
    """What a first column names: ("", "4") is equation (4)."""
    equation = re.fullmatch(r"\((A\.)?(\d+)\)(?:-\((\d+)\))?", cell)
    named = re.fullmatch(r"([A-Z][a-z]+)( A)?\s?(\d+)(?:-(\d+))?", cell)
    other = re.fullmatch(r"(Section|Appendix|Theorem 3.1)? ?\(?([\d.]+|[A-Z]|[IV]+|P_\w+)\)?", cell)
    if other and not equation:
        yield other[1] or "", other[2]
        return
    match = equation or named
    assert match, f"{cell!r} is no item"
    *kinds, low, high = match.groups()
    kind = kinds[0] or ""
    if named:
        kind = ("Corollary" if kind == "Corollaries" else kind.removesuffix("s")) + (kinds[1] or "")
    for k in range(int(low), int(high or low) + 1):
        yield kind, str(k)


@pytest.mark.parametrize("author", PAPERS)
def test_every_item_has_one_line(author: str) -> None:
    there = [item for row in sections()[author] for item in items(row[0])]
    expected = {(kind, k) for kind, words in PAPERS[author].items() for k in numbers(words)}
    assert sorted(there) == sorted(expected)


@pytest.mark.parametrize("author", PAPERS)
def test_every_line_has_a_state_and_a_command(author: str) -> None:
    for row in sections()[author]:
        assert len(row) == 4 and row[1], row
        assert row[3].startswith(STATES), row
        assert row[2].startswith("`"), row


def test_names_in_the_papers_page_exist() -> None:
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


SCRIPTS = {
    "unified": unified.TABLES,
    "extended_nu_svm": extended_nu_svm.TABLES,
    "nearest_points": nearest_points.TABLES,
    "sparse": sparse.PARTS,
    "psvm": psvm.PARTS,
    "speed": tables.PARTS,
}


def test_commands_in_the_papers_page_exist() -> None:
    commands = set(re.findall(rf"`({'|'.join(SCRIPTS)}) ([^`]+)`", TEXT))
    assert len(commands) > 20 and {script for script, _ in commands} == set(SCRIPTS)
    for script, given in sorted(commands):
        part, *options = given.split(" --")
        assert part in SCRIPTS[script], f"{script} {given}"
        known = inspect.signature(SCRIPTS[script][part]).parameters
        assert all(option.split()[0] in known for option in options), f"{script} {given}"


def test_tests_that_are_commands_exist() -> None:
    commands = set(re.findall(r"`pytest (\S+)(?: -k (\w+))?`", TEXT))
    assert len(commands) > 20
    for file, words in sorted(commands):
        assert re.search(rf"def test_\w*{words}", (ROOT / file).read_text()), f"{file} -k {words}"
