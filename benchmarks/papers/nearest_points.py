"""Tables 1 to 3 of Lopez, Barbero and Dorronsoro (2011), and clipped MDM beside `NuSVC`.

The published splits are used where the data folder holds them; the other sets are drawn at random in the
published sizes, and no figure is held against their accuracies.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Part, Row, dense, in_turns, main, over, scaled
from benchmarks.judge import accuracy, figures, sample_weights, weights_gap
from ucm.compiler.compile import solve
from ucm.data.gram import Gram
from ucm.data.kernels import MEGABYTE, Kernel
from ucm.forms.solution import Solution
from ucm.language.models import nu_svm, psvm
from ucm.language.sets import ReducedHull
from ucm.language.statistics.samples import neg, pos
from ucm.solvers import GSK, MDM, ClipMDM

__all__ = ["TABLES"]

SPLITS = 10
ALL = 100  # splits of table 1
ERROR = 1.5  # points
SUPPORT = 0.05  # relative
MU = 0.2  # relative
SLOW = {"splice": 2, "image": 2, "ringnorm": 2}  # splits of GSK; of the others as of clipped MDM
TIMED = {"cod-rna": 0.2, "ijcnn1": 0.1, "a9a": 0.4, "ida_ringnorm": 0.1}  # nu
FIRST = ("titanic", "heart", "diabetis", "breast_cancer", "thyroid", "twonorm", "waveform")
FEW = ("heart", "breast_cancer", "thyroid", "diabetis", "german", "banana", "twonorm", "waveform")
HELD = ("titanic", "breast_cancer", "image", "german", "banana", "waveform")


class _Printed(NamedTuple):
    """Tables 1 to 3: sigma^2, mu, samples that train; then of clip-mdm the error in per cent, support
    vectors, thousands of iterations and millions of kernel operations; then these two of mu-GSK."""

    s2: float
    mu: float
    train: int
    error: float
    support: float
    iterations: float
    operations: float
    gsk_iterations: float
    gsk_operations: float


PRINTED = {
    "titanic": _Printed(2, 0.0222, 150, 22.7, 124.2, 0.09, 0.027, 18.1, 184.5),
    "heart": _Printed(120, 0.0232, 170, 15.9, 91.8, 0.19, 0.064, 0.18, 2.0),
    "diabetis": _Printed(20, 0.0074, 468, 23.6, 281.4, 0.49, 0.46, 0.17, 17.4),
    "breast_cancer": _Printed(50, 0.0181, 200, 27.6, 121.9, 0.3, 0.13, 1.0, 17.6),
    "thyroid": _Printed(3, 0.1456, 140, 4.5, 30.2, 0.26, 0.073, 13.3, 14.2),
    "flare_solar": _Printed(30, 0.0041, 666, 32.9, 529.1, 0.6, 0.85, 2.0, 578.3),
    "splice": _Printed(70, 0.7029, 1000, 10.8, 629.2, 2.5, 5.1, 100.0, 200.6),
    "image": _Printed(30, 0.0214, 1300, 3.2, 179.3, 22.2, 57.8, 70.8, 4635.3),
    "german": _Printed(55, 0.0053, 700, 23.8, 414.5, 0.85, 1.2, 1.0, 198.4),
    "banana": _Printed(1, 0.0215, 400, 10.7, 109.3, 1.9, 1.4, 8.9, 205.2),
    "twonorm": _Printed(40, 0.0416, 400, 2.9, 78.5, 0.5, 0.41, 5.6, 63.0),
    "ringnorm": _Printed(10, 1.0, 400, 1.7, 152.4, 0.54, 0.43, 100.0, 40.2),
    "waveform": _Printed(20, 0.0138, 400, 9.8, 173.3, 0.45, 0.36, 1.1, 45.0),
}


# Table 1: C, the error of the SVM in per cent
MACHINE = {
    "titanic": (5.0, 22.4),
    "heart": (3.2, 16.0),
    "diabetis": (1.0, 23.5),
    "breast_cancer": (15.2, 26.0),
    "thyroid": (10.0, 4.8),
    "flare_solar": (1.0, 32.4),
    "splice": (1000.0, 10.9),
    "image": (500.0, 3.0),
    "german": (3.2, 23.6),
    "banana": (316.2, 11.5),
    "twonorm": (3.2, 3.0),
    "ringnorm": (1e9, 1.7),
    "waveform": (1.0, 9.9),
}
# Table 2: of mu-GSK the error in per cent, support vectors
OF_GSK = {
    "titanic": (22.7, 135.5),
    "heart": (15.9, 104.8),
    "diabetis": (23.7, 303.3),
    "breast_cancer": (27.7, 157.1),
    "thyroid": (4.5, 42.3),
    "flare_solar": (32.8, 608.1),
    "splice": (10.7, 989.4),
    "image": (3.1, 363.3),
    "german": (23.9, 465.4),
    "banana": (10.7, 151.5),
    "twonorm": (2.9, 103.4),
    "ringnorm": (1.7, 400.0),
    "waveform": (9.8, 209.6),
}

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


def load(name: str, splits: int) -> tuple[Any, Any, Splits]:
    X, y = dense(f"ida_{name}")
    if name in HELD:
        with np.load(Path(os.environ["UCM_DATA"]) / f"ida_{name}.npz") as parts:
            return X, y, list(zip(parts["train"], parts["test"], strict=True))[:splits]
    orders = (np.random.default_rng(seed).permutation(y.size) for seed in range(splits))
    size = PRINTED[name].train
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
    eta = float(max(printed.mu, least))
    U = ReducedHull(pos, eta=eta) - ReducedHull(neg, eta=eta)
    options = {"kernel": "rbf", "gamma": 1.0 / printed.s2, "solver": solver}
    found = solve(U, X[train], y[train], tol=1e-9, **options)  # it stops by the paper's rule
    error = 100.0 * (1.0 - accuracy(found, X[test], y[test]))
    weights = np.zeros(0) if found.weights is None else found.weights
    above, absolute, relative = (int(np.count_nonzero(weights > small)) for small in (0.0, 1e-6, 1e-4 * eta))
    stats, gap = found.stats, found.certificate.relative_gap
    return _Means(error, above, absolute, relative, stats.iterations, stats.kernel_operations, gap)


def table_1(sets: Sequence[str] = tuple(PRINTED), repeats: int = ALL) -> Iterator[Row]:
    """The SVM of C behind the kernel, its test error, and the mu of (19): the least over the splits, within
    its admissible range. mu is held against print where the splits are held, to 0.2 of it: ten of the 100
    of which the paper takes the least. Of own splits there are as many as asked for."""
    return over(sets, _table_1, partial(load, splits=repeats))


def _table_1(name: str, X: Any, y: Any, splits: Splits) -> Iterator[Row]:
    (C, printed), given = MACHINE[name], PRINTED[name]
    errors, found = [], []
    for train, test in splits:
        sol = solve(psvm(1.0, C), X[train], y[train], kernel="rbf", gamma=1.0 / given.s2, tol=1e-6)
        errors.append(100.0 * (1.0 - accuracy(sol, X[test], y[test])))
        least = 1.0 / min(np.count_nonzero(y[train] > 0), np.count_nonzero(y[train] < 0))
        found.append(min(1.0, max(mu_of(C, sol, X[train], y[train]), least)))
    error, mu, held = float(np.mean(errors)), min(found), name in HELD
    row = {"set": name, "splits": "published" if held else "own", "number": len(splits), "C": C}
    row |= {"error": error, "printed error": printed, "mu": mu, "printed mu": given.mu}
    spread = 2.0 * float(np.std(errors)) / math.sqrt(len(errors))
    near = abs(error - printed) <= max(ERROR, spread) and abs(mu / given.mu - 1.0) <= MU
    yield {**row, "two standard errors": spread, "within": near if held else None}


def mu_of(C: float, solution: Solution, X: Any, y: Any) -> float:
    """Equation (19): the cap mu whose reduced hulls have the SVM of C as classifier, `mu = 2 C / rho` with
    `rho = ||W||^2 + C sum xi`."""
    losses = C * float(np.maximum(0.0, 1.0 - y * solution.decision(X)).sum())
    return 2.0 * C / (2.0 * solution.objective - losses)


def tables_2_and_3(sets: Sequence[str] = FIRST, repeats: int = SPLITS) -> Iterator[Row]:
    """Test error, support vectors, thousands of iterations and millions of kernel operations of clip-mdm and
    mu-GSK, with the paper's choice of the pair and its stopping rule, their deviations, and the p-value of
    the Wilcoxon rank-sum test of the errors of both.

    Print has no threshold of a support vector: weights above 0, above 1e-6, and above 1e-4 of the cap are
    counted. `within`, of clip-mdm on the published splits: 1.5 points, and 5 % of the support vectors."""
    return over(sets, _tables_2_and_3, partial(load, splits=repeats))


def _tables_2_and_3(name: str, X: Any, y: Any, splits: Splits) -> Iterator[Row]:
    from scipy.stats import ranksums

    printed, some = PRINTED[name], splits[: SLOW.get(name)]
    clipped = _runs(name, ClipMDM(stop="paper"), X, y, splits)
    row = _row(name, "clip-mdm", clipped, printed.error, printed.support)
    row |= {"printed iterations": printed.iterations, "printed operations": printed.operations}
    near = abs(row["error"] - printed.error) <= ERROR
    near &= abs(row["support"] / printed.support - 1.0) <= SUPPORT
    yield {**row, "within": near if name in HELD else None}
    other = _runs(name, GSK(stop="paper"), X, y, some)
    row = _row(name, "mu-GSK", other, *OF_GSK[name])
    row |= {"printed iterations": printed.gsk_iterations, "printed operations": printed.gsk_operations}
    test: Any = ranksums(clipped[: len(some), 0], other[:, 0])
    yield {**row, "p-value": float(test.pvalue), "within": None}


def _row(name: str, method: str, runs: np.ndarray, error: float, support: float) -> Row:
    origin = "published" if name in HELD else "own"
    means, deviations = _Means(*runs.mean(axis=0).tolist()), _Means(*runs.std(axis=0).tolist())
    row = {"set": name, "method": method, "splits": origin, "number": len(runs)}
    row |= {"error": means.error, "error +-": deviations.error, "printed error": error}
    row |= {"support": means.support, "support +-": deviations.support, "above 1e-6": means.absolute}
    row |= {"above 1e-4 cap": means.relative, "printed support": support}
    row |= {"iterations": means.iterations / 1e3, "iterations +-": deviations.iterations / 1e3}
    return row | {"operations": means.operations / 1e6, "operations +-": deviations.operations / 1e6}


def four_vectors(sets: Sequence[str] = FEW, repeats: int = 3) -> Iterator[Row]:
    """Clipped MDM that moves two samples of each class at once, beside the one of two samples: iterations and
    kernel operations until no pair has a slope above 1e-5 of the norm. Within: four samples take no fewer
    kernel operations, as section 3 tells."""
    return over(sets, _four_vectors, partial(load, splits=repeats))


def _four_vectors(name: str, X: Any, y: Any, splits: Splits) -> Iterator[Row]:
    steps: dict[bool, list[int]] = {False: [], True: []}
    operations: dict[bool, list[int]] = {False: [], True: []}
    for train, _ in splits:
        signs = np.where(y[train] > 0, 1.0, -1.0)
        K = Kernel("rbf", 1.0 / PRINTED[name].s2)(X[train], X[train])
        mu = max(PRINTED[name].mu, 1.0 / min(np.sum(signs > 0), np.sum(signs < 0)))
        for both in steps:
            steps[both].append(pairs_of_mdm(K, signs, float(mu), both))
            operations[both].append(steps[both][-1] * (4 if both else 2) * signs.size)
    two, four = (float(np.mean(operations[both])) for both in (False, True))
    row = {"set": name, **{f"iterations, {2 + 2 * b}": float(np.mean(steps[b])) for b in steps}}
    yield {**row, "operations, four / two": four / two, "within": four >= two}


def pairs_of_mdm(K: np.ndarray, y: np.ndarray, mu: float, both: bool, limit: int = 100_000) -> int:
    """Return the iterations of clipped MDM from the barycentres, on the pair of the steeper class or on the
    pairs of both classes with one step length."""
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
            return step
        moved = [pair for pair in pairs if pair[0] > 0.0] if both else [max(pairs)]
        direction = np.zeros(y.size)
        for _, low, high in moved:
            direction[[low, high]] = 1.0, -1.0
        image = K @ (direction * y)
        room = np.concatenate([(mu - q)[direction > 0], q[direction < 0]]).min()
        length = min(sum(pair[0] for pair in moved) / float((direction * y) @ image), room)
        q, scores = np.clip(q + length * direction, 0.0, mu), scores + length * image
    return limit


def minkowski(sets: Sequence[str] = tuple(OF_MINKOWSKI), repeats: int = SPLITS) -> Iterator[Row]:
    """Kernel operations of mu-GSK over those of its variant that moves both classes at once: section 5
    quotes the ratios of Mavroforakis and others (2007)."""
    return over(sets, _minkowski, partial(load, splits=repeats))


def _minkowski(name: str, X: Any, y: Any, splits: Splits) -> Iterator[Row]:
    one, both = (
        _means(name, GSK(stop="paper", minkowski=way), X, y, splits).operations for way in (False, True)
    )
    row = {"set": name, "mu-GSK": one / 1e6, "Minkowski": both / 1e6, "ratio": one / both}
    yield {**row, "printed ratio": OF_MINKOWSKI[name], "within": None}


def mu_mdm(sets: Sequence[str] = tuple(PRINTED), repeats: int = 1) -> Iterator[Row]:
    """Where mu-MDM stalls: its proven gap and error beside those of clip-mdm. The paper tells of worse
    errors on splice, image, banana and ringnorm, without numbers."""
    return over(sets, _mu_mdm, partial(load, splits=repeats))


def _mu_mdm(name: str, X: Any, y: Any, splits: Splits) -> Iterator[Row]:
    solvers = {"mu-MDM": MDM(stop="paper"), "clip-mdm": ClipMDM(stop="paper")}
    found = {method: _means(name, solver, X, y, splits) for method, solver in solvers.items()}
    row: Row = {"set": name, "worse in print": name in STALLS}
    for method, means in found.items():
        row |= {f"error, {method}": means.error, f"gap, {method}": f"{means.gap:.1e}"}
        row |= {f"iterations, {method}": means.iterations}
    yield {**row, "within": None}


def times() -> Iterator[Row]:
    """Seconds of the processor for a fit at the relative gap that `NuSVC` reaches, by our certificate; the
    fastest of three, in turns. The tolerance of `NuSVC` is its default; its kernel is in single precision,
    and nothing proves its answer."""
    return over(TIMED, _times, dense)


def _times(name: str, X: Any, y: Any) -> Iterator[Row]:
    from sklearn.svm import NuSVC

    nu = TIMED[name]
    for m in (4000, 8000):
        if m > y.size:
            continue
        part = np.random.default_rng(0).permutation(y.size)[:m]
        A, labels = scaled(X[part]), y[part]
        gamma = 1.0 / A.shape[1]
        options = {"kernel": "rbf", "gamma": gamma, "solver": "smo"}
        machine = NuSVC(nu=nu, gamma=gamma)
        weights = sample_weights(machine.fit(A, labels), m)
        gram = Gram(Kernel("rbf", gamma), A, 1024 * MEGABYTE)
        gap = weights_gap(A, labels, nu, weights, gram)["gap"]
        works: dict[str, Callable[[], Any]] = {
            "ours": partial(solve, nu_svm(nu), A, labels, tol=gap, **options),
            "NuSVC": partial(machine.fit, A, labels),
        }
        runs = in_turns(works, 3, clock=time.process_time)
        ours, theirs = runs["ours"].least, runs["NuSVC"].least
        row = {"set": name, "m": m, "gap of NuSVC": gap, **figures(runs["ours"].result, "gap")}
        row |= {"seconds": ours, "NuSVC": theirs, "ratio": ours / theirs}
        yield {**row, "within": ours <= theirs}


TABLES: dict[str, Part] = {
    "table-1": table_1,
    "tables-2-3": tables_2_and_3,
    "four-vectors": four_vectors,
    "minkowski": minkowski,
    "mu-mdm": mu_mdm,
    "time": times,
}

if __name__ == "__main__":
    sys.exit(main("Lopez, Barbero and Dorronsoro (2011): nearest points", TABLES))
