"""Tables 1 to 3 and figures 8 to 11 of Barbero, Takeda and Lopez (2015), and what must be reached.

The paper draws its own random splits, four fifths to train; so do we, one for each set.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ucm.bench.behind import direction, unit
from ucm.bench.clock import in_turns, timed
from ucm.bench.data import dense, over, scaled
from ucm.bench.judge import accuracy
from ucm.bench.registry import COURSE, Benchmark, Row
from ucm.compiler.compile import compile, solve
from ucm.errors import SolverError
from ucm.evidence.relative import admissible
from ucm.language import models
from ucm.language.robust import RobustMargin
from ucm.language.sets import ReducedHull
from ucm.language.statistics.samples import neg, pos
from ucm.solvers import Linearize, Rapminos

__all__ = ["BENCHMARK"]

NORMS = (1.0, 1.5, 2.0, 3.0, np.inf)
BELOW = 1.01  # nu is nu_min over this
SMALL = 200
FEW = 12  # features whose 2^n faces for p = 1 are few
GRID = 10  # values of nu on each side
STARTS, STARTS_OF_BOUND = 20, 5
# set, features: samples, part of nu_min, the bound to reach
RULES = {
    "heart, 4": (270, 0.8, 0.99),
    "german.numer, 5": (1000, 0.8, 0.99),
    "svmguide3, 5": (1243, 0.8, 0.99),
    "uci_wdbc, 6": (569, 0.8, 0.99),
    "heart, 6": (270, 0.8, 0.99),
    "uci_pima, 6": (768, 0.8, 0.99),
    "german.numer, 6": (1000, 0.8, 0.99),
    "heart, 8": (270, 0.8, 0.87),
    "heart, 13": (270, 0.8, 0.74),
    "uci_wdbc, 13": (270, 0.8, 0.94),
    "sonar, 20": (208, 0.9, 0.68),
    "svmguide3, 21": (500, 0.9, 0.96),
    "german.numer, 24": (400, 0.9, 0.68),
    "sonar, 40": (208, 0.9, 0.0),
    "splice, 60": (1000, 0.9, 0.0),
}
DISTANCES = (0.0, 1.0, 2.0, 3.0, 5.0)
DRAWN_NU = np.linspace(0.1, 0.9, 17)
BETTER_BELOW = ("titanic", "breast_cancer", "ringnorm", "banana")
OF_FIGURE_10 = ("titanic", "breast_cancer", "banana")
PARTS = (0.01, 1.0 - 1e-6)  # of nu_min, between which Table 3 is looked for
SECONDS = 5.0  # for each set, norm and side of Table 1

# Table 1: per cent for the nu-SVM, then ERCH with p = 2, 1, 1.5, 3, inf
ACCURACY = {
    "thyroid": (88.4, 88.4, 86.0, 88.4, 95.3, 90.7),
    "heart": (92.6, 92.6, 90.7, 94.4, 92.6, 92.6),
    "titanic": (76.1, 76.8, 76.1, 76.8, 76.8, 77.2),
    "breast_cancer": (83.6, 85.5, 81.8, 83.6, 83.6, 83.6),
    "diabetis": (78.4, 78.4, 78.4, 79.1, 78.4, 78.4),
    "flare_solar": (72.2, 72.2, 72.2, 72.2, 72.2, 70.3),
    "german": (76.0, 76.0, 76.5, 76.0, 76.0, 77.0),
    "banana": (53.2, 64.6, 64.2, 64.5, 61.1, 64.6),
    "image": (84.0, 84.0, 71.2, 81.8, 79.4, 78.4),
    "ringnorm": (77.6, 77.9, 77.8, 77.7, 78.0, 78.0),
    "splice": (86.3, 86.3, 86.0, 86.3, 85.8, 85.8),
    "twonorm": (97.9, 97.9, 97.9, 97.9, 97.8, 98.0),
    "waveform": (89.1, 89.1, 89.2, 89.3, 89.3, 89.1),
}
ORDER = (2.0, 1.0, 1.5, 3.0, np.inf)

# Table 2: (per cent, seconds) of the extended nu-SVM solver, of subgradient projection, of RAPMINOS
SPEED: dict[str, tuple[tuple[float, float] | None, tuple[float, float], tuple[float, float]]] = {
    "thyroid": ((80.8, 1.46), (86.3, 20.29), (86.3, 0.15)),
    "heart": ((82.6, 1.72), (73.9, 21.46), (73.9, 0.37)),
    "titanic": ((76.5, 1.80), (77.82, 29.84), (72.9, 0.30)),
    "breast_cancer": ((78.7, 1.05), (76.6, 0.23), (72.3, 0.35)),
    "diabetis": ((73.5, 3.21), (75.1, 0.10), (74.7, 0.47)),
    "flare_solar": (None, (63.0, 0.01), (63.3, 0.20)),
    "german": ((66.56, 2.98), (77.3, 1.48), (77.3, 1.33)),
    "banana": (None, (60.5, 44.96), (60.5, 0.53)),
    "image": (None, (82.1, 35.89), (75.0, 1.15)),
    "ringnorm": ((77.1, 26.85), (77.1, 81.95), (77.1, 7.24)),
    "splice": ((51.9, 33.27), (83.7, 46.42), (84.2, 9.76)),
    "twonorm": ((97.7, 24.05), (97.2, 61.33), (97.2, 11.02)),
    "waveform": ((78.8, 14.85), (86.9, 54.21), (86.9, 7.94)),
}
# Table 3: objectives of RAPMINOS and of subgradient projection; titanic's is misprinted
OBJECTIVE = {
    "thyroid": (0.179, 0.233),
    "heart": (0.589, 0.586),
    "titanic": (-0.808, 2.283),
    "breast_cancer": (1.194, 1.411),
    "diabetis": (0.679, 0.748),
    "flare_solar": (5e-9, -0.001),
    "german": (-9e-7, 0.053),
    "banana": (1.072, 1.109),
    "image": (-4e-6, 0.011),
    "ringnorm": (0.080, 0.099),
    "splice": (1.305, 1.287),
    "twonorm": (0.755, 0.755),
    "waveform": (1.783, 1.759),
}


def _load(name: str) -> tuple[Any, Any]:
    return dense(f"ida_{name}")


def _least_nu(X: Any, y: Any) -> float:
    return admissible(models.nu_svm(0.5), X, y)["nu"].lower


# --- what must be reached -----------------------------------------------------------------------
def small() -> Iterator[Row]:
    """Random instances with n <= 3 and m <= 30: how often 20 starts find the exact minimum to 1e-8."""
    generator = np.random.default_rng(0)
    found = {p: [0, 0] for p in NORMS}
    exact = 0
    for k in itertools.count():
        if sum(tries for _, tries in found.values()) == (20 if COURSE.quick else SMALL):
            break
        p, n = NORMS[k % 5], 1 + k % 3
        m = int(generator.integers(8, 31))
        y = np.where(np.arange(m) < m // 2, 1.0, -1.0)
        X = generator.standard_normal((m, n)) + generator.uniform(0.0, 0.5) * y[:, None]
        eta = float(generator.uniform(1.0 / (m // 2) + 0.1, 1.0))
        model = RobustMargin(ReducedHull(pos, eta=eta) - ReducedHull(neg, eta=eta), p)
        if compile(model, X, y).regime.convex:
            continue
        least = solve(model, X, y, solver="facets")
        exact += least.status == "optimal"
        best = solve(model, X, y, solver="rapminos", starts=20).objective
        found[p][0] += best <= least.objective * (1.0 + 1e-8)
        found[p][1] += 1
    for p, (hits, tries) in found.items():
        yield {"table": "small", "p": p, "instances": tries, "exact": hits, "within": None}
    hits, tries = np.sum(list(found.values()), axis=0).tolist()
    share = 100.0 * hits / tries
    yield {
        "table": "small", "p": "all", "instances": tries, "exact": hits, "per cent": share,
        "proven by facets": exact, "goal": 98.0, "within": share >= 98.0 and exact == tries,
    }  # fmt: skip


def just_below() -> Iterator[Row]:
    """RAPMINOS at nu_min / 1.01 on all samples: residual, rank test, against its start, and against the
    proven optimum where the faces of the norm are few: p = inf, and p = 1 up to 12 features."""
    return over(ACCURACY, _just_below, _load, table="just below")


def _just_below(name: str, X: Any, y: Any) -> Iterator[Row]:
    nu = _least_nu(X, y) / BELOW
    for p in NORMS:
        model = models.enu_svm(nu, p)
        plan = compile(model, X, y, solver="rapminos")
        sol = plan.solve()
        first = solve(model, X, y, solver="subgradient", max_iter=200)
        after = plan.solve(warm_start=first)
        values = [record["objective"] for record in sol.history]
        rises = max([b - a for a, b in itertools.pairwise(values)], default=0.0)
        residual = sol.certificate.residual or 0.0
        few = p == np.inf or (p == 1.0 and X.shape[1] <= FEW)
        exact = solve(model, X, y, solver="faces") if few else None
        above = None if exact is None else sol.objective - exact.objective
        good = residual <= 1e-6 and after.objective <= first.objective and rises <= 1e-12
        named = sol.status in ("local", "optimal") or p in (1.0, np.inf)
        if exact is not None and exact.status == "optimal":
            good = good and abs(sol.objective / exact.objective - 1.0) <= 1e-6
        yield {
            "table": "just below", "set": name, "p": p, "objective": sol.objective,
            "status": sol.status, "residual": residual, "after subgradient":
            after.objective - first.objective, "above exact": above,
            "exact": exact and exact.status, "within": good and named,
        }  # fmt: skip


def times() -> Iterator[Row]:
    """Seconds of RAPMINOS and of successive linearisation, both to the end, best of three in turns."""
    ratios = []
    for row in over(ACCURACY, _times, _load, table="time"):
        ratios += [row["ratio"]] if "ratio" in row else []
        yield row
    if ratios:
        mean = statistics.geometric_mean(ratios)
        yield {"table": "time", "set": "geometric mean", "ratio": mean, "within": mean <= 0.5}


def _times(name: str, X: Any, y: Any) -> Iterator[Row]:
    form = unit(models.nu_svm(_least_nu(X, y) / BELOW), X, y, 2.0)
    works = {solver.name: partial(direction, form, solver) for solver in (Rapminos(), Linearize())}
    runs = in_turns(works, 3, warm=False)
    ours, theirs = runs["rapminos"], runs["linearize"]
    heights = [form.height(form.lower(run.result)) for run in (ours, theirs)]
    yield {
        "table": "time", "set": name, "rapminos": ours.least, "linearize": theirs.least,
        "ratio": ours.least / theirs.least, "objective": heights[0],
        "objective linearize": heights[1], "within": None,
    }  # fmt: skip


# --- the tables ---------------------------------------------------------------------------------
def _split(X: Any, y: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Four fifths of the samples to train, and the others."""
    train, test = np.split(np.random.default_rng(0).permutation(y.size), [4 * y.size // 5])
    return (X[train], y[train]), (X[test], y[test])


def tables_2_and_3() -> Iterator[Row]:
    """p = 2 at nu_min / 1.01 of the samples that train; the paper does not say how far below it went,
    so objectives are no figures to meet."""
    return over(ACCURACY, _tables_2_and_3, _load, table="2, 3")


def _tables_2_and_3(name: str, X: Any, y: Any) -> Iterator[Row]:
    train, test = _split(X, y)
    nu = _least_nu(*train) / BELOW
    ends: dict[str, float] = {}
    for k, method in enumerate(("linearize", "subgradient", "rapminos")):
        sol, seconds = timed(compile(models.enu_svm(nu), *train, solver=method).solve)
        ends[method] = sol.objective
        printed = SPEED[name][k]
        yield {
            "table": "2, 3", "set": name, "method": method, "seconds": seconds,
            "printed seconds": printed and printed[1], "right, %": 100.0 * accuracy(sol, *test),
            "printed, %": printed and printed[0], "objective": sol.objective,
            "printed objective": None if k == 0 else OBJECTIVE[name][2 - k],
            "within": None if k < 2 else ends[method] <= ends["subgradient"] * (1 + 1e-9),
        }  # fmt: skip


def table_3() -> Iterator[Row]:
    """The nu at which RAPMINOS from the barycentres ends with the objective that Table 3 prints, as a part of
    nu_min: by bisection, as the set grows where nu falls. `within`: there is one between 0 and nu_min;
    titanic's and those of 0 are none of an intersecting case."""
    return over(ACCURACY, _table_3, _load, table="3")


def _table_3(name: str, X: Any, y: Any) -> Iterator[Row]:
    train, _ = _split(X, y)
    low, printed = _least_nu(*train), OBJECTIVE[name][0]
    row = {"table": "3", "set": name, "nu_min": low, "printed objective": printed}
    if printed <= 1e-4:
        yield {**row, "note": "no objective of an intersecting case", "within": None}
        return

    def reached(part: float) -> float:
        plan = compile(models.enu_svm(part * low), *train, solver="rapminos")
        return plan.solve(tol=1e-4, bound=False).objective

    least = reached(PARTS[0])
    if least < printed:
        yield {**row, "objective": least, "nu / nu_min": PARTS[0], "within": False}
        return
    small, large = PARTS
    for _ in range(8 if COURSE.quick else 12):
        part = float(np.sqrt(small * large))
        small, large = (part, large) if reached(part) > printed else (small, part)
    part = float(np.sqrt(small * large))
    yield {**row, "objective": reached(part), "nu / nu_min": part, "within": True}


def table_1() -> Iterator[Row]:
    """The best accuracy on the test samples over nu on both sides of nu_min, as printed; `GRID` values
    on each side where the paper has 100. A row is within when it is not lower by more than two
    standard errors of a share of the test samples."""
    return over(ACCURACY, _table_1, _load, table="1")


def _table_1(name: str, X: Any, y: Any) -> Iterator[Row]:
    train, test = _split(X, y)
    low, signs = _least_nu(*train), train[1]
    high = 2.0 * min((signs > 0).sum(), (signs < 0).sum()) / signs.size
    convex = np.linspace(low, high, GRID + 1)[1:] * (1.0 - 1e-9)
    beyond = np.linspace(low, 0.0, GRID + 1)[:-1] * (1.0 - 1e-3)
    for p, printed in zip(ORDER, ACCURACY[name][1:], strict=True):
        above, below = (_best_nu(train, test, values, p) for values in (convex, beyond))
        if p == 2.0:
            yield _row(name, "nu-SVM, p = 2", above, ACCURACY[name][0], test[1].size)
        row = _row(name, f"ERCH, p = {p:g}", max(above, below), printed, test[1].size)
        side = "beyond" if below > above else "convex"
        yield {**row, "side": side, "values": above[2] + below[2]}


def _best_nu(train: Any, test: Any, values: Any, p: float) -> tuple[float, float, int]:
    """(accuracy, nu, values tried), within the seconds allowed."""
    began, best, tried = time.perf_counter(), (0.0, 0.0), 0
    for nu in map(float, values):
        try:
            sol = solve(models.enu_svm(nu, p), *train, tol=1e-4)
        except SolverError:
            continue
        tried += 1
        if sol.b is not None:
            best = max(best, (100.0 * accuracy(sol, *test), nu))
        if time.perf_counter() - began > SECONDS:
            break
    return (*best, tried)


def _no_worse(below: tuple[float, float, int], above: tuple[float, float, int]) -> bool | None:
    """None where nothing was solved on one side."""
    return below[0] >= above[0] if below[2] and above[2] else None


def _row(name: str, method: str, best: tuple[float, float, int], printed: float, size: int) -> Row:
    share = printed / 100.0
    error = 100.0 * float(np.sqrt(max(share * (1.0 - share), 0.0) / size))
    return {
        "table": "1", "set": name, "method": method, "right, %": best[0], "nu": best[1],
        "printed, %": printed, "standard error": error, "values": best[2],
        "within": best[0] >= printed - 2.0 * error if best[2] else None,
    }  # fmt: skip


# --- the figures --------------------------------------------------------------------------------
def figure_8() -> Iterator[Row]:
    """Two normal classes in ten dimensions at distance r: the best accuracy on 10,000 new samples over nu
    from .1 to .9, above nu_min and below. `within`: below is better where the classes are near (r <= 2)."""
    for r in COURSE.over(DISTANCES):
        train, test = _normal(r, 2000, 1), _normal(r, 10_000, 2)
        low = _least_nu(*train)
        above, below = (
            _best_nu(train, test, [nu for nu in DRAWN_NU if (nu > low) == side], 2.0)
            for side in (True, False)
        )
        near = _no_worse(below, above) if r <= 2.0 else None
        yield {"table": "figure 8", "r": r, "nu_min": low, **_both(above, below), "within": near}


def _normal(r: float, m: int, seed: int) -> tuple[Any, Any]:
    """Section 6.2: +1 standard normal; -1 around r / sqrt(n) with deviations from .1 to 1.5 along the axes of
    a random basis, the same for every draw."""
    n = 10
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))[0]
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    X = generator.standard_normal((m, n))
    X[y < 0] = (X[y < 0] * np.linspace(0.1, 1.5, n)) @ Q.T + r / np.sqrt(n)
    return X, y


def _both(above: tuple[float, float, int], below: tuple[float, float, int]) -> Row:
    row: Row = {}
    for side, (share, nu, tried) in (("above", above), ("below", below)):
        row |= {f"{side}, %": share if tried else None, f"nu {side}": nu if tried else None}
    return row


def figures_9_and_10() -> Iterator[Row]:
    """Accuracy over nu on both sides of nu_min for the norms of the figures, `GRID` values on each side: the
    best of each. `within` (p = 2, on the sets that the paper names): below nu_min it is at least as good."""
    return over(ACCURACY, _figures_9_and_10, _load, table="figures 9, 10")


def _figures_9_and_10(name: str, X: Any, y: Any) -> Iterator[Row]:
    train, test = _split(X, y)
    low, signs = _least_nu(*train), train[1]
    high = 2.0 * min((signs > 0).sum(), (signs < 0).sum()) / signs.size
    for p in NORMS if name in OF_FIGURE_10 else (2.0,):
        above = _best_nu(train, test, np.linspace(low, high, GRID + 1)[1:] * (1.0 - 1e-9), p)
        below = _best_nu(train, test, np.linspace(low, 0.0, GRID + 1)[:-1] * (1.0 - 1e-3), p)
        near = _no_worse(below, above) if p == 2.0 and name in BETTER_BELOW else None
        yield {
            "table": "figures 9, 10", "set": name, "p": p, "nu_min": low, **_both(above, below),
            "within": near,
        }  # fmt: skip


def figure_11() -> Iterator[Row]:
    """RAPMINOS from the barycentres beside random starts, just below nu_min on the samples that train, as the
    paper where the best nu is above: objectives as multiples of the best one, and accuracies. `within`: no
    worse than half of the starts."""
    return over(ACCURACY, _figure_11, _load, table="figure 11")


def _figure_11(name: str, X: Any, y: Any) -> Iterator[Row]:
    train, test = _split(X, y)
    plan = compile(models.enu_svm(_least_nu(*train) / BELOW), *train, solver="rapminos")
    own, generator = plan.solve(bound=False), np.random.default_rng(0)
    if own.status == "optimal":
        row = {"table": "figure 11", "set": name, "note": "0 on the boundary of the set"}
        yield {**row, "within": None}
        return
    found = [own]
    for _ in range(COURSE.repeats(STARTS)):
        start = replace(own, w=generator.standard_normal(own.w.size))
        found.append(plan.solve(warm_start=start, bound=False))
    ends = np.array([sol.objective for sol in found])
    right = np.array([100.0 * accuracy(sol, *test) for sol in found])
    best, middle = float(ends.min()), float(np.median(ends[1:]))
    yield {
        "table": "figure 11", "set": name, "own / best": own.objective / best,
        "median / best": middle / best, "worst / best": float(ends.max()) / best,
        "own, %": right[0], "median, %": float(np.median(right[1:])),
        "within": own.objective <= middle * (1.0 + 1e-6),
    }  # fmt: skip


# --- how far from the optimum ---------------------------------------------------------------------
def bounds() -> Iterator[Row]:
    """Lower bounds of the optimum, p = 2: with every answer, and by `Plan.bound` after five starts; seconds
    of the processor, the least of three of a solve. `within`: up to 6 features 99 % in 3 seconds; from
    8 to 25 the parts that a conic solver proves by the same rules; beyond, a bound in ten local solves."""
    for case in COURSE.over(RULES):
        yield from over((case,), _bounds, _first_columns, table="bound")


def _first_columns(case: str) -> tuple[Any, Any]:
    """The first features of some samples, scaled."""
    name, n = case.split(", ")
    X, y = dense(name)
    A = scaled(X[:, X.std(axis=0) > 0.0])[:, : int(n)]
    kept = np.random.default_rng(1).permutation(y.size)[: RULES[case][0]]
    return np.ascontiguousarray(A[kept]), y[kept]


def _bounds(case: str, X: Any, y: Any) -> Iterator[Row]:
    _, part, wanted = RULES[case]
    plan = compile(models.nu_svm(part * _least_nu(X, y)), X, y)
    works = {bound: partial(plan.solve, bound=bound) for bound in (False, True)}
    runs = [[timed(work, time.process_time) for _ in range(3)] for work in works.values()]
    alone, both = (min(seconds for _, seconds in each) for each in runs)
    quick = runs[1][0][0]
    row = {
        "table": "bound",
        "set": case,
        "nu / nu_min": part,
        "solve, s": alone,
        "with bound, s": both,
    }
    row["bound / objective"] = quick.certificate.dual / quick.objective
    if X.shape[1] > 25:
        near = quick.certificate.dual > 0.0 and both - alone <= 10.0 * alone
        yield {**row, "within": near}
        return
    best = plan.solve(starts=STARTS_OF_BOUND)
    found, seconds = timed(partial(plan.bound, best), time.process_time)
    share = found.certificate.dual / found.objective
    row |= {"Plan.bound, s": seconds, "its bound / objective": share, "wanted": wanted}
    yield {**row, "within": share >= wanted - 0.005 and (X.shape[1] > 6 or seconds <= 3.0)}


BENCHMARK = Benchmark(
    "erch",
    "Tables 1 to 3 and figures 8 to 11 of Barbero, Takeda and Lopez (2015)",
    {
        "small": small,
        "below": just_below,
        "time": times,
        "speed": tables_2_and_3,
        "table 3": table_3,
        "accuracy": table_1,
        "bound": bounds,
        "figure 8": figure_8,
        "figures 9, 10": figures_9_and_10,
        "figure 11": figure_11,
    },
)
