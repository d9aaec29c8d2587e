"""Kernels and their Gram matrices: rows on demand under a memory limit, and an exact factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ucm.contracts import Vec
from ucm.errors import DataError, ParameterError
from ucm.operators import row_norms

__all__ = ["KERNELS", "KERNEL_OPTIONS", "Expansion", "Gram", "Kernel", "kernel_of"]

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
KERNEL_OPTIONS = ("gamma", "degree", "coef0", "cache_size")
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Kernel:
    """A kernel with scikit-learn's names: `kernel(A, B)` is the matrix of k(a, b).

    | name | k(a, b) |
    | --- | --- |
    | linear | `<a, b>` |
    | poly | `(gamma <a, b> + coef0)^degree` |
    | rbf | `exp(-gamma |a - b|^2)` |
    | sigmoid | `tanh(gamma <a, b> + coef0)`, not positive semidefinite |
    | precomputed | the entries of a given matrix |
    | a callable | `function(A, B)`, an array of shape (rows of A, rows of B) |

    Parameters
    ----------
    name : one of the names above, or "callable"
    gamma, degree, coef0 : numbers
    function : the callable

    Examples
    --------
    >>> from ucm.kernels import Kernel
    >>> Kernel("poly", gamma=1.0, degree=2)(np.eye(2), np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    function: Callable[[Any, Any], Any] | None = None

    @property
    def definite(self) -> bool:
        """Whether it is positive semidefinite by its form."""
        return self.name in ("linear", "rbf") or (
            self.name == "poly" and self.coef0 >= 0.0 and self.degree == int(self.degree)
        )

    def __call__(self, A: Any, B: Any) -> NDArray[np.float64]:
        if self.function is not None:
            return self._called(A, B)
        if self.name == "precomputed":
            raise DataError('kernel="precomputed": there are no features to compare; pass its rows')
        G = A @ B.T
        G = G.toarray() if sparse.issparse(G) else np.asarray(G)
        if self.name == "rbf":
            return self._rbf(G, row_norms(A) ** 2, row_norms(B) ** 2)
        if self.name == "linear":
            return G
        G *= self.gamma
        G += self.coef0
        return np.tanh(G, out=G) if self.name == "sigmoid" else np.power(G, self.degree, out=G)

    def _rbf(self, G: NDArray[np.float64], a: Vec, b: Vec) -> NDArray[np.float64]:
        G *= 2.0 * self.gamma
        G -= self.gamma * a[:, None]
        G -= self.gamma * b
        np.minimum(G, 0.0, out=G)
        return np.exp(G, out=G)

    def _called(self, A: Any, B: Any) -> NDArray[np.float64]:
        shape = (A.shape[0], B.shape[0])
        try:
            K = np.asarray(self.function(A, B), dtype=np.float64)  # type: ignore[misc]
        except (TypeError, ValueError) as error:
            raise DataError(
                f"kernel: the callable failed on arrays of shapes {A.shape} and {B.shape} "
                f"({error}); it must return k(a, b) for all rows a and b"
            ) from error
        if K.shape != shape:
            raise DataError(
                f"kernel: the callable returned shape {K.shape} for {A.shape[0]} and {B.shape[0]} "
                f"rows; it must return shape {shape}"
            )
        if not np.isfinite(K).all():
            raise DataError("kernel: the callable returned NaN or inf; it must be finite everywhere")
        return K

    def diagonal(self, A: Any) -> Vec:
        """k(a, a) for the rows of A."""
        if self.name == "rbf":
            return np.ones(A.shape[0])
        if self.function is not None:
            step = 256
            parts = [
                np.diagonal(self(A[i : i + step], A[i : i + step]))
                for i in range(0, A.shape[0], step)
            ]
            return np.concatenate(parts)
        d = row_norms(A) ** 2
        if self.name == "linear":
            return d
        d = self.gamma * d + self.coef0
        return np.tanh(d) if self.name == "sigmoid" else d**self.degree

    def __str__(self) -> str:
        if self.function is not None:
            return f"the kernel {getattr(self.function, '__name__', 'given')}"
        return {
            "linear": "linear kernel",
            "poly": f"poly kernel ({self.gamma:.4g} <a, b> + {self.coef0:g})^{self.degree}",
            "rbf": f"rbf kernel exp(-{self.gamma:.4g} |a - b|^2)",
            "sigmoid": f"sigmoid kernel tanh({self.gamma:.4g} <a, b> + {self.coef0:g})",
            "precomputed": "precomputed kernel",
        }[self.name]


def _positive(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float | np.number):
        raise ParameterError(f"{name}: expected a number, got {number!r}")
    return float(number)


def kernel_of(kernel: Any, X: Any, **options: Any) -> tuple[Kernel, int]:
    """The kernel that the options of `compile` describe, and the memory limit in bytes.

    Parameters
    ----------
    kernel : a name of `Kernel`, or a callable
    X : (m, n) samples, which gamma="scale" and "auto" refer to
    gamma : "scale" for 1 / (n var(X)), "auto" for 1 / n, or a positive number; default "scale"
    degree : of the polynomial kernel; default 3
    coef0 : of the polynomial and the sigmoid kernel; default 0
    cache_size : megabytes for rows of the Gram matrix, and the size above which it is never formed
        whole; default 200

    Raises
    ------
    ParameterError
        An unknown kernel or option, or a number out of range.
    """
    unknown = sorted(set(options) - set(KERNEL_OPTIONS))
    if unknown:
        raise ParameterError(
            f"kernel: unknown option {', '.join(unknown)}; the options are {', '.join(KERNEL_OPTIONS)}"
        )
    size = _positive("cache_size", options.get("cache_size", 200.0))
    if not 0.0 < size < np.inf:
        raise ParameterError(f"cache_size: expected a positive number of megabytes, got {size:g}")
    limit = int(size * _MEGABYTE)
    gamma: Any = options.get("gamma", "scale")
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ParameterError(
                f'gamma: expected "scale", "auto" or a positive number, got {gamma!r}'
            )
        spread = 1.0
        if gamma == "scale":
            if sparse.issparse(X):
                count = X.shape[0] * X.shape[1]
                spread = float((X.data**2).sum() / count - (X.data.sum() / count) ** 2)
            else:
                spread = float(X.var())
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0.0 else 1.0
    gamma = _positive("gamma", gamma)
    if not 0.0 < gamma < np.inf:
        raise ParameterError(
            f'gamma: expected a positive number, got {gamma:g}; gamma="scale" is the usual choice'
        )
    degree = _positive("degree", options.get("degree", 3))
    if degree != int(degree) or degree < 0:
        raise ParameterError(f"degree: expected a whole number >= 0, got {degree:g}")
    coef0 = _positive("coef0", options.get("coef0", 0.0))
    if not np.isfinite(coef0):
        raise ParameterError(f"coef0: expected a finite number, got {coef0:g}")
    if callable(kernel):
        return Kernel("callable", gamma, int(degree), coef0, kernel), limit
    if kernel not in KERNELS:
        raise ParameterError(
            f"kernel: expected None, a callable or one of {', '.join(KERNELS)}; got {kernel!r}"
        )
    return Kernel(kernel, gamma, int(degree), coef0), limit


class Gram:
    """The Gram matrix of m samples, its rows computed when asked for and kept under a limit.

    Parameters
    ----------
    kernel : Kernel
    X : (m, n) samples, or the (m, m) matrix itself for a precomputed kernel
    limit : bytes for the rows that are kept

    Attributes
    ----------
    m : number of samples
    diagonal : (m,) k(x_i, x_i)
    store : rows that are kept
    where : (m,) the place of a row in the store, -1 when it is not there
    used : when each place was last used
    computed : entries computed so far
    """

    def __init__(self, kernel: Kernel, X: Any, limit: int = 200 * _MEGABYTE) -> None:
        self.kernel, self.X, self.limit = kernel, X, limit
        self.m = X.shape[0]
        self.computed = 0
        self.given = kernel.name == "precomputed"
        if self.given:
            self._check(X)
        self.diagonal = np.diagonal(X).copy() if self.given else kernel.diagonal(X)
        self._squares = row_norms(X) ** 2 if kernel.name == "rbf" else None
        if self._squares is not None:
            self._scaled_squares = kernel.gamma * self._squares
        slots = self.m if self.given else min(self.m, max(2, limit // (8 * self.m)))
        self.store = X if self.given else np.empty((slots, self.m))
        self.where = np.arange(self.m) if self.given else np.full(self.m, -1)
        self.used = np.zeros(slots)
        self._owner = np.full(slots, -1)
        self._filled = self.m if self.given else 0

    @staticmethod
    def _check(K: Any) -> None:
        if sparse.issparse(K) or K.shape[0] != K.shape[1]:
            shape = "a sparse matrix" if sparse.issparse(K) else f"shape {K.shape}"
            raise DataError(
                f'kernel="precomputed": X is the dense (m, m) matrix of k(x_i, x_j), got {shape}'
            )
        top = float(np.abs(K).max(initial=0.0))
        if float(np.abs(K - K.T).max(initial=0.0)) > 1e-8 * top:
            raise DataError(
                'kernel="precomputed": the matrix is not symmetric; a kernel is: '
                "use (K + K.T) / 2 if the difference is rounding"
            )

    @property
    def fits(self) -> bool:
        """Whether the whole matrix may be formed."""
        return self.given or 8 * self.m * self.m <= self.limit

    def block(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Rows of the matrix, (len(rows), m), computed now."""
        if self.given:
            return self.X[rows]
        self.computed += rows.size * self.m
        if self._squares is not None:
            G = self.X[rows] @ self.X.T
            G = G.toarray() if sparse.issparse(G) else G
            return self.kernel._rbf(G, self._squares[rows], self._squares)
        return self.kernel(self.X[rows], self.X)

    def fetch(self, i: int) -> None:
        """Put row i into the store, in place of the row that was not used for longest."""
        if self._filled < self.store.shape[0]:
            slot = self._filled
            self._filled += 1
        else:
            slot = int(np.argmin(self.used))
            self.where[self._owner[slot]] = -1
        self._row(i, self.store[slot])
        self._owner[slot], self.where[i] = i, slot
        self.used[slot] = np.inf  # until it is used

    def whole(self) -> NDArray[np.float64]:
        """The whole matrix.

        Raises
        ------
        ParameterError
            It is larger than the memory limit.
        """
        if not self.fits:
            raise ParameterError(
                f"kernel: the Gram matrix of {self.m} samples takes "
                f"{8 * self.m**2 / _MEGABYTE:.0f} MB and cache_size allows "
                f"{self.limit / _MEGABYTE:.0f}; raise cache_size, or approximate the kernel by "
                "features: sklearn.kernel_approximation.Nystroem, then no kernel here"
            )
        return self.X if self.given else self.block(np.arange(self.m))

    def times(self, coefficients: Vec) -> Vec:
        """`K c`, a few rows at a time, over the samples with c != 0."""
        support = np.flatnonzero(coefficients)
        out = np.zeros(self.m)
        step = max(1, (8 * _MEGABYTE) // (8 * self.m))
        for i in range(0, support.size, step):
            part = support[i : i + step]
            out += coefficients[part] @ self.block(part)
        return out

    def _row(self, i: int, out: Vec) -> None:
        if self._squares is None or sparse.issparse(self.X):
            out[:] = self.block(np.array([i]))[0]
            return
        self.computed += self.m
        np.matmul(self.X, self.X[i] * (2.0 * self.kernel.gamma), out=out)
        out -= self.kernel.gamma * self._squares[i]
        out -= self._scaled_squares
        np.minimum(out, 0.0, out=out)
        np.exp(out, out=out)

    def combine(self, rows: NDArray[np.intp], c: Vec, columns: NDArray[np.intp]) -> Vec:
        """`sum_k c_k K[rows_k, columns]`, from rows in the store where they are there."""
        out = np.zeros(columns.size)
        there = self.where[rows] >= 0
        step = max(1, _MEGABYTE // max(1, columns.size))
        for known, part in ((True, rows[there]), (False, rows[~there])):
            weights = c[there] if known else c[~there]
            for i in range(0, part.size, step):
                some = part[i : i + step]
                if known:
                    K = self.store[np.ix_(self.where[some], columns)]
                else:
                    K = self.kernel(self.X[some], self.X[columns])
                    self.computed += K.size
                out += weights[i : i + step] @ K
        return out

    def factor(self) -> NDArray[np.float64]:
        """F (m, r) with `F F' = K` to rounding, r the numerical rank: pivoted Cholesky.

        The rows of F are the samples in an orthonormal basis of their own span, so every model of
        samples over these rows is the model in the feature space of the kernel, exactly.

        Raises
        ------
        ParameterError
            The matrix is larger than the memory limit.
        DataError
            The kernel is indefinite: it has no feature space.
        """
        K = np.asarray(self.whole())
        top = float(np.diagonal(K).max(initial=0.0))
        if top <= 0.0 and not K.any():
            return np.zeros((self.m, 1))
        tolerance = max(self.m, 10) * np.finfo(float).eps * max(top, 0.0)
        L, pivots, rank, _ = linalg.lapack.dpstrf(np.asfortranarray(K), tol=tolerance, lower=1)
        L = np.tril(L)[:, :rank]
        F = np.empty((self.m, rank))
        F[pivots - 1] = L
        error = float(np.abs(F @ F.T - K).max())
        if not error <= 1e-9 * max(top, float(np.abs(K).max())):
            raise DataError(
                f"kernel: the Gram matrix is indefinite (a factor misses it by {error:.2g}, entries "
                f"up to {np.abs(K).max():.2g}), so there is no feature space; use a positive "
                "semidefinite kernel such as rbf, or project the matrix on its positive eigenvalues"
            )
        return F

    def spectral(self) -> NDArray[np.float64]:
        """The symmetric root E (m, m), `E E = K`, from the eigenvalues: another computation."""
        values, vectors = np.linalg.eigh(np.asarray(self.whole()))
        return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


@dataclass(frozen=True)
class Expansion:
    """`f(x) = sum_i c_i k(x_i, x)`.

    Attributes
    ----------
    kernel : Kernel
    coefficients : (k,) the c_i
    samples : the x_i in rows, or None for a precomputed kernel
    support : (k,) which of the m samples they are
    m : how many samples there were
    """

    kernel: Kernel
    coefficients: Vec
    samples: Any
    support: NDArray[np.intp]
    m: int

    @classmethod
    def of(cls, gram: Gram, coefficients: Vec) -> Expansion:
        """The expansion over the samples whose coefficient is not 0."""
        support = np.flatnonzero(coefficients)
        samples = None if gram.given else gram.X[support]
        return cls(gram.kernel, coefficients[support], samples, support, gram.m)

    def scores(self, X: Any) -> Vec:
        """f for the rows of X; for a precomputed kernel X holds k(x, x_i) for all m samples.

        Raises
        ------
        DataError
            A precomputed X without one column per sample of the fit.
        """
        if self.samples is None:
            if np.ndim(X) != 2 or X.shape[1] != self.m:
                raise DataError(
                    f'kernel="precomputed": expected k(x, x_i) for all {self.m} samples of the fit, '
                    f"got shape {np.shape(X)}; pass an array of shape (rows, {self.m})"
                )
            return np.asarray(X[:, self.support] @ self.coefficients)
        out = np.zeros(X.shape[0])
        if self.support.size == 0:
            return out
        step = max(1, _MEGABYTE // self.support.size)
        for i in range(0, X.shape[0], step):
            out[i : i + step] = self.kernel(X[i : i + step], self.samples) @ self.coefficients
        return out
