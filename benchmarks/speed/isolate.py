"""One job in a process of its own: its seconds, its peak memory, and an end when it takes too long."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from benchmarks.harness import timed

__all__ = ["STOPPED", "isolated", "measured"]

T = TypeVar("T")
STOPPED = "over the limit"
_PRELOAD = ["benchmarks.speed.solvers", "sklearn.svm"]


def isolated(job: Callable[..., dict[str, Any]], *args: Any, limit: float) -> dict[str, Any]:
    """`job(*args)` in another process; where it fails or takes more than `limit` seconds, why."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(_PRELOAD)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, job, args), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(limit):
            return {"note": STOPPED}
        return ours.recv()
    except EOFError:
        return {"note": "the process died: out of memory?"}
    finally:
        process.kill()
        process.join()
        ours.close()


def _send(pipe: Any, job: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
    warnings.simplefilter("ignore", UserWarning)  # what peers say about scaling and iterations
    try:
        pipe.send(job(*args))
    except Exception as error:  # whatever a peer raises is its answer
        pipe.send({"note": f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"})


def measured(
    work: Callable[[], T], repeats: int, limit: float, own: Callable[[T], float] | None = None
) -> tuple[T, dict[str, float]]:
    """The last result; median seconds of `repeats` runs after one that counts for the peak only, and how far
    they spread.

    As many runs as half of `limit` seconds allow; where that is none, the first one counts. `own`
    reads from a result the part of the seconds that its solver took.
    """
    before = _reset_peak()
    result, first = timed(work)
    peak = _peak() - before
    taken = [first]
    parts = [own(result)] if own is not None else []
    for _ in range(min(repeats, int(0.5 * limit / first))):
        result, seconds = timed(work)
        taken.append(seconds)
        if own is not None:
            parts.append(own(result))
    if len(taken) > 1:
        taken, parts = taken[1:], parts[1:]
    figures = {"runs": len(taken), "peak, MB": peak / 1e6}
    for name, seconds in (("seconds", taken), ("own, s", parts)):
        if seconds:
            figures[name] = statistics.median(seconds)
            figures[f"spread of {name}"] = _spread(seconds)
    return result, figures


def _spread(seconds: list[float]) -> float:
    """Half of the distance between the quartiles; 0 of one run."""
    if len(seconds) < 2:
        return 0.0
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return 0.5 * (high - low)


def _reset_peak() -> float:
    """Bytes in use now, where the system can start its record of the peak anew; else the peak."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return _peak()
    return _status("VmRSS")


def _peak() -> float:
    """Most bytes in use so far."""
    if os.path.exists("/proc/self/status"):
        return _status("VmHWM")
    import resource
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _status(name: str) -> float:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name):
                return 1024.0 * float(line.split()[1])
    return 0.0
