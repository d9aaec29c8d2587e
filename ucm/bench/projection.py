"""The projection onto the capped simplex beside a sort of the same vector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ucm.bench.clock import median_time
from ucm.language.domains import CappedSimplex

__all__ = ["rows"]

SIZE = 1_000_000
FACTOR = 2.0


def rows() -> Iterator[dict[str, Any]]:
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
            domain = CappedSimplex(factor / SIZE)
            sort = median_time(lambda v=v: np.sort(v), 7)
            project = median_time(lambda v=v, d=domain: d.project(v, out=out), 7)
            yield {
                "vector": kind,
                "cap": factor / SIZE,
                "np.sort, s": sort,
                "project, s": project,
                "ratio": project / sort,
                "within": project <= FACTOR * sort,
            }
