"""The projection onto the capped simplex beside a sort of the same vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ucm.bench.clock import in_turns
from ucm.bench.registry import Benchmark, Row, columns
from ucm.language.domains import CappedSimplex

__all__ = ["BENCHMARK"]

SIZE = 1_000_000
FACTOR = 2.0
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


BENCHMARK = Benchmark("projection", "capped simplex, 1e6 entries, beside np.sort", {"rows": rows})
