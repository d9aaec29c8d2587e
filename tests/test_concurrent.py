"""Threads, processes, forks, Ctrl-C, a disk that cannot be written: the same answers, nothing left over."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ucm

rng = np.random.default_rng(11)
y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
X = rng.standard_normal((300, 6)) + 0.8 * y[:, None]

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "newton-hull": (ucm.models.nu_svm(0.8), {}),
    "newton": (ucm.models.l2_nu_svm(0.1), {"solver": "newton"}),
    "secular": (ucm.models.mm_mpm(0.1), {}),
    "behind a kernel": (ucm.models.nu_svm(0.5), {"kernel": "rbf"}),
    "psmo": (ucm.models.psvm(2.0, 1.0), {"kernel": "rbf"}),
    "simplex": (ucm.models.one_norm_svm(0.5), {}),
    "dca": (ucm.models.rlsvm1(0.5), {}),
    "0 in U": (ucm.models.enu_svm(0.1), {}),
    "clarabel": (ucm.models.kl_svm(0.5), {"solver": "clarabel"}),
}


def _figures(solution: Any) -> tuple[Any, ...]:
    return solution.status, solution.objective, solution.b, solution.certificate.dual


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """To the rounding that another number of BLAS threads brings."""
    return one[0] == other[0] and np.allclose(one[1:], other[1:], rtol=1e-6, atol=1e-9)


# --- threads ------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", MODELS)
def test_one_plan_in_many_threads(case: str) -> None:
    model, options = MODELS[case]
    plan = ucm.compile(model, X, y, **options)
    alone = _figures(plan.solve())
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda limit: _figures(plan.solve(time_limit=limit)), [None, 99.0] * 4)
        )
    assert all(_same(alone, each) for each in found)


def test_many_plans_over_the_same_samples_in_threads() -> None:
    def figures(case: str) -> tuple[Any, ...]:
        model, options = MODELS[case]
        return _figures(ucm.solve(model, X, y, **options))

    alone = {case: figures(case) for case in MODELS}
    before = X.copy(), y.copy()
    with ThreadPoolExecutor(4) as pool:
        for case, found in zip(list(MODELS) * 3, pool.map(figures, list(MODELS) * 3)):
            assert _same(alone[case], found), case
    assert np.array_equal(before[0], X) and np.array_equal(before[1], y)


def test_a_time_limit_in_one_thread_stops_no_other() -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.8), X, y)

    def status(limit: float | None) -> str:
        with warnings.catch_warnings(action="ignore"):
            return plan.solve(tol=1e-12, time_limit=limit).status

    with warnings.catch_warnings(action="ignore"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(status, [1e-9, None, 1e-9, 60.0] * 3))
    assert found == [status(1e-9), status(None), status(1e-9), status(None)] * 3
    assert found[0] == "time_limit" != found[1]


def test_no_thread_is_left_over() -> None:
    plan = ucm.compile(ucm.models.nu_svm(0.8), X, y)
    plan.solve()
    before = threading.active_count()

    def interrupt(record: dict[str, float]) -> None:
        raise KeyboardInterrupt

    for _ in range(20):
        plan.solve(time_limit=1e3)
        with pytest.raises(KeyboardInterrupt):
            plan.solve(time_limit=1e3, callback=interrupt)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(5.0)
    assert threading.active_count() <= before


# --- processes ----------------------------------------------------------------------------------
SAMPLES = """
    import numpy as np, ucm
    rng = np.random.default_rng(11)
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    X = rng.standard_normal((300, 6)) + 0.8 * y[:, None]

    def work(nu):
        s = ucm.solve(ucm.models.nu_svm(nu), X, y, time_limit=60.0)
        return s.status, s.objective
"""


def _run(code: str, **environment: str) -> list[str]:
    """The words that a process of its own prints."""
    text = textwrap.dedent(SAMPLES) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True, text=True, timeout=300, check=False, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_after_a_solve() -> None:
    words = _run("""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from sklearn.linear_model import LogisticRegression
        here = [work(nu) for nu in (0.6, 0.7, 0.8)]
        np.dot(np.ones((500, 500)), np.ones((500, 500)))  # the threads of BLAS run
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
            there = list(pool.map(work, (0.6, 0.7, 0.8)))
        again = [work(nu) for nu in (0.6, 0.7, 0.8)]
        for found in (there, again):
            for (status, number), (s, n) in zip(here, found):
                print(status == s == "optimal" and abs(number - n) <= 1e-6 * abs(n))
    """)
    assert words == ["True"] * 6


def test_plans_and_solutions_go_to_other_processes() -> None:
    words = _run("""
        from joblib import Parallel, delayed
        here = [work(nu) for nu in (0.6, 0.8)]
        found = Parallel(n_jobs=2)(
            delayed(ucm.solve)(ucm.models.nu_svm(nu), X, y) for nu in (0.6, 0.8)
        )
        for (status, number), s in zip(here, found):
            print(status == s.status and abs(number - s.objective) <= 1e-6 * abs(number))
    """)
    assert words == ["True"] * 2


# --- Ctrl-C -------------------------------------------------------------------------------------
@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals as of POSIX")
def test_ctrl_c_within_a_limited_solve_leaves_no_trace() -> None:
    words = _run("""
        import os, signal, threading, warnings
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        warnings.simplefilter("ignore")
        for model, options in (
            (ucm.models.nu_svm(0.8), {}),
            (ucm.models.nu_svm(0.5), {"kernel": "rbf"}),
            (ucm.models.enu_svm(0.1), {}),
            (ucm.models.one_norm_svm(0.5), {}),
        ):
            plan = ucm.compile(model, X, y, **options)
            expected = plan.solve().objective
            for delay in (0.001, 0.003, 0.01):
                signal.setitimer(signal.ITIMER_REAL, delay)
                try:
                    for _ in range(100_000):
                        plan.solve(tol=1e-12, time_limit=50.0)
                except KeyboardInterrupt:
                    print("interrupted")
            assert abs(plan.solve().objective - expected) <= 1e-9 * abs(expected)
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.cancel()
                thread.join(5.0)
        print(threading.active_count() == 1)
    """)
    assert words == ["interrupted"] * 12 + ["True"]


# --- a disk that cannot be written ----------------------------------------------------------------
def test_a_cache_that_is_there_is_only_read() -> None:
    assert _run("print(*work(0.7)[:1])") == ["optimal"]  # now it is there
    words = _run("""
        import numba.core.caching as caching

        def refused(*args, **kwargs):
            raise PermissionError("read-only file system")

        caching.IndexDataCacheFile.save = refused
        print(*work(0.7)[:1])
        from ucm import numerics
        print(sum(numerics.march.stats.cache_hits.values()) > 0)
    """)
    assert words == ["optimal", "True"]


def test_no_cache_at_all() -> None:
    """As on a read-only disk: all that is needed is compiled anew."""
    words = _run("""
        import tempfile

        def refused(*args, **kwargs):
            raise PermissionError("read-only file system")

        tempfile.TemporaryFile = refused
        print(*work(0.7)[:1])
        from ucm import numerics
        print(not numerics.march.stats.cache_path)
    """)
    assert words == ["optimal", "True"]
