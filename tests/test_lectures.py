"""The lectures run, cell by cell, without a warning, and have the parts of a lecture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LECTURES = sorted((ROOT / "docs" / "lectures").glob("[0-9]*.py"))
NAMES = [lecture.stem for lecture in LECTURES]


@pytest.mark.slow  # the site runs them too
@pytest.mark.parametrize("lecture", LECTURES, ids=NAMES)
def test_a_lecture_runs(lecture: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not here: pip install 'ucm-classifiers[plot]'")
    environment = {k: v for k, v in os.environ.items() if k != "UCM_DATA"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(lecture)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**environment, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and "Warning" not in done.stderr
    assert "np.float64" not in done.stdout


@pytest.mark.parametrize("lecture", LECTURES, ids=NAMES)
def test_a_lecture_has_its_parts(lecture: Path) -> None:
    """An installing cell, the six parts, and a solution that asserts something for each exercise."""
    jupytext = pytest.importorskip("jupytext", reason="jupytext is part of ucm-classifiers[docs]")
    cells = jupytext.read(lecture).cells
    first = next(cell["source"] for cell in cells if cell["cell_type"] == "code")
    assert "pip" in first and "../..[plot]" in first
    text = "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    for part in (
        "**Goal.**",
        "## The declaration",
        "icture",
        "certificate",
        "From the paper",
        "## Exercises",
    ):
        assert part in text, f"no {part!r}"
    solutions = [c for c in cells if c["metadata"].get("tags") == ["hide-cell"]]
    asked = re.findall(r"^\d\. ", text[text.index("## Exercises") :], re.MULTILINE)
    assert len(asked) == len(solutions) == 4
    for k, cell in enumerate(solutions):
        assert cell["source"].startswith(f"# {k + 1}. ") and "assert" in cell["source"]
