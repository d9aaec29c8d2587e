"""First use: what solves while a loop is not compiled yet, and a disk cache that fails."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import ucm
from ucm import numerics
from ucm.cli import main
from ucm.language import masses
from ucm.numerics import _cache, _jit


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache folder; what a process would be started with is kept in `started`."""
    monkeypatch.delenv("UCM_COMPILE", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_cache, "_known", set())
    monkeypatch.setattr(_cache, "_children", {})
    for name in ("capped", "newton_hull"):
        monkeypatch.delitem(sys.modules, f"ucm.numerics.{name}", raising=False)
    return tmp_path


class Child:
    """A process that is never started."""

    started: list[Any] = []  # noqa: RUF012
    pid = 0

    def __init__(self, command: list[str], **options: Any) -> None:
        self.started.append((command, options["env"]))

    def poll(self) -> int | None:
        return None


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(Child, "started", [])
    monkeypatch.setattr(_cache.subprocess, "Popen", Child)
    return Child.started


def test_a_slower_method_solves_until_the_loop_is_compiled(
    empty: Path, child: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    X, y = ucm.datasets.load("wine")
    model = ucm.models.nu_svm(0.2)
    with caplog.at_level(logging.WARNING, logger="ucm"):
        first = ucm.solve(model, X, y)
        second = ucm.solve(model, X, y)
    assert first.stats.solver == second.stats.solver == "newton" and first.status == "optimal"
    assert len(child) == 1 and child[0][1]["UCM_COMPILE"] == "here"
    assert [r.message.partition(" in another")[0] for r in caplog.records] == [
        "ucm compiles capped, newton_hull"
    ]
    by_name = ucm.solve(model, X, y, solver="newton-hull")
    assert by_name.objective == pytest.approx(first.objective, rel=2e-6)
    for module in ("capped", "newton_hull"):
        _cache.mark(f"ucm.numerics.{module}")
    assert ucm.solve(model, X, y).stats.solver == "newton-hull"


def test_a_path_over_an_interval_does_not_wait_for_the_loop(empty: Path, child: list[Any]) -> None:
    X, y = ucm.datasets.load("wine")
    model, ends = ucm.models.nu_svm(0.3), {"between": (0.2, 0.4), "eps": 1e-2}
    found = ucm.path(model, X, y, nu="all", **ends)
    assert len(child) == 1 and "ucm.numerics.newton_hull" not in sys.modules
    assert found.at(0.31).relative_gap <= 1e-2
    assert all(s.status == "optimal" for s in found)
    for module in ("capped", "newton_hull"):
        _cache.mark(f"ucm.numerics.{module}")
    same = ucm.path(model, X, y, nu="all", **ends)
    assert same.at(0.31).objective == pytest.approx(found.at(0.31).objective, rel=1e-2)


def test_other_processes_leave_the_one_that_compiles_alone(empty: Path, child: list[Any]) -> None:
    assert numerics.soon("capped") and len(child) == 1
    _cache._children.clear()  # another process
    assert numerics.soon("capped") and len(child) == 1
    (lock,) = empty.glob("*.nbl")
    os.utime(lock, (1.0, 1.0))  # one that was given up
    assert numerics.soon("capped") and len(child) == 2


def test_where_no_process_can_be_started_it_is_compiled_here(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(_cache.subprocess, "Popen", refused)
    X, y = ucm.datasets.load("wine")
    assert ucm.solve(ucm.models.nu_svm(0.2), X, y).stats.solver == "newton-hull"


def test_a_mark_needs_no_folder(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = empty / "file"
    file.touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(file / "below"))
    assert not numerics.ready("nothing")
    _cache.mark("ucm.numerics.nothing")
    assert numerics.ready("nothing")  # in this process


@pytest.mark.parametrize("classes", [None, np.repeat([1.0, -1.0], [12, 18])], ids=["one", "two"])
def test_the_projection_until_then(classes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    v = rng.standard_normal(30)
    caps = [0.1] if classes is None else [0.1, 0.06]
    compiled = masses.project_capped(v, None, classes, caps)
    monkeypatch.setattr(numerics, "ready", lambda module: False)
    assert np.allclose(masses.project_capped(v, None, classes, caps), compiled, atol=1e-14)
    out = v.copy()
    assert masses.project_capped(out, out, classes, caps) is out
    assert np.allclose(out, compiled, atol=1e-14)


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), EOFError(), PermissionError()])
def test_a_cache_that_cannot_be_written_or_read(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = numba.njit

    def njit(*arguments: Any, **options: Any) -> Any:
        if options.pop("cache", False):
            raise error
        return plain(*arguments, **options)

    monkeypatch.setattr(_jit.numba, "njit", njit)
    double = _jit.jit(_jit.f8(_jit.f8))(lambda x: 2.0 * x)
    assert double(1.5) == 3.0


def test_two_processes_compile_at_once(tmp_path: Path) -> None:
    code = "from ucm.numerics import warm; warm(('outer', 'power'))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert len(list(tmp_path.glob("ucm.*.nbm"))) == 2


def test_all_that_is_compiled_by_itself_is_warmed() -> None:
    files = Path(_cache.__file__).parent.glob("[!_]*.py")
    assert {f.stem for f in files if "\n@jit(" in f.read_text(encoding="utf-8")} == {
        *_cache.MODULES
    }


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "checksum"]) == 0
    assert capsys.readouterr().out.startswith("checksum")
    assert main(["warm", "nothing"]) == 2
    assert "no module 'nothing'" in capsys.readouterr().err


def test_an_import_compiles_nothing(tmp_path: Path) -> None:
    code = (
        "import os, sys, ucm, ucm.cli, ucm.plot, ucm.testing\n"
        "[getattr(ucm, name) for name in ucm.__all__]\n"
        "print('numba' in sys.modules, os.listdir(os.environ['NUMBA_CACHE_DIR']))"
    )
    root = str(Path(ucm.__file__).parents[1])
    own = {k: v for k, v in os.environ.items() if k != "UCM_COMPILE"}
    env = {**own, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": root}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert told.stdout == "False []\n", told.stderr
