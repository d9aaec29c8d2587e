"""Mutated files and command lines: one line on standard error, an exit status, no traceback."""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from draws import Source
from guard import Tally, fuzz, guarded

from ucm import cli

ROWS = ["1 1:0.5 2:1.5", "-1 1:-1 3:2", "1 2:3 3:1e2", "-1 2:-3", "1 1:1", "-1 3:-1"]
TABLE = ["a,b,label", "1,2,x", "3,4.5,y", "-1,0,x", "2,2,y", "5,1,x"]
PARTS = [
    "", " ", "\n", "\t", ",", ";", ":", "0", "-1", "1e400", "nan", "inf", "-inf", "x", "label",
    "2147483647:1",
    "2147483648:1", "10000000:1", "0:1", "-1:1", "1:", ":1", "1:nan", "1:1e999", "\x00", "é", '"', "'",
    "#", "qid:1",
    "BZh9", "1:1 1:2", "3:1 2:1", "1,2,3,4", "\ufeff", "1_000",
]  # fmt: skip
MODELS = ["nu_svm", "mm_mpm", "mm_fda", "l2_nu_svm", "kl_svm", "svm", "psvm", "one_norm_svm", "x"]
SETS = [
    "nu=0.5", "nu=2", "nu=-1", "nu=0", "nu=nan", "nu=x", "nu", "=", "kappa=0.1", "kappa=1e300",
    "lam=0.1", "alpha=0.5",
    "C=1", "p=1.5", "p=0", "mu=0.5",
]  # fmt: skip
OPTIONS = [
    ["--json"], ["--verify"], ["--tol", "1e-3"], ["--tol", "0"], ["--tol", "nan"], ["--max-iter", "1"],
    ["--max-iter", "0"], ["--max-iter", "x"], ["--time-limit", "1"], ["--time-limit", "-1"], ["--solver",
    "ssnal"],
    ["--solver", "clarabel"], ["--solver", "mdm"], ["--solver", ""], ["--label", "first"], ["--label",
    "last"],
    ["--label", "zz"], ["--label", ""], ["--nothing"],
]  # fmt: skip


@dataclass
class Line:
    """A command line, `FILE` for the path of a file, and what the file holds."""

    words: list[str]
    content: bytes

    def __repr__(self) -> str:
        return f"ucm {self.words}\n{self.content!r}"


def file(s: Source) -> bytes:
    rows = list(s.pick([ROWS, TABLE]))
    for _ in range(s.pick([0, 1, 1, 2])):
        i = s.integer(0, len(rows) - 1)
        cut = s.integer(0, len(rows[i]))
        kind = s.integer(0, 3)
        if kind == 0:
            rows[i] = rows[i][:cut] + s.pick(PARTS) + rows[i][cut:]
        elif kind == 1:
            rows[i] = rows[i][:cut] + s.pick(PARTS)
        elif kind == 2:
            rows[i] = s.pick(PARTS)
        else:
            rows.insert(i, s.pick(rows))
        if s.often(2):
            break
    content = (s.pick(["\n", "\r\n", "\n"])).join(rows).encode("utf-8" if s.often(12) else "utf-16")
    if not s.often(6):
        content = gzip.compress(content)
    if not s.often(9):
        i = s.integer(0, len(content))
        content = content[:i] + s.pick([b"", b"\x00", b"\xff\xfe"]) + content[i + s.integer(0, 3) :]
    return content


def line(s: Source) -> Line:
    words = [s.pick(["fit", "fit", "fit", "admissible"]), "FILE", "--model", s.pick(MODELS)]
    needed = {"nu_svm": "nu=0.5", "svm": "lam=0.1", "kl_svm": "alpha=0.5", "psvm": "C=1"}
    needed |= {"one_norm_svm": "lam=0.1"}
    if s.often(9):
        words += ["--param", needed.get(words[3], "kappa=0.2")]
    for _ in range(s.integer(0, 2)):
        words += ["--param", s.pick(SETS)] if not s.often(3) else s.pick(OPTIONS)
    if not s.often(12):
        words[1] = s.pick(["", "missing", ".", "a\x00b", "FILE/x", "-"])
    if not s.often(12):
        words.remove(s.pick(words))
    return Line(words, file(s))


def judge(c: Line, tally: Tally) -> str:
    out, err = io.StringIO(), io.StringIO()

    def run() -> int:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                return cli.main(words)
            except SystemExit as left:  # --help
                return int(left.code or 0)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples"
        path.write_bytes(c.content)
        words: list[Any] = [word.replace("FILE", str(path)) for word in c.words]
        status = guarded(run)
    lines = err.getvalue().splitlines()
    assert status in (0, 1, 2), status
    if status == 2:
        assert len(lines) == 1 and lines[0].startswith("ucm: "), lines
        assert not out.getvalue()
    assert "Traceback" not in err.getvalue()
    return f"exit {status}"


@pytest.mark.filterwarnings("default")
def test_mutated_files_and_command_lines(record_property: Callable[[str, object], None]) -> None:
    fuzz(line, judge, record_property, few=80, many=1_000)
