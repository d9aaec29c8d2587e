"""The list of benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ucm.bench import (
    apg,
    clarabel,
    dca,
    dca_speed,
    imports,
    kernels,
    memory,
    projection,
    psvm,
    tables,
)
from ucm.errors import ParameterError

__all__ = ["Benchmark", "Row", "get", "names"]

Row = dict[str, Any]
"""One line of the answer. `within` is True, False, or None where no figure is set."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its name, what it measures, and the function that yields its rows."""

    name: str
    what: str
    rows: Callable[[], Iterator[Row]]


_ALL = (
    Benchmark("apg", "APG of Ito, Takeda and Toh (2015) on a9a, beside NuSVC", apg.rows),
    Benchmark("clarabel", "every model on six sets, beside Clarabel", clarabel.rows),
    Benchmark("dca", "section 4 of Ong and Le Thi (2013), 20 splits each", dca.rows),
    Benchmark("dca-speed", "DCA: exactness, iterations, loops over CVXPY", dca_speed.rows),
    Benchmark("import", "import ucm over import numpy", imports.rows),
    Benchmark("kernels", "models behind kernels, beside Clarabel and features", kernels.rows),
    Benchmark("memory", "peak memory of MM-MPM with many features", memory.rows),
    Benchmark("projection", "capped simplex, 1e6 entries, beside np.sort", projection.rows),
    Benchmark("psvm", "Tables 1 and 3 of Sun (2024), and fits beside SVC", psvm.rows),
    Benchmark("tables", "admissible intervals beside the printed Tables 4 and 8", tables.rows),
)


def names() -> list[str]:
    """The names that `get` knows."""
    return [benchmark.name for benchmark in _ALL]


def get(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises
    ------
    ParameterError
        There is none.
    """
    for benchmark in _ALL:
        if benchmark.name == name:
            return benchmark
    raise ParameterError(f"benchmark {name!r}: not known; known are {', '.join(names())}")
