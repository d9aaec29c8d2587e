"""docs/papers.md: every numbered item of the papers has a line, and every name and command in it exists."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucm
import ucm.extend
from benchmarks.papers import commands, nearest_points, page
from benchmarks.papers.commands import COMMANDS, SCRIPTS, Command, parts_of

STATES = ("met", "partly", "not met", "not comparable", "not run here")
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
        "Section": "2.1 4.2 5.2 6.3.1",
    },
    "Barbero": {
        "": "1-32", "Proposition": "1-2 18", "Lemma": "3 7 16-17 19", "Definition": "4 11 13-15 21",
        "Remark": "5", "Theorem": "6 8 10 12 20", "Corollary": "9", "Algorithm": "1-2", "Table": "1-3",
        "Figure": "1-11", "Appendix": "A B C D E",
    },
    "Lopez": {"": "1-19", "Table": "1-3", "Figure": "1-2", "Section": "3 5 5(stop) 5(Wilcoxon)"},
    "Ong": {
        "": "1-33 P_dc P_k", "A.": "1-5", "Theorem 3.1": "I II III IV", "Algorithm": "1-4",
        "Table": "1-2", "Table A": "1-2", "Figure": "1-15",
    },
    "Sun": {
        "": "1-22", "Theorem": "1-3", "Corollary": "1", "Lemma": "1-2", "Definition": "1-3", "Algorithm": "1",
        "Table": "1-3", "Figure": "1-3", "Claim": "1-3", "Listing": "1",
    },
}  # fmt: skip


def sections() -> dict[str, list[list[str]]]:
    """The rows of the table of items of every paper, by its first author."""
    found = {}
    for part in TEXT.split("\n## ")[2:]:
        table = part[part.index("| item |") :].split("\n\n")[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        found[re.split(r"\W", part)[0]] = rows[2:]
    return found


def items(cell: str) -> Iterator[tuple[str, str]]:
    """What a first column names: ("", "4") is equation (4)."""
    equation = re.fullmatch(r"\((A\.)?(\d+)\)(?:-\((\d+)\))?", cell)
    named = re.fullmatch(r"([A-Z][a-z]+)( A)?\s?(\d+)(?:-(\d+))?", cell)
    number = r"\(?([\d.]+|[A-Z]|[IV]+|P_\w+)\)?( \(\w+\))?"
    other = re.fullmatch(rf"(Section|Appendix|Theorem 3.1)? ?{number}", cell)
    if other and not equation:
        yield other[1] or "", other[2] + (other[3] or "").strip()
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
        assert len(row) == 4 and row[2], row
        assert row[1].startswith(STATES), row
        assert row[3].startswith("`"), row


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


def test_commands_in_the_papers_page_exist() -> None:
    named = set(re.findall(rf"`((?:{'|'.join(SCRIPTS)}) [^`]+)`", TEXT))
    known = {command.name for command in COMMANDS}
    assert len(named) > 40 and named <= known | {name.partition(" --")[0] for name in known}
    assert {name.partition(" --")[0] for name in known} - {"pytest"} <= named, "a command without a row"


def test_options_of_commands_exist() -> None:
    for command in COMMANDS:
        script, *given = command.name.split()
        if given:
            known = inspect.signature(parts_of(script)[given[0]]).parameters
            assert all(option.removeprefix("--") in known for option in given[1::2]), command.name
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


def test_tests_that_are_commands_exist() -> None:
    commands = set(re.findall(r"`pytest (\S+)(?: -k (\w+))?`", TEXT))
    assert len(commands) > 20
    for file, words in sorted(commands):
        assert re.search(rf"def test_\w*{words}", (ROOT / file).read_text()), f"{file} -k {words}"


# --- the page and its results ---------------------------------------------------------------------
def test_the_page_is_made_of_the_results() -> None:
    pytest.importorskip("jinja2", reason="jinja2 is part of ucm-classifiers[docs]")
    results = page.Page(commands.read())
    assert results.text() == TEXT, "make it anew: python -m benchmarks.papers page"
    for name in results.absent():
        assert f"`{name}`" in TEXT.split("\n## ")[0], f"{name} has no results, and the page does not say so"


def test_every_table_has_its_columns() -> None:
    for table in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        head, rule, *lines = table.splitlines()
        assert set(rule) <= set("|- "), head
        assert {line.count("|") for line in [rule, *lines]} == {head.count("|")}, head


@pytest.mark.parametrize(
    ("cases", "state"),
    [
        ([True, True, None], "met"),
        ([True, False], "partly (1 of 2; 0.4 for 0.5)"),
        ([False], "not met (0.4 for 0.5)"),
        ([], "not run here"),
        ([None], "not run here"),
    ],
)
def test_met_is_of_every_case(cases: list[bool | None], state: str) -> None:
    assert page.verdict(cases, "0.4 for 0.5") == state
    assert page.verdict(cases, why="a drawing") == "not comparable (a drawing)"
    assert page.verdict(cases, whole=False).startswith("not run here")


def test_a_run_is_stopped_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "RESULTS", tmp_path / "results.json")
    first, last = (
        Command("002", "Table 2", "unified fails"),
        Command("004", "Section 2.1", "unified section-2-1"),
    )
    runs: list[str] = []

    def rows(script: str) -> dict[str, Any]:
        def fails() -> Iterator[dict[str, Any]]:
            runs.append("fails")
            yield {"x": 1.0}
            if len(runs) == 1:
                raise ValueError("stopped")

        def section() -> Iterator[dict[str, Any]]:
            runs.append("section")
            yield {"x": 1.0 / 3.0, "y": float("inf"), "within": np.bool_(True)}

        return {"fails": fails, "section-2-1": section}

    monkeypatch.setattr(commands, "COMMANDS", (first, last))
    monkeypatch.setattr(commands, "parts_of", rows)
    assert not commands.run()
    assert commands.read()[last.name]["rows"] == [{"x": 0.3333333, "y": None, "within": True}]
    assert list(commands.read()) == [last.name]
    assert commands.run(missing=True) and runs == ["fails", "section", "fails"]
    assert list(commands.read()) == [first.name, last.name]


@pytest.mark.parametrize("both", [False, True])
def test_four_vectors_end_in_the_nearest_points(both: bool) -> None:
    rng = np.random.default_rng(3)
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    X = rng.standard_normal((30, 3)) + 0.6 * y[:, None]
    _, q = nearest_points.pairs_of_mdm(X @ X.T, y, 0.2, both)
    model = ucm.ReducedHull(ucm.pos, eta=0.2) - ucm.ReducedHull(ucm.neg, eta=0.2)
    best = ucm.solve(model, X, y, solver="clarabel")
    assert q.max() <= 0.2 and q[y > 0].sum() == pytest.approx(1.0) == q[y < 0].sum()
    assert np.linalg.norm(X.T @ (q * y)) == pytest.approx(np.linalg.norm(best.x), rel=1e-4)


@pytest.mark.filterwarnings("ignore::ucm.errors.ConvergenceWarning")  # by the paper's own rule
def test_parts_of_lopez_take_as_many_splits_as_asked_for() -> None:
    rng = np.random.default_rng(3)
    y = np.where(np.arange(60) % 2, 1.0, -1.0)
    X = rng.standard_normal((60, 3)) + y[:, None]
    splits = [np.split(rng.permutation(60), [40]) for _ in range(4)]
    table, both = (
        inspect.unwrap(part)("heart", X, y, splits, repeats=2)
        for part in (nearest_points.table_1, nearest_points.tables_2_3)
    )
    assert [row["number"] for row in (*table, *both)] == [2, 2, 2]
