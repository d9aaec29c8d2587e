"""One fit by every peer on every set."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from threadpoolctl import threadpool_info

from ucm.bench.judge import GAP
from ucm.bench.registry import Row
from ucm.bench.speed.isolate import STOPPED, isolated
from ucm.bench.speed.options import Options
from ucm.bench.speed.peers import RBF, Problem, run
from ucm.bench.speed.sets import NU, OUT_OF_MEMORY, load

__all__ = ["linear", "rbf"]

# How many times faster than each peer in geometric mean; never slower on any set.
LINEAR_FACTORS = {"APG": 35.0, "NuSVC": 40.0, "LinearSVC": 12.0}
RBF_FACTORS = {"NuSVC": 3.0}
MEAN_PASSES, MOST_PASSES = 11.0, 35.0


def linear(options: Options) -> Iterator[Row]:
    """Linear kernel."""
    yield from _fits(options, options.sets, options.peers, None, LINEAR_FACTORS)


def rbf(options: Options) -> Iterator[Row]:
    """RBF kernel, the sets whose Gram matrix fits."""
    small = [name for name in options.sets if load(name)[0].shape[0] <= OUT_OF_MEMORY]
    known = [peer for peer in options.peers if peer in RBF]
    yield from _fits(options, small, known, "rbf", RBF_FACTORS)


def _fits(
    options: Options,
    sets: Sequence[str],
    peers: Sequence[str],
    kernel: str | None,
    factors: Mapping[str, float],
) -> Iterator[Row]:
    rows: dict[str, list[Row]] = {peer: [] for peer in peers}
    for name in sets:
        m, n = load(name)[0].shape
        shape = {"set": name, "m": m, "n": n, "nu": NU[name]}
        ours = ours_whole = math.nan
        for peer in peers:
            problem, limit = Problem(name, NU[name], kernel), options.limit
            found = isolated(run, peer, problem, options.repeats, limit, limit=limit)
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
        sets = f"{len(values[0])} set{'s' if len(values[0]) > 1 else ''}"
        row: Row = {"set": f"geometric mean of {len(values[0])}", "method": peer}
        row |= {name: statistics.geometric_mean(v) for name, v in zip(columns, values)}
        if ours:
            note = ", ".join(f"{name} {count}" for name, count in threads.items())
            words = (
                f"ours: {row['passes']:.3g} passes in geometric mean of {sets}; threads: {note}."
            )
            yield {**row, "summary": words, "within": row["passes"] <= MEAN_PASSES}
            continue
        own, whole = (f"{row[name]:.3g} (least {min(v):.3g})" for name, v in zip(columns, values))
        words = (
            f"{peer}: {own} times the time of our solver, {whole} times that of our whole call, "
            f"in geometric mean of {sets}."
        )
        within = row["times ours"] >= factors[peer] if peer in factors else None
        if within is False:
            words += f" Wanted: {factors[peer]:g}."
        yield {**row, "summary": words, "within": within}
