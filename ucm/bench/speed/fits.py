"""One fit by every peer on every set."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from threadpoolctl import threadpool_info

from ucm.bench.speed.isolate import STOPPED, isolated
from ucm.bench.speed.peers import LINEAR, RBF, Problem, run
from ucm.bench.speed.sets import NU, OUT_OF_MEMORY, load

__all__ = ["linear", "peers_of", "rbf"]

# How many times faster than each peer in geometric mean; never slower on any set.
LINEAR_FACTORS = {"APG": 35.0, "NuSVC": 40.0, "LinearSVC": 12.0}
RBF_FACTORS = {"NuSVC": 3.0}
MEAN_PASSES, MOST_PASSES = 11.0, 35.0
TOLERANCE = 1e-6


def peers_of(mode: str) -> list[str]:
    """The peers of a mode."""
    return list(LINEAR if mode == "linear" else RBF)


def linear(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[dict[str, Any]]:
    """Linear kernel."""
    yield from _fits(sets, peers, repeats, limit, None, LINEAR_FACTORS)


def rbf(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[dict[str, Any]]:
    """RBF kernel, the sets whose Gram matrix fits."""
    small = [name for name in sets if load(name)[0].shape[0] <= OUT_OF_MEMORY]
    known = [peer for peer in peers if peer in RBF]
    yield from _fits(small, known, repeats, limit, "rbf", RBF_FACTORS)


def _fits(
    sets: Sequence[str],
    peers: Sequence[str],
    repeats: int,
    limit: float,
    kernel: str | None,
    factors: dict[str, float],
) -> Iterator[dict[str, Any]]:
    ratios: dict[str, list[float]] = {peer: [] for peer in peers if peer != "ours"}
    whole: dict[str, list[float]] = {peer: [] for peer in ratios}
    passes: list[float] = []
    for name in sets:
        X, _ = load(name)
        shape = {"set": name, "m": X.shape[0], "n": X.shape[1], "nu": NU[name]}
        ours = all_of_ours = math.nan
        for peer in peers:
            found = isolated(
                run, peer, Problem(name, NU[name], kernel), repeats, limit, limit=limit
            )
            # one that took too long counts with the limit: its ratio is at least that
            seconds = found.get("seconds", limit if found.get("note") == STOPPED else math.nan)
            own = found.get("own, s", seconds)
            within = None
            if peer == "ours":
                ours, all_of_ours = own, seconds
                if kernel is None and "passes" in found:
                    passes.append(found["passes"])
                within = found.get("gap", math.inf) <= TOLERANCE
                if kernel is None:
                    within = within and found.get("passes", math.inf) <= MOST_PASSES
            elif math.isfinite(seconds / ours):
                found["times ours"], found["times whole"] = own / ours, seconds / all_of_ours
                ratios[peer].append(found["times ours"])
                whole[peer].append(found["times whole"])
                if peer in factors:
                    within = own >= ours
            yield {**shape, "method": peer, **found, "within": within}
    yield from _means(ratios, whole, passes, factors)


def _means(
    ratios: dict[str, list[float]],
    whole: dict[str, list[float]],
    passes: list[float],
    factors: dict[str, float],
) -> Iterator[dict[str, Any]]:
    threads = {f"{p['internal_api']}": p["num_threads"] for p in threadpool_info()}
    note = "threads: " + ", ".join(f"{name} {count}" for name, count in threads.items())
    if passes:
        mean = statistics.geometric_mean(passes)
        yield {
            "set": f"geometric mean of {len(passes)}",
            "method": "ours",
            "passes": mean,
            "note": note,
            "within": mean <= MEAN_PASSES,
        }
    for peer, found in ratios.items():
        if found:
            mean = statistics.geometric_mean(found)
            yield {
                "set": f"geometric mean of {len(found)}",
                "method": peer,
                "times ours": mean,
                "times whole": statistics.geometric_mean(whole[peer]),
                "note": f"least {min(found):.3g}, whole {min(whole[peer]):.3g}",
                "within": mean >= factors[peer] if peer in factors else None,
            }
