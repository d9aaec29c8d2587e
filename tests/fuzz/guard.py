"""How a fuzz test runs: how many cases, what no case may do, what is kept of those that do it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from draws import Drawn, Source
from hypothesis import given, note, settings
from hypothesis import strategies as st

from ucm.errors import ConvergenceWarning, SolverError, UCMError

SECONDS = 10.0
"""No call takes longer, of the processor's time, with at most 60 samples and 40 features."""
HANGS = 180
"""Seconds after which a call is cut off, to be reported as one that does not end; not on Windows, which lacks
that signal."""
SHARE = float(os.environ.get("UCM_FUZZ_SHARE", "1"))
"""Of the cases of the long profile."""
UNPROVEN = 0.02
"""Of the convex cases that the reference solves, the most that may end without a proof: the features have
scales from 1e-3 to 1e6, and tolerances go down to 1e-8."""

T = TypeVar("T")


class Hangs(BaseException):
    """Raised in a call that does not end."""


@dataclass
class Tally:
    """What became of the cases of one fuzz test.

    `said` counts what was found, `unproven` the convex cases without a proof where the reference has an
    answer, out of `convex`. With `gather` a failure is kept and the test goes on; without, it ends, and
    Hypothesis shrinks it.
    """

    gather: bool = False
    said: Counter[str] = field(default_factory=Counter)
    convex: int = 0
    unproven: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def meet(self, case: T, judge: Callable[[T, Tally], str]) -> None:
        try:
            self.said[judge(case, self)] += 1
        except Exception as error:
            if not self.gather:
                raise
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.said["failed"] += 1
            where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
            self.failures.append(f"{type(error).__name__} ({where}): {error}\n{case!r}")

    def doubt(self, case: object, told: str) -> None:
        """A convex case whose answer is not proven, where the reference has one."""
        self.unproven.append(f"unproven: {told}\n{case!r}")

    def __str__(self) -> str:
        said = ", ".join(f"{word}: {count}" for word, count in self.said.most_common())
        return f"{self.said.total()} cases ({said}); {len(self.unproven)} of {self.convex} not proven"


def fuzz(
    draw: Callable[[Source], T],
    judge: Callable[[T, Tally], str],
    record: Callable[[str, object], None],
    few: int,
    many: int,
) -> None:
    """Draw cases and judge them: `few` that never change, or in the long profile `many` fresh ones.

    `record` is pytest's `record_property`: the counts stand below the tests.
    """
    long = settings().max_examples == settings.get_profile("long").max_examples
    count = max(1, round(many * SHARE)) if long else few
    tally = Tally(gather=long)

    @settings(settings.get_profile("long" if long else "small"), max_examples=count)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        # fresh seeds reach more than the neighbours that Hypothesis looks for, and do not shrink
        seeded = long and data.draw(st.integers(0, 3)) > 0
        case = draw(Source(data.draw(st.integers(0, 2**62))) if seeded else Drawn(data))
        note(repr(case))
        tally.meet(case, judge)

    run()
    shown = "\n\n".join([str(tally), *tally.failures, *(tally.unproven if long else [])])
    record("fuzz", str(tally))
    assert not tally.failures, shown
    assert len(tally.unproven) <= UNPROVEN * tally.convex or not long, shown


def guarded(call: Callable[[], T], *, extreme: bool = False) -> T:
    """What the call returns. It raises errors of the library only, and those on purpose; it warns of
    convergence only, and of numbers that overflow where the given ones are `extreme`; and it ends in time
    (a second run is judged where the first one compiled)."""
    with np.errstate(all="ignore") if extreme else contextlib.nullcontext():
        result, seconds = _timed(call, extreme)
        if seconds > SECONDS:
            result, seconds = _timed(call, extreme)
        assert seconds <= SECONDS, f"it took {seconds:.0f} s"
    return result


def _timed(call: Callable[[], T], extreme: bool) -> tuple[T, float]:
    def stop(*_: Any) -> None:
        raise Hangs

    alarm, began = hasattr(signal, "SIGALRM"), time.process_time()
    before = signal.signal(signal.SIGALRM, stop) if alarm else None
    if alarm:
        signal.alarm(HANGS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            return call(), time.process_time() - began
    except SolverError as error:
        if "report it" in str(error) and not extreme:
            raise AssertionError(f"the library contradicts itself: {error}") from error
        raise
    except UCMError:
        raise
    except Hangs:
        raise AssertionError(f"it did not end within {HANGS} s") from None
    except Exception as error:
        lines = "".join(traceback.format_tb(error.__traceback__)[-3:])
        raise AssertionError(f"raw {type(error).__name__}: {error}\n{lines}") from error
    finally:
        if alarm:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
