"""The package as a whole: its names, its version, its set-up commands."""

from __future__ import annotations

import importlib
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from signatures import FILE, signatures

import ucm
from ucm.errors import DISTRIBUTION, warn_of_namesake

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# The public names that code outside of this repository may rely on.
NAMES = """
    Ball Box CappedSimplex Classifier CompositionError ConvergenceWarning DataError Ellipsoid
    EmptySetError Exponential Hinge Hull AffineImage KLBall Logistic LossBall NormBall Param
    ParameterError Point ReducedHull RobustMargin Simplex SolverError SquaredHinge UCMError
    admissible from_json models neg pos signed solve solvers testing to_json
""".split()
# What a class of one's own is written with.
EXTENSION = """
    LoweredSet Answer Block BoundDomain Capped Combination ConvexLoss RotationInvariant
    Coupling Domain FoldedConcave Jacobian MassMultipliers Loss MinNorm Monitor Node Penalty Polyhedron
    Projectable ProximalPenalty SampleWeights Scope SemiSmooth SimplexDomain Solver UncertaintySet value
""".split()


def test_the_public_names_are_listed() -> None:
    assert set(NAMES) <= set(ucm.__all__)
    assert set(EXTENSION) <= set(ucm.extend.__all__)
    for module in (ucm, ucm.extend):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert set(ucm.__all__) <= set(dir(ucm))


@pytest.mark.parametrize(
    ("module", "name", "meant"), [(ucm, "Elipsoid", "Ellipsoid"), (ucm.models, "nu_svn", "nu_svm")]
)
def test_an_unknown_name_suggests_the_nearest(module: Any, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {meant}[?]"):
        getattr(module, name)
    assert not hasattr(module, "__wrapped__")


def test_every_public_name_is_in_the_reference_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    topics = importlib.import_module("topics")
    listed, public = topics.listed(), topics.public()
    assert not set(public) - set(listed), "add them to a topic in docs/topics.py"
    assert not set(listed) - set(public), "docs/topics.py lists what is not exported"
    assert len(set(listed)) == len(listed), "a name has two pages"


def test_a_star_import_leaves_the_builtin_compile_alone() -> None:
    assert callable(ucm.compile)
    assert "compile" not in ucm.__all__


def test_the_public_signatures_are_those_of_the_last_review() -> None:
    """A change of an interface is a change of the list: `python tests/signatures.py` writes it."""
    assert list(signatures()) == FILE.read_text(encoding="utf-8").splitlines()


def test_every_command_installs_the_distribution_and_not_its_namesake() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    files = [f for folder in ("*.md", "docs/*.md", "examples/*.py", "ucm/**/*.py") for f in ROOT.glob(folder)]
    text = "\n".join(f.read_text(encoding="utf-8") for f in files)
    named = re.findall(r"pip install[^`\n]* '?ucm\b[\w-]*", text)
    assert named and all(name.endswith(DISTRIBUTION) for name in named)
    assert not re.search(r"\bucm\[(all|conic|dask|plot|rows)\]", text)


def test_files_of_the_namesake_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ucm.errors._PACKAGE", str(tmp_path))
    warn_of_namesake()
    (tmp_path / "SwarmListView.py").touch()
    with pytest.warns(UserWarning, match="run `pip uninstall ucm ucm-classifiers`, then"):
        warn_of_namesake()


def test_the_versions_for_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    ucm.show_versions()
    printed = capsys.readouterr().out
    assert f"{DISTRIBUTION}: {ucm.__version__}\n" in printed
    assert re.search(r"^clarabel: [0-9.]+$", printed, re.M) and re.search(r"^Python: 3", printed)


def test_every_file_has_one_version() -> None:
    assert ucm.__version__ == PROJECT["version"]
    recipe = (ROOT / ".conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{ucm.__version__}"' in recipe
    run = re.findall(r"- (\S+) (>=\S+)", recipe[recipe.index("  run:") : recipe.index("tests:")])
    needed = re.findall(r"^([\w-]+)(>=\S+)$", "\n".join(PROJECT["dependencies"]), re.M)
    assert sorted(run) == sorted([*needed, ("python", PROJECT["requires-python"])])
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {ucm.__version__}\n" in citation


def test_the_package_is_typed_and_licensed() -> None:
    assert (Path(ucm.__file__).parent / "py.typed").is_file()
    assert PROJECT["license"] == "BSD-3-Clause"
    assert "The ucm developers" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_readme_has_two_set_up_commands() -> None:
    """Each makes its environment, and one is what CI runs."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python3 .*$", readme, re.MULTILINE)
    assert len(commands) == 2
    assert all(command.startswith("python3 -m venv .venv && ") for command in commands)
    assert commands[0].endswith("/ucm demo")
    assert commands[1].endswith(" -m pytest -n 2")


def test_ci_is_executable_and_takes_its_commands_from_the_readme() -> None:
    for file in (ROOT / ".ci").iterdir() if os.name != "nt" else ():  # Windows keeps no such bit
        assert file.stat().st_mode & stat.S_IXUSR
    ends = re.findall(r"^run '(.*)'$", (ROOT / ".ci" / "readme").read_text(), re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(ends) == 2
    for end in ends:
        assert len(re.findall(rf"^python3 -m venv .* && {re.escape(end)}$", readme, re.MULTILINE)) == 1


def test_a_published_readme_has_absolute_links_to_files_that_exist() -> None:
    from build_metadata import absolute_links, urls

    base = "https://example.org/owner/ucm"
    text = absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), base, "v1")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) > 10
    for picture, link in links:
        start = f"{base}/{'raw' if picture else 'blob'}/v1/"
        assert link.startswith(start)
        assert (ROOT / link.removeprefix(start)).exists()
    assert urls(base)["Documentation"] == "https://owner.github.io/ucm/"
