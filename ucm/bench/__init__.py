"""Named benchmarks: each a file with functions that yield rows."""

from __future__ import annotations

from ucm.bench.registry import Benchmark, every, get

__all__ = ["Benchmark", "every", "get"]
