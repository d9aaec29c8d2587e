"""Section 4 of Ong and Le Thi (2013): sparsity in features and samples, simulated and UCI data."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.bench.clock import in_turns
from ucm.bench.data import UCI, dense, over, standardised
from ucm.bench.judge import accuracy
from ucm.bench.registry import COURSE, Benchmark, Part, Row
from ucm.compiler.compile import compile
from ucm.estimators import Classifier
from ucm.evidence.sparsity import Sparsity, sparsity
from ucm.language import models
from ucm.solvers import DCA

__all__ = ["BENCHMARK", "DC_MODELS", "ITERATIONS", "MODELS"]

Make = Callable[..., Any]
Samples = tuple[Any, Any]
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
# the second is to use less than the first
FEWER_SAMPLES = (
    ("SVM", "RLSVM2"),
    ("OneNormSVM", "RLSVM1"),
    ("ZeroNormSVM", "RLSVM0"),
    ("CapOneNormSVM", "RLSVMC1"),
)
FEWER_FEATURES = (
    ("OneNormSVM", "ZeroNormSVM"),
    ("OneNormSVM", "CapOneNormSVM"),
    ("RLSVM1", "RLSVM0"),
    ("RLSVM1", "RLSVMC1"),
)
LAMBDAS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
MUS = tuple(k / 10 for k in range(1, 11))
NOISE_DIMENSIONS = (0, 10, 100, 200)
LABEL_NOISE = (0.0, 0.1, 0.2, 0.3)
TRUE = 10  # informative dimensions of the simulated data
ITERATIONS = 16  # at most, section 4.4
REPEATS = 20
FOLDS = 5


@dataclass(frozen=True)
class Run:
    """What one fit on one split showed: convex problems solved to a certified end and to the paper's stop;
    `used` says which features have |w_j| > 1e-6."""

    accuracy: float
    sparsity: Sparsity
    iterations: int
    printed: int
    used: NDArray[np.bool_]


QUANTITIES: dict[str, Callable[[Run], float]] = {
    "accuracy": lambda run: run.accuracy,
    "features": lambda run: run.sparsity.features,
    "support vectors": lambda run: run.sparsity.samples,
    "parameters": lambda run: run.sparsity.product,
    "false positives": lambda run: run.used[TRUE:].mean(),
    "false negatives": lambda run: 1.0 - run.used[:TRUE].mean(),
    "iterations": lambda run: run.iterations,
    "iterations, change < 1e-3": lambda run: run.printed,
}


# --- simulated data -----------------------------------------------------------------------------
def features(repeats: int = REPEATS) -> Iterator[Row]:
    """Figures 3 to 6: features used as noise dimensions are added, without label noise."""
    figures = list(enumerate(("features", "false positives", "false negatives", "accuracy"), 3))
    for k in COURSE.over(NOISE_DIMENSIONS):
        for name, runs in _simulated_runs(k, 0.0, COURSE.repeats(repeats)).items():
            shown = figures[3:] if name in ("SVM", "RLSVM2") else figures
            shown = [(f"figure {f}", what) for f, what in shown if k or what != "false positives"]
            yield from _rows(f"{k} noise dimensions", name, runs, *shown)


def labels(k: int, repeats: int = REPEATS) -> Iterator[Row]:
    """Figures 7 to 9 with k noise dimensions: support vectors, parameters and accuracy under label
    noise."""
    figures = (
        ("figure 7", "support vectors"),
        ("figure 8", "parameters"),
        ("figure 9", "accuracy"),
    )
    for share in COURSE.over(LABEL_NOISE):
        for name, runs in _simulated_runs(k, share, COURSE.repeats(repeats)).items():
            yield from _rows(f"({k}; {share:g})", name, runs, *figures[k > 0 :])


def order(repeats: int = REPEATS) -> Iterator[Row]:
    """With 30 % label noise: fewer support vectors with the ramp than with the hinge, fewer features
    with l0 and capped l1 than with l1; means over the noise dimensions."""
    share = LABEL_NOISE[-1]
    dimensions, repeats = COURSE.over(NOISE_DIMENSIONS), COURSE.repeats(repeats)
    found = [_simulated_runs(k, share, repeats) for k in dimensions]
    for quantity, pairs in (("support vectors", FEWER_SAMPLES), ("features", FEWER_FEATURES)):
        for more, less in pairs:
            high, low = (
                float(np.mean([QUANTITIES[quantity](r) for runs in found for r in runs[name]]))
                for name in (more, less)
            )
            words = f"{quantity}, {low:.3f} and {high:.3f}"
            row = _row("order", f"label noise {share:g}", f"{less} < {more}", words, [low - high])
            yield {**row, "within": low < high}


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


@functools.cache
def _simulated_runs(k: int, share: float, repeats: int) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {name: [] for name in MODELS}
    for seed in range(repeats):
        X, y = simulated(k, share, np.random.default_rng([seed, k, round(100 * share)]))
        for name, make in MODELS.items():
            found[name].append(_tuned_fit(make, X, y, seed))
    return found


# --- UCI data -----------------------------------------------------------------------------------
def uci(data: str, repeats: int = REPEATS) -> Iterator[Row]:
    """Figures 10 to 12, section 4.2 and Table 2 on one set."""
    rows = functools.partial(_uci, repeats=COURSE.repeats(repeats))
    return over([data], rows, standardised, where="data", part="figure 10")


def _uci(data: str, X: Any, y: Any, repeats: int) -> Iterator[Row]:
    most = 0
    used = [("section 4.2", name) for name in ("features", "support vectors", "accuracy")]
    for name, make in MODELS.items():
        runs = [_tuned_fit(make, X, y, seed) for seed in range(repeats)]
        yield from _rows(data, name, runs, ("figure 10", "parameters"), *used)
        if name in DC_MODELS:
            counts = ("iterations", "iterations, change < 1e-3")
            yield from _rows(data, name, runs, *(("figure 12", what) for what in counts))
            most = max(most, *(run.printed for run in runs))
    what = "most iterations, change < 1e-3"
    yield {**_row("order", data, "all", what, [most]), "within": most <= ITERATIONS}
    yield from _table_2(data, X, y, repeats)


def _table_2(data: str, X: Any, y: Any, repeats: int) -> Iterator[Row]:
    """Table 2 and figure 11, with RLSVM2: mu = 1 against mu by cross-validation, and every mu. The
    paper does not say which of its ramp models it took."""
    make, chosen, tuned = models.rlsvm2, [], []
    by_mu: dict[float, list[Run]] = {mu: [] for mu in MUS}
    for seed in range(repeats):
        train, test = _split(X, y, seed)
        lam = _tuned(make, "lam", LAMBDAS, train, seed)
        chosen.append(_tuned(make, "mu", MUS, train, seed, lam=lam))
        for mu, runs in by_mu.items():
            runs.append(_fit(make(lam=lam, mu=mu), train, test))
        tuned.append(by_mu[chosen[-1]][-1])
    table = [("table 2", "accuracy"), ("table 2", "support vectors")]
    yield from _rows(data, "mu = 1", by_mu[1.0], *table)
    yield from _rows(data, "mu tuned", tuned, *table)
    yield _row("table 2", data, "mu tuned", "mu", chosen)
    for mu, runs in by_mu.items():
        shown = (("figure 11", "support vectors"), ("figure 11", "accuracy"))
        yield from _rows(data, f"mu = {mu:g}", runs, *shown)


# --- effort -------------------------------------------------------------------------------------
def effort() -> Iterator[Row]:
    """Figures 12 to 15 at lam = 1, on all samples, by the paper's stop: convex problems and seconds of the
    six methods on the UCI sets and Arcene (Gisette is not held), and the objective of RLSVM0 after every
    problem over that at the start. Within: at most the paper's 16 problems; the objective never rises."""
    return over((*UCI, "arcene"), _effort, _plain_or_standardised, where="data", part="figure 14")


def _plain_or_standardised(name: str) -> Samples:
    return standardised(name) if name in UCI else dense(name)


def _effort(data: str, X: Any, y: Any) -> Iterator[Row]:
    figures = ("figure 12", "figure 14") if data in UCI else ("figure 15", "figure 15")
    for name in DC_MODELS:
        plan = compile(MODELS[name](lam=1.0), X, y, solver=DCA(stop="paper"))
        runs = in_turns({name: plan.solve}, 3, clock=time.process_time)[name]
        found, count = runs.result, runs.result.stats.iterations
        row = _row(figures[0], data, name, "iterations, change < 1e-3", [count])
        yield {**row, "within": count <= ITERATIONS}
        yield _row(figures[1], data, name, "seconds", [runs.least])
        if name == "RLSVM0":
            heights = np.array([record["objective"] for record in found.history])
            for k, height in enumerate(heights / heights[0]):
                row = _row("figure 13", data, name, f"objective after {k}, of the first", [height])
                falls = k == 0 or heights[k] <= heights[k - 1] * (1.0 + 1e-9)
                yield {**row, "within": bool(falls)}


# --- fits ---------------------------------------------------------------------------------------
def _fit(model: Any, train: Samples, test: Samples) -> Run:
    plan = compile(model, *train)
    solution = plan.solve()
    used = np.abs(solution.w) > 1e-6
    shares = sparsity(model, plan.data, solution)
    count = printed = solution.stats.iterations
    if not model.convex:
        printed = compile(model, *train, solver=DCA(stop="paper")).solve().stats.iterations
    return Run(accuracy(solution, *test), shares, count, printed, used)


def _tuned(
    make: Make, name: str, values: Sequence[float], samples: Samples, seed: int, **fixed: float
) -> float:
    """The value of a parameter with the best accuracy in five-fold cross-validation; the largest of
    equally good ones, which is the sparsest model in lambda."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    parameter, best_first = f"model__{name}", sorted(values, reverse=True)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    machine = Classifier(make(**{name: values[0]}, **fixed))
    search = GridSearchCV(machine, {parameter: best_first}, cv=folds, refit=False)
    return search.fit(*samples).best_params_[parameter]


def _split(X: Any, y: Any, seed: int) -> tuple[Samples, Samples]:
    from sklearn.model_selection import train_test_split

    a, b, p, q = train_test_split(X, y, train_size=0.7, stratify=y, random_state=seed)
    return (a, p), (b, q)


def _tuned_fit(make: Make, X: Any, y: Any, seed: int) -> Run:
    train, test = _split(X, y, seed)
    return _fit(make(lam=_tuned(make, "lam", LAMBDAS, train, seed)), train, test)


# --- rows ---------------------------------------------------------------------------------------
def _rows(data: str, model: str, runs: Iterable[Run], *shown: tuple[str, str]) -> Iterator[Row]:
    """One for every figure and its quantity."""
    for part, quantity in shown:
        yield _row(part, data, model, quantity, [QUANTITIES[quantity](run) for run in runs])


def _row(part: str, data: str, model: str, quantity: str, values: Sequence[float]) -> Row:
    row = {"part": part, "data": data, "model": model, "quantity": quantity}
    return {
        **row,
        "mean": float(np.mean(values)),
        "deviation": float(np.std(values)),
        "within": None,
    }


PARTS: dict[str, Part] = {
    "features": features,
    "order": order,
    "effort": effort,
    **{f"labels-{k}": functools.partial(labels, k) for k in NOISE_DIMENSIONS},
    **{name.removeprefix("uci_"): functools.partial(uci, name) for name in UCI},
}
BENCHMARK = Benchmark("dca", "section 4 of Ong and Le Thi (2013), 20 splits each", PARTS)
