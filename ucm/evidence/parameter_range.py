"""Admissible intervals of parameters: the values for which a model is neither empty nor trivial."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ucm.data.bound_data import Data
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.evidence.generalised_nu_svm import GeneralisedNuSVM, by_lam
from ucm.evidence.lambda_max import lambda_max
from ucm.evidence.zero_entry import contains_zero, zero_entry
from ucm.forms.display import sheet
from ucm.forms.monitor import Monitor
from ucm.language import cvx as cp
from ucm.language.contracts import Domain, Scope, Size, UncertaintySet
from ucm.language.domains import LossBall
from ucm.language.losses import Hinge
from ucm.language.node import Node
from ucm.language.objective import Objective, split_scalar
from ucm.language.parameter import BinaryExpression, Expression, Param, Scalar, holds, value
from ucm.language.robust import RobustMargin
from ucm.language.sets.combination import Combination
from ucm.language.sets.union import ConvexUnion
from ucm.solvers.programs import attempt

_ADVICE = 5.0  # seconds for an interval in a message
_ACCURACY = 1e-8  # of a conic program
_INTERVALS = 4  # parts of the time left for one interval in a message
_SOLVES = 10  # before a program gives the end
_SOLVES_OF_SEVERAL = 40  # which have no program


@dataclass(frozen=True)
class Interval:
    """The admissible interval of one parameter, at fixed values of the other parameters.

    Beyond the closed end U is empty; at the open end 0 enters U.

    Attributes
    ----------
    lower, upper : the ends, possibly infinite
    how : the proof of each end
    lower_closed, upper_closed : True if the end is admissible
    gap : the difference between the open end, up to which 0 is proven to lie outside U, and the first value
        at which U is proven to contain 0; 0 if a conic program gave the end
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
        """True if no value is admissible."""
        return self.lower > self.upper or (
            self.lower == self.upper and not (self.lower_closed and self.upper_closed)
        )

    @property
    def middle(self) -> float:
        """The midpoint, `at(0.5)`; an infinite upper end is replaced as in `at`."""
        return self.at(0.5)

    def at(self, fraction: float) -> float:
        """Return the value at a fraction of the way from the lower to the upper end.

        An infinite upper end is replaced by twice the lower end, or by 2 if the lower end is 0.
        """
        upper = self.upper if math.isfinite(self.upper) else 2.0 * (self.lower or 1.0)
        return self.lower + fraction * (upper - self.lower)

    @property
    def bounds(self) -> str:
        """The interval in mathematical notation, such as `(0.333, 0.889]`."""
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


# --- which sets a parameter makes larger ------------------------------------------------------------
def own_size(node: Node, data: Data) -> Size | None:
    """Return the size of a set or a domain; None for other nodes and for sets or domains without a size."""
    if isinstance(node, UncertaintySet):
        return node.size(data)
    return node.size() if isinstance(node, Domain) else None


def sizes_of(model: RobustMargin, data: Data, name: str) -> list[Size]:
    """Return the sizes of all sets and domains of the model in which a parameter occurs."""
    every = (own_size(node, data) for node in model.walk())
    return [size for size in every if size is not None and holds(size.declared, name)]


def _multiplied(model: RobustMargin, name: str) -> list[tuple[UncertaintySet, Any]]:
    """Return the summands whose factor contains the parameter, as pairs of set and factor."""
    sums = model.nodes_of_type(Combination)
    return [(U, L) for node in sums for U, L in node.terms() if holds(L, name)]


def _kinds(model: RobustMargin, data: Data, name: str) -> list[Size]:
    """Return the sizes in which a parameter occurs, as distinct functions of this parameter."""
    sizes = (_with_direct_parameter(size, name) for size in sizes_of(model, data, name))
    return list({size.key: size for size in sizes}.values())


def _with_direct_parameter(size: Size, name: str) -> Size:
    """Return the size as a function of the parameter, also if the declared size is an expression."""
    declared = size.declared
    if not isinstance(declared, BinaryExpression):
        return size
    inverse = declared.inverse(name)
    return Size(
        Param(name, declared.params()[name]),
        lambda v: size.derived(declared.at(lambda p: v if p.name == name else p.value)),
        lambda t: math.nan if inverse is None else inverse(size.inverse(t)),
        (*size.key, declared),
    )


def _why_none(model: RobustMargin, data: Data, name: str) -> str | None:
    """Return the reason if it is not known how the sets change in size with the parameter, else None."""
    sizes = sizes_of(model, data, name)
    factors = [L for _, L in _multiplied(model, name)]
    for scalar in (*(size.declared for size in sizes), *factors):
        if isinstance(scalar, BinaryExpression) and scalar.inverse(name) is None:
            return f"{scalar.name} does not rise or fall with {name} alone; not computed"
    used = sum(p.name == name for p in model.nodes_of_type(Param))
    if not used:
        return f"{name} stands for a radius, which is found with the data; not computed"
    if any(name in V.loss.params() for V in model.nodes_of_type(LossBall)):
        return f"{name} is a factor of the loss of a ball of weights, no size; not computed"
    if used == sum(size.times for size in sizes) + len(factors):
        return None
    for V in model.nodes_of_type(Domain):
        if V.size() is None and name in V.params():
            return (
                f"{type(V).__name__} has the parameter {name} and no size; its method size() tells which of "
                "its parameters makes it larger"
            )
    return f"{name} is no size of a set; not computed"


def size_of(model: RobustMargin, data: Data, name: str) -> Size | str:
    """Return the unique size in which a parameter occurs, as a function of it; or the reason for none."""
    why = _why_none(model, data, name)
    if why is not None:
        return why
    kinds = _kinds(model, data, name)
    if len(kinds) != 1 or _multiplied(model, name):
        return f"{name} sets sizes of different kinds; not computed"
    return kinds[0]


def grows_with(model: RobustMargin, data: Data, name: str) -> bool | str:
    """Return True if U grows with the parameter, False if U shrinks, or the reason if neither is known."""
    why = _why_none(model, data, name)
    if why is not None:
        return why
    directions = {size.grows for size in _kinds(model, data, name)}
    for U, L in _multiplied(model, name):
        if isinstance(model.set, Combination) and model.set.terms() == ((U, L),):
            return f"{name} scales a set that is all of U, and the classifier stays the same"
        if not contains_zero(replace(model, set=U), data):
            return f"{name} scales a set without 0, which moves with it; not computed"
        directions.add(_rises(L, name))
    if len(directions) > 1:
        return f"{name} makes one set larger and another one smaller; not computed"
    return directions.pop()


def _rises(scalar: Expression, name: str) -> bool:
    """True if the absolute value of the scalar increases with the parameter at its present value."""
    present = scalar.params()[name]
    before, after = (
        abs(scalar.at(lambda p, v=v: v if p.name == name else p.value))  # type: ignore[misc]
        for v in (present, present * (1.0 + 1e-6) + 1e-12)
    )
    return after > before


def as_size(grows: bool, x: float) -> float:
    """Return x if U grows with the parameter, else 1/x, a size with which U grows; an involution."""
    return x if grows else 1.0 / x if x else math.inf


# --- the ends ----------------------------------------------------------------------------------------
def interval_of(
    model: RobustMargin | Objective, data: Data, name: str, time_limit: float = math.inf
) -> Interval:
    """Return the admissible interval of one parameter for bound data, at given values of the others.

    Parameters
    ----------
    time_limit : seconds for each end

    Raises
    ------
    CompositionError, EmptySetError, SolverError
        As `ucm.admissible`.
    """
    if isinstance(model, Objective):
        return _of_objective(model, data, name)
    if by_lam(model):
        return _of_lam(model, data, name)
    return intervals_of_sizes(model, (name,), data, time_limit)[name]


def _of_objective(model: Objective, data: Data, name: str) -> Interval:
    """Return the interval (0, lambda_max] of an objective, or the declared range if lambda_max is not known.

    The declared range is (0, inf), or (0, 1] if the terms refuse 2. Every value of this range gives a
    minimum.
    """
    top = lambda_max(model, data, name)
    if top is not None:
        word = "optimal" if model.convex else "critical"
        how = f"w = 0 is {word} from the upper end on: {top.how}"
        return Interval(0.0, top.value, how, upper_closed=True, gap=top.gap)
    try:
        model.with_params(**{name: 2.0})
    except CompositionError:
        return Interval(0.0, 1.0, "declared range", upper_closed=True)
    return Interval(0.0, math.inf, "declared range: any positive number")


def _of_lam(model: RobustMargin, data: Data, name: str) -> Interval:
    """Return the parameter interval in which the bound `||w|| <= lam` of a generalised nu-SVM is active.

    For lam it ends at the norm of w without the bound. For a multiple `Hinge(p) / nu` this norm grows as
    `nu^(1 / (p - 1))`.
    """
    problem = GeneralisedNuSVM(model, data)
    ball = problem.balls[0]
    factor, base = split_scalar(ball.loss)
    if base.slope() is not None:
        return _unknown("a multiple of the hinge loss has the same classifier for every lam; not computed")
    is_lam = isinstance(ball.lam, Param) and ball.lam.name == name
    power, present = 0.0, model.params()[name]
    prefix = "" if is_lam else f"{name} is a factor of the loss"
    if not is_lam:
        other = GeneralisedNuSVM(model.with_params(**{name: 2.0 * present}), data).balls[0]
        falls = math.isclose(2.0 * split_scalar(other.loss)[0], factor, rel_tol=1e-12)
        if len(problem.hulls) > 1 or not isinstance(base, Hinge) or not falls or other.lam != ball.lam:
            return _unknown(f"{prefix} beside lam; not computed")
        power = base.p - 1.0
    try:
        reach, separates = problem.norm_without_bound()
    except ParameterError as error:
        raise SolverError(f"admissible: the end of {name} was not found; {error}") from error
    if math.isinf(reach):
        how = "norm(w) <= lam is active at every value, as a w separates the classes"
        if not separates:
            how = "not found: norm(w) <= lam is active up to 1e12 in units of the largest feature"
        return Interval(0.0, math.inf, how if is_lam else f"{prefix}; {how}")
    if is_lam:
        how = "from the upper end on norm(w) <= lam is inactive, and the solution the same"
        return Interval(0.0, reach, how, upper_closed=True)
    how = f"{prefix}: up to the lower end norm(w) <= lam is inactive"
    return Interval(present * (problem.lam / reach) ** power, math.inf, how)


def _unknown(how: str) -> Interval:
    """Return the placeholder (-inf, inf) for an unknown interval, with the reason."""
    return Interval(-math.inf, math.inf, how)


def _in_their_span(model: RobustMargin, data: Data) -> Data:
    """Return the data in coordinates of the span of the samples, if n > m and U is rotation-invariant.

    A QR decomposition gives the coordinates; x = 0 then takes m equations in place of n. Other data are
    unchanged.
    """
    turns = model.set.in_features() is None
    if not turns or data.n <= data.m or not isinstance(data.X, np.ndarray):
        return data
    factor = np.asarray(np.linalg.qr(data.X.T, mode="r"))
    return data.with_coordinates(np.ascontiguousarray(factor.T))


def intervals_of_sizes(
    model: RobustMargin, names: tuple[str, ...], data: Data, time_limit: float = math.inf
) -> dict[str, Interval]:
    """Return the admissible intervals of parameters whose sizes grow together along one ray.

    The ray goes from the smallest sizes that leave a point of U, by multiples of themselves (of 1 where they
    are 0), to where 0 enters U. The interval of one parameter is the ray of its size alone.

    Parameters
    ----------
    time_limit : seconds for each end

    Raises
    ------
    CompositionError, EmptySetError, SolverError
        As `ucm.admissible`.
    """
    model, grows = model.without_ranges(), {}
    for name in names:
        direction = grows_with(model, data, name)
        if isinstance(direction, str):
            return {name: _unknown(direction)}
        grows[name] = direction
    data, alone, listed = _in_their_span(model, data), len(names) == 1, ", ".join(names)
    name, monitor = names[0], Monitor(time_limit=None if math.isinf(time_limit) else time_limit)

    def at(sizes: Mapping[str, float]) -> RobustMargin:
        return model.with_params(**{n: as_size(grows[n], t) for n, t in sizes.items()})

    if alone:
        large = as_size(grows[name], model.params()[name])
    else:
        together = smallest_feasible(lambda t: at(dict.fromkeys(names, t)), data, 1.0, listed)
        large = max(1.0, together)
    least = {
        n: smallest_feasible(lambda t, n=n: at({**dict.fromkeys(names, large), n: t}), data, large, n)  # type: ignore[misc]
        for n in names
    }
    how_empty = "the smallest sizes at which U is not empty"
    if alone:
        end, how_empty = _smallest_by_program(model, data, name, grows[name], large, time_limit)
        how_empty = how_empty or ("closed form" if least[name] > 0.0 else "U is not empty at any size")
        least[name] = max(least[name], end)
    start = 1.0 if any(least.values()) else 0.0

    def sizes(t: float) -> dict[str, float]:
        return {n: least[n] + (t - start) * (least[n] or 1.0) for n in names}

    solves = _SOLVES if alone else _SOLVES_OF_SEVERAL
    bounds = zero_entry(lambda t: at(sizes(t)), data, start, monitor, solves)
    zero, first_with_zero = bounds.lower, bounds.upper
    how_zero = "0 enters U: a w separates 0 from every smaller set, and a slightly larger set has 0"
    if math.isinf(zero):
        how_zero = "0 never enters U: one w separates 0 from U at every size"
    elif not bounds.proven and (monitor.timed_out or not alone):
        within = f" within {time_limit:g} s; raise time_limit, or" if monitor.timed_out else ";"
        remedy = "" if alone else ", or give one of them as a number"
        raise SolverError(
            f"admissible: the end at which 0 enters, for {listed}, was not found{within} scale the features"
            f"{remedy}"
        )
    elif not bounds.proven:
        end, how_zero = _program(model, data, name, True, monitor.seconds_left)
        size = math.inf if end is None else as_size(grows[name], end)
        zero = first_with_zero = start + (size - least[name]) / (least[name] or 1.0)
    # a difference of rounding counts as 0
    if (zero - start) * (least[name] or 1.0) <= 1e-8 * max(least[name], large if alone else 1.0):
        zero = start
    intervals = {}
    for n in names:
        first, last, beyond = (as_size(grows[n], sizes(t)[n]) for t in (start, zero, first_with_zero))
        gap, inside = 0.0 if math.isinf(zero) else abs(beyond - last), zero > start
        empty, entry = ("lower", "upper") if grows[n] else ("upper", "lower")
        how = {empty: how_empty, entry: how_zero}
        ray = "" if alone else f"{listed} together: "
        intervals[n] = Interval(
            min(first, last), max(first, last),
            f"{ray}lower: {how['lower']}; upper: {how['upper']}",
            inside and grows[n], inside and not grows[n], gap,
        )  # fmt: skip
    return intervals


def _smallest_by_program(
    model: RobustMargin, data: Data, name: str, grows: bool, present: float, time_limit: float
) -> tuple[float, str]:
    """Return the least size at which the operands of every intersection meet, and the kind of program used.

    It is 0 and "" if no intersection depends on the parameter.
    """
    least, how = 0.0, ""
    for U in [V for V in _operands(model.set) if V.lower(data).couplings]:
        end, how_end = _program(replace(model, set=U), data, name, False, time_limit)
        if end is None:
            raise EmptySetError(
                f"admissible: U is empty for every {name}, whatever its size; change another parameter"
            )
        if name not in U.params():
            continue
        how = how_end
        # interior points stop at a positive size; a size below their accuracy is 0
        size = as_size(grows, end)
        least = max(least, size if size > _ACCURACY * present else 0.0)
    return least, how


def _operands(U: UncertaintySet) -> list[UncertaintySet]:
    """Return the summands and union operands of U, recursively, all of which must be nonempty."""
    if isinstance(U, Combination):
        return [V for summand, _ in U.terms() for V in _operands(summand)]
    if isinstance(U, ConvexUnion):
        return [V for operand in U.sets for V in _operands(operand)]
    return [U]


def smallest_feasible(at: Callable[[float], RobustMargin], data: Data, present: float, names: str) -> float:
    """Return the least size t at which the set of `at(t)` has no infeasibility reason, to rounding.

    Raises
    ------
    EmptySetError
        No size up to 1e60 is feasible.
    """
    why: str | None = ""

    def nonempty(t: float) -> bool:
        nonlocal why
        try:
            why = at(t).set.infeasibility_reason(data)
        except CompositionError:  # a parameter leaves its range
            return False
        return why is None

    high = present if 0.0 < present < math.inf else 1.0
    while not nonempty(high):
        high *= 2.0
        if high > 1e60:
            raise EmptySetError(f"admissible: U is empty for every {names} ({why}); change another parameter")
    if nonempty(0.0):
        return 0.0
    # caps are mostly multiples of t, and admit weights if the sum of the caps reaches the required mass
    groups = (g for b in at(high).set.lower(data).blocks for g in b.groups or ())
    full = (g.mass / float(np.broadcast_to(g.cap, g.size).sum()) for g in groups)
    least = high * max(full, default=0.0)
    if nonempty(least) and not nonempty(least * (1.0 - 1e-11)):
        return least
    low = 0.0
    while low < (middle := 0.5 * (low + high)) < high and high - low > 4e-16 * high:
        low, high = (low, middle) if nonempty(middle) else (middle, high)
    return high * (1.0 + 1e-12)  # the sets forgive a relative 1e-12


class _FreeSize(Scope):
    """The scope of a CVXPY problem in which the size with one parameter is a variable."""

    def __init__(self, name: str, unit: float) -> None:
        self.name = self.free = name
        self.t = unit * cp.Variable(nonneg=True)

    def of(self, x: Scalar | Size, signed: bool = False) -> float | cp.Expression:
        if isinstance(x, Size):
            return self.t if holds(x.declared, self.name) else x.number
        return value(x)


def _program(
    model: RobustMargin, data: Data, name: str, through_zero: bool, time_limit: float
) -> tuple[float | None, str]:
    """Return by a program the parameter value at the least size for a nonempty U, or for 0 in U.

    U must contain 0 if `through_zero` is True. The value is None if there is no such size. The second result
    is the kind of program.

    Raises
    ------
    CompositionError
        The program is not convex.
    SolverError
        The program was not solved.
    """
    sizes = _kinds(model, data, name)
    if len(sizes) > 1 or _multiplied(model, name):
        raise CompositionError(
            f"admissible: only a program could find an end for {name}, got sizes of different kinds that it "
            "sets, whose program is not convex; give each kind a Param of its own"
        )
    size = sizes[0] if sizes else Size(Param(name, 1.0))
    unit = size.number if 0.0 < size.number < math.inf else 1.0
    scope = _FreeSize(name, unit)
    x, constraints = model.set.cvxpy(data, scope)
    if through_zero:
        constraints = [*constraints, x / data.scale == 0]
    problem = cp.Problem(cp.Minimize(scope.t / unit), constraints)
    linear = problem.is_lp()
    how = "linear program by HiGHS" if linear else "conic program by Clarabel"
    limit = {} if math.isinf(time_limit) else {"time_limit": time_limit}
    # interior points without crossover have called feasible programs infeasible, or not ended
    options: Any = {"scipy_options": {"method": "highs-ds", **limit}} if linear else limit
    failure = attempt(problem, cp.SCIPY if linear else cp.CLARABEL, **options)
    if problem.status in ("infeasible", "infeasible_inaccurate") and not failure:
        return None, f"infeasible {how}: no size contains 0"
    if failure or scope.t.value is None:
        raise SolverError(
            f"admissible: the {how} for {name} failed ({failure[:200] or problem.status}); "
            "scale the features, or raise time_limit"
        )
    return float(size.inverse(max(float(scope.t.value), 0.0))), how


def advice(model: RobustMargin, data: Data, monitor: Monitor, *, empty: bool = False) -> str:
    """Return advice on an empty set or a set with 0, as text with the admissible interval of each parameter.

    Intervals for which no time is left are not computed.
    """
    names = list(model.params())
    if not names:
        change = "one of the sets that meet larger" if empty else "the set smaller"
        return f"Make {change}: name its size with a Param to get its admissible range."
    words = []
    for name in names:
        present = model.params()[name]
        if monitor.timed_out:
            words.append(f"{name} (now {present:g}): no time was left to find its range")
            continue
        try:
            seconds = min(_ADVICE, monitor.seconds_left / _INTERVALS)
            interval = intervals_of_sizes(model, (name,), data, seconds)[name]
        except (SolverError, EmptySetError, CompositionError) as error:
            words.append(f"{name} (now {present:g}): its range is not known, {error}")
            continue
        if interval.empty:
            words.append(f"no value of {name} works (now {present:g})")
        else:
            words.append(f"{name} must lie in {interval.bounds}, now {present:g}")
    return "; ".join(words) + "."
