"""The first pass over a row source: validation and counts, with a sample or moments of each class."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ucm.data.bound_data import Data, refuse_squares
from ucm.data.linear_map import LinearMap, Matrix, Vec
from ucm.data.moments import Moments
from ucm.data.source import RowSource, WeightedRows, as_double, gathered
from ucm.data.validation import BlockSummary, inspect_block, joined, refuse_bad, refuse_empty
from ucm.data.weights import UNWEIGHTED, ClassWeight, EffectiveWeights, Factors, members_in, signed_factors
from ucm.errors import DataError

_SAMPLE = 1 << 27  # largest number of bytes of the sample
_FEWEST = 1500  # least number of rows of a sample


Drawn = tuple[Matrix, Vec, NDArray[np.intp], int]
"""Rows of a block, their labels, their indices, and the number of rows in the block."""


def _look(
    X: Matrix, y: np.ndarray, step: int, factors: Factors | None
) -> tuple[BlockSummary, tuple[Matrix, Vec]]:
    summary, X, y, _ = inspect_block(X, y, factors)
    return summary, drawn(X, y, (step, step))[:2]


def drawn(X: Matrix, y: ArrayLike, steps: tuple[int, int]) -> Drawn:
    """Draw one of every `steps[0]` rows of class +1 and of every `steps[1]` rows of class -1 of a block.

    The indices have no period and differ between blocks, so that a class with few rows in each block is drawn
    in some block.
    """
    y = np.asarray(y, dtype=np.float64)
    first = X[:1].data if sparse.issparse(X) else X[:1]
    rng, chosen = np.random.default_rng(zlib.crc32(first.tobytes())), []
    for rows, step in zip((y > 0.0, y < 0.0), steps, strict=True):
        index = np.flatnonzero(rows)
        shift = rng.random(-(-index.size // step))
        at = ((np.arange(shift.size) + shift) * step).astype(np.intp)
        chosen.append(index[at[at < index.size]])
    part = np.sort(np.concatenate(chosen))
    return as_double(X[part]), y[part], part, y.size


def outermost(X: Matrix, y: ArrayLike, D: NDArray[np.float64], sides: Vec, tops: Vec, most: int) -> Drawn:
    """Return, for each direction in the rows of D, up to `most` rows with the largest products with it.

    They are of the class 1.0 or -1.0 in `sides`, (k,), and their products exceed `tops`, (k,).
    """
    X, y = as_double(X), np.asarray(y, dtype=np.float64)
    scores, chosen = np.asarray(X @ D.T), np.zeros(y.size, dtype=bool)
    for j, (side, top) in enumerate(zip(sides, tops, strict=True)):
        rows = np.flatnonzero((side * y > 0.0) & (scores[:, j] > top))
        if rows.size > most:
            rows = rows[np.argpartition(scores[rows, j], -most)[-most:]]
        chosen[rows] = True
    rows = np.flatnonzero(chosen)
    return X[rows], y[rows], rows, y.size


def sampled(source: RowSource, steps: tuple[int, int]) -> tuple[Matrix, Vec]:
    """Return a sample of the rows by `drawn`, with all rows of a class of which none is drawn."""
    X, y = gathered([part[:2] for part in source.map_reduce(drawn, steps)])
    every = steps[0] if (y > 0.0).any() else 1, steps[1] if (y < 0.0).any() else 1
    return (X, y) if every == steps else sampled(source, every)


_OTHERS = (
    "a reduced hull of each class, means and covariances, a loss with L2(), Hinge() or Ramp() with any "
    "penalty, or WorstMean(Hinge(), weights=CappedSimplex(cap)) with one penalty beside L1()"
)


def refuse_gathering(source: RowSource, what: str, instead: str = _OTHERS) -> NoReturn:
    """Raise `DataError` for a model, `what`, that needs all samples in memory."""
    raise DataError(
        f"{what} has no route over rows that are read block by block: it needs all {source.m} x {source.n} "
        f"samples in memory, {source.nbytes / 1e9:.3g} GB; ask for that with X, y = "
        f"ucm.open_rows(X, y).gather(), or take {instead}"
    )


FEATURES = (
    "features of the kernel, as kernel_approx=500 (Nystroem), or ucm.open_rows(X, y).mapped(transformer)"
)


class OutOfCoreMap(LinearMap):
    """The shape and costs of the map of out-of-core samples of a kind; products raise `DataError`."""

    def __init__(self, source: RowSource, kind: str, size: int) -> None:
        self.source, self.kind = source, kind
        self.shape = (source.n, size)
        self.entries, self.squares = source.n * size, 0.5 * size * source.n**2

    def matvec(self, q: Vec) -> NoReturn:
        refuse_gathering(self.source, "this model")

    def rmatvec(self, w: Vec) -> NoReturn:
        refuse_gathering(self.source, "this model")


class RowData(Data):
    """Statistics of a row source after one pass, with a sample of its rows in memory."""

    source: RowSource

    def __init__(
        self,
        source: RowSource,
        summary: BlockSummary,
        sample: tuple[Matrix, Vec],
        weighing: EffectiveWeights = UNWEIGHTED,
    ) -> None:
        super().__init__(*sample, weighing, source=source)
        self.m = source.m
        self.sample = sample  # some rows of each class, and their labels times weights
        # Of class +1 and class -1: rows with a positive weight in the model, and the sums of their weights.
        self.class_sizes = tuple(summary.counts.astype(int).tolist())
        self.counts, self.total = tuple(summary.totals.tolist()), float(summary.all_totals.sum())
        self.least, self.scale, self.stored = summary.least, summary.top or 1.0, summary.entries

    @property
    def given(self) -> int:
        return self.source.given

    @property
    def plain(self) -> bool:
        """True if the source is no `WeightedRows`, so that every row has weight 1."""
        return not isinstance(self.source, WeightedRows)

    @property
    def means(self) -> tuple[float, float]:
        """The mean row weights in class +1 and in class -1, without class factors."""
        plus, minus = (t / max(m, 1) for t, m in zip(self.counts, self.class_sizes, strict=True))
        return plus, minus

    @property
    def scaled_sample(self) -> tuple[Matrix, Vec]:
        """The sample, with weights scaled so that their sum in each class is the total over all rows."""
        X, y = self.sample
        totals = float(y[y > 0.0].sum()), -float(y[y < 0.0].sum())
        plus, minus = (t / f if f else 0.0 for t, f in zip(self.counts, totals, strict=True))
        return X, y * np.where(y > 0.0, plus, minus)

    def _sum(self, kind: str, values: Iterable[float]) -> float:
        """Return the value of the class for kind `pos` or `neg`, the sum of both values for `signed`."""
        return sum(v for c, v in zip(("pos", "neg"), values, strict=True) if kind in (c, "signed"))

    def rows(self, kind: str, group: Hashable = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return None, as the row indices of a kind are unknown."""

    def signs(self, kind: str, group: Hashable = None) -> Vec | None:
        """Return the labels of all rows, +1 first, for kind `signed`; None for `pos` and `neg`."""
        if kind != "signed":
            return None
        return self.once("signs", lambda: np.repeat([1.0, -1.0], self.class_sizes))

    def samples(self, kind: str, group: Hashable = None) -> LinearMap:
        """Return the map of the samples of kind pos, neg or signed: a shape and costs, no products."""
        return OutOfCoreMap(self.source, kind, int(self._sum(kind, self.class_sizes)))

    def copies(self, kind: str, group: Hashable = None) -> Vec | None:
        """Return for each row the class factor times the mean row weight of its class; None if both are 1."""
        plus, minus = (f * c for f, c in zip(self.weighing.classes, self.means, strict=True))
        if plus == minus == 1.0:
            return None
        if kind == "signed":
            return np.repeat([plus, minus], self.class_sizes)
        return np.broadcast_to(plus if kind == "pos" else minus, int(self._sum(kind, self.class_sizes)))

    def count(self, kind: str, group: Hashable = None) -> float:
        """Return the sum of the weights of the rows of a kind, with class factors."""
        return float(self._sum(kind, np.multiply(self.counts, self.weighing.classes)))

    def number(self, kind: str, group: Hashable = None) -> float:
        """Return the sum of the weights of the rows of a kind, without class factors."""
        return float(self._sum(kind, self.counts))

    def mean(self, kind: str, group: Hashable = None) -> NoReturn:
        refuse_gathering(self.source, f"a set with {kind}.mean and hulls of samples")

    def covariance_factor(self, kind: str, group: Hashable = None) -> NoReturn:
        refuse_gathering(self.source, f"a set with {kind}.cov and hulls of samples")


def rows_here(X: Matrix, y: Vec, weighing: EffectiveWeights = UNWEIGHTED) -> Data:
    """Return `Data` of rows in memory, whose y holds labels multiplied by weights."""
    c = np.abs(y)
    return Data(X, np.sign(y), weighing if (c == 1.0).all() else replace(weighing, samples=c))


def _step(source: RowSource) -> int:
    """Return the sampling step k: one of every k rows enters the sample."""
    most = max(1, int(_SAMPLE / max(1.0, source.nbytes / source.m)))
    # This size minimises the rows of the sample, s, and of the active set, about m sqrt(2 n / s).
    best = int((source.m * np.sqrt(2.0 * source.n)) ** (2.0 / 3.0))
    want = min(most, max(best, _FEWEST, 20 * source.n))
    return max(1, source.m // want)


def first_pass(
    source: RowSource, factors: Factors | None = None, class_weight: ClassWeight = None
) -> RowData:
    """Validate and count all rows, draw a sample, and return `RowData`.

    The `factors` are given where rows have weights or groups. Raises `DataError` for NaN or inf, no samples,
    labels other than both -1 and +1, invalid weights or groups.
    """
    if source.m == 0:
        refuse_empty()
    step = _step(source)
    seen = source.map_reduce(_look, step, factors)
    summary = functools.reduce(joined, [summary for summary, _ in seen])
    sample = gathered([part for _, part in seen])
    source, weighing = _checked(source, summary, factors, factors, class_weight)
    if (sample[1] > 0.0).all() or (sample[1] < 0.0).all():  # no row of a rare class was drawn
        sample = sampled(source, (step, step))
    return RowData(source, summary, sample, weighing)


def _checked(
    source: RowSource,
    summary: BlockSummary,
    factors: Factors | None,
    of_rows: Factors | None,
    class_weight: ClassWeight,
) -> tuple[RowSource, EffectiveWeights]:
    """Check a summary as `refuse_bad`; return the source of the rows of positive weight and class factors."""
    refuse_bad(summary, () if factors is None else factors.model_groups)
    if of_rows is not None:
        source = WeightedRows(source, of_rows, int(summary.counts.sum()))
    return source, EffectiveWeights(signed_factors(class_weight, summary.all_totals))


# --- means and covariances -----------------------------------------------------------------------
_BlockMoments = tuple[BlockSummary, list[Moments | None]]


def _moments(
    X: Matrix, y: np.ndarray, factors: Factors | None, parts: tuple[tuple[float, Hashable], ...]
) -> _BlockMoments:
    """Return the summary of a block, and the moments of each part, a class sign and a group label or None."""
    summary, X, y, group = inspect_block(X, y, factors)
    if summary.defect is not None:
        return summary, [None] * len(parts)
    X, moments = as_double(X), []
    with np.errstate(over="ignore", invalid="ignore"):  # refused after the pass
        for sign, label in parts:
            rows = sign * y > 0.0
            if label is not None and group is not None:
                rows &= members_in(group, label)
            moments.append(Moments.of(X[rows], np.abs(y[rows])) if rows.any() else None)
    return summary, moments


def _merge(a: _BlockMoments, b: _BlockMoments) -> _BlockMoments:
    with np.errstate(over="ignore", invalid="ignore"):
        return joined(a[0], b[0]), [x.merged(y) if x and y else x or y for x, y in zip(a[1], b[1])]


def of_moments(source: RowSource, class_weight: ClassWeight = None, factors: Factors | None = None) -> Data:
    """Return `Data` with the moments of the classes over all rows and over named groups, without rows."""
    labels: list = [None]
    labels += dict.fromkeys(label for _, label in (factors.model_groups if factors else ()))
    keys = tuple((sign, label) for label in labels for sign in (1.0, -1.0))
    all_rows = source.map_reduce(_moments, factors, keys, merge=_merge)
    if all_rows is None:
        refuse_empty()
    summary, parts = all_rows
    of_rows = None if factors is None else Factors()
    source, weighing = _checked(source, summary, factors, of_rows, class_weight)
    scale = summary.top or 1.0
    refuse_squares(scale, "covariances")
    found = {key: part for key, part in zip(keys, parts, strict=True) if part is not None}
    moments = {("pos" if sign > 0.0 else "neg", label): part for (sign, label), part in found.items()}
    for (sign, label), part in found.items():
        factor = weighing.classes[0 if sign > 0.0 else 1]
        signed = Moments(factor * part.total, sign * part.mean, factor * part.scatter)
        known = moments.get(("signed", label))
        moments["signed", label] = signed if known is None else known.merged(signed)
    means = np.array([moments["pos", None].mean, moments["neg", None].mean])
    data = Data(means, np.array([1.0, -1.0]), weighing, source=source, moments=moments)
    data.m, data.scale, data.stored = source.m, scale, summary.entries
    data.counts = tuple(summary.totals.tolist())
    return data
