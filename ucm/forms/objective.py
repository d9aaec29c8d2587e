"""The standard forms of `loss + penalty`: composite and difference of convex functions."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import IdentityMap, LinearMap, Matrix, Vec, column_ends
from ucm.data.weights import class_totals
from ucm.errors import CompositionError, EmptySetError, brief
from ucm.forms.bound import FeatureNormal, SampleDual, centred, split_at_kinks, times
from ucm.forms.solver import Answer, Expected, Part
from ucm.forms.worst_samples import worst_samples
from ucm.language.cone import Bound
from ucm.language.contracts import BoundDomain
from ucm.language.losses import Hinge
from ucm.language.objective import (
    Objective,
    PenaltySum,
    ScaledPenalty,
    multiplied,
    of_all,
    split_scalar,
    summed,
)
from ucm.language.penalties.cardinality import KSupport, fixed
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import joined
from ucm.language.penalties.epigraph import Epigraph, OfFirst
from ucm.language.penalties.norms import L2
from ucm.language.robust_samples import Perturbations, norms_of, without_perturbations
from ucm.language.sample_sets import BoundSets
from ucm.language.terms import ConvexLoss, JointLoss, ProximalPenalty, SubtractedPart
from ucm.language.worst_mean import maximum

_GRID, _FAR = 33, 8.0  # values of b tried at w = 0, and how far they go
_EVEN = np.linspace(-_FAR, _FAR, _GRID)
_WIDE = 100.0  # where the classes differ so much in size that the best b lies beyond
_SAME = 1e-12  # of an objective


@dataclass(frozen=True)
class LinearTerm:
    """A linear function `<margin, t> + <normal, w>` that is subtracted from a composite problem."""

    margin: Vec
    normal: Vec


@dataclass(frozen=True)
class WorstTerm:
    """The loss `max of sum_i (A q)_i l(o - t_i)` over the q in the intersection of some domains.

    Attributes
    ----------
    loss : l and o
    map : A, from the q of the domains to the weights of all samples, (m,)
    domains : the domains
    """

    loss: ConvexLoss
    map: LinearMap
    domains: tuple[BoundDomain, ...]

    @classmethod
    def of(cls, joint: JointLoss, data: Data) -> WorstTerm:
        """Return the form of a loss over samples; raise `EmptySetError` if its set of weights is empty."""
        U = joint.weight_set
        why = U.infeasibility_reason(data)
        if why is not None:
            raise EmptySetError(why)
        blocks = U.lower(data).blocks
        everywhere, factor = of_all(joint.loss)
        return cls(multiplied(factor, everywhere), blocks[0].map, tuple(b.domain for b in blocks))

    def weights(self, margin: Vec) -> Vec:
        """Return the weights of the samples that are maximal at these margins."""
        return self._largest(self.loss.each(margin))

    def _largest(self, losses: Vec) -> Vec:
        return self.map.matvec(maximum(self.domains, self.map.rmatvec(losses))[1])

    @property
    def by_sample(self) -> bool:
        """True if the q of the domains are the weights of all samples, in their order."""
        return isinstance(self.map, IdentityMap)

    @functools.cached_property
    def only(self) -> Vec | None:
        """The weights of the samples if they are the only ones, else None."""
        g = np.random.default_rng(0).standard_normal(self.map.shape[0])
        high, low = self._largest(g), self._largest(-g)
        # one point: a divergence of 1e-16 leaves a width of about 1e-8
        return high if np.abs(high - low).max() <= 1e-7 * high.max() else None


@dataclass(frozen=True)
class Composite:
    """The convex problem of weighted losses plus penalties, minus a linear term, in w and b.

    `min over w, b of sum_k sum_i c_ki l_k(o_k - t_i) + sum_k R_k(w) - <v, t> - <u, w>`.

    The margins are `t_i = y_i (w'x_i + b) + sigma_i`.

    Attributes
    ----------
    X : (m, n) array or CSR matrix
    y : (m,) array of +1.0 and -1.0
    losses, penalties : the convex terms
    weights : for every loss c_k, (m,) and not negative, or None for ones
    stored : entries of the bound data, the unit of half a pass; 0 for those of X
    tilt : the linear function <v, t> + <u, w> that is subtracted; None for 0
    intercept : False for b = 0
    worst : further losses, of a `GeneralComposite` only
    shift : sigma, (m,) or 0, the offsets of the scores times the labels, of a `GeneralComposite` only
    """

    X: Matrix
    y: Vec
    losses: tuple[ConvexLoss, ...]
    penalties: tuple[ProximalPenalty, ...]
    weights: tuple[Vec | None, ...] = ()
    stored: int = 0
    tilt: LinearTerm | None = None
    intercept: bool = True
    worst: tuple[WorstTerm, ...] = ()
    shift: Bound = 0.0

    def __post_init__(self) -> None:
        vars(self)["weights"] = self.weights or (None,) * len(self.losses)

    @functools.cached_property
    def m(self) -> int:
        return self.X.shape[0]

    @functools.cached_property
    def n(self) -> int:
        return self.X.shape[1]

    @property
    def expected(self) -> Expected:
        return Expected(w=self.n, slopes=self.m, multipliers=tuple(h.map.shape[1] for h in self.worst))

    def fixed(self, margin: Vec, multipliers: Sequence[Vec] = ()) -> Composite:
        """Return the problem with fixed weights of the samples in the worst means, nowhere larger.

        They are those of the multipliers q in the domains; without these the maximal ones at the margins,
        where the objective is the same.
        """
        if not self.worst:
            return self
        weights = [h.map.matvec(q) for h, q in zip(self.worst, multipliers, strict=False)]
        weights = weights or [h.weights(margin) for h in self.worst]
        every = (*self.weights, *weights)
        return replace(self, losses=self.every_loss, weights=every, worst=())

    def without_rounding(self, w: Vec) -> Vec:
        """Return w with 0 for entries that change every margin by rounding only.

        Solvers that end at a vertex or inside of a cone leave them. Penalties without a kink at 0 keep them.
        """
        used = np.flatnonzero(w)
        if used.size == 0 or not self.penalty.without_forms[1].is_box_plus_ridge:
            return w
        X = self.X if used.size == w.size else self.X[:, used]
        low, high = column_ends(X)
        cleaned = w.copy()
        cleaned[used[np.abs(w[used]) * np.maximum(high, -low) <= 1e-12]] = 0.0  # rounding of a margin of 1
        return cleaned

    @functools.cached_property
    def entries(self) -> int:
        """The number of stored entries of X."""
        return int(self.X.nnz) if sparse.issparse(self.X) else self.X.size

    @property
    def unit_entries(self) -> int:
        """The number of stored entries of the bound data, the unit of half a pass."""
        return max(1, self.stored or self.entries)

    @property
    def cost(self) -> float:
        """The cost of one product with X and one with its transpose, in passes over the bound data."""
        return self.entries / self.unit_entries

    @property
    def parts(self) -> Iterable[tuple[ConvexLoss, Vec | None]]:
        """Pairs of every loss and its sample weights, None for ones."""
        return zip(self.losses, self.weights, strict=True)

    @functools.cached_property
    def _terms(self) -> list[tuple[ConvexLoss, Vec]]:
        ones = np.ones(self.m)
        return [(loss, ones if c is None else c) for loss, c in self.parts]

    @functools.cached_property
    def every_loss(self) -> tuple[ConvexLoss, ...]:
        """The losses, and those of the worst means."""
        return (*self.losses, *(h.loss for h in self.worst))

    @property
    def single(self) -> Vec | None:
        """The sample weights of the first loss; None for ones."""
        return self.weights[0]

    @functools.cached_property
    def caps(self) -> Vec:
        """The largest slope of the total loss of each sample, (m,)."""
        return self._total(lambda loss: loss.steepest())

    @functools.cached_property
    def floors(self) -> Vec:
        """The smallest slope of the total loss of each sample, (m,); 0 unless losses grow on both sides."""
        return self._total(lambda loss: loss.lowest())

    def _total(self, end: Callable[[ConvexLoss], float]) -> Vec:
        """Return for each sample the weighted sum of `end(loss)`, an extreme slope, over the losses."""
        total = np.zeros(self.m)
        for loss, c in self.parts:
            total += end(loss) if c is None else times(c, end(loss))
        for h in self.worst:
            limit = np.sign(end(h.loss)) * np.inf if end(h.loss) else 0.0
            total += np.where(h.map.matvec(np.ones(h.map.shape[1])) > 0.0, limit, 0.0)
        return total

    @property
    def linear(self) -> LinearTerm:
        """The subtracted linear term; zeros if `tilt` is None."""
        return self.tilt or LinearTerm(np.zeros(self.m), np.zeros(self.n))

    def tilted(self, tilt: LinearTerm | None) -> Composite:
        """Return the problem with another subtracted linear term and shared cached attributes."""
        form = copy.copy(self)
        vars(form)["tilt"] = tilt
        return form

    def same_terms(self, other: Composite) -> bool:
        """True if another problem over the same samples has the same losses and sample weights."""
        pairs = zip(self.weights, other.weights, strict=False)
        return (
            self.losses == other.losses
            and self.worst == other.worst
            and len(self.weights) == len(other.weights)
            and all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)
        )

    def margins(self, w: Vec, b: float) -> Vec:
        return self.y * (self.X @ w + (b + self.y * self.shift))

    def adjoint(self, beta: Vec) -> Vec:
        """Return the adjoint of the linear margin map at beta, `sum_i beta_i y_i x_i`."""
        return np.asarray(self.X.T @ (self.y * beta))

    @functools.cached_property
    def penalty(self) -> CombinedPenalty:
        """The sum of the penalties, as a `CombinedPenalty`."""
        return CombinedPenalty(self.penalties)

    @functools.cached_property
    def norms(self) -> tuple[float, float, float, tuple[ProximalPenalty, ...]]:
        """The penalty as (a, c, s, others): `a ||w||_1 + c ||w||_2^2 + s ||w||_inf`, and other penalties."""
        return self.penalty.norms

    def loss(self, margin: Vec) -> float:
        """Return the total loss at the margins."""
        if self.worst:
            return self.fixed(margin).loss(margin)
        return sum(loss.value(margin, self.y, c) for loss, c in self.parts)

    def value(self, margin: Vec, w: Vec) -> float:
        """Return the objective at the margins and the normal w."""
        total = self.loss(margin) + self.penalty.value(w)
        if self.tilt is not None:
            total -= float(self.tilt.margin @ margin) + float(self.tilt.normal @ w)
        return total

    def gradient(self, margin: Vec) -> Vec:
        """Return minus the slopes of the total loss at the margins, `sum_k c_ki l_k'(o_k - t_i)`."""
        return slopes_of(self.fixed(margin).parts, margin)

    def curvature(self, margin: Vec) -> Vec:
        """Return the second derivatives of the total loss, `sum_k c_ki l_k''(o_k - t_i)`, at most 1e15 c_ki.

        At a kink of l' it is the derivative of one side.
        """
        total = np.zeros(self.m)
        for loss, c in self.parts:
            total += curvature(loss, margin) if c is None else c * curvature(loss, margin)
        return total

    def coupling(self, margin: Vec) -> tuple[()]:
        """Return V and S of second derivatives `V S V'` that join samples: none."""
        return ()

    @functools.cached_property
    def scale(self) -> float:
        """The largest absolute entry of X."""
        return float(abs(self.X).max())

    def lower_bound(self, slopes: Vec, margin: Vec, w: Vec) -> tuple[float, float]:
        """Return Fenchel's lower bound of the optimum at a dual point, and the relative violation.

        The bound is tight at w for sums of penalties without a proximal map too. Solvers use it as a stopping
        rule; certificates build the dual point from the declaration.
        """
        if self.worst:
            return self.fixed(margin).lower_bound(slopes, margin, w)
        v, u = (None, np.zeros(self.n)) if self.tilt is None else (self.tilt.margin, self.tilt.normal)
        v = v if v is not None and v.any() else None
        dual = SampleDual(self._terms, self.y, margin, slopes, v, shares=split_at_kinks, free=self.intercept,
                          shift=self.shift)  # fmt: skip
        normal = FeatureNormal(self.X, w, lambda: self.scale)
        conjugate, fraction, missed = next(iter(normal.conjugates(self.penalty, dual, u)))
        return dual.gain(fraction) - conjugate, max(missed, dual.outside)

    def duality_gap(self, answer: Answer) -> tuple[float, float]:
        """Return the objective at an answer and its duality gap from the slopes, inf without slopes."""
        w, b = answer.plane
        margin = self.margins(w, b)
        value = self.value(margin, w)
        if answer.slopes is None:
            return value, np.inf
        return value, value - self.fixed(margin, answer.multipliers).lower_bound(answer.slopes, margin, w)[0]


class GeneralComposite(Composite):
    """A composite problem with worst means or offsets of the scores, which few solvers take."""


@dataclass(frozen=True)
class MovedComposite(Composite):
    """A composite problem whose margins are those of the worst points `moved` of its samples."""

    moved: BoundSets = field(kw_only=True)

    def margins(self, w: Vec, b: float) -> Vec:
        return super().margins(w, b) - self.moved.heights(w[: self.moved.G.shape[1]])

    def duality_gap(self, answer: Answer) -> tuple[float, float]:
        w, b = answer.plane
        margin = self.margins(w, b)
        value, gap = self.value(margin, w), np.inf
        if answer.slopes is None:
            return value, gap
        fields = {name: getattr(self, name) for name in Composite.__dataclass_fields__}
        for X in worst_samples(self.X, self.moved, self.penalties, w, answer.slopes):
            at = Composite(**{**fields, "X": X})
            bound = at.fixed(margin, answer.multipliers).lower_bound(answer.slopes, at.margins(w, b), w)[0]
            gap = min(gap, value - bound)
            if gap <= 1e-9 * abs(value):
                break
        return value, gap


def curvature(loss: ConvexLoss, margin: Vec) -> Vec:
    """Return the second derivative `l''(o - t_i)` of a smooth loss at the margins."""
    u = loss.offset - margin
    s = loss.gradient(u)
    slope = loss.conjugate_prox_slope(s + u, 1.0, s)  # 1 / (1 + l*''(s)), and l'' l*'' = 1
    return slope / np.maximum(1.0 - slope, 1e-15)


def slopes_of(parts: Iterable[tuple[ConvexLoss, Vec | None]], margin: Vec) -> Vec:
    """Return minus the slopes of a sum of weighted losses at the margins, (m,)."""
    total = np.zeros(margin.size)
    for loss, c in parts:
        slopes = loss.gradient(loss.offset - margin)
        total += slopes if c is None else times(c, slopes)
    return total


def weighed(
    losses: tuple[ConvexLoss, ...], data: Data
) -> tuple[tuple[ConvexLoss, ...], tuple[Vec | None, ...]]:
    """Return the distinct losses and their sample weights, 0 outside of the class or group of a loss."""
    weights: dict[ConvexLoss, Vec | None] = {}
    for loss in losses:
        everywhere, factor = of_all(loss)
        counts = loss.counts(data.y, data.groups)
        if counts is None and everywhere not in weights:
            weights[everywhere] = data.weights
            continue
        c = data.factors if counts is None else np.where(counts, factor * data.factors, 0.0)
        previous = weights.get(everywhere, 0.0)
        weights[everywhere] = c + (1.0 if previous is None else previous)
    return tuple(weights), tuple(weights.values())


def lifted(model: Objective, data: Data) -> tuple[Objective, Data]:
    """Return an objective of plain losses without penalised intercept, and its samples with more features.

    A penalised intercept is the weight of one more feature. Perturbations of the samples are one more, with
    the entries `-y_i r_i`, whose weight t bounds the norm h of w (`ucm.language.penalties.epigraph`). In sets
    whose shape differs by sample the samples stay where they are: see `ucm.forms.worst_samples`.
    """
    moved = Perturbations.of(model, data) if model.needs & {"perturbations", "shapes"} else None
    if moved is not None and (model.dc()[1].penalties or "envelope" in model.needs):
        raise CompositionError(
            f"Robust: expected a convex penalty, got {brief(model.penalty)}; take L1() or L2(), or leave the "
            "perturbations out"
        )
    if model.penalised:
        model, data = model.with_column(data.n), data.with_column(model.scaling)
    if moved is None:
        return model, data
    if moved.shapes is not None:
        return replace(model, loss=without_perturbations(model.loss)), data
    norms = tuple(map(OfFirst, moved.norms)) if moved.n < data.n else moved.norms
    terms: tuple = joined(model.penalty.split()[0], data.n)
    whole = Epigraph(terms, norms)
    parts = [whole] if whole.proximal else [*map(OfFirst, terms), Epigraph((), norms)]
    loss, penalty = without_perturbations(model.loss), summed(PenaltySum, parts)
    return replace(model, loss=loss, penalty=penalty), data.with_column(-data.y * moved.sizes)


def lifted_plane(model: Objective, w: Vec, b: float) -> tuple[Vec, float]:
    """Return the plane (w, b) of a model in the features of `lifted`."""
    if not (model.penalised or "perturbations" in model.needs):
        return w, b
    norms = norms_of(model) if "perturbations" in model.needs else ()
    height = [sum(h.value(w) for h in norms)] if norms else []
    return (
        (np.concatenate([w, [b / model.scaling], height]), 0.0)
        if model.penalised
        else (np.append(w, height), b)
    )


def declared_plane(model: Objective, w: Vec, b: float) -> tuple[Vec, float]:
    """Return the plane (w, b) in the declared features, from that in the features of `lifted`."""
    w = w[:-1] if "perturbations" in model.needs else w
    return (w[:-1], model.scaling * float(w[-1])) if model.penalised else (w, b)


@dataclass(frozen=True)
class DifferenceOfConvex:
    """The problem `min G - H`: a composite problem minus convex losses and convex functions of w.

    Attributes
    ----------
    G : the convex part
    losses, penalties : the terms of H
    weights : of the losses of H, as for `Composite`
    start : the penalties of the convex problem with the losses of G
    unit : mu if all losses of G are ramps of one mu < 1; else 1
    varies : for every declared joint loss False if it has only one vector of weights, as a sum of losses
    level : the part of the offsets that is common to all samples, which the b of G contains
    """

    G: Composite
    losses: tuple[ConvexLoss, ...] = ()
    penalties: tuple[SubtractedPart, ...] = ()
    weights: tuple[Vec | None, ...] = ()
    start: tuple[ProximalPenalty, ...] = ()
    unit: float = 1.0
    varies: tuple[bool, ...] = ()
    level: float = 0.0

    def __post_init__(self) -> None:
        vars(self)["weights"] = self.weights or (None,) * len(self.losses)

    @classmethod
    def of(cls, model: Objective, data: Data) -> DifferenceOfConvex:
        """Return the form of a declared objective, by the DC splits of its terms."""
        shapes = Perturbations.of(model, data).shapes if "shapes" in model.needs else None
        model, data = lifted(model, data)
        G, H = model.dc()
        losses, weights = weighed(G.losses, data)
        every, table = [WorstTerm.of(loss, data) for loss in G.joint], dict(zip(losses, weights, strict=True))
        for h in every:  # with the only weights it is a sum of losses
            if h.only is not None:
                c = table.get(h.loss, np.zeros(data.m))
                table[h.loss] = h.only + (1.0 if c is None else c)
        losses, weights = tuple(table), tuple(table.values())
        varies = tuple(h.only is None for h in every)
        worst = tuple(itertools.compress(every, varies))
        free, level = model.intercept is not None, 0.0
        shift = model.shift(data.y, data.per_sample)
        if free:
            shift, level = centred(data.y, shift)
        kind: Any = GeneralComposite if worst or np.any(shift) else Composite
        if shapes is not None:
            kind = functools.partial(MovedComposite, moved=shapes)
        penalties = joined(G.penalties, data.n)
        form = kind(data.X, data.y, losses, penalties, weights, intercept=free, worst=worst, shift=shift)
        losses, weights = weighed(H.losses, data)
        unit = unit_of(form.losses)
        start = model.penalty.surrogates()
        return cls(form, losses, H.penalties, weights, start, unit, varies, level)

    @property
    def expected(self) -> Expected:
        return self.G.expected

    @property
    def parts(self) -> Iterable[tuple[ConvexLoss, Vec | None]]:
        """Pairs of every loss of H and its sample weights, None for ones."""
        return zip(self.losses, self.weights, strict=True)

    @property
    def convex(self) -> bool:
        return not self.losses and not self.penalties

    def convex_surrogate(self) -> Composite:
        """Return the convex problem with the losses of G and surrogate penalties."""
        return replace(self.G, penalties=self.start)

    def hinged(self) -> Composite | None:
        """Return the convex problem whose (w, b) / mu is an SVM, by the function `hinged`; else None."""
        scaled = None if np.any(self.G.shift) else hinged(self.start, self.unit)
        return None if scaled is None else replace(self.G, penalties=scaled)

    def value(self, margin: Vec, w: Vec) -> float:
        """Return the objective `G - H` at the margins and w."""
        minus = sum(loss.value(margin, self.G.y, c) for loss, c in self.parts)
        minus += sum(penalty.value(w) for penalty in self.penalties)
        return self.G.value(margin, w) - minus

    def constant(self) -> Answer:
        """Return w = 0 with the optimal b; of several optimal kinks the b nearest to 0.

        At w = 0 each loss is a loss of two samples with the weights of the classes. Piecewise linear losses
        have their least value at a kink; other losses are also minimised over a grid, which is refined at
        its least value. Without intercept b is 0, unless the last feature is constant, as that of a penalised
        intercept: then b is its weight times its value.
        """
        G, losses = self.G, (*self.G.every_loss, *self.losses)
        unit = 0.0  # the value of the feature of a penalised intercept
        if not G.intercept:
            last = np.unique(G.X[:, [-1]].toarray() if sparse.issparse(G.X) else G.X[:, -1])
            unit = float(last[0]) if last.size == 1 else 0.0

        def at(b: float) -> Answer:
            w = np.zeros(G.n)
            if unit:
                w[-1], b = b / unit, 0.0
            return Answer(w=w, b=b)

        if not (G.intercept or unit):
            return at(0.0)
        parts = [
            (loss, sign, class_totals(c, G.y))
            for sign, part in ((1.0, G.parts), (-1.0, self.parts))
            for loss, c in part
        ]

        moved = bool(np.any(G.shift))  # then the samples of a class differ at w = 0

        def heights(b: Vec) -> Vec:
            if moved:
                return np.array([self.value(x * G.y + G.shift, at(x).plane[0]) for x in b])
            total = np.zeros(b.size)
            for loss, sign, c in parts:
                for side, weight in zip((1.0, -1.0), c, strict=True):
                    if weight > 0.0:
                        total += sign * weight * loss.values(side * b, np.full(b.size, side))
            for h in G.worst:
                total += [h.weights(x * G.y) @ h.loss.each(x * G.y) for x in b]
            if unit:
                planes = [at(x).plane[0] for x in b]
                total += [G.penalty.value(w) - sum(h.value(w) for h in self.penalties) for w in planes]
            return total

        kinks = {0.0, *(side * loss.offset for loss in losses for side in (1.0, -1.0))}
        curved = moved or bool(G.worst or unit) or any(loss.slope() is None for loss in losses)
        places = np.array([*kinks, *(_EVEN if curved else ())])
        tried = heights(places)
        least = float(tried.min())
        minimisers = places[tried <= least + _SAME * abs(least)]
        best = float(minimisers[np.argmin(np.abs(minimisers))])
        if curved:
            low = float(places[places < best].max(initial=-_WIDE))
            high = float(places[places > best].min(initial=_WIDE))
            for _ in range(6):  # refinements of the grid between two such values
                places = np.linspace(low, high, _GRID)
                tried = heights(places)
                k = int(tried.argmin())
                if tried[k] < least * (1.0 - _SAME):
                    best, least = float(places[k]), float(tried[k])
                low, high = places[max(k - 1, 0)], places[min(k + 1, _GRID - 1)]
        return at(best)

    def subgradient(self, margin: Vec, w: Vec) -> LinearTerm:
        """Return a subgradient of H, as slopes in the margins and in w."""
        normal = sum((p.subgradient(w) for p in self.penalties), start=np.zeros(self.G.n))
        return LinearTerm(-slopes_of(self.parts, margin), normal)


@dataclass(frozen=True)
class BestSubset:
    """The problem of a composite whose w has at most k nonzero entries.

    Attributes
    ----------
    G : the composite, with the squared l2 norm if that is its only penalty and the loss is one, else with the
        convex envelope `KSupport`, which is equal at every such w
    relaxed : the penalties of G with the envelope
    support : the envelope, with k and the features that are included and excluded from the start
    """

    G: Composite
    relaxed: tuple[ProximalPenalty, ...]
    support: KSupport

    @classmethod
    def of(cls, relaxed: Composite) -> BestSubset:
        """Return the form of a composite with one term `c KSupport(k)`."""
        terms = [split_scalar(R) for R in relaxed.penalties]
        c, support = next((c, R) for c, R in terms if isinstance(R, KSupport))
        # dual points of several losses are split at the margins of their w: combined ones have none
        alone = len(terms) == len(relaxed.losses) == 1
        G = replace(relaxed, penalties=(multiplied(c, L2()),)) if alone else relaxed
        return cls(G, relaxed.penalties, support)

    @property
    def expected(self) -> Expected:
        return self.G.expected

    def node(self, part: Part) -> Composite:
        """Return the relaxed problem over the w of a part: with further features included and excluded."""
        form = copy.copy(self.G)
        for cached in ("penalty", "norms"):
            vars(form).pop(cached, None)
        vars(form)["penalties"] = tuple(fixed(R, *part) for R in self.relaxed)
        return form


def hinged(penalties: tuple[ProximalPenalty, ...], unit: float) -> tuple[ProximalPenalty, ...] | None:
    """Return penalties with which (w, b) / mu solves the hinge problem, for ramps of one mu < 1; else None.

    `max(0, mu - t) / mu` at mu (w, b) is `max(0, 1 - t)`; a penalty of degree k is `mu^-k` times as much.
    """
    numbers = [penalty.norms() for penalty in penalties]
    if unit == 1.0 or any(n is None or (n[1] and (n[0] or n[2])) for n in numbers):
        return None
    factors = (unit ** (-2 if n and n[1] else -1) for n in numbers)
    return tuple(ScaledPenalty(c, p) for c, p in zip(factors, penalties, strict=True))


def unit_of(losses: Iterable[ConvexLoss]) -> float:
    """Return mu if all losses are hinges that start at the same mu > 0, as the ramps of one mu; else 1."""
    bases = [split_scalar(loss)[1] for loss in losses]
    units = {base.offset if isinstance(base, Hinge) and base.offset > 0.0 else 1.0 for base in bases}
    return units.pop() if len(units) == 1 else 1.0
