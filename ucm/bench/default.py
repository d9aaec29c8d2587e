"""`Classifier()` beside `LinearSVC()` and `LogisticRegression()`, and what else could be its model.

Accuracies are means of five stratified folds, in per cent, of every set as it is stored and with
features scaled on the training part (`StandardScaler`; `MaxAbsScaler` where the samples are sparse).
Of data that are held several times one copy is taken, the one that is scaled least. Seconds are of the
processor, of all fits of the five folds, one method after the other on the same folds.

Larger sets are drawn from, stratified: 20,000 samples, divided by the number of classes where they are more
than two.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.bench.clock import timed
from ucm.bench.data import over
from ucm.bench.registry import Benchmark, Row
from ucm.estimators import Classifier
from ucm.language import models
from ucm.language.losses import Logistic
from ucm.language.node import Param
from ucm.language.penalties import L2

__all__ = ["BENCHMARK"]

SETS = (
    "a9a", "arcene", "australian", "basehock", "breast-cancer", "cod-rna", "colon-cancer", "covtype-15k",
    "duke", "fourclass", "german.numer", "ida_banana", "ida_breast_cancer", "ida_flare_solar",
    "ida_german", "ida_image", "ida_ringnorm", "ida_splice", "ida_thyroid", "ida_titanic", "ida_twonorm",
    "ida_waveform", "ijcnn1", "leu", "madelon", "mushrooms", "news20-mc", "pcmac", "skin-nonskin",
    "splice", "svmguide1", "svmguide3", "uci_banknote", "uci_bupa", "uci_dermatology", "uci_glass",
    "uci_heart", "uci_ionosphere", "uci_pima", "uci_sonar", "uci_vehicle", "uci_wdbc", "uci_winequality",
    "uci_wpbc", "usps", "w8a",
)  # fmt: skip
LARGEST = 20_000
NEAR = 3.0  # points

SCALINGS = ("raw", "scaled")
PEERS = ("LinearSVC", "LogisticRegression")
_Folds = list[tuple[Any, Any, Any, Any]]


_Methods = Mapping[str, Callable[[], Any]]


def _peers() -> dict[str, Callable[[], Any]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    return dict(zip(PEERS, (LinearSVC, LogisticRegression), strict=True))


def _candidates() -> dict[str, Callable[[], Any]]:
    declared = {
        **{f"psvm(2, {C:g})": models.psvm(2.0, C) for C in (0.03, 0.1, 0.3, 1.0, 10.0)},
        "Logistic() + 0.5 * L2()": Logistic() + 0.5 * L2(),
        "Logistic() + 0.05 * L2()": Logistic() + 0.05 * L2(),
        "mm_fda, .9": models.mm_fda(Param("kappa", 0.9, relative=True)),
    }
    return {name: partial(Classifier, model) for name, model in declared.items()}


def _drawn(X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """At most `LARGEST` samples, the shares of the classes as they were."""
    from sklearn.model_selection import train_test_split

    k = np.unique(y).size
    most = LARGEST // (k if k > 2 else 1)
    if y.size <= most:
        return X, y
    keep: Any = train_test_split(np.arange(y.size), train_size=most, stratify=y, random_state=0)[0]
    return X[np.sort(keep)], y[np.sort(keep)]


def _folds(X: Any, y: NDArray[Any], scaled: bool) -> _Folds:
    """Samples and labels to fit, and to score."""
    from sklearn.model_selection import StratifiedKFold
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    found = []
    for train, rest in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        part, other = X[train], X[rest]
        if scaled:
            scaler: Any = MaxAbsScaler() if sparse.issparse(X) else StandardScaler()
            part, other = scaler.fit_transform(part), scaler.transform(other)
        found.append((part, y[train], other, y[rest]))
    return found


def _measured(methods: _Methods, folds: _Folds) -> tuple[dict[str, float], dict[str, float]]:
    """Accuracies and seconds by method."""
    scores, seconds = dict.fromkeys(methods, 0.0), dict.fromkeys(methods, 0.0)
    for part, labels, other, truth in folds:
        for name, make in methods.items():
            fitted, passed = timed(partial(make().fit, part, labels), time.process_time)
            seconds[name] += passed
            scores[name] += 100.0 * fitted.score(other, truth) / len(folds)
    return scores, seconds


def _over(names: Sequence[str], methods: _Methods) -> Iterator[Row]:
    """A row for every set and scaling, then one for the means of a scaling: accuracies by method, their
    seconds, and whether the first of them is near the better of the peers."""
    first = next(iter(methods))
    found: dict[str, list[Row]] = {scaling: [] for scaling in SCALINGS}

    def rows(name: str, X: Any, y: NDArray[Any]) -> Iterator[Row]:
        X, y = _drawn(X, y)
        for scaling in SCALINGS:
            scores, seconds = _measured(methods, _folds(X, y, scaling == "scaled"))
            near = scores[first] >= max(scores[peer] for peer in PEERS) - NEAR
            row = {"set": name, "m": y.size, "classes": np.unique(y).size, "scaling": scaling}
            row |= scores | {f"{method}, s": passed for method, passed in seconds.items()}
            found[scaling].append({**row, "within": near})
            yield {**row, "within": near}

    yield from over(names, rows)
    for scaling, measured in found.items():
        if measured:
            yield _summary(scaling, measured, list(methods))


def _summary(scaling: str, rows: list[Row], methods: list[str]) -> Row:
    """Means and sums over the sets, and on how many the methods are near the better of the peers."""
    mean = {m: float(np.mean([row[m] for row in rows])) for m in methods}
    total = {f"{m}, s": float(sum(row[f"{m}, s"] for row in rows)) for m in methods}
    near = {
        f"{m}, near": sum(row[m] >= max(row[p] for p in PEERS) - NEAR for row in rows)
        for m in methods
    }
    ours = methods[0]
    within = (
        mean[ours] >= max(mean[p] for p in PEERS)
        and near[f"{ours}, near"] >= min(30, len(rows))
        and total[f"{ours}, s"] <= sum(total[f"{p}, s"] for p in PEERS)
    )
    return (
        {"set": f"mean of {len(rows)}", "scaling": scaling}
        | mean
        | total
        | near
        | {"within": within}
    )


def peers(sets: Sequence[str] = SETS) -> Iterator[Row]:
    """The default beside scikit-learn's linear classifiers: in the mean at least the better of the two,
    within three points of the better on at least 30 sets, in no more time than they take together."""
    return _over(sets, {"Classifier": Classifier, **_peers()})


def candidates(sets: Sequence[str] = SETS) -> Iterator[Row]:
    """Models that could be the default, the one that is first."""
    return _over(sets, {"Classifier": Classifier, **_candidates(), **_peers()})


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sets",
        type=lambda text: tuple(text.split(",")),
        default=SETS,
        metavar="NAMES",
        help="some of the sets, with commas between",
    )


BENCHMARK = Benchmark(
    "default",
    "Classifier() beside LinearSVC and LogisticRegression, five folds of 46 sets",
    {"peers": peers, "candidates": candidates},
    _arguments,
)
