"""The generalised nu-SVM in its own parameters: both bounds of its optimum, and its CVXPY twin.

    min over ||w||_2 <= lam, b, rho of -rho + (1/N) sum_i c_i l_i(rho - y_i (w'x_i + b)),

N the sum of the weights c_i, l_i the loss of the class of a sample: (22), (40), (44) and (48) of Ito, Takeda
and Toh (2015). For fixed w it is one scalar problem for each class, in `rho - b` and `rho + b`, whose slopes
q are weights of mass 1/2 on this class. They bound the optimum from below:

    -h(q) - lam ||sum_i q_i y_i x_i||,    h(q) = (1/N) sum_i c_i l_i*(N q_i / c_i).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, EmptySetError, ParameterError
from ucm.forms.solution import Certificate
from ucm.language import cvx as cp_words
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import LossBall
from ucm.language.domains.divergence_ball import ConjugateFunction
from ucm.language.domains.separable_constraint import soft
from ucm.language.losses import Hinge
from ucm.language.objective import split_scalar
from ucm.language.parameter import Parameters, value
from ucm.language.robust import RobustMargin
from ucm.language.sets import Hull
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.terms import ConvexLoss, loss_cvxpy

if TYPE_CHECKING:
    import cvxpy as cp


@dataclass(frozen=True)
class LossOfClass:
    """The samples of one class with their loss.

    Attributes
    ----------
    rows : (m_o,) the indices of the samples
    sign : the label
    loss : the declared loss
    c : (m_o,) the weights
    h : the part of h(q) of the class
    """

    rows: NDArray[np.intp]
    sign: float
    loss: ConvexLoss
    c: Vec
    h: ConjugateFunction


@dataclass(frozen=True)
class Bounds:
    """Bounds of the optimum from a normal.

    Attributes
    ----------
    certificate : of the optimum, with the objective at (w, b, rho) as its primal value
    w, b, rho : the normal, no longer than lam, and the best b and rho for it
    q : (m,) weights of mass 1/2 on each class, the slopes at (w, b, rho)
    """

    certificate: Certificate
    w: Vec
    b: float
    rho: float
    q: Vec


def by_lam(node: Any) -> bool:
    """True if the node is a ball whose radius follows from a lam."""
    return isinstance(node, LossBall) and node.lam is not None


def ball_of(hull: Hull) -> LossBall:
    """Return the ball of the weights of a hull."""
    return hull.weights  # type: ignore[return-value]


def hulls_by_lam(model: RobustMargin) -> list[Hull]:
    """Return the hulls of (22): the hull of all samples, or the hulls of class +1 and class -1.

    Raises
    ------
    CompositionError
        The model has another set or another norm.
    """
    pairs = list(summands(model.set))
    signs = {V.samples: L for V, L in pairs if isinstance(V, Hull) and by_lam(V.weights)}
    known = len(signs) == len(pairs) and signs in ({signed: 1.0}, {pos: 1.0, neg: -1.0})
    if not known or model.norm != 2.0:
        raise CompositionError(
            f"lam: expected Hull(signed, weights=LossBall(loss, lam=...)) or such hulls of pos and of neg, "
            f"Hull(pos, ...) - Hull(neg, ...), in the Euclidean norm, got {model!r}; give the radius"
        )
    hulls: list[UncertaintySet] = [V for V, _ in pairs]
    return sorted(hulls, key=lambda V: V.samples == neg)  # type: ignore[attr-defined, return-value]


def lam_of(hulls: list[Hull]) -> float:
    """Return the common lam of the hulls."""
    found = [value(ball_of(hull).lam) for hull in hulls]  # type: ignore[arg-type]
    if len(set(found)) > 1:
        raise CompositionError(
            f"lam: expected one lam for both classes, as ||w|| has one bound, got {found[0]:g} and "
            f"{found[1]:g}; give both the same, and multiply a loss to weigh its class"
        )
    if not 0.0 < found[0] < math.inf:
        raise ParameterError(f"lam: expected a positive number, got {found[0]:g}; write one, as 1.0")
    return found[0]


def losses_of(hulls: list[Hull], data: Data) -> list[LossOfClass]:
    """Return the classes with their losses.

    Raises
    ------
    CompositionError
        The loss of one class is no p-hinge with p > 1.
    EmptySetError
        The slopes of the loss are too small for any radius.
    """
    found = []
    bound = [hull.samples.bound(data) for hull in hulls]
    N = sum(samples.total for samples in bound)
    for hull, samples in zip(hulls, bound, strict=True):
        ball = ball_of(hull)
        base = split_scalar(ball.loss)[1]
        if len(hulls) > 1 and not (isinstance(base, Hinge) and base.p > 1.0):
            raise CompositionError(
                f"lam: expected the loss of one class to be Hinge(p) with p > 1, got {ball.loss!r}, whose "
                "balls are others with the number of samples; take Hull(signed, ...)"
            )
        why = samples.missing(hull) or ball.too_flat(samples)
        if why is not None:
            raise EmptySetError(f"{hull!r}: {why.partition(': ')[2]}")
        rows = hull.samples.rows(data)
        rows = np.arange(data.m) if rows is None else rows
        c = np.ones(rows.size) * samples.c
        for sign in (1.0, -1.0):
            own = data.y[rows] == sign
            if own.any():
                h = ConjugateFunction(ball.loss, N, c[own])
                found.append(LossOfClass(rows[own], sign, ball.loss, c[own], h))
    return found


def best_levels(classes: list[LossOfClass], scores: Vec) -> tuple[Vec, dict[float, float], float]:
    """Return the best levels `rho - b` and `rho + b` by label, for `scores = w'x_i`, with their weights q of
    mass 1/2 on each class, (m,), and h(q)."""
    q, levels, height = np.zeros(scores.size), {}, 0.0
    for one in classes:
        point = soft(one.h, -one.sign * scores[one.rows], [(slice(None), 0.5)], 1.0)
        q[one.rows], levels[one.sign] = point.q, -point.theta[0]
        height += one.h.value(point.q)
    return q, levels, height


def bounds(model: RobustMargin, data: Data, w: Vec, weights: Vec | None = None) -> Bounds:
    """Return both bounds of the optimum that w gives; other weights of mass 1/2 give another lower bound."""
    hulls = hulls_by_lam(model)
    lam, classes = lam_of(hulls), losses_of(hulls, data)
    size = data.space.norm(w)
    w = w * min(1.0, lam / size) if size > 0.0 else w
    scores = np.asarray(data.X @ w).ravel()
    q, levels, height = best_levels(classes, scores)
    mean = outside = 0.0
    for one in classes:
        margins = one.loss.offset + one.sign * scores[one.rows] - levels[one.sign]
        mean += float(one.c @ one.loss.each(margins)) / one.h.dim
    dual = q if weights is None else weights
    if weights is not None:
        height = 0.0
        for one in classes:
            own = weights[one.rows]
            off = abs(2.0 * float(own.sum()) - 1.0), -2.0 * float(np.minimum(own, 0.0).sum())
            outside = max(outside, *off)
            height += one.h.value(own)
    rho, b = 0.5 * (levels[1.0] + levels[-1.0]), 0.5 * (levels[-1.0] - levels[1.0])
    x = np.asarray(data.X.T @ (dual * data.y)).ravel()
    primal, least = mean - rho, -height - lam * data.space.norm(x)
    gap = primal - least
    unit = max(abs(primal), abs(least) if np.isfinite(least) else 0.0, 1e-9 * (abs(rho) + abs(mean)))
    certificate = Certificate(primal, least, gap, gap / max(unit, 1e-300), outside)
    return Bounds(certificate, w, b, rho, q)


def reference_problem(model: RobustMargin, data: Data, scaled: bool = True) -> cp.Problem:
    """Return the problem in CVXPY: vectorised, DPP, with a `cvxpy.Parameter` for every hyperparameter.

    Parameters
    ----------
    scaled : True if the variable is w times max |X|
    """
    cp, scope, hulls = cp_words, Parameters(), hulls_by_lam(model)
    scale = data.scale if scaled else 1.0
    omega = cp.Variable(data.n, name=f"{scale:.3g} w" if scaled else "w")
    b, rho, t = cp.Variable(name="b"), cp.Variable(name="rho"), cp.Variable(data.m, name="t")
    total: Any = -rho
    for one in losses_of(hulls, data):
        c = np.zeros(data.m)
        c[one.rows] = one.c / one.h.dim
        total += loss_cvxpy(one.loss, one.loss.offset + t - rho, c, scope)
    bound = scope.of(ball_of(hulls[0]).lam)  # type: ignore[arg-type]
    constraints = [
        t == cp.multiply(data.y, (data.X / scale) @ omega + b),
        cp.norm(omega / scale, 2) <= bound,
    ]
    return cp.Problem(cp.Minimize(total + scope.zero()), constraints)
