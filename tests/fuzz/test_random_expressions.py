"""Random set expressions under every norm, against a CVXPY twin that is written in `twins.py`.

Within `TOUCH` of touching (0 on the boundary of U, operands of `&` that barely meet) either answer
counts, as the data themselves are known to no more than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import twins
from claims import apart, held
from draws import Case, Source, case
from guard import Tally, fuzz, guarded

import ucm
from ucm.errors import CompositionError, EmptySetError, SolverError

TOUCH = 1e-6
UNDECIDED = ("max_iter", "converged", "stalled")


class Nearest:
    """The distance of a set from 0 by Clarabel, every feature in units of its largest entry."""

    def __init__(self, c: Case) -> None:
        p = c.model.norm
        self.dual = 1.0 if p == np.inf else np.inf if p == 1.0 else p / (p - 1.0)
        dim = c.model.set.dimension(c.X.shape[1])
        data = twins.Bound.of(c.X, c.y, c.options)
        self.point, self.inside = twins.points(c.model.set, data, dim)
        unit = data.in_units(c.model.set, dim)
        self.scale = float(unit.max())
        z = cp.Variable(dim)
        same = z == cp.multiply(1.0 / unit, self.point)
        nearest = twins.norm(cp.multiply(unit / self.scale, z), self.dual)
        self.said = twins.solve(cp.Problem(cp.Minimize(nearest), [same, *self.inside]))
        self.z = np.zeros(dim) if z.value is None else unit * z.value
        self.value = -self.length(self.z)

    def length(self, x: np.ndarray) -> float:
        top = float(np.abs(x).max())
        return top * float(np.linalg.norm(x / top, self.dual)) if top > 0.0 else 0.0

    def support(self, d: np.ndarray) -> float:
        """The largest `d'x` over the set; NaN where Clarabel does not tell."""
        problem = cp.Problem(cp.Maximize(d @ (self.point / self.scale)), self.inside)
        said = twins.solve(problem)
        return self.scale * float(problem.value) if said == "optimal" else np.nan  # type: ignore[arg-type]

    def touching(self) -> bool:
        """Whether the set is within TOUCH of being empty, or of not being so."""
        barely = twins.slack(self.inside, equations=True) <= TOUCH
        return barely and twins.slack(self.inside, equations=False) >= -TOUCH


def refused(c: Case, nearest: Nearest, why: str) -> str:
    if nearest.said == "optimal":
        assert nearest.touching(), f"refused, and the reference is not empty: {why}"
    return "empty"


def rooted(c: Case) -> float:
    """How far points of norms that are one to TOUCH are apart: its p-th root."""
    exponents = [getattr(node, "p", 2.0) for node in c.model.walk()]
    return TOUCH ** (1.0 / max(p for p in (2.0, *exponents) if p < np.inf))


def compare(c: Case, tally: Tally) -> str:
    """Raises `AssertionError` on disagreement, returns what both said."""
    nearest = Nearest(c)
    try:
        sol: Any = guarded(c.solve)
    except EmptySetError as error:
        return refused(c, nearest, str(error))
    except CompositionError as error:
        raise AssertionError(f"refused: {error}") from error
    except SolverError as error:
        if nearest.said == "optimal" and nearest.value < -TOUCH * nearest.scale:
            tally.convex += 1
            tally.doubt(c, f"SolverError: {error}")
        return "solver error"
    told = f"{sol.stats.solver}: {sol.status} {sol.objective:.10g}, the reference is {nearest.said} "
    if nearest.said == "failed":
        return "reference failed"
    if nearest.said == "empty":
        if not nearest.touching():
            if sol.status == "optimal":
                raise AssertionError(told + sol.message)
            return "empty, and not said"
        return "touching"
    value, claimed = nearest.value, sol.status == "optimal"
    told += f"{value:.10g}: {sol.message}"
    size = max(sol.size, abs(value), nearest.scale)
    tol = c.options.get("tol", 1e-6)
    held(sol, tol)
    if value < -TOUCH * size:  # convex
        tally.convex += 1
        off = max(abs(sol.objective - value) - tol * abs(value), 0.0)
        bounds = sol.certificate
        if bounds.kind == "global":
            false = max(bounds.dual - value, value - bounds.primal) > TOUCH * (abs(value) + size)
            assert not false or nearest.touching(), f"a false bound, {bounds}; {told}"
        if tol > 1e-6:
            other = guarded(lambda: ucm.solve(c.model, c.X, c.y, **{**c.options, "tol": 1e-6}))
            far = apart(sol, other)
            assert far <= 1e-9 * (abs(value) + size), f"{told}; another proof is {other.certificate}"
        if claimed and off > TOUCH * (abs(value) + size):
            # a set without interior, as one of a size that is just admissible, is known to less
            assert off <= rooted(c) * size and nearest.touching(), told
        if not claimed:
            tally.doubt(c, told)
        highest = nearest.support(-sol.w) if sol.w is not None and claimed else np.nan
        too_low = highest > sol.certificate.primal + 1e-5 * (size + abs(value))
        assert not too_low or nearest.touching(), f"{told}; a support is {highest:.10g}"
        return "optimal" if claimed else "convex, not proven"
    if sol.w is None or not np.any(sol.w):
        assert abs(sol.objective) <= 1e-5 * size, told
        said = sol.status in ("zero_in_set", "optimal", "local", "stationary")
        return "0 in U, no direction" if said else f"0 in U, {sol.status}"
    return beyond(c, nearest, sol, told, size, tally)


def beyond(c: Case, nearest: Nearest, sol: Any, told: str, size: float, tally: Tally) -> str:
    """0 in U: the value is that of w, and no direction is below a bound that is called proven; where U
    is flat, the least of its span. A convex solver that ended before it knew says so, and proves nothing
    else."""
    tol = 1e-5 * size
    if sol.objective < 0.0 and sol.status in UNDECIDED:
        assert not sol.certificate.primal < -tol or nearest.touching(), told
        tally.convex += 1
        tally.doubt(c, told)
        return "0 in U, not decided"
    highest = nearest.support(-sol.w)
    if np.isnan(highest):
        return "0 in U, reference failed"
    assert abs(np.linalg.norm(sol.w, c.model.norm) - 1.0) <= 1e-6, told
    off = abs(highest - sol.objective)
    assert off <= tol or nearest.touching(), f"{told}; its support is {highest:.10g}"
    if sol.status == "optimal" and "in the span of U" not in sol.message:
        rng = np.random.default_rng(0)
        for k in range(6):
            d = rng.standard_normal(sol.w.size)
            d = d if k < 2 else sol.w + 0.1**k * d
            d = d / np.linalg.norm(d, c.model.norm)
            least = nearest.support(-d)
            lower = least < sol.certificate.dual - tol
            assert not lower or nearest.touching(), f"{told}; {d} has {least:.10g}"
    return f"0 in U, {sol.status}"


def test_random_sets_agree_with_the_twin(record_property: Callable[[str, object], None]) -> None:
    fuzz(case, compare, record_property, few=20, many=10_000)


@pytest.mark.slow
def test_the_samples_of_expressions_are_of_every_kind() -> None:
    """What a fixed run of the generator meets: no answer and no node is missing."""
    cases = [case(Source(seed)) for seed in range(300)]
    met = {type(node).__name__ for c in cases for node in c.model.walk()}
    assert met >= {
        "Ball", "Box", "CappedSimplex", "ChiSquareBall", "Ellipsoid", "Hull", "AffineImage", "Intersection",
        "ConvexUnion", "KLBall", "LinearCombination", "LossBall", "NormBall", "Point",
    }  # fmt: skip
    assert len({c.model.norm for c in cases}) == 9 and max(len(c.X) for c in cases) > 40
    held = Counter(word for c in cases for word in {type(node).__name__ for node in c.model.walk()})
    assert min(held[word] for word in ("LinearCombination", "Intersection")) >= 15, held
    words = (
        "sample_weight",
        "class_weight",
        "Param",
        "** 2",
        "** 0.5",
        "uniform",
        "relative=True",
        "group(",
    )
    assert all(sum(word in repr(c) for c in cases) >= 5 for word in words)
    tally = Tally()
    said = Counter(compare(c, tally).partition(",")[0] for c in cases[:50])
    assert said["optimal"] >= 3 and said["0 in U"] >= 3 and said["empty"] >= 1, said
