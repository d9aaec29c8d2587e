"""Each classifier of the zoo against a program in CVXPY that was written by hand from its formula."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import cvxpy as cp
import pytest
from programs import PROGRAMS, Problem

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
zoo: Any = importlib.import_module("classifiers")


def optimum(entry: Any, plane: Any = None) -> float:
    """The optimum of the program of an entry, for a non-convex one linearised at a plane."""
    X, y, groups = zoo.samples(entry.samples)
    problem = Problem(X, y, groups, entry.options.get("sample_weight"), plane)
    built = PROGRAMS[entry.name](problem)
    objective, constraints = built if isinstance(built, tuple) else (built, [])
    program = cp.Problem(cp.Minimize(objective), constraints)
    return float(program.solve(solver="CLARABEL"))  # type: ignore[arg-type]


def difference(entry: Any) -> float:
    """The difference of the optima relative to the larger; of a non-convex classifier the possible gain."""
    solution = entry.compiled().solve(tol=1e-8)
    other = optimum(entry, None if entry.convex else (solution.w, solution.b))
    return abs(solution.objective - other) / max(abs(other), abs(solution.objective))


def test_every_classifier_has_a_program_and_stands_on_the_page() -> None:
    assert len(zoo.ENTRIES) == sum(len(part) for part in zoo.SECTIONS.values()) >= 100
    assert set(PROGRAMS) == set(zoo.ENTRIES) == set(json.loads(zoo.MEASURED.read_text()))


@pytest.mark.parametrize("name", zoo.ENTRIES)
def test_the_optimum_is_that_of_a_program_by_hand(name: str) -> None:
    assert difference(zoo.ENTRIES[name]) <= 1e-7
    assert json.loads(zoo.MEASURED.read_text())[name] <= 1e-7


def test_a_declaration_is_short() -> None:
    """Built-in nodes take at most three lines, 90 classifiers or more; a class takes 25."""
    lines = {name: len(entry.code.strip().splitlines()) for name, entry in zoo.ENTRIES.items()}
    assert sum(count <= 3 for count in lines.values()) >= 90 and max(lines.values()) <= 25


if __name__ == "__main__":  # after a change of an entry, with PYTHONPATH=tests/zoo
    found = {name: float(f"{difference(entry):.0e}") for name, entry in zoo.ENTRIES.items()}
    zoo.MEASURED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
