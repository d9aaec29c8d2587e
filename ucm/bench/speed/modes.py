"""What `ucm bench speed` measures, and its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ucm.bench.speed import cost, fits, more, reference
from ucm.bench.speed.peers import LINEAR
from ucm.bench.speed.sets import NU, present
from ucm.errors import ParameterError

__all__ = ["PARTS", "arguments", "count"]

Row = dict[str, Any]
Part = Callable[[Sequence[str], Sequence[str], int, float], Iterator[Row]]
"""Sets, peers, runs for a median, seconds for one peer on one set."""

_PARTS: dict[str, Part] = {
    "linear": fits.linear,
    "rbf": fits.rbf,
    "models": more.every_model,
    "precise": more.precise,
    "path": more.nu_path,
    "growth": more.growth,
    "overhead": cost.overhead,
    "first": cost.first_fit,
    "clarabel": reference.clarabel,
}


def _with_options(part: Part) -> Callable[..., Iterator[Row]]:
    def rows(
        sets: str | None = None,
        peers: str | None = None,
        repeats: int = 5,
        limit: float = 60.0,
    ) -> Iterator[Row]:
        names, methods = _checked(sets, peers, repeats, limit)
        return part(names, methods, repeats, limit)

    return rows


PARTS = {name: _with_options(part) for name, part in _PARTS.items()}


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the benchmark."""
    parser.add_argument("--sets", help="names, with commas (default: every set of Table 5 at hand)")
    parser.add_argument("--peers", help=f"some of {','.join(LINEAR)} (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="runs for a median (default: 5)")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds for one peer on one set (default: 60)"
    )


def count(part: str | None, sets: str | None, peers: str | None, repeats: int, limit: float) -> int:
    """How many rows to expect, for the progress bar.

    Raises
    ------
    ParameterError
        A name that is not known, or a number that is not positive.
    """
    names, methods = _checked(sets, peers, repeats, limit)
    return len(names) * len(methods) * (len(PARTS) if part is None else 1)


def _checked(
    sets: str | None, peers: str | None, repeats: int, limit: float
) -> tuple[list[str], list[str]]:
    """The names of the sets and of the peers."""
    if repeats < 1 or not limit > 0.0:
        raise ParameterError(
            f"bench speed: repeats and limit are positive, got {repeats} and {limit:g}"
        )
    at_hand = present()
    names = at_hand if sets is None else sets.split(",")
    _among("set", names, at_hand)
    methods = list(LINEAR) if peers is None else peers.split(",")
    _among("peer", methods, list(LINEAR))
    return names, methods


def _among(what: str, words: Sequence[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            hint = "; UCM_DATA names the folder of the sets" if word in NU else ""
            raise ParameterError(
                f"bench speed: {what} {word!r}: not known; known are {', '.join(known)}{hint}"
            )
