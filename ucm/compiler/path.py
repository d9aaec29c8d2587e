"""Solutions of a model over a grid or an interval of one parameter, or of relative parameters together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.compiler.compile import bound, plan_of
from ucm.compiler.grid import chosen_names, numbers_in, simple_first, spread
from ucm.compiler.interval import ErrorCurve, InterpolatedPoint, IntervalPath, path_over_interval
from ucm.compiler.lowering import in_its_space
from ucm.compiler.plan import Plan
from ucm.data.bound_data import Data, is_stored
from ucm.data.first_pass import refuse_gathering
from ucm.data.kernels import KERNEL_OPTIONS, KernelName
from ucm.data.options import COUNT, OptionSpec, one_of, options_of
from ucm.data.readers import open_rows
from ucm.data.validation import table
from ucm.data.weights import SAMPLE_OPTIONS
from ucm.errors import DataError, EmptySetError, ParameterError, brief, unknown_option
from ucm.forms.display import Report, sheet
from ucm.forms.display import table as html_table
from ucm.forms.monitor import Monitor, check_time_limit, limit_from, time_of
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.language.contracts import UncertaintySet
from ucm.language.node import as_declared
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

_ON_EMPTY = one_of("raise", "skip")
_PROGRESS = OptionSpec("a function of a place and a solution", lambda x: x is None or callable(x))


@dataclass(frozen=True, eq=False, repr=False)
class Path(Report[Solution]):
    """The sequence of solutions over a grid or an interval of parameter values.

    Attributes
    ----------
    name : the parameter that moves; several relative parameters are joined by commas
    values : (k,) the numbers of the first parameter, one for each solution; `Solution.params` has all numbers
    solutions : the solutions in the order of the grid
    skipped : the values for which U is empty, with the reason; fractions for a relative parameter
    model, data : the model and the samples; a pickle leaves the samples out
    features : the names of the features of a data frame
    over : with `nu="all"` the proofs between the solved values; a pickle leaves them out
    """

    name: str
    values: NDArray[np.float64]
    solutions: Sequence[Solution]
    skipped: dict[float, str]
    model: RobustMargin | Objective
    data: Data | None = None
    features: tuple[str, ...] | None = None
    over: IntervalPath | None = None
    _listed = "solutions"

    def __getstate__(self) -> dict:
        return {**vars(self), "solutions": tuple(self.solutions), "data": None, "over": None}

    def at(self, value: float) -> InterpolatedPoint:
        """Return w, b and bounds interpolated at a value of an interval path, without a solve.

        The point and the dual vector lie on the line between two neighbouring solutions.

        Raises
        ------
        ParameterError
            The path is of single values, or the value is not in its interval.
        """
        return self._interval("at").at(value)

    def validation(self, X_val: ArrayLike, y_val: ArrayLike) -> ErrorCurve:
        """Return the error on further samples as an exact step function of the parameter of an interval path.

        Raises
        ------
        ParameterError
            The path is of single values.
        DataError
            X_val is not a table of finite numbers with the features of the fit, or y_val does not have a
            label -1 or +1 for each row.
        """
        over = self._interval("validation")
        X, y = table(X_val), np.asarray(y_val, dtype=object).ravel()
        n = over.breaks[0].w.size
        if X.shape[1] != n:
            raise DataError(
                f"Path.validation: expected the {n} features of the fit, got {X.shape[1]}; give these"
            )
        if y.size != X.shape[0] or not all(label in (-1, 1) for label in y.tolist()):
            raise DataError(
                f"Path.validation: expected {X.shape[0]} labels -1 and +1, one a row, got {brief(y_val)}; "
                "give the labels of the fit"
            )
        return over.validation(X, y.astype(np.float64))

    def _interval(self, method: str) -> IntervalPath:
        if self.over is None:
            raise ParameterError(
                f"Path.{method}: expected a path over an interval, got {len(self)} values of {self.name}; "
                f'solve with {self.name}="all"'
            )
        return self.over

    def rows(self) -> list[dict]:
        """Return a dict for each solution: value, objective, status, gap, non-zero counts, work."""
        return [
            {
                self.name: float(value),
                "objective": s.objective,
                "status": s.status,
                "relative_gap": s.certificate.relative_gap,
                "features": None if s.w is None else int(np.count_nonzero(s.w)),
                "samples": None if s.weights is None else int(np.count_nonzero(s.weights)),
                "passes": s.stats.passes,
                "seconds": s.stats.solve_time,
            }
            for value, s in zip(self.values, self.solutions, strict=True)
        ]

    def __repr__(self) -> str:
        ends = f" from {self.values[0]:.6g} to {self.values[-1]:.6g}" if len(self) else ""
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Path({self.name}, {len(self)} values{ends}{skipped})"

    def __str__(self) -> str:
        lines = [f"{self.name:>12}  {'objective':>16}  {'gap':>8}  {'features':>8}  {'samples':>8}  status"]
        for row in self.rows():
            counts = ("" if row[k] is None else row[k] for k in ("features", "samples"))
            used = "  ".join(f"{count:>8}" for count in counts)
            lines.append(
                f"{row[self.name]:>12.6g}  {row['objective']:>16.9g}  {row['relative_gap']:>8.1e}  {used}  "
                f"{row['status']}"
            )
        lines += [f"{value:>12.6g}  skipped: {why}" for value, why in self.skipped.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.rows()
        skipped = "; ".join(f"{value:.6g}: {why}" for value, why in self.skipped.items())
        lines = html_table([row.values() for row in rows], rows[0] if rows else ())
        return sheet(repr(self), {"skipped": skipped or None}, lines)


def path(
    model: UncertaintySet | RobustMargin | Objective,
    X: object,
    y: object = None,
    *,
    n_values: int | None = None,
    eps: float | None = None,
    between: Sequence[float] | None = None,
    on_empty: str = "raise",
    kernel: KernelName | Callable[..., object] | None = None,
    solver: str | Solver = "auto",
    progress: Callable[[int, Solution], object] | None = None,
    time_limit: float | None = None,
    **options: Any,
) -> Path:
    """Solve a model for a grid or an interval of parameter values, with warm starts: return the `Path`.

    The samples are bound once, with the Gram matrix and the covariances. The order of the solves is from the
    smallest set to the largest, which is from large to small nu; of an objective from the largest weight of
    the penalty to the smallest.

    Parameters
    ----------
    model, X, y
        As for `ucm.compile`.
    n_values : int, optional
        The number of values over the admissible interval, in place of values. Values of a set have equal
        distances, and include the closed end of the interval but not the open end; values of an objective
        have equal ratios, from lam_max to lam_max / 1000, or without a lam_max over three decades on either
        side of the present value. `ClassifierCV` searches the same parameter.
    eps : float in (0, 1), optional
        With `nu="all"`: the relative gap that is proven at every value of the interval. 1e-3 if left out.
    between : pair of floats, optional
        With `nu="all"`: the ends of the interval. None begins with the smallest set and ends before 0 enters
        U, at a twentieth of the first distance from 0, or at the whole hulls if 0 never enters.
    on_empty : {"raise", "skip"}
        The action if U is empty for a value; `Path.skipped` has the skipped values.
    kernel, solver
        As for `ucm.compile`.
    progress : callable, optional
        Called after each solve with the index in the grid and the solution.
    time_limit : float, optional
        Seconds for the whole path; the solutions after that have the status "time_limit".
    **options
        The name of one parameter of the model with its values, as `nu=[0.2, 0.3]` (fractions of a relative
        parameter), or `nu="all"` for two reduced hulls. Other options are the options of `Plan.solve` and of
        the kernel, class_weight, sample_weight, subgroup and pos_label.

    Returns
    -------
    Path
        The solutions in the order of the grid, as a sequence with a text and a data frame. With `nu="all"`
        the solved values, the smallest set first; `Path.at` has every other value.

    Raises
    ------
    ParameterError
        The options name no parameter of the model, or several; the grid is empty or holds no numbers; values
        and `n_values` are both given; `n_values` is below 1, or its parameter is ambiguous.
    EmptySetError, DataError, SolverError
        As for `ucm.compile`.

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> found = ucm.path(ucm.models.nu_svm(0.3), X, y, nu=[0.2, 0.3, 0.4])
    >>> [s.status for s in found]
    ['optimal', 'optimal', 'optimal']
    >>> whole = ucm.path(ucm.models.nu_svm(0.3), X, y, nu="all", between=(0.2, 0.4), eps=1e-2)
    >>> whole.at(0.31).relative_gap <= 1e-2
    True
    >>> lasso = ucm.Logistic() + ucm.Param("lam", 1.0) * ucm.L1()
    >>> found = ucm.path(lasso, X, y, n_values=3)
    >>> [s.status for s in found]
    ['optimal', 'optimal', 'optimal']
    """
    check_time_limit(time_limit, "path")
    began = time.perf_counter()
    declared = as_declared(model, "path")
    _ON_EMPTY.check("path", "on_empty", on_empty, "leave it out to raise")
    _PROGRESS.check("path", "progress", progress, "write progress=lambda k, solution: None")
    params = list(declared.params())
    words = [*SAMPLE_OPTIONS, *KERNEL_OPTIONS, *options_of(Plan.solve)]
    if unknown := options.keys() - {*params, *words}:
        raise unknown_option("path", unknown, [*words, *options_of(path)], params)
    columns = getattr(X, "columns", None)
    features = None if columns is None else tuple(map(str, columns))
    over_interval = [n for n in params if str(options.get(n)) == "all"]
    if over_interval:
        name, other_solver = over_interval[0], None if solver in ("auto", "active-set") else solver
        unused = {"n_values": n_values, "kernel": kernel, "solver": other_solver}
        options |= {word: x for word, x in unused.items() if x is not None}  # which are refused there
        data, over = path_over_interval(
            declared, X, y, name, options, eps, between, progress, limit_from(time_limit, began)
        )
        return Path(name, over.values, over, {}, declared, data, features, over)
    if eps is not None or between is not None:
        word = "eps" if between is None else "between"
        raise ParameterError(
            f'path: {word} is of a path over an interval, as nu="all"; got values; leave {word} out'
        )
    if "warm_start" in options:
        raise ParameterError("path: every solve starts from the previous solution; leave warm_start out")
    names, values = _grid(declared, options, n_values)
    of_samples = {word: options.pop(word, None) for word in SAMPLE_OPTIONS}
    of_kernel = {word: options.pop(word) for word in KERNEL_OPTIONS if word in options}
    if n_values is not None and is_stored(X):
        refuse_gathering(open_rows(X, y), "path with n_values")
    data, gram = bound(declared, X, y, kernel, of_samples, of_kernel)
    if n_values is not None:
        space = in_its_space(data, gram)
        where, remedy = "path: n_values", "write values, as {}=[0.2, 0.3]"
        names = chosen_names(declared, space, where=where, remedy=remedy)
        spaced = spread(declared, [space], names[0], n_values, where, names[0], closed=True)
        values = spaced.tolist()
    skipped: dict[float, str] = {}

    def compiled(value: float) -> Plan | None:
        """Return the plan for a value; None if U is empty and the value is skipped."""
        try:
            model = declared.with_params(**dict.fromkeys(names, value))
            with time_of(Monitor(time_limit=limit_from(time_limit, began))):
                return plan_of(model, data, gram, solver)
        except EmptySetError as error:
            if on_empty == "raise":
                raise
            skipped[value] = str(error)
            return None

    def solved(plan: Plan, start: Solution | None) -> Solution:
        return plan.solve(warm_start=start, time_limit=limit_from(time_limit, began), **options)

    order = simple_first(declared, data, names[0], np.array(values))
    in_order = [(place, float(values[place])) for place in order]
    # the samples can change between two solves only in a function of the user
    called = progress is not None or options.get("callback") is not None
    with contextlib.nullcontext() if called else data.unchecked():
        solutions = solve_in_turn(in_order, compiled, solved, progress)
    places = sorted(solutions)
    return Path(
        ", ".join(names),
        np.array([solutions[k].params[names[0]] for k in places]),
        tuple(solutions[k] for k in places),
        skipped,
        declared,
        data,
        features,
    )


def solve_in_turn(
    grid: Sequence[tuple[int, float]],
    compiled: Callable[[float], Plan | None],
    solved: Callable[[Plan, Solution | None], Solution | None],
    progress: Callable[[int, Solution], object] | None = None,
) -> dict[int, Solution]:
    """Return the solutions by grid index, each warm-started from the previous solution unless its w is 0."""
    solutions: dict[int, Solution] = {}
    start: Solution | None = None
    sessions: dict[str, Solver] = {}
    for place, value in grid:
        plan = compiled(value)
        if plan is None:
            continue
        name = plan.solver.name
        if name not in sessions:
            sessions[name] = plan.solver.session(plan.form)
        solution = solved(replace(plan, solver=sessions[name]), start)
        if solution is None:
            sessions, start = {}, None  # of no use after a failure
            continue
        solutions[place] = solution
        if progress is not None:
            progress(place, solution)
        # w = 0 says nothing about the next solution
        start = solution if solution.w is None or np.any(solution.w) else None
    return solutions


def _grid(
    model: RobustMargin | Objective, options: dict, n_values: int | None
) -> tuple[list[str], list[float]]:
    """Remove the varied parameter from the options; return its name and values, empty with `n_values`."""
    params = model.params()
    names = [word for word in options if word in params]
    if n_values is not None:
        COUNT.check("path", "n_values", n_values, "write n_values=10")
        if names:
            raise ParameterError(
                f"path: expected n_values or values, got both for {', '.join(names)}; leave one of them out"
            )
        return [], []
    if len(names) != 1:
        raise ParameterError(
            f"path: expected values for one parameter of the model, which has "
            f"{', '.join(params) or 'none'}; got {', '.join(names) or 'none'}; "
            f"write for example {next(iter(params), 'nu')}=[0.2, 0.3]"
        )
    grid = options.pop(names[0])
    values = numbers_in(grid)
    if not values:
        raise ParameterError(
            f"path: {names[0]} takes one number or more in a sequence, got {brief(grid)}; write [0.2, 0.3]"
        )
    return names, values
