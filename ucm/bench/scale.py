"""Rows that are read block by block: passes, memory, time, accuracy, growth, grids."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ucm.bench.clock import fresh, in_turns, timed
from ucm.bench.cluster import beside_memory, kills
from ucm.bench.data import missing
from ucm.bench.judge import GAP
from ucm.bench.registry import COURSE, Benchmark, Row, columns
from ucm.compiler.compile import solve
from ucm.data import datasets
from ucm.data.source import RowSource
from ucm.data.stored import row_source
from ucm.errors import DataError
from ucm.estimators import Classifier, ClassifierCV
from ucm.language.models import mm_fda, mm_mpm, nu_svm, psvm
from ucm.solvers import NewtonHull

__all__ = ["BENCHMARK"]

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
EXACT, GROWTH = 1e-12, 1.2
VALUES, FOLDS, FASTER = 20, 5, 1.6
SENT_ONCE = 10_000  # bytes of an array, from which on joblib writes it to a memory map
_passes = columns(
    "set", "seed", "m", "n", "nu", "status", "gap", "reads", "objective, relative to solve"
)
_memory = columns(
    "type", "rows", "features", "status", "gap", "reads", "peak, GiB", "seconds of the processor"
)
_local = columns("what", "seconds", "in memory", "ratio", "limit")
_moments = columns("model", "mean", "objective", "difference, relative")
_grid = columns("grid", "of", "seconds", "one process", "times as fast", "limit")
_growth = columns("rows", "seconds of the processor", "seconds / 1e6 rows", "reads", "gap")


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


def passes(quick: bool = False) -> Iterator[Row]:
    """How often all rows are read until the optimum is proven at 1e-6: at most 6 times; the objective is that
    of the route in memory."""
    for name in COURSE.over(SHARES):
        for seed in range(1 if quick else SEEDS):
            try:
                X, y = _set(name, seed)
            except DataError as error:
                yield {"set": name, "note": missing(error, name), "within": None}
                break
            nu = SHARES[name] * 2.0 * min((y > 0).sum(), (y < 0).sum()) / len(y)
            found = solve(nu_svm(nu), row_source(X, y))
            other = solve(nu_svm(nu), X, y, solver=NewtonHull())
            gap, apart = found.certificate.relative_gap, found.objective / other.objective - 1.0
            row = _passes(name, seed, *X.shape, nu, found.status, gap, found.stats.reads, apart)
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


def memory(quick: bool = False) -> Iterator[Row]:
    """A file of 1e7 x 50 under a limit of 1.5 GiB of private data, in a process of its own: proven, at most
    1 GiB at its peak and 4 passes. The file lies in the folder of temporary files, and takes 4 GB."""
    m, n = (200_000, 50) if quick else BIG
    for dtype in COURSE.over(("float64", "float32")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "X.npy"
            _written(path, m, n, dtype)
            labels = path.with_suffix(".y.npy")
            code = _FRESH.format(cap=CAP, path=str(path), labels=str(labels))
            seconds, peak, proven, gap, reads = fresh(code)
        row = _memory(
            dtype, m, n, "optimal" if proven else "not", gap, reads, peak / 2**20, seconds
        )
        yield {**row, "within": bool(proven) and 1024 * peak <= MEMORY and reads <= 4}


def local(quick: bool = False) -> Iterator[Row]:
    """2e6 x 20 in memory: seconds of the processor beside the route of two hulls, at most .35 of them; and of
    the clock on two threads beside one, at most .65."""
    X, y = drawn(*((100_000, 20) if quick else LOCAL), 0)
    model, repeats = nu_svm(0.5), COURSE.repeats(3)
    ways = {
        "auto": partial(solve, model, X, y),
        "hulls": partial(solve, model, X, y, solver=NewtonHull()),
    }
    runs = in_turns(ways, repeats, clock=time.process_time)
    ours, theirs = runs["auto"].least, runs["hulls"].least
    yield {
        **_local("processor", ours, theirs, ours / theirs, RATIO),
        "within": ours <= RATIO * theirs,
    }
    ways = {f"{k}": partial(solve, model, row_source(X, y, threads=k)) for k in (1, 2)}
    runs = in_turns(ways, repeats)
    one, two = runs["1"].least, runs["2"].least
    yield {**_local("clock, two threads", two, one, two / one, TWO), "within": two <= TWO * one}


def moments() -> Iterator[Row]:
    """MM-MPM and MM-FDA in one pass, beside those of the centred samples in memory, to 1e-12."""
    X, y = drawn(100_000, 20, 0)
    for mean in COURSE.over((0.0, 1e3, 1e6)):
        far = X + mean
        for name, model in (("MM-MPM", mm_mpm(0.5)), ("MM-FDA", mm_fda(0.5))):
            found, other = solve(model, row_source(far, y)), solve(model, far - mean, y)
            apart = abs(found.objective / other.objective - 1.0)
            yield {**_moments(name, mean, found.objective, apart), "within": apart <= EXACT}


def growth(quick: bool = False) -> Iterator[Row]:
    """Rows ten times as many: at most 1.2 times as long a row, and passes that do not grow. 10 features."""
    before: tuple[float, int] | None = None
    for m in COURSE.over((100_000, 1_000_000, 10_000_000)):
        source: RowSource = row_source(*drawn(m, 10, 0), threads=1)
        solve(nu_svm(0.5), source)
        found, seconds = timed(partial(solve, nu_svm(0.5), source), time.process_time)
        each, reads = 1e6 * seconds / m, found.stats.reads
        row = _growth(m, seconds, each, reads, found.certificate.relative_gap)
        proven = found.certificate.relative_gap <= GAP
        within = proven and (before is None or (each <= GROWTH * before[0] and reads <= before[1]))
        before = each, reads
        yield {**row, "within": within}


def grid(quick: bool = False) -> Iterator[Row]:
    """20 values in 5 folds of a9a, seconds of the clock: `GridSearchCV` on two processes that are there,
    samples and folds sent once, at least 1.6 times as fast as on one; `ClassifierCV`, also on two threads."""
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV

    X, y = datasets.load("a9a")
    nus = np.linspace(0.75, 0.98, VALUES) * 2.0 * min((y > 0).sum(), (y < 0).sum()) / len(y)
    models: tuple[Any, ...] = (
        ("nu", nu_svm(0.4), nus),
        ("C", psvm(2.0, 0.1), np.geomspace(0.01, 10.0, VALUES)),
    )
    for name, model, values in COURSE.over(models):
        clf = Classifier(model)

        def searched(jobs: int, clf: Any = clf, name: str = name, values: Any = values) -> Any:
            with parallel_config(backend="loky", n_jobs=jobs, max_nbytes=SENT_ONCE):
                return GridSearchCV(clf, {f"model__{name}": values}, cv=FOLDS, refit=False).fit(
                    X, y
                )

        inside = partial(ClassifierCV, model, param=name, values=values, cv=FOLDS)
        ways = {
            "one": partial(searched, 1),
            "two": partial(searched, 2),
            "inside": lambda inside=inside: inside().fit(X, y),
            "threads": lambda inside=inside: inside(n_jobs=2).fit(X, y),
        }
        runs = {way: run.least for way, run in in_turns(ways, COURSE.repeats(3)).items()}
        times = runs["one"] / runs["two"]
        row = _grid("GridSearchCV, 2 processes", name, runs["two"], runs["one"], times, FASTER)
        yield {**row, "within": times >= FASTER}
        for way, what in (("inside", "ClassifierCV"), ("threads", "ClassifierCV, 2 threads")):
            times = runs["one"] / runs[way]
            yield {**_grid(what, name, runs[way], runs["one"], times, None), "within": None}


BENCHMARK = Benchmark(
    "scale",
    "rows that are read block by block: passes, memory, time, a cluster, grids",
    {
        "passes": passes,
        "memory": memory,
        "local": local,
        "moments": moments,
        "growth": growth,
        "dask": beside_memory,
        "kill": kills,
        "grid": grid,
    },
)
