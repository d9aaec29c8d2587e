"""`compile` and `solve`: from a declaration and data to a plan or a solution."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ucm.compiler.generalised_nu_svm import GeneralisedNuSVMLowering
from ucm.compiler.lowering import Lowering
from ucm.compiler.objective import HingeDualLowering, ObjectiveLowering
from ucm.compiler.out_of_core import InMemoryHullsLowering, in_blocks, lower_rows, statistics_of_rows
from ucm.compiler.plan import Plan
from ucm.compiler.recover import ignores_origin
from ucm.compiler.robust import DistanceLowering, minimum_norm
from ucm.compiler.route import check_asked, refusal, requested_solvers
from ucm.data.bound_data import Data, bind, is_stored
from ucm.data.deadline import time_of
from ucm.data.first_pass import FEATURES, refuse_gathering
from ucm.data.gram import Gram, check_gram
from ucm.data.kernel_features import check_approx, fitted, is_fitted, is_transformer, nystroem, some_of
from ucm.data.kernels import KERNEL_OPTIONS, Kernel, check_symmetric, kernel_of
from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import options_of
from ucm.data.readers import open_rows
from ucm.data.source import RowSource, signed_rows
from ucm.data.weights import (
    SAMPLE_OPTIONS,
    ClassWeight,
    signed_factors,
)
from ucm.errors import (
    CompositionError,
    EmptySetError,
    ParameterError,
    SolverError,
    unknown_option,
)
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor, check_time_limit, limit_from
from ucm.forms.nearest_point import NearestPoint
from ucm.forms.objective import Composite, weighed
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.forms.sphere import UnitNorm
from ucm.language.contracts import UncertaintySet
from ucm.language.losses import Hinge
from ucm.language.objective import Objective, split_scalar
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.quadratic import evaluated
from ucm.language.robust import RobustMargin, as_model, by_lam
from ucm.language.sets.intersection import Intersection
from ucm.language.statistics.affine import MatrixNode
from ucm.language.statistics.samples import SampleNode
from ucm.ranges.generalised_nu_svm import radius_from_lambda
from ucm.ranges.relative_sizes import with_numbers
from ucm.solvers import SMO

_MANY = 200_000  # least number of samples in memory that are read block by block
_WIDE = 2e8  # largest number of entries of a basis of the span of the samples
_COORDINATES = 1000  # largest number of samples for a factor of the Gram matrix under "auto"


def compile(
    model: UncertaintySet | RobustMargin | Objective,
    X: object,
    y: object = None,
    *,
    kernel: str | Callable[..., object] | None = None,
    solver: str | Solver = "auto",
    class_weight: ClassWeight = None,
    sample_weight: object = None,
    subgroup: object = None,
    pos_label: object = None,
    **kernel_params: object,
) -> Plan:
    """Bind a declaration to data, lower it to a standard form and choose a solver: return the `Plan`.

    Parameters
    ----------
    model
        Uncertainty set, RobustMargin, or Objective (`loss + lam * penalty`).
    X : (m, n) array, data frame or sparse matrix, or an argument of `ucm.open_rows`
        The samples, one in each row; float64 is not copied, nor is float32 for hulls of many samples, which
        are solved by blocks of rows. Files are read block by block.
    y : (m,) numbers or strings, two labels
        The class of every sample; of a file also the name of the label column.
    kernel : None, "linear", "poly", "rbf", "sigmoid", "precomputed" (X holds k(x_i, x_j)) or a
        callable of two tables of samples
    solver : "auto", a name, or an instance such as `ucm.solvers.APG(stop="paper")`
        "auto" takes the first solver of the route table that fits.
    class_weight : (factor of class +1, factor of class -1), {label: factor}, "balanced" or None
        Factors of the sample weights of a class, "balanced" m / (2 m_o) for the m_o samples of a class; m in
        `nu` does not change.
    sample_weight : (m,) array, not negative
        Multiplicities of the samples in losses, caps, balls of weights, means and covariances; m is their
        sum. Samples of weight 0 are left out. For rows read block by block an argument of `ucm.open_rows`.
    subgroup : (m,) array of strings or numbers, optional
        The group of every sample, for `pos.group("A")`; for such rows an argument of `ucm.open_rows`.
    pos_label : optional
        The label of class +1, `pos`; by default the larger label. Rows read block by block without it have
        the labels -1 and +1.
    **kernel_params
        gamma, degree, coef0 as in `sklearn.svm.SVC`; cache_size, the megabytes for rows of the Gram matrix (a
        larger matrix is never formed whole, see `ucm.data.kernels.kernel_of`); kernel_approx, the number of
        samples of scikit-learn's `Nystroem` for this kernel, or without a kernel a transformer such as
        `RBFSampler`, fitted or not. Model and certificate are then of its features.

    Raises
    ------
    DataError
        X, y or sample_weight cannot be used: NaN, one class, lengths that differ, ...; a group has no
        samples, or there are no groups.
    CompositionError
        The declaration does not fit the data (dimensions), or a domain has no meaning for weights.
    EmptySetError
        The set has no point for these parameters; the message names the admissible range.
    ParameterError
        An unknown option.
    SolverError
        The named solver does not take this model.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> plan = ucm.compile(ucm.models.nu_svm(0.3), X[50:], 2 * (y[50:] == 2) - 1)
    >>> plan.solve().status
    'optimal'
    """
    of_samples = {
        "class_weight": class_weight, "sample_weight": sample_weight, "subgroup": subgroup,
        "pos_label": pos_label,
    }  # fmt: skip
    declared = model if isinstance(model, Objective) else as_model(model, "compile")
    check_asked(solver)
    began = time.perf_counter()
    data, gram = bound(declared, X, y, kernel, of_samples, kernel_params)
    if kernel is None and solver == "auto" and data.m >= _MANY and in_blocks(declared, data):
        return Plan.of((InMemoryHullsLowering(declared, data),), began)  # type: ignore[arg-type]
    return plan_of(declared, data, gram, solver, began)


def bound(
    model: RobustMargin | Objective,
    X: object,
    y: object,
    kernel: object,
    of_samples: dict,
    of_kernel: dict,
) -> tuple[Data, Gram | None]:
    """Return the samples, bound in memory or out of core, and the Gram matrix; None without an exact kernel.

    `of_samples` and `of_kernel` are the options of `compile` for the samples and for the kernel.
    """
    if not is_stored(X):
        square = isinstance(kernel, str) and kernel == "precomputed"
        return with_kernel(kernel, bind(X, y, **of_samples, square=square), of_kernel)
    tags = {name: of_samples.get(name) for name in ("sample_weight", "subgroup")}
    rows, labels = signed_rows(open_rows(X, y, **tags), of_samples.get("pos_label"))
    weight = of_samples.get("class_weight")
    factors = signed_factors(weight, labels=labels)
    weight = weight if isinstance(weight, str) else factors
    return bound_rows(model, rows, weight, kernel, of_kernel), None


def bound_rows(
    model: RobustMargin | Objective,
    rows: RowSource,
    class_weight: ClassWeight,
    kernel: object,
    options: dict,
) -> Data:
    """Return out-of-core rows as bound data: means and covariances, or counts and a sample, of one pass.

    An approximate kernel takes one more pass, which draws samples. A model without a route over rows, and an
    exact kernel, raise `DataError`.
    """
    if is_linear(kernel, options):
        return statistics_of_rows(model, rows, class_weight)
    features = row_features(repr(model), rows, kernel, options)
    if isinstance(model, RobustMargin):
        check_features(model.set)
    data = statistics_of_rows(model, rows.mapped(features), class_weight)
    data.approx = features
    return data


def row_features(model: str, rows: RowSource, kernel: object, options: dict) -> Any:
    """Return the transformer to approximate kernel features: as given, or fitted to some of the rows."""
    approx = options.get("kernel_approx")
    if approx is None:
        refuse_gathering(rows, f"{model} with a kernel", FEATURES)
    check_approx(approx, kernel)
    if is_transformer(approx) and is_fitted(approx):
        return approx
    return features_of(kernel, *some_of(rows, approx), options)


def is_linear(kernel: object, options: dict) -> bool:
    """Return True without a kernel and a transformer; raise `ParameterError` for options of a kernel then."""
    if kernel is None:
        check_no_options({k: x for k, x in options.items() if k != "kernel_approx" or not is_transformer(x)})
    return kernel is None and not options


def with_kernel(kernel: object, data: Data, options: dict) -> tuple[Data, Gram | None]:
    """Return the samples, or their approximate kernel features, and the Gram matrix of an exact kernel.

    The entries of the Gram matrix are computed on demand; there is none without a kernel.
    """
    if is_linear(kernel, options):
        return data, None
    if options.get("kernel_approx") is not None:
        return data.in_features(features_of(kernel, data.X, data.weighing.samples, options)), None
    resolved, limit = _kernel(kernel, data.X, data.weighing.samples, options)
    return data, Gram(resolved, data.X, limit)


def features_of(kernel: object, X: Matrix, weights: Vec | None, options: dict) -> Any:
    """Return the fitted transformer that the option `kernel_approx` defines for the samples X."""
    approx = options["kernel_approx"]
    check_approx(approx, kernel)
    if is_transformer(approx):
        return fitted(approx, X)
    return nystroem(approx, _kernel(kernel, X, weights, options)[0], X)


def _kernel(kernel: object, X: Matrix, weights: Vec | None, options: dict) -> tuple[Kernel, int]:
    """Return the kernel of the options, validated on X, and the memory limit of its Gram matrix.

    A given matrix, or a callable, that is not symmetric raises `DataError`.
    """
    options = {name: x for name, x in options.items() if name != "kernel_approx"}
    resolved, limit = kernel_of(kernel, X, weights, **options)
    if resolved.name == "precomputed":
        check_gram(X)
    if resolved.function is not None:
        check_symmetric(resolved, X)
    return resolved, limit


def check_no_options(options: dict) -> None:
    """Raise `ParameterError` if an option of a kernel, or an unknown option, is given without a kernel."""
    if options:
        of_kernel = ", ".join(word for word in options if word in KERNEL_OPTIONS)
        if of_kernel:
            raise ParameterError(
                f"compile: unknown option {of_kernel} without a kernel; only a kernel takes "
                f'{", ".join(KERNEL_OPTIONS)}: add for example kernel="rbf"'
            )
        raise unknown_option("compile", options, [*options_of(compile), *KERNEL_OPTIONS])


def check_features(declared: UncertaintySet | Objective) -> None:
    """Raise `CompositionError` if a declaration uses feature coordinates, which a kernel hides."""
    node = declared.in_features()
    if node is not None:
        raise CompositionError(
            f"kernel: {node!r} is written in the features, and a kernel replaces these by its own feature "
            "space; use sets made of samples (hulls, ellipsoids of means and covariances, Ball(0, r)), L2() "
            "or Norm(2), derive a class of your own from ucm.extend.RotationInvariant, or use an "
            "approximation of the kernel, kernel_approx=500"
        )


def in_its_space(data: Data, gram: Gram | None) -> Data:
    """Return the samples in coordinates of the feature space of a nonlinear kernel; otherwise unchanged."""
    return data if gram is None or gram.kernel.name == "linear" else data.in_feature_space(gram)


def plan_of(
    model: RobustMargin | Objective,
    data: Data,
    gram: Gram | None,
    solver: str | Solver,
    began: float | None = None,
) -> Plan:
    """Return the plan of a model for bound data: choose its lowering and its solver.

    `began` is the start of the compilation by `time.perf_counter`; None for now.
    """
    check_asked(solver)
    began = time.perf_counter() if began is None else began
    if data.source is not None:
        lowering = lower_rows(model, data, solver) or _lower_set(model, data, None, solver)  # type: ignore[arg-type]
        return Plan.of((lowering,), began)
    declared_values = {}
    for samples in model.nodes_of_type(SampleNode):
        samples.rows(data)  # refuses a group without samples before any computation
    with data.overflow_guard():
        if model.relative_names():
            model = with_numbers(model, in_its_space(data, gram))
        if isinstance(model, Objective):
            return Plan.of(_lower_objective(model, data, gram, solver), began, model.params())
        if by_lam(model):
            declared_values, problem = model.params(), radius_from_lambda(model, in_its_space(data, gram))
            model = problem.model
            if not problem.active:
                return Plan.of((GeneralisedNuSVMLowering(problem, solver),), began, declared_values)
        return Plan.of((_lower_set(model, data, gram, solver),), began, declared_values)


def _lower_objective(
    model: Objective, data: Data, gram: Gram | None, solver: str | Solver
) -> tuple[Lowering, ...]:
    """Return the lowerings of `loss + penalty`: the dual if the model is a pSVM, and the problem in w.

    With a kernel, w has the coordinates of the span of the samples.
    """
    # a kernel hides the features that penalties use
    hidden = gram is not None and gram.kernel.name != "linear"
    if not hidden and model.nodes_of_type(MatrixNode):
        model = replace(model, penalty=evaluated(model.penalty, data))
    terms = None if hidden and model.in_features() is not None else _hinge_terms(model, data)
    pairs = () if terms is None else (HingeDualLowering(model, terms, data, gram, solver),)
    if gram is None or not hidden:
        rules = HingeDualLowering.bias_rules if pairs else ("auto",)
        return (*pairs, ObjectiveLowering(model, data, solver, rules))
    if not pairs:
        check_features(model)
        return (ObjectiveLowering(model, data.in_feature_space(gram), solver),)
    if requested_solvers(solver, Composite):
        name = solver if isinstance(solver, str) else solver.name
        raise SolverError(
            f"solver {name!r} does not take this model: it works on features, and a kernel hides "
            'them; use solver="auto"'
        )
    return pairs


def _hinge_terms(model: Objective, data: Data) -> tuple[float, float, float, Vec] | None:
    """Return (p, C, lam, sample weights) of `C * Hinge(p) + lam * L2()`; None for another model, or weight 0.

    Two such losses, one for each class, count as one.
    """
    convex, concave = model.loss.split()
    added, subtracted = model.penalty.split()
    losses, weights = weighed(convex, data)
    C, loss = split_scalar(losses[0])
    lam = CombinedPenalty(added).square
    if len(losses) > 1 or concave or not isinstance(loss, Hinge) or lam is None or subtracted:
        return None
    c = data.factors if weights[0] is None else weights[0]
    return (loss.p, C, lam, c) if c.all() else None


def _lower_set(model: RobustMargin, data: Data, gram: Gram | None, solver: str | Solver) -> DistanceLowering:
    """Return the lowering of a set over features, coordinates of the samples' span, or inner products."""
    if data.approx is not None or gram is not None:
        check_features(model.set)
    model.set.dimension(data.n)
    beyond = "auto" if solver == "auto" else solver if requested_solvers(solver, UnitNorm) else None
    requested = solver if beyond is None or requested_solvers(solver, MinNorm) else "auto"
    if (gram is None or gram.kernel.name == "linear") and ignores_origin(model.set, data.n):
        data = data.centred
        gram = gram if gram is None or not data.origin.any() else Gram(gram.kernel, data.X, gram.limit)
    if gram is not None:
        if model.norm != 2.0:
            raise CompositionError(
                f"kernel: expected the Euclidean norm only, as of inner products, got norm={model.norm:g}; "
                "use norm=2, or an approximation of the kernel, kernel_approx=500"
            )
        rows = _by_rows(model, data, gram, requested)
        data = data.in_gram_space(gram) if rows else data.in_feature_space(gram)
    elif solver == "auto" and not isinstance(data.table, np.ndarray) and _in_span(model, data):
        data = data.in_feature_space(Gram(Kernel("linear"), data.X))
    why = model.set.infeasibility_reason(data)
    if why is not None:
        raise EmptySetError(why)
    return DistanceLowering(model, data, requested, beyond)


def _in_span(model: RobustMargin, data: Data) -> bool:
    """True if a set is solved in the span of wide sparse samples: 10 times faster and more.

    The set has a covariance or an intersection, whose dense vectors dominate the cost.
    """
    few = sparse.issparse(data.X) and data.m <= _COORDINATES
    if not few or data.m * data.n <= _WIDE or model.norm != 2.0 or model.set.in_features():
        return False
    return bool(model.nodes_of_type(MatrixNode) or model.nodes_of_type(Intersection))


def _by_rows(model: RobustMargin, data: Data, gram: Gram, requested: str | Solver) -> bool:
    """True if a kernel model is solved from rows of the Gram matrix, without coordinates from a factor.

    Under "auto" a kernel that is positive semidefinite by its formula has this solver; any other kernel needs
    the factor of the Gram matrix as a proof, unless the factor costs too much.
    """
    if requested == "auto" and gram.fits and not gram.kernel.definite and data.m <= _COORDINATES:
        return False
    candidates = [SMO()] if requested == "auto" else requested_solvers(requested, MinNorm)
    space = data.in_gram_space(gram)
    if not any(isinstance(s, NearestPoint) for s in candidates) or model.set.infeasibility_reason(space):
        return False
    return any(refusal(s, minimum_norm(model, space)) is None for s in candidates)


def solve(
    model: UncertaintySet | RobustMargin | Objective,
    X: object,
    y: object = None,
    *,
    kernel: str | Callable[..., object] | None = None,
    solver: str | Solver = "auto",
    time_limit: float | None = None,
    **options: Any,
) -> Solution:
    """Compile a model for data and solve the plan: return the `Solution`.

    Parameters
    ----------
    model, X, y, kernel, solver
        As in `ucm.compile`.
    time_limit : float, optional
        Seconds for both. At the limit a compilation raises SolverError, as there is no problem to certify an
        answer of, and a solve ends with the interval that is proven by then.
    **options
        Options of `Plan.solve` and of the kernel; class_weight, sample_weight, subgroup and pos_label.

    Raises
    ------
    ParameterError, DataError, CompositionError, EmptySetError, SolverError
        As `compile` and `Plan.solve`; an unknown option, before any computation.

    Examples
    --------
    >>> import ucm
    >>> sol = ucm.solve(ucm.models.mm_fda(0.1), [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> round(sol.objective, 4)
    -2.9293
    """
    of_compile = (*SAMPLE_OPTIONS, *KERNEL_OPTIONS)
    names = [name for name in of_compile if name in options]
    to_compile = {name: options.pop(name) for name in names}
    solve_options = options_of(Plan.solve)
    if any(name not in solve_options for name in options):
        unknown = [name for name in options if name not in solve_options]
        raise unknown_option("solve", unknown, [*options_of(solve), *of_compile, *solve_options])
    check_time_limit(time_limit, "solve")
    began = time.perf_counter()
    limit = limit_from(time_limit, began)
    with time_of(Monitor(time_limit=limit)):
        plan = compile(model, X, y, kernel=kernel, solver=solver, **to_compile)
    with plan.data.unchecked():  # the checksum was computed above
        return plan.solve(time_limit=limit, **options)
