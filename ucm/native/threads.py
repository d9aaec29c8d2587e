"""Threads: how many BLAS takes for small matrices, and parts of compiled work on all of them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

T = TypeVar("T")
_ALONE = 9000  # entries of a matrix below which OpenBLAS takes one thread


@functools.cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def _blas() -> int:
    return max((pool.num_threads for pool in _pools().lib_controllers if pool.user_api == "blas"), default=1)


def _take_control() -> None:
    """Let any thread set the number of BLAS threads; threadpoolctl may bind this to the first that did."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


class _OneThread:
    """Context with one BLAS thread: the first that enters sets the limit, the last that leaves lifts it.

    The limit is of the process: contexts of several threads overlap and end in any order. `inside` names the
    thread of each.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), list[int](), 1

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = _blas()
                _take_control()
                self.limiter = _pools().limit(limits=1, user_api="blas")
            self.inside.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside.remove(threading.get_ident())
            if not self.inside:
                self._lift()

    def _lift(self) -> None:
        _take_control()
        self.limiter.restore_original_limits()
        _take_control()

    def after_fork(self) -> None:
        """Forget the other threads in a child process: they stay in the parent, as a lock that they hold."""
        limited, here = bool(self.inside), threading.get_ident()
        self.lock, self.inside = threading.Lock(), [each for each in self.inside if each == here]
        if limited and not self.inside:
            self._lift()


_one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.after_fork)


def blas_threads(order: int, entries: int = _ALONE) -> AbstractContextManager:
    """Return a context with one BLAS thread for an order below 500, else one without effect.

    With more threads, those of a busy machine wait for each other. Products with fewer than 9,000 `entries`
    have one thread anyway: no effect.
    """
    alone = order >= 500 or entries < _ALONE
    return nullcontext() if alone else _one_thread


@functools.cache
def processors() -> int:
    """Return the number of processors that this process may use, by affinity and by quota of a container."""
    import joblib

    return joblib.cpu_count()


def workers() -> int:
    """Return the number of threads for compiled work: as many as BLAS may take, and 1 inside of joblib."""
    from joblib.parallel import get_active_backend

    nested = (getattr(get_active_backend()[0], "nesting_level", 0) or 0) > 0
    return 1 if nested else min(_one_thread.before if _one_thread.inside else _blas(), processors())


def in_parts(work: Callable[[T], object], parts: Iterable[T], large: bool) -> None:
    """Call `work` for every part, on several threads if `large`, each with one thread of BLAS.

    Small work sets no limit of BLAS, which costs more than it saves there.
    """
    threads = workers() if large else 1
    with _one_thread if large else nullcontext():
        if threads == 1:
            for part in parts:
                work(part)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, parts))
