"""How functions are compiled: cached on disk, and without a cache where no folder can be written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from numba import config

from ucm.numerics._jit import f8, jit


def doubled(x: float) -> float:
    return 2.0 * x


def test_the_disk_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert jit(f8(f8))(doubled)(1.5) == 3.0
    assert list(tmp_path.rglob("*.nbc"))


def test_no_folder_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)  # how numba asks whether it may write
    compiled: Any = jit(f8(f8))(doubled)
    assert compiled(1.5) == 3.0
    assert not compiled.stats.cache_path and not list(tmp_path.rglob("*.nbc"))
