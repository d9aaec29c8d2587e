"""How fast: the sets of Table 5 of Ito, Takeda and Toh (2015), beside the solvers people use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ucm.bench.registry import Benchmark, Part, Row
from ucm.bench.speed import bands, cost, fits, losses, more, pairs, reference, saved
from ucm.bench.speed.options import Options, arguments
from ucm.bench.speed.printed import cells
from ucm.errors import ParameterError

__all__ = ["BENCHMARK"]


def _with_options(part: Callable[[Options], Iterator[Row]]) -> Part:
    def rows(**given: Any) -> Iterator[Row]:
        options = Options.of(**given)
        if options.files and part is not saved.compare:
            raise ParameterError(
                f"bench speed: expected files for compare alone, got {options.files[0]!r}; write "
                "ucm bench speed compare A.json B.json"
            )
        return part(options)

    return rows


_PARTS = {
    "linear": fits.linear,
    "rbf": fits.rbf,
    "bands": bands.bands,
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
    "pairs": pairs.pairs,
    "compare": saved.compare,
}
BENCHMARK = Benchmark(
    "speed",
    "passes, seconds, gaps and memory beside other solvers",
    {name: _with_options(part) for name, part in _PARTS.items()},
    arguments,
    cells,
    by_name=("compare",),
)
