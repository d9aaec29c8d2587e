"""Random losses and penalties: values by definition, trivial points, Clarabel where they are convex."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import twins
from claims import apart, held
from draws import Case, Source, constrained, extended, objective
from guard import Tally, fuzz, guarded

import ucm
from ucm.errors import CompositionError, DataError, EmptySetError, SolverError

CLOSE = 2e-6
WORDS = ("on=pos", "on=neg", "group(", "weights=", "sample_weight", "class_weight", "Param")
REFUSED = ("penalty of the intercept", "is in no group", "rows that contradict", "no w has")
NAMED = (
    "optimal", "converged", "max_iter", "stalled", "local", "stationary", "unattained", "unbounded",
)  # fmt: skip


def others(c: Case, data: twins.Bound, sol: Any) -> list[tuple[np.ndarray, float]]:
    """Points that an optimum must not be above: w = 0, the means apart, near to the answer."""
    rng, n = np.random.default_rng(0), c.X.shape[1]
    apart = c.X[c.y > 0].mean(axis=0) - c.X[c.y < 0].mean(axis=0)
    normals = [np.zeros(n)]
    for size in (1.0, 0.01):
        unit = max(float(apart @ apart), 1e-300)
        normals.append(size * apart / unit)
    points = [(w, twins.intercept(c.model, data, w)[0]) for w in normals]
    if np.any(sol.w):
        points.append((sol.w, twins.intercept(c.model, data, sol.w)[0]))
        points += [(sol.w * (1 + 0.1**k * rng.standard_normal(n)), sol.b) for k in (1, 3)]
        points.append((0.999 * sol.w, sol.b))
    return points


def compare(c: Case, tally: Tally) -> str:
    convex, data = twins.convex(c.model), twins.Bound.of(c.X, c.y, c.options)
    said, best = twins.minimum(c.model, data) if convex else ("failed", np.inf)
    if convex and said == "optimal":
        tally.convex += 1
    try:
        sol: Any = guarded(c.solve)
    except DataError as error:  # weights of 0 leave a group without samples
        if "leave the group out" not in str(error):
            raise AssertionError(f"refused: {error}") from error
        return "refused"
    except CompositionError as error:
        if not any(words in str(error) for words in REFUSED):
            raise AssertionError(f"refused: {error}") from error
        return "refused"
    except EmptySetError as error:
        if said == "optimal":
            raise AssertionError(f"refused, and the reference has {best:.10g}") from error
        return "empty"
    except SolverError as error:
        if said == "optimal":
            tally.doubt(c, f"SolverError: {error}")
        return "solver error"
    told = f"{sol.stats.solver}: {sol.status} {sol.objective:.10g}, {sol.certificate}: {sol.message}"
    assert sol.status in NAMED, told
    tol = c.options.get("tol", 1e-6)
    held(sol, tol)
    if sol.status in ("unattained", "unbounded"):
        assert not convex or said != "optimal" or sol.status == "unattained", told
        return sol.status
    here = twins.objective(c.model, data, sol.w, sol.b)
    if np.isnan(here):
        return "reference failed"
    if np.isinf(here) and sol.certificate.kind == "none":  # as of exponentials at every w of a constraint
        return "no finite value"
    zero = np.zeros(c.X.shape[1])
    least = twins.intercept(c.model, data, zero)[1]
    terms = least if np.isfinite(least) else twins.loss(c.model.loss, np.zeros(data.y.size), data)
    off = abs(here - sol.objective)
    far = 1e-26 * float(sol.w @ sol.w) if "Quadratic" in repr(c.model) else 0.0  # along a flat direction
    assert off <= 1e-8 * abs(here) + 1e-14 * terms + far, f"{told}; its value is {here:.10g}"
    # --- a point below what is called optimal, or below the trivial ones
    assert here * (1 - tol) <= least * (1 + CLOSE) + 1e-12, f"{told}; w = 0 has {least:.10g}"
    if sol.status == "optimal" or sol.certificate.kind == "global":
        values = [twins.objective(c.model, data, *point) for point in others(c, data, sol)]
        values += [best] if said == "optimal" else []
        lowest = min(v for v in values if np.isfinite(v))
        bound = sol.certificate.dual
        assert bound <= lowest * (1 + CLOSE) + 1e-12, f"{told}; one has {lowest:.10g}"
        if sol.status == "optimal":
            assert here * (1 - tol) <= lowest * (1 + CLOSE) + 1e-12, f"{told}; one has {lowest:.10g}"
    # below 1e-9 of the losses at w = 0, and above the answer, Clarabel has none either
    known = said == "optimal" and 1e-9 * least < best <= here * (1 + 1e-6)
    if convex and tol > 1e-6:
        other = guarded(lambda: ucm.solve(c.model, c.X, c.y, **{**c.options, "tol": 1e-6}))
        far = apart(sol, other)
        assert far <= 1e-9 * abs(here) + 1e-13 * least, f"{told}; another proof is {other.certificate}"
    if known and sol.status != "optimal":
        tally.doubt(c, f"{told}, Clarabel has {best:.10g}")
    return f"{'convex' if convex else 'not convex'}, {sol.status}"


def test_random_objectives_agree_with_their_definitions(
    record_property: Callable[[str, object], None],
) -> None:
    fuzz(objective, compare, record_property, few=20, many=3_000)


def test_random_worst_means_constraints_and_intercepts_agree_with_their_definitions(
    record_property: Callable[[str, object], None],
) -> None:
    fuzz(constrained, compare, record_property, few=10, many=1_500)


def test_random_robust_samples_cardinalities_and_label_flips_agree_with_their_definitions(
    record_property: Callable[[str, object], None],
) -> None:
    fuzz(extended, compare, record_property, few=8, many=1_500)


@pytest.mark.slow
def test_the_samples_of_objectives_are_of_every_kind() -> None:
    cases = [objective(Source(seed)) for seed in range(400)]
    met = {type(node).__name__ for c in cases for node in c.model.walk()}
    assert met >= {
        "Exponential", "Hinge", "Logistic", "Ramp", "LossSum", "L1", "L2", "Lp",
        "ExpL0", "CappedL1", "MCP", "SCAD", "PenaltySum", "HuberHinge", "LeastSquares",
        "Norm", "Bounds", "Quadratic", "GroupLasso", "GroupMCP",
    }  # fmt: skip
    assert all(sum(word in repr(c) for c in cases) >= 15 for word in WORDS)
    convex = sum(twins.convex(c.model) for c in cases)
    assert 100 <= convex <= 300


def test_the_samples_of_worst_means_and_constraints_are_of_every_kind() -> None:
    cases = [constrained(Source(seed)) for seed in range(300)]
    met = Counter(type(node).__name__ for c in cases for node in c.model.walk())
    kinds = (
        "WorstMean", "LinearConstraint", "Bounds", "PooledMean", "KLBall", "LossBall",
        "ChiSquareBall", "CappedSimplex", "NormBall", "Box", "DomainIntersection", "MCP", "Ramp",
    )  # fmt: skip
    assert all(met[kind] >= 5 for kind in kinds), met
    assert min(Counter(c.model.intercept for c in cases).values()) >= 30
    words = ("groups=(", "sample_weight", "class_weight", "lb=(", "on=pos")
    assert all(sum(word in repr(c) for c in cases) >= 15 for word in words)


def test_the_samples_of_robust_objectives_are_of_every_kind() -> None:
    cases = [extended(Source(seed)) for seed in range(300)]
    met = Counter(type(node).__name__ for c in cases for node in c.model.walk())
    kinds = (
        "Robust", "FeatureDeletion", "PerSampleImage", "PerSampleMultiple", "KSupport", "Cardinality",
        "WassersteinObjective", "WorstMean", "Ellipsoid", "LinearConstraint",
    )  # fmt: skip
    assert all(met[kind] >= 10 for kind in kinds), met
