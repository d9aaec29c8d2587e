"""What a practitioner gets: `python -m benchmarks.practice tuning`, or `which`, or `documented`.

Accuracies are those of held-out samples, 40 percent of at most 2,000 samples of a set, the mean over
`--repeats` random splits that keep the shares of the classes. All estimators see features that are scaled
on the training part, or on the training part of a fold. Seconds are processor seconds of a fit, the search
included, by one thread (OMP_NUM_THREADS=1). docs/which-model.md has the table of `which`, from the file
docs/which-model.jsonl, which `python -m benchmarks.practice which --save docs/which-model.jsonl` makes.
`documented` fits to all samples, at most 10,000.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import ucm
from benchmarks.harness import Row, dense, main, timed
from ucm import Classifier, ClassifierCV, models

TWELVE = (
    "heart", "australian", "diabetes", "german.numer", "ionosphere", "sonar", "svmguide3", "splice",
    "fourclass", "ida_image", "ida_banana", "ijcnn1",
)  # fmt: skip
TWENTY = (
    *TWELVE, "ida_titanic", "ida_waveform", "ida_ringnorm", "a9a", "cod-rna", "uci_winequality",
    "liver-disorders", "colon-cancer",
)  # fmt: skip
MOST, HELD_OUT = 2000, 0.4
TEN = (
    "heart", "australian", "diabetes", "german.numer", "svmguide3", "splice", "ida_image", "ijcnn1", "a9a",
    "cod-rna",
)  # fmt: skip
DOCUMENTED = {
    "nu_svm": (0.3,), "enu_svm": (0.3,), "mm_mpm": (0.5,), "mm_fda": (0.5,), "l2_nu_svm": (0.2,),
    "biased_l2_nu_svm": (0.2, 0.3), "kl_svm": (0.8,), "coherent_mm_mpm": (0.6,), "coherent_mm_fda": (0.6,),
    "psvm": (1.5, 1.0), "svm": (0.5,), "one_norm_svm": (1.0,), "zero_norm_svm": (1.0,),
    "cap_one_norm_svm": (1.0,), "rlsvm2": (1.0,), "rlsvm1": (1.0,), "rlsvm0": (1.0,), "rlsvmc1": (1.0,),
}  # fmt: skip
LARGEST, LONGEST = 10_000, 2.0  # samples and seconds of a fit
RELATIVE = ucm.Param("size", 0.5, relative=True)
FAMILIES: dict[str, tuple[str, Callable[[], Any]]] = {
    "squared hinge": ("losses", lambda: _linear(None)),
    "logistic": ("losses", lambda: _linear(ucm.Param("C", 1.0) * ucm.Logistic() + 0.5 * ucm.L2())),
    "hinge, l1": ("losses", lambda: _linear(models.one_norm_svm(1.0))),
    "nu-SVM": ("sets", lambda: _linear(models.nu_svm(RELATIVE))),
    "MM-MPM": ("sets", lambda: _linear(models.mm_mpm(RELATIVE))),
    "MM-FDA": ("sets", lambda: _linear(models.mm_fda(RELATIVE))),
    "squared hinge, rbf": ("kernels", lambda: _rbf()),
    "HistGradientBoosting": ("trees", lambda: HistGradientBoostingClassifier(random_state=0)),
}


def _linear(model: Any) -> Any:
    return ClassifierCV(make_pipeline(StandardScaler(), Classifier(model)), param_range=10)


def _rbf() -> Any:
    return ClassifierCV(
        make_pipeline(StandardScaler(), Classifier(kernel="rbf")), param_range={"C": 10, "gamma": 5}
    )


def splits(name: str, repeats: int) -> Iterator[list[Any]]:
    """Yield the training and test parts (X, X_test, y, y_test) of random splits of a set."""
    X, y = dense(name)
    if len(y) > MOST:
        X, _, y, _ = train_test_split(X, y, train_size=MOST, stratify=y, random_state=99)
    for seed in range(repeats):
        yield train_test_split(X, y, test_size=HELD_OUT, stratify=y, random_state=seed)


def _mean(rows: Iterable[tuple[float, float]]) -> tuple[float, float]:
    accuracy, seconds = np.mean(list(rows), axis=0)
    return float(accuracy), float(seconds)


def _scored(make: Callable[[], Any], parts: list[list[Any]]) -> tuple[float, float]:
    """Return mean accuracy and processor seconds of an estimator."""
    found = []
    for X, X_test, y, y_test in parts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the accuracy tells
            fitted, seconds = timed(lambda X=X, y=y: make().fit(X, y), time.process_time)
        found.append((fitted.score(X_test, y_test), seconds))
    return _mean(found)


def _compared(parts: list[list[Any]]) -> tuple[float, float]:
    """Return mean accuracy of the rbf classifier of `compare(tune=True)`, and seconds of the comparison."""
    found = []
    for X, X_test, y, y_test in parts:
        entry = {"rbf": make_pipeline(StandardScaler(), Classifier(kernel="rbf"))}
        both = np.vstack([X, X_test]), np.r_[y, y_test]
        fold = [(np.arange(len(y)), np.arange(len(y), len(both[1])))]
        result, seconds = timed(
            lambda entry=entry, both=both, fold=fold: ucm.compare(
                entry, *both, cv=fold, tune=True, progress=False
            ),
            time.process_time,
        )
        found.append((result[0].score, seconds))
    return _mean(found)


def tuning(sets: tuple[str, ...] = TWELVE, repeats: int = 3) -> Iterator[Row]:
    """`ClassifierCV` and `compare(tune=True)` beside GridSearchCV of SVC and LogisticRegressionCV.

    `within` of the last row is True if neither mean is below the better of the peers, in at most 3 times the
    time.
    """
    rows = []
    for name in sets:
        parts = list(splits(name, repeats))
        n = parts[0][0].shape[1]
        grid = {"svc__C": np.logspace(-2, 3, 6), "svc__gamma": np.logspace(-2, 2, 5) / n}
        found = {
            "SVC grid": _scored(
                lambda grid=grid: GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=5), parts
            ),
            "LogisticRegressionCV": _scored(
                lambda: make_pipeline(
                    StandardScaler(),
                    LogisticRegressionCV(Cs=10, cv=5, max_iter=2000, use_legacy_attributes=False),  # type: ignore[arg-type]
                ),
                parts,
            ),
            "linear": _scored(lambda: _linear(None), parts),
            "rbf": _scored(_rbf, parts),
            "compare": _compared(parts),
        }
        units = ("", ", s")
        rows.append({word + unit: x for word, pair in found.items() for unit, x in zip(units, pair)})
        yield {"set": name, **rows[-1], "within": None}
    mean = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    peer = max(mean["SVC grid"], mean["LogisticRegressionCV"])
    limit = 3.0 * mean["SVC grid, s"]
    good = min(mean["rbf"], mean["compare"]) >= peer and max(mean["rbf, s"], mean["compare, s"]) <= limit
    yield {"set": "mean", **mean, "within": good}


def which(sets: tuple[str, ...] = TWENTY, repeats: int = 1) -> Iterator[Row]:
    """Test accuracy and seconds of sets, losses and a kernel, each tuned, and of HistGradientBoosting."""
    for name in sets:
        parts = list(splits(name, repeats))
        m, n = parts[0][0].shape
        for word, (family, make) in FAMILIES.items():
            accuracy, seconds = _scored(make, parts)
            yield {
                "set": name, "m": m, "n": n, "model": word, "family": family, "accuracy": accuracy,
                "seconds": seconds, "within": None,
            }  # fmt: skip


def documented(sets: tuple[str, ...] = TEN) -> Iterator[Row]:
    """Every named model with the parameters of its documentation, fitted to scaled samples.

    `within` is True if the fit takes at most 2 seconds and, unless it warns or is refused, has a balanced
    accuracy of at least 1/2 on its own samples.
    """
    for name in sets:
        X, y = dense(name)
        if len(y) > LARGEST:
            X, _, y, _ = train_test_split(X, y, train_size=LARGEST, stratify=y, random_state=0)
        X = StandardScaler().fit_transform(X)
        for model, arguments in DOCUMENTED.items():
            clf, status, balanced = Classifier(getattr(models, model)(*arguments)), "refused", None
            began = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with contextlib.suppress(ucm.EmptySetError):  # no such set of these samples
                    status = clf.fit(X, y).solution_.status
            seconds = time.process_time() - began
            if status != "refused":
                balanced = float(balanced_accuracy_score(y, clf.predict(X)))
            words = sorted({warning.category.__name__ for warning in caught})
            told = bool(words) or balanced is None or balanced >= 0.5
            yield {
                "set": name, "m": len(y), "model": model, "status": status, "balanced": balanced,
                "seconds": seconds, "warned": ", ".join(words), "within": seconds <= LONGEST and told,
            }  # fmt: skip


def table(path: Path) -> list[str]:
    """Return the lines of the table of docs/which-model.md from the rows that `which` saved."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    by_set: dict[str, dict[str, Any]] = {}
    for row in rows:
        by_set.setdefault(row["set"], {"m": row["m"], "n": row["n"]})[row["model"]] = row
    lines = [f"| set | m | n | {' | '.join(FAMILIES)} |", "| --- " * (3 + len(FAMILIES)) + "|"]
    for name, found in by_set.items():
        best = max(found[word]["accuracy"] for word in FAMILIES)
        cells = []
        for word in FAMILIES:
            text = f"{found[word]['accuracy']:.3f}"
            cells.append(f"**{text}**" if text == f"{best:.3f}" else text)
        lines.append(f"| {name} | {found['m']} | {found['n']} | {' | '.join(cells)} |")
    for noun, key, form in (("mean accuracy", "accuracy", ".3f"), ("mean seconds", "seconds", ".2f")):
        means = [np.mean([found[word][key] for found in by_set.values()]) for word in FAMILIES]
        lines.append(f"| {noun} | | | {' | '.join(format(x, form) for x in means)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main(__doc__ or "", {"tuning": tuning, "which": which, "documented": documented}))
