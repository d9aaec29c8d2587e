"""Reading LIBSVM and CSV files, and data sets by name."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import ucm.data.datasets
from ucm.data.files import read
from ucm.errors import DataError

Write = Callable[..., Path]
LIBSVM = "+1 1:0.5 3:-2\n-1 2:1e-3\n\n# a comment\n+1\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str | bytes, name: str = "table") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# --- what is read -----------------------------------------------------------------------------
def test_a_libsvm_file_is_read(write: Write) -> None:
    X, y, *_ = read(write(LIBSVM))
    assert sparse.issparse(X)
    assert X.toarray().tolist() == [[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0]]
    assert y.tolist() == [1, -1, 1]


def test_libsvm_whose_first_rows_are_empty(write: Write) -> None:
    X, y, *_ = read(write("1\n-1\n1 2:3\n"))
    assert X.toarray().tolist() == [[0, 0], [0, 0], [0, 3]]
    assert y.tolist() == [1, -1, 1]


def test_libsvm_as_written_by_scikit_learn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((30, 7), density=0.4, rng=rng, format="csr")
    y = rng.choice([-1.0, 1.0], size=30)
    path = tmp_path / "written"
    dump_svmlight_file(X, y, str(path), zero_based=False, comment="by scikit-learn")
    again, labels, *_ = read(path)
    np.testing.assert_allclose(again.toarray(), X.toarray()[:, : again.shape[1]], rtol=1e-12)
    np.testing.assert_array_equal(labels, y)


SUFFIX: dict[Any, str] = {gzip.compress: ".gz", bz2.compress: ".bz2"}


@pytest.mark.parametrize("compress", SUFFIX)
def test_a_compressed_file_is_read(write: Write, compress: Any) -> None:
    X, y, *_ = read(write(compress(LIBSVM.encode()), f"table{SUFFIX[compress]}"))
    assert X.shape == (3, 3)
    assert y.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("text", "label", "X", "y"),
    [
        ("1,2,-1\n3,4,1\n5,6,1\n", None, [[1, 2], [3, 4], [5, 6]], [-1, 1, 1]),
        ("-1,1,2\n1,3,4\n1,5,6\n", None, [[1, 2], [3, 4], [5, 6]], [-1, 1, 1]),
        ("0,1,1\n1,0,0\n", "first", [[1, 1], [0, 0]], [0, 1]),
        ("0,1,1\n1,0,0\n", "last", [[0, 1], [1, 0]], [1, 0]),
        ("a,b,c\n1,0,7\n2,1,8\n", "b", [[1, 7], [2, 8]], [0, 1]),
        ("a,Class,c\n1,0,7\n2,1,8\n", None, [[1, 7], [2, 8]], [0, 1]),
        ("a;b;c\n1;M;7\n2;B;8\n", None, [[1, 7], [2, 8]], ["M", "B"]),
        ("1\t2\tx\n3\t4\ty\n", None, [[1, 2], [3, 4]], ["x", "y"]),
        ("1  2   -1\n 3 4 1\n5 6 1 \n", None, [[1, 2], [3, 4], [5, 6]], [-1, 1, 1]),
        ('"1","2","a, b"\n"3","4","c"\n', None, [[1, 2], [3, 4]], ["a, b", "c"]),
        (
            "# made by hand\r\n1, 2, -1\r\n3, 4, 1\r\n5, 6, 1",
            None,
            [[1, 2], [3, 4], [5, 6]],
            [-1, 1, 1],
        ),
        ("\ufeff1,2,a\n3,4,b\n", None, [[1, 2], [3, 4]], ["a", "b"]),
    ],
)
def test_a_csv_file_is_read(write: Write, text: str, label: Any, X: Any, y: Any) -> None:
    samples, labels, *_ = read(write(text), label=label)
    assert samples.dtype == np.float64
    assert samples.tolist() == X
    assert labels.tolist() == y


@pytest.mark.parametrize("zero_based", [True, False])
def test_indices_from_0_or_from_1(tmp_path: Path, zero_based: bool) -> None:
    X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]])
    dump_svmlight_file(X, [1, -1], str(tmp_path / "written"), zero_based=zero_based)
    assert np.array_equal(read(tmp_path / "written")[0].toarray(), X)


def test_an_empty_compressed_file_is_refused(write: Write) -> None:
    for compress, suffix in SUFFIX.items():
        with pytest.raises(DataError, match="the file is empty"):
            read(write(compress(b""), f"table{suffix}"))


def test_a_name_with_a_nul() -> None:
    with pytest.raises(DataError, match=r"cannot be read .*null"):
        read("a\0b")


# --- what is refused --------------------------------------------------------------------------
def _damaged() -> bytes:
    """A gzip file with a byte in its middle changed: the stream itself breaks, not its checksum."""
    numbers = np.random.default_rng(0).standard_normal(600)
    rows = "".join(f"1 1:{a} 2:{b}\n" for a, b in numbers.reshape(-1, 2))
    content = bytearray(gzip.compress(rows.encode()))
    for k in range(len(content) // 2, len(content)):
        content[k] ^= 0xFF
        try:
            gzip.decompress(bytes(content))
        except zlib.error:
            return bytes(content)
        except (OSError, EOFError):
            pass
    raise AssertionError("no byte breaks the stream")


DAMAGED = _damaged()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("\n \n# only a comment\n", "empty"),
        (b"\x00\x01\x02\xff", "line 1: not UTF-8"),
        (b"1,2\n3,\xff\xfe\n", "line 2: not UTF-8"),
        ("1 1:2\n-1 1:x\n", "line 2: expected 'label index:value ...'"),
        ("1 1:2\n-1 1:nan\n", "(NaN or inf)"),
        ("1 1:2\n\n# none\n-1 1:1e999\n", "line 4: expected 'label"),
        ("1 1:2\nhello 1:3\n", "line 2: expected 'label"),
        ("1:2 2:3\n1:4 2:5\n", "line 1: expected 'label"),
        ("1 1:2 1:3\n", "line 1: expected 'label"),
        ("1 1:2\n1 2147483648:3\n", "line 2: expected 'label"),
        ("1 1:2\n1 99999999999999999999:3\n", "line 2: expected 'label"),
        ("1 1:2\n1 3:1 2:1\n", "sorted and unique"),
        ("1 1:2\n1 2\n", "line 2: expected 'label"),
        ("a,b\n", "a header and no rows"),
        (
            ",a,label\n0,1.5,1\n1,2.5,-1\n",
            "none for column 1 of the header; name it, or, if it is the index",
        ),
        ("a,,label\n0,1.5,1\n1,2.5,-1\n", "none for column 2 of the header"),
        ("1\n2\n3\n", "one column only"),
        ("1,2,-1\n3,4\n5,6,1\n", "line 2: 2 values, the first row has 3"),
        ("a,b,label\n1,2,x\n\n3,oops,y\n", "line 4, b: 'oops' is no finite number"),
        ("1,2,-1\n3,,1\n5,6,1\n", "line 2, column 2: the value is missing"),
        ("1,inf,-1\n3,2,1\n5,6,1\n", "line 1, column 2: 'inf' is no finite number"),
        ("a,b,label\n1,2,x\n3,4,\n", "line 3: the label is missing"),
        ("1,2,3\n4,5,6\n7,8,9\n", "neither holds two values"),
        ("0,5,1\n1,6,0\n1,7,0\n", "both hold two values"),
        ('1,"2,3\n4,5,6\n', "line 2: unexpected end of data"),
    ],
)
def test_an_error_in_a_file_names_the_line(write: Write, content: Any, says: str) -> None:
    path = write(content)
    with pytest.raises(DataError) as caught:
        read(path)
    message = str(caught.value)
    assert says in message
    assert message.startswith(str(path))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\x1f\x8b\x08\x00broken", "table.gz"),
        (b"BZh91AY&SYbroken", "table.bz2"),
        (bz2.compress(b"1 1:2\n-1 1:3\n" * 99)[:-9], "table.bz2"),
        (DAMAGED, "table.gz"),
        (b"1 1:2\n", "table.gz"),
    ],
)
def test_a_damaged_compressed_file_is_refused(write: Write, content: bytes, name: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read(write(content, name))


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read(tmp_path / "nothing")
    with pytest.raises(DataError, match="Is a directory"):
        read(tmp_path)


def test_label_of_the_wrong_name(write: Write) -> None:
    with pytest.raises(DataError, match="no column named 'z'; the header has a, b"):
        read(write("a,b\n1,2\n3,4\n"), label="z")
    with pytest.raises(DataError, match="no header"):
        read(write("1,2\n3,4\n"), label="z")
    with pytest.raises(DataError, match="labels first"):
        read(write(LIBSVM), label="last")


# --- data sets by name ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "shape"),
    [("breast_cancer", (569, 30)), ("wine", (130, 13)), ("iris", (100, 4)), ("digits", (357, 64))],
)
def test_bundled_sets_are_standardised(name: str, shape: tuple[int, int]) -> None:
    X, y = ucm.datasets.load(name)
    assert X.shape == shape
    assert set(y.tolist()) == {-1, 1}
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    spread = X.std(axis=0)
    np.testing.assert_allclose(spread[spread > 0], 1, rtol=1e-12)


def test_a_custom_folder_of_data_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.array([[1, 2], [3, 4]], dtype=np.int8)
    S = sparse.csr_matrix(X)
    np.savez(tmp_path / "dense.npz", X=X, y=np.array([1, -1]))
    np.savez(
        tmp_path / "rows.npz",
        data=S.data,
        indices=S.indices,
        indptr=S.indptr,
        shape=np.array(S.shape),
        y=[1, -1],
    )
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    monkeypatch.setenv("UCM_DATA", str(tmp_path))
    assert {"dense", "rows", "wine"} <= set(ucm.datasets.names())
    assert ucm.datasets.load("dense")[0].tolist() == X.tolist()
    assert ucm.datasets.load("rows")[0].toarray().tolist() == X.tolist()
    with pytest.raises(DataError, match=r"broken\.npz: no data set"):
        ucm.datasets.load("broken")
    with pytest.raises(DataError, match="no such file"):
        ucm.datasets.read_npz(tmp_path / "missing.npz")
    monkeypatch.setenv("UCM_DATA", str(tmp_path / "missing"))
    with pytest.raises(DataError, match=r"UCM_DATA: .* is no folder"):
        ucm.datasets.names()


def test_an_unknown_set_names_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"'nothing': not known; known are .*wine.*UCM_DATA"):
        ucm.datasets.load("nothing")


def test_openml_without_network_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UCM_DATA", raising=False)
    rng = np.random.default_rng(0)
    X = rng.uniform(3, 9, size=(208, 60))
    X[:, 5] = 7.0
    target = np.array(["Rock"] * 97 + ["Mine"] * 111)
    answers: list[Any] = [(X, target)]

    def fetch_openml(**_: Any) -> Any:
        answer = answers.pop()
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    scaled, y = ucm.datasets.load("sonar")
    assert y.tolist() == [1] * 97 + [-1] * 111
    np.testing.assert_allclose(np.delete(scaled, 5, axis=1).max(axis=0), 1)
    np.testing.assert_allclose(np.delete(scaled, 5, axis=1).min(axis=0), -1)
    assert not scaled[:, 5].any()
    answers.append(OSError("no network"))
    with pytest.raises(DataError, match=r"OpenML did not answer .no network.*UCM_DATA"):
        ucm.datasets.load("sonar")


def test_the_papers_sets_have_their_sizes(shared_data: Any) -> None:
    X, y = shared_data("heart")
    assert X.shape == (270, 13)
    assert (y == 1).sum() == 120
