"""Validation of the options of the classifier, and the options of `compile` and `solve`."""

from __future__ import annotations

from typing import Any

from ucm.compiler.compile import check_no_options, features_of, row_features
from ucm.data.gram import check_gram
from ucm.data.kernels import Kernel, kernel_of
from ucm.data.linear_map import Vec
from ucm.data.options import one_of, optional
from ucm.data.source import RowSource
from ucm.forms.monitor import check_time_limit, limit_from

_OF_KERNELS = ("gamma", "degree", "coef0")


def check_options(classifier: Any) -> None:
    """Refuse invalid values of `time_limit`, `read_as`, `multi_class` and `decision_function_shape`."""
    check_time_limit(classifier.time_limit, "Classifier")
    for name, wanted, default in (
        ("read_as", optional(one_of("pos", "neg")), None),
        ("multi_class", one_of("ovo", "ovr"), "ovo"),
        ("decision_function_shape", one_of("ovr", "ovo"), "ovr"),
    ):
        remedy = f"leave it out for {default!r}"
        wanted.check("Classifier", name, getattr(classifier, name), remedy)


def kernel_options(classifier: Any, X: Any, weights: Vec | None) -> tuple[Kernel | None, dict[str, Any]]:
    """Return the kernel or None, and the kernel options of `compile`.

    gamma and approximate features come from all samples of the fit. Without a kernel, or with approximate
    features, w is explicit and the kernel is None.
    """
    linear = classifier.kernel is None or classifier.kernel == "linear"
    if linear and classifier.kernel_approx is None:
        return None, {"kernel": None}
    if classifier.kernel_approx is not None:
        arguments = {name: getattr(classifier, name) for name in (*_OF_KERNELS, "kernel_approx")}
        if classifier.kernel is None:
            check_no_options({"kernel_approx": classifier.kernel_approx})
        if isinstance(X, RowSource):
            features = row_features(type(classifier).__name__, X, classifier.kernel, arguments)
        else:
            features = features_of(classifier.kernel, X, weights, arguments)
        return None, {"kernel": classifier.kernel, "kernel_approx": features}
    options = {name: getattr(classifier, name) for name in _OF_KERNELS}
    kernel, _ = kernel_of(classifier.kernel, X, weights, **options)
    if kernel.name == "precomputed":
        check_gram(X)
    settled = {name: getattr(kernel, name) for name in _OF_KERNELS}
    return kernel, {"kernel": classifier.kernel, **settled}


def solve_options(classifier: Any, began: float) -> dict[str, Any]:
    """Return the options of `Plan.solve` for a fit that began at this time."""
    return {
        "tol": classifier.tol,
        "max_iter": classifier.max_iter,
        "time_limit": limit_from(classifier.time_limit, began),
        "verbose": bool(classifier.verbose),
        "bias_rule": classifier.bias_rule,
    }
