"""Threads, processes, forks, Ctrl-C, a disk that cannot be written: the same answers, nothing left over."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ucm
from ucm.compiler.plan import Plan
from ucm.compiler.robust import DistanceLowering
from ucm.data.bound_data import bind
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.language.robust import as_model

rng = np.random.default_rng(11)
y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
X = rng.standard_normal((300, 6)) + 0.8 * y[:, None]

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "active-set": (ucm.models.nu_svm(0.8), {}),
    "ssnal": (ucm.models.l2_nu_svm(0.1), {"solver": "ssnal"}),
    "secular": (ucm.models.mm_mpm(0.1), {}),
    "with a kernel": (ucm.models.nu_svm(0.5), {"kernel": "rbf"}),
    "smo": (ucm.models.psvm(2.0, 1.0), {"kernel": "rbf"}),
    "highs": (ucm.models.one_norm_svm(0.5), {}),
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
def test_one_plan_in_eight_threads(case: str) -> None:
    model, options = MODELS[case]
    plan = ucm.compile(model, X, y, **options)
    alone = _figures(plan.solve())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda limit: _figures(plan.solve(time_limit=limit)), [None, 99.0] * 4))
    assert all(_same(alone, each) for each in found)


def test_a_kept_product_that_another_thread_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other thread multiplies between the comparison of the vector and the look at its product."""
    one, other = np.linspace(0.0, 1.0, 300), np.linspace(1.0, 0.0, 300)
    gram = Gram(Kernel("rbf", 0.2), X)
    expected = gram.follow(one).copy()
    compare = np.array_equal

    def and_meanwhile(a: Any, b: Any) -> bool:
        found = compare(a, b)
        monkeypatch.setattr(np, "array_equal", compare)
        gram.follow(other)
        return found

    monkeypatch.setattr(np, "array_equal", and_meanwhile)
    assert np.allclose(gram.times(one), expected, rtol=1e-12)


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


def test_threads_leave_no_filter_of_warnings_behind() -> None:
    """Comparisons, searches and conic programs whose ends overlap; what they silence, they silence alone."""
    unproven = ucm.Classifier(ucm.models.kl_svm(0.5), max_iter=1)
    search = ucm.ClassifierCV(unproven, param_range=[0.3, 0.5], cv=2, n_jobs=2)
    domain = ucm.CvxpyDomain(lambda q: [q >= 0, q <= 1])

    def work(k: int) -> object:
        if k % 2 == 0:
            return ucm.solve(ucm.AffineImage(np.eye(6), domain, 2.0 * np.ones(6)), X, y)
        models = {"one": unproven, "two": ucm.Classifier()}
        return ucm.compare(models, X, y, cv=2, n_jobs=2, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        with ThreadPoolExecutor(3) as pool:
            compared: Any = list(pool.map(work, range(8)))[1]
        assert warnings.filters == before
        assert not any(row.failures for row in compared)
    with pytest.warns(ucm.ConvergenceWarning) as said:
        search.fit(X, y)
    assert len(said) == 1  # of the last fit, and of no fold


SHARED = {
    "two hulls": ucm.models.nu_svm(0.8),
    "other hulls": ucm.models.nu_svm(0.7),
    "weights in a ball": ucm.models.l2_nu_svm(0.11),
    "ellipsoids": ucm.models.mm_mpm(0.3),
    "an ellipsoid": ucm.models.mm_fda(0.3),
    "coherent": ucm.models.coherent_mm_fda(0.4),
    "0 in U": ucm.models.enu_svm(0.2),
}


def _over(data: Any, model: Any) -> Plan:
    """A plan over data that are bound already."""
    return Plan.of((DistanceLowering(as_model(model, "test"), data),), time.perf_counter())


def _rounds(plans: dict[str, Plan], rounds: int) -> None:
    """Four threads, each round another plan in each: the figures are those of one thread."""

    def figures(name: str) -> tuple[Any, ...]:
        sol = plans[name].solve()
        b, w = sol.b or 0.0, np.zeros(1) if sol.w is None else sol.w
        return sol.status, sol.objective, b, sol.certificate.dual, float(w.sum())

    alone = {name: figures(name) for name in plans}
    names = list(plans)
    with ThreadPoolExecutor(4) as pool:
        for k in range(rounds):
            now = [names[(k + j) % len(names)] for j in range(4)]
            for name, found in zip(now, pool.map(figures, now)):
                assert found[0] == alone[name][0], (k, name, found, alone[name])
                assert np.allclose(found[1:], alone[name][1:], rtol=1e-9, atol=1e-12), (k, name)


def test_different_models_over_the_same_bound_data_in_threads() -> None:
    data = bind(X[:120], y[:120])
    _rounds({name: _over(data, model) for name, model in SHARED.items()}, 200)


def test_different_models_over_rows_of_one_gram_matrix_in_threads() -> None:
    """There is room for half of the rows."""
    gram = Gram(Kernel("rbf", gamma=0.05), X, limit=8 * 300 * 150)
    data = bind(X, y).in_gram_space(gram)
    models = {f"nu = {nu}": ucm.models.nu_svm(nu) for nu in (0.5, 0.6, 0.7, 0.8)}
    plans = {name: _over(data, model) for name, model in models.items()}
    _rounds(plans, 50)


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


@pytest.mark.slow
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

        def interrupted(plan, delay):
            # the timer runs within the try, however late the system lets this process go on; Python drops
            # an exception that a destructor meets, and then the next timer has to do
            try:
                for _ in range(100):
                    signal.setitimer(signal.ITIMER_REAL, delay)
                    while signal.getitimer(signal.ITIMER_REAL)[0] > 0.0:
                        plan.solve(tol=1e-12, time_limit=50.0)
            except KeyboardInterrupt:
                return True
            return False

        for model, options in (
            (ucm.models.nu_svm(0.8), {}),
            (ucm.models.nu_svm(0.5), {"kernel": "rbf"}),
            (ucm.models.enu_svm(0.1), {}),
            (ucm.models.one_norm_svm(0.5), {}),
        ):
            plan = ucm.compile(model, X, y, **options)
            expected = plan.solve().objective
            for delay in (0.001, 0.003, 0.01):
                print(interrupted(plan, delay))
            assert abs(plan.solve().objective - expected) <= 1e-9 * abs(expected)
        print(threading.active_count() == 1)
    """)
    assert words == ["True"] * 13
