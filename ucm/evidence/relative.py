"""Relative sizes: fractions of the admissible interval of the data at hand, as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ucm.data.bound import Data
from ucm.errors import CompositionError, EmptySetError, SolverError
from ucm.evidence.admissible import Interval, interval_of, size_of, smallest_by_rule
from ucm.evidence.boundary import boundary
from ucm.forms.monitor import Monitor
from ucm.language.contracts import Size
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

__all__ = ["intervals_of", "resolved"]

Model = TypeVar("Model", bound=RobustMargin | Objective)


def resolved(model: Model, data: Data) -> Model:
    """The model with numbers in place of its relative `Param`s.

    One is the point at its fraction of its admissible interval, the others at their values. Several are
    points on a ray of sizes, which goes from the smallest that leave a point by multiples of themselves
    (of 1 where they are 0) to where 0 enters; each is at its fraction of its own part.

    Raises
    ------
    CompositionError
        A relative `Param` without an interval.
    EmptySetError, SolverError
        As `ucm.admissible`.
    """
    names = model.relative()
    if not names:
        return model
    found = intervals_of(model, data)
    return model.settled({n: found[n].at(x) for n, x in model.params().items() if n in names})


def intervals_of(model: RobustMargin | Objective, data: Data) -> Mapping[str, Interval]:
    """The intervals that the relative `Param`s of a model are fractions of, found once for the data."""
    names = model.relative()
    neutral = model.with_params(**dict.fromkeys(names, 0.5))
    return data.once(("relative", neutral), lambda: _intervals(neutral, names, data))


def _intervals(
    neutral: RobustMargin | Objective, names: tuple[str, ...], data: Data
) -> Mapping[str, Interval]:
    plain = neutral.settled(dict.fromkeys(names, 0.5))
    if len(names) > 1 and isinstance(plain, RobustMargin):
        return _along_a_ray(plain, names, data)
    found = {name: interval_of(plain, data, name) for name in names}
    for name, interval in found.items():
        if math.isinf(interval.lower):
            raise _without(name, interval.how)
    return found


def _without(name: str, why: str) -> CompositionError:
    return CompositionError(
        f"Param({name!r}, relative=True): a fraction of the admissible interval, and there is none ({why}); "
        "give the number, or make it the size of a set"
    )


def _along_a_ray(
    model: RobustMargin, names: tuple[str, ...], data: Data
) -> Mapping[str, Interval]:
    sizes: dict[str, Size] = {}
    for name in names:
        size = size_of(model, data, name)
        if isinstance(size, str):
            raise _without(name, size)
        sizes[name] = size
    if len({leaf for size in sizes.values() for leaf in size.key if leaf in names}) or any(
        sum(p.name in names for p in size.declared.leaves()) > 1  # type: ignore[union-attr]
        for size in sizes.values()
    ):
        raise _without(", ".join(names), "one size is derived from several")

    def at(model: RobustMargin, t: Mapping[str, float]) -> RobustMargin:
        return model.settled({n: float(sizes[n].inverse(x)) for n, x in t.items()})

    large = 1.0
    while at(model, dict.fromkeys(names, large)).set.emptiness(data) is not None:
        large *= 2.0
        if large > 1e60:
            raise EmptySetError(
                f"admissible: U is empty for all sizes of {', '.join(names)}; change another parameter"
            )
    roomy = at(model, dict.fromkeys(names, large))
    least = {
        n: smallest_by_rule(roomy, data, n, replace(sizes[n], declared=1.0))[0] for n in names
    }
    slopes = {n: t or 1.0 for n, t in least.items()}

    def ray(s: float) -> RobustMargin:
        return at(model, {n: least[n] + s * slopes[n] for n in names})

    found = boundary(ray, data, 0.0, Monitor())
    if not found.proven:
        raise SolverError(
            f"admissible: how far {', '.join(names)} go together was not found; give one of them as a number"
        )
    ends = {}
    for n, size in sizes.items():
        ends[n] = float(size.inverse(least[n])), float(
            size.inverse(least[n] + found.lower * slopes[n])
        )
    how = f"{', '.join(names)} together, from the smallest sizes to the multiple at which 0 enters"
    return {
        n: Interval(*pair, how, lower_closed=True) if pair[0] <= pair[1]
        else Interval(*reversed(pair), how, upper_closed=True)
        for n, pair in ends.items()
    }  # fmt: skip
