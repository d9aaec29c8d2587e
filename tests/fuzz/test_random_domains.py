"""Random domains, alone, on the simplex and on two classes: supports, projections, points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import cvxpy as cp
import numpy as np
import twins
from draws import Source, domain, vector, weights
from guard import Tally, fuzz, guarded

from ucm.errors import SolverError
from ucm.extend import value
from ucm.language.contracts import Projectable, SampleWeights

SIZES = (1.0, 1.0, 1e-300, 1e-12, 1e12, 1e150)


@dataclass
class Held:
    """A domain, the domain that was declared where it is cut with the simplex, and a direction."""

    domain: Any
    declared: Any
    g: np.ndarray
    size: float
    classes: np.ndarray | None

    def __repr__(self) -> str:
        classes = None if self.classes is None else self.classes.tolist()
        return f"{self.domain!r}\ng = {self.size:g} * {self.g.tolist()}\nclasses = {classes}"


def held(s: Source) -> Held:
    declared = weights(s) if s.often(3) else domain(s)
    cut = s.often(4)
    many = not s.often(10)
    dim = s.integer(10, 40) if many else s.integer(1, 8)
    classes = None
    if dim > 1 and cut and s.integer(0, 1):
        classes = np.where(np.arange(dim) < s.integer(1, dim - 1), 1.0, -1.0)
    g = vector(s, dim)
    if not s.often(5):
        g = np.full(dim, g[0])
    elif not s.often(5):
        g = np.where(np.arange(dim) == dim - 1, 1.0, 1e-9 * g)
    bound = declared.bind(SampleWeights(dim, None, classes)) if cut else declared
    if not bound.on_simplex:
        bound, classes = declared, None
    return Held(bound, declared, g, s.pick(SIZES), classes)


def outside(declared: Any, q: np.ndarray) -> float:
    """How far q misses the definition of a domain, the simplex apart."""
    kind, N = type(declared).__name__, q.size
    if kind == "DomainIntersection":
        return max(outside(declared.left, q), outside(declared.right, q))
    if kind == "ChiSquareBall":
        level = declared.level
        z = 0.0 if level is None else NormalDist().inv_cdf(value(level))
        rho = value(declared.rho) if level is None else z * z / N
        return float(np.linalg.norm(N * q - 1.0) - math.sqrt(rho * N)) / N
    if kind == "NormBall":
        q = q if declared.around is None else q - 1.0 / N
        top = np.abs(q).max()
        p = declared.p
        length = top if top == 0 or math.isinf(p) else float(top * (np.abs(q / top) ** p).sum() ** (1.0 / p))
        least = 1e-9 if declared.around is None else 1.0 / N  # of the uniform distribution
        return (length - value(declared.radius)) / max(value(declared.radius), least)
    if kind == "Box":
        return float(max((value(declared.lower) - q).max(), (q - value(declared.upper)).max()))
    if kind == "KLBall":
        safe = np.where(q > 0, q, 1.0)
        return float((safe * np.log(np.where(q > 0, N * q, 1.0))).sum() + math.log(value(declared.alpha)))
    if kind == "LossBall":
        total, inside = twins.conjugate(declared.loss, cp.Constant(N * np.maximum(q, 0.0)))
        within = max((float(np.max(c.violation())) for c in inside), default=0.0)
        mean = float(total.value) / N
        return max((mean - value(declared.radius)) if math.isfinite(mean) else 0.0, within, float(-q.min()))
    simplex = max(float(-q.min()), abs(float(q.sum()) - 1.0))
    return max(simplex, float(q.max()) - twins.cap(declared, N)) if kind == "CappedSimplex" else simplex


def judge(h: Held, tally: Tally) -> str:
    D, y, dim = h.domain, h.classes, h.g.size
    on_simplex = D.on_simplex
    q = cp.Variable(dim)
    inside = twins.weighed(h.declared, q, y)
    if not on_simplex:
        inside = twins.confined(h.declared, q) + twins.simplex(h.declared, q, 1.0)
    problem = cp.Problem(cp.Maximize(h.g @ q), inside)
    said = twins.solve(problem)
    why = guarded(lambda: D.infeasibility_reason(dim))
    if why:
        room = twins.slack(inside, equations=True) if said == "optimal" else math.inf
        assert room >= -1e-6, f"called empty: {why}"
        return "empty"
    try:
        top, at = guarded(lambda: D.support(h.size * h.g))
    except SolverError as error:
        if said == "optimal":
            raise AssertionError(f"the support is a number: {error}") from error
        return "solver error"
    if math.isinf(top):
        assert said != "optimal", "the support is finite"
        return "no bound"
    reach = h.size * float(np.abs(h.g).max()) * max(float(np.abs(at).sum()), 1e-3)
    conic = "Intersection" in type(D).__name__
    tol = 1e-5 if conic else 1e-9
    if h.size * float(np.abs(h.g).max()) > 1e-290:
        off = top - float((h.size * h.g) @ at)
        assert -tol * reach <= off <= (1e-3 if conic else tol) * reach, f"value - g'q = {off}"
    missed = outside(h.declared, at)
    assert missed <= (1e-4 if conic else 1e-7), f"its point is outside by {missed:.3g}"
    assert D.violation(at) <= (1e-4 if conic else 1e-9), "violation of its own point"
    if on_simplex:
        masses = [at] if y is None else [at[y > 0], at[y < 0]]
        assert all(abs(part.sum() * len(masses) - 1.0) <= (1e-5 if conic else 1e-9) for part in masses)
        assert at.min() >= (-1e-6 if conic else 0.0)
    if said == "optimal":
        best = h.size * float(problem.value)  # type: ignore[arg-type]
        below = best - top
        thin = below > 2e-6 * reach and twins.slack(inside, equations=True) >= -1e-6
        assert below <= 2e-6 * reach or thin, f"support {top:.10g}, Clarabel has {best:.10g}"
        above = top - best
        thin = above > 1e-5 * reach and twins.slack(inside, equations=True) >= -1e-6
        # a point inside by its definition is as good a proof as Clarabel's bound
        assert above <= 1e-5 * reach or thin or missed <= 1e-7, f"{top:.10g} against {best:.10g}"
    if isinstance(D, Projectable):
        project(h, D, tol=1e-8)
    return f"{type(D).__name__}, {said}"


def project(h: Held, D: Any, tol: float) -> None:
    """`P v` is inside, and `v - P v` supports the domain there: that is all that says projection."""
    v = 3.0 * h.g * min(h.size, 1e12)
    near = guarded(lambda: D.project(v.copy()))
    assert D.violation(near) <= 1e-9, "a projection outside"
    away = v - near
    top = guarded(lambda: D.support(away))[0]
    if math.isfinite(top):
        length = float(np.linalg.norm(away)) * max(float(np.abs(near).sum()), 1.0)
        off = top - float(away @ near)
        size = float(np.abs(v).sum() + np.abs(D.center(v.size)).sum())
        assert off <= tol * length + 1e-15 * size, f"not nearest: {off:.3g} of {length:.3g}"


def test_random_domains_satisfy_the_laws(record_property: Callable[[str, object], None]) -> None:
    fuzz(held, judge, record_property, few=80, many=3_000)


def test_the_samples_of_domains_are_of_every_kind() -> None:
    cases = [held(Source(seed)) for seed in range(400)]
    met = {type(h.domain).__name__ for h in cases}
    assert met >= {
        "Box", "CappedSimplex", "DomainIntersection", "KLBall", "LossBall", "NormBall", "Simplex",
        "Capped", "SimplexSublevelSet",
    }  # fmt: skip
    assert sum(h.classes is not None for h in cases) >= 40 and {h.size for h in cases} == {*SIZES}
