"""Sources of rows: arrays, files, folders, views and folds, their input checks, changes between passes."""

from __future__ import annotations

import importlib
import operator
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from row_samples import MODELS, blocks, samples, tagged_samples
from scipy import sparse

import ucm
from ucm import neg, pos
from ucm.data import array_rows


def as_csv(X: Any, y: Any, mark: str = ",", head: bool = True) -> str:
    names = [*(f"x{j}" for j in range(X.shape[1])), "label"]
    lines = [[*map(repr, row.tolist()), str(label)] for row, label in zip(X, y, strict=True)]
    return "".join(mark.join(line) + "\n" for line in ([names] if head else []) + lines)


def written(kind: str, folder: Path, X: Any, y: Any) -> tuple[Any, Any]:
    if kind == "array":
        return ucm.open_rows(X, y, block=100), None
    if kind == "fortran":
        return ucm.open_rows(np.asfortranarray(X), y, block=100), None
    if kind == "csr":
        return ucm.open_rows(sparse.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0)), y, block=64), None
    if kind in ("npy", "columns", "float32", "integers"):
        own = {
            "npy": X,
            "columns": np.asfortranarray(X),
            "float32": X.astype(np.float32),
            "integers": np.round(9 * X).astype(np.int16),
        }
        np.save(folder / "X.npy", own[kind])
        np.save(folder / "y.npy", y.astype(np.int8))
        return folder / "X.npy", folder / "y.npy"
    if kind == "memmap":
        np.save(folder / "X.npy", X)
        return ucm.open_rows(np.load(folder / "X.npy", mmap_mode="r"), y, block=50), None
    if kind in ("parquet", "arrow", "feather"):
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"label": y.astype(int), **{f"x{j}": X[:, j] for j in range(X.shape[1])}})
        if kind == "arrow":
            return ucm.open_rows(table, block=70), None
        if kind == "feather":
            pytest.importorskip("pyarrow.feather").write_feather(table, folder / "X.feather")
            return folder / "X.feather", "label"
        pytest.importorskip("pyarrow.parquet").write_table(table, folder / "X.parquet", row_group_size=130)
        return str(folder / "X.parquet"), None
    if kind == "csv":
        pytest.importorskip("pyarrow.csv")
        (folder / "X.csv").write_text(as_csv(X, y))
        return folder / "X.csv", "label"
    if kind == "hdf5":
        with pytest.importorskip("h5py").File(folder / "X.h5", "w") as file:
            file["X"], file["y"] = X, y
        return folder / "X.h5", None
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(folder / "X.zarr"), mode="w")
    for name, own in (("X", X), ("y", y)):
        group.create_array(name, data=own, chunks=(99, *own.shape[1:]))
    return folder / "X.zarr", None


KINDS = "array fortran csr npy columns float32 integers memmap parquet arrow feather csv hdf5 zarr".split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_answer(kind: str, tmp_path: Path) -> None:
    X, y = samples(500)
    given = written(kind, tmp_path, X, y)
    before = sorted(os.listdir(tmp_path))
    if kind == "csr":
        X = np.where(np.abs(X) > 0.3, X, 0.0)
    if kind == "float32":
        X = X.astype(np.float32).astype(np.float64)
    if kind == "integers":
        X = np.round(9 * X)
    memory = ucm.solve(MODELS["nu"], X, y)
    source = ucm.open_rows(*given)
    rows = ucm.solve(MODELS["nu"], *given)
    assert rows.status == "optimal"
    assert rows.objective == pytest.approx(memory.objective, rel=2e-6)
    assert (source.m, source.n) == X.shape
    assert source.labels().tolist() == [-1, 1]
    gathered = source.gather()
    table = gathered[0].toarray() if sparse.issparse(gathered[0]) else gathered[0]
    assert np.array_equal(table, X) and np.array_equal(gathered[1], y)
    assert sorted(os.listdir(tmp_path)) == before


def test_threads_and_blocks_change_nothing() -> None:
    X, y = samples(5000)
    answers = [
        ucm.solve(MODELS["nu"], blocks(X, y, rows, threads))
        for rows, threads in ((5000, 1), (77, 1), (77, 3))
    ]
    for other in answers[1:]:
        assert other.objective == pytest.approx(answers[0].objective, rel=2e-6)
    assert answers[1].objective == pytest.approx(answers[2].objective, rel=1e-12)


def test_a_read_only_folder_is_enough(tmp_path: Path) -> None:
    X, y = samples(500)
    given = written("npy", tmp_path, X, y)
    tmp_path.chmod(0o500)
    try:
        assert ucm.solve(MODELS["nu"], *given).status == "optimal"
    finally:
        tmp_path.chmod(0o700)


def counted(X: Any, y: Any, state: Any, last: float) -> tuple[int, int]:
    """A function that fails on the block which holds the last sample, if asked to."""
    if X[-1, 0] == last:
        raise KeyboardInterrupt
    return (state or 0) + 1, state or 0


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupted_pass_leaves_the_states(threads: int) -> None:
    X, y = samples(2000)
    source, states = blocks(X, y, 300, threads), dict[int, Any]()
    for k in range(2):
        assert source.map_reduce(counted, np.nan, states=states) == [k] * 7
    with pytest.raises(KeyboardInterrupt):
        source.map_reduce(counted, X[-1, 0], states=states)
    assert source.map_reduce(counted, np.nan, merge=operator.add, states=states) == 2 * 7
    assert source.map_reduce(counted, np.nan, states={}) == [0] * 7


@pytest.mark.parametrize("kind", ["npy", "parquet", "feather", "csv", "hdf5", "zarr"])
def test_every_source_carries_weights_and_groups(kind: str, tmp_path: Path) -> None:
    X, y, tags = tagged_samples()
    codes = (tags["subgroup"] == "A").astype(int)
    given, arrays = (
        {**tags, "subgroup": codes},
        {"X": X, "y": y, "c": tags["sample_weight"], "g": codes},
    )
    model = ucm.Hull(pos.group(1), weights=ucm.KLBall(0.5)) - ucm.Hull(neg, weights=ucm.KLBall(0.5))
    named: dict[str, Any] = {"sample_weight": "c", "subgroup": "g"}
    if kind == "npy":
        for name, v in arrays.items():
            np.save(tmp_path / f"{name}.npy", v)
        labels: Any = {k: tmp_path / f"{name}.npy" for k, name in named.items()}
        rows = ucm.open_rows(tmp_path / "X.npy", tmp_path / "y.npy", block=100, **labels)
    elif kind in ("parquet", "feather", "csv"):
        arrow = pytest.importorskip("pyarrow", reason="needs pip install 'ucm-classifiers[rows]'")
        columns = {**{f"x{j}": X[:, j] for j in range(4)}, "y": y, "c": arrays["c"], "g": codes}
        file, table = tmp_path / f"rows.{kind}", arrow.table(columns)
        if kind == "parquet":
            importlib.import_module("pyarrow.parquet").write_table(table, file, row_group_size=200)
        elif kind == "csv":
            importlib.import_module("pyarrow.csv").write_csv(table, file)
        else:
            importlib.import_module("pyarrow.feather").write_feather(table, file)
        rows = ucm.open_rows(file, "y", block=100, **named)
        assert rows.features == ["x0", "x1", "x2", "x3"]
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py", reason="needs pip install 'ucm-classifiers[rows]'")
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            for name, v in arrays.items():
                file[name] = v
        rows = ucm.open_rows(tmp_path / "rows.h5", block=100, **named)
    else:
        zarr = pytest.importorskip("zarr", reason="needs pip install 'ucm-classifiers[rows]'")
        group = zarr.open_group(str(tmp_path / "rows.zarr"), mode="w")
        for name, v in arrays.items():
            group.create_array(name, data=v)
        rows = ucm.open_rows(tmp_path / "rows.zarr", block=100, **named)
    memory = ucm.solve(model, X, y, **given)
    assert ucm.solve(model, rows).objective == pytest.approx(memory.objective, rel=2e-6)
    assert rows.gather()[1].tolist() == y.tolist()


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".arrow", ".feather", ".h5", ".zarr"])
def test_broken_files_are_named(tmp_path: Path, suffix: str) -> None:
    if suffix != ".npy":
        pytest.importorskip({".h5": "h5py", ".zarr": "zarr"}.get(suffix, "pyarrow"))
    file = tmp_path / f"broken{suffix}"
    file.write_bytes(b"nothing that is a table")
    with pytest.raises(ucm.DataError, match="broken"):
        ucm.open_rows(file, np.ones(3))


def test_the_index_that_a_frame_writes_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    frame = pytest.importorskip("pandas").DataFrame({"a": [1.5, 2.5], "label": [1, -1]})
    frame.to_csv(tmp_path / "X.csv")
    with pytest.raises(ucm.DataError, match=r"none for column 1 of the header.*index=False"):
        ucm.open_rows(tmp_path / "X.csv", "label")
    frame.to_csv(tmp_path / "X.csv", index=False)
    assert ucm.open_rows(tmp_path / "X.csv", "label").features == ["a"]


def test_lines_of_csv_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    (X, y), file = samples(60), tmp_path / "X.csv"
    words = np.where(y > 0, "yes", "no")
    for mark, end in ((";", ""), ("\t", "\r\n"), (" ", "\n\n\n" + 70 * "\n")):
        file.write_text(as_csv(X, words, mark).rstrip("\n") + end)
        for block in (1, 7, 60, None):
            table, labels = ucm.open_rows(file, "label", block=block).gather()
            assert np.array_equal(table, X) and np.array_equal(labels, words)
    file.write_bytes(b"\xef\xbb\xbf" + as_csv(X, y, head=False).encode())
    source = ucm.open_rows(file, "last")
    assert source.features is None and np.array_equal(source.gather()[0], X)
    assert np.array_equal(ucm.open_rows(file, "first").gather()[1], X[:, 0])


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ("1,2\n", "got 2"),
        ("1,word,1\n", "'b' of the type (large_)?[Ss]tring"),
        ('1,"2\n3",1\n', "'b' of the type (large_)?[Ss]tring"),
        ("1,,1\n", r"entry \(5, 1\) is nan"),
        ("1,2,\n", "a label for every sample"),
    ],
)
def test_bad_lines_of_csv_files(rows: str, match: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    file = tmp_path / "X.csv"
    file.write_text("a,b,label\n" + 5 * "1,2,-1\n" + rows)
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(MODELS["nu"], ucm.open_rows(file, block=4))


def test_csv_files_without_samples(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.csv")
    file = tmp_path / "X.csv"
    for text, match in (
        ("", "of the format .csv"),
        ("a,b,label\n\n", "0 rows"),
        ("a,label\nred,1\n", "'a' of the type (large_)?[Ss]tring"),
        ("a,a,label\n1,2,1\n", "multiple columns named a"),
    ):
        file.write_text(text)
        with pytest.raises(ucm.DataError, match=match):
            ucm.compile(MODELS["nu"], file)
    file.write_bytes(b"\xff\xfe\n1,2\n")
    with pytest.raises(ucm.DataError, match="UTF-8"):
        ucm.open_rows(file)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ucm.DataError, match=r"of the format \.csv"):
        ucm.open_rows(tmp_path / "folder.csv")


def test_labels_in_files_that_hold_none(tmp_path: Path) -> None:
    X, _ = samples(20)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "y.csv").write_text("1\n-1\n")
    for labels in (tmp_path / "y.csv", tmp_path):
        with pytest.raises(ucm.DataError, match=r"a \.npy file of them"):
            ucm.open_rows(tmp_path / "X.npy", labels)


def test_tables_that_hold_no_samples(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    table = pa.table({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    with pytest.raises(ucm.DataError, match="one label per sample, got shape"):
        ucm.open_rows(table, np.ones((2, 1)))
    twice = pa.table([[1.0], [2.0], [1.0]], names=["a", "a", "y"])
    with pytest.raises(ucm.DataError, match="two named 'a'"):
        ucm.open_rows(twice)
    with pytest.raises(ucm.DataError, match="expected a table of Arrow"):
        ucm.open_rows(pa.array([1.0, 2.0]), np.ones(2))
    empty = table.append_column("y", [[1.0, -1.0]]).slice(0, 0)
    parquet.write_table(empty, tmp_path / "empty.parquet", row_group_size=1)
    with pytest.raises(ucm.DataError):
        ucm.Classifier().fit(tmp_path / "empty.parquet", "y")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X, y: (X, y[:-1]), "expected 500 labels, one per row of X, got 499"),
        (lambda X, y: (X, np.where(y > 0, 2.0, y)), r"labels -1 and \+1 .*, got 2 for sample"),
        (lambda X, y: (X, np.ones(500)), "two classes, got one"),
        (lambda X, y: (X, np.full(500, "a")), "no numbers"),
        (lambda X, y: (X[:0], y[:0]), "0 rows"),
        (lambda X, y: (X[:, :0], y), "expected features"),
        (lambda X, y: (X.astype(str), y), "real numbers"),
        (lambda X, y: (X[:, 0], y), "expected a table"),
        (lambda X, y: (X, None), "expected one label per row"),
    ],
)
def test_bad_input_is_refused(change: Any, match: str) -> None:
    with pytest.raises(ucm.DataError, match=match):
        ucm.solve(MODELS["nu"], blocks(*change(*samples(500))))


def test_a_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    X, y = samples(50_000)
    given = written("npy", tmp_path, X, y)
    source = ucm.open_rows(*given)
    plan = ucm.compile(MODELS["nu"], source)
    os.truncate(given[0], 100_000)
    with pytest.raises(ucm.DataError, match="stays as it is"):
        plan.solve()


@pytest.mark.parametrize("kind", ["npy", "columns"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_shrinks_while_it_is_read_is_refused(
    kind: str, which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = samples(50_000)
    given = written(kind, tmp_path, X, y)
    source = ucm.open_rows(*given)
    monkeypatch.setattr(source, "check", lambda: None)  # as within a pass
    os.truncate(given[which], 5_000)
    with pytest.raises(ucm.DataError, match="stays as it is"):
        ucm.Classifier(MODELS["nu"]).fit(source)


@pytest.mark.parametrize("kind", ["columns", "parquet", "feather", "csv", "hdf5", "zarr"])
def test_a_file_that_changes_is_refused(kind: str, tmp_path: Path) -> None:
    X, y = samples(300)
    given = written(kind, tmp_path, X, y)
    source = ucm.open_rows(*given)
    plan = ucm.compile(MODELS["nu"], source)
    file = next((p for p in Path(given[0]).rglob("c/*/*")), Path(given[0]))
    os.utime(file, ns=(1, 1))
    with pytest.raises(ucm.DataError, match="stays as it is"):
        plan.solve()


@pytest.mark.parametrize("kind", ["npy", "hdf5", "zarr"])
def test_a_file_is_looked_at_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = ucm.open_rows(*written(kind, tmp_path, *samples(30)))
    seen: list[Path] = []

    def signature(path: Path) -> tuple[int, int, int]:
        seen.append(path.resolve())
        return before(path)

    before = array_rows.signature_of
    monkeypatch.setattr(array_rows, "signature_of", signature)
    source.check()
    assert len(seen) == len(set(seen)) > 0


def test_a_file_that_changes_in_the_last_round(tmp_path: Path) -> None:
    X, y = samples(300)
    source = ucm.open_rows(*written("npy", tmp_path, X, y))
    seen = source.read  # type: ignore[attr-defined]

    def read(block: int) -> Any:
        os.utime(tmp_path / "X.npy", ns=(1, 1))
        return seen(block)

    source.read = read  # type: ignore[attr-defined]
    with pytest.raises(ucm.DataError, match="stays as it is"):
        source.gather()


def test_empty_row_groups_and_columns_of_words(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y = samples(400)
    table = pa.table({"label": y, **{f"x{j}": X[:, j] for j in range(4)}})
    path = tmp_path / "X.parquet"
    with parquet.ParquetWriter(path, table.schema) as writer:
        for part in (table.slice(0, 150), table.slice(0, 0), table.slice(150)):
            writer.write_table(part)
    rows = ucm.solve(MODELS["nu"], path)
    assert rows.objective == pytest.approx(ucm.solve(MODELS["nu"], X, y).objective, rel=2e-6)
    words = table.append_column("town", pa.array(["a", "b"] * 200).dictionary_encode())
    parquet.write_table(words, path)
    with pytest.raises(ucm.DataError, match="'town'"):
        ucm.solve(MODELS["nu"], path)
    with pytest.raises(ucm.DataError, match="name of a column"):
        ucm.solve(MODELS["nu"], path, "colour")
    missing = table.set_column(0, "label", pa.array([None, *y[1:]]))
    parquet.write_table(missing, path)
    with pytest.raises(ucm.DataError, match="label for every sample"):
        ucm.solve(MODELS["nu"], path)


def test_a_transformer_of_a_frame_takes_columns_by_name() -> None:
    pd = pytest.importorskip("pandas", reason="needs pandas")
    arrow = pytest.importorskip("pyarrow", reason="needs pip install 'ucm-classifiers[rows]'")
    scaler = importlib.import_module("sklearn.preprocessing").StandardScaler()
    X, y = samples()
    X *= [1.0, 10.0, 100.0, 1000.0]
    scaler.fit(pd.DataFrame(X, columns=list("abcd")))
    mixed = arrow.table({"d": X[:, 3], "b": X[:, 1], "a": X[:, 0], "c": X[:, 2]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of scikit-learn, that blocks have no names
        known = scaler.transform(X)
        rows = ucm.solve(MODELS["nu"], ucm.open_rows(mixed, y).mapped(scaler))
    assert rows.objective == pytest.approx(ucm.solve(MODELS["nu"], known, y).objective, rel=2e-6)
    with pytest.raises(ucm.DataError, match="none named c"):
        ucm.open_rows(mixed.drop_columns(["c"]), y).mapped(scaler)


def test_rows_of_several_lengths_are_refused() -> None:
    with pytest.raises(ucm.DataError, match="one row of numbers per sample, all of one length"):
        ucm.open_rows([[1.0, 2.0], [3.0]], [1, -1])


def table_of(m: int = 300) -> Any:
    pyarrow: Any = pytest.importorskip("pyarrow", reason="needs pip install 'ucm-classifiers[rows]'")
    X, y = samples(m)
    return pyarrow.table(
        {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"grade": y, "id": np.arange(m), "weight": np.ones(m)}
    )


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_an_identifier_is_no_feature(tmp_path: Any, ending: str) -> None:
    """A column whose name says that it is none is refused until it is left out, or named as a feature."""
    table, path = table_of(), tmp_path / f"rows.{ending}"
    write: Any = {
        "parquet": lambda: importlib.import_module("pyarrow.parquet").write_table(table, path),
        "feather": lambda: importlib.import_module("pyarrow.feather").write_feather(table, path),
        "csv": lambda: importlib.import_module("pyarrow.csv").write_csv(table, path),
    }[ending]
    write()
    with pytest.raises(ucm.DataError, match=r"a column named 'id'.*drop=\['id', 'weight'\]"):
        ucm.Classifier(MODELS["nu"]).fit(path, "grade")
    with pytest.raises(ucm.DataError, match=r"a column named 'id'.*drop=\['id'\]"):
        ucm.open_rows(path, "grade", sample_weight="weight")
    features = [f"x{j}" for j in range(4)]
    dropped = ucm.open_rows(path, "grade", drop=["id", "weight"])
    named = ucm.open_rows(path, "grade", columns=features[::-1])
    assert dropped.features == features and named.features == features[::-1]
    assert ucm.open_rows(path, "grade", columns=["id", "x0"]).features == ["id", "x0"]
    clf = ucm.Classifier(MODELS["nu"]).fit(dropped)
    other = ucm.Classifier(MODELS["nu"]).fit(named)
    assert clf.coef_[0, ::-1] == pytest.approx(other.coef_[0], abs=1e-5)
    X, y = dropped.gather()
    right = float((np.sign(X @ clf.coef_[0] + clf.intercept_) == y).mean())
    for score in (clf.score(path, "grade"), clf.score(dropped), other.score(dropped)):
        assert score == pytest.approx(right, abs=0.004)
    assert clf.score(path, "grade", sample_weight="weight") == right == clf.score(path, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["x9"]}, "x9"),
        ({"drop": ["x9"]}, "x9"),
        ({"drop": "id"}, "in a sequence"),
        ({"columns": ["x0"], "drop": ["id"]}, "got both"),
        ({"columns": ["x0", "grade"]}, "'grade' in columns"),
    ],
)
def test_columns_that_are_refused(options: Any, words: str) -> None:
    with pytest.raises(ucm.DataError, match=words):
        ucm.open_rows(table_of(), "grade", **options)


def test_columns_are_of_tables() -> None:
    X, y = samples(100)
    with pytest.raises(ucm.DataError, match="tables with names"):
        ucm.open_rows(X, y, drop=["id"])
    with pytest.raises(ucm.DataError, match="where the source is made"):
        ucm.open_rows(ucm.open_rows(X, y), drop=["id"])


def test_a_folder_of_parquet_files(tmp_path: Any) -> None:
    table = table_of().drop_columns(["id", "weight"])
    parquet: Any = importlib.import_module("pyarrow.parquet")
    for k in range(12):  # part 10 comes after part 2
        parquet.write_table(table.slice(25 * k, 25), tmp_path / f"part.{k}.parquet")
    rows = ucm.open_rows(tmp_path, "grade")
    X, y = rows.gather()
    assert np.array_equal(X[:, 0], table["x0"]) and np.array_equal(y, table["grade"])
    clf = ucm.Classifier(MODELS["nu"]).fit(str(tmp_path), "grade")
    right = np.sign(X @ clf.coef_[0] + clf.intercept_) == y
    assert clf.score(tmp_path, "grade") == right.mean()
    parquet.write_table(table.select(["x1", "grade"]), tmp_path / "part.12.parquet")
    with pytest.raises(ucm.DataError, match=r"part\.12\.parquet: expected the columns of part\.0"):
        ucm.open_rows(tmp_path, "grade")


def test_paths_that_are_no_samples(tmp_path: Any) -> None:
    pytest.importorskip("pyarrow", reason="folders are read by pyarrow, of ucm-classifiers[rows]")
    for X, words in ((tmp_path, "got none"), (tmp_path / "x.txt", "path that ends with")):
        with pytest.raises(ucm.DataError, match=words):
            ucm.Classifier(MODELS["nu"]).fit(X, "grade")
    (tmp_path / "0.parquet").write_bytes(b"")
    with pytest.raises(ucm.DataError, match="Parquet"):
        ucm.compile(MODELS["nu"], tmp_path, "grade")


def test_keys_of_a_partitioned_folder_are_columns(tmp_path: Any) -> None:
    """The keys that Hive writes into the names of folders are columns: of groups, or left out."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pip install 'ucm-classifiers[rows]'")
    table = table_of().drop_columns(["id", "weight"])
    days = np.arange(300) // 100
    parquet.write_to_dataset(table.append_column("day", [days]), tmp_path, partition_cols=["day"])
    X, y = samples(300)
    kinds: list[dict[str, Any]] = [{"drop": ["day"]}, {"subgroup": "day"}]
    for options in kinds:
        rows = ucm.open_rows(tmp_path, "grade", block=40, **options)
        assert rows.features == [f"x{j}" for j in range(4)] and np.array_equal(rows.gather()[0], X)
    model = ucm.ReducedHull(pos.group(1), eta=0.1) - ucm.ReducedHull(neg, nu=0.3)
    memory, rows = (
        ucm.solve(model, X, y, subgroup=days),
        ucm.open_rows(tmp_path, "grade", subgroup="day"),
    )
    assert ucm.solve(model, rows).objective == pytest.approx(memory.objective, rel=2e-6)
    assert ucm.open_rows(tmp_path, "grade").gather()[0][:, 4].tolist() == days.tolist()


def test_folds_are_stratified_and_share_the_rows() -> None:
    X, y = samples(1000)
    folds = blocks(X, y, 90).split(4)
    parts = [test.gather() for _, test in folds]
    assert sorted(map(tuple, np.vstack([p[0] for p in parts]))) == sorted(map(tuple, X))
    for (train, test), (A, labels) in zip(folds, parts, strict=True):
        assert test.m == labels.size and train.m + test.m == 1000
        assert abs((labels > 0).mean() - (y > 0).mean()) < 0.03
        other = train.gather()[0]
        assert not {*map(tuple, other)} & {*map(tuple, A)} and other.shape[0] == train.m
    sizes = [test.m for _, test in blocks(X, y, 5).split(4)]  # of few rows of a label each
    assert min(sizes) >= 200 and max(sizes) <= 300
    with pytest.raises(ucm.ParameterError, match="from 2 on"):
        blocks(X, y).split(1)
    with pytest.raises(ucm.DataError, match="take fewer folds"):
        blocks(X[:3], y[:3]).split(4)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_in_memory_is_a_table_with_names(library: str) -> None:
    """Columns are chosen, missing and refused as those of a table of Arrow are."""
    frames = pytest.importorskip(library, reason=f"needs {library}")
    X, y = samples(200)
    X[3, 1] = np.nan
    words, weights = np.where(y > 0, "yes", "no"), np.arange(200) % 3 + 1.0
    columns = {
        "a": X[:, 0],
        "label": words,
        "b": X[:, 1],
        "c": np.arange(200),
        "d": X[:, 2] > 0,
        "w": weights,
    }
    frame = frames.DataFrame(columns)
    source = ucm.open_rows(frame, "label", sample_weight="w", block=64)
    table, labels = source.gather()[:2]
    assert source.features == ["a", "b", "c", "d"] and source.tags == ("weight",)
    np.testing.assert_array_equal(table, np.column_stack([columns[name] for name in "abcd"]))
    assert np.array_equal(labels, words)
    assert ucm.open_rows(frame, columns=["b", "a"], block=7).n == 2
    named = ucm.open_rows(frame, y, drop=["label", "b", "c"], sample_weight="w")
    by_name = ucm.Classifier(ucm.models.nu_svm(0.4)).fit(named)
    moved = ucm.open_rows(frame[["d", "w", "a"]], y, sample_weight="w")
    assert by_name.score(moved) == by_name.score(named)
    with pytest.raises(ucm.DataError, match=r"real numbers, got 'label' of the type (String|Object)"):
        ucm.open_rows(frame, y, columns=["a", "label"])
    with pytest.raises(ucm.DataError, match="label for every sample, got none in column 'label'"):
        ucm.open_rows(frames.DataFrame({"a": [1.0, 2.0], "label": ["yes", None]}))
