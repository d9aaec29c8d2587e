"""Named benchmarks: each a file with a function that yields rows."""

from __future__ import annotations

from ucm.bench.registry import Benchmark, get, names

__all__ = ["Benchmark", "get", "names"]
