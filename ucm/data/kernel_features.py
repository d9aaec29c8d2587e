"""Approximate kernel features: Nyström and random Fourier features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.gram import Expansion
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import COUNT, SEED, OptionSpec, check_fields
from ucm.data.source import RowSource, as_double, gathered
from ucm.data.validation import bad_entry, refuse
from ucm.data.weights import untagged
from ucm.errors import DataError, ParameterError

_RANK = 1e-10  # eigenvalues of the kernel over the samples, relative to the largest, below which they are 0
_SAMPLE = 2000  # least number of rows of a source that features are drawn from


@dataclass(frozen=True)
class FeatureSampler(ABC):
    """Base class of the methods that draw at most `rank` approximate kernel features with a seed."""

    rank: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, rank=COUNT, seed=SEED)

    @abstractmethod
    def of(self, kernel: Kernel, X: Matrix) -> KernelFeatures:
        """Draw features for the samples X; raise `ParameterError` or `DataError` for another kernel."""


@dataclass(frozen=True)
class Nystroem(FeatureSampler):
    """The Nyström approximation of a kernel, by features from a random subset of the samples.

    `phi(x) = K_LL^(-1/2) k(L, x)` for the samples L, so that `<phi(a), phi(b)> = k(a, L) K_LL^+ k(L, b)`: the
    kernel itself between L and any other sample, and between all where L are all samples.

    Parameters
    ----------
    rank
        Number of samples that are drawn; all samples if there are fewer.
    seed
        Seed of the draw.

    Notes
    -----
    Williams and Seeger (2001), "Using the Nystroem method to speed up kernel machines".

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> some = ucm.Nystroem(20)
    >>> found = ucm.solve(ucm.models.nu_svm(0.3), X, y, kernel="rbf", gamma=1e-3, kernel_approx=some)
    >>> print(found.certificate.kernel)
    Nystroem(rank=20, seed=0) of rbf kernel exp(-0.001 |a - b|^2)
    """

    def of(self, kernel: Kernel, X: Matrix) -> KernelFeatures:
        m = X.shape[0]
        chosen = np.sort(np.random.default_rng(self.seed).permutation(m)[: self.rank])
        L = X[chosen]
        K = kernel(L, L)
        values, vectors = np.linalg.eigh(0.5 * (K + K.T))
        top = float(np.abs(values).max(initial=0.0))
        if values[0] < -1e-8 * top:
            raise DataError(
                f"kernel_approx: expected a positive semidefinite kernel, got the eigenvalue {values[0]:.3g} "
                f"over {chosen.size} samples, so there is no feature space; use a kernel such as rbf"
            )
        positive = values > _RANK * top
        root = vectors[:, positive] / np.sqrt(values[positive]) if top > 0.0 else np.zeros((chosen.size, 1))
        return KernelFeatures(kernel, Expansion(kernel, root, L, chosen, m), self)


@dataclass(frozen=True)
class RandomFeatures(FeatureSampler):
    """Random Fourier features of the RBF kernel.

    `phi_j(x) = sqrt(2 / rank) cos(<f_j, x> + t_j)`, the f_j normal with the variance `2 gamma`, the t_j
    uniform in [0, 2 pi]: `<phi(a), phi(b)>` has the mean `exp(-gamma |a - b|^2)`.

    Parameters
    ----------
    rank
        Number of features.
    seed
        Seed of the draw.

    Notes
    -----
    Rahimi and Recht (2007), "Random features for large-scale kernel machines", Algorithm 1.

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> waves = ucm.RandomFeatures(100)
    >>> ucm.solve(ucm.models.svm(1.0), X, y, kernel="rbf", kernel_approx=waves).status
    'optimal'
    """

    def of(self, kernel: Kernel, X: Matrix) -> KernelFeatures:
        if kernel.name != "rbf":
            raise ParameterError(
                f"kernel_approx: RandomFeatures are of the rbf kernel, got the {kernel}; take "
                f"ucm.Nystroem({self.rank})"
            )
        rng = np.random.default_rng(self.seed)
        F = np.sqrt(2.0 * kernel.gamma) * rng.standard_normal((X.shape[1], self.rank))
        waves = Kernel("callable", function=_RandomFourierMap(rng.uniform(0.0, 2.0 * np.pi, self.rank)))
        nothing = np.empty(0, dtype=np.intp)  # no sample stands for a frequency
        return KernelFeatures(kernel, Expansion(waves, None, F.T, nothing, X.shape[0]), self)


@dataclass(frozen=True)
class _RandomFourierMap:
    """The map `sqrt(2 / r) cos(<x, f_j> + t_j)` of rows x, with frequencies f_j in rows and r phases t_j."""

    phases: NDArray[np.float64]

    def __call__(self, X: Matrix, F: NDArray[np.float64]) -> NDArray[np.float64]:
        features = np.asarray(X @ F.T)
        features += self.phases
        np.cos(features, out=features)
        features *= np.sqrt(2.0 / self.phases.size)
        return features


@dataclass(frozen=True)
class KernelFeatures:
    """An approximate feature map `phi`, drawn by the method `how`, with `<phi(a), phi(b)>` near `k(a, b)`."""

    kernel: Kernel
    phi: Expansion
    how: FeatureSampler

    def scoring(self, W: NDArray[np.float64]) -> Expansion:
        """Return the function `phi(x)'W` as an `Expansion`, which has `scores(X)`."""
        C = self.phi.coefficients
        return replace(self.phi, coefficients=W if C is None else C @ W)

    def transform(self, X: Matrix) -> NDArray[np.float64]:
        """Return phi(x) for the rows x of X, (rows, r)."""
        return self.phi.scores(X)

    def __repr__(self) -> str:
        return f"{self.how!r} of {self.kernel}"


_APPROX = OptionSpec(
    "how many samples the features are made of, ucm.Nystroem(rank) or ucm.RandomFeatures(rank)",
    lambda x: COUNT.holds(x) or isinstance(x, FeatureSampler | KernelFeatures),
)


def check_approx(approx: object) -> None:
    """Raise `ParameterError` unless `approx` is a valid value of the option `kernel_approx`."""
    _APPROX.check("compile", "kernel_approx", approx, "write kernel_approx=500")


def approximation(approx: object, kernel: Kernel, X: Matrix) -> KernelFeatures:
    """Return the `KernelFeatures` for the option `kernel_approx`; a number is the rank of `Nystroem`.

    Raises `ParameterError` for another type of value, or a kernel that is linear or precomputed, and
    `DataError` if the kernel is indefinite.
    """
    check_approx(approx)
    if isinstance(approx, KernelFeatures):
        return approx
    if kernel.name in ("linear", "precomputed"):
        raise ParameterError(
            f"kernel_approx: expected a kernel whose features X does not hold, got the {kernel} and "
            f"kernel_approx={approx!r}; leave kernel_approx out"
        )
    how = approx if isinstance(approx, FeatureSampler) else Nystroem(int(approx))  # type: ignore[call-overload]
    return how.of(kernel, X)


def _some(X: Matrix, y: np.ndarray, step: int) -> tuple[Matrix, NDArray[np.intp], np.ndarray | None, int]:
    c = untagged(y)[1]
    rows = (np.arange(len(y)) if c is None else np.flatnonzero(c > 0))[::step]
    return as_double(X[rows]), rows, None if c is None else c[rows], len(y)


def some_of(rows: RowSource, approx: Any) -> tuple[Matrix, Vec | None]:
    """Return rows of positive weight, as a sample for `kernel_approx`, and their weights or None.

    The sample has rows of every block, in all about 2000, or twice the rank if that is more. Raises
    `ParameterError` for an invalid `approx`, and `DataError` for NaN and inf.
    """
    check_approx(approx)
    rank = int(approx) if COUNT.holds(approx) else approx.rank
    step = max(1, rows.m // max(_SAMPLE, 2 * rank))
    tables, places, weights, sizes = zip(*rows.map_reduce(_some, step), strict=True)
    starts = np.cumsum([0, *sizes[:-1]])
    X, index = gathered([(T, s + i) for T, s, i in zip(tables, starts, places, strict=True)])
    c = None if weights[0] is None else np.concatenate(weights).astype(np.float64)
    bad = bad_entry(X)
    refuse(bad and bad._replace(row=int(index[bad.row])))
    return X, c
