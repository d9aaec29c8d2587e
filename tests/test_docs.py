"""Every Python block of the README and the docs runs, page by page, and so does every example."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import linear_model, svm

import ucm

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UCM_DATA", raising=False)
    text = page.read_text(encoding="utf-8")
    if "ucm.plot" in text:
        pytest.importorskip("matplotlib", reason="needs pip install 'ucm-classifiers[plot]'")
    names: dict[str, object] = {"__name__": f"page_{page.stem}"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        code = "\n" * line + block.group(1)  # a failure then names the line of the page
        exec(compile(code, str(page), "exec", dont_inherit=True), names)


def test_links_between_pages_have_targets() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            file = page.parent / target.replace(".ipynb", ".py")  # the site makes notebooks from scripts
            assert "://" in target or file.exists(), f"{page.name}: {target}"


def test_no_two_pages_share_a_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    titles = [title for title, _ in importlib.import_module("topics").TOPICS.values()]
    titles += [page.read_text(encoding="utf-8").splitlines()[0].strip("# ") for page in PAGES[1:]]
    titles += [example.read_text(encoding="utf-8").splitlines()[1] for example in EXAMPLES]
    assert len(titles) > 30 and len({title.lower() for title in titles}) == len(titles)


@pytest.mark.slow  # the site runs the gallery too
@pytest.mark.parametrize("example", EXAMPLES, ids=[e.name for e in EXAMPLES])
def test_example(example: Path) -> None:
    if example.name.startswith("plot_"):
        pytest.importorskip("matplotlib", reason="needs pip install 'ucm-classifiers[plot]'")
    if example.name.startswith("dask_"):
        pytest.importorskip("distributed", reason="Dask is not here: pip install 'ucm-classifiers[dask]'")
    if "parquet" in example.read_text(encoding="utf-8"):
        pytest.importorskip("pyarrow", reason="pyarrow is not here: pip install 'ucm-classifiers[rows]'")
    environment = {k: v for k, v in os.environ.items() if k != "UCM_DATA"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def _counterparts() -> list[tuple[str, str]]:
    """Return the rows of the table of estimators of scikit-learn and of this library, as code."""
    page = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]*)`.* \| `(Classifier[^`]*)` \|$", page, re.MULTILINE)
    assert len(rows) == 6
    return rows


@pytest.mark.parametrize(("theirs", "ours"), _counterparts())
def test_counterparts_of_scikit_learn_have_the_same_decision_function(theirs: str, ours: str) -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((120, 5))
    y = X[:, 0] - X[:, 1] + generator.standard_normal(120) > 0.0
    names = vars(ucm.models) | {name: getattr(ucm, name) for name in ("Classifier", "L1", "L2", "Logistic")}
    expected = eval(theirs, vars(svm) | vars(linear_model)).set_params(tol=1e-8).fit(X, y)
    found = eval(ours, names).set_params(tol=1e-9).fit(X, y)
    f, g = expected.decision_function(X), found.decision_function(X)
    factor = float(f @ g) / float(g @ g)
    assert "NuSVC" in theirs or factor == pytest.approx(1.0, rel=1e-3)
    np.testing.assert_allclose(factor * g, f, atol=1e-3 * np.abs(f).max())


def test_the_table_of_models_is_that_of_its_file() -> None:
    practice = importlib.import_module("benchmarks.practice")
    lines = practice.table(ROOT / "docs" / "which-model.jsonl")
    assert len(lines) == 2 + len(practice.TWENTY) + 2
    assert "\n".join(lines) in (ROOT / "docs" / "which-model.md").read_text(encoding="utf-8")
