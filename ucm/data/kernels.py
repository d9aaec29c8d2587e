"""Kernels by the names and parameters of scikit-learn, as callables, or as precomputed matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm import native
from ucm.data.linear_map import Matrix, Vec
from ucm.data.moments import row_norms
from ucm.data.options import POSITIVE, OptionSpec, within
from ucm.errors import DataError, ParameterError, brief, unknown_option

KernelName = Literal["linear", "poly", "rbf", "sigmoid", "precomputed"]
KERNELS = get_args(KernelName)
KERNEL_OPTIONS = ("gamma", "degree", "coef0", "cache_size", "kernel_approx")
MEGABYTE = 1 << 20
_LARGE = 1e300  # an integer above it may be no float
_DEFAULTS: dict = {"gamma": "scale", "degree": 3, "coef0": 0.0, "cache_size": 200.0}
_WANTED = {
    "gamma": OptionSpec(
        '"scale", "auto" or a positive number',
        lambda x: x in ("scale", "auto") if isinstance(x, str) else POSITIVE.holds(x) and x < _LARGE,
    ),
    "degree": within("a whole number from 0 on", lambda x: 0 <= x < _LARGE and x % 1 == 0),
    "coef0": within("a finite number", lambda x: abs(x) < _LARGE),
    "cache_size": POSITIVE,  # megabytes
}


@dataclass(frozen=True)
class Kernel:
    """A kernel with a name of scikit-learn, or a callable: `kernel(A, B)` is the matrix of k(a, b).

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
    >>> from ucm.data.kernels import Kernel
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
        """True if the name and parameters guarantee a positive semidefinite kernel."""
        return self.name in ("linear", "rbf") or (
            self.name == "poly" and self.coef0 >= 0.0 and self.degree == int(self.degree)
        )

    def __call__(self, A: Matrix, B: Matrix) -> NDArray[np.float64]:
        if self.function is not None:
            return self._called(A, B)
        if self.name == "precomputed":
            raise DataError('kernel="precomputed": there are no features to compare; pass its rows')
        if self.name == "rbf" and not (sparse.issparse(A) or sparse.issparse(B)):
            centre = B.mean(axis=0)  # distances stay, and their squares lose less to rounding
            A, B = A - centre, B - centre
        G = A @ B.T
        G = G.toarray() if sparse.issparse(G) else np.asarray(G)
        if self.name == "rbf":
            G = np.ascontiguousarray(G)
            native.library.rbf_values(*G.shape, G, row_norms(A) ** 2, row_norms(B) ** 2, self.gamma)
            return G
        if self.name == "linear":
            return G
        G *= self.gamma
        G += self.coef0
        return np.tanh(G, out=G) if self.name == "sigmoid" else np.power(G, self.degree, out=G)

    def _called(self, A: Matrix, B: Matrix) -> NDArray[np.float64]:
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

    def diagonal(self, A: Matrix) -> Vec:
        """Return k(a, a) for every row a of A."""
        if self.name == "rbf":
            return np.ones(A.shape[0])
        if self.function is not None:
            step = 256
            parts = [np.diagonal(self(A[i : i + step], A[i : i + step])) for i in range(0, A.shape[0], step)]
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


def check_symmetric(kernel: Kernel, X: Matrix) -> None:
    """Raise `DataError` if k(a, b) and k(b, a) differ on a grid of up to 32 by 32 samples."""
    some = np.linspace(0, X.shape[0] - 1, min(64, X.shape[0])).astype(np.intp)
    A, B = X[some[::2]], X[some[1::2]]
    K = kernel(A, B)
    off = float(np.abs(K - kernel(B, A).T).max(initial=0.0))
    if off > 1e-8 * float(np.abs(K).max(initial=0.0)):
        raise DataError(
            f"kernel: the callable is not symmetric, k(a, b) and k(b, a) differ by {off:.3g}; a kernel is: "
            "use (k(a, b) + k(b, a)) / 2 if the difference is rounding"
        )


def _variance(X: Matrix, weights: Vec | None) -> float:
    """Return the variance over all entries of X, weighted by samples if `weights` is given."""
    c = np.ones(X.shape[0]) if weights is None else weights
    count = float(c.sum()) * X.shape[1]
    mean = float(np.sum(c @ X)) / count
    if not sparse.issparse(X):
        return float(np.sum(c @ (X - mean) ** 2)) / count
    return float(np.sum(c @ X.multiply(X))) / count - mean * mean


def kernel_of(kernel: object, X: Matrix, weights: Vec | None = None, /, **options: Any) -> tuple[Kernel, int]:
    """Return the `Kernel` for the kernel options of `compile`, and the memory limit in bytes.

    Raises `ParameterError` for an unknown kernel or option, or a number out of range.

    kernel : a name of `Kernel`, or a callable
    X : (m, n) samples, which gamma="scale" and "auto" refer to
    weights : (m,) of the samples in var(X); None for equal weights
    gamma : "scale" for 1 / (n var(X)), "auto" for 1 / n, or a positive number; default "scale"
    degree, coef0 : of the polynomial and the sigmoid kernel; default 3 and 0
    cache_size : megabytes for rows of the Gram matrix, and the size above which it is never formed
        whole; default 200
    """
    unknown = sorted(set(options) - set(KERNEL_OPTIONS))
    if unknown:
        raise unknown_option("kernel", unknown, KERNEL_OPTIONS)
    values = _DEFAULTS | options
    for name, spec in _WANTED.items():
        spec.check("kernel", name, values[name], f"leave it out for {_DEFAULTS[name]!r}")
    limit, gamma = int(values["cache_size"] * MEGABYTE), values["gamma"]
    if isinstance(gamma, str):
        spread = 1.0
        if gamma == "scale":
            with np.errstate(over="ignore", invalid="ignore"):
                spread = _variance(X, weights)
            if not spread < np.inf:
                raise DataError(
                    f"X: expected entries with a variance, for gamma={gamma!r}, got entries up to "
                    f"{float(abs(X).max()):.3g}, whose squares overflow; scale the features"
                )
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0.0 else 1.0
    gamma, degree, coef0 = float(gamma), int(values["degree"]), float(values["coef0"])
    if callable(kernel):
        return Kernel("callable", gamma, degree, coef0, kernel), limit
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ParameterError(
            f"kernel: expected None, a callable or one of {', '.join(KERNELS)}; got {brief(kernel)}"
        )
    return Kernel(kernel, gamma, degree, coef0), limit
