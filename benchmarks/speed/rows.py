"""Out-of-core data: passes, memory, time, growth with the number of samples, a cluster."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Part, Row, fresh, in_turns, missing, timed
from benchmarks.judge import GAP
from benchmarks.speed.cluster import beside_memory, kills
from ucm.compiler.compile import solve
from ucm.data import datasets
from ucm.data.readers import open_rows
from ucm.data.source import RowSource
from ucm.errors import DataError
from ucm.language.models import nu_svm
from ucm.solvers import ActiveSet

__all__ = ["PARTS"]

# a share of the largest nu, at which 0 lies outside of the hulls
SHARES = {
    "a9a": 0.9, "skin-nonskin": 0.9, "cod-rna": 0.8, "w8a": 0.9, "ijcnn1": 0.98, "covtype-sub": 0.8,
    "synthetic": 0.6, "heavy tails": 0.9, "sorted": 0.6,
}  # fmt: skip
SEEDS, READS, SAME = 3, 6, 2e-6
MEMORY = 2**30  # bytes
BIG = (10_000_000, 50)  # rows and features
CAP = 1536 * 2**20  # bytes of private data
LOCAL, RATIO, TWO = (2_000_000, 20), 0.35, 0.65
GROWTH = 1.2
PARQUET, FILES = (5_000_000, 20), 6


def drawn(m: int, n: int, seed: int, kind: str = "synthetic") -> tuple[Any, Any]:
    """Normal samples of two classes, 40 % of them of class +1; with heavy tails, or sorted by class."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < 0.4, 1.0, -1.0)
    if kind == "sorted":
        y.sort()
    X = rng.standard_normal((m, n))
    X[:, 0] += 1.2 * y
    if kind == "heavy tails":
        X *= np.abs(rng.standard_t(2.0, (m, 1)))
    return X, y


def _set(name: str, seed: int) -> tuple[Any, Any]:
    if name in ("synthetic", "heavy tails", "sorted"):
        return drawn(400_000, 20, seed, name)
    X, y = datasets.load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], np.asarray(y, dtype=np.float64)[order]


def passes(sets: Sequence[str] = tuple(SHARES), repeats: int = SEEDS) -> Iterator[Row]:
    """Passes over out-of-core data until the gap is at most 1e-6, beside the solver in memory.

    `within`: at most 6 passes, and the same objective.
    """
    for name in sets:
        for seed in range(repeats):
            try:
                X, y = _set(name, seed)
            except DataError as error:
                yield {"set": name, "note": missing(error, name), "within": None}
                break
            nu = SHARES[name] * 2.0 * min((y > 0).sum(), (y < 0).sum()) / len(y)
            found = solve(nu_svm(nu), open_rows(X, y))
            other = solve(nu_svm(nu), X, y, solver=ActiveSet())
            gap, apart = found.certificate.relative_gap, found.objective / other.objective - 1.0
            row = {
                "set": name, "seed": seed, "m": X.shape[0], "n": X.shape[1], "nu": nu, "status": found.status,
                "gap": gap, "reads": found.stats.reads, "objective, relative to solve": apart,
            }  # fmt: skip
            within = found.status == "optimal" and found.stats.reads <= READS and abs(apart) <= SAME
            yield {**row, "within": within}


def _written(path: Path, m: int, n: int, dtype: str) -> None:
    """Rows in a file, a part at a time."""
    X = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(m, n))
    y = np.lib.format.open_memmap(path.with_suffix(".y.npy"), mode="w+", dtype=np.int8, shape=(m,))
    for seed, at in enumerate(range(0, m, 100_000)):
        part, labels = drawn(min(100_000, m - at), n, seed)
        X[at : at + len(part)], y[at : at + len(part)] = part, labels
        X.flush()


_FRESH = """
import resource, time
resource.setrlimit(resource.RLIMIT_DATA, ({cap}, {cap}))
import numpy as np, ucm
ucm.solve(ucm.models.nu_svm(0.6), *ucm.datasets.load("breast_cancer"))
start = time.process_time()
found = ucm.solve(ucm.models.nu_svm(0.5), {path!r}, {labels!r})
seconds = time.process_time() - start
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(seconds, peak,
      int(found.status == "optimal"), found.certificate.relative_gap, found.stats.reads)
"""


def memory() -> Iterator[Row]:
    """Peak memory for a file of 10,000,000 samples with 50 features.

    The process has a limit of 1.5 GiB of private memory. The file takes 4 GB in the folder of temporary
    files. `within`: optimal, with a peak of at most 1 GiB and at most 4 passes.
    """
    m, n = BIG
    for dtype in ("float64", "float32"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "X.npy"
            _written(path, m, n, dtype)
            labels = path.with_suffix(".y.npy")
            code = _FRESH.format(cap=CAP, path=str(path), labels=str(labels))
            seconds, peak, proven, gap, reads = fresh(code)
        row = {
            "type": dtype, "rows": m, "features": n, "status": "optimal" if proven else "not", "gap": gap,
            "reads": reads, "peak, GiB": peak / 2**20, "seconds of the processor": seconds,
        }  # fmt: skip
        yield {**row, "within": bool(proven) and 1024 * peak <= MEMORY and reads <= 4}


def local(repeats: int = 3) -> Iterator[Row]:
    """Time of block-wise passes over 2,000,000 samples in memory, beside the active-set solver.

    `within`: at most 0.35 of its processor seconds; and on two threads at most 0.65 of the seconds of one.
    """
    X, y = drawn(*LOCAL, 0)
    model = nu_svm(0.5)
    ways = {
        "auto": partial(solve, model, X, y),
        "hulls": partial(solve, model, X, y, solver=ActiveSet()),
    }
    runs = in_turns(ways, repeats, clock=time.process_time)
    ours, theirs = runs["auto"].least, runs["hulls"].least
    yield {
        "what": "processor", "seconds": ours, "in memory": theirs, "ratio": ours / theirs, "limit": RATIO,
        "within": ours <= RATIO * theirs,
    }  # fmt: skip
    ways = {f"{k}": partial(solve, model, open_rows(X, y, threads=k)) for k in (1, 2)}
    runs = in_turns(ways, repeats)
    one, two = runs["1"].least, runs["2"].least
    yield {
        "what": "clock, two threads", "seconds": two, "in memory": one, "ratio": two / one, "limit": TWO,
        "within": two <= TWO * one,
    }  # fmt: skip


def growth() -> Iterator[Row]:
    """Time for each sample of 100,000, 1,000,000 and 10,000,000 samples with 10 features.

    `within`: at most 1.2 times the time for each sample of the smaller data, and no more passes.
    """
    before: tuple[float, int] | None = None
    for m in (100_000, 1_000_000, 10_000_000):
        source: RowSource = open_rows(*drawn(m, 10, 0), threads=1)
        solve(nu_svm(0.5), source)
        found, seconds = timed(partial(solve, nu_svm(0.5), source), time.process_time)
        each, reads = 1e6 * seconds / m, found.stats.reads
        row = {
            "rows": m, "seconds of the processor": seconds, "seconds / 1e6 rows": each, "reads": reads,
            "gap": found.certificate.relative_gap,
        }  # fmt: skip
        proven = found.certificate.relative_gap <= GAP
        within = proven and (before is None or (each <= GROWTH * before[0] and reads <= before[1]))
        before = each, reads
        yield {**row, "within": within}


_SEARCH = """
import time, ucm
rows = ucm.open_rows({folder!r}, "label")
classifier = ucm.Classifier(ucm.models.nu_svm(0.6))
ucm.Classifier(ucm.models.nu_svm(0.6)).fit(*ucm.datasets.load("breast_cancer"))
start = time.perf_counter()
classifier.fit(rows)
one = time.perf_counter() - start
start = time.perf_counter()
search = ucm.ClassifierCV(classifier, param_range=[0.55, 0.6, 0.65, 0.7, 0.75], cv=2).fit(rows)
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(one, time.perf_counter() - start, peak, search.best_score_)
"""


def folds(repeats: int = 3) -> Iterator[Row]:
    """Time and memory of `ClassifierCV` on Parquet files of 5,000,000 samples with 20 features.

    Five values of nu, two folds, and the fit to all samples. The files take 0.5 GB in the folder of temporary
    files. `within`: at most 3 times the seconds of one fit, and at most 2 GiB.
    """
    import pyarrow as pa
    from pyarrow import parquet

    m, n = PARQUET
    with tempfile.TemporaryDirectory() as folder:
        for part in range(FILES):
            X, y = drawn(m // FILES, n, part)
            columns = {f"x{j}": x for j, x in enumerate(np.asarray(X.T, dtype=np.float32))}
            labels = np.where(y > 0.0, "click", "none")
            parquet.write_table(pa.table({**columns, "label": labels}), Path(folder) / f"{part}.parquet")
        runs = [fresh(_SEARCH.format(folder=folder)) for _ in range(repeats)]
    one, every = (min(run[k] for run in runs) for k in (0, 1))
    peak = max(run[2] for run in runs)
    yield {
        "rows": m, "features": n, "one fit, s": one, "search, s": every, "ratio": every / one,
        "peak, GiB": peak / 2**20, "accuracy": runs[0][3],
        "within": every <= 3.0 * one and 1024 * peak <= 2 * 2**30,
    }  # fmt: skip


PARTS: dict[str, Part] = {
    "passes": passes,
    "memory": memory,
    "local": local,
    "growth": growth,
    "search": folds,
    "dask": beside_memory,
    "kill": kills,
}
