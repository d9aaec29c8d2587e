"""`compile` and `solve`: from a declaration and data to a plan or a solution."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ucm.compiler.column_generation import ColumnGenerationLowering
from ucm.compiler.generalised_nu_svm import GeneralisedNuSVMLowering
from ucm.compiler.lowering import (
    BoundModel,
    Lowering,
    check_features,
    check_statistics,
    in_its_space,
)
from ucm.compiler.objective import BestSubsetLowering, FlipsLowering, ObjectiveLowering
from ucm.compiler.out_of_core import (
    OutOfCoreHullsLowering,
    OutOfCoreLossesLowering,
    statistics_of_rows,
)
from ucm.compiler.plan import Plan
from ucm.compiler.robust import DistanceLowering
from ucm.compiler.route import check_asked
from ucm.data.bound_data import Data, bind, is_stored
from ucm.data.gram import Gram
from ucm.data.kernel_options import is_linear, row_features, with_kernel
from ucm.data.kernels import KERNEL_OPTIONS, KernelName
from ucm.data.options import options_of
from ucm.data.readers import open_rows
from ucm.data.source import RowSource, signed_rows
from ucm.data.weights import SAMPLE_OPTIONS, ClassWeight, signed_factors
from ucm.errors import unknown_option
from ucm.forms.monitor import Monitor, check_time_limit, limit_from, time_of
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.language.contracts import UncertaintySet
from ucm.language.node import as_declared
from ucm.language.objective import Objective
from ucm.language.per_sample import PerSample, check_quantities
from ucm.language.robust import RobustMargin
from ucm.language.statistics.samples import Samples, kinds_of
from ucm.ranges.relative_sizes import with_numbers


def compile(
    model: UncertaintySet | RobustMargin | Objective,
    X: object,
    y: object = None,
    *,
    kernel: KernelName | Callable[..., object] | None = None,
    solver: str | Solver = "auto",
    class_weight: ClassWeight = None,
    sample_weight: object = None,
    subgroup: object = None,
    pos_label: object = None,
    per_sample: object = None,
    **kernel_params: object,
) -> Plan:
    """Bind a declaration to data, lower it to a standard form and choose a solver: return the `Plan`.

    Parameters
    ----------
    model
        Uncertainty set, RobustMargin, or Objective (`loss + lam * penalty`).
    X : (m, n) array, data frame or sparse matrix, or an argument of `ucm.open_rows`
        The samples, one in each row; an array of float64 in C order is not copied. Files are read block by
        block.
    y : (m,) numbers or strings, two labels
        The class of every sample; of a file also the name of the label column. All may be +1, or all -1,
        for a set of this class and for a loss without a free intercept.
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
    per_sample : {name: (m,) array}, optional
        The values of the quantities `ucm.per_sample(name)` of the model.
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
        "pos_label": pos_label, "per_sample": per_sample,
    }  # fmt: skip
    declared = as_declared(model, "compile")
    check_asked(solver)
    began = time.perf_counter()
    data, gram = bound(declared, X, y, kernel, of_samples, kernel_params)
    return plan_of(declared, data, gram, solver, began)


def bound(
    model: RobustMargin | Objective, X: object, y: object, kernel: object, of_samples: dict, of_kernel: dict
) -> tuple[Data, Gram | None]:
    """Return the samples, bound in memory or out of core, and the Gram matrix of an exact kernel or None."""
    if not is_stored(X):
        square = isinstance(kernel, str) and kernel == "precomputed"
        data = bind(X, y, **of_samples, square=square, alone=functools.partial(lone_classes, model))
        return (data, None) if kernel is None and not of_kernel else with_kernel(kernel, data, of_kernel)
    tags = {name: of_samples.get(name) for name in ("sample_weight", "subgroup")}
    rows, labels = signed_rows(open_rows(X, y, **tags), of_samples.get("pos_label"))
    weight = of_samples.get("class_weight")
    factors = signed_factors(weight, labels=labels)
    weight = weight if isinstance(weight, str) else factors
    return bound_rows(model, rows, weight, kernel, of_kernel), None


def lone_classes(model: RobustMargin | Objective) -> tuple[float, ...]:
    """Return the labels, of +1 and -1, that all samples may have, as the model needs no other class."""
    kinds = kinds_of(model)
    match model:
        case Objective(intercept="free"):
            return ()
        case Objective():
            needed = kinds - {"signed"}
        case _:
            needed = kinds or {"signed"}
    return tuple(label for kind, label in (("pos", 1.0), ("neg", -1.0)) if needed <= {kind})


def bound_rows(
    model: RobustMargin | Objective, rows: RowSource, class_weight: ClassWeight, kernel: object, options: dict
) -> Data:
    """Return out-of-core rows as bound data, of one pass; an approximate kernel takes one more."""
    if is_linear(kernel, options):
        return statistics_of_rows(model, rows, class_weight)
    features = row_features(repr(model), rows, kernel, options)
    if isinstance(model, RobustMargin):
        check_features(model.set)
    data = statistics_of_rows(model, rows.mapped(features), class_weight)
    data.approx = features
    return data


LOWERINGS: dict[str, tuple[type[Lowering], ...]] = {
    "set": (DistanceLowering,),
    "set by lam": (GeneralisedNuSVMLowering,),
    "set over rows": (OutOfCoreHullsLowering, ColumnGenerationLowering, DistanceLowering),
    "objective": (ObjectiveLowering,),
    "objective with label flips": (FlipsLowering,),
    "objective of few features": (BestSubsetLowering,),
    "objective over rows": (OutOfCoreLossesLowering,),
}
"""By `BoundModel.kind` the lowerings that are asked for candidates, until one has some."""


def plan_of(
    model: RobustMargin | Objective,
    data: Data,
    gram: Gram | None,
    solver: str | Solver,
    began: float | None = None,
) -> Plan:
    """Return the plan of a model for bound data: choose its lowering and its solver."""
    check_asked(solver)
    began = time.perf_counter() if began is None else began
    if data.per_sample or model.nodes_of_type(PerSample):
        check_quantities(model, data.per_sample)
    if data.source is None:
        for samples in model.nodes_of_type(Samples):
            if samples.label is not None:
                samples.rows(data)  # refuses a group without samples before any computation
    with data.overflow_guard():
        if model.relative_names():
            model = with_numbers(model, in_its_space(data, gram))
        if data.source is None:
            check_statistics(model, data)
        bound_model = BoundModel(model, data, gram, solver)
        offered = (lowering.candidates(bound_model) for lowering in LOWERINGS[bound_model.kind])
        return Plan.of(next(filter(None, offered)), began, model.params())


def solve(
    model: UncertaintySet | RobustMargin | Objective,
    X: object,
    y: object = None,
    *,
    kernel: KernelName | Callable[..., object] | None = None,
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
        Options of `Plan.solve` and of the kernel; class_weight, sample_weight, subgroup, pos_label and
        per_sample.

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
    to_compile = {name: options.pop(name) for name in of_compile if name in options}
    solve_options = options_of(Plan.solve)
    if unknown := [name for name in options if name not in solve_options]:
        raise unknown_option("solve", unknown, [*options_of(solve), *of_compile, *solve_options])
    check_time_limit(time_limit, "solve")
    began = time.perf_counter()
    limit = limit_from(time_limit, began)
    with time_of(Monitor(time_limit=limit)):
        plan = compile(model, X, y, kernel=kernel, solver=solver, **to_compile)
    with plan.data.unchecked():  # the checksum was computed above
        return plan.solve(time_limit=limit, **options)
