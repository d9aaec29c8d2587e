"""The options of a kernel: its Gram matrix, or approximate features, for samples and for rows."""

from __future__ import annotations

from typing import Any

from ucm.data.bound_data import Data
from ucm.data.first_pass import FEATURES, refuse_gathering
from ucm.data.gram import Gram, check_gram
from ucm.data.kernel_features import check_approx, fitted, is_fitted, is_transformer, nystroem, some_of
from ucm.data.kernels import KERNEL_OPTIONS, Kernel, check_symmetric, kernel_of
from ucm.data.linear_map import Matrix, Vec
from ucm.data.source import RowSource
from ucm.data.weights import SAMPLE_OPTIONS
from ucm.errors import ParameterError, unknown_option


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
    check_approx(approx, kernel)
    if is_transformer(approx) and is_fitted(approx):
        return approx
    return features_of(kernel, *some_of(rows, approx), options)


def features_of(kernel: object, X: Matrix, weights: Vec | None, options: dict) -> Any:
    """Return the fitted transformer that the option `kernel_approx` defines for the samples X."""
    approx = options["kernel_approx"]
    check_approx(approx, kernel)
    if is_transformer(approx):
        return fitted(approx, X)
    return nystroem(approx, _kernel(kernel, X, weights, options)[0], X)


def is_linear(kernel: object, options: dict) -> bool:
    """Return True without a kernel and a transformer; raise `ParameterError` for options of a kernel then."""
    if kernel is None:
        _check_no_options({k: x for k, x in options.items() if k != "kernel_approx" or not is_transformer(x)})
    return kernel is None and not options


def _check_no_options(options: dict) -> None:
    """Raise `ParameterError` if an option of a kernel, or an unknown option, is given without a kernel."""
    if options:
        of_kernel = ", ".join(word for word in options if word in KERNEL_OPTIONS)
        if of_kernel:
            raise ParameterError(
                f"compile: unknown option {of_kernel} without a kernel; only a kernel takes "
                f'{", ".join(KERNEL_OPTIONS)}: add for example kernel="rbf"'
            )
        raise unknown_option("compile", options, ["kernel", "solver", *SAMPLE_OPTIONS, *KERNEL_OPTIONS])


def _kernel(kernel: object, X: Matrix, weights: Vec | None, options: dict) -> tuple[Kernel, int]:
    """Return the kernel of the options, validated on X, and the memory limit of its Gram matrix."""
    options = {name: x for name, x in options.items() if name != "kernel_approx"}
    resolved, limit = kernel_of(kernel, X, weights, **options)
    if resolved.name == "precomputed":
        check_gram(X)
    if resolved.function is not None:
        check_symmetric(resolved, X)
    return resolved, limit
