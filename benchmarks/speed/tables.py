"""Whole calls of `ucm.solve` beside the solvers of other libraries, to the gap that these reach."""

from __future__ import annotations

import itertools
import statistics
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.harness import Part, Row, in_turns, isolated, missing
from benchmarks.speed.datasets import NU, SHAPES, load, present
from benchmarks.speed.objective import MODELS, Problem
from benchmarks.speed.solvers import answer_of, peers_of
from ucm.errors import DataError

__all__ = ["PARTS", "beside"]

GAPS = 1e-8, 0.1  # the range of the tolerance of our side
LOSSES = [name for name in MODELS if " + " in name]
WEIGHTS = (0.1, 1.0, 10.0)  # of a penalty
TEXTS = ("basehock", "pcmac")
KERNEL_SETS = ("a9a", "cod-rna", "ijcnn1", "usps")
SIZES = (2_000, 6_000, 15_000)  # samples
WIDTHS = (0.2, 1.0, 5.0)  # gamma times the mean squared distance of two samples


def linear(sets: Sequence[str] | None = None, repeats: int = 5, limit: float = 60.0) -> Iterator[Row]:
    """The linear nu-SVM at nu of Table 5 of Ito, Takeda and Toh (2015), beside other libraries."""
    problems = (Problem(name, "nu-SVM", NU[name]) for name in sets or present())
    return _table(problems, repeats, limit)


def kernels(
    sets: Sequence[str] = (*SHAPES, *KERNEL_SETS),
    repeats: int = 3,
    limit: float = 600.0,
    peers: Sequence[str] = (),
) -> Iterator[Row]:
    """The SVM at C = 1 on thirteen shapes, then it and the nu-SVM at half of the largest nu at three widths.

    The shapes have an RBF kernel with gamma 1 / n. Of the other sets, one with fewer than 2,000 samples is
    used whole. `peers` are the only ones to run, if given; sklearnex is one where scikit-learn-intelex is
    installed.
    """
    return _table(_with_kernels(sets), repeats, limit, peers)


def _with_kernels(sets: Sequence[str]) -> Iterator[Problem]:
    for name in sets:
        if name in SHAPES:
            try:
                gamma = 1.0 / load(name, SHAPES[name])[0].shape[1]
            except DataError:
                gamma = 1.0
            yield Problem(name, "SVM", 1.0, gamma, SHAPES[name])
    for name, m, width in itertools.product([s for s in sets if s not in SHAPES], SIZES, WIDTHS):
        try:
            X, y = load(name, m)
        except DataError:  # reported by its row
            yield Problem(name, "SVM", 1.0, 1.0, m)
            continue
        if y.size == m or m == SIZES[0]:  # a set below all sizes is used whole
            A = X.toarray() if hasattr(X, "toarray") else X
            gamma = width / (2.0 * float(A.var(axis=0).sum()))
            nu = float(min((y > 0).mean(), (y < 0).mean()))
            yield Problem(name, "nu-SVM", nu, gamma, y.size)
            yield Problem(name, "SVM", 1.0, gamma, y.size)


def losses(sets: Sequence[str] | None = None, repeats: int = 5, limit: float = 60.0) -> Iterator[Row]:
    """The logistic and the squared hinge loss with L1 and L2, at three weights of the penalty."""
    names = sets or [*present(), *TEXTS]
    grid = itertools.product(LOSSES, WEIGHTS, names)
    return _table((Problem(name, model, lam) for model, lam, name in grid), repeats, limit)


def _table(
    problems: Iterable[Problem], repeats: int, limit: float, only: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield a row for each problem and peer, and the geometric means of the ratios for each peer."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for problem in problems:
        row = {"set": problem.set, "model": problem.model, "size": problem.size}
        if problem.gamma is not None:
            row |= {"m": problem.m, "gamma": problem.gamma}
        try:
            peers = peers_of(problem)
        except DataError as error:
            yield {**row, "note": missing(error, problem.set), "within": None}
            continue
        for peer in only or peers:
            found = isolated(beside, problem, peer, repeats, limit=limit)
            if "times ours" in found:
                ratios.setdefault((problem.model, peer), []).append(found["times ours"])
            yield {**row, "peer": peer, **found}
    for (model, peer), found in ratios.items():
        mean = statistics.geometric_mean(found)
        row = {"set": f"geometric mean of {len(found)}", "model": model, "peer": peer}
        yield {**row, "times ours": mean, "least": min(found), "within": mean >= 1.0}


def beside(problem: Problem, peer: str, repeats: int) -> Row:
    """Return the processor seconds of a peer at its default tolerance, and of ours to the same gap.

    The two take turns, and the least of the repeats counts; the first run of each does not.
    """
    fit = peers_of(problem)[peer]
    with warnings.catch_warnings(action="ignore"):
        gap = problem.gap(answer_of(problem, fit()))
        ours = partial(problem.solve, tol=float(np.clip(gap, *GAPS)))
        runs = in_turns({"theirs": fit, "ours": ours}, repeats, clock=time.process_time)
    found, ratio = runs["ours"].result, runs["theirs"].least / runs["ours"].least
    return {
        "their gap": gap, "theirs, ms": 1e3 * runs["theirs"].least, "ours, ms": 1e3 * runs["ours"].least,
        "gap": found.certificate.relative_gap, "solver": found.stats.solver, "passes": found.stats.passes,
        "times ours": ratio, "within": found.status == "optimal" and ratio >= 1.0,
    }  # fmt: skip


PARTS: dict[str, Part] = {"linear": linear, "kernels": kernels, "losses": losses}
