"""What one fit costs beside its solver: checks and certificate, the first call of a process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from ucm.bench.clock import timed
from ucm.bench.speed.sets import NU, load
from ucm.compiler.compile import solve
from ucm.estimators.classifier import Classifier
from ucm.language import models

__all__ = ["first_fit", "overhead"]

Row = dict[str, Any]
SMALL = ("heart", "diabetes")
OVERHEAD = {"ucm.solve": 1e-3, "Classifier.fit": 2e-3}
FIRST = {"empty": 10.0, "warm": 0.8}
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


def overhead(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[Row]:
    """Seconds of a whole call over those of its solver, medians; heart and diabetes."""
    for name in SMALL:
        if name not in sets:
            continue
        X, y = load(name)
        machine = Classifier(models.nu_svm(NU[name]))
        works = {
            "ucm.solve": lambda X=X, y=y, nu=NU[name]: solve(models.nu_svm(nu), X, y),
            "Classifier.fit": lambda X=X, y=y, machine=machine: machine.fit(X, y),
        }
        own = [works["ucm.solve"]().stats.solve_time for _ in range(10 * repeats)]
        for call, work in works.items():
            whole = statistics.median(timed(work)[1] for _ in range(10 * repeats))
            over = whole - statistics.median(own)
            yield {
                "set": name,
                "call": call,
                "seconds": whole,
                "own, s": statistics.median(own),
                "over, ms": 1e3 * over,
                "within": over <= OVERHEAD[call],
            }


def first_fit(
    sets: Sequence[str], peers: Sequence[str], repeats: int, limit: float
) -> Iterator[Row]:
    """The first fit of a fresh process, 270 samples of 13 features, by what the disk cache holds; and
    before it the import of `ucm.Classifier`, which is mostly that of scikit-learn."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = []
        for _ in range(repeats + 1):  # the first one finds the folder empty
            done = subprocess.run(
                [sys.executable, "-c", _CODE], capture_output=True, check=True, env=environment
            )
            runs.append([float(number) for number in done.stdout.split()])
    for cache, of in (("empty", runs[:1]), ("warm", runs[1:])):
        imports, seconds = map(statistics.median, zip(*of, strict=True))
        within = seconds <= FIRST[cache]
        yield {"disk cache": cache, "seconds": seconds, "import, s": imports, "within": within}
