"""Rows on the workers of a Dask cluster of this machine: cost beside others, and workers that are killed."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Row, timed
from benchmarks.judge import GAP
from ucm.compiler.compile import compile, solve
from ucm.data.readers import open_rows
from ucm.data.source import RowSource, View
from ucm.errors import MissingExtraError
from ucm.language.models import nu_svm
from ucm.solvers import ActiveSet

__all__ = ["beside_memory", "kills"]

SIZE, CHUNKS, NU = (2_000_000, 20), 16, 0.5
EMPTY, STEPS = 20, 10  # rounds; of ADMM, whose default of 100 takes minutes
ROUND = 0.025  # seconds of CPU
SHARE = 0.15  # of the bytes
LESS = 8.0  # times the CPU of dask-ml
SAME = 5e-3  # accuracy
MORE, SECONDS = 2, 30.0  # passes and seconds of a solve that loses a worker


def block(number: int, rows: int, n: int) -> Any:
    """Labels and samples of one chunk."""
    rng = np.random.default_rng(number)
    y = np.where(rng.random(rows) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((rows, n))
    X[:, 0] += 1.2 * y
    return np.column_stack([y, X])


def lazily(m: int, n: int, chunks: int) -> tuple[Any, Any]:
    """Samples and labels that workers compute."""
    dask, da = import_module("dask"), import_module("dask.array")
    rows = m // chunks
    parts = [dask.delayed(block)(k, rows, n) for k in range(chunks)]
    table = da.concatenate([da.from_delayed(p, (rows, n + 1), float) for p in parts])
    return table[:, 1:], table[:, 0]


def _cost(what: str, figure: float, beside: float, ratio: float, limit: float) -> Row:
    return {"what": what, "figure": figure, "beside": beside, "ratio": ratio, "limit": limit}


@contextmanager
def local_cluster() -> Iterator[tuple[Any, Any]]:
    """Two workers that are processes of this machine."""
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            "rows: expected dask and distributed, which are not installed;"
            " pip install 'ucm-classifiers[dask]'"
        ) from error
    options = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


def _out(dask_worker: Any) -> int:
    return dask_worker.transfer_outgoing_bytes_total


def _nothing(X: Any, y: Any) -> int:
    return 0


def _processor(client: Any) -> float:
    """Seconds of the processor of this process, where the scheduler is, and of all workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


def _spent(client: Any, work: Callable[[], Any]) -> tuple[Any, float]:
    before = _processor(client)
    found = work()
    return found, _processor(client) - before


def beside_memory() -> Iterator[Row]:
    """Processor seconds of a Dask cluster, beside the active-set solver in memory and dask-ml.

    The seconds are of two workers, the scheduler and the client, also for a round that computes nothing. A
    row has the bytes that the workers send, and one has the seconds of dask-ml's `LogisticRegression`.
    """
    m, n = SIZE
    model = nu_svm(NU)
    whole = np.concatenate([block(k, m // CHUNKS, n) for k in range(CHUNKS)])
    X, y = np.ascontiguousarray(whole[:, 1:]), whole[:, 0].copy()
    del whole
    for warm in (slice(0, 20_000), slice(None)):
        memory, seconds = timed(
            lambda warm=warm: solve(model, X[warm], y[warm], solver=ActiveSet()), time.process_time
        )
    with local_cluster() as (_, client):
        X_lazy, y_lazy = (part.persist() for part in lazily(m, n, CHUNKS))
        import_module("distributed").wait([X_lazy, y_lazy])
        source = open_rows(X_lazy, y_lazy)
        solve(model, source)  # loads what loads lazily
        sent = sum(client.run(_out).values())
        found, processor = _spent(client, lambda: solve(model, source))
        sent = sum(client.run(_out).values()) - sent
        gap = found.certificate.relative_gap
        same = abs(found.objective - memory.objective) <= 2 * GAP * abs(memory.objective)
        ratio = processor / seconds
        yield {
            **_cost("CPU, s, beside memory", processor, seconds, ratio, 1.0),
            "gap": gap,
            "reads": found.stats.reads,
            "within": same and gap <= GAP and ratio <= 1.0,
        }
        share = sent / (8 * m * n)
        row = _cost("bytes up, beside the data", sent, 8 * m * n, share, SHARE)
        yield {**row, "within": share <= SHARE}
        source.map_reduce(_nothing)
        _, empty = _spent(client, lambda: [source.map_reduce(_nothing) for _ in range(EMPTY)])
        each = empty / EMPTY
        row = _cost("CPU of an empty round, s", each, ROUND, each / ROUND, 1.0)
        yield {**row, "within": each <= ROUND}
        yield from _dask_ml(client, X_lazy, y_lazy, found, processor)


def _dask_ml(client: Any, X: Any, y: Any, found: Any, processor: float) -> Iterator[Row]:
    """Ten steps of ADMM."""
    try:
        linear = import_module("dask_ml.linear_model")
    except ImportError:
        yield {"what": "dask-ml", "note": "not installed", "within": None}
        return
    peer, seconds = _spent(client, lambda: linear.LogisticRegression(max_iter=STEPS).fit(X, y > 0))
    right = [
        float(((X @ w + b > 0) == (y > 0)).mean().compute())
        for w, b in ((found.w, found.b), (peer.coef_, peer.intercept_))
    ]
    ratio = seconds / processor
    yield {
        **_cost("CPU of dask-ml, s, beside ours", seconds, processor, ratio, LESS),
        "accuracy": right[0],
        "of dask-ml": right[1],
        "within": right[0] >= right[1] - SAME and ratio >= LESS,
    }


class ObservedSource(View):
    """A source that calls `before(number)` before every pass, from 1 on."""

    def __init__(self, inner: RowSource, before: Callable[[int], None]) -> None:
        super().__init__(inner, lambda X, y: (X, y))
        self.before, self.number = before, 0

    def map_reduce(self, function: Callable[..., Any], *message: Any, **options: Any) -> Any:
        self.number += 1
        self.before(self.number)
        return self.inner.map_reduce(function, *message, **options)


def kills() -> Iterator[Row]:
    """Recovery from the loss of a worker of a Dask cluster, which is killed before each round in turn.

    `within`: optimal each time, with at most two more passes, in 30 seconds.
    """
    m, n = SIZE[0] // 4, SIZE[1]
    model = nu_svm(NU)
    with local_cluster() as (cluster, client):
        X, y = lazily(m, n, CHUNKS)
        whole = compile(model, open_rows(X, y)).solve()

        def kill(at: int, number: int) -> None:
            if number == at:
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

        for number in range(1, whole.stats.reads + 1):
            client.wait_for_workers(2, timeout=60)
            source = ObservedSource(open_rows(X, y), partial(kill, number))
            found, seconds = timed(partial(solve, model, source))
            gap, reads = found.certificate.relative_gap, found.stats.reads
            close = abs(found.objective - whole.objective) <= 2 * GAP * abs(whole.objective)
            done = source.number >= number and gap <= GAP and close
            yield {
                "killed in round": number,
                "status": found.status,
                "gap": gap,
                "rounds": reads,
                "without": whole.stats.reads,
                "seconds": seconds,
                "within": done and reads <= whole.stats.reads + MORE and seconds <= SECONDS,
            }
