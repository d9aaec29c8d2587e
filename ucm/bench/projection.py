"""The projection onto the capped simplex: beside a sort of the same vector, and Table 2 of Ito, Takeda and
Toh (2015)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ucm.bench.clock import in_turns, timed
from ucm.bench.registry import COURSE, Benchmark, Row, columns
from ucm.language.domains import CappedSimplex
from ucm.numerics import bisected, by_breakpoints

__all__ = ["BENCHMARK"]

SIZE = 1_000_000
FACTOR = 2.0
TRIALS = 20
# Table 2, milliseconds: breakpoint search, bisection
PRINTED = {
    (100_000, 10): (8.3, 4.9),
    (100_000, 1000): (9.0, 5.5),
    (1_000_000, 10): (94.2, 49.9),
    (1_000_000, 1000): (99.1, 53.4),
}
_row = columns("vector", "cap", "np.sort, s", "project, s", "ratio", "within")


def rows() -> Iterator[Row]:
    """Both times for vectors and caps of several kinds; at most 2 sorts each."""
    rng = np.random.default_rng(0)
    vectors = {
        "normal": rng.standard_normal(SIZE),
        "uniform": rng.random(SIZE),
        "near the answer": (1.0 + 0.1 * rng.standard_normal(SIZE)) / SIZE,
    }
    out = np.empty(SIZE)
    for kind, v in vectors.items():
        for factor in (1.5, 3.0, 100.0):
            project = partial(CappedSimplex(factor / SIZE).project, v, out=out)
            works: dict[str, Callable[[], object]] = {"sort": partial(np.sort, v), "ours": project}
            runs = in_turns(works, 7)
            theirs, ours = runs["sort"].median, runs["ours"].median
            within = ours <= FACTOR * theirs
            yield _row(kind, factor / SIZE, theirs, ours, ours / theirs, within)


def table_2() -> Iterator[Row]:
    """Milliseconds of the nu-SVM's projection, nu = .5, of 20 uniform vectors: by bisection and by breakpoint
    search as the paper has them, compiled here, and by the root of this library. `within`: all three agree to
    1e-12 of the range, and ours takes no longer than bisection."""
    for m, top in COURSE.over(PRINTED):
        y = np.where(np.arange(m) < m // 2, 1.0, -1.0)
        cap, half, generator = 2.0 / m, m // 2, np.random.default_rng(0)
        seconds: dict[str, list[float]] = {"breakpoints": [], "bisection": [], "ours": []}
        apart = 0.0
        for k in range(COURSE.repeats(TRIALS)):
            v = generator.uniform(0.0, top, m)
            parts = v[:half].copy(), v[half:].copy()
            works: dict[str, Callable[[], np.ndarray]] = {
                "breakpoints": partial(_search, parts, cap, k),
                "bisection": partial(_search, parts, cap, None),
                "ours": partial(CappedSimplex(cap).project, v, classes=y),
            }
            found = {}
            for name, work in works.items():
                found[name], taken = timed(work, time.process_time)
                seconds[name].append(1e3 * taken)
            apart = max(apart, *(float(np.abs(q - found["ours"]).max()) for q in found.values()))
        means = {name: float(np.mean(each)) for name, each in seconds.items()}
        row: Row = {"m": m, "range": f"[0, {top}]"}
        for name, printed in zip(("breakpoints", "bisection"), PRINTED[m, top], strict=True):
            row |= {f"{name}, ms": means[name], f"deviation, {name}": float(np.std(seconds[name]))}
            row |= {f"printed, {name}": printed}
        near = apart <= 1e-12 * top and means["ours"] <= means["bisection"]
        yield {**row, "ours, ms": means["ours"], "apart": apart, "within": near}


def _search(parts: tuple[np.ndarray, ...], cap: float, seed: int | None) -> np.ndarray:
    """The projection class by class: by breakpoint search with random pivots, or by bisection."""
    found = []
    for v in parts:
        theta = bisected(v, cap, 0.5) if seed is None else by_breakpoints(v, cap, 0.5, seed)
        found.append(np.clip(v - theta, 0.0, cap))
    return np.concatenate(found)


BENCHMARK = Benchmark(
    "projection",
    "the capped simplex beside np.sort, and Table 2 of Ito, Takeda and Toh (2015)",
    {"rows": rows, "table 2": table_2},
)
