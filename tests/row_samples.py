"""Samples that several tests share, and sources and models of those of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ucm
from ucm import neg, pos, signed
from ucm.data.source import RowSource, View


def samples(
    m: int = 900, n: int = 4, seed: int = 0, part: float = 0.4, shift: float | None = None
) -> tuple[Any, Any]:
    """Normal samples of two classes, their means 2 `shift` apart in every feature, else 3 in the first."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(m) < part, 1.0, -1.0)
    means = 1.5 * np.eye(n)[0] if shift is None else np.full(n, shift)
    return rng.standard_normal((m, n)) + np.outer(y, means), y


def blocks(X: Any, y: Any, rows: int = 100, threads: int = 1) -> RowSource:
    return ucm.open_rows(X, y, block=rows, threads=threads)


class GivenWeights:
    """Any weights of rows in memory, in place of those of a solver."""

    def __init__(self, X: Any, y: Any, weights: Any) -> None:
        self.rows = X, y, weights

    def reduce(self, function: Callable, message: tuple, merge: Callable) -> Any:
        half = len(self.rows[1]) // 2
        parts = (tuple(v[at] for v in self.rows) for at in (slice(None, half), slice(half, None)))
        return merge(*(function(*part, *message) for part in parts))


MODELS = {
    "nu": ucm.models.nu_svm(0.4),
    "caps": ucm.ReducedHull(pos, eta=0.01) - ucm.ReducedHull(neg, eta=0.004),
    "hull and reduced": ucm.Hull(pos, weights=ucm.CappedSimplex(0.006)) - ucm.ReducedHull(neg, nu=0.5),
    "signed": 2.0 * ucm.Hull(signed, weights=ucm.CappedSimplex(0.004)),
    "factors": 2.0 * ucm.ReducedHull(pos, nu=0.4) - 0.5 * ucm.ReducedHull(neg, nu=0.4),
    "relative cap": ucm.Hull(pos, weights=ucm.CappedSimplex(3.0, relative=True))
    - ucm.ReducedHull(neg, nu=0.4),
}
A, B = pos.group("A"), neg.group("B")


def tagged_samples(m: int = 900) -> tuple[Any, Any, dict[str, Any]]:
    X, y = samples(m)
    rng = np.random.default_rng(1)
    weights, groups = 3.0 * rng.random(m), np.array(["A", "B", "C"])[rng.integers(0, 3, m)]
    weights[::7] = 0.0
    X[::7] += 50.0  # rows of no weight, which would tell
    return X, y, {"sample_weight": weights, "subgroup": groups}


MOMENTS = {
    "mm-mpm": ucm.models.mm_mpm(0.5),
    "mm-fda": ucm.models.mm_fda(0.5),
    "signed": ucm.Ellipsoid(signed.mean, signed.cov, 0.3),
    "gelbrich": ucm.Gelbrich(pos, 0.1, 0.3) - ucm.Gelbrich(neg, 0.1, 0.3),
    "p = 1": ucm.RobustMargin(ucm.models.mm_mpm(0.2), norm=1.0),
}
LOSSES = {
    "svm": ucm.models.svm(3.0),
    "p = 1": ucm.models.psvm(1.0, 0.05),
    "p = 2": ucm.models.psvm(2.0, 0.1),
    "p = 3": ucm.models.psvm(3.0, 0.02),
}


class ObservedSource(View):
    """A source that calls `before(number)` before every pass, from 1 on."""

    def __init__(self, inner: RowSource, before: Callable[[int], None]) -> None:
        super().__init__(inner, lambda X, y: (X, y))
        self.before, self.number = before, 0

    def map_reduce(self, function: Callable[..., Any], *message: Any, **options: Any) -> Any:
        self.number += 1
        self.before(self.number)
        return self.inner.map_reduce(function, *message, **options)
