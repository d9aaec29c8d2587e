"""`check_loss` and `check_penalty`: the laws of losses and penalties, and a comparison with CVXPY."""

from __future__ import annotations

import itertools

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.objective import ScaledPenalty
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.terms import ConvexLoss, FoldedConcave, JointLoss, Loss, Penalty, ProximalPenalty
from ucm.testing.checker import Checker, check_formula, check_jacobian, check_program, groups_in_turn, optimum


def check_loss(loss: Loss, seed: int = 0, *, tol: float = 1e-8) -> None:
    """Check the laws of a loss and of its convex parts, and the values of the parts against CVXPY.

    The value is the sum of its parts, a worst mean one of them. Each other part, and the loss of a worst
    mean, is convex in minus the margin; its gradient and its conjugate satisfy Fenchel and Young with
    equality where they meet; its proximal map solves its problem and has the slope it says; it is smooth, or
    a slanted plus function, where it says so.

    Parameters
    ----------
    loss : Loss
        The loss.
    seed : int
        For the random margins.
    tol : float
        Relative slack of the laws.

    Raises
    ------
    AssertionError
        A law is broken; the message names the law and the numbers.

    Examples
    --------
    >>> import ucm
    >>> ucm.testing.check_loss(ucm.Ramp(0.5))
    """
    rng = np.random.default_rng(seed)
    margin = np.concatenate([3.0 * rng.standard_normal(20), [0.0, 1.0, -1.0]])
    y = np.where(np.arange(margin.size) % 3 == 0, -1.0, 1.0)
    groups = groups_in_turn(loss, margin.size)
    judge = Checker(repr(loss), tol)
    check_formula(judge, loss)
    total = loss.value(margin, y, None, groups)
    joint = loss.nodes_of_type(JointLoss)
    parts = (joint + loss.split()[0], loss.split()[1])
    added, subtracted = ([part.value(margin, y, None, groups) for part in terms] for terms in parts)
    judge.equal("the value is that of its split", sum(added) - sum(subtracted), total)
    judge.equal("the value is the sum of the values of samples", loss.values(margin, y, groups).sum(), total)
    each = sum(loss.values(t, y, groups)[i] for i, t in enumerate(np.eye(margin.size) * margin))
    if not joint:
        judge.equal("the loss is a sum over samples", each, total)
    repeated = None if groups is None else np.repeat(groups, 2)
    twice = loss.value(np.repeat(margin, 2), np.repeat(y, 2), None, repeated)
    doubled = loss.value(margin, y, np.full(y.size, 2.0), groups)
    judge.equal("a weight is a repetition", doubled, twice)
    for part in itertools.chain(*loss.split(), (joint_loss.loss for joint_loss in joint)):
        _check_convex_loss(part, margin, rng, tol)


def _check_convex_loss(loss: ConvexLoss, margin: Vec, rng: np.random.Generator, tol: float) -> None:
    judge = Checker(repr(loss), tol)
    u, low, top = loss.offset - margin, loss.lowest(), loss.steepest()
    s, value = loss.gradient(u), loss.each(margin)
    judge.at_most("no slope is below the one at -inf", low - s)
    judge.at_most("no slope is above the one at inf", s - top)
    judge.at_most("the slopes grow: l is convex", -np.diff(s[np.argsort(u)]), tol)
    size = np.abs(u * s)
    judge.equal("l(u) + l*(l'(u)) = u l'(u)", u * s - loss.conjugate(s), value, size=size)
    points = rng.standard_normal(u.size)
    points = np.clip(points if low < 0.0 else np.abs(points), low, top)
    largest = np.maximum(u * points - loss.conjugate(points), value)
    judge.equal("l(u) + l*(s) >= u s", largest, value, size=size + np.abs(u * points))
    for t in (0.1, 1.0, 30.0):
        v = 2.0 * rng.standard_normal(u.size)
        p = loss.conjugate_prox(v, t)
        for x in (points, np.clip(p + 1e-3, low, top), np.clip(p - 1e-3, low, top)):
            gain = 0.5 * ((p - v) ** 2 - (x - v) ** 2) + t * (loss.conjugate(p) - loss.conjugate(x))
            judge.at_most("the proximal map solves its problem", gain, 10.0 * tol * (1.0 + t))
        slope = np.diag(np.broadcast_to(loss.conjugate_prox_slope(v, t, p), v.shape))
        check_jacobian(judge, lambda v, t=t: loss.conjugate_prox(v, t), v, slope, np.eye(v.size))
    if loss.smooth():
        h = 1e-6
        slopes = (loss.each(margin - h) - loss.each(margin + h)) / (2.0 * h)
        judge.equal("the gradient is that of the value", slopes, s, 1e-4)
    c = loss.slope()
    if c is not None:
        judge.equal("l(u) = slope max(0, u)", c * np.maximum(u, 0.0), value, 10.0 * tol)
    check_program(judge, loss.cvxpy, lambda t: float(loss.each(t).sum()), [margin])
    _check_conjugate_program(judge, loss, points)


def _check_conjugate_program(judge: Checker, loss: ConvexLoss, points: Vec) -> None:
    """Check that `conjugate_cvxpy`, if there is one, has the values and the domain of the conjugate."""
    s, low, top = cp.Variable(points.size), loss.lowest(), loss.steepest()
    try:
        expression, constraints = loss.conjugate_cvxpy(s)
    except CompositionError:
        return
    least, size = cp.Minimize(cp.sum(expression)), float(np.abs(points).sum())
    law, value = "the conjugate agrees with CVXPY", float(np.sum(loss.conjugate(points)))
    judge.equal(law, optimum(least, [*constraints, s == points]), value, 1e-5, size)
    for end in (low - 0.5, top + 0.5):
        if np.isfinite(end):
            law = "the conjugate is inf outside of its domain, by CVXPY"
            judge.equal(law, optimum(least, [*constraints, s == end]), np.inf)


def check_penalty(penalty: Penalty, dim: int = 6, seed: int = 0, *, tol: float = 1e-8) -> None:
    """Check the laws of a penalty and of its parts, and the values of the added parts against CVXPY.

    The value is the difference of its parts; the added parts have proximal maps, conjugates and gauges
    that belong together (Fenchel and Young, Moreau); the subtracted parts are convex, with
    subgradients; a folded concave penalty has a concave profile, and its slopes.

    Parameters
    ----------
    penalty : Penalty
        The penalty.
    dim : int
        Number of weights.
    seed, tol
        As in `check_loss`.

    Raises
    ------
    AssertionError
        A law is broken; the message names the law and the numbers.

    Examples
    --------
    >>> import ucm
    >>> ucm.testing.check_penalty(ucm.SCAD())
    """
    rng = np.random.default_rng(seed)
    points = [scale * rng.standard_normal(dim) for scale in (0.1, 1.0, 5.0)]
    points += [np.zeros(dim), np.eye(dim)[0]]
    judge = Checker(repr(penalty), tol)
    check_formula(judge, penalty)
    judge.at_most("the penalty of 0 is 0", abs(penalty.value(np.zeros(dim))))
    added, subtracted = penalty.split()
    for w in points:
        difference = sum(part.value(w) for part in added) - sum(part.value(w) for part in subtracted)
        judge.at_most("the penalty is not negative", -penalty.value(w))
        judge.equal("the value is that of its split", difference, penalty.value(w))
    for part in added:
        _check_calculus(part, points, tol)
        check_program(Checker(repr(part), tol), part.cvxpy, part.value, points)
    total = CombinedPenalty(added)
    if len(added) > 1 and total.proximal():
        _check_calculus(total, points, tol)
    for function in subtracted:
        judge = Checker(repr(function), tol)
        for w in points:
            g = function.subgradient(w)
            excess = [function.value(w) + float(g @ (x - w)) - function.value(x) for x in points]
            judge.at_most("a subgradient is below the function", excess, tol * (1.0 + np.abs(g).sum()))
    if isinstance(penalty, FoldedConcave):
        _check_folded(penalty, points, tol)


def _check_calculus(R: ProximalPenalty | CombinedPenalty, points: list[Vec], tol: float) -> None:
    """Check value, proximal map, conjugate, gauge and norms of a convex penalty against each other."""
    judge = Checker(repr(R), tol)
    for v in points:
        for t in (0.05, 1.0):
            w = R.prox(v, t)
            z = (v - w) / t  # a subgradient at w: Moreau
            judge.at_most("v - prox(v) lies in the domain of R*", R.gauge(z), 1.0 + 1e-9)
            value, size = R.value(w), abs(float(z @ w))
            law = "R(w) + R*(z) = <z, w> at the proximal map"
            judge.equal(law, float(z @ w) - R.conjugate(z), value, 10.0 * tol, size)
            if not isinstance(R, ScaledPenalty):  # its Jacobian is that of its term
                slope = R.prox_slope_times(v, t, np.eye(v.size))
                directions = (*np.eye(v.size)[:2], np.linspace(-1.0, 1.0, v.size))
                check_jacobian(judge, lambda v, t=t: R.prox(v, t), v, slope, directions, 1e-3)
            for x in points:
                excess = float(z @ x) - R.conjugate(z) - R.value(x)
                slack = tol * (1.0 + abs(value) + size) * (1.0 + v.size)
                judge.at_most("R(w) + R*(z) >= <z, w>", excess, slack)
    if isinstance(R, ProximalPenalty):
        _check_claims(judge, R, points)
    if 0.0 < R.gauge(points[1]) < np.inf:
        edge = points[1] / R.gauge(points[1])
        judge.equal("the gauge is homogeneous", R.gauge(edge), 1.0, 1e-9)
        excess = [float(edge @ x) - R.conjugate(edge) - R.value(x) for x in points]
        judge.at_most("R* is finite on the edge of its domain", excess, tol * 10.0)


def _check_claims(judge: Checker, R: ProximalPenalty, points: list[Vec]) -> None:
    """Check what a penalty says of itself: its norms, its box, its gradient and `keeps_signs`."""
    norms, box, h = R.norms(), R.box(), 1e-6
    for v in points:
        if norms is not None:
            each = np.array([np.abs(v).sum(), float(v @ v), np.abs(v).max()])
            judge.equal("the value is that of its norms", each @ norms, R.value(v))
        if box is not None:
            bound, out = np.where(v > 0.0, box[1], box[0]), v != 0.0
            judge.equal("the value is the support of its box", bound[out] @ v[out], R.value(v))
        gradient = R.gradient(v)
        if gradient is not None:
            slopes = [(R.value(v + h * e) - R.value(v - h * e)) / (2.0 * h) for e in np.eye(v.size)]
            judge.equal("the gradient is that of the value", gradient, slopes, 1e-4)
        w = R.prox(v, 1.0)
        moved = np.where(v == 0.0, np.abs(w), -np.sign(v) * w)
        law = "the proximal map keeps signs and zeros, as `keeps_signs` says"
        judge.at_most(law, moved if R.keeps_signs else 0.0, judge.tol * (1.0 + float(np.abs(v).max())))


def _check_folded(penalty: FoldedConcave, points: list[Vec], tol: float) -> None:
    judge = Checker(repr(penalty), tol)
    s = np.linspace(0.0, 6.0, 400)
    r, slope = penalty.profile(s), penalty.slope(s)
    quotient = np.diff(r) / np.diff(s)
    judge.at_most("r(0) = 0", abs(float(r[0])))
    judge.at_most("the slopes fall: r is concave", np.diff(slope), tol)
    judge.at_most("r grows", -slope)
    judge.at_most("the slope is that of r", [quotient - slope[:-1], slope[1:] - quotient], tol * 1e3)
    for w in points:
        sizes, tangent = penalty.lengths(w), penalty.tangent().value(w)
        judge.equal("the tangent has the slope at 0", tangent, float(slope[0]) * float(sizes.sum()))
        judge.equal("the value is the sum of the profiles", penalty.value(w), penalty.profile(sizes).sum())
