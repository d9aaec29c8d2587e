"""Where a model is neither empty nor trivial: the interval of each hyperparameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ucm.data.bound import Data
from ucm.errors import CompositionError, EmptySetError, SolverError
from ucm.evidence.boundary import boundary
from ucm.evidence.trivial import largest
from ucm.forms.display import sheet
from ucm.forms.monitor import Monitor
from ucm.language import cvx as cp
from ucm.language.contracts import Domain, Scope, Size, UncertaintySet
from ucm.language.domains import LossBall
from ucm.language.node import Param
from ucm.language.objective import Objective
from ucm.language.parameter import Derived, Quantity, holds
from ucm.language.robust import RobustMargin, as_model
from ucm.language.sets.combination import Combination
from ucm.language.sets.union import ConvexUnion
from ucm.solvers.programs import attempt

__all__ = [
    "Interval",
    "advice",
    "by_program",
    "growth_of",
    "interval_of",
    "size_of",
    "sizes_of",
    "smallest_by_rule",
]

_ADVICE = 5.0  # seconds for a program whose answer stands in a message
_PROGRAMS = 4  # most of them for one interval
_DIFFERENT = "{} sets sizes of different kinds; not computed"
_SEVERAL = ("several",)  # the key of a size that stands for others


@dataclass(frozen=True)
class Interval:
    """The admissible values of one hyperparameter, the others at their present values.

    At one end U is empty beyond it (this end is closed), at the other 0 enters U (open).

    Attributes
    ----------
    lower, upper : ends, possibly infinite
    how : how the ends are known
    lower_closed, upper_closed : whether the end itself is admissible
    gap : how far behind the end at which 0 enters a point x = 0 of U is known; every value before it is
        proven to leave 0 outside. 0 where a program gave the end, to its own accuracy
    """

    lower: float
    upper: float
    how: str
    lower_closed: bool = False
    upper_closed: bool = False
    gap: float = 0.0

    def __contains__(self, number: float) -> bool:
        above = number > self.lower or (self.lower_closed and number == self.lower)
        return above and (number < self.upper or (self.upper_closed and number == self.upper))

    @property
    def empty(self) -> bool:
        """Whether no value is admissible."""
        return self.lower > self.upper or (
            self.lower == self.upper and not (self.lower_closed and self.upper_closed)
        )

    @property
    def middle(self) -> float:
        """The middle, as `at(0.5)`."""
        return self.at(0.5)

    def at(self, fraction: float) -> float:
        """The point at a fraction of the way from the lower end to the upper one, an infinite upper end
        replaced by twice the lower (by 2 when that is 0)."""
        upper = self.upper if math.isfinite(self.upper) else 2.0 * (self.lower or 1.0)
        return self.lower + fraction * (upper - self.lower)

    @property
    def bounds(self) -> str:
        """The interval as it is written: `(0.333, 0.889]`."""
        left, right = "[" if self.lower_closed else "(", "]" if self.upper_closed else ")"
        return f"{left}{self.lower:.6g}, {self.upper:.6g}{right}"

    def __str__(self) -> str:
        return f"{self.bounds}  {self.how}"

    def _repr_html_(self) -> str:
        bounds = self.bounds.replace("-", "−").replace("inf", "∞")
        return sheet(
            f"Interval {'(empty)' if self.empty else bounds}",
            {"known by": self.how, "gap of the proofs": self.gap or None},
        )


class _FreeSize(Scope):
    """The size that one hyperparameter sets is a variable; everything else is a number."""

    def __init__(self, name: str, unit: float) -> None:
        self.name = self.free = name
        self.t = unit * cp.Variable(nonneg=True)

    def of(self, quantity: Quantity) -> float | cp.Expression:
        free = isinstance(quantity, Size) and holds(quantity.declared, self.name)
        return self.t if free else quantity.number


def _by_name(size: Size, name: str) -> Size:
    """The size as a function of the one hyperparameter, where its declared scalar is derived from it."""
    declared = size.declared
    if not isinstance(declared, Derived):
        return size
    return Size(
        Param(name, next(p.value for p in declared.leaves() if p.name == name)),
        lambda v: size.derived(declared.at(lambda p: v if p.name == name else p.value)),
        lambda t: declared.inverse(name, size.inverse(t)),
        (*size.key, declared),
    )


def sizes_of(model: RobustMargin, data: Data, name: str) -> list[Size]:
    """The sizes that this hyperparameter sets."""
    found = []
    for node in model.walk():
        size = None
        if isinstance(node, UncertaintySet):
            size = node.size(data)
        elif isinstance(node, Domain):
            size = node.size()
        if size is not None and holds(size.declared, name):
            found.append(size)
    return found


def _of_objective(model: Objective, data: Data, name: str) -> Interval:
    """Up to the least value with w = 0, where that is known. Else the range that the terms accept: (0, inf),
    or up to 1 where 2 is refused; every value in it gives a minimum, and none a trivial one by itself."""
    top = largest(model, data, name)
    if top is not None:
        word = "optimal" if model.convex else "critical"
        how = f"w = 0 is {word} from the upper end on: {top.how}"
        return Interval(0.0, top.value, how, upper_closed=True, gap=top.gap)
    try:
        model.with_params(**{name: 2.0})
    except CompositionError:
        return Interval(0.0, 1.0, "declared range", upper_closed=True)
    return Interval(0.0, math.inf, "declared range: any positive number")


def _in_their_span(model: RobustMargin, data: Data) -> Data:
    """More features than samples: the samples in coordinates of their own span, from a QR
    decomposition. Coordinate-free sets only turn with it, and x = 0 needs m equations, not n."""
    turns = model.set.in_features() is None
    if not turns or data.n <= data.m or not isinstance(data.X, np.ndarray):
        return data
    factor = np.asarray(np.linalg.qr(data.X.T, mode="r"))
    return data.written(np.ascontiguousarray(factor.T))


def interval_of(
    model: RobustMargin | Objective, data: Data, name: str, time_limit: float = math.inf
) -> Interval:
    """The admissible interval of one hyperparameter over bound data."""
    if isinstance(model, Objective):
        return _of_objective(model, data, name)
    return _interval(model, _in_their_span(model, data), name, time_limit)


def size_of(model: RobustMargin, data: Data, name: str) -> Size | str:
    """The one size that this hyperparameter sets, as a function of it; or why there is none."""
    sizes = sizes_of(model, data, name)
    for size in sizes:
        if isinstance(size.declared, Derived) and not size.declared.monotone(name):
            return f"{size.declared.name} does not rise or fall with {name} alone; not computed"
    sizes = [_by_name(size, name) for size in sizes]
    used = sum(isinstance(p, Param) and p.name == name for p in model.walk())
    if not used:
        return f"{name} stands for a radius, which is found with the data; not computed"
    if any(isinstance(V, LossBall) and name in V.loss.params() for V in model.walk()):
        return f"{name} is a factor of the loss of a ball of weights, no size; not computed"
    if used != len(sizes):
        return f"{name} scales a set; its size is not the question"
    if len({s.key for s in sizes}) > 1:
        return _DIFFERENT.format(name)
    return sizes[0]


def growth_of(model: RobustMargin, data: Data, name: str, *, alone: bool = True) -> Size | str:
    """`size_of`; where the sizes that this hyperparameter sets are of different kinds, and all sets grow or
    all shrink with it, the hyperparameter itself or its inverse. Or why there is none.

    Parameters
    ----------
    alone : False for the hyperparameter itself in any case, as where a size is derived from others too
    """
    size = size_of(model, data, name)
    if isinstance(size, str) and size != _DIFFERENT.format(name):
        return size
    if isinstance(size, Size) and alone:
        return size
    directions = {_by_name(one, name).grows for one in sizes_of(model, data, name)}
    if len(directions) > 1:
        return f"{name} makes one set larger and another one smaller; not computed"
    declared = Param(name, model.params()[name])
    if directions == {True}:
        return Size(declared, float, float, _SEVERAL)
    return Size(declared, _inverse, _inverse, _SEVERAL)


def _inverse(x: float) -> float:
    return 1.0 / x if x else math.inf


def _interval(model: RobustMargin, data: Data, name: str, time_limit: float) -> Interval:
    size = growth_of(model, data, name)
    if isinstance(size, str):
        return Interval(-math.inf, math.inf, size)
    empty, how_empty = _smallest_nonempty(model, data, name, size, time_limit)
    zero, met, how_zero = _smallest_with_zero(model, data, name, size, empty, time_limit)
    if zero - empty <= 1e-8 * max(empty, size.number):  # the same, for the solver's accuracy
        zero = empty
    start, end = float(size.inverse(empty)), float(size.inverse(max(zero, 0.0)))
    gap = 0.0 if math.isinf(zero) else abs(float(size.inverse(met)) - end)
    if size.grows:
        how = f"lower: {how_empty}; upper: {how_zero}"
        return Interval(start, end, how, lower_closed=zero > empty, gap=gap)
    how = f"lower: {how_zero}; upper: {how_empty}"
    return Interval(end, start, how, upper_closed=zero > empty, gap=gap)


def _smallest_nonempty(
    model: RobustMargin, data: Data, name: str, size: Size, time_limit: float
) -> tuple[float, str]:
    """The smallest derived size for which U has a point."""
    least, how = smallest_by_rule(model, data, name, size)
    # only a program can tell whether the operands of an intersection meet
    for U in [V for V in _apart(model.set) if V.lower(data).couplings]:
        solved, how = _program(replace(model, set=U), data, name, size, False, time_limit)
        if math.isinf(solved):
            raise EmptySetError(
                f"admissible: U is empty for every {name}, whatever its size; change another parameter"
            )
        least = max(least, solved)
    return least, how


def _apart(U: UncertaintySet) -> list[UncertaintySet]:
    """The sets that all must have a point for U to have one."""
    if isinstance(U, Combination):
        return [V for inner, _ in U.terms() for V in _apart(inner)]
    if isinstance(U, ConvexUnion):
        return [V for inner in U.sets for V in _apart(inner)]
    return [U]


def smallest_by_rule(model: RobustMargin, data: Data, name: str, size: Size) -> tuple[float, str]:
    """Bisection on the sets' own word about emptiness, to rounding."""

    def nonempty(t: float) -> bool:
        try:
            other = model.with_params(**{name: size.inverse(t)})
        except CompositionError:  # what is derived from it leaves its range
            return False
        return other.set.emptiness(data) is None

    high = size.number if 0.0 < size.number < math.inf else 1.0
    for _ in range(200):
        if nonempty(high):
            break
        high *= 2.0
    else:
        why = model.set.emptiness(data)
        raise EmptySetError(
            f"admissible: U is empty for every {name} ({why}); change another parameter"
        )
    if nonempty(0.0):
        return 0.0, "any size has a point"
    low = 0.0
    while high - low > 4e-16 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if nonempty(middle) else (middle, high)
    # the sets forgive a relative 1e-12
    return high * (1.0 + 1e-12), "closed form"


def _smallest_with_zero(
    model: RobustMargin, data: Data, name: str, size: Size, empty: float, time_limit: float
) -> tuple[float, float, str]:
    """A size up to which 0 is separated from U, one at which U holds it, and how that is known."""
    monitor = Monitor(time_limit=None if math.isinf(time_limit) else time_limit)
    with monitor.alarm():
        found = boundary(
            lambda t: model.with_params(**{name: size.inverse(t)}), data, empty, monitor
        )
    if math.isinf(found.lower):
        return math.inf, math.inf, "one w separates 0 from U at every size"
    if found.proven:
        return found.lower, found.upper, "0 separated from U before it, a point x = 0 behind it"
    if monitor.late:
        raise SolverError(
            f"admissible: the end at which 0 enters, for {name}, was not found within {time_limit:g} s; "
            "raise time_limit, or scale the features"
        )
    solved, how = _program(model, data, name, size, True, monitor.left)
    return solved, solved, how


def by_program(model: UncertaintySet | RobustMargin, data: Data, name: str) -> float:
    """The value of the hyperparameter at which 0 enters U by a linear or conic program."""
    robust = as_model(model, "by_program")
    size = _by_name(sizes_of(robust, data, name)[0], name)
    return size.inverse(_program(robust, data, name, size, True, math.inf)[0])


def _program(
    model: RobustMargin, data: Data, name: str, size: Size, through_zero: bool, time_limit: float
) -> tuple[float, str]:
    """`min t` over the set with its size t free, and through 0 if asked. inf when infeasible."""
    if size.key == _SEVERAL:
        raise CompositionError(
            f"admissible: only a program could find an end for {name}, got sizes of different kinds that it "
            "sets, whose program is not convex; give each kind a Param of its own"
        )
    unit = size.number if 0.0 < size.number < math.inf else 1.0
    scope = _FreeSize(name, unit)
    x, constraints = model.set.cvxpy(data, scope)
    if through_zero:
        constraints = [*constraints, x / data.scale == 0]
    problem = cp.Problem(cp.Minimize(scope.t / unit), constraints)
    if problem.is_lp():
        solver, how = cp.HIGHS, "linear program by HiGHS"
        options: dict[str, Any] = {"highs_options": {"solver": "ipm", "run_crossover": "off"}}
        if math.isfinite(time_limit):
            options["highs_options"]["time_limit"] = time_limit
    else:
        solver, how = cp.CLARABEL, "conic program by Clarabel"
        options = {} if math.isinf(time_limit) else {"time_limit": time_limit}
    attempts = [options]
    if solver == cp.HIGHS:
        # interior points without crossover have called feasible programs infeasible, or not ended
        attempts.append({"highs_options": {**options["highs_options"], "solver": "simplex"}})
    failure = ""
    for each in attempts:
        failure = attempt(problem, solver, **each)
        if not failure and problem.status not in ("infeasible", "infeasible_inaccurate"):
            break
    if failure:
        raise SolverError(
            f"admissible: the {how} for {name} failed ({failure[:200]}); "
            "scale the features, or raise time_limit"
        )
    if problem.status in ("infeasible", "infeasible_inaccurate"):
        return math.inf, f"infeasible {how}: no size contains 0" if through_zero else how
    if scope.t.value is None:
        raise SolverError(
            f"admissible: the {how} for {name} ended with status {problem.status}; "
            "scale the features, or raise time_limit"
        )
    return max(float(scope.t.value), 0.0), how


def advice(model: RobustMargin, data: Data, monitor: Monitor, *, empty: bool = False) -> str:
    """Which values of the hyperparameters would make the model work, in a sentence, as far as the time
    allows; of a set that is empty, or holds 0."""
    names: Sequence[str] = list(model.params())
    if not names:
        change = "one of the sets that meet larger" if empty else "the set smaller"
        return f"Make {change}: name its size with a Param to be told how far."
    words = []
    data = _in_their_span(model, data)
    for name in names:
        present = model.params()[name]
        if monitor.late:
            words.append(f"{name} (now {present:g}): no time was left to find its range")
            continue
        try:
            interval = _interval(model, data, name, min(_ADVICE, monitor.left / _PROGRAMS))
        except (SolverError, EmptySetError, CompositionError) as error:
            words.append(f"{name} (now {present:g}): its range is not known, {error}")
            continue
        if interval.empty:
            words.append(f"no value of {name} works (now {present:g})")
        else:
            words.append(f"{name} must lie in {interval.bounds}, now {present:g}")
    return "; ".join(words) + "."
