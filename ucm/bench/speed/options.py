"""What the user may choose for `ucm bench speed`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from ucm.bench.registry import COURSE
from ucm.bench.speed.peers import LINEAR
from ucm.bench.speed.sets import NU, present
from ucm.errors import ParameterError

__all__ = ["Options", "arguments"]

QUICK = ("heart", "diabetes")


@dataclass(frozen=True)
class Options:
    """Sets, peers, runs for a median, seconds for one peer on one set, and saved runs to compare."""

    sets: list[str]
    peers: list[str]
    repeats: int
    limit: float
    files: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        sets: str | None = None,
        peers: str | None = None,
        repeats: int = 5,
        limit: float = 60.0,
        files: Sequence[str] = (),
    ) -> Options:
        """From the words of the command line.

        Raises
        ------
        ParameterError
            A name that is not known, or a number that is not positive.
        """
        if repeats < 1 or not limit > 0.0:
            raise ParameterError(
                f"bench speed: repeats and limit are positive, got {repeats} and {limit:g}"
            )
        chosen = _among("set", sets, present())
        if COURSE.quick and sets is None:
            chosen = [name for name in QUICK if name in chosen]
        known = _among("peer", peers, list(LINEAR))
        return cls(chosen, known, COURSE.repeats(repeats), limit, tuple(files))


def _among(what: str, words: str | None, known: Sequence[str]) -> list[str]:
    """The names in `words`, with commas between them; None: all that are known."""
    chosen = list(known) if words is None else words.split(",")
    for word in chosen:
        if word not in known:
            hint = "; UCM_DATA names the folder of the sets" if word in NU else ""
            raise ParameterError(
                f"bench speed: {what} {word!r}: not known; known are {', '.join(known)}{hint}"
            )
    return chosen


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the benchmark."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="for compare: two saved runs")
    parser.add_argument("--sets", help="names, with commas (default: every set of Table 5 at hand)")
    parser.add_argument("--peers", help=f"some of {','.join(LINEAR)} (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="runs for a median (default: 5)")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds for one peer on one set (default: 60)"
    )
