"""The list of benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ucm.bench import (
    apg,
    clarabel,
    dca,
    dca_exact,
    dca_loops,
    dca_speed,
    erch,
    imports,
    kernels,
    memory,
    npp,
    projection,
    psvm,
    speed,
    tables,
)
from ucm.errors import ParameterError

__all__ = ["Benchmark", "Row", "get", "names"]

Row = dict[str, Any]
"""One line of the answer. `within` is True, False, or None where no figure is set."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its name, what it measures, and its parts, each a function that yields rows.

    `arguments` adds its options to a parser; the parts and `count`, the number of rows to expect from
    a part or all, take them by name.
    """

    name: str
    what: str
    parts: Mapping[str, Callable[..., Iterator[Row]]] = field(default_factory=dict)
    arguments: Callable[[argparse.ArgumentParser], None] | None = None
    count: Callable[..., int] | None = None

    def rows(self, part: str | None = None, **options: Any) -> Iterator[Row]:
        """The rows of one part, or of all."""
        if part is not None and part not in self.parts:
            known = ", ".join(self.parts)
            raise ParameterError(f"benchmark {self.name!r}: no part {part!r}; it has {known}")
        chosen = self.parts.values() if part is None else [self.parts[part]]
        return chain.from_iterable(work(**options) for work in chosen)


_ALL = (
    Benchmark("apg", "APG of Ito, Takeda and Toh (2015) on a9a, beside NuSVC", {"rows": apg.rows}),
    Benchmark("clarabel", "every model on six sets, beside Clarabel", {"rows": clarabel.rows}),
    Benchmark("dca", "section 4 of Ong and Le Thi (2013), 20 splits each", dca.PARTS),
    Benchmark(
        "dca-speed",
        "DCA: exactness, iterations, warm programs, loops over CVXPY",
        {
            "inner": dca_speed.inner,
            "later": dca_speed.later,
            "generation": dca_speed.generation,
            "loops": dca_loops.rows,
            "exact": dca_exact.rows,
        },
    ),
    Benchmark("erch", "Tables 1 to 3 of Barbero, Takeda and Lopez (2015)", erch.PARTS),
    Benchmark("import", "import ucm over import numpy", {"rows": imports.rows}),
    Benchmark(
        "kernels",
        "models behind kernels, beside Clarabel and features",
        {"rbf": kernels.rbf, "linear": kernels.linear, "dual": kernels.dual},
    ),
    Benchmark("memory", "peak memory of MM-MPM with many features", {"rows": memory.rows}),
    Benchmark(
        "npp", "Tables 2 and 3 of Lopez, Barbero and Dorronsoro (2011), and NuSVC", npp.PARTS
    ),
    Benchmark(
        "projection", "capped simplex, 1e6 entries, beside np.sort", {"rows": projection.rows}
    ),
    Benchmark(
        "psvm",
        "Tables 1 and 3 of Sun (2024), and fits beside SVC",
        {"binary": psvm.binary, "several": psvm.several, "times": psvm.times},
    ),
    Benchmark(
        "speed",
        "passes, seconds, gaps and memory beside other solvers",
        speed.PARTS,
        speed.arguments,
        speed.count,
    ),
    Benchmark(
        "tables", "admissible intervals beside the printed Tables 4 and 8", {"rows": tables.rows}
    ),
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
