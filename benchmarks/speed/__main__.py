"""`python -m benchmarks.speed PART`: every table of the benchmarks of speed."""

from __future__ import annotations

import sys

from benchmarks.harness import main
from benchmarks.speed import base, own, rows, tables, worst_means

PARTS = {**tables.PARTS, **own.PARTS, **rows.PARTS, **worst_means.PARTS, **base.PARTS}

if __name__ == "__main__":
    sys.exit(main("Speed, beside other libraries and as a multiple of one fit.", PARTS))
