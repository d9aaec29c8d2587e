"""Tables 1 to 3 of Lopez, Barbero and Dorronsoro (2011), and clipped MDM beside `NuSVC`.

The published splits are used where the data folder holds them; the other sets are drawn at random in the
published sizes, and no figure is held against their accuracies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Parts, Row, dense
from benchmarks.judge import accuracy
from benchmarks.papers import printed as print_of
from ucm.compiler.compile import solve
from ucm.data.kernels import Kernel
from ucm.forms.solution import Solution
from ucm.language.models import psvm
from ucm.language.sets import ReducedHull
from ucm.language.statistics.samples import neg, pos
from ucm.solvers import GSK, MDM, ClipMDM

__all__ = ["PARTS"]

PARTS = Parts()

SPLITS = 10
ALL = 100  # splits of table 1
ERROR = 1.5  # points
SUPPORT = 0.05  # relative
MU = 0.2  # relative
SLOW = {"splice": 2, "image": 2, "ringnorm": 2}  # splits of GSK; of the others as of clipped MDM
FIRST = ("titanic", "heart", "diabetis", "breast_cancer", "thyroid", "twonorm", "waveform")
FEW = ("heart", "breast_cancer", "thyroid", "diabetis", "german", "banana", "twonorm", "waveform")
HELD = ("titanic", "breast_cancer", "image", "german", "banana", "waveform")


PRINTED = print_of("lopez")
# section 5: kernel operations of GSK over those of Minkowski GSK, as quoted there
OF_MINKOWSKI = {
    "diabetis": "below 1",
    "flare_solar": "below 1",
    "german": "1.34 to 8.15",
    "banana": "1.34 to 8.15",
    "heart": "about 150",
    "waveform": "1.34 to 8.15",
}
STALLS = ("splice", "image", "banana", "ringnorm")

Splits = list[tuple[Any, Any]]
"""The rows that train, and those that test."""


def load(name: str) -> tuple[Any, Any, Splits]:
    """The published splits, or 100 of our own."""
    X, y = dense(f"ida_{name}")
    if name in HELD:
        with np.load(Path(os.environ["UCM_DATA"]) / f"ida_{name}.npz") as parts:
            return X, y, list(zip(parts["train"], parts["test"], strict=True))
    orders = (np.random.default_rng(seed).permutation(y.size) for seed in range(ALL))
    size = int(PRINTED[name]["train"])
    return X, y, [(order[:size], order[size:]) for order in orders]


class _Means(NamedTuple):
    """Over splits: test error in per cent, support vectors with a weight above 0, above 1e-6 and above 1e-4
    of the cap, iterations, kernel operations, and the proven gap."""

    error: float
    support: float
    absolute: float
    relative: float
    iterations: float
    operations: float
    gap: float


def _runs(name: str, solver: Any, X: Any, y: Any, splits: Splits) -> np.ndarray:
    """A row for each split, in the order of `_Means`."""
    return np.array([_run(name, solver, X, y, *split) for split in splits])


def _means(name: str, solver: Any, X: Any, y: Any, splits: Splits) -> _Means:
    return _Means(*_runs(name, solver, X, y, splits).mean(axis=0).tolist())


def _run(name: str, solver: Any, X: Any, y: Any, train: Any, test: Any) -> _Means:
    printed = PRINTED[name]
    least = 1.0 / min(np.count_nonzero(y[train] > 0), np.count_nonzero(y[train] < 0))
    eta = float(max(printed["mu"], least))
    U = ReducedHull(pos, eta=eta) - ReducedHull(neg, eta=eta)
    options = {"kernel": "rbf", "gamma": 1.0 / printed["s2"], "solver": solver}
    found = solve(U, X[train], y[train], tol=1e-9, **options)  # it stops by the paper's rule
    error = 100.0 * (1.0 - accuracy(found, X[test], y[test]))
    weights = np.zeros(0) if found.weights is None else found.weights
    above, absolute, relative = (int(np.count_nonzero(weights > small)) for small in (0.0, 1e-6, 1e-4 * eta))
    stats, gap = found.stats, found.certificate.relative_gap
    return _Means(error, above, absolute, relative, stats.iterations, stats.kernel_operations, gap)


@PARTS.each(PRINTED, load)
def table_1(name: str, X: Any, y: Any, splits: Splits, *, repeats: int = ALL) -> Iterator[Row]:
    """The SVM of C behind the kernel, its test error, and the mu of (19): the least over the splits, within
    its admissible range. mu is held against print where the splits are held, to 0.2 of it: ten of the 100
    of which the paper takes the least. Of own splits there are as many as asked for."""
    given = PRINTED[name]
    C, printed = given["C"], given["svm_error"]
    errors, found = [], []
    for train, test in splits[:repeats]:
        sol = solve(psvm(1.0, C), X[train], y[train], kernel="rbf", gamma=1.0 / given["s2"], tol=1e-6)
        errors.append(100.0 * (1.0 - accuracy(sol, X[test], y[test])))
        least = 1.0 / min(np.count_nonzero(y[train] > 0), np.count_nonzero(y[train] < 0))
        found.append(min(1.0, max(mu_of(C, sol, X[train], y[train]), least)))
    error, mu, held = float(np.mean(errors)), min(found), name in HELD
    row = {"set": name, "splits": "published" if held else "own", "number": len(errors), "C": C}
    row |= {"error": error, "printed error": printed, "mu": mu, "printed mu": given["mu"]}
    spread = 2.0 * float(np.std(errors)) / math.sqrt(len(errors))
    near = abs(error - printed) <= max(ERROR, spread) and abs(mu / given["mu"] - 1.0) <= MU
    yield {**row, "two standard errors": spread, "within": near if held else None}


def mu_of(C: float, solution: Solution, X: Any, y: Any) -> float:
    """Equation (19): the cap mu whose reduced hulls have the SVM of C as classifier, `mu = 2 C / rho` with
    `rho = ||W||^2 + C sum xi`."""
    losses = C * float(np.maximum(0.0, 1.0 - y * solution.decision(X)).sum())
    return 2.0 * C / (2.0 * solution.objective - losses)


@PARTS.each(FIRST, load)
def tables_2_3(name: str, X: Any, y: Any, splits: Splits, *, repeats: int = SPLITS) -> Iterator[Row]:
    """Test error, support vectors, thousands of iterations and millions of kernel operations of clip-mdm and
    mu-GSK, with the paper's choice of the pair and its stopping rule, their deviations, and the p-value of
    the Wilcoxon rank-sum test of the errors of both.

    Print has no threshold of a support vector: weights above 0, above 1e-6, and above 1e-4 of the cap are
    counted. `within`, of clip-mdm on the published splits: 1.5 points, and 5 % of the support vectors."""
    from scipy.stats import ranksums

    printed, splits = PRINTED[name], splits[:repeats]
    some = splits[: SLOW.get(name)]
    clipped = _runs(name, ClipMDM(stop="paper"), X, y, splits)
    row = _row(name, "clip-mdm", clipped, "")
    near = abs(row["error"] - printed["error"]) <= ERROR
    near &= abs(row["support"] / printed["support"] - 1.0) <= SUPPORT
    yield {**row, "within": near if name in HELD else None}
    other = _runs(name, GSK(stop="paper"), X, y, some)
    test: Any = ranksums(clipped[: len(some), 0], other[:, 0])
    yield {**_row(name, "mu-GSK", other, "gsk_"), "p-value": float(test.pvalue), "within": None}


def _row(name: str, method: str, runs: np.ndarray, column: str) -> Row:
    means, deviations = (_Means(*runs.mean(axis=0).tolist()), _Means(*runs.std(axis=0).tolist()))
    row: Row = {"set": name, "method": method, "splits": "published" if name in HELD else "own"}
    row |= {"number": len(runs), "above 1e-6": means.absolute, "above 1e-4 cap": means.relative}
    for what, unit in (("error", 1.0), ("support", 1.0), ("iterations", 1e3), ("operations", 1e6)):
        row |= {what: getattr(means, what) / unit, f"{what} +-": getattr(deviations, what) / unit}
        row[f"printed {what}"] = PRINTED[name][column + what]
        row[f"printed {what} +-"] = PRINTED[name][f"{column}{what}_dev"]
    return row


@PARTS.each(FEW, load)
def four_vectors(name: str, X: Any, y: Any, splits: Splits, *, repeats: int = 3) -> Iterator[Row]:
    """Clipped MDM that moves two samples of each class at once, beside the one of two samples: iterations and
    kernel operations until no pair has a slope above 1e-5 of the norm. Within: four samples take no fewer
    kernel operations, as section 3 tells."""
    steps: dict[bool, list[int]] = {False: [], True: []}
    operations: dict[bool, list[int]] = {False: [], True: []}
    for train, _ in splits[:repeats]:
        signs = np.where(y[train] > 0, 1.0, -1.0)
        K = Kernel("rbf", 1.0 / PRINTED[name]["s2"])(X[train], X[train])
        mu = max(PRINTED[name]["mu"], 1.0 / min(np.sum(signs > 0), np.sum(signs < 0)))
        for both in steps:
            steps[both].append(pairs_of_mdm(K, signs, float(mu), both)[0])
            operations[both].append(steps[both][-1] * (4 if both else 2) * signs.size)
    two, four = (float(np.mean(operations[both])) for both in (False, True))
    row = {"set": name, **{f"iterations, {2 + 2 * b}": float(np.mean(steps[b])) for b in steps}}
    yield {**row, "operations, four / two": four / two, "within": four >= two}


def pairs_of_mdm(
    K: np.ndarray, y: np.ndarray, mu: float, both: bool, limit: int = 100_000
) -> tuple[int, np.ndarray]:
    """Return the iterations of clipped MDM from the barycentres and its weights, on the pair of the steeper
    class or on the pairs of both classes with one step length."""
    classes = [np.flatnonzero(y == o) for o in (1.0, -1.0)]
    q = np.where(y > 0, 1.0 / classes[0].size, 1.0 / classes[1].size)
    scores = K @ (q * y)
    for step in range(limit):
        pairs = []
        for rows in classes:
            v = y[rows] * scores[rows]
            low, high = np.where(q[rows] < mu, v, np.inf), np.where(q[rows] > 0.0, v, -np.inf)
            pairs.append((high.max() - low.min(), rows[low.argmin()], rows[high.argmax()]))
        if max(pairs)[0] <= 1e-5 * math.sqrt(max(q @ (y * scores), 0.0)):
            return step, q
        moved = [pair for pair in pairs if pair[0] > 0.0] if both else [max(pairs)]
        direction = np.zeros(y.size)
        for _, low, high in moved:
            direction[[low, high]] = 1.0, -1.0
        image = K @ (direction * y)
        room = np.concatenate([(mu - q)[direction > 0], q[direction < 0]]).min()
        length = min(sum(pair[0] for pair in moved) / float((direction * y) @ image), room)
        q, scores = np.clip(q + length * direction, 0.0, mu), scores + length * image
    return limit, q


@PARTS.each(OF_MINKOWSKI, load)
def minkowski(name: str, X: Any, y: Any, splits: Splits, *, repeats: int = SPLITS) -> Iterator[Row]:
    """Kernel operations of mu-GSK over those of its variant that moves both classes at once: section 5
    quotes the ratios of Mavroforakis and others (2007)."""
    one, both = (
        _means(name, GSK(stop="paper", minkowski=way), X, y, splits[:repeats]).operations
        for way in (False, True)
    )
    row = {"set": name, "mu-GSK": one / 1e6, "Minkowski": both / 1e6, "ratio": one / both}
    yield {**row, "printed ratio": OF_MINKOWSKI[name], "within": None}


@PARTS.each(PRINTED, load)
def mu_mdm(name: str, X: Any, y: Any, splits: Splits, *, repeats: int = 1) -> Iterator[Row]:
    """Where mu-MDM stalls: its proven gap and error beside those of clip-mdm. The paper tells of worse
    errors on splice, image, banana and ringnorm, without numbers."""
    solvers = {"mu-MDM": MDM(stop="paper"), "clip-mdm": ClipMDM(stop="paper")}
    found = {method: _means(name, solver, X, y, splits[:repeats]) for method, solver in solvers.items()}
    row: Row = {"set": name, "worse in print": name in STALLS}
    for method, means in found.items():
        row |= {f"error, {method}": means.error, f"gap, {method}": f"{means.gap:.1e}"}
        row |= {f"iterations, {method}": means.iterations}
    yield {**row, "within": None}
