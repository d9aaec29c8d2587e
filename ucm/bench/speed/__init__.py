"""How fast: the sets of Table 5 of Ito, Takeda and Toh (2015), beside the solvers people use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ucm.bench.registry import Benchmark, Part, Row
from ucm.bench.speed import cost, fits, losses, more, reference
from ucm.bench.speed.options import Options, arguments

__all__ = ["BENCHMARK"]


def _with_options(part: Callable[[Options], Iterator[Row]]) -> Part:
    def rows(**given: Any) -> Iterator[Row]:
        return part(Options.of(**given))

    return rows


_PARTS = {
    "linear": fits.linear,
    "rbf": fits.rbf,
    "models": more.every_model,
    "precise": more.precise,
    "path": more.nu_path,
    "every": more.whole_path,
    "folds": more.folds,
    "growth": more.growth,
    "overhead": cost.overhead,
    "first": cost.first_fit,
    "clarabel": reference.clarabel,
    "losses": losses.losses,
}
BENCHMARK = Benchmark(
    "speed",
    "passes, seconds, gaps and memory beside other solvers",
    {name: _with_options(part) for name, part in _PARTS.items()},
    arguments,
)
