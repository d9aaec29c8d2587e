"""One fit by every peer on every set."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence

from threadpoolctl import threadpool_info

from benchmarks.harness import Part, Row, main
from benchmarks.judge import GAP
from benchmarks.speed.datasets import NU, OUT_OF_MEMORY, load, present
from benchmarks.speed.isolate import STOPPED, isolated
from benchmarks.speed.solvers import LINEAR, RBF, Problem, run

__all__ = ["PARTS", "linear", "rbf"]

# How many times faster than each peer in geometric mean; never slower on any set.
LINEAR_FACTORS = {"APG": 35.0, "NuSVC": 40.0, "LinearSVC": 12.0}
RBF_FACTORS = {"NuSVC": 3.0}
MEAN_PASSES, MOST_PASSES = 11.0, 35.0


def linear(
    sets: Sequence[str] | None = None,
    peers: Sequence[str] = tuple(LINEAR),
    repeats: int = 5,
    limit: float = 60.0,
) -> Iterator[Row]:
    """The nu-SVM at nu of Table 5 of Ito, Takeda and Toh (2015) beside other solvers, linear kernel."""
    return _fits(sets or present(), peers, None, LINEAR_FACTORS, repeats, limit)


def rbf(
    sets: Sequence[str] | None = None,
    peers: Sequence[str] = tuple(RBF),
    repeats: int = 5,
    limit: float = 60.0,
) -> Iterator[Row]:
    """The same behind an RBF kernel, on the sets whose Gram matrix fits."""
    small = [name for name in sets or present() if load(name)[0].shape[0] <= OUT_OF_MEMORY]
    return _fits(small, [peer for peer in peers if peer in RBF], "rbf", RBF_FACTORS, repeats, limit)


def _fits(
    sets: Sequence[str],
    peers: Sequence[str],
    kernel: str | None,
    factors: Mapping[str, float],
    repeats: int,
    limit: float,
) -> Iterator[Row]:
    rows: dict[str, list[Row]] = {peer: [] for peer in peers}
    for name in sets:
        m, n = load(name)[0].shape
        shape = {"set": name, "m": m, "n": n, "nu": NU[name]}
        ours = ours_whole = math.nan
        for peer in peers:
            problem = Problem(name, NU[name], kernel)
            found = isolated(run, peer, problem, repeats, limit, limit=limit)
            # one that took too long counts with the limit: its ratio is at least that
            whole = found.get("seconds", limit if found.get("note") == STOPPED else math.nan)
            own, within = found.get("own, s", whole), None
            if peer == "ours":
                ours, ours_whole = own, whole
                within = found.get("gap", math.inf) <= GAP
                if kernel is None:
                    within = within and found.get("passes", math.inf) <= MOST_PASSES
            elif math.isfinite(whole / ours):
                found["times ours"], found["times whole"] = own / ours, whole / ours_whole
                within = own >= ours if peer in factors else None
            rows[peer].append(found)
            yield {**shape, "method": peer, **found, "within": within}
    yield from _means(rows, kernel is None, factors)


def _means(
    rows: Mapping[str, list[Row]], with_passes: bool, factors: Mapping[str, float]
) -> Iterator[Row]:
    """Geometric means over the sets: of our passes, and of the seconds of every peer over ours."""
    threads = {f"{p['internal_api']}": p["num_threads"] for p in threadpool_info()}
    for peer, found in rows.items():
        ours = peer == "ours"
        columns = ("passes",) if ours else ("times ours", "times whole")
        values = [[row[name] for row in found if name in row] for name in columns]
        if not values[0] or (ours and not with_passes):
            continue
        row: Row = {"set": f"geometric mean of {len(values[0])}", "method": peer}
        row |= {name: statistics.geometric_mean(v) for name, v in zip(columns, values)}
        if ours:
            note = "threads: " + ", ".join(f"{name} {count}" for name, count in threads.items())
            yield {**row, "within": row["passes"] <= MEAN_PASSES, "note": note}
            continue
        within = row["times ours"] >= factors[peer] if peer in factors else None
        yield {**row, "least": min(values[0]), "wanted": factors.get(peer), "within": within}


PARTS: dict[str, Part] = {"linear": linear, "rbf": rbf}

if __name__ == "__main__":
    sys.exit(main("The nu-SVM beside other solvers", PARTS))
