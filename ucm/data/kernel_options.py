"""The options of a kernel: its Gram matrix, or approximate features, for samples and for rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.first_pass import FEATURES, refuse_gathering
from ucm.data.gram import Gram, check_gram
from ucm.data.kernels import KERNEL_OPTIONS, MEGABYTE, Kernel, check_symmetric, kernel_of
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import COUNT, OptionSpec
from ucm.data.source import RowSource, gathered, mapped_features
from ucm.data.validation import as_double, bad_entry, refuse
from ucm.data.weights import SAMPLE_OPTIONS, untagged
from ucm.errors import DataError, ParameterError, brief, unknown_option

_SAMPLE = 2000  # least number of rows of a source that features are drawn from


def _is_transformer(approx: object) -> bool:
    """True if the option `kernel_approx` is a transformer, which holds its kernel itself."""
    return hasattr(approx, "transform") and not isinstance(approx, type)


_APPROX = OptionSpec(
    "how many samples the features are made of, or a transformer",
    lambda x: COUNT.holds(x) or _is_transformer(x),
)


def with_kernel(kernel: object, data: Data, options: dict) -> tuple[Data, Gram | None]:
    """Return the samples, or their approximate kernel features, and the Gram matrix of an exact kernel."""
    if is_linear(kernel, options):
        return data, None
    if options.get("kernel_approx") is not None:
        return data.in_features(features_of(kernel, data.X, data.weighing.samples, options)), None
    resolved, limit = _kernel(kernel, data.X, data.weighing.samples, options)
    return data, Gram(resolved, data.X, limit)


def row_features(model: str, rows: RowSource, kernel: object, options: dict) -> Any:
    """Return the transformer to approximate kernel features: as given, or fitted to some of the rows."""
    approx = options.get("kernel_approx")
    if approx is None:
        refuse_gathering(rows, f"{model} with a kernel", FEATURES)
    _check_approx(approx, kernel)
    if _is_transformer(approx) and _is_fitted(approx):
        return approx
    return features_of(kernel, *_some_of(rows, approx), options)


def features_of(kernel: object, X: Matrix, weights: Vec | None, options: dict) -> Any:
    """Return the fitted transformer that the option `kernel_approx` defines for the samples X."""
    from sklearn.base import clone

    approx = options["kernel_approx"]
    _check_approx(approx, kernel)
    if not _is_transformer(approx):
        return _nystroem(approx, _kernel(kernel, X, weights, options)[0], X)
    if _is_fitted(approx):
        return approx
    copy: Any = clone(approx)
    return copy.fit(X)


def is_linear(kernel: object, options: dict) -> bool:
    """Return True without a kernel and a transformer; raise `ParameterError` for options of a kernel then."""
    if kernel is not None:
        return False
    alone = {k: x for k, x in options.items() if k != "kernel_approx" or not _is_transformer(x)}
    of_kernel = ", ".join(word for word in alone if word in KERNEL_OPTIONS)
    if of_kernel:
        raise ParameterError(
            f"compile: unknown option {of_kernel} without a kernel; only a kernel takes "
            f'{", ".join(KERNEL_OPTIONS)}: add for example kernel="rbf"'
        )
    if alone:
        raise unknown_option("compile", alone, ["kernel", "solver", *SAMPLE_OPTIONS, *KERNEL_OPTIONS])
    return not options


def _check_approx(approx: object, kernel: object) -> None:
    """Raise `ParameterError` unless the option `kernel_approx` is valid beside `kernel`."""
    _APPROX.check("compile", "kernel_approx", approx, "write kernel_approx=500")
    if _is_transformer(approx) and kernel is not None:
        raise ParameterError(
            f"kernel_approx: expected a number of samples beside a kernel, got {brief(approx)}, which holds "
            "its kernel itself; leave kernel and its parameters out"
        )


def _kernel(kernel: object, X: Matrix, weights: Vec | None, options: dict) -> tuple[Kernel, int]:
    """Return the kernel of the options, validated on X, and the memory limit of its Gram matrix."""
    options = {name: x for name, x in options.items() if name != "kernel_approx"}
    resolved, limit = kernel_of(kernel, X, weights, **options)
    if resolved.name == "precomputed":
        check_gram(X)
    if resolved.function is not None:
        check_symmetric(resolved, X)
    return resolved, limit


# --- approximate features ----------------------------------------------------------------------
def _is_fitted(transformer: Any) -> bool:
    """True unless scikit-learn says that the transformer is not fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return False
    return True


def _nystroem(rank: int, kernel: Kernel, X: Matrix) -> Any:
    """Return scikit-learn's `Nystroem` of a kernel, fitted to at most `rank` of the samples X.

    Raises `ParameterError` unless the kernel is "rbf", "poly" or "sigmoid", and `DataError` if it is
    indefinite over the drawn samples.
    """
    from sklearn.kernel_approximation import Nystroem

    if kernel.name not in ("rbf", "poly", "sigmoid"):
        raise ParameterError(
            f'kernel_approx: expected kernel="rbf", "poly" or "sigmoid" beside {rank} samples, got {kernel}; '
            "leave kernel_approx out, or give it a transformer in place of the kernel"
        )
    parameters: dict = {"gamma": kernel.gamma}
    parameters |= {} if kernel.name == "rbf" else {"coef0": kernel.coef0}
    parameters |= {"degree": kernel.degree} if kernel.name == "poly" else {}
    count = min(int(rank), X.shape[0])
    drawn = Nystroem(kernel.name, **parameters, n_components=count, random_state=0).fit(X)
    if not kernel.definite:
        values = np.linalg.eigvalsh(kernel(drawn.components_, drawn.components_))
        if values[0] < -1e-8 * np.abs(values).max():
            raise DataError(
                f"kernel_approx: expected a positive semidefinite kernel, got the eigenvalue {values[0]:.3g} "
                f"over {values.size} samples, so there is no feature space; use a kernel such as rbf"
            )
    return drawn


@dataclass(frozen=True)
class FeatureFunction:
    """The function `f(x) = phi(x)'W` of the features phi(x) of a fitted transformer; W is (r,) or (r, k)."""

    transformer: Any
    coefficients: NDArray[np.float64]

    def scores(self, X: Matrix) -> NDArray[np.float64]:
        """Return f at the rows of X; raise `DataError` if the transformer does not take them."""
        W = self.coefficients
        out = np.empty((X.shape[0], *W.shape[1:]))
        step = max(1, MEGABYTE // W.shape[0])
        for i in range(0, X.shape[0], step):
            out[i : i + step] = mapped_features(self.transformer.transform, X[i : i + step]) @ W
        return out


def _some(X: Matrix, y: np.ndarray, step: int) -> tuple[Matrix, NDArray[np.intp], np.ndarray | None, int]:
    c = untagged(y)[1]
    rows = (np.arange(len(y)) if c is None else np.flatnonzero(c > 0))[::step]
    return as_double(X[rows]), rows, None if c is None else c[rows], len(y)


def _some_of(rows: RowSource, approx: Any) -> tuple[Matrix, Vec | None]:
    """Return rows of positive weight of every block, max(2000, 2 n) in all, and their weights or None."""
    rank = getattr(approx, "n_components", approx)
    step = max(1, rows.m // max(_SAMPLE, 2 * int(rank) if COUNT.holds(rank) else 0))
    tables, places, weights, sizes = zip(*rows.map_reduce(_some, step), strict=True)
    starts = np.cumsum([0, *sizes[:-1]])
    X, index = gathered([(T, s + i) for T, s, i in zip(tables, starts, places, strict=True)])
    c = None if weights[0] is None else np.concatenate(weights).astype(np.float64)
    bad = bad_entry(X)
    refuse(bad and bad._replace(row=int(index[bad.row])))
    return X, c
