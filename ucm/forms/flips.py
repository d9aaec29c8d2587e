"""The standard form of a Wasserstein ball whose transport may flip labels, and its lower bound.

With parts r of flipped labels, `kappa sum_i r_i <= eps`, the objective is at least that of every sample
with the weight c_i - r_i and, with the other label, r_i, plus `(eps - kappa sum_i r_i) ||w||_*`. A dual point
a of these 2 m samples gives the Fenchel bound if `||sum_i y_i (a_i - a_{m+i}) x_i||`, in the norm dual to
`||.||_*`, is at most `eps - kappa sum_i r_i`. Without the flips in this limit the bound would be too large.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec, as_dense
from ucm.forms.bound import FeatureNormal, SampleDual, lower_bound, split_slopes, times
from ucm.forms.monitor import INSIDE
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Expected
from ucm.language.domains.norm_ball import norm
from ucm.language.objective import ScaledPenalty
from ucm.language.parameter import value
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.robust import dual_exponent
from ucm.language.wasserstein import WassersteinObjective

_NEAR = 1e-7  # relative distance of equal gains, and from a kink
_ROUNDING = 1e-14  # of the terms of a dual point, whose sum may be 0
_SMALL = 1e-3  # of the largest part of flipped labels
_MOVES, _FEW = 4, 500  # of a dual point that is too long, of so many features


@dataclass(frozen=True)
class FlippedSamples:
    """The problem at a plane w with margins t: X, y, weights c of sum 1; `free` is False if b is 0."""

    model: WassersteinObjective
    X: Matrix
    y: Vec
    c: Vec
    w: Vec
    margin: Vec
    free: bool

    @property
    def height(self) -> float:
        """The objective."""
        return self.model.height(self.margin, self.model.length.value(self.w), self.c)

    def best_bound(
        self, slopes: Vec | None, given: Iterable[Vec | None], enough: float
    ) -> tuple[float, float]:
        """Return the best `bound` and its violation, up to `enough`, for given parts of flipped labels.

        They are tried without the smallest parts too, which are the rounding of 0 of a solver and use up a
        small eps; last those that fit the slopes, and none.
        """
        parts = [r for r in given if r is not None]
        parts += [np.where(r > _SMALL * r.max(), r, 0.0) for r in parts]
        best = (False, -np.inf, np.inf)
        for r in (*parts, None, np.zeros(self.c.size)):
            found, missed = self.bound(slopes, r)
            best = max(best, (missed <= INSIDE, found, missed)) if found == found else best
            if best[0] and best[1] >= enough:
                break
        return best[1:]

    def bound(self, slopes: Vec | None, r: Vec | None = None) -> tuple[float, float]:
        """Return a lower bound of the optimum, and the violation of its constraints.

        `slopes` are minus the slopes of the objective in the margins, None for those at w, and r the parts of
        flipped labels, by default those that fit the slopes. The dual point is scaled down until its norm is
        small enough.
        """
        model, c = self.model, self.c
        dual, kappa = dual_exponent(model.length.p), value(model.kappa)
        if r is None:
            r = self._fitting(slopes)
        r = np.clip(r, 0.0, c)
        terms = ((model.loss, c - r), (model.flipped, r))
        kept, flipped = split_slopes(terms, self.margin, slopes)
        each = np.concatenate([times(c - r, kept), -times(r, flipped)])
        X = sparse.vstack([self.X] * 2, format="csr") if sparse.issparse(self.X) else np.vstack([self.X] * 2)
        y, margin = np.concatenate([self.y, -self.y]), np.concatenate([self.margin, -self.margin])

        def point(part: float, slopes: Vec) -> SampleDual:
            weights = np.concatenate([c - part * r, part * r])
            return SampleDual([(model.loss, weights)], y, margin, part * slopes, None, free=self.free)

        part, a, spent = 0.0, each, kappa * float(r.sum()) if r.any() else 0.0
        for _ in range(_MOVES):
            a = point(1.0, each).combination
            terms_of_z = norm(np.asarray(abs(X).T @ np.abs(a), dtype=float).ravel(), dual)
            z = np.asarray(X.T @ a).ravel()
            length = norm(z, dual) + _ROUNDING * terms_of_z
            size = length + spent
            last, part = part, min(1.0, value(model.eps) / size) if size > 0.0 else 1.0
            if not last < part < 1.0 or z.size > _FEW or length == 0.0:
                break
            short = max(length + spent - value(model.eps), 0.0) / length
            moved = point(1.0, each).moved(as_dense(X), short * z)
            each = each if moved is None else y * moved.combination
        R = CombinedPenalty((ScaledPenalty(max(value(model.eps) - part * spent, 0.0), model.length),))
        return lower_bound(point(part, y * a), FeatureNormal(X, self.w), R, np.zeros(self.w.size))

    def _fitting(self, slopes: Vec | None) -> Vec:
        """Return parts of flipped labels for given slopes, near the margins.

        With the slopes s of the loss and s' of the other label at its margin, a sample of slope beta has the
        part r with `(c - r) s - r s' = beta`, an interval at a kink. What is left of eps goes to
        the intervals of the samples whose gain `l(-t) - l(t)` is at least kappa lam, the largest first.
        """
        model, c, t, loss = self.model, self.c, self.margin, self.model.loss
        kappa = value(model.kappa)
        lam, r = model.multiplier(t, model.length.value(self.w), c)
        if slopes is None or kappa == np.inf:
            return r

        def part(t: Vec) -> Vec:
            s, other = loss.gradient(loss.offset - t), loss.gradient(loss.offset + t)
            total = s + other
            r = np.divide(c * s - slopes, total, out=np.zeros(c.size), where=total > 0.0)
            return np.clip(r, np.clip(-slopes, 0.0, c), np.clip(c - slopes, 0.0, c))

        h, gain = _NEAR * (1.0 + np.abs(t)), loss.each(-t) - loss.each(t)
        r, most = part(t + h), part(t - h)
        room = np.where(gain >= kappa * lam - _NEAR * (1.0 + kappa * lam), np.maximum(most - r, 0.0), 0.0)
        order = np.argsort(-gain)
        before = np.cumsum(room[order]) - room[order]
        size = norm(np.asarray(self.X.T @ (self.y * slopes)).ravel(), dual_exponent(model.length.p))
        left = (value(model.eps) - size) / kappa - float(r.sum()) if kappa > 0.0 else np.inf
        r[order] += np.clip(left - before, 0.0, room[order])
        return r


@dataclass(frozen=True)
class FlipComposite(Composite):
    """The problem of a Wasserstein ball with label flips `model`, whose one loss has weights of sum 1."""

    model: WassersteinObjective = field(kw_only=True)

    @property
    def expected(self) -> Expected:
        return Expected(w=self.n, slopes=self.m, multipliers=(self.m,))

    @functools.cached_property
    def floors(self) -> Vec:
        return -self.caps

    def at(self, margin: Vec, w: Vec) -> FlippedSamples:
        """Return the problem at a plane."""
        return FlippedSamples(self.model, self.X, self.y, self.caps, w, margin, self.intercept)

    def value(self, margin: Vec, w: Vec) -> float:
        return self.at(margin, w).height

    def duality_gap(self, answer: Answer) -> tuple[float, float]:
        here = self.at(self.margins(*answer.plane), answer.plane[0])
        if answer.slopes is None:
            return here.height, np.inf
        bound, _ = here.best_bound(answer.slopes, answer.multipliers, here.height)
        return here.height, here.height - bound
