"""Whether compiled functions are in the disk cache, and a child process that puts them there.

numba tells only by loading them. Here each module leaves a mark beside its files in the cache once it is
compiled, named by what a compiled version depends on. Where there is none, `soon` begins a process that
imports the module, and the caller goes another way until then. With `UCM_COMPILE=here` in the environment
all is compiled in this process, at the first use.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import logging
import os
import platform
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

__all__ = ["MODULES", "mark", "ready", "soon", "warm"]

MODULES = (
    "checksum", "capped", "newton_hull", "newton_gram", "margins", "ball", "boxed", "entropy", "gram",
    "left_out", "mdm", "outer", "parts", "power", "printed", "psmo", "share", "tied", "tiles", "vertex",
    "walled",
)  # fmt: skip
"""Those with compiled entries, what a first fit needs in front."""
_HERE = Path(__file__).resolve().parent
_PATIENCE = 300.0  # seconds after which a child that left no mark is given up
_log = logging.getLogger("ucm")
_known: set[str] = set()
_children: dict[str, subprocess.Popen[bytes]] = {}


@functools.cache
def _stem() -> str:
    """What compiled versions depend on: sources, Python, numba, the processor."""
    parts = [
        f"{f.name} {f.stat().st_mtime_ns} {f.stat().st_size}" for f in sorted(_HERE.glob("*.py"))
    ]
    parts += [sys.version, version("numba"), platform.machine(), platform.processor()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _folder() -> Path:
    """Where the marks lie: as numba, in NUMBA_CACHE_DIR, beside the sources, or in the user's own cache."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given)
    beside = _HERE / "__pycache__"
    if os.access(beside if beside.exists() else _HERE, os.W_OK):
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ucm"


def _file(module: str, ending: str) -> Path:
    return _folder() / f"ucm.{module}-{_stem()}.{ending}"


def mark(name: str) -> None:
    """A module of this package is compiled: called at its end."""
    module = name.rpartition(".")[2]
    _known.add(module)
    try:
        file = _file(module, "nbm")
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    except (
        OSError,
        RuntimeError,
    ):  # no home, no space, or the folder went away: compiled again next time
        pass


def ready(module: str) -> bool:
    """Whether using it costs no compiling; True too where it is to be compiled here."""
    if module in _known:
        return True
    if os.environ.get("UCM_COMPILE") == "here" or f"ucm.numerics.{module}" in sys.modules:
        _known.add(module)
        return True
    try:
        if not _file(module, "nbm").exists():
            return False
    except (OSError, RuntimeError):
        return False
    _known.add(module)
    return True


def soon(*modules: str) -> bool:
    """Begin to compile these in a child process, if none does so yet; False where that cannot be, so that
    they are to be compiled here."""
    if "+".join(modules) in _children:
        return _children["+".join(modules)].poll() in (None, 0)
    if not sys.executable or importlib.util.find_spec("ucm") is None:
        return False
    try:
        lock = _file(modules[-1], "nbl")
        lock.parent.mkdir(parents=True, exist_ok=True)
        if lock.exists() and time.time() - lock.stat().st_mtime < _PATIENCE:
            return True  # another process does
        lock.touch()
        root = str(_HERE.parent.parent)
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        child = subprocess.Popen(
            [sys.executable, "-c", f"from ucm.numerics import _cache; _cache.warm({modules!r})"],
            env={**os.environ, "UCM_COMPILE": "here", "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, RuntimeError):
        return False
    _children["+".join(modules)] = child
    _log.warning(
        "ucm compiles %s in another process (%d), once for this installation; until then slower methods "
        "solve. `ucm warm` compiles everything at a time of your choice",
        ", ".join(modules),
        child.pid,
    )
    return True


def warm(modules: tuple[str, ...] = MODULES) -> dict[str, float]:
    """Compile modules into the disk cache: the seconds that each took."""
    seconds = {}
    for module in modules:
        began = time.perf_counter()
        import_module(f"ucm.numerics.{module}")
        mark(module)
        seconds[module] = time.perf_counter() - began
    for module in modules:
        try:
            _file(module, "nbl").unlink(missing_ok=True)
        except (OSError, RuntimeError):
            break
    return seconds
