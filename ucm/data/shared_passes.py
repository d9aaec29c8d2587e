"""Passes over rows that serve several computations at a time, as folds or values of a parameter."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ucm.data.linear_map import Matrix
from ucm.data.source import Changed, Function, Merge, RowSource, View, processors

__all__ = ["SharedPasses"]

T = TypeVar("T")
_SLOT = "slot"  # the key in the states of a computation under which its number stands
_AT_ONCE = 10  # computations that wait for each other: each holds its own rows in memory


@dataclass(frozen=True)
class _PassRequest:
    """What one computation asks of the blocks.

    Attributes
    ----------
    place : its place among the calls of the pass
    slot : the number under which a block keeps its state; None for a function without state
    """

    place: int
    function: Function
    message: tuple[Any, ...]
    slot: int | None


def _answers(
    X: Matrix, y: Any, before: dict[int, Any], after: dict[int, Any], calls: Sequence[_PassRequest]
) -> Iterator[tuple[int, Any]]:
    """The places of the calls with their results. Calls over one view share its rows."""
    views: dict[int, tuple[Any, list[_PassRequest]]] = {}
    for call in calls:
        function = call.function
        if isinstance(function, Changed):
            below = views.setdefault(id(function.change), (function.change, []))[1]
            below.append(replace(call, function=function.function))
        elif call.slot is None:
            yield call.place, function(X, y, *call.message)
        else:
            after[call.slot], found = function(X, y, before.get(call.slot), *call.message)
            yield call.place, found
    for change, below in views.values():
        rows, labels = change(X, y)
        yield from _answers(rows, labels, before, after, below)


def _every(X: Matrix, y: Any, state: dict[int, Any] | None, calls: Sequence[_PassRequest]) -> Any:
    before = state or {}
    after = dict(before)
    found = dict(_answers(X, y, before, after, calls))
    return after, [[found[k]] for k in range(len(calls))]


def _merged(a: list[Any], b: list[Any], merges: Sequence[Merge | None]) -> list[Any]:
    return [
        x + y if merge is None else [merge(x[0], y[0])]
        for x, y, merge in zip(a, b, merges, strict=True)
    ]


@dataclass
class _PendingPass:
    """A pass that a computation waits for."""

    function: Function
    message: tuple[Any, ...]
    merge: Merge | None
    states: dict[Any, Any] | None
    done: bool = False
    found: list[Any] = field(default_factory=list)
    error: BaseException | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.found if self.merge is None else self.found[0] if self.found else None


class SharedPasses(View):
    """A source whose passes serve all computations of `run` at a time: a pass begins when each of them waits
    for one or has ended.

    The results are those of the computations one after the other. A pass reads the rows, and makes each view
    of them, once.
    """

    def __init__(self, inner: RowSource) -> None:
        super().__init__(inner, lambda X, y: (X, y))
        self._changed = threading.Condition()
        self._working = threading.Semaphore(processors())
        self._left = 0  # computations that have not ended
        self._asked: list[_PendingPass] = []
        self._slots = 0
        self._states: dict[int, Any] = {}

    def __repr__(self) -> str:
        return repr(self.inner)

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of the jobs, which ask this source for their passes. Each has a thread of its
        own; an error of one of them is raised when all have ended.
        """
        if len(jobs) < 2:
            return [job() for job in jobs]
        self._left = len(jobs)
        with ThreadPoolExecutor(min(_AT_ONCE, len(jobs))) as pool:
            tasks = [pool.submit(self._work, job) for job in jobs]
            try:
                while asked := self._wait():
                    self._make(asked)
            except BaseException as error:  # Ctrl-C: no job waits for a pass that does not come
                self._refuse(error)
                raise
        return [task.result() for task in tasks]

    def map_reduce(
        self,
        function: Function,
        *message: Any,
        merge: Merge | None = None,
        states: dict[Any, Any] | None = None,
    ) -> Any:
        asked = _PendingPass(function, message, merge, states)
        if self._left == 0:
            self._make([asked])
            return asked.result()
        self._working.release()
        with self._changed:
            self._asked.append(asked)
            self._changed.notify_all()
            self._changed.wait_for(lambda: asked.done)
        self._working.acquire()
        return asked.result()

    def _work(self, job: Callable[[], T]) -> T:
        try:
            with self._working:
                return job()
        finally:
            with self._changed:
                self._left -= 1
                self._changed.notify_all()

    def _wait(self) -> list[_PendingPass]:
        """The passes that all computations wait for; none when the last has ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._asked) == min(_AT_ONCE, self._left))
            return list(self._asked)

    def _make(self, asked: list[_PendingPass]) -> None:
        calls = [_PassRequest(k, a.function, a.message, self._slot(a)) for k, a in enumerate(asked)]
        merge = functools.partial(_merged, merges=[a.merge for a in asked])
        try:
            found = self.inner.map_reduce(_every, calls, merge=merge, states=self._states)
        except BaseException as error:
            self._finish(asked, error)
            if not isinstance(error, Exception):
                raise
            return
        for a, parts in zip(asked, found or [[]] * len(asked), strict=True):
            a.found = parts
        self._finish(asked, None)

    def _slot(self, asked: _PendingPass) -> int | None:
        if asked.states is None:
            return None
        if _SLOT not in asked.states:
            asked.states[_SLOT] = self._slots
            self._slots += 1
        return asked.states[_SLOT]

    def _finish(self, asked: list[_PendingPass], error: BaseException | None) -> None:
        with self._changed:
            for a in asked:
                a.done, a.error = True, error
            self._asked = [a for a in self._asked if not a.done]
            self._changed.notify_all()

    def _refuse(self, error: BaseException) -> None:
        """End the computations: every pass that they ask for raises the error."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._asked) or self._left == 0)
                asked = list(self._asked)
            if not asked:
                return
            self._finish(asked, error)
