"""How far from optimal are the answers of scikit-learn: `python -m benchmarks.audit defaults`.

The judge is `ucm.audit`: the objective of the answer over the proven lower bound of the optimum.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.svm import SVC, LinearSVC, NuSVC

import ucm
from benchmarks.harness import Row, main, timed
from ucm.data import datasets

TEN = (
    "heart", "australian", "breast-cancer", "diabetes", "german.numer", "ionosphere", "sonar", "splice",
    "svmguide3", "svmguide1",
)  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "LinearSVC()": LinearSVC(random_state=0),
    'LinearSVC(loss="hinge")': LinearSVC(loss="hinge", random_state=0),
    'LinearSVC(penalty="l1")': LinearSVC(penalty="l1", random_state=0),
    "LogisticRegression()": LogisticRegression(),
    'LogisticRegression(solver="saga", l1_ratio=1)': LogisticRegression(
        solver="saga", l1_ratio=1.0, random_state=0
    ),
    "SVC()": SVC(),
    'SVC(kernel="linear")': SVC(kernel="linear"),
    "NuSVC()": NuSVC(nu=0.5),
    "SGDClassifier()": SGDClassifier(random_state=0),
    'SGDClassifier(loss="log_loss")': SGDClassifier(loss="log_loss", random_state=0),
    "RidgeClassifier()": RidgeClassifier(),
}
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)


def fitted(estimator: Any, X: Any, y: Any) -> Any:
    """Return the estimator fitted without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def defaults(sets: tuple[str, ...] = TEN) -> Iterator[Row]:
    """How far above the proven optimum the objective of each estimator at its defaults is, over sets.

    `within` is True if all answers are optimal to 1e-6, relative.
    """
    data = [datasets.load(name) for name in sets]
    for name, estimator in DEFAULTS.items():
        gaps, hits = [], []
        for X, y in data:
            try:
                row = ucm.audit(fitted(estimator, X, y), X, y)[0]
            except ValueError:  # a nu that the classes do not allow
                continue
            gaps += [row.gap] if row.loose != "unknown" else []
            hits.append(row.accuracy - row.optimal_accuracy)
        yield {
            "estimator": name, "sets": len(gaps), "least": min(gaps), "median": float(np.median(gaps)),
            "largest": max(gaps), "above 1e-4": sum(gap > 1e-4 for gap in gaps),
            "accuracy, largest difference": float(np.max(np.abs(hits))), "within": None,
        }  # fmt: skip


def cost(sets: tuple[str, ...] = ("a9a", "ijcnn1", "w8a")) -> Iterator[Row]:
    """Processor seconds of an audit in fits by ucm, at most 3."""
    models = {
        "LogisticRegression()": LogisticRegression(max_iter=1000),
        "LinearSVC()": LinearSVC(random_state=0),
        'LinearSVC(loss="hinge")': LinearSVC(loss="hinge", random_state=0),
    }
    for one in sets:
        X, y = datasets.load(one)
        for name, estimator in models.items():
            e = fitted(estimator, X, y)
            model = ucm.from_estimator(e)
            _, ours = timed(lambda model=model, X=X, y=y: ucm.solve(model, X, y), time.process_time)
            report, theirs = timed(lambda e=e, X=X, y=y: ucm.audit(e, X, y), time.process_time)
            yield {
                "set": one, "estimator": name, "gap": report[0].gap, "fit, s": ours, "audit, s": theirs,
                "audit in fits": theirs / ours, "within": theirs <= 3.0 * ours,
            }  # fmt: skip


def tolerances(limit: float = 100_000) -> Iterator[Row]:
    """The true error of solvers against their tolerance, on the samples of docs/audit.md.

    `limit` is the largest number of iterations of LIBLINEAR. LIBSVM does not end in minutes below 1e-6.
    """
    X, y = make_classification(1000, 300, n_informative=20, random_state=0)
    model = (ucm.Hinge() + 0.5 * ucm.L2()).with_intercept(None)
    for tol in TOLERANCES:
        made = {
            "LIBLINEAR": LinearSVC(
                loss="hinge", fit_intercept=False, random_state=0, max_iter=int(limit), tol=tol
            ),
            "LIBSVM": SVC(kernel="linear", tol=tol),
            "SGD": SGDClassifier(alpha=1e-3, fit_intercept=False, random_state=0, max_iter=1000, tol=tol),
        }
        for name, estimator in made.items():
            if name == "LIBSVM" and tol < 1e-6:
                continue
            row = ucm.audit(fitted(estimator, X, y), X, y, tol=1e-8)[0]
            yield {"solver": name, "tol": tol, "error": row.excess, "within": None}
        solution, best = ucm.solve(model, X, y, tol=tol), ucm.solve(model, X, y, tol=1e-13)
        yield {
            "solver": "ucm",
            "tol": tol,
            "error": solution.objective / best.objective - 1.0,
            "within": None,
        }


if __name__ == "__main__":
    sys.exit(main(__doc__ or "", {"defaults": defaults, "cost": cost, "tolerances": tolerances}))
