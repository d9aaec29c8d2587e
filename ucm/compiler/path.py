"""A model over a grid of values of one of its parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ucm.compiler.compile import behind, plan_of
from ucm.compiler.plan import Plan, options_of
from ucm.data.bound import Data, bind
from ucm.data.kernels import KERNEL_OPTIONS
from ucm.errors import ParameterError, brief, unknown_option
from ucm.evidence.admissible import sizes_of
from ucm.forms.monitor import check_time_limit, time_left
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin, as_model

__all__ = ["path"]

_OF_SAMPLES = ("class_weight", "sample_weight", "subgroup")


def path(
    model: UncertaintySet | RobustMargin | Objective,
    X: Any,
    y: Any,
    *,
    kernel: str | Callable[..., Any] | None = None,
    solver: str | Solver[Any] = "auto",
    progress: Callable[[int, Solution], object] | None = None,
    time_limit: float | None = None,
    **options: Any,
) -> list[Solution]:
    """Solve for every value of one parameter, each from the solution before it.

    The samples are bound once, and with them the Gram matrix and the covariances. The values are taken
    from the smallest set to the largest, so for nu from large to small.

    Parameters
    ----------
    model, X, y, kernel, solver
        As for `ucm.compile`.
    progress : callable, optional
        Called after each solve with the place in the grid and the solution.
    time_limit : float, optional
        Seconds for all of them; those that it cuts off have the status "time_limit".
    **options
        The name of one parameter of the model with its values, as `nu=[0.2, 0.3]`; others are
        those of `Plan.solve` and of the kernel, class_weight, sample_weight and subgroup.

    Returns
    -------
    list of Solution
        The solutions, in the order of the grid.

    Raises
    ------
    ParameterError
        No parameter of the model is named, or more than one; the grid is empty or holds no numbers.
    EmptySetError, DataError, SolverError
        As for `ucm.compile`.

    Examples
    --------
    >>> import ucm
    >>> X, y = ucm.datasets.load("wine")
    >>> found = ucm.path(ucm.models.nu_svm(0.3), X, y, nu=[0.2, 0.3, 0.4])
    >>> [s.status for s in found]
    ['optimal', 'optimal', 'optimal']
    """
    check_time_limit(time_limit, "path")
    began = time.perf_counter()
    declared = model if isinstance(model, Objective) else as_model(model, "path")
    name, values = _grid(declared, options)
    of_samples = {word: options.pop(word, None) for word in _OF_SAMPLES}
    of_kernel = {word: options.pop(word) for word in KERNEL_OPTIONS if word in options}
    if "warm_start" in options:
        raise ParameterError("path: every solve starts from the one before; leave warm_start out")
    known_options = options_of(Plan.solve)
    unknown = [word for word in options if word not in known_options]
    if unknown:
        names = [*options_of(path), *_OF_SAMPLES, *KERNEL_OPTIONS, *known_options]
        raise unknown_option("path", unknown, names)
    if progress is not None and not callable(progress):
        raise ParameterError(
            f"path: progress is a function of a place and a solution, got {brief(progress)}"
        )
    square = isinstance(kernel, str) and kernel == "precomputed"
    data = bind(X, y, **of_samples, square=square)
    gram = behind(kernel, data, of_kernel)
    order = np.argsort(values, kind="stable")
    if not _grows(declared, name, data):
        order = order[::-1]
    found: dict[int, Solution] = {}
    known: list[tuple[float, Solution]] = []
    for place in order.tolist():
        value = values[place]
        plan = plan_of(declared.with_params(**{name: value}), data, gram, solver)
        found[place] = plan.solve(
            warm_start=_expected(known, value), time_limit=time_left(time_limit, began), **options
        )
        if progress is not None:
            progress(place, found[place])
        known = [*known[-1:], (value, found[place])]
        if found[place].w is not None and not np.any(found[place].w):
            known = []  # 0 says nothing about the next one
    return [found[place] for place in range(len(values))]


def _expected(known: list[tuple[float, Solution]], value: float) -> Solution | None:
    """The last solution, its dual vector on the line through the last two."""
    if not known:
        return None
    (v, before), (u, last) = known[0], known[-1]
    if u == v or any(s.answer is None or s.answer.w is None for s in (before, last)):
        return last
    t = (value - u) / (u - v)
    if not t <= 2.0:  # so far ahead the line says nothing
        return last
    objective = last.objective + t * (last.objective - before.objective)
    if not objective * last.objective > 0.0:
        return last
    x, old = last.objective * last.answer.w, before.objective * before.answer.w
    w = (x + t * (x - old)) / objective
    return replace(last, objective=objective, answer=replace(last.answer, w=w))


def _grid(model: RobustMargin | Objective, options: dict[str, Any]) -> tuple[str, list[float]]:
    """The parameter among the options, taken out of them, and its values."""
    known = model.params()
    named = [word for word in options if word in known]
    if len(named) != 1:
        raise ParameterError(
            f"path: expected values for one parameter of the model, which has "
            f"{', '.join(known) or 'none'}; got {', '.join(named) or 'none'}; "
            "write for example nu=[0.2, 0.3]"
        )
    given = options.pop(named[0])
    try:
        values = [float(v) for v in given] if isinstance(given, Iterable) else []
    except (TypeError, ValueError, OverflowError):
        values = []
    if not values or isinstance(given, str):
        raise ParameterError(
            f"path: {named[0]} takes one number or more in a sequence, got {brief(given)}"
        )
    return named[0], values


def _grows(model: RobustMargin | Objective, name: str, data: Data) -> bool:
    """Whether the set grows with the parameter."""
    if isinstance(model, Objective):
        return False
    found = sizes_of(model, data, name)
    return bool(found) and found[0].grows
