"""Section 4 of Ong and Le Thi (2013): sparsity in features and samples, simulated and UCI data."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.compiler import compile as plan
from ucm.data import datasets
from ucm.errors import ConvergenceWarning, DataError
from ucm.evidence.sparsity import sparsity
from ucm.language import models

__all__ = ["DC_MODELS", "MODELS", "PARTS", "UCI", "simulated", "standardised"]

Make = Callable[..., Any]
MODELS: dict[str, Make] = {
    "SVM": models.svm,
    "OneNormSVM": models.one_norm_svm,
    "ZeroNormSVM": models.zero_norm_svm,
    "CapOneNormSVM": models.cap_one_norm_svm,
    "RLSVM2": models.rlsvm2,
    "RLSVM1": models.rlsvm1,
    "RLSVM0": models.rlsvm0,
    "RLSVMC1": models.rlsvmc1,
}
DC_MODELS = ("ZeroNormSVM", "CapOneNormSVM", "RLSVM2", "RLSVM1", "RLSVM0", "RLSVMC1")
PAIRS = {
    "SVM": "RLSVM2",
    "OneNormSVM": "RLSVM1",
    "ZeroNormSVM": "RLSVM0",
    "CapOneNormSVM": "RLSVMC1",
}
LAMBDAS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
MUS = tuple(k / 10 for k in range(1, 11))
UCI = ("uci_pima", "uci_bupa", "uci_ionosphere", "uci_sonar", "uci_wpbc")
NOISE_DIMENSIONS = (0, 10, 100, 200)
LABEL_NOISE = (0.0, 0.1, 0.2, 0.3)
TRUE = 10  # informative dimensions of the simulated data
ITERATIONS = 16  # at most, section 4.4
REPEATS = 20
FOLDS = 5


@dataclass(frozen=True)
class Run:
    """What one fit on one split showed. `used` says which features have |w_j| > 1e-6."""

    accuracy: float
    features: float
    samples: float
    iterations: int
    used: NDArray[np.bool_]


def simulated(
    noise_dimensions: int, label_noise: float, generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """100 samples: two Gaussians of variance 1.5 in 10 dimensions around (1, ..., 1) and its negative,
    uniform noise on [-1, 1] in further dimensions, everything times 0.2; then exactly that share of
    the labels flipped. The uniform range is not in the paper."""
    y = np.repeat([1.0, -1.0], 50)
    X = y[:, None] + np.sqrt(1.5) * generator.standard_normal((100, TRUE))
    noise = generator.uniform(-1.0, 1.0, (100, noise_dimensions))
    flipped = generator.choice(100, round(100 * label_noise), replace=False)
    y[flipped] *= -1.0
    return 0.2 * np.column_stack([X, noise]), y


def standardised(X: Any) -> NDArray[np.float64]:
    """Features with mean 0 and deviation 1; constant ones 0."""
    X = np.asarray(X, dtype=np.float64)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def features(repeats: int = REPEATS) -> Iterator[dict[str, Any]]:
    """Figures 3 to 6: features used as noise dimensions are added, without label noise."""
    yield from _feature_figures({k: _simulated_runs(k, 0.0, repeats) for k in NOISE_DIMENSIONS})


def labels(k: int, repeats: int = REPEATS) -> Iterator[dict[str, Any]]:
    """Figures 7 to 9 with k noise dimensions: support vectors, parameters and accuracy under label
    noise."""
    for share in LABEL_NOISE:
        found = _simulated_runs(k, share, repeats)
        for name, runs in found.items():
            data = f"({k}; {share:g})"
            if k == 0:
                yield _row("figure 7", data, name, "support vectors", _samples(runs))
            yield _row("figure 8", data, name, "parameters", _parameters(runs))
            yield _row("figure 9", data, name, "accuracy", [r.accuracy for r in runs])


def uci(data: str, repeats: int = REPEATS) -> Iterator[dict[str, Any]]:
    """Figures 10 to 12, section 4.2 and Table 2 on one set."""
    try:
        X, y = datasets.load(data)
    except DataError:
        yield _row("figure 10", data, "not at hand", "", [np.nan])
        return
    X, y = standardised(X), y.astype(float)
    most = 0
    for name, runs in _uci_runs(X, y, repeats).items():
        yield _row("figure 10", data, name, "parameters", _parameters(runs))
        yield _row("section 4.2", data, name, "features", [r.features for r in runs])
        yield _row("section 4.2", data, name, "support vectors", _samples(runs))
        yield _row("section 4.2", data, name, "accuracy", [r.accuracy for r in runs])
        if name in DC_MODELS:
            yield _row("figure 12", data, name, "iterations", [r.iterations for r in runs])
            most = max(most, *(r.iterations for r in runs))
    yield {**_row("order", data, "all", "most iterations", [most]), "within": most <= ITERATIONS}
    yield from _table_2(data, X, y, repeats)


# --- fits ---------------------------------------------------------------------------------------
def _fit(model: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> Run:
    compiled = plan.compile(model, *train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = compiled.solve()
    used = np.abs(solution.w) > 1e-6
    fractions = sparsity(model, compiled.data, solution)
    right = np.where(solution.decision(test[0]) > 0.0, 1.0, -1.0) == test[1]
    accuracy = float(right.mean())
    return Run(accuracy, fractions.features, fractions.samples, solution.stats.iterations, used)


def _tuned(
    make: Make, name: str, values: Sequence[float], X: Any, y: Any, seed: int, **fixed: float
) -> float:
    """The value of a parameter with the best accuracy in five-fold cross-validation; the largest of
    equally good ones, which is the sparsest model in lambda."""
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y))
    scores = []
    for number in values:
        model = make(**{name: number}, **fixed)
        parts = [_fit(model, (X[a], y[a]), (X[b], y[b])).accuracy for a, b in folds]
        scores.append(np.mean(parts))
    return max(v for v, score in zip(values, scores, strict=True) if score == max(scores))


def _split(X: Any, y: Any, seed: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    from sklearn.model_selection import train_test_split

    a, b, p, q = train_test_split(X, y, train_size=0.7, stratify=y, random_state=seed)
    return (a, p), (b, q)


def _tuned_fit(make: Make, X: Any, y: Any, seed: int) -> Run:
    train, test = _split(X, y, seed)
    lam = _tuned(make, "lam", LAMBDAS, *train, seed)
    return _fit(make(lam=lam), train, test)


@functools.cache
def _simulated_runs(k: int, share: float, repeats: int) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {name: [] for name in MODELS}
    for seed in range(repeats):
        X, y = simulated(k, share, np.random.default_rng([seed, k, round(100 * share)]))
        for name, make in MODELS.items():
            found[name].append(_tuned_fit(make, X, y, seed))
    return found


def _uci_runs(X: Any, y: Any, repeats: int) -> dict[str, list[Run]]:
    return {
        name: [_tuned_fit(make, X, y, seed) for seed in range(repeats)]
        for name, make in MODELS.items()
    }


# --- rows ---------------------------------------------------------------------------------------
def _row(
    part: str, data: str, model: str, quantity: str, values: Sequence[float]
) -> dict[str, Any]:
    return {
        "part": part,
        "data": data,
        "model": model,
        "quantity": quantity,
        "mean": float(np.mean(values)),
        "deviation": float(np.std(values)),
        "within": None,
    }


def _samples(runs: list[Run]) -> list[float]:
    return [r.samples for r in runs]


def _parameters(runs: list[Run]) -> list[float]:
    return [r.features * r.samples for r in runs]


def _feature_figures(found: dict[int, dict[str, list[Run]]]) -> Iterator[dict[str, Any]]:
    """Figures 3 to 6: features used, false positives and negatives, accuracy."""
    for k, by_model in found.items():
        for name, runs in by_model.items():
            data = f"{k} noise dimensions"
            if name not in ("SVM", "RLSVM2"):
                yield _row("figure 3", data, name, "features", [r.features for r in runs])
                if k:
                    wrong = [float(r.used[TRUE:].mean()) for r in runs]
                    yield _row("figure 4", data, name, "false positives", wrong)
                missed = [float(1.0 - r.used[:TRUE].mean()) for r in runs]
                yield _row("figure 5", data, name, "false negatives", missed)
            yield _row("figure 6", data, name, "accuracy", [r.accuracy for r in runs])


def _table_2(data: str, X: Any, y: Any, repeats: int) -> Iterator[dict[str, Any]]:
    """Table 2 and figure 11, with RLSVM2: mu = 1 against mu by cross-validation, and every mu. The
    paper does not say which of its ramp models it took."""
    make = models.rlsvm2
    fixed: list[Run] = []
    tuned: list[Run] = []
    chosen: list[float] = []
    by_mu: dict[float, list[Run]] = {mu: [] for mu in MUS}
    for seed in range(repeats):
        train, test = _split(X, y, seed)
        lam = _tuned(make, "lam", LAMBDAS, *train, seed)
        mu = _tuned(make, "mu", MUS, *train, seed, lam=lam)
        chosen.append(mu)
        for each in MUS:
            by_mu[each].append(_fit(make(lam=lam, mu=each), train, test))
        fixed.append(by_mu[1.0][-1])
        tuned.append(by_mu[mu][-1])
    for words, runs in (("mu = 1", fixed), ("mu tuned", tuned)):
        yield _row("table 2", data, words, "accuracy", [r.accuracy for r in runs])
        yield _row("table 2", data, words, "support vectors", _samples(runs))
    yield _row("table 2", data, "mu tuned", "mu", chosen)
    for mu, runs in by_mu.items():
        yield _row("figure 11", data, f"mu = {mu:g}", "support vectors", _samples(runs))
        yield _row("figure 11", data, f"mu = {mu:g}", "accuracy", [r.accuracy for r in runs])


def order(repeats: int = REPEATS) -> Iterator[dict[str, Any]]:
    """With 30 % label noise: fewer support vectors with the ramp than with the hinge, fewer features
    with l0 and capped l1 than with l1; means over the noise dimensions."""
    share = LABEL_NOISE[-1]
    found = [_simulated_runs(k, share, repeats) for k in NOISE_DIMENSIONS]

    def mean(name: str, what: Callable[[Run], float]) -> float:
        return float(np.mean([what(r) for runs in found for r in runs[name]]))

    for hinge, ramp in PAIRS.items():
        yield _order(f"label noise {share:g}", f"{ramp} < {hinge}", "support vectors",
                     mean(ramp, lambda r: r.samples), mean(hinge, lambda r: r.samples))  # fmt: skip
    for wide, narrow in (
        ("OneNormSVM", "ZeroNormSVM"),
        ("OneNormSVM", "CapOneNormSVM"),
        ("RLSVM1", "RLSVM0"),
        ("RLSVM1", "RLSVMC1"),
    ):
        yield _order(f"label noise {share:g}", f"{narrow} < {wide}", "features",
                     mean(narrow, lambda r: r.features), mean(wide, lambda r: r.features))  # fmt: skip


def _order(data: str, what: str, quantity: str, low: float, high: float) -> dict[str, Any]:
    words = f"{quantity}, {low:.3f} and {high:.3f}"
    return {**_row("order", data, what, words, [low - high]), "within": low < high}


PARTS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "features": features,
    "order": order,
    **{f"labels-{k}": functools.partial(labels, k) for k in NOISE_DIMENSIONS},
    **{name.removeprefix("uci_"): functools.partial(uci, name) for name in UCI},
}
