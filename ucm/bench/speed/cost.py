"""What one fit costs beside its solver: checks and certificate, the first call of a process."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ucm.bench.clock import fresh, in_turns
from ucm.bench.registry import Row, columns
from ucm.bench.speed.options import Options
from ucm.bench.speed.sets import NU, load
from ucm.compiler.compile import solve
from ucm.estimators import Classifier
from ucm.language import models

__all__ = ["first_fit", "overhead"]

SMALL = ("heart", "diabetes")
OVERHEAD = {"ucm.solve": 1e-3, "Classifier.fit": 2e-3}
WAIT = 300.0  # seconds for the child process that compiles
FIRST = {"empty": 2.5, "warm": 0.25}
_row = columns("set", "call", "seconds", "own, s", "over, ms", "within")
_CODE = """
import time
import numpy as np
X, y = np.random.default_rng(0).standard_normal((270, 13)), np.repeat([-1.0, 1.0], 135)
X += 0.3 * y[:, None]
began = time.perf_counter()
import ucm
machine = ucm.Classifier(ucm.models.nu_svm(0.5))
imported = time.perf_counter()
machine.fit(X, y)
print(imported - began, time.perf_counter() - imported)
"""


def overhead(options: Options) -> Iterator[Row]:
    """Seconds of a whole call over those of its solver, medians; heart and diabetes."""
    repeats = 10 * options.repeats
    for name in SMALL:
        if name not in options.sets:
            continue
        X, y = load(name)
        model = partial(models.nu_svm, NU[name])
        works: dict[str, Callable[[], Any]] = {
            "ucm.solve": lambda X=X, y=y, model=model: solve(model(), X, y),
            "Classifier.fit": partial(Classifier(model()).fit, X, y),
        }
        own = statistics.median(works["ucm.solve"]().stats.solve_time for _ in range(repeats))
        for call, work in works.items():
            whole = in_turns({call: work}, repeats, warm=False)[call].median
            over = whole - own
            yield _row(name, call, whole, own, 1e3 * over, over <= OVERHEAD[call])


def first_fit(options: Options) -> Iterator[Row]:
    """The first fit of a fresh process, 270 samples of 13 features, by what the disk cache holds; and
    before it the import of `ucm.Classifier`, which is mostly that of scikit-learn. With an empty cache a
    child process compiles meanwhile, and is waited for before the next run."""
    with tempfile.TemporaryDirectory() as folder:  # the first run finds it empty
        runs = [fresh(_CODE, NUMBA_CACHE_DIR=folder, UCM_COMPILE="")]
        limit = time.monotonic() + WAIT
        while list(Path(folder).glob("*.nbl")) and time.monotonic() < limit:
            time.sleep(0.5)
        runs += [fresh(_CODE, NUMBA_CACHE_DIR=folder) for _ in range(options.repeats)]
    for cache, of in (("empty", runs[:1]), ("warm", runs[1:])):
        imports, seconds = map(statistics.median, zip(*of, strict=True))
        within = seconds <= FIRST[cache]
        yield {"disk cache": cache, "seconds": seconds, "import, s": imports, "within": within}
