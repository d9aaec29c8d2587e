"""Answers of other software, perturbed at random: no bound of `certify` is above the value of a point."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import twins
from draws import Case, Source, case, constrained, extended, objective
from guard import Tally, fuzz, guarded

import ucm
from ucm.errors import UCMError

CLOSE, PROGRAM = 1e-9, 1e-8
"""Relative accuracy of values in closed form, and of those that are conic programs."""


def _changes(rng: np.random.Generator, v: np.ndarray) -> list[np.ndarray]:
    """A vector scaled, swapped, reversed, negated, with noise, with an entry that is no number, far off."""
    i, j = rng.integers(v.size, size=2)
    swapped, broken = v.copy(), v.copy()
    swapped[[i, j]] = v[[j, i]]
    broken[i] = rng.choice([np.nan, np.inf])
    noise = rng.standard_normal(v.size)
    top = float(np.abs(v).max(initial=0.0)) or 1.0
    return [
        v, 0.9 * v, 1.1 * v, swapped, v[::-1].copy(), -v, 0.0 * v, broken,
        v + 10.0 ** rng.uniform(-9, 0) * top * noise, np.abs(noise), 10.0 ** rng.uniform(-8, 8) * noise,
    ]  # fmt: skip


def _certified(plan: Any, **answer: Any) -> Any:
    """The certificate, or None where the library refuses the answer by an error of its own."""
    try:
        return guarded(lambda: plan.certify(**answer), extreme=True)
    except UCMError:
        return None


def _bound_of(plan: Any, c: Case, sol: Any, rng: np.random.Generator, lowest: float, size: float) -> int:
    """Judge the certificates of perturbed answers: their lower bounds are below `lowest`."""
    told, programs = 0, any(isinstance(node, ucm.WorstMean) for node in c.model.walk())
    far = (PROGRAM if programs else CLOSE) * size
    of_set = isinstance(c.model, ucm.RobustMargin)
    points = _changes(rng, np.asarray(sol.w, dtype=float))
    for k, w in enumerate(points):
        others = _changes(rng, sol.weights) if sol.weights is not None else []
        # all weights beside the answer itself, beside each perturbed w those as they are and changed once
        for weights in (None, *(others if k == 0 else others[: 1 + k : k])):
            b = {} if of_set else {"b": sol.b}
            proof = _certified(plan, w=w, weights=weights, **b)
            if proof is None or proof.kind not in ("global", "none"):
                continue
            told += 1
            assert not proof.dual > lowest + far, f"{proof}; a point has {lowest:.10g}"
            if proof.kind == "global":
                assert proof.primal >= proof.dual - far, f"{proof}"
    return told


def of_objective(c: Case, tally: Tally) -> str:
    if not twins.convex(c.model):
        return "not convex"
    data = twins.Bound.of(c.X, c.y, c.options)
    options = {name: v for name, v in c.options.items() if name != "tol"}
    try:
        with warnings.catch_warnings(action="ignore"):
            plan = ucm.compile(c.model, c.X, c.y, **options)
            sol = plan.solve(tol=1e-8)
    except UCMError:
        return "refused"
    zero = np.zeros(c.X.shape[1])
    least = twins.intercept(c.model, data, zero)[1]
    values = [
        least,
        twins.objective(c.model, data, sol.w, sol.b or 0.0),
        twins.intercept(c.model, data, sol.w)[1],
    ]
    lowest = min((v for v in values if np.isfinite(v)), default=np.inf)
    if lowest == np.inf:
        return "no value"
    # an optimum of 0 is one of terms that have the size of the losses at w = 0, b = 0
    least = abs(least) if np.isfinite(least) else 0.0
    size = max(abs(lowest), 1e-6 * least, 1e-6 * twins.loss(c.model.loss, np.zeros(data.y.size), data))
    return "judged" if _bound_of(plan, c, sol, np.random.default_rng(c.X.size), lowest, size) else "none"


def of_set(c: Case, tally: Tally) -> str:
    options = {name: v for name, v in c.options.items() if name != "tol"}
    try:
        with warnings.catch_warnings(action="ignore"):
            plan = ucm.compile(c.model, c.X, c.y, **options)
            sol = plan.solve(tol=1e-8, time_limit=2.0)
    except UCMError:
        return "refused"
    if sol.w is None or not sol.w.any() or not sol.objective < 0.0:
        return "0 in the set"
    rng = np.random.default_rng(c.X.size)
    judged = replace(c, model=plan.model)
    size = max(abs(sol.certificate.primal), 1e-6 * float(sol.size))
    return "judged" if _bound_of(plan, judged, sol, rng, sol.certificate.primal, size) else "none"


def test_perturbed_answers_of_objectives(record_property: Callable[[str, object], None]) -> None:
    fuzz(objective, of_objective, record_property, few=12, many=1_000)


def test_perturbed_answers_of_worst_means_constraints_and_intercepts(
    record_property: Callable[[str, object], None],
) -> None:
    fuzz(constrained, of_objective, record_property, few=3, many=300)


@pytest.mark.slow
def test_perturbed_answers_of_robust_samples_numbers_of_features_and_flips(
    record_property: Callable[[str, object], None],
) -> None:
    fuzz(extended, of_objective, record_property, few=3, many=300)


def test_perturbed_answers_of_sets(record_property: Callable[[str, object], None]) -> None:
    fuzz(case, of_set, record_property, few=12, many=1_000)


def test_the_perturbed_answers_are_judged() -> None:
    cases = [objective(Source(seed)) for seed in range(12)]
    assert sum(of_objective(c, Tally()) == "judged" for c in cases) >= 3
