"""lam_max: the least multiple of a penalty with w = 0 as the answer.

w = 0 solves `sum_i c_i l(t_i) + R(w)` when some dual point a has `sum_i y_i a_i x_i` in the subdifferential
of R at 0, for a norm a ball of the dual norm. At w = 0 all samples of a class have one margin. Where the
loss has a slope there, a is one point; at a kink the slopes of one class may lie between two numbers, with a
fixed sum, and the points are a reduced convex hull of this class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import CompositionError
from ucm.evidence.boundary import boundary
from ucm.forms.monitor import Monitor
from ucm.forms.objective import weighed
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.language.sets import Ball, Point, ReducedHull
from ucm.language.statistics.samples import Samples
from ucm.language.terms import ConvexLoss, Penalty, ProximalPenalty

__all__ = ["Largest", "largest", "multiplies"]

_DOUBLED = 10
_ENDS = np.concatenate([-(2.0 ** np.arange(_DOUBLED)), 2.0 ** np.arange(_DOUBLED)])  # of a search
_PARTS = 35  # of an interval, in one step of a search
_JUMP = 1e-9  # of the sum of slopes: a larger one is a kink
_ROUNDING = 1e-14  # of a gradient, and of slopes
_MOST = 1e15


@dataclass(frozen=True)
class Largest:
    """The least value with w = 0.

    Attributes
    ----------
    value : the number
    how : how it is known
    gap : how far below it w = 0 is not yet excluded
    """

    value: float
    how: str
    gap: float = 0.0


def largest(model: Objective, data: Data, name: str) -> Largest | None:
    """lam_max of the parameter `name`; None where it multiplies no penalty with a kink at 0, or where this
    is not computed: losses that are not convex, further penalties with a kink at 0."""
    losses, subtracted = model.loss.split()
    if subtracted or name in model.loss.params() or name not in model.penalty.params():
        return None
    slopes = _slopes(losses, data) if multiplies(model.penalty, name, data.n) else None
    if slopes is None:
        return None
    low, high = slopes
    if (high - low <= _JUMP * np.abs(high)).all():
        return _of_gradient(model.penalty, name, _pulled(data, 0.5 * (low + high)))
    parts = [loss.counted for loss in losses if loss.counted is not None]
    return _of_hull(model.penalty, name, data, slopes, parts)


def multiplies(penalty: Penalty, name: str, n: int) -> bool:
    """Whether the penalty is affine in the parameter, which may be as large as one likes."""
    w = np.full(n, 0.37)
    try:
        heights = [penalty.with_params(**{name: x}).value(w) for x in (1.0, 2.0, 3.0)]
    except CompositionError:
        return False
    first, second = np.diff(heights)
    return bool(first > 0.0) and math.isclose(first, second, rel_tol=1e-9)


def _pulled(data: Data, a: Vec) -> Vec:
    """`sum_i y_i a_i x_i`."""
    return np.asarray(data.X.T @ (data.y * a)).ravel()


def _slopes(losses: tuple[ConvexLoss, ...], data: Data) -> tuple[Vec, Vec] | None:
    """(m,) between which numbers the slopes a_i of the samples lie at the best b, by bisection for
    `sum_i y_i a_i = 0`, which falls in b; None where there is no best one, or all slopes are 0 there."""
    every, weights = weighed(losses, data)
    c = [np.ones(data.m) if own is None else own for own in weights]
    sides = [[float(own[data.y == sign].sum()) for sign in (1.0, -1.0)] for own in c]

    def slopes(b: Any) -> list[tuple[Vec, Vec]]:
        """Of every loss at the margins b and -b."""
        return [(loss.gradient(loss.offset - b), loss.gradient(loss.offset + b)) for loss in every]

    def above(b: Any) -> Any:
        pairs = zip(sides, slopes(b), strict=True)
        return sum(n[0] * s[0] - n[1] * s[1] for n, s in pairs) > 0.0

    with np.errstate(over="ignore"):
        ends = above(_ENDS)
        if not ends[:_DOUBLED].any() or ends[_DOUBLED:].all():
            return None
        low = _ENDS[:_DOUBLED][ends[:_DOUBLED]].max()
        high = _ENDS[_DOUBLED:][~ends[_DOUBLED:]].min()
        while True:
            inner = np.linspace(low, high, _PARTS)[1:-1]
            inner = inner[(low < inner) & (inner < high)]
            if not inner.size or high - low < 1e-300:
                break
            up = above(inner)
            low, high = inner[up].max(initial=low), inner[~up].min(initial=high)
        first, last, *near = (
            np.sum(
                [own * np.where(data.y > 0.0, *s) for own, s in zip(c, slopes(b), strict=True)],
                axis=0,
            )
            for b in (np.array(b) for b in (low, high, low - 1.0, high + 1.0))
        )
    if np.abs([first, last]).max() <= _ROUNDING * np.abs(near).max():
        return None
    return np.minimum(first, last), np.maximum(first, last)


def _of_gradient(penalty: Penalty, name: str, g: Vec) -> Largest | None:
    """By bisection on `R*(g) = 0`, R the part that is kept of a split."""

    def trivial(lam: float) -> bool:
        own, others = _parts(penalty.with_params(**{name: lam}), name)
        return own is not None and _holds(own, g) and not any(_holds(p, 1e-6 * g) for p in others)

    high = 1.0
    if not g.any() or trivial(1.0 / _MOST):
        return None
    own, _ = _parts(penalty.with_params(**{name: 1.0}), name)
    guess = 0.0 if own is None else own.gauge(g)  # exact where the parameter multiplies all of it
    low = 0.0
    if 0.0 < guess < _MOST and trivial(guess * (1.0 + _ROUNDING)):
        high, below = guess * (1.0 + _ROUNDING), guess * (1.0 - _ROUNDING)
        low, high = (0.0, below) if trivial(below) else (below, high)
    while not trivial(high):
        high *= 4.0
        if high > _MOST:
            return None
    while high - low > 2.0 * _ROUNDING * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if trivial(middle) else (middle, high)
    high *= 1.0 + _ROUNDING
    return Largest(
        high, "there the penalty outweighs the gradient of the losses at w = 0", high - low
    )


def _holds(penalty: ProximalPenalty, g: Vec) -> bool:
    """Whether g is a subgradient at 0."""
    return penalty.gauge(g) <= 1.0 and penalty.conjugate(g) <= 0.0


def _parts(penalty: Penalty, name: str) -> tuple[ProximalPenalty | None, list[ProximalPenalty]]:
    """The one kept part that the parameter multiplies, None unless it is one; the others."""
    kept, _ = penalty.split()
    own = [p for p in kept if name in p.params()]
    return own[0] if len(own) == 1 else None, [p for p in kept if name not in p.params()]


def _of_hull(
    penalty: Penalty,
    name: str,
    data: Data,
    slopes: tuple[Vec, Vec],
    parts: list[Samples],
) -> Largest | None:
    """By the least ball in the dual norm around 0 that meets the points: its radius is lam_max, for L1 and
    LInf, where all samples weigh the same and those at the kink are a class, or one of `parts` in it, whose
    slopes all jump by the same amount."""
    own, others = _parts(penalty.with_params(**{name: 1.0}), name)
    double, _ = _parts(penalty.with_params(**{name: 2.0}), name)
    norms = None if own is None else own.norms()
    if norms is None or double is None or others or not data.weighing.plain or norms[1]:
        return None
    which = 0 if norms[0] and not norms[2] else 2 if norms[2] and not norms[0] else None
    if which is None or double.norms() != tuple(2.0 * x for x in norms):
        return None
    low, high = slopes
    jumps = high - low
    step = float(jumps.max())
    rows = jumps > _JUMP * step  # those at the kink
    sign = float(data.y[rows][0])
    if (jumps[rows] < (1.0 - _JUMP) * step).any() or (data.y[rows] != sign).any():
        return None
    kind = "pos" if sign > 0.0 else "neg"
    labels = [on.label for on in parts if on.among(data.y, data.groups)[rows].all()]
    named = (Samples(kind, label) for label in (None, *labels))
    kinked = next((on for on in named if (on.among(data.y, data.groups) == rows).all()), None)
    if kinked is None:
        return None
    fixed = np.where(rows, low, 0.5 * (low + high))
    left = -sign * float(data.y @ fixed) / step  # of the class, in full slopes
    if not left > 0.0:
        return None
    v = _pulled(data, fixed)
    hull = (sign * step * left) * ReducedHull(kinked, eta=1.0 / left)
    exponent = math.inf if which == 0 else 1.0

    def at(radius: float) -> RobustMargin:
        return RobustMargin(Point(v) + hull + Ball(0, radius, p=exponent))

    found = boundary(at, data, 0.0, Monitor())
    if not found.proven or math.isinf(found.upper) or not found.upper > 0.0:
        return None
    how = "the least ball in the dual norm that meets the gradients of the losses at w = 0"
    return Largest(found.upper / norms[which], how, (found.upper - found.lower) / norms[which])
