"""Shared fixtures: the papers' data, where they are at hand; pictures without a screen, and closed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

import ucm.data.datasets

# two test processes share the cores: BLAS threads beside them would only wait for each other
threadpool_limits(limits=1, user_api="blas")

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("UCM_COMPILE", "here")  # else the first tests take other routes than the last

ROOT = Path(__file__).resolve().parent.parent
Loader = Callable[[str], tuple]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Docstrings and pages with pictures need matplotlib."""
    if importlib.util.find_spec("matplotlib") is not None:
        return
    absent = pytest.mark.skip(reason="matplotlib is not here: pip install 'ucm[plot]'")
    for item in items:
        if "plot" in item.path.parts or any(
            page in item.name for page in ("pictures.md", "ambiguity.md")
        ):
            item.add_marker(absent)


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def shared_folder() -> Path | None:
    """The folder of the papers' data: UCM_DATA, or `../shared/data` beside the checkout."""
    named = os.environ.get("UCM_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


def load_shared(name: str) -> tuple:
    """(X, y) of one of the papers' sets; skips the test where the set is not at hand."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("the papers' data are not here: set UCM_DATA to their folder")
    if not (folder / f"{name}.npz").is_file():
        pytest.skip(f"the papers' data hold no set named {name}")
    return ucm.datasets.read_npz(folder / f"{name}.npz")


@pytest.fixture(scope="session")
def shared_data() -> Loader:
    """`shared_data(name)` is (X, y) of one of the papers' sets; skips where it is not at hand."""
    return load_shared


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


# --- Hypothesis -------------------------------------------------------------------------------------
_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),  # pyright: ignore[reportArgumentType]  # its metaclass iterates
}
settings.register_profile("small", derandomize=True, **_COMMON)
settings.register_profile("long", max_examples=10_000, derandomize=False, **_COMMON)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What an attack met, after the last line of the tests."""
    for report in (r for group in terminalreporter.stats.values() for r in group):
        for name, text in getattr(report, "user_properties", []):
            if name == "attack" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {text}")
