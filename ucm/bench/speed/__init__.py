"""How fast: the sets of Table 5 of Ito, Takeda and Toh (2015), beside the solvers people use."""

from __future__ import annotations

from ucm.bench.speed.modes import PARTS, arguments, count

__all__ = ["PARTS", "arguments", "count"]
