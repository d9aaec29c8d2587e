"""Admissible intervals of parameters: the values for which a model is neither empty nor trivial."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from ucm.data.bound_data import Data
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.language.contracts import Domain, Size, UncertaintySet
from ucm.language.domains import LossBall
from ucm.language.losses import Hinge
from ucm.language.node import Node
from ucm.language.objective import Objective, split_scalar
from ucm.language.parameter import Expression, Param, holds
from ucm.language.robust import RobustMargin
from ucm.language.sets.combination import Combination
from ucm.language.terms import JointLoss
from ucm.numerics.coordinates import OrthonormalCoordinates
from ucm.ranges.generalised_nu_svm import GeneralisedNuSVM
from ucm.ranges.interval import Interval
from ucm.ranges.lambda_max import lambda_max
from ucm.ranges.zero_entry import contains_zero, coupling_units, forms_of, zero_entry

_TRIED = (0.5, 0.6, 0.75)  # arguments at which functions are compared


# --- which sets a parameter makes larger ------------------------------------------------------------
def own_size(node: Node, data: Data) -> Size | None:
    """Return the size of a set or a domain; None for other nodes and for sets or domains without a size."""
    match node:
        case UncertaintySet():
            return node.size(data)
        case Domain():
            return node.size()
    return None


@dataclass(frozen=True)
class Effects:
    """The scalars through which a parameter changes the sets of a model.

    These are sizes, as distinct functions of the parameter, and multiplied summands with their factors.
    """

    sizes: list[Size] = field(default_factory=list)
    factors: list[tuple[UncertaintySet, Expression]] = field(default_factory=list)
    why: str = ""


def _parts(node: Node) -> Iterator[Node]:
    """Yield a node and its descendants; those of a `Combination` are its terms, which may not be fields."""
    yield node
    terms = chain.from_iterable(node.terms()) if isinstance(node, Combination) else node.children()
    for x in terms:
        if isinstance(x, Node):
            yield from _parts(x)


def effects(model: RobustMargin, data: Data, name: str) -> Effects:
    """Return the scalars through which a parameter changes the sets, or the reason `why` if it does more."""
    nodes = list(_parts(model))
    every = (own_size(node, data) for node in nodes)
    sizes = [(size, size.declared) for size in every if size is not None and holds(size.declared, name)]
    sums = [node for node in nodes if isinstance(node, Combination)]
    factors = [(U, L) for node in sums for U, L in node.terms() if holds(L, name)]
    functions: dict[Hashable, Size] = {}
    for k, (size, scalar) in enumerate((*sizes, *((Size(L), L) for _, L in factors))):
        inverse = scalar.inverse(name)
        if inverse is None:
            return Effects(why=f"{scalar.name} does not rise or fall with {name} alone; not computed")
        if k < len(sizes):
            heights = tuple(size.derived(x) for x in _TRIED)  # equal for equal functions
            functions[size.declared, heights] = _of_parameter(size, scalar, inverse, name)
    used = sum(isinstance(p, Param) and p.name == name for p in nodes)
    if not used:
        return Effects(why=f"{name} stands for a radius, which is found with the data; not computed")
    if any(isinstance(V, LossBall) and name in V.loss.params() for V in nodes):
        return Effects(why=f"{name} is a factor of the loss of a ball of weights, no size; not computed")
    if used == sum(size.times for size, _ in sizes) + len(factors):
        return Effects(list(functions.values()), factors)
    for V in nodes:
        if isinstance(V, Domain) and V.size() is None and name in V.params():
            kind = type(V).__name__
            return Effects(
                why=f"{kind} has the parameter {name} and no size; its method size() tells which of its "
                "parameters makes it larger"
            )
    return Effects(why=f"{name} is no size of a set; not computed")


def _of_parameter(size: Size, scalar: Expression, inverse: Callable[[float], float], name: str) -> Size:
    """Return a size as a function of one parameter in its scalar, at the present values of the others."""
    return Size(
        Param(name, scalar.params()[name]),
        lambda v: size.derived(_at(scalar, name, v)),
        lambda t: inverse(size.inverse(t)),
    )


def _at(scalar: Expression, name: str, value: float) -> float:
    """Return the value of a scalar at another value of one of its parameters."""
    return scalar.at(lambda p: value if p.name == name else p.value)


def size_of(model: RobustMargin, data: Data, name: str) -> Size | str:
    """Return the unique size in which a parameter occurs, as a function of it; or the reason for none."""
    changed = effects(model, data, name)
    if changed.why:
        return changed.why
    if len(changed.sizes) != 1 or changed.factors:
        return f"{name} sets sizes of different kinds; not computed"
    return changed.sizes[0]


def grows_with(model: RobustMargin, data: Data, name: str) -> bool | str:
    """Return True if U grows with the parameter, False if U shrinks, or the reason if neither is known."""
    changed = effects(model, data, name)
    if changed.why:
        return changed.why
    directions = {size.grows for size in changed.sizes}
    for U, L in changed.factors:
        if model.set.terms() == ((U, L),):
            return f"{name} scales a set that is all of U, and the classifier stays the same"
        form = forms_of(lambda _, U=U: replace(model, set=U), data)(0.0)
        if form is None or not contains_zero(form, data.scale):
            return f"{name} scales a set without 0, which moves with it; not computed"
        present = L.params()[name]
        directions.add(abs(_at(L, name, present * (1.0 + 1e-6) + 1e-12)) > abs(_at(L, name, present)))
    if len(directions) > 1:
        return f"{name} makes one set larger and another one smaller; not computed"
    return directions.pop()


def as_size(grows: bool, x: float) -> float:
    """Return x if U grows with the parameter, else 1/x, a size with which U grows; an involution."""
    return x if grows else 1.0 / x if x else math.inf


# --- the ends ----------------------------------------------------------------------------------------
def interval_of(
    model: RobustMargin | Objective, data: Data, name: str, time_limit: float = math.inf
) -> Interval:
    """Return the admissible interval of one parameter for bound data, at given values of the others.

    The time limit is in seconds for each end; errors as of `ucm.admissible`.
    """
    if isinstance(model, Objective):
        found = _of_weights(model, data, name, time_limit) or lambda_max(model, data, name)
        return found or declared_range(model, name)
    if model.by_lam:
        return _of_lam(model, data, name)
    return intervals_of_sizes(model, (name,), data, time_limit)[name]


def weight_sets(model: Objective, name: str) -> list[UncertaintySet]:
    """Return the sets of weights of the worst means of an objective whose domain has the parameter."""
    joint = (h for h in model.loss.nodes_of_type(JointLoss) if name not in h.loss.params())
    return [U for h in joint if name in (U := h.weight_set).params()]


def _of_weights(model: Objective, data: Data, name: str, time_limit: float) -> Interval | None:
    """Return the interval in which the worst means of an objective have weights; None without such a size."""
    sets = weight_sets(model, name)
    sizes = [intervals_of_sizes(RobustMargin(U), (name,), data, time_limit)[name] for U in sets]
    if not sizes or min(x.lower for x in sizes) == -math.inf:
        return None
    low, high = max(x.lower for x in sizes), min(x.upper for x in sizes)
    how = "in it the domain of a worst mean has weights for these samples"
    return Interval(low, high, how, any(x.lower_closed for x in sizes), any(x.upper_closed for x in sizes))


def declared_range(model: Objective, name: str) -> Interval:
    """Return (0, inf), (0, 1] if the terms refuse 2, or (-inf, inf) if they take whole numbers only."""

    def takes(x: float) -> bool:
        try:
            model.with_params(**{name: x})
        except (CompositionError, ParameterError):
            return False
        return True

    if not takes(2.0):
        return Interval(0.0, 1.0, "declared range", upper_closed=True)
    if not takes(1.5):
        return _unknown(f"{name} is a whole number; name its values")
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
    if model.set.in_features() is not None or data.n <= data.m or not isinstance(data.X, np.ndarray):
        return data
    return data.with_coordinates(OrthonormalCoordinates(data.X).tables[0])


def intervals_of_sizes(
    model: RobustMargin, names: tuple[str, ...], data: Data, time_limit: float = math.inf
) -> dict[str, Interval]:
    """Return the admissible intervals of parameters whose sizes grow together along one ray.

    The ray goes from the smallest sizes that leave a point of U, by multiples of themselves (of 1 where
    they are 0), to where 0 enters U. The interval of one parameter is the ray of its size alone. The
    time limit is in seconds for each end; errors as of `ucm.admissible`.
    """
    grows: dict[str, bool] = {}
    for name in names:
        direction = grows_with(model, data, name)
        if isinstance(direction, str):
            return {name: _unknown(direction)}
        grows[name] = direction
    data, alone, listed = _in_their_span(model, data), len(names) == 1, ", ".join(names)
    monitor = Monitor.within_limit() if math.isinf(time_limit) else Monitor(time_limit=time_limit)

    def at(sizes: dict[str, float]) -> RobustMargin:
        return model.with_params(**{n: as_size(grows[n], t) for n, t in sizes.items()})

    def smallest(name: str, others: dict[str, float]) -> tuple[float, bool]:
        return smallest_nonempty(lambda t: at({**others, name: t}), data, large, name, monitor)

    if alone:
        large = as_size(grows[listed], model.params()[listed])
        smallest_sizes = {listed: smallest(listed, {})}
    else:
        together = smallest_feasible(lambda t: at(dict.fromkeys(names, t)), data, 1.0, listed)
        large = max(1.0, together)
        smallest_sizes = {n: smallest(n, dict.fromkeys(names, large)) for n in names}
    least = {n: size for n, (size, _) in smallest_sizes.items()}
    start = 1.0 if any(least.values()) else 0.0

    def sizes(t: float) -> dict[str, float]:
        return {n: least[n] + (t - start) * (least[n] or 1.0) for n in names}

    bounds = zero_entry(forms_of(lambda t: at(sizes(t)), data), start, data.scale, monitor)
    zero = bounds.lower
    if not bounds.proven:
        within = f" within {monitor.time_limit:g} s; raise time_limit, or" if monitor.timed_out else ";"
        remedy = "" if alone else ", or give one of them as a number"
        raise SolverError(
            f"admissible: the end at which 0 enters, for {listed}, was not found{within} scale the features"
            f"{remedy}"
        )
    how_empty = "closed form" if start > 0.0 else "U is not empty at any size"
    if start > 0.0 and any(meets for _, meets in smallest_sizes.values()):
        how_empty = "the operands of an intersection meet, and a w separates them at every smaller size"
    how_zero = "0 enters U: a w separates 0 from every smaller set, and a slightly larger set has 0"
    if math.isinf(zero):
        how_zero = "0 never enters U: one w separates 0 from U at every size"
    # a difference of rounding counts as 0
    name = names[0]
    if (zero - start) * (least[name] or 1.0) <= 1e-8 * max(least[name], large if alone else 1.0):
        zero = start
    intervals = {}
    for n in names:
        first, last, beyond = (as_size(grows[n], sizes(t)[n]) for t in (start, zero, bounds.upper))
        if math.isinf(last):  # a confidence ends at 1, where its radius is infinite
            last = min((size.inverse(last) for size in effects(model, data, n).sizes), default=last)
        gap, inside = 0.0 if math.isinf(zero) else abs(beyond - last), zero > start
        ends = (how_empty, how_zero) if grows[n] else (how_zero, how_empty)
        ray = "" if alone else f"{listed} together: "
        intervals[n] = Interval(
            min(first, last), max(first, last), f"{ray}lower: {ends[0]}; upper: {ends[1]}",
            inside and grows[n], inside and not grows[n], gap,
        )  # fmt: skip
    return intervals


def smallest_nonempty(
    at: Callable[[float], RobustMargin], data: Data, present: float, name: str, monitor: Monitor
) -> tuple[float, bool]:
    """Return the least size t at which the set of `at(t)` has a point; True if it is where operands meet.

    Raises `EmptySetError` if U is empty at every size, `SolverError` if the size was not found.
    """
    least = smallest_feasible(at, data, present, name)
    form_at = forms_of(at, data)
    large = form_at(max(least, present))
    if large is None or not large.couplings:
        return least, False
    units = coupling_units(large)

    def apart(t: float) -> MinNorm | None:
        form = form_at(t)
        return None if form is None else form.of_residuals(units)

    meet = zero_entry(apart, least, 1.0, monitor)
    if math.isinf(meet.lower):
        raise EmptySetError(
            f"admissible: U is empty for every {name}, whatever its size; change another parameter"
        )
    if not meet.proven:
        raise SolverError(
            f"admissible: the size at which sets meet, for {name}, was not found; scale the features, or "
            "raise time_limit"
        )
    meets = meet.lower > least  # else no w separates the operands at any size
    return (meet.upper, True) if meets else (least, False)


def smallest_feasible(at: Callable[[float], RobustMargin], data: Data, present: float, names: str) -> float:
    """Return the least size t at which the set of `at(t)` has no infeasibility reason, to rounding.

    Raises `EmptySetError` if no size up to 1e60 is feasible.
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
            # a part of the time left, as other intervals may follow
            seconds = min(5.0, monitor.seconds_left / 4)
            interval = intervals_of_sizes(model, (name,), data, seconds)[name]
        except (SolverError, EmptySetError, CompositionError) as error:
            words.append(f"{name} (now {present:g}): its range is not known, {error}")
            continue
        if interval.empty:
            words.append(f"no value of {name} works (now {present:g})")
        else:
            near = f"{interval.nearest(present):.4g}"
            words.append(f"{name} must lie in {interval.bounds}, now {present:g}; {near} is the nearest")
    return "; ".join(words) + "."
