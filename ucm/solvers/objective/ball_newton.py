"""Newton's method in the ball of w, for generalised nu-SVMs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.maps import MatrixMap
from ucm.data.options import COUNT, check_fields
from ucm.forms.answer import Answer
from ucm.forms.free_margin import FreeMargin, PricedWeights
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Solver
from ucm.forms.trust_region import secular_root
from ucm.language.domains.separable_constraint import KKTPoint
from ucm.solvers.coordinates import GramCoordinates

__all__ = ["BallNewton", "Found"]

_STEPS = 200
_ENOUGH = 1e-15  # gap, of the points of the hulls
_INACTIVE = 1e-9  # ||x||, of the points of the hulls: the ball does not matter
_ROUNDING = 1e-15
_SHIFT = 1e-6  # of the mean diagonal entry, that a short step adds to the next matrix
_FIRST, _GROWTH = 8.0, 8.0  # lam to begin with, in units of the samples, and its growth


@dataclass(frozen=True)
class Found:
    """The end of the method.

    Attributes
    ----------
    w : (n,) the normal
    q : the weights of the terms
    norm : of their point x
    size : how large what adds up to x is
    gap : `||x|| - w'x / lam`, 0 at the optimum
    value : the objective
    separates : whether w separates the classes, so that no ball is inactive
    """

    w: Vec
    q: list[Vec]
    norm: float
    size: float
    gap: float
    value: float
    separates: bool = False

    @property
    def inactive(self) -> bool:
        """Whether the optimum is that without a bound of the norm."""
        return self.norm <= _INACTIVE * self.size


@dataclass(frozen=True)
class BallNewton(Solver[FreeMargin]):
    """Newton's method for `F(v) = max over q of -v'x - t h(q)` in the unit ball, `w = lam v`, `t = 1 / lam`.

    F is smooth and convex, its gradient is minus the point x of the maximiser, which is a root for one
    multiplier a mass. A step is the least of the quadratic model in the ball, by an eigenvalue decomposition
    and a scalar root. From a small lam on, each the start of the next, up to that of the form or one whose
    ball is inactive: the optimum is then that of every larger one.

    Parameters
    ----------
    max_order
        Largest of min(samples, features), the order of the linear systems.
    """

    max_order: int = 2000
    name: ClassVar[str] = "ball-newton"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT)

    def refuse(self, form: FreeMargin) -> str | None:
        order = min(form.n, form.m)
        return f"its linear systems would have order {order}" if order > self.max_order else None

    def solve(self, form: FreeMargin, monitor: Monitor, start: Answer | None = None) -> Answer:
        found, status = self.minimise(form, monitor)
        left = f"stopped by its limit of {monitor.limit(_STEPS)} steps"
        return Answer(w=found.w).after(status, left)

    def minimise(
        self, form: FreeMargin, monitor: Monitor, separated: bool = False
    ) -> tuple[Found, str]:
        """The least value, and how it ended; with `separated` no further than a w that separates the
        classes."""
        terms, back = _in_span(form)
        v = np.sum([t.A.matvec(t.samples.uniform()) for t in terms], axis=0)
        lam = min(form.lam, _FIRST)
        w = v * (lam / (float(np.linalg.norm(v)) or 1.0))
        while True:
            found, status = _newton(terms, lam, w, monitor, len(form.terms))
            larger = min(_GROWTH * lam, form.lam)
            if separated and _separates(terms, found.w):
                return replace(found, w=back(found.w), separates=True), status
            if found.inactive or larger == lam or status != "converged":
                return replace(found, w=back(found.w)), status
            lam, w = larger, found.w


def _separates(terms: tuple[PricedWeights, ...], w: Vec) -> bool:
    """Whether the sum of the least scores `w'y_i x_i` of both classes is positive beyond rounding."""
    least, size = 0.0, 0.0
    for term in terms:
        scores = term.A.rmatvec(w)
        least += sum(float(scores[index].min()) for index, _ in term.parts)
        size = max(size, float(np.abs(scores).max()))
    return least > 1e-12 * size


def _newton(
    terms: tuple[PricedWeights, ...], lam: float, w: Vec, monitor: Monitor, parts: int
) -> tuple[Found, str]:
    t, v = 1.0 / lam, w / lam
    height, points, x, size = _value(terms, t, v)
    gap, status, shift = float(np.linalg.norm(x) - v @ x), "max_iter", 0.0
    for _ in range(monitor.limit(_STEPS)):
        norm = float(np.linalg.norm(x))
        value = lam * height / parts
        if monitor.report(monitor.iterations + 1, value, gap / max(abs(height), 1e-300)):
            status = "interrupted"
            break
        if gap <= _ENOUGH * size:
            status = "converged"
            break
        H = np.sum([term.hessian(p) for term, p in zip(terms, points, strict=True)], axis=0)
        monitor.systems += 1
        H += shift * float(np.trace(H)) / len(H) * np.eye(len(H))
        step = _in_ball(H, x + H @ v) - v
        fall, share = float(x @ step), 1.0
        after, found = v + step, _value(terms, t, v + step)
        monitor.passes += 1.0
        slack = _ROUNDING * (size + abs(height))  # below it a step still makes the gap less
        while share > 1e-12 and not found[0] <= height - 1e-4 * share * fall + slack:
            share *= 0.5
            after = v + share * step
            found = _value(terms, t, after)
            monitor.passes += 1.0
        # no curvature along a step that is short: samples that enter along it have some
        shift = max(_SHIFT, 10.0 * shift) if share < 0.1 else 0.1 * shift if shift > _SHIFT else 0.0
        hidden = height - found[0] <= slack
        least = float(np.linalg.norm(found[2]) - after @ found[2])
        if hidden and least >= gap:
            if share == 1.0 or shift > 1.0:
                status = "converged"
                break
            continue
        v, (height, points, x, size), gap = after, found, least
    norm = float(np.linalg.norm(x))
    q = [point.q for point in points]
    return Found(lam * v, q, norm, size, gap, lam * height / parts), status


def _value(
    terms: tuple[PricedWeights, ...], t: float, v: Vec
) -> tuple[float, list[KKTPoint], Vec, float]:
    """F(v), its maximisers, their point x, and how large what adds up to it is."""
    points = [term.at(v, t) for term in terms]
    images = [term.A.matvec(p.q) for term, p in zip(terms, points, strict=True)]
    x = np.sum(images, axis=0)
    priced = sum(t * term.curve.value(p.q) for term, p in zip(terms, points, strict=True))
    size = sum(float(term.A.sizes(p.q).sum()) for term, p in zip(terms, points, strict=True))
    return float(-(v @ x) - priced), points, x, size


def _in_ball(H: NDArray[np.float64], r: Vec) -> Vec:
    """The least of `v'H v / 2 - r'v` over the unit ball, H positive semidefinite."""
    e, V = np.linalg.eigh(H)
    c = V.T @ r
    e = np.maximum(e, 0.0)
    least = np.finfo(float).eps * max(float(e[-1]), float(np.linalg.norm(r)))
    return V @ (c / (e + float(secular_root(e, c * c, 1.0, least)[0])))


def _in_span(form: FreeMargin) -> tuple[tuple[PricedWeights, ...], Callable[[Vec], Vec]]:
    """The terms in coordinates of the span of the samples, where these are fewer than the features, and the
    way back of a normal."""
    if form.n <= form.m:
        return form.terms, lambda w: w
    span = GramCoordinates([term.A.matrix().T for term in form.terms])
    terms = tuple(
        replace(term, A=MatrixMap(np.ascontiguousarray(F.T)))
        for term, F in zip(form.terms, span.tables, strict=True)
    )
    return terms, span.outward
