"""The lectures run, cell by cell, without a warning; their notebooks say the same, and hold no outputs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
LECTURES = sorted((ROOT / "docs" / "lectures").glob("[0-9]*.py"))
NAMES = [lecture.stem for lecture in LECTURES]


def pair() -> Any:
    spec = importlib.util.spec_from_file_location("pair", ROOT / "docs" / "pair.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lecture", LECTURES, ids=NAMES)
def test_a_lecture_runs(lecture: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not here: pip install 'ucm[plot]'")
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
def test_the_notebook_says_the_same(lecture: Path) -> None:
    source = lecture.read_text(encoding="utf-8")
    paired = lecture.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert paired == pair().text_of(source), "run python docs/pair.py"
    cells = json.loads(paired)["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
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
        code = "".join(cell["source"])
        assert code.startswith(f"# {k + 1}. ") and "assert" in code


def test_as_jupytext_reads_them() -> None:
    jupytext = pytest.importorskip("jupytext", reason="jupytext is not here: pip install jupytext")
    for lecture in LECTURES:
        theirs = jupytext.reads(lecture.read_text(encoding="utf-8"), fmt="py:percent")
        ours = pair().notebook(lecture.read_text(encoding="utf-8"))
        assert [c["source"] for c in theirs.cells] == ["".join(c["source"]) for c in ours["cells"]]
        assert [c["cell_type"] for c in theirs.cells] == [c["cell_type"] for c in ours["cells"]]
