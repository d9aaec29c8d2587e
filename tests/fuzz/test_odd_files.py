"""Mutated saved classifiers and data files: an answer or an error of the library, and nothing raw."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import Source
from guard import Tally, fuzz, guarded

import ucm
from ucm import cli
from ucm.cli.saved import Saved

BYTES = [
    b"",
    b"\x00",
    b"\xff",
    b"\x80",
    b"0",
    b"9",
    b"-",
    b'"',
    b"[",
    b"}",
    b",",
    b"\n",
    b"\xff" * 8,
    b"\x00" * 16,
]
ODD = [
    None, True, False, 0, 1, -1, 2, 0.5, 1e308, -1e308, 10**400, float("nan"), float("inf"), "", "x",
    "\ud800", "é\n", [], [0.0], [1.0, 2.0], ["a", "b"], ["a", "a"], [["a"], "b"], [None, "b"], {}, {"a": 1},
]  # fmt: skip
SAVED = [
    Saved({"ucm": 1}, [0.5, -2.0], 0.25, ("no", "yes"), None, ["a", "b"]),
    Saved({"ucm": 1}, [1.0, 1.0], -1.0, ("-1", "1"), None, None),
    Saved({"ucm": 1}, [1.0, 0.0, 3.0], 0.0, ("-1", "1"), False, None),
]
GIVEN = [
    b"a,b,label\n1,2,yes\n3,4.5,no\n",
    b"1,2,1\n-1,0,-1\n",
    b"1 1:0.5 2:1.5\n-1 1:-1 3:2\n",
    b"b,a\n1,2\n",
]
MEMORY = 6 << 30
"""Bytes of addresses that a case may take: a mutated shape asks for terabytes."""


def mutated(s: Source, content: bytes) -> bytes:
    """The content with one or two places cut, replaced or moved."""
    for _ in range(s.pick([1, 1, 2])):
        kind, i = s.integer(0, 5), s.integer(0, len(content))
        if kind == 0:
            content = (
                content[:i] + bytes(c ^ (1 << s.integer(0, 7)) for c in content[i : i + 1]) + content[i + 1 :]
            )
        elif kind == 1:
            piece = s.pick(BYTES)
            content = content[:i] + piece + content[i + len(piece) :]
        elif kind == 2:
            content = content[:i] + s.pick(BYTES) + content[i:]
        elif kind == 3:
            content = content[:i] + content[i + s.integer(1, 40) :]
        elif kind == 4:
            j = s.integer(0, len(content))
            content = content[:i] + content[j : j + 32] + content[i + 32 :]
        else:
            content = content[:i]
    return content


# --- saved classifiers ------------------------------------------------------------------------------
@dataclass
class Prediction:
    """What the file of a classifier and a file of samples hold."""

    classifier: bytes
    samples: bytes
    words: list[str]


def prediction(s: Source) -> Prediction:
    saved = s.pick(SAVED)
    entries: dict[str, Any] = {"ucm_fit": 1, **vars(saved)}
    for _ in range(s.integer(0, 2)):
        name, kind = s.pick(list(entries)), s.integer(0, 3)
        if kind == 0:
            del entries[name]
        elif kind == 1 and isinstance(entries[name], list | tuple) and entries[name]:
            parts = list(entries[name])
            parts[s.integer(0, len(parts) - 1)] = s.pick(ODD)
            entries[name] = parts
        elif kind == 2:
            entries[s.pick(["w", "x", "names", "b"])] = s.pick(ODD)
        else:
            entries[name] = s.pick(ODD)
        if not entries:
            break
    content = json.dumps(entries).encode()
    if not s.often(3):
        content = mutated(s, content)
    samples = s.pick(GIVEN) if s.often(2) else GIVEN[SAVED.index(saved)]
    return Prediction(content, samples, s.pick([[], ["--json"], ["--scores"], ["--label", "last"]]))


def predicts(c: Prediction, tally: Tally) -> str:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        classifier, samples = Path(folder) / "classifier.json", Path(folder) / "samples.csv"
        classifier.write_bytes(c.classifier)
        samples.write_bytes(c.samples)

        def run() -> int:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                return cli.main(["predict", str(classifier), str(samples), *c.words])

        status = guarded(run)
    out.flush()
    lines = err.getvalue().splitlines()
    assert status in (0, 2), status
    if status == 2:
        assert len(lines) == 1 and lines[0].startswith("ucm: "), lines
    return f"exit {status}"


@pytest.mark.filterwarnings("default")
def test_mutated_saved_classifiers(record_property: Callable[[str, object], None]) -> None:
    fuzz(prediction, predicts, record_property, few=150, many=5_000)


# --- data files -----------------------------------------------------------------------------------------
RNG = np.random.default_rng(3)
Y = np.repeat([1.0, -1.0], 20)
X = RNG.standard_normal((40, 3)) + 1.5 * Y[:, None]


def _write_table(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({**{f"x{j}": X[:, j] for j in range(3)}, "label": Y})
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=15)
    elif path.suffix == ".arrow":
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    else:
        pytest.importorskip("pyarrow.csv").write_csv(table, path)


def _write_arrays(path: Path) -> None:
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file.create_dataset("X", data=X, chunks=(15, 3), compression="gzip")
            file["y"] = Y
    else:
        group = pytest.importorskip("zarr").open_group(str(path), mode="w")
        for name, values, chunks in (("X", X, (15, 3)), ("y", Y, (15,))):
            group.create_array(name, shape=values.shape, chunks=chunks, dtype="float64")[...] = values


WRITERS = {
    **dict.fromkeys((".parquet", ".arrow", ".csv"), _write_table),
    **dict.fromkeys((".npy", ".h5", ".zarr"), _write_arrays),
}


@dataclass
class Stored:
    """The files of a format, {place: content} in their folder; a mutated one is among them."""

    kind: str
    files: dict[str, bytes]


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def stored(kind: str) -> Callable[[Source], Stored]:
    with tempfile.TemporaryDirectory() as folder:
        WRITERS[kind](Path(folder) / f"rows{kind}")
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        whole = {str(path.relative_to(folder)): path.read_bytes() for path in files}

    def draw(s: Source) -> Stored:
        place = s.pick(list(whole))
        return Stored(kind, {**whole, place: mutated(s, whole[place])})

    return draw


def solves(c: Stored, tally: Tally) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for place, content in c.files.items():
            path = Path(folder) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        def run() -> str:
            rows = ucm.open_rows(Path(folder) / f"rows{c.kind}", Y if c.kind == ".npy" else None)
            rows.labels()
            return ucm.solve(ucm.models.svm(1.0), rows, max_iter=3).status

        with limited_memory():
            try:
                return guarded(run, extreme=True)
            except ucm.UCMError as error:
                return type(error).__name__


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kind", WRITERS)
def test_mutated_data_files(kind: str, record_property: Callable[[str, object], None]) -> None:
    fuzz(stored(kind), solves, record_property, few=40, many=1_000)
