"""Whole calls of this checkout beside those of another one, each with the library that was built in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Parts, Row

__all__ = ["PARTS"]

PARTS = Parts()
HERE = Path(__file__).resolve().parents[2]
_SETS = {
    "wine": "load_wine(return_X_y=True)",
    "breast_cancer": "load_breast_cancer(return_X_y=True)",
    "synthetic 1000 x 20": "make_classification(1000, 20, n_informative=10, class_sep=0.5, random_state=0)",
    "synthetic 5000 x 50": "make_classification(5000, 50, n_informative=25, class_sep=0.5, random_state=0)",
}
_CALLS = {
    "nu_svm": "M.nu_svm(0.6 * top), X, y",
    "mm_fda": "M.mm_fda(0.1), X, y",
    "kl_svm": "M.kl_svm(0.95 * np.sqrt(top * (2.0 - top))), X, y",
    "squared hinge + l2": "ucm.SquaredHinge() + 0.5 * ucm.L2(), X, y",
    "rbf svm": "M.svm(1.0), X[:1000], y[:1000], kernel='rbf'",
}
# top: the largest nu; a call of few milliseconds is repeated for 20
_WORKER = """
import sys, time, warnings
import numpy as np
import ucm
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.preprocessing import scale
assert ucm.__file__.startswith(sys.argv[1]), ucm.__file__
warnings.simplefilter("ignore")
M, M.svm, loaded = ucm.models, lambda lam: ucm.Hinge() + lam * ucm.L2(), None
for line in sys.stdin:
    data, call = line.rstrip("\\n").split("\\t")
    if data != loaded:
        X, y = eval(data)
        X, y, loaded = scale(X), np.where(y == 0, -1, 1), data
        top, work = 2.0 * min(np.mean(y > 0), np.mean(y < 0)), {}
    if call not in work:
        run = eval(f"lambda: ucm.solve({call})")
        start = time.process_time()
        run()
        work[call] = run, 1 + int(0.02 / (time.process_time() - start))
    run, count = work[call]
    start = time.process_time()
    for _ in range(count):
        run()
    print((time.process_time() - start) / count, flush=True)
"""


def _worker(checkout: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WORKER, checkout]
    environment = {**os.environ, "PYTHONPATH": checkout, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=checkout, env=environment, text=True, stdin=pipe, stdout=pipe)


@PARTS.add
def base(checkout: str, sets: tuple[str, ...] = tuple(_SETS), repeats: int = 9) -> Iterator[Row]:
    """20 whole calls beside those of another checkout with its own library, in turns: processor time."""
    workers = [_worker(str(HERE)), _worker(str(Path(checkout).resolve()))]
    ratios = []
    for name in sets:
        for model, call in _CALLS.items():
            seconds = np.full((repeats + 1, 2), np.inf)
            for turn in range(repeats + 1):
                for k, worker in enumerate(workers):
                    # both pipes were asked for, and are there
                    print(_SETS[name], call, sep="\t", file=worker.stdin, flush=True)
                    seconds[turn, k] = float(worker.stdout.readline())  # type: ignore[union-attr]
            ours, theirs = seconds[1:].min(axis=0)
            ratios.append(ours / theirs)
            times = {"ms": 1e3 * ours, "base ms": 1e3 * theirs, "ratio": ratios[-1]}
            yield {"set": name, "model": model, **times, "within": ratios[-1] <= 1.15}
    for worker in workers:
        worker.communicate()
    mean = float(np.exp(np.mean(np.log(ratios))))
    yield {"set": "all", "model": "geometric mean", "ratio": mean, "within": mean <= 1.0}
