"""What a line of `ucm bench speed` shows of a row, within 100 columns; JSON holds all of it."""

from __future__ import annotations

import math

from ucm.bench.registry import Cell, Row
from ucm.bench.show import cell

__all__ = ["cells"]

_SHOWN = {
    "models": "set model gap passes systems forming seconds within",
    "precise": "set nu status gap iterations passes systems seconds within",
    "path": "set values worst_gap one_fit,_s one_fit,_passes path,_s path,_passes times_one_fit within",
    "every": "set from to solved worst_gap fit,_ms fits within",
    "folds": "set model folds fit,_ms fits us_a_model within",
    "growth": "m gap passes systems forming seconds per_pass,_us/sample one_product,_us/sample within",
    "overhead": "set call seconds own,_s over,_ms within",
    "first": "disk_cache seconds import,_s within",
    "bands": "set model gamma nu theirs,_s ours,_s times_ours within",
    "clarabel": "set model gap seconds Clarabel,_s times_ours Clarabel within",
    "losses": "pair lam set ours,_ms gap best_peer its_ms ratio",
    "pairs": "terms set solver ms twin,_ms ratio within",
    "compare": "part set method figure A B B/A",
}
_HEADS = {
    "one fit, passes": "its passes", "one fit, s": "a fit, s", "times one fit": "in fits",
    "path, passes": "passes",    "per pass, us/sample": "us a pass", "one product, us/sample": "us a product",
}  # fmt: skip
_WIDTHS = {
    "set": -14, "terms": -27, "solver": -15, "model": -17, "pair": -18, "lam": 4, "method": -17,
    "call": -15, "best peer": -15, "folds": -13, "status": -9, "disk cache": -10,
    "part": -9, "figure": -8, "Clarabel": -10,
}  # fmt: skip
_NUMBER = 8


def cells(part: str, row: Row) -> list[Cell]:
    """The cells of a row of a part."""
    return _fit(row) if part in ("linear", "rbf") else _plain(part, row)


def _plain(part: str, row: Row) -> list[Cell]:
    names = [name.replace("_", " ") for name in _SHOWN[part].split()]
    return [
        _cell(_HEADS.get(name, name), _WIDTHS.get(name), cell(name, row.get(name)))
        for name in names
    ]


def _fit(row: Row) -> list[Cell]:
    """A fit by one method: its own and the whole call side by side, in ms, with half of the distance between
    the quartiles."""
    own = row.get("own, s", row.get("seconds"))
    spread = row.get("spread of own, s", row.get("spread of seconds"))
    return [
        _cell("set", -14, row["set"]),
        _cell("method", -9, row["method"]),
        _cell("own, ms", 12, _in_ms(own, spread)),
        _cell("whole, ms", 12, _in_ms(row.get("seconds"), row.get("spread of seconds"))),
        _cell("x own", 6, cell("", _three(row.get("times ours")))),
        _cell("x whole", 7, cell("", _three(row.get("times whole")))),
        _cell("gap", 7, cell("gap", row.get("gap"))),
        _cell("passes", 6, cell("", _three(row.get("passes")))),
        _cell("MB", 5, "" if "peak, MB" not in row else f"{row['peak, MB']:.0f}"),
        _cell("ok", 2, cell("", row.get("within"))[:3]),
    ]


def _cell(head: str, width: int | None, text: str) -> Cell:
    width = _NUMBER if width is None else width
    return Cell(head, int(math.copysign(max(abs(width), len(head)), width)), text)


def _in_ms(seconds: float | None, spread: float | None) -> str:
    if seconds is None:
        return ""
    own = f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"
    if not spread:
        return own
    return f"{own} ±{1e3 * spread:.1g}" if spread < 0.01 else f"{own} ±{1e3 * spread:.0f}"


def _three(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}"
