"""Spectra of `A A'` of linear maps A, cached as long as the map is in use.

Maps belong to bound data, so a path of radii, or another model over the same data, reuses the spectra.
"""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import LinearMap, Vec

_RANK = 8.0  # multiple of the rounding of eigenvalues below which they are 0 in a root


@dataclass(frozen=True)
class Spectrum:
    """The eigendecomposition `S = V diag(values) V'` of a positive semidefinite matrix S.

    Attributes
    ----------
    matrix : S
    values : ascending; 0 where that is rounding
    vectors : V, in columns
    """

    matrix: NDArray[np.float64]
    values: Vec
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, S: NDArray[np.float64]) -> Spectrum:
        values, vectors = np.linalg.eigh(S)
        values[values <= values.size * np.finfo(float).eps * values[-1]] = 0.0
        return cls(S, values, vectors)

    @functools.cached_property
    def trace(self) -> float:
        return float(np.trace(self.matrix))

    @functools.cached_property
    def root(self) -> NDArray[np.float64]:
        """A factor R of S, `R R' = S`, with rank(S) columns."""
        positive = self.values > 0.0
        return self.vectors[:, positive] * np.sqrt(self.values[positive])


_KNOWN: weakref.WeakKeyDictionary[LinearMap, Spectrum] = weakref.WeakKeyDictionary()


def has_spectrum(A: LinearMap) -> bool:
    """True if the spectrum of `A A'` is cached."""
    return A.without_factor()[0] in _KNOWN


def spectrum(A: LinearMap) -> Spectrum:
    """Return the spectrum of `A A'`, from the cache if present."""
    base, factor = A.without_factor()
    if base not in _KNOWN:
        _KNOWN[base] = Spectrum.of(base.weighted_gram(np.ones(base.shape[1])))
    S = _KNOWN[base]
    if factor == 1.0:
        return S
    return Spectrum(factor**2 * S.matrix, factor**2 * S.values, S.vectors)


def psd_root(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F (n, r) with F F' = S for a positive semidefinite S of numerical rank r.

    F comes from the eigenvalues of the correlations, so that the rounding of a feature is relative to its own
    variance, whatever the scales of the other features are.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(S), 0.0))
    if not deviations.any():
        return np.zeros((S.shape[0], 1))
    unit = np.where(deviations > 0.0, deviations, 1.0)
    values, V = np.linalg.eigh(S / unit[:, None] / unit)
    positive = values > _RANK * S.shape[0] * np.finfo(float).eps * values[-1]
    return deviations[:, None] * V[:, positive] * np.sqrt(values[positive])
