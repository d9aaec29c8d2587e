"""The least nu of the nu-SVM, proven from both sides, beside the linear program."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from ucm.bench.clock import timed
from ucm.bench.data import over
from ucm.bench.registry import Benchmark, Row, columns
from ucm.data.bound import bind
from ucm.evidence.admissible import by_program
from ucm.evidence.relative import admissible
from ucm.language import models

__all__ = ["BENCHMARK"]

SETS = ("cod-rna", "ijcnn1", "w8a", "a9a", "skin-nonskin")
TOLERANCE, RATIO = 1e-4, 20.0
_row = columns("set", "least nu", "both proofs", "program", "seconds", "its seconds", "ratio")


def rows() -> Iterator[Row]:
    """Within 1e-4 of the program, relative, and 20 times faster; seconds of the processor."""
    return over(SETS, _least)


def _least(name: str, X: Any, y: Any) -> Iterator[Row]:
    model = models.nu_svm(0.5)
    found, ours = timed(lambda: admissible(model, X, y)["nu"], time.process_time)
    other, theirs = timed(partial(by_program, model, bind(X, y), "nu"), time.process_time)
    near = math.isclose(found.lower, other, rel_tol=TOLERANCE)
    within = near and found.gap <= TOLERANCE * found.lower and theirs >= RATIO * ours
    yield {
        **_row(name, found.lower, found.gap, other, ours, theirs, theirs / ours),
        "within": within,
    }


BENCHMARK = Benchmark(
    "admissible", "the least nu of the nu-SVM beside its linear program", {"rows": rows}
)
