"""Progress of long fits: a spinner or lines on standard error, and the callbacks of scikit-learn."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

try:
    from sklearn.callback import (
        CallbackSupportMixin,  # pyright: ignore[reportAssignmentType]
        with_callbacks,
    )
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:
        """A class without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method."""
        return method


PATIENCE = 2.0  # seconds before a fit shows that it runs
_SHOWN = threading.Lock()  # held by the outermost fit, which shows the progress of all

Done = Callable[[str], None]


def is_watched() -> bool:
    """True if somebody may watch standard error: a terminal, or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


@contextmanager
def _console() -> Iterator[Any]:
    """Yield a rich console on standard error; None if unwatched, or inside of another fit that shows."""
    if not is_watched() or not _SHOWN.acquire(blocking=False):
        yield None
        return
    from rich.console import Console

    try:
        yield Console(stderr=True)
    finally:
        _SHOWN.release()


@contextmanager
def spinner(text: str) -> Iterator[Done | None]:
    """Yield a function that changes a text beside a spinner, shown after 2 seconds; None if unwatched."""
    with _console() as console:
        if console is None:
            yield None
            return
        from rich.markup import escape

        status = console.status(escape(text))
        timer = threading.Timer(PATIENCE, status.start)
        timer.daemon = True
        timer.start()
        try:
            yield lambda more: status.update(escape(f"{text}: {more}"))
        finally:
            timer.cancel()
            timer.join()  # it may be starting the spinner
            status.stop()


@contextmanager
def live_table(wanted: bool) -> Iterator[Done | None]:
    """Yield a function that replaces a shown text of several lines; None if unwatched or not `wanted`."""
    with _console() if wanted else nullcontext() as console:
        if console is None:
            yield None
            return
        from rich.live import Live
        from rich.text import Text

        with Live(console=console, transient=True) as live:
            yield lambda text: live.update(Text(text, no_wrap=True, overflow="ellipsis"))


@contextmanager
def tasks(estimator: object, count: int, lines: bool = False) -> Iterator[Done]:
    """Yield a function to call with a name after each of the `count` tasks of a fit.

    It updates the spinner, calls the callbacks of the estimator (`set_callbacks`, from scikit-learn 1.9 on),
    and prints a line on standard error if `lines`. The fit is decorated by `with_callbacks`.
    """
    name, began, finished = type(estimator).__name__, time.perf_counter(), 0
    begin = getattr(estimator, "_init_callback_context", None)
    with spinner(name) as show:
        root = begin(max_subtasks=count) if begin else None
        if root:
            root.call_on_fit_task_begin(estimator=estimator)

        def done(task: str) -> None:
            nonlocal finished
            finished += 1
            if root:
                part = root.subcontext(task_name="task")
                part.call_on_fit_task_begin(estimator=estimator)
                part.call_on_fit_task_end(estimator=estimator)
            text = f"{task}, {finished} of {count} after {time.perf_counter() - began:.1f} s"
            if show:
                show(text)
            if lines:
                print(f"{name}: {text}", file=sys.stderr, flush=True)

        yield done
        if root:
            root.call_on_fit_task_end(estimator=estimator)
