"""Passes over rows that several computations share, such as folds or values of a parameter."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import numpy as np

from ucm.data.linear_map import Matrix
from ucm.data.source import Change, Changed, Function, Merge, Result, RowSource, States, View
from ucm.native.threads import processors

T = TypeVar("T")
_SLOT = -1  # the key in the states of a computation under which its number stands
_AT_ONCE = 10  # computations that wait for each other: each holds its own rows in memory

_Call = tuple[int, Function, tuple, int | None]
"""The place of a computation in the pass, its function and message, and the number under which a block keeps
its state; None for a function without state."""


def _answers(
    X: Matrix, y: np.ndarray, before: States, after: States, calls: Sequence[_Call]
) -> Iterator[tuple[int, object]]:
    """Yield the place and the result of each call on a block; calls over one view share its rows."""
    views: dict[int, tuple[Change, list[_Call]]] = {}
    for place, function, message, slot in calls:
        if isinstance(function, Changed):
            below = views.setdefault(id(function.change), (function.change, []))[1]
            below.append((place, function.function, message, slot))
        elif slot is None:
            yield place, function(X, y, *message)
        else:
            after[slot], result = function(X, y, before.get(slot), *message)
            yield place, result
    for change, below in views.values():
        rows, labels = change(X, y)
        yield from _answers(rows, labels, before, after, below)


def _every(X: Matrix, y: np.ndarray, state: States | None, calls: Sequence[_Call]) -> tuple[States, list]:
    before = state or {}
    after = dict(before)
    results = dict(_answers(X, y, before, after, calls))
    return after, [[results[k]] for k in range(len(calls))]


def _merged(a: list, b: list, merges: Sequence[Merge | None]) -> list:
    return [x + y if merge is None else [merge(x[0], y[0])] for x, y, merge in zip(a, b, merges, strict=True)]


@dataclass(frozen=True)
class _PassRequest:
    """The request of a computation for a pass, with the future of its result."""

    function: Function
    message: tuple
    merge: Merge | None
    states: States | None
    result: Future = field(default_factory=Future)


class SharedPasses(View):
    """Row source that serves the pass requests of concurrent computations in one pass over the rows.

    A pass begins when each computation under way waits for one; each view is made once.
    """

    def __init__(self, inner: RowSource) -> None:
        super().__init__(inner, lambda X, y: (X, y))
        self._changed = threading.Condition()
        self._working = threading.Semaphore(processors())
        self._left = 0  # computations that have not ended
        self._requests: list[_PassRequest] = []
        self._slots = count()
        self._states: States = {}

    def __repr__(self) -> str:
        return repr(self.inner)

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run jobs that make passes concurrently, ten at a time; return their results in order."""
        if len(jobs) < 2:
            return [job() for job in jobs]
        self._left, stop = len(jobs), None
        with ThreadPoolExecutor(min(_AT_ONCE, len(jobs))) as pool:
            tasks = [pool.submit(copy_context().run, self._work, job) for job in jobs]
            while self._left:
                try:
                    with self._changed:
                        self._changed.wait_for(lambda: len(self._requests) == min(_AT_ONCE, self._left))
                    if self._requests:
                        self._make(self._requests, stop)
                except BaseException as error:  # Ctrl-C: every computation gets it at its next pass
                    stop = error
        if stop is not None:
            raise stop
        return [task.result() for task in tasks]

    def map_reduce(
        self, function: Function, *message: object, merge: Merge | None = None, states: States | None = None
    ) -> Result:
        request = _PassRequest(function, message, merge, states)
        if self._left == 0:
            self._make([request])
            return request.result.result()
        self._working.release()
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
        try:
            return request.result.result()
        finally:
            self._working.acquire()

    def _work(self, job: Callable[[], T]) -> T:
        try:
            with self._working:
                return job()
        finally:
            with self._changed:
                self._left -= 1
                self._changed.notify_all()

    def _make(self, requests: list[_PassRequest], stop: BaseException | None = None) -> None:
        """Make one pass for all requests, or answer each request with the error `stop`."""
        calls = [(k, a.function, a.message, self._slot(a)) for k, a in enumerate(requests)]
        merges = [a.merge for a in requests]
        self._requests = []  # an answered computation may ask again at once
        try:
            if stop is not None:
                raise stop
            merge = functools.partial(_merged, merges=merges)
            results = self.inner.map_reduce(_every, calls, merge=merge, states=self._states)
        except BaseException as error:
            for a in requests:
                a.result.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for a, parts in zip(requests, results or [[]] * len(requests), strict=True):
            a.result.set_result(parts if a.merge is None else parts[0] if parts else None)

    def _slot(self, request: _PassRequest) -> int | None:
        if request.states is None:
            return None
        return request.states.setdefault(_SLOT, next(self._slots))
