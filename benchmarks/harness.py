"""The command line of a script, and its rows, each printed and appended to a file at once.

A part of a script is a function that yields rows. Its keyword arguments are its options:
`python -m benchmarks.papers unified table-9 --sets heart,diabetes --save rows.jsonl` calls
`table_9(sets=("heart", "diabetes"))`. A row is a dictionary; its `within` is True or False where a figure is
held against a target, None where none is set. The exit status is 1 if a row is not within.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import math
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucm.data import datasets
from ucm.errors import DataError

__all__ = [
    "Part",
    "Parts",
    "Row",
    "Runs",
    "dense",
    "fresh",
    "in_turns",
    "isolated",
    "main",
    "missing",
    "options_of",
    "over",
    "scaled",
    "shown",
    "standardised",
    "timed",
]

T = TypeVar("T")
Row = dict[str, Any]
Part = Callable[..., Iterator[Row]]

STOPPED = "over the limit"
_FORMATS = {"gap": ".1e"}
_READ: dict[str, Callable[[str], Any]] = {
    "sets": lambda text: tuple(text.split(",")),
    "peers": lambda text: tuple(text.split(",")),
    "repeats": int,
    "limit": float,
    "checkout": str,
}
_HELP = {
    "sets": "names of data sets, separated by commas",
    "peers": "names of other libraries' solvers, separated by commas",
    "repeats": "number of splits, draws, starts or runs",
    "limit": "time limit of one solver on one set, in seconds",
    "checkout": "folder of another checkout, with its library built",
}
# of sets by name, or by the beginning of their names; of the others "libsvm"
_ORIGINS = {
    "uci": "UCI Machine Learning Repository",
    "ida": "the IDA benchmark sets of Raetsch, Onoda and Mueller (2001)",
    "usps": "LIBSVM Data, multi-class",
    "arcene": "the NIPS 2003 feature selection challenge, at UCI",
    "libsvm": "LIBSVM Data",
}


# --- the command line -----------------------------------------------------------------------------
def main(what: str, parts: Mapping[str, Part], arguments: list[str] | None = None) -> int:
    """Run some parts of a script; return the exit status."""
    known = {name: inspect.signature(part).parameters for name, part in parts.items()}
    lines = {
        name: textwrap.shorten(_first_line(part), 80, placeholder=" ...") for name, part in parts.items()
    }
    text = "\n".join(f"  {name}: {line}" for name, line in lines.items())
    parser = argparse.ArgumentParser(
        description=f"{what}\n\n{text}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=list(parts), metavar="PART")
    for option, read in _READ.items():
        parser.add_argument(f"--{option}", type=read, help=_HELP[option])
    parser.add_argument("--save", metavar="FILE", help="append the rows as JSON lines")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in _READ if getattr(options, name) is not None}
    for name in options.parts:
        for option in given.keys() - known[name].keys():
            parser.error(f"{name} takes no --{option}")
    good = True
    with open(options.save or os.devnull, "a", encoding="utf-8") as file:
        for name in options.parts:
            print(f"\n{name}: {_first_line(parts[name])}", flush=True)
            for row in shown(parts[name](**given)):
                good &= row.get("within") is not False
                print(json.dumps({"part": name, **row}), file=file, flush=True)
    return 0 if good else 1


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the keyword arguments of a part for the options of a command line, `--sets a,b --repeats 2`."""
    names = [word.removeprefix("--") for word in words[::2]]
    return {name: _READ[name](text) for name, text in zip(names, words[1::2], strict=True)}


def _first_line(part: Part) -> str:
    words = getattr(part, "func", part).__doc__ or ""
    return " ".join(words.partition("\n\n")[0].split())


def shown(rows: Iterable[Row]) -> Iterator[Row]:
    """Print the rows, with a head when the columns change; yield each as it is kept, in plain numbers."""
    heads: list[str] = []
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the rows tell of them
        for row in rows:
            plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in row.items()}
            columns = [k for k in plain if k != "note"]
            widths = [max(len(k), 20 if isinstance(plain[k], str) else 8) for k in columns]
            if columns != heads:
                heads = columns
                print("  ".join(_placed(k, w, plain[k]) for k, w in zip(columns, widths)))
            cells = (_placed(_cell(k, plain[k]), w, plain[k]) for k, w in zip(columns, widths))
            print("  ".join(cells).rstrip(), plain.get("note") or "", flush=True)
            yield _jsonable(plain)


def _cell(name: str, entry: Any) -> str:
    if entry is None:
        return ""
    if isinstance(entry, bool):
        return "yes" if entry else "NO"
    return format(entry, _FORMATS.get(name, ".4g")) if isinstance(entry, float) else str(entry)


def _placed(text: str, width: int, entry: Any) -> str:
    return text.ljust(width) if isinstance(entry, str) else text.rjust(width)


def _jsonable(row: Row) -> Row:
    """Return the row with null for NaN and infinities, which JSON lacks."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


# --- data -----------------------------------------------------------------------------------------
def over(
    names: Iterable[str],
    rows: Callable[..., Iterator[Row]],
    load: Callable[[str], tuple[Any, ...]] = datasets.load,
) -> Iterator[Row]:
    """Yield the rows `rows(name, *load(name))` of every set; a row with a note for a missing set."""
    for name in names:
        try:
            data = load(name)
        except DataError as error:
            yield {"set": name, "note": missing(error, name), "within": None}
        else:
            yield from rows(name, *data)


class Parts(dict[str, Part]):
    """The parts of a script by name, each entered by a decorator: `table_1` as "table-1"."""

    def add(self, part: Part, name: str = "") -> Part:
        """Enter a part."""
        self[name or part.__name__.replace("_", "-")] = part
        return part

    def each(
        self,
        names: Iterable[str],
        load: Callable[[str], tuple[Any, ...]] = datasets.load,
        name: str = "",
    ) -> Callable[[Callable[..., Iterator[Row]]], Part]:
        """Enter the part with the rows `rows(name, *load(name), **options)` of every set: its options are
        `sets`, these names by default, and the keyword-only arguments of `rows`."""
        default = tuple(names)

        def enter(rows: Callable[..., Iterator[Row]]) -> Part:
            @functools.wraps(rows)
            def part(sets: Sequence[str] = default, **options: Any) -> Iterator[Row]:
                return over(sets, functools.partial(rows, **options), load)

            kind = inspect.Parameter.KEYWORD_ONLY
            own = [given for given in inspect.signature(rows).parameters.values() if given.kind is kind]
            signature = [inspect.Parameter("sets", kind, default=default), *own]
            vars(part)["__signature__"] = inspect.Signature(signature)
            return self.add(part, name)

        return enter


def missing(error: DataError, name: str) -> str:
    """Return a note on the source of a missing set."""
    told = re.match(r"data set '([^']+)'", str(error))
    name = told[1] if told else name
    origin = _ORIGINS.get(name) or _ORIGINS.get(name.partition("_")[0]) or _ORIGINS["libsvm"]
    return f"not at hand: {origin}; as {name}.npz in the folder UCM_DATA"


def dense(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Load a set as a dense array."""
    X, y = datasets.load(name)
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64), y


def scaled(X: Any) -> NDArray[np.float64]:
    """Return the features scaled to mean 0 and deviation 1; constant features become 0."""
    from sklearn.preprocessing import scale

    return np.ascontiguousarray(scale(X))


def standardised(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Load a set as a dense array with scaled features."""
    X, y = dense(name)
    return scaled(X), y


# --- time -----------------------------------------------------------------------------------------
def timed(work: Callable[[], T], clock: Callable[[], float] = time.perf_counter) -> tuple[T, float]:
    """Return the result of `work()` and its seconds; processor seconds with `time.process_time`."""
    start = clock()
    result = work()
    return result, clock() - start


@dataclass
class Runs(Generic[T]):
    """The seconds of several runs of one work, and the result of the last."""

    result: T
    seconds: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def in_turns(
    works: Mapping[str, Callable[[], T]],
    repeats: int,
    warm: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Runs[T]]:
    """Run every work `repeats` times in turns, so that a busy machine slows all of them.

    With `warm` each work runs once more before; that run does not count.
    """
    runs = {}
    for turn in range(repeats + warm):
        for name, work in works.items():
            result, seconds = timed(work, clock)
            found = runs.setdefault(name, Runs(result))
            found.result = result
            if turn >= warm:
                found.seconds.append(seconds)
    return runs


def fresh(code: str, **environment: str) -> list[float]:
    """Return the numbers that a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, **environment},
    )
    return [float(number) for number in done.stdout.split()]


# --- processes ------------------------------------------------------------------------------------
def isolated(job: Callable[..., Row], *args: Any, limit: float) -> Row:
    """Return `job(*args)` of a new process, or a note on its failure or on its end after `limit` seconds."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["benchmarks.speed.solvers", "sklearn.svm"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, job, args), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit) else {"note": STOPPED}
    except EOFError:
        return {"note": "the process died: out of memory?"}
    finally:
        process.kill()
        process.join()
        ours.close()


def _send(pipe: Any, job: Callable[..., Row], args: tuple[Any, ...]) -> None:
    warnings.simplefilter("ignore")  # of peers about scaling, iterations and deprecations
    try:
        pipe.send(job(*args))
    except Exception as error:  # of any peer: its row states the reason
        pipe.send({"note": f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"})
