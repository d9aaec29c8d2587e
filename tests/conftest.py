"""Shared fixtures: the papers' data, where they are at hand; pictures without a screen, and closed."""

from __future__ import annotations

import importlib.util
import os
import socket
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

ROOT = Path(__file__).resolve().parent.parent
Loader = Callable[[str], tuple]
_SKIPPED = "ucm/skipped"  # in the cache of pytest: the tests that the last run skipped


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests on the papers' data, and those that the run before skipped, alone or with their module.

    Skip those of ecos and matplotlib where these are absent. Parameters of tests that name a set for
    `load_shared` have the mark `data` themselves.
    """
    cache = getattr(config, "cache", None)  # none with `-p no:cacheprovider`
    skipped = set() if cache is None else set(cache.get(_SKIPPED, ()))
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "shared_data" in names:
            item.add_marker("data")
        if not skipped.isdisjoint((item.nodeid, item.nodeid.split("::")[0])):
            item.add_marker("skipped")
        if "ecos" in item.name.lower() and importlib.util.find_spec("ecos") is None:
            item.add_marker(pytest.mark.skip(reason="ecos is not here: pip install ecos"))
    if importlib.util.find_spec("matplotlib") is not None:
        return
    absent = pytest.mark.skip(reason="matplotlib is not here: pip install 'ucm-classifiers[plot]'")
    for item in items:
        if "plot" in item.path.parts:
            item.add_marker(absent)


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Refuse every connection to another machine: a test reads bundled data, UCM_DATA or its own files."""
    connect = socket.socket.connect

    def local(self: socket.socket, address: Any) -> None:
        # a datagram socket sends nothing when it connects; dask asks so for the own address
        inet = self.family in (socket.AF_INET, socket.AF_INET6) and self.type != socket.SOCK_DGRAM
        if inet and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):
            pytest.fail(f"a test connects to {address[0]}; tests use no network")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local)
        yield


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


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What a fuzz test met, after the last line of the tests; what was skipped, for the next run."""
    for report in (r for group in terminalreporter.stats.values() for r in group):
        for name, text in getattr(report, "user_properties", []):
            if name == "fuzz" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {text}")
    cache = getattr(config, "cache", None)
    if cache is not None:
        cache.set(_SKIPPED, sorted({report.nodeid for report in terminalreporter.stats.get("skipped", ())}))
