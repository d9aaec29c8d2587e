"""Tables 1 to 3 and figures 8 to 11 of Barbero, Takeda and Lopez (2015), and what must be reached.

The paper draws its own random splits, four fifths to train; so do we, one for each set.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from benchmarks.harness import Parts, Row, dense, in_turns
from benchmarks.judge import accuracy
from benchmarks.papers import printed as print_of
from ucm.compiler.compile import compile, solve
from ucm.errors import SolverError
from ucm.language import models
from ucm.language.robust import RobustMargin
from ucm.language.sets import ReducedHull
from ucm.language.statistics.samples import neg, pos
from ucm.ranges.relative_sizes import admissible

__all__ = ["PARTS"]

PARTS = Parts()

NORMS = (1.0, 1.5, 2.0, 3.0, np.inf)
BELOW = 1.01  # nu is nu_min over this
SMALL = 40
FEW = 12  # features whose 2^n faces for p = 1 are few
GRID = 10  # values of nu on each side
STARTS = 200
DISTANCES = (0.0, 1.0, 2.0, 3.0, 5.0)
DRAWN_NU = np.linspace(0.1, 0.9, 17)
BETTER_BELOW = ("titanic", "breast_cancer", "ringnorm", "banana")
QUICK = ("thyroid", "heart", "titanic", "breast_cancer", "diabetis", "flare_solar", "german", "banana")
OF_FIGURE_10 = ("titanic", "breast_cancer", "banana")

PRINTED = print_of("barbero")
SETS = tuple(PRINTED)
ORDER = (2.0, 1.0, 1.5, 3.0, np.inf)
COLUMNS = ("p_2", "p_1", "p_1.5", "p_3", "p_inf")
METHODS = {"linearize": "enu", "subgradient": "subgradient", "rapminos": "rapminos"}


def load(name: str) -> tuple[Any, Any]:
    return dense(f"ida_{name}")


def least_nu(X: Any, y: Any) -> float:
    return admissible(models.nu_svm(0.5), X, y)["nu"].lower


# --- what must be reached -----------------------------------------------------------------------
@PARTS.add
def small(repeats: int = SMALL) -> Iterator[Row]:
    """Random instances with n <= 3 and m <= 30: how often 20 starts find the exact minimum to 1e-8."""
    generator = np.random.default_rng(0)
    found = {p: [0, 0] for p in NORMS}
    exact = 0
    for k in itertools.count():
        if sum(tries for _, tries in found.values()) == repeats:
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
        best = solve(model, X, y, solver="rapminos", n_starts=20).objective
        found[p][0] += best <= least.objective * (1.0 + 1e-8)
        found[p][1] += 1
    for p, (hits, tries) in found.items():
        yield {"p": p, "instances": tries, "exact": hits, "within": None}
    hits, tries = np.sum(list(found.values()), axis=0).tolist()
    share = 100.0 * hits / tries
    yield {
        "p": "all", "instances": tries, "exact": hits, "per cent": share,
        "proven by facets": exact, "goal": 98.0, "within": share >= 98.0 and exact == tries,
    }  # fmt: skip


@PARTS.each(QUICK, load)
def below(name: str, X: Any, y: Any) -> Iterator[Row]:
    """RAPMINOS at nu_min / 1.01 on all samples: residual, rank test, against its start, and against the
    proven optimum where the faces of the norm are few: p = inf, and p = 1 up to 12 features."""
    nu = least_nu(X, y) / BELOW
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
            good = good and abs(sol.objective - exact.objective) <= 1e-6 * exact.objective + 1e-12
        yield {
            "set": name, "p": p, "objective": sol.objective,
            "status": sol.status, "residual": residual, "after subgradient":
            after.objective - first.objective, "above exact": above,
            "exact": exact and exact.status, "within": good and named,
        }  # fmt: skip


# --- the tables ---------------------------------------------------------------------------------
def _split(X: Any, y: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Four fifths of the samples to train, and the others."""
    train, test = np.split(np.random.default_rng(0).permutation(y.size), [4 * y.size // 5])
    return (X[train], y[train]), (X[test], y[test])


@PARTS.each(SETS, load)
def tables_2_3(name: str, X: Any, y: Any) -> Iterator[Row]:
    """p = 2 at nu_min / 1.01 of the samples that train; the paper does not say how far below it went,
    so objectives are no figures to meet. Seconds are without the lower bound, which print has not."""
    train, test = _split(X, y)
    nu = least_nu(*train) / BELOW
    plans = {method: compile(models.enu_svm(nu), *train, solver=method) for method in METHODS}
    works = {method: partial(plan.solve, bound=False) for method, plan in plans.items()}
    runs = in_turns(works, 3, clock=time.process_time)
    ends = {method: run.result.objective for method, run in runs.items()}
    for method, column in METHODS.items():
        sol, seconds = runs[method].result, runs[method].least
        printed = PRINTED[name]
        yield {
            "set": name, "method": method, "seconds": seconds,
            "printed seconds": printed[f"{column}_s"], "right, %": 100.0 * accuracy(sol, *test),
            "printed, %": printed[column], "objective": sol.objective,
            "printed objective": printed.get(f"{column}_f"), "iterations": sol.stats.iterations,
            "within": None if method != "rapminos" else ends[method] <= ends["subgradient"] * (1 + 1e-9),
        }  # fmt: skip


@PARTS.each(SETS, load)
def table_1(name: str, X: Any, y: Any, *, limit: float = 1.0) -> Iterator[Row]:
    """The best accuracy on the test samples over nu on both sides of nu_min: `GRID` values on each side where
    the paper has 100, at most `limit` seconds of the processor for each norm and side. Within: two standard
    errors of a share of the test samples, above or below print."""
    train, test = _split(X, y)
    convex, beyond = _values(*train)
    for p, column in zip(ORDER, COLUMNS, strict=True):
        printed = PRINTED[name][column]
        above, below = (_best_nu(train, test, values, p, limit) for values in (convex, beyond))
        if p == 2.0:
            yield _row(name, "nu-SVM, p = 2", above, PRINTED[name]["nu_svm"], test[1].size, "convex")
        tried, side = above[2] + below[2], "beyond" if below > above else "convex"
        best = (*max(above, below)[:2], tried)
        yield _row(name, f"ERCH, p = {p:g}", best, printed, test[1].size, side)


def _values(X: Any, y: Any) -> tuple[Any, Any]:
    """`GRID` values of nu above nu_min, up to nu_max, and as many below it."""
    low, high = least_nu(X, y), 2.0 * min((y > 0).sum(), (y < 0).sum()) / y.size
    convex = np.linspace(low, high, GRID + 1)[1:] * (1.0 - 1e-9)
    return convex, np.linspace(low, 0.0, GRID + 1)[:-1] * (1.0 - 1e-3)


def _best_nu(train: Any, test: Any, values: Any, p: float, limit: float = 5.0) -> tuple[float, float, int]:
    """(accuracy, nu, values tried), within the seconds allowed."""
    began, best, tried = time.process_time(), (0.0, 0.0), 0
    for nu in map(float, values):
        try:
            sol = solve(models.enu_svm(nu, p), *train, tol=1e-4)
        except SolverError:
            continue
        tried += 1
        if sol.b is not None:
            best = max(best, (100.0 * accuracy(sol, *test), nu))
        if time.process_time() - began > limit:
            break
    return (*best, tried)


def _better(below: tuple[float, float, int], above: tuple[float, float, int]) -> bool | None:
    """None where nothing was solved on one side."""
    return below[0] > above[0] if below[2] and above[2] else None


def _row(name: str, method: str, best: tuple[float, float, int], printed: float, size: int, side: str) -> Row:
    share = printed / 100.0
    error = 100.0 * float(np.sqrt(max(share * (1.0 - share), 0.0) / size))
    return {
        "set": name, "method": method, "side": side, "right, %": best[0], "nu": best[1],
        "printed, %": printed, "ours - print": best[0] - printed, "standard error": error,
        "values": best[2], "within": abs(best[0] - printed) <= 2.0 * error if best[2] else None,
    }  # fmt: skip


# --- the figures --------------------------------------------------------------------------------
@PARTS.add
def figure_8() -> Iterator[Row]:
    """Two normal classes in ten dimensions at distance r: the best accuracy on 10,000 new samples over nu
    from .1 to .9, above nu_min and below. `within`: below is better where the classes are near (r <= 2)."""
    for r in DISTANCES:
        train, test = _normal(r, 2000, 1), _normal(r, 10_000, 2)
        low = least_nu(*train)
        above, below = (
            _best_nu(train, test, [nu for nu in DRAWN_NU if (nu > low) == side], 2.0)
            for side in (True, False)
        )
        near = _better(below, above) if r <= 2.0 else None
        yield {"r": r, "nu_min": low, **_both(above, below), "within": near}


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


@PARTS.each(SETS, load)
def figures_9_10(name: str, X: Any, y: Any, *, limit: float = 3.0) -> Iterator[Row]:
    """Accuracy over nu on both sides of nu_min for the norms of the figures, `GRID` values on each side: the
    best of each. `within` (p = 2, on the sets that the paper names): below nu_min it is better."""
    train, test = _split(X, y)
    low, (convex, beyond) = least_nu(*train), _values(*train)
    for p in NORMS if name in OF_FIGURE_10 else (2.0,):
        above, below = (_best_nu(train, test, values, p, limit) for values in (convex, beyond))
        near = _better(below, above) if p == 2.0 and name in BETTER_BELOW else None
        yield {"set": name, "p": p, "nu_min": low, **_both(above, below), "within": near}


@PARTS.each(SETS, load)
def figure_11(name: str, X: Any, y: Any, *, repeats: int = STARTS, limit: float = 2.0) -> Iterator[Row]:
    """RAPMINOS from the barycentres beside random starts, p = 2, on the samples that train: at the nu of the
    best accuracy where it lies below nu_min, else just below nu_min, as the paper; and at half of nu_min.
    Objectives as multiples of the best one found, the share of the starts that end lower, and accuracies; at
    most `limit` seconds of starts for each. Within: no worse than half of the starts."""
    train, test = _split(X, y)
    low, (convex, beyond) = least_nu(*train), _values(*train)
    above, below = (_best_nu(train, test, values, 2.0, limit) for values in (convex, beyond))
    best = min(below[1], low / BELOW) if below > above else low / BELOW
    for what, nu in {"as printed": best, "half of nu_min": 0.5 * low}.items():
        row = {"set": name, "nu": what, "nu / nu_min": nu / low}
        yield row | _starts(compile(models.enu_svm(nu), *train, solver="rapminos"), test, repeats, limit)


def _starts(plan: Any, test: Any, repeats: int, limit: float) -> Row:
    own, generator = plan.solve(bound=False), np.random.default_rng(0)
    if own.status == "optimal":
        return {"note": "0 on the boundary of the set", "within": None}
    found, began = [own], time.process_time()
    while len(found) <= repeats and time.process_time() - began < limit:
        start = replace(own, w=generator.standard_normal(own.w.size))
        found.append(plan.solve(warm_start=start, bound=False))
    ends = np.array([sol.objective for sol in found])
    right = np.array([100.0 * accuracy(sol, *test) for sol in found])
    best, middle = float(ends.min()), float(np.median(ends[1:]))
    return {
        "starts": len(found) - 1, "own / best": own.objective / best, "median / best": middle / best,
        "worst / best": float(ends.max()) / best,
        "lower, %": 100.0 * float(np.mean(ends[1:] < own.objective * (1.0 - 1e-6))), "own, %": right[0],
        "median, %": float(np.median(right[1:])), "within": own.objective <= middle * (1.0 + 1e-6),
    }  # fmt: skip


# --- what no linear classifier reaches --------------------------------------------------------------
@PARTS.each(("banana",), load)
def banana(name: str, X: Any, y: Any) -> Iterator[Row]:
    """Table 1 on banana beside the most accurate of all lines, fitted on the samples that it is counted on:
    those of our test part, and all 5,300."""
    for what, (A, signs) in {"test part": _split(X, y)[1], "all samples": (X, y)}.items():
        best = 100.0 * max(best_line(A, o * signs) for o in (1.0, -1.0)) / signs.size
        for p, column in zip(ORDER, COLUMNS, strict=True):
            printed = PRINTED[name][column]
            yield {
                "set": name, "samples": what, "p": p, "best line": best, "print": printed,
                "print - best": printed - best, "within": None,
            }  # fmt: skip


def best_line(A: Any, y: Any) -> int:
    """How many samples of two features the best line has right, class +1 on its left.

    A best line can be moved until it holds two samples, whose class it then may choose: all on the line count
    as right. With three samples on one line this is an upper bound.
    """
    places, index = np.unique(A, axis=0, return_inverse=True)
    plus, minus = (np.bincount(index.ravel()[y == o], minlength=len(places)) for o in (1.0, -1.0))
    gain, free = plus - minus, np.maximum(minus - plus, 0)  # on the left; more on the line
    most = 0
    for k, place in enumerate(places):
        d = np.delete(places, k, axis=0) - place
        angle = np.arctan2(d[:, 1], d[:, 0])
        order = np.argsort(angle)
        twice = np.concatenate([angle[order], angle[order] + 2.0 * np.pi])
        left, line = (
            np.concatenate([[0], np.cumsum(np.tile(np.delete(each, k)[order], 2))]) for each in (gain, free)
        )
        # from each angle on a closed half turn, with the places at its two ends
        at = angle[order]
        ends = [np.searchsorted(twice, at + turn, side) for turn, side in _TURNS]
        found = left[ends[3]] - left[ends[0]]
        found += line[ends[1]] - line[ends[0]] + line[ends[3]] - line[ends[2]]
        most = max(most, int(found.max()) + max(plus[k], minus[k]) - minus[k])
    return most + int(minus.sum())


_TINY = 1e-12
_TURNS: tuple[tuple[float, Literal["left", "right"]], ...] = (
    (-_TINY, "left"),
    (_TINY, "right"),
    (np.pi - _TINY, "left"),
    (np.pi + _TINY, "right"),
)
