"""What `import ucm` costs over `import numpy`."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["rows"]

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


def rows() -> Iterator[dict[str, Any]]:
    """Seconds of each import in a fresh process, the median of 11; at most 60 ms for ucm."""
    runs = []
    for _ in range(REPEAT + 1):
        done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, check=True)
        runs.append([float(number) for number in done.stdout.split()])
    for what, times in zip(("numpy", "ucm, after numpy"), zip(*runs[1:]), strict=True):
        seconds = statistics.median(times)
        yield {
            "import": what,
            "seconds": seconds,
            "within": None if what == "numpy" else seconds <= LIMIT,
        }
