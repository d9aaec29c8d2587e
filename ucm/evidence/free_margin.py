"""The certificate and the CVXPY twin of a generalised nu-SVM in its own parameters, from the declaration.

    min over ||w||_2 <= lam, b, rho of -rho + (1/N) sum_i c_i l_i(rho - y_i (w'x_i + b)),

N the sum of the weights c_i, l_i the loss of the class of a sample: (22), (40), (44) and (48) of Ito, Takeda
and Toh (2015). For fixed w it falls apart into one scalar problem for each class, in `rho - b` and `rho + b`,
whose slopes q are weights of mass 1/2 on this class. They bound the optimum from below:

    -(1/N) sum_i c_i l_i*(N q_i / c_i) - lam ||sum_i q_i y_i x_i||.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.evidence.radius_from_lambda import hulls_by_lam
from ucm.evidence.verify import Verification, compared, solved
from ucm.forms.solution import Certificate, Solution
from ucm.language import cvx as cp_words
from ucm.language.parameter import Parameters, value
from ucm.language.robust import RobustMargin
from ucm.language.terms import ConvexLoss, loss_cvxpy

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Bounds", "bounds", "free_margin_twin", "verify_free_margin"]

_HALVINGS = 200
_DOUBLINGS = 1100


@dataclass(frozen=True)
class _Side:
    """A class with its loss.

    Attributes
    ----------
    rows : (m_o,) its samples
    sign : its label
    loss : as it is declared
    c : (m_o,) the weights
    """

    rows: np.ndarray
    sign: float
    loss: ConvexLoss
    c: Vec


@dataclass(frozen=True)
class Bounds:
    """Bounds of the optimum from a normal.

    Attributes
    ----------
    certificate : of the optimum, its primal value that at (w, b, rho)
    w, b, rho : the normal, no longer than lam, and the best of both for it
    q : (m,) weights of mass 1/2 on each class, the slopes at (w, b, rho)
    """

    certificate: Certificate
    w: Vec
    b: float
    rho: float
    q: Vec


def _sides(model: RobustMargin, data: Data) -> tuple[list[_Side], float]:
    """The classes, and N."""
    found, total = [], 0.0
    for hull in hulls_by_lam(model):
        ball: Any = hull.weights
        rows = hull.samples.rows(data)
        rows = np.arange(data.m) if rows is None else rows
        c = np.ones(rows.size) * hull.samples.bound(data).c
        total += float(c.sum())
        for sign in (1.0, -1.0):
            own = data.y[rows] == sign
            if own.any():
                found.append(_Side(rows[own], sign, ball.loss, c[own]))
    return found, total


def _lam(model: RobustMargin) -> float:
    ball: Any = hulls_by_lam(model)[0].weights
    return value(ball.lam)


def bounds(model: RobustMargin, data: Data, w: Vec, weights: Vec | None = None) -> Bounds:
    """Both bounds of the optimum that w gives; the lower one by other weights of mass 1/2 where there are."""
    lam, (sides, N) = _lam(model), _sides(model, data)
    size = data.space.norm(w)
    w = w * min(1.0, lam / size) if size > 0.0 else w
    scores = np.asarray(data.X @ w).ravel()
    q, levels, height, mean = np.zeros(data.m), {}, 0.0, 0.0
    for side in sides:
        s = side.sign * scores[side.rows]
        level, slopes = _level(side, s, N)
        levels[side.sign] = level
        mean += float(side.c @ side.loss.each(side.loss.offset - (level - s))) / N
        q[side.rows] = slopes
    rho, b = 0.5 * (levels[1.0] + levels[-1.0]), 0.5 * (levels[-1.0] - levels[1.0])
    dual = q if weights is None else weights
    for side in sides:
        own = N * dual[side.rows] / side.c
        most = side.loss.steepest()
        own = np.where((own > most) & (own <= most * (1.0 + 1e-12)), most, own)
        height += float(side.c @ side.loss.conjugate(own)) / N
    x = np.asarray(data.X.T @ (dual * data.y)).ravel()
    primal, least = mean - rho, -height - lam * data.space.norm(x)
    gap = primal - least
    unit = max(
        abs(primal), abs(least) if np.isfinite(least) else 0.0, 1e-9 * (abs(rho) + abs(mean))
    )
    outside = 0.0 if weights is None else _outside(sides, weights)
    certificate = Certificate(primal, least, gap, gap / max(unit, 1e-300), outside)
    return Bounds(certificate, w, b, rho, q)


def _outside(sides: list[_Side], q: Vec) -> float:
    """Return the largest violation of the masses of weights, relative, or of their sign."""
    missed = 0.0
    for sign in (1.0, -1.0):
        total = sum(float(q[side.rows].sum()) for side in sides if side.sign == sign)
        missed = max(missed, abs(2.0 * total - 1.0))
    return max(missed, 2.0 * float(-np.minimum(q, 0.0).sum()))


def _level(side: _Side, s: Vec, N: float) -> tuple[float, Vec]:
    """The minimiser a of `-a / 2 + (1/N) sum_i c_i l(a - s_i)`, by bisection of its slope, and the slopes
    `(c_i / N) l'(a - s_i)`, mixed from both sides of a so that they add up to 1/2."""

    def slopes(a: float) -> Vec:
        with np.errstate(over="ignore"):
            return side.c * side.loss.gradient(a - s) / N

    middle = float(np.median(s))
    step = max(float(np.ptp(s)), 1e-300)
    low, high = middle - step, middle + step
    for _ in range(_DOUBLINGS):
        if slopes(low).sum() < 0.5:
            break
        low, step = low - 2.0 * step, 2.0 * step
    step = max(float(np.ptp(s)), 1e-300)
    for _ in range(_DOUBLINGS):
        if slopes(high).sum() >= 0.5:
            break
        high, step = high + 2.0 * step, 2.0 * step
    for _ in range(_HALVINGS):
        half = 0.5 * (low + high)
        if not low < half < high:
            break
        low, high = (low, half) if slopes(half).sum() >= 0.5 else (half, high)
    first, last = slopes(low), slopes(high)
    rise = float(last.sum() - first.sum())
    part = (0.5 - float(first.sum())) / rise if rise > 0.0 else 1.0
    q = first + min(max(part, 0.0), 1.0) * (last - first)
    return high, q * (0.5 / float(q.sum()))


def free_margin_twin(model: RobustMargin, data: Data, scaled: bool = True) -> cp.Problem:
    """The problem in CVXPY: vectorised, DPP, with a `cvxpy.Parameter` for every hyperparameter.

    Parameters
    ----------
    scaled : whether the variable is w times max |X|
    """
    cp, scope = cp_words, Parameters()
    ball: Any = hulls_by_lam(model)[0].weights
    scale = data.scale if scaled else 1.0
    omega = cp.Variable(data.n, name=f"{scale:.3g} w" if scaled else "w")
    b, rho, t = cp.Variable(name="b"), cp.Variable(name="rho"), cp.Variable(data.m, name="t")
    sides, N = _sides(model, data)
    total: Any = -rho
    for side in sides:
        c = np.zeros(data.m)
        c[side.rows] = side.c / N
        total += loss_cvxpy(side.loss, side.loss.offset + t - rho, c, scope)
    bound = scope.of(ball.lam)
    constraints = [
        t == cp.multiply(data.y, (data.X / scale) @ omega + b),
        cp.norm(omega / scale, 2) <= bound,
    ]
    return cp.Problem(cp.Minimize(total + scope.named()), constraints)


def verify_free_margin(
    model: RobustMargin, data: Data, solution: Solution, tol: float, **options: Any
) -> Verification:
    """Solve the CVXPY twin and compare the optima.

    Parameters
    ----------
    options : of `cvxpy.Problem.solve`, `solver` among them (Clarabel by default)

    Raises
    ------
    SolverError
        The reference solver failed.
    """
    found = solved(free_margin_twin(model, data), options)
    return compared(solution, found, tol, unit=1.0)
