"""The certificate of `loss + penalty`: the Fenchel gap, or the residual of criticality if not convex.

Everything is computed from the declaration and the samples: the split of its terms, their values, slopes and
conjugates. The form that a solver was given is not used, so that a wrong one cannot confirm itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ucm.data.bound_data import Data
from ucm.data.linear_map import LinearMap, Vec
from ucm.evidence.certificate import fault, is_proven, of_objective
from ucm.evidence.feasible_point import moved_inside
from ucm.evidence.penalty_split import split_by_program
from ucm.evidence.support import SupportFunction
from ucm.forms.bound import FeatureNormal, Normal, SampleDual, centred, lower_bound
from ucm.forms.flips import FlippedSamples
from ucm.forms.monitor import INSIDE
from ucm.forms.objective import lifted, lifted_plane
from ucm.forms.solution import Certificate
from ucm.forms.solver import Part
from ucm.forms.worst_samples import worst_samples
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import ConvexPart, Objective, ScaledPenalty
from ucm.language.penalties.cardinality import fixed
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import active_multipliers, constraints_of, joined, merged
from ucm.language.penalties.epigraph import OfFirst
from ucm.language.robust_samples import Perturbations, norms_of, without_perturbations
from ucm.language.terms import ConvexLoss, ProximalPenalty, SubtractedPart
from ucm.language.wasserstein import WassersteinObjective
from ucm.language.worst_mean import maximum

_NEAR, _JUMP = 1e-7, 1e-3  # a slope that changes by more than _JUMP within _NEAR of a margin has a kink
_SWEEPS = 30  # of projections on the sets of weights of several worst means


@dataclass(frozen=True)
class Tangent:
    """The tangent plane `height + <margin, t> + <normal, w>` of the subtracted function H at a point."""

    margin: Vec
    normal: Vec
    height: float


def tangent_plane(H: ConvexPart[SubtractedPart], data: Data, normal: Normal, margin: Vec) -> Tangent:
    """Return the tangent plane of the subtracted function H at a normal w and its margins."""
    slopes = _slopes(H, data, margin)
    height = sum(loss.value(margin, data.y, data.weights, data.groups) for loss in H.losses)
    u, constant = normal.tangent(H.penalties)
    return Tangent(slopes, u, height - float(slopes @ margin) + constant)


def _slopes(part: ConvexPart, data: Data, margin: Vec) -> Vec:
    """Return the derivative of the losses of a convex part in each margin, at a kink a subgradient."""
    slopes = np.zeros(data.m)
    for loss in part.losses:
        c = weights_in(loss, data)
        slopes -= (1.0 if c is None else c) * loss.gradient(loss.offset - margin)
    return slopes


def loss_slopes(model: Objective, data: Data, margin: Vec) -> Vec:
    """Return the derivative of the total loss in each margin."""
    G, H = model.dc()
    return _slopes(G, data, margin) - _slopes(H, data, margin)


def certify_objective(
    model: Objective,
    data: Data,
    normal: Normal,
    b: float,
    slopes: Vec | None,
    tol: float = 0.0,
    multipliers: Sequence[Vec | None] = (),
) -> Certificate:
    """Return the certificate of (w, b) for `loss + penalty`, by Fenchel duality at a dual point.

    The split G - H of the declaration is majorised at (w, b) by G minus the tangent plane of H.
    Fenchel's inequality bounds this convex problem from below: for a convex objective (H = 0) the gap
    bounds the distance to the optimum (kind "global"); otherwise it is the residual of criticality, 0
    exactly when the slopes of the plane are a subgradient of G too, equation (12) of Ong and Le Thi
    (2013) (kind "local"). The dual point `slopes` is minus the slopes of the convex losses; None takes
    those at (w, b). A relative gap of `tol` is enough.

    The value of a worst mean is the support function of its weights. The sum of its losses with any weights
    of the set is a lower bound. Up to three weights are tried: the `multipliers`, with the maximal weights at
    (w, b) in place of None; the maximal weights; and those whose slopes at (w, b) are nearest to `slopes`.
    """
    if "shapes" in model.needs and isinstance(normal, FeatureNormal):
        return _certify_moved(model, data, normal, b, slopes, tol, multipliers)
    if isinstance(normal, FeatureNormal) and (model.penalised or "perturbations" in model.needs):
        w, b = lifted_plane(model, normal.w, b)
        model, data = lifted(model, data)
        normal = FeatureNormal(data.X, w)
    G, H = model.dc()
    shift = model.shift(data.y, data.per_sample)
    margin = data.y * (normal.scores + (b + data.y * shift))  # b and offsets may cancel
    primal = _loss(model, data, margin) + normal.value(model.penalty)
    if model.intercept is None and b != 0.0:  # no point of the problem
        primal = np.inf
    plane = tangent_plane(H, data, normal, margin)
    losses = [(loss, data.factors if (c := weights_in(loss, data)) is None else c) for loss in G.losses]
    added: tuple = G.penalties
    penalty = CombinedPenalty(joined(added, normal.w.size) if isinstance(normal, FeatureNormal) else added)
    enough = primal - tol * abs(primal) + plane.height
    tilt, free = plane.margin if H.losses else None, model.intercept is not None
    bound, violation, proof = -np.inf, np.inf, None
    for weights, outside in _weights(G, data, margin, slopes, multipliers):
        joint = [(loss.loss, q) for loss, q in zip(G.joint, weights, strict=True)]
        point = SampleDual([*losses, *joint], data.y, margin, slopes, tilt, free=free, shift=shift)
        found, missed = lower_bound(point, normal, penalty, plane.normal, enough, split_by_program)
        missed = float(np.maximum(missed, outside))
        if (missed <= INSIDE, found) > (violation <= INSIDE, bound):
            bound, violation, proof = found, missed, point
        if violation <= INSIDE and bound >= enough:
            break
    dual, at_zero, cancelled, wrong = bound - plane.height, 0.0, 0.0, None
    if primal < dual:  # only then the size of the terms matters
        at_zero = _loss(model, data, np.zeros(data.m))
        cancelled = sum(normal.value(R) for R in G.penalties) + float(np.abs(plane.margin) @ np.abs(margin))
        known = np.abs(centred(data.y, shift)[0] if free else shift)
        cancelled += float(np.sum(np.abs(_slopes(G, data, margin)) * known))
        if isinstance(normal, FeatureNormal) and proof is not None:  # <w, x_i> and b may cancel
            cancelled += float(np.sum(normal.sizes(proof) * np.abs(normal.w)))
        # where a kernel is indefinite, the dual may exceed the primal objective
        wrong = None if normal.indefinite else fault("the conjugate of a term", model)
    kind = "local" if H.losses or H.penalties else "global"
    return of_objective(primal, dual, violation, at_zero, cancelled, kind=kind, wrong=wrong)


def _certify_moved(
    model: Objective, data: Data, normal: FeatureNormal, b: float, slopes: Vec | None, tol: float,
    multipliers: Sequence[Vec | None],
) -> Certificate:  # fmt: skip
    """Return the certificate of (w, b) for losses of samples in sets whose shape differs by sample.

    The problem of any points of the sets bounds it from below; that of the worst points for w has its value.
    """

    def certified(plain: Objective, moved: Data) -> Certificate:
        return certify_objective(plain, moved, FeatureNormal(moved.X, normal.w), b, slopes, tol, multipliers)

    points = at_worst(model, data, normal.w, b, slopes)
    best = certified(*next(points))
    if is_proven(best, tol):
        return best
    for plain, moved in points:
        found = certified(plain, moved)
        if found.violation <= INSIDE and not best.dual >= found.dual:
            at_zero, wrong = _loss(plain, data, np.zeros(data.m)), fault("a set of perturbations", model)
            best = of_objective(best.primal, found.dual, found.violation, at_zero, kind="global", wrong=wrong)
    return best


def at_worst(
    model: Objective, data: Data, w: Vec, b: float = 0.0, slopes: Vec | None = None, best: bool = True
) -> Iterator[tuple[Objective, Data]]:
    """Yield an objective without perturbations and its samples at the worst points of sets that differ.

    The worst points for w are followed, if `best`, by those with which the slopes, None for those at (w, b),
    make w optimal. A model without such sets is yielded as it is.
    """
    shapes = Perturbations.of(model, data).shapes if "shapes" in model.needs else None
    if shapes is None:
        yield model, data
        return
    plain = replace(model, loss=without_perturbations(model.loss))
    (v, _), (whole, given) = lifted_plane(plain, w, b), lifted(plain, data)
    penalties = joined(whole.dc()[0].penalties, given.n)
    if slopes is None and best:
        margin = data.y * (data.X @ w + b) - shapes.heights(w)
        slopes = -_slopes(plain.dc()[0], data, margin)
    for X in worst_samples(given.X, shapes, penalties, v, slopes if best else None):
        yield plain, data.with_coordinates(X[:, : data.n])


def certify_flips(
    model: WassersteinObjective,
    data: Data,
    normal: FeatureNormal,
    b: float,
    slopes: Vec | None,
    tol: float,
    multipliers: Sequence[Vec | None],
) -> Certificate:
    """Return the certificate of (w, b) for a Wasserstein ball with label flips.

    The parts of flipped labels are those of the solver, then those that fit the slopes and the margins.
    """
    c, margin = data.factors / data.factors.sum(), data.y * (normal.scores + b)
    here = FlippedSamples(model, data.X, data.y, c, normal.w, margin, model.intercept is not None)
    primal = here.height if b == 0.0 or here.free else np.inf
    bound, violation = here.best_bound(slopes, multipliers, primal - tol * abs(primal))
    at_zero, wrong = model.height(np.zeros(data.m), 0.0, c), fault("the conjugate of the loss", model)
    return of_objective(primal, bound, violation, at_zero, kind="global", wrong=wrong)


def certify_parts(
    model: Objective,
    data: Data,
    normal: FeatureNormal,
    b: float,
    parts: Sequence[tuple[Part, Vec]],
    slopes: Vec | None,
    tol: float = 0.0,
) -> Certificate:
    """Return the certificate of (w, b) for an objective with at most k features, by parts that cover it.

    A feature divides a part of the problem into those w that have it among the k and those that do not. The
    optimum is at least the least of the bounds of the parts, each by Fenchel duality at its own dual point
    for the convex envelope of the penalty in the part. Parts that do not cover all w, or none, leave the
    bound of the whole problem at `slopes`.
    """
    whole = certify_objective(model, data, normal, b, slopes, tol)
    if not covers([part for part, _ in parts]):
        return whole
    bound, violation = np.inf, 0.0
    for part, point in parts:
        confined = replace(model, penalty=fixed(model.penalty, *part))
        found = certify_objective(confined, data, normal, b, point)
        bound = float(np.minimum(bound, found.dual))
        violation = float(np.maximum(violation, found.violation))
        if not bound > whole.dual:  # NaN too
            return whole
    at_zero, wrong = _loss(model, data, np.zeros(data.m)), fault("the division into parts", model)
    return of_objective(whole.primal, bound, violation, at_zero, kind="global", wrong=wrong)


def covers(parts: Sequence[Part]) -> bool:
    """Return True if the parts are the leaves of a tree, each node of which divides by one feature."""
    if len(parts) <= 1:
        return bool(parts) and not any(parts[0])
    common = set.intersection(*({*part.included, *part.excluded} for part in parts))
    if not common:
        return False
    j = min(common)
    sides = ([part for part in parts if j in part.included], [part for part in parts if j in part.excluded])
    return all(
        covers([Part(*(tuple(i for i in names if i != j) for names in part)) for part in side])
        for side in sides
    )


def _loss(model: Objective, data: Data, margin: Vec) -> float:
    """Return the total loss at the margins; an upper bound of it for an intersection of sets of weights."""
    G, H = model.dc()
    if not G.joint:
        return model.loss.value(margin, data.y, data.weights, data.groups)
    parts = [(1.0, loss) for loss in G.losses] + [(-1.0, loss) for loss in H.losses]
    total = sum(sign * loss.value(margin, data.y, data.weights, data.groups) for sign, loss in parts)
    for loss in G.joint:
        losses = loss.loss.each(margin)
        total += SupportFunction(loss.weight_set, data)(losses).value if losses.max() < np.inf else np.inf
    return total


def _weights(
    G: ConvexPart[ProximalPenalty], data: Data, margin: Vec, slopes: Vec | None,
    multipliers: Sequence[Vec | None],
) -> Iterator[tuple[list[Vec], float]]:  # fmt: skip
    """Yield sample weights of every worst mean, (m,) each, with their violation of their sets."""
    if not G.joint:
        yield [], 0.0
        return
    sets = [loss.weight_set for loss in G.joint]
    images = [U.lower(data).blocks for U in sets]
    maps = [blocks[0].map for blocks in images]
    heights = [A.rmatvec(loss.loss.each(margin)) for A, loss in zip(maps, G.joint, strict=True)]
    domains = ([b.domain for b in blocks] for blocks in images)
    largest = [maximum(D, g)[1] for D, g in zip(domains, heights, strict=True)]
    if multipliers:
        given = [a if q is None else q for q, a in zip(multipliers, largest, strict=True)]
        yield _members(sets, data, given)
    weights, outside = _members(sets, data, largest)
    yield weights, outside
    if slopes is None:
        return
    gradients = [_gradient(loss.loss, margin) for loss in G.joint]
    beta, missed = slopes + _slopes(G, data, margin), [outside] * len(sets)
    for _ in range(_SWEEPS if len(sets) > 1 else 1):  # projections, one set after the other
        for k, (A, s) in enumerate(zip(maps, gradients, strict=True)):
            others = sum(r * q for j, (r, q) in enumerate(zip(gradients, weights)) if j != k)
            [weights[k]], missed[k] = _members([sets[k]], data, [_coefficients(A, beta - others, s)])
    yield weights, float(np.max(missed))  # NaN stays


def _gradient(loss: ConvexLoss, margin: Vec) -> Vec:
    """Return the slopes of l at the margins, 0 at kinks, whose slopes are not determined."""
    u = loss.offset - margin
    h = _NEAR * (1.0 + np.abs(u))
    before, after = loss.gradient(u - h), loss.gradient(u + h)
    with np.errstate(invalid="ignore"):  # of slopes that overflow
        return np.where(after - before <= _JUMP * np.abs(after), loss.gradient(u), 0.0)


def _coefficients(A: LinearMap, beta: Vec, s: Vec) -> Vec:
    """Return the q with `s A q` nearest to beta, the columns of A disjoint; A'beta where s = 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # of slopes that overflow, which prove nothing
        squares = A.rmatvec(s * s * A.matvec(np.ones(A.shape[1])))
        return np.divide(A.rmatvec(s * beta), squares, out=A.rmatvec(beta), where=squares > 0.0)


def _members(sets: Sequence[UncertaintySet], data: Data, q: Sequence[Vec]) -> tuple[list[Vec], float]:
    """Return members of the sets near given points of their domains, and the largest violation."""
    weights, worst = [], 0.0
    for U, start in zip(sets, q, strict=True):
        image = U.lower(data)
        blocks = [b.projected(start) for b in image.blocks]
        at = (blocks, *U.evaluate(data, iter(blocks)))
        _, x, violation = at if at[2] <= INSIDE else moved_inside(U, data, at) or at
        weights.append(np.maximum(x, 0.0))
        worst = float(np.maximum(worst, violation))  # NaN stays
    return weights, worst


def constraint_multipliers(model: Objective, data: Data, w: Vec, b: float, weights: Vec) -> tuple[Vec, ...]:
    """Return the multipliers of each constraint of a convex objective, from the weights of the samples.

    The sum of the weighted samples y_i x_i is a subgradient of the penalty at w. What the gradients of the
    other terms, or their parts of the best split, leave of it is a combination of the rows that hold with
    equality.
    """
    terms: tuple = model.dc()[0].penalties
    sizes = [len(R.A) for _, R in constraints_of(terms, data.n)]
    if not sizes:
        return ()
    *_, (model, data) = at_worst(model, data, w, b, weights)
    norms: list[ProximalPenalty] = []
    if norms_of(model):  # perturbations add their norm, times the sizes that the weights count
        moved = Perturbations.of(model, data)
        norms = [ScaledPenalty(float(moved.sizes @ weights), h) for h in moved.norms]
        norms = [OfFirst(h) for h in norms] if model.penalised else norms
        model = replace(model, loss=without_perturbations(model.loss))
    w, _ = lifted_plane(model, w, b)
    model, data = lifted(model, data)
    terms = model.dc()[0].penalties
    constraints, z = constraints_of(terms, data.n), np.asarray(data.X.T @ (data.y * weights)).ravel()
    places = {k for k, _ in constraints}
    others = [R for k, R in enumerate(terms) if k not in places] + norms
    slopes = [R.gradient(w) for R in others]
    if any(g is None for g in slopes):
        whole = merged([R for _, R in constraints])
        split = split_by_program((*others, whole), z, w)
        slopes = [] if split is None else split[:-1]
    rest = z - sum(slopes, np.zeros_like(z))
    given = active_multipliers([R for _, R in constraints], w, rest, 1.0 / data.scale)
    return tuple(mu[:size] for mu, size in zip(given, sizes, strict=True))


def weights_in(loss: ConvexLoss, data: Data) -> Vec | None:
    """Return the weights of all samples in a loss, 0 outside its group; None if all weights are 1."""
    counts = loss.counts(data.y, data.groups)
    return data.weights if counts is None else np.where(counts, data.factors, 0.0)


# --- unattained and local minima ----------------------------------------------------------------------
def is_unattained(model: Objective, data: Data, w: Vec, b: float) -> str | None:
    """Return the reason why the objective attains no minimum near (w, b), or None if none is known.

    A loss that falls for every margin (logistic, exponential) tends to 0 along s (w, b), s to infinity, when
    (w, b) separates the samples, and along s (0, b) when the losses count one class. With a bounded penalty
    the objective tends to a limit; where it is above that at (w, b), it falls along the whole ray.
    """
    added = model.dc()[0].pointwise
    falling = [loss for loss in added if float(loss.gradient(np.array([-30.0]))[0]) > 0.0]
    if not falling:
        return None
    [(model, data)] = at_worst(model, data, w, best=False)
    w, b = lifted_plane(model, w, b)
    model, data = lifted(model, data)
    margin = data.y * (data.X @ w + b)
    value = model.value(margin, w, data.y, data.weights, data.groups, per_sample=data.per_sample)
    classes = [loss.counts(data.y, data.groups) for loss in added]
    size = float(np.abs(w).max(initial=0.0)) or 1.0  # powers of its entries under- or overflow
    for normal, t in ((w / size, margin), (np.zeros_like(w), b * data.y)):
        counted = [t if counts is None else t[counts] for counts in classes]
        limit, before = model.penalty.value(1e12 * normal), model.penalty.value(1e9 * normal)
        if (np.concatenate(counted) > 0.0).all() and limit <= before * (1.0 + 1e-12) and value >= limit:
            break
    else:
        return None
    remedy = "add a multiple of L1() or L2()" if normal.any() else "count both classes in the loss"
    return (
        f"no minimum is attained: the samples are separated, and the objective falls towards {limit:.6g} "
        f"as (w, b) grows, since {falling[0]!r} falls for every margin and the penalty is bounded; {remedy}"
    )


def is_local(model: Objective, data: Data, w: Vec, b: float, tol: float = 1e-9) -> bool:
    """True if the subtracted function H is affine near (w, b).

    A critical point is then a local minimum, as the objective is convex near it. Theorem 3.1 (IV) of Ong and
    Le Thi (2013), with its conditions `|w_j| != a` and `t_i != -mu^2`.
    """
    w, b = lifted_plane(model, w, b)
    model, data = lifted(model, data)
    H = model.dc()[1]
    margin = data.y * (data.X @ w + (b + data.y * model.shift(data.y, data.per_sample)))
    for loss in H.losses:
        if loss.slope() is None or (np.abs(margin - loss.offset) <= tol).any():
            return False
    return all(h.affine(w, tol) for h in H.penalties)
