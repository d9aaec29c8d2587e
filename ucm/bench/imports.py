"""What `import ucm` costs over `import numpy`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ucm.bench.clock import fresh
from ucm.bench.registry import Benchmark, Row

__all__ = ["BENCHMARK"]

LIMIT = 0.060
REPEAT = 11
_CODE = """
import time
a = time.perf_counter()
import numpy
b = time.perf_counter()
import ucm
print(b - a, time.perf_counter() - b)
"""


def rows() -> Iterator[Row]:
    """Seconds of each import in a fresh process, the median of 11; at most 60 ms for ucm."""
    fresh(_CODE)
    numpy, ours = map(statistics.median, zip(*(fresh(_CODE) for _ in range(REPEAT)), strict=True))
    yield {"import": "numpy", "seconds": numpy, "within": None}
    yield {"import": "ucm, after numpy", "seconds": ours, "within": ours <= LIMIT}


BENCHMARK = Benchmark("import", "import ucm over import numpy", {"rows": rows})
