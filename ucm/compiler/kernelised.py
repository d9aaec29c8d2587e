"""Behind a kernel: which sets have a meaning there, and whether inner products do."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from ucm.compiler.robust import minimum_norm
from ucm.compiler.route import named, refusal
from ucm.data.approx import KernelFeatures, approximation
from ucm.data.bound import Data
from ucm.data.gram import Gram, check_gram
from ucm.data.kernels import Kernel, check_symmetric, kernel_of
from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.forms.distance import MinNorm
from ucm.forms.nearest import NearestPoint
from ucm.forms.solver import Solver
from ucm.language.robust import RobustMargin
from ucm.language.sets.intersection import Intersection
from ucm.language.statistics.matrices import MatrixNode
from ucm.solvers import ClipMDM

__all__ = ["by_rows", "check_kernel", "check_sets", "features_of", "gram_of", "in_span"]

_WIDE = 2e8  # numbers in a basis of the span of the samples
_COORDINATES = 1000  # samples up to which a factor of the Gram matrix is worth its cost


def gram_of(kernel: Any, data: Data, options: dict[str, Any]) -> Gram:
    """The Gram matrix that the options of `compile` ask for, nothing of it computed yet.

    Raises
    ------
    ParameterError
        An unknown option.
    DataError
        A given matrix, or a callable, is not symmetric.
    """
    found, limit = _kernel(kernel, data.X, data.weighing.samples, options)
    return Gram(found, data.X, limit)


def _kernel(
    kernel: Any, X: Any, weights: Vec | None, options: dict[str, Any]
) -> tuple[Kernel, int]:
    """The kernel and the memory limit that the options ask for; raises as `gram_of`."""
    found, limit = kernel_of(kernel, X, weights, **options)
    if found.name == "precomputed":
        check_gram(X)
    if found.function is not None:
        check_symmetric(found, X)
    return found, limit


def features_of(
    kernel: Any, X: Any, weights: Vec | None, options: dict[str, Any]
) -> KernelFeatures:
    """The features in place of a kernel that `kernel_approx` among the options asks for, for the samples X;
    raises as `gram_of` and `ucm.data.approx.approximation`."""
    rest = {name: x for name, x in options.items() if name != "kernel_approx"}
    found, _ = _kernel(kernel, X, weights, rest)
    return approximation(options["kernel_approx"], found, X)


def check_kernel(model: RobustMargin) -> None:
    """Refuse what has no meaning in the feature space of a kernel.

    Raises
    ------
    CompositionError
        A norm other than 2, or a set written in the features themselves.
    """
    check_sets(model)
    if model.norm != 2.0:
        raise CompositionError(
            f"kernel: it gives inner products, hence the Euclidean norm only; got norm={model.norm:g}; "
            "use norm=2, or features in place of the kernel, kernel_approx=500 (Nystroem)"
        )


def check_sets(model: RobustMargin) -> None:
    """Raises `CompositionError` where a set is written in the features, which a kernel, or what stands for
    one, replaces."""
    node = model.set.in_features()
    if node is not None:
        raise CompositionError(
            f"kernel: {node!r} is written in the features, and a kernel replaces these by its own "
            "feature space; use sets made of samples (hulls, ellipsoids of means and covariances; a class "
            "of your own says that it is one by the base class ucm.CoordinateFree), or map the features "
            "first with sklearn.kernel_approximation.Nystroem"
        )


def in_span(model: RobustMargin, data: Data) -> Gram | None:
    """The linear kernel, where a model of covariances or intersections has so many sparse features that a
    vector of them, let alone a basis of the span of the samples, is what takes the time."""
    few = sparse.issparse(data.X) and data.m <= _COORDINATES
    if not few or data.m * data.n <= _WIDE or model.norm != 2.0 or model.set.in_features():
        return None
    known = any(isinstance(node, MatrixNode | Intersection) for node in model.walk())
    return gram_of("linear", data, {}) if known else None


def by_rows(model: RobustMargin, data: Data, gram: Gram, asked: str | Solver[Any]) -> bool:
    """Whether rows of the Gram matrix, as needed, are what a solver takes; else it wants coordinates in
    the feature space.

    Under "auto" that is every kernel with a feature space by its form; for others the factor of the
    Gram matrix tells, but where it costs too much.
    """
    if asked == "auto":
        if gram.fits and not gram.kernel.definite and data.m <= _COORDINATES:
            return False
        wanted: list[Solver[Any]] = [ClipMDM()]
    else:
        wanted = named(asked, MinNorm)
    space = data.in_gram_space(gram)
    if not any(isinstance(s, NearestPoint) for s in wanted) or model.set.emptiness(space):
        return False
    return any(refusal(s, minimum_norm(model, space)) is None for s in wanted)
