"""Checks for losses and penalties written against `ucm.extend`: the laws, and CVXPY as the second opinion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear import Vec
from ucm.language.parameter import Parameters
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.language.term_sums import ScaledPenalty
from ucm.language.terms import (
    ConvexLoss,
    FoldedConcave,
    Loss,
    Penalty,
    ProximalPenalty,
    SubtractedPenalty,
    loss_cvxpy,
)
from ucm.testing.checker import Checker, groups_in_turn

__all__ = ["check_loss", "check_penalty"]


def check_loss(loss: Loss, seed: int = 0, *, tol: float = 1e-8) -> None:
    """Hold a loss against its laws, and its convex parts against CVXPY.

    The value is the sum of its parts; each part is convex in minus the margin; its
    gradient and its conjugate satisfy Fenchel and Young with equality where they meet; its proximal map
    solves its problem and has the slope it says; it is smooth, or a slanted plus function, where it says so.

    Parameters
    ----------
    loss : Loss
        What is looked at.
    seed
        Of the random margins.
    tol
        Relative to the numbers compared.

    Raises
    ------
    AssertionError
        Names the law and the numbers.

    Examples
    --------
    >>> import ucm
    >>> ucm.testing.check_loss(ucm.Ramp(0.5))
    """
    generator = np.random.default_rng(seed)
    margin = np.concatenate([3.0 * generator.standard_normal(20), [0.0, 1.0, -1.0]])
    judge = Checker(repr(loss), tol)
    added, subtracted = loss.split()
    y = np.where(np.arange(margin.size) % 3 == 0, -1.0, 1.0)
    groups = groups_in_turn(loss, margin.size)
    parts = sum(part.value(margin, y, None, groups) for part in added)
    parts -= sum(part.value(margin, y, None, groups) for part in subtracted)
    whole = loss.value(margin, y, None, groups)
    judge.at_most("the value is that of its split", abs(parts - whole), tol * (1.0 + abs(whole)))
    alone = np.eye(margin.size) * margin
    each = sum(loss.values(t, y, groups)[i] for i, t in enumerate(alone))
    judge.at_most("the loss is a sum over samples", abs(each - whole), tol * (1.0 + abs(whole)))
    twice = loss.value(
        np.repeat(margin, 2),
        np.repeat(y, 2),
        subgroup=None if groups is None else np.repeat(groups, 2),
    ) - loss.value(margin, y, np.full(y.size, 2.0), groups)
    judge.at_most("a weight is a repetition", abs(twice), tol * (1.0 + abs(whole)))
    for part in (*added, *subtracted):
        _check_convex_loss(part, margin, generator, tol)


def _check_convex_loss(
    loss: ConvexLoss, margin: Vec, generator: np.random.Generator, tol: float
) -> None:
    import cvxpy as cp

    judge = Checker(repr(loss), tol)
    u = loss.offset - margin
    s = loss.gradient(u)
    top = loss.steepest()
    low = loss.lowest()
    judge.at_most("no slope is below the one at -inf", low - float(s.min()))
    order = np.argsort(u)
    judge.at_most("the slopes grow: l is convex", -float(np.diff(s[order]).min()), tol)
    judge.at_most("no slope is above the one at inf", float(s.max()) - top)
    height = loss.each(margin)
    scale = 1.0 + np.abs(height) + np.abs(u * s)
    young = np.abs(height + loss.conjugate(s) - u * s) / scale
    judge.at_most("l(u) + l*(l'(u)) = u l'(u)", float(young.max()), tol)
    points = generator.standard_normal(u.size)
    points = np.clip(points if low < 0.0 else np.abs(points), low, top)
    short = (u * points - loss.conjugate(points) - height) / (scale + np.abs(u * points))
    judge.at_most("l(u) + l*(s) >= u s", float(short.max()), tol)
    for t in (0.1, 1.0, 30.0):
        v = 2.0 * generator.standard_normal(u.size)
        p = loss.conjugate_prox(v, t)
        best = 0.5 * (p - v) ** 2 + t * loss.conjugate(p)
        for other in (points, np.clip(p + 1e-3, low, top), np.clip(p - 1e-3, low, top)):
            gain = best - 0.5 * (other - v) ** 2 - t * loss.conjugate(other)
            judge.at_most(
                "the proximal map solves its problem", float(gain.max()), tol * (1.0 + t) * 10.0
            )
        _check_prox_slope(judge, loss, v, t, p)
    if loss.smooth():
        h = 1e-6
        ahead = loss.each(margin - h)
        behind = loss.each(margin + h)
        error = np.abs((ahead - behind) / (2.0 * h) - s) / (1.0 + np.abs(s))
        judge.at_most("the gradient is that of the value", float(error.max()), 1e-4)
    c = loss.slope()
    if c is not None:
        plus = c * np.maximum(u, 0.0)
        judge.at_most("l(u) = slope max(0, u)", float(np.abs(plus - height).max()), tol * 10.0)
    expression = loss_cvxpy(loss, cp.Constant(margin), None, Parameters())
    whole = float(loss.each(margin).sum())
    error = abs(float(expression.value) - whole) / (1.0 + abs(whole))
    judge.at_most("the value agrees with CVXPY", error, tol)
    t = cp.Variable(margin.size)
    problem = cp.Problem(cp.Minimize(cp.sum(loss.cvxpy(t, 2.0, Parameters()))))
    judge.at_most("CVXPY sees it convex, and DPP", float(not problem.is_dcp(dpp=True)))


def _check_prox_slope(judge: Checker, loss: ConvexLoss, v: Vec, t: float, s: Vec) -> None:
    """The slope of the proximal map lies between its difference quotients, with what they err by: near a
    kink they differ, and bound little."""
    h = 1e-6
    slope = loss.conjugate_prox_slope(v, t, s)
    behind, ahead = ((loss.conjugate_prox(v + k * h, t) - s) / (k * h) for k in (-1.0, 1.0))
    low, high = np.minimum(behind, ahead), np.maximum(behind, ahead)
    over = np.maximum(low - slope, slope - high) - (high - low)
    judge.at_most("the slope of the proximal map is its derivative", float(over.max()), 1e-4)


def check_penalty(penalty: Penalty, dim: int = 6, seed: int = 0, *, tol: float = 1e-8) -> None:
    """Hold a penalty against its laws, and its convex parts against CVXPY.

    The value is the difference of its parts; the added parts have proximal maps, conjugates and gauges
    that belong together (Fenchel and Young, Moreau); the subtracted parts are convex, with
    subgradients; a folded concave penalty has a concave profile, and its slopes.

    Parameters
    ----------
    penalty : Penalty
        What is looked at.
    dim
        Number of weights.
    seed, tol
        As in `check_loss`.

    Raises
    ------
    AssertionError
        Names the law and the numbers.

    Examples
    --------
    >>> import ucm
    >>> ucm.testing.check_penalty(ucm.SCAD())
    """
    generator = np.random.default_rng(seed)
    points = [scale * generator.standard_normal(dim) for scale in (0.1, 1.0, 5.0)]
    points += [np.zeros(dim), np.eye(dim)[0]]
    judge = Checker(repr(penalty), tol)
    judge.at_most("the penalty of 0 is 0", abs(penalty.value(np.zeros(dim))))
    added, subtracted = penalty.split()
    for w in points:
        parts = sum(part.value(w) for part in added) - sum(part.value(w) for part in subtracted)
        whole = penalty.value(w)
        judge.at_most("the penalty is not negative", -whole)
        judge.at_most("the value is that of its split", _apart(parts, whole), tol)
    for part in added:
        _check_calculus(part, points, tol)
        _check_against_cvxpy(part, points, tol)
    total = CombinedPenalty(added)
    if len(added) > 1 and total.proximal():
        _check_calculus(total, points, tol)
    for part in subtracted:
        _check_subtracted(part, points, tol)
    if isinstance(penalty, FoldedConcave):
        _check_folded(penalty, points, tol)


def _check_calculus(R: ProximalPenalty | CombinedPenalty, points: list[Vec], tol: float) -> None:
    """Value, proximal map, conjugate and gauge belong together."""
    judge = Checker(repr(R), tol)
    for v in points:
        for t in (0.05, 1.0):
            w = R.prox(v, t)
            z = (v - w) / t  # a subgradient at w: Moreau
            judge.at_most("v - prox(v) lies in the domain of R*", R.gauge(z), 1.0 + 1e-9)
            scale = 1.0 + abs(R.value(w)) + abs(float(z @ w))
            young = R.value(w) + R.conjugate(z) - float(z @ w)
            judge.at_most("R(w) + R*(z) = <z, w> at the proximal map", abs(young), 10 * tol * scale)
            if not isinstance(R, ScaledPenalty):  # whose Jacobian is that of its term
                _check_slope(judge, R, v, t, R.prox_slope_times(v, t, np.eye(v.size)))
            for other in points:
                short = float(z @ other) - R.conjugate(z) - R.value(other)
                judge.at_most("R(w) + R*(z) >= <z, w>", short, tol * scale * (1.0 + v.size))
    if 0.0 < R.gauge(points[1]) < np.inf:
        edge = points[1] / R.gauge(points[1])
        judge.at_most("the gauge is homogeneous", abs(R.gauge(edge) - 1.0), 1e-9)
        worst = max(float(edge @ x) - R.conjugate(edge) - R.value(x) for x in points)
        judge.at_most("R* is finite on the edge of its domain", worst, tol * 10.0)


def _check_slope(
    judge: Checker,
    R: ProximalPenalty | CombinedPenalty,
    v: Vec,
    t: float,
    slope: NDArray[np.float64],
) -> None:
    """A Jacobian of the proximal map: symmetric, between 0 and 1, and the slope along any direction in which
    both sides have the same one."""
    skew = float(np.abs(slope - slope.T).max())
    judge.at_most("the slope of the proximal map is symmetric", skew, 1e-12)
    values = np.linalg.eigvalsh(slope)
    judge.at_most("its eigenvalues are at least 0", -float(values.min()), 1e-9)
    judge.at_most("its eigenvalues are at most 1", float(values.max()), 1.0 + 1e-9)
    step = 1e-6 * (1.0 + float(np.abs(v).max()))
    for d in (*np.eye(v.size)[:2], np.linspace(-1.0, 1.0, v.size)):
        here, ahead, behind = R.prox(v, t), R.prox(v + step * d, t), R.prox(v - step * d, t)
        if np.abs(ahead - 2.0 * here + behind).max() <= 1e-3 * step:  # no kink between
            missed = (ahead - behind) / (2.0 * step) - slope @ d
            judge.at_most("the slope is the derivative", float(np.abs(missed).max()), 1e-3)


def _check_against_cvxpy(penalty: ProximalPenalty, points: list[Vec], tol: float) -> None:
    """The value is that of the expression in CVXPY, and that of its norms where these are known."""
    import cvxpy as cp

    judge = Checker(repr(penalty), tol)
    for v in points:
        whole = penalty.value(v)
        expression = penalty.cvxpy(cp.Constant(v), 1.0, Parameters())
        judge.at_most("the value agrees with CVXPY", _apart(float(expression.value), whole), tol)
        known = penalty.norms()
        if known is not None:
            a, c, s = known
            sums = a * np.abs(v).sum() + c * float(v @ v) + s * np.abs(v).max()
            judge.at_most("the value is that of its norms", abs(sums - whole), tol * (1.0 + whole))
    w = cp.Variable(points[0].size)
    problem = cp.Problem(cp.Minimize(penalty.cvxpy(w, 2.0, Parameters())))
    judge.at_most("CVXPY sees it convex, and DPP", float(not problem.is_dcp(dpp=True)))


def _apart(number: float, other: float) -> float:
    """Return the relative difference of two values; 0 for equal infinite ones."""
    return 0.0 if number == other else abs(number - other) / (1.0 + abs(other))


def _check_subtracted(part: SubtractedPenalty, points: list[Vec], tol: float) -> None:
    judge = Checker(repr(part), tol)
    for w in points:
        g = part.subgradient(w)
        for other in points:
            above = part.value(w) + float(g @ (other - w)) - part.value(other)
            judge.at_most(
                "a subgradient is below the function", above, tol * (1.0 + np.abs(g).sum())
            )


def _check_folded(penalty: FoldedConcave, points: list[Vec], tol: float) -> None:
    judge = Checker(repr(penalty), tol)
    s = np.linspace(0.0, 6.0, 400)
    r, slope = penalty.profile(s), penalty.slope(s)
    judge.at_most("r(0) = 0", abs(float(r[0])))
    judge.at_most("the slopes fall: r is concave", float(np.diff(slope).max()), tol)
    judge.at_most("r grows", -float(slope.min()))
    between = np.diff(r) / np.diff(s)
    judge.at_most("the slope is that of r", float((between - slope[:-1]).max()), tol * 1e3)
    judge.at_most("the slope is that of r", float((slope[1:] - between).max()), tol * 1e3)
    for w in points:
        sizes = penalty.lengths(w)
        start = float(slope[0]) * float(sizes.sum())
        missed = _apart(penalty.tangent().value(w), start)
        judge.at_most("the tangent has the slope at 0", missed, tol)
        missed = _apart(penalty.value(w), float(penalty.profile(sizes).sum()))
        judge.at_most("the value is the sum of the profiles", missed, tol)
