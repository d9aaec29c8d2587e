"""Tables 1 and 3 of Sun (2024), and fits beside scikit-learn's `SVC`.

The printed accuracies are those of one split, `train_test_split(random_state=42)` on standardised
features; the nearest neighbours, the discriminant analyses and the `SVC` beside them come out to the
digit on it. Two things in the program behind Table 1 are not as in the text: its kernel is
`exp(-|x - z| / sqrt(n var X))`, without the square, and its bias is the mean of `y_k - sign(f(x_k))`
over the support vectors. With both, all best figures of the table come out. Table 3 prints the best
accuracy over C on the test part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ucm import Classifier
from ucm.bench.clock import timed
from ucm.compiler import compile as compiler
from ucm.data import datasets
from ucm.errors import DataError
from ucm.language.models import psvm

__all__ = ["BINARY", "SEVERAL", "binary", "several", "times"]

SEED = 42
SPLITS = 20
EXPONENTS = (1.0, 1.25, 9 / 7, 4 / 3, 1.4, 1.5, 5 / 3, 2.0, 3.0)
FEWER = (1.0, 1.25, 1.5, 2.0)  # where there are 20 splits
COSTS = (0.1, 0.5, 1.0, 5.0, 10.0)
LINEAR_COSTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
LARGEST_SEARCH = 1000

# set: share of the samples that test, best accuracy over p in Table 1, the SVM beside it
BINARY = {
    "uci_wdbc": (0.3, 97.66, 97.66),
    "uci_heart": (0.3, 85.19, 82.72),
    "uci_ionosphere": (0.3, 97.17, 96.23),
    "uci_winequality": (0.9, 75.63, 74.56),
    "uci_banknote": (0.7, 100.0, 99.38),
}
# set: accuracy of 1.5L and 2L in Table 3
SEVERAL = {
    "uci_glass": (0.744, 0.767),
    "uci_vehicle": (0.834, 0.828),
    "uci_dermatology": (0.986, 0.986),
    "usps": (0.959, 0.960),
}
# kernels of the distances d and gamma = 1 / (n var X)
_KERNELS = {
    "exp(-d)": lambda d, gamma: np.exp(-np.sqrt(gamma) * d),
    "rbf": lambda d, gamma: np.exp(-gamma * d * d),
}


def _load(name: str) -> tuple[Any, Any] | None:
    """The samples, standardised as in the paper; None when they are not at hand."""
    from sklearn.preprocessing import scale

    try:
        X, y = datasets.load(name)
    except DataError:
        return None
    return scale(np.asarray(X, dtype=np.float64)), y


def _missing(table: str, name: str) -> dict[str, Any]:
    return {"table": table, "set": name, "method": "not at hand", "within": None}


def _split(y: Any, test: float, k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    from sklearn.model_selection import train_test_split

    parts: Any = train_test_split(np.arange(y.size), test_size=test, random_state=SEED + k)
    return parts[0], parts[1]


def _row(table: str, name: str, method: str, found: Any, printed: float) -> dict[str, Any]:
    """Accuracies over splits in per cent; the first split is that of the paper."""
    return {
        "table": table,
        "set": name,
        "method": method,
        "printed": printed,
        "its split": float(found[0]),
        "mean": float(found.mean()),
        "standard error": float(found.std(ddof=1)) / np.sqrt(found.size),
        "deviation": float(found.std(ddof=1)),
    }


# --- Table 1 ----------------------------------------------------------------------------------
class _Problem:
    """One split of one set under one kernel: fits by multipliers, with the exact bias and with that
    of the paper's program."""

    def __init__(self, X: Any, y: Any, test: float, k: int, kernel: str) -> None:
        train, rest = _split(y, test, k)
        gamma = 1.0 / (X.shape[1] * X[train].var())
        take = functools.partial(_KERNELS[kernel], gamma=gamma)
        self.y, self.truth = y[train], y[rest]
        self.K, self.across = take(cdist(X[train], X[train])), take(cdist(X[rest], X[train]))

    def accuracies(self, p: float) -> NDArray[np.float64]:
        """On the test part with the exact bias and with that of signs, C of each by its own
        cross-validation."""
        from sklearn.model_selection import KFold

        scores = np.zeros((len(COSTS), 2))
        for a, b in KFold(5, shuffle=True, random_state=SEED).split(self.y):
            K, across = np.ascontiguousarray(self.K[np.ix_(a, a)]), self.K[np.ix_(b, a)]
            for i, C in enumerate(COSTS):
                scores[i] += self._shares(K, self.y[a], p, C, across, self.y[b])
        best = np.argmax(np.round(scores, 9), axis=0)
        return np.array([
            100.0 * self._shares(self.K, self.y, p, COSTS[i], self.across, self.truth)[k]
            for k, i in enumerate(best)
        ])  # fmt: skip

    @staticmethod
    def _shares(K: Any, y: Any, p: float, C: float, across: Any, truth: Any) -> list[float]:
        found = compiler.solve(psvm(p, C), K, y, kernel="precomputed", tol=1e-4)
        c: Any = found.coefficients
        support = np.abs(c) > 1e-5
        signs = float(np.mean(y[support] - np.sign(K[support] @ c)))
        return [
            float(np.mean(np.where(across @ c + b > 0, 1, -1) == truth)) for b in (found.b, signs)
        ]  # type: ignore[operator]


def binary() -> Iterator[dict[str, Any]]:
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.svm import SVC

    for name, (test, printed, baseline) in BINARY.items():
        data = _load(name)
        if data is None:
            yield _missing("1", name)
            continue
        X, y = data
        y = np.where(y > 0, 1, -1)
        first = _Problem(X, y, test, 0, "exp(-d)")
        theirs = np.array([first.accuracies(p)[1] for p in EXPONENTS])
        yield {
            "table": "1",
            "set": name,
            "method": "exp(-d), b by signs, best of nine p",
            "printed": printed,
            "its split": float(theirs.max()),
            "within": bool(theirs.max() >= printed - 0.005),
        }
        paper = None
        for kernel in _KERNELS:
            problems = [_Problem(X, y, test, k, kernel) for k in range(SPLITS)]
            found = np.array([[q.accuracies(p) for p in FEWER] for q in problems])
            for bias in (1, 0) if kernel == "exp(-d)" else (0,):
                k = int(found[:, :, bias].mean(axis=0).argmax())
                best = found[:, k, bias]
                paper = best if paper is None else paper
                method = f"{kernel}, {'b by signs' if bias else 'exact b'}, p = {FEWER[k]:g}"
                row = _row("1", name, method, best, printed)
                yield {**row, **_beside_printed(best, printed, paper)}
        folds = KFold(5, shuffle=True, random_state=SEED)
        search: Any = GridSearchCV(SVC(), {"C": COSTS}, cv=folds)
        found = []
        for k in range(SPLITS):
            train, rest = _split(y, test, k)
            found.append(100.0 * search.fit(X[train], y[train]).score(X[rest], y[rest]))
        row = _row("1", name, "SVC", np.array(found), baseline)
        yield {**row, "within": None}


def _beside_printed(found: Any, printed: float, paper: Any) -> dict[str, Any]:
    """Whether the mean is within two standard errors of the printed figure of one split; and, which
    counts, of the mean of the paper's program over the same splits."""
    error = float(found.std(ddof=1)) / np.sqrt(found.size)
    return {
        "near printed": bool(found.mean() >= printed - 2.0 * error),
        "within": bool(found.mean() >= paper.mean() - 2.0 * error),
    }


# --- Table 3 ----------------------------------------------------------------------------------
def _best_cost(make: Callable[[float], Any], X: Any, y: Any) -> float:
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    rare = np.unique(y, return_counts=True)[1].min() < 5  # fewer samples than folds
    folds = (KFold if rare else StratifiedKFold)(5, shuffle=True, random_state=SEED)
    means = [cross_val_score(make(C), X, y, cv=folds).mean() for C in LINEAR_COSTS]
    return LINEAR_COSTS[int(np.argmax(means))]


def several() -> Iterator[dict[str, Any]]:
    """C by cross-validation on every split, or on the first one where samples are many."""
    from sklearn.svm import SVC

    for name, printed in SEVERAL.items():
        data = _load(name)
        if data is None:
            yield _missing("3", name)
            continue
        X, y = data
        makers: dict[str, tuple[Callable[[float], Any], float]] = {
            f"p = {p:g}": (lambda C, p=p: Classifier(psvm(p, C), tol=1e-3), 100.0 * paper)
            for p, paper in zip((1.5, 2.0), printed, strict=True)
        }
        makers["SVC, linear"] = (lambda C: SVC(C=C, kernel="linear"), float("nan"))
        for method, (make, paper) in makers.items():
            found, C = [], 0.0
            for k in range(SPLITS):
                train, rest = _split(y, 0.2, k)
                if not found or train.size <= LARGEST_SEARCH:
                    C = _best_cost(make, X[train], y[train])
                found.append(100.0 * make(C).fit(X[train], y[train]).score(X[rest], y[rest]))
            row = _row("3", name, method, np.array(found), paper)
            train, rest = _split(y, 0.2, 0)
            best = max(
                make(C).fit(X[train], y[train]).score(X[rest], y[rest]) for C in LINEAR_COSTS
            )
            error = row["standard error"]
            near = None if np.isnan(paper) else bool(row["mean"] >= paper - 2.0 * error)
            yield {
                **row,
                "its split, best C": 100.0 * best,
                "near printed": near,
                "within": None if near is None else bool(near or 100.0 * best >= paper - 0.05),
            }


def times() -> Iterator[dict[str, Any]]:
    """Seconds of a fit at equal tolerance, the median of five after one that is not counted."""
    from sklearn.svm import SVC

    for name in ("uci_winequality", "uci_banknote"):
        data = _load(name)
        if data is None:
            yield _missing("time", name)
            continue
        X, y = data
        reached = _relative_gap(SVC(tol=1e-3).fit(X, y), X, y)

        def fit(tol: float, X: Any = X, y: Any = y) -> Any:
            return Classifier(psvm(1.0, 1.0), kernel="rbf", tol=tol).fit(X, y)

        pairs = {
            "p = 1, rbf, tol 1e-3": lambda: fit(1e-3),
            f"p = 1, rbf, the gap of SVC, {reached:.1e}": lambda: fit(reached),  # noqa: B023
            "SVC, rbf, tol 1e-3": lambda: SVC(tol=1e-3).fit(X, y),  # noqa: B023
        }
        yield from _beside(name, pairs)
    data = _load("usps")
    if data is None:
        yield _missing("time", "usps")
        return
    X, y = data
    yield from _beside(
        "usps",
        {
            "p = 1.5, linear": lambda: Classifier(psvm(1.5, 1.0), tol=1e-3).fit(X, y),
            "p = 2, linear": lambda: Classifier(psvm(2.0, 1.0), tol=1e-3).fit(X, y),
            "SVC, linear": lambda: SVC(kernel="linear", tol=1e-3).fit(X, y),
        },
    )


def _relative_gap(fit: Any, X: Any, y: Any) -> float:
    """Of a fitted `SVC` with C = 1: what its own tolerance, on the violation, comes to."""
    signs = np.where(y == fit.classes_[1], 1.0, -1.0)
    scores = fit.decision_function(X)
    dual = float(np.abs(fit.dual_coef_).sum())
    square = float(fit.dual_coef_[0] @ (scores[fit.support_] - fit.intercept_[0]))
    primal = 0.5 * square + float(np.maximum(0.0, 1.0 - signs * scores).sum())
    return (primal - dual + 0.5 * square) / primal


def _beside(name: str, works: dict[str, Callable[[], Any]]) -> Iterator[dict[str, Any]]:
    """The runs take turns, so that a busy machine slows all of them."""
    for work in works.values():
        work()
    seconds = {method: [] for method in works}
    for _ in range(5):
        for method, work in works.items():
            seconds[method].append(timed(work)[1])
    medians = {method: float(np.median(taken)) for method, taken in seconds.items()}
    last = medians[list(works)[-1]]
    for method, taken in medians.items():
        yield {
            "table": "time",
            "set": name,
            "method": method,
            "seconds": taken,
            "times SVC": taken / last,
            "within": None if method.startswith("SVC") else taken <= last,
        }
