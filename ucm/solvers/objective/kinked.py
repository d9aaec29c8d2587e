"""Losses with kinks, any penalty with a proximal map: multipliers around proximal Newton steps.

With multipliers alpha of `u = o - t`, a loss l of bounded curvature or none is replaced by

    max over a of  a (o - t) - l*(a) - (a - alpha)^2 / (2 sigma),

which has a Lipschitz gradient: minus the maximiser `a = prox_{sigma l*}(alpha + sigma (o - t))`. Its sum with
the penalty is minimised by proximal Newton steps, which see only the samples near their kinks; then alpha
becomes a, and sigma grows, as in `ucm.solvers.palm`. In the limit alpha is a dual point of the losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ucm.data.linear import Vec
from ucm.data.options import COUNT, check_fields, optional
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import INNER, Composite, InnerSolver, Session, Tilt, curvature
from ucm.language.terms import ConvexLoss
from ucm.numerics.steps import MOST, PATIENCE, growth, idle
from ucm.solvers.objective.proximal_step import Step, penalised
from ucm.solvers.objective.rest import instead, moderate

__all__ = ["KinkedNewton"]

_FIRST = 1.0  # sigma, in slopes at margin o - 1
_AGAIN = 10.0  # times that, near the solution of another problem
_AT_ONCE = 9.0
_LARGEST = 1e16  # sigma, in slopes
_ENOUGH = 0.3  # of the tolerance
_INNER = 0.1  # of what the proximal step counts in the objective, the gain at which steps end
_FALLS = 0.25  # of one gain to the next, where rounding hides both: the slopes still get better
_STILL = 1e-12  # of the objective, the proximal step that sigma need not grow for


@dataclass(frozen=True)
class KinkedNewton(InnerSolver):
    """Proximal augmented Lagrangian around proximal Newton steps, for convex losses with kinks.

    Parameters
    ----------
    max_outer : int, optional
        Limit of multiplier steps.
    rest
        Goes on where the steps gain no more, if given; on small problems.

    Notes
    -----
    Rockafellar (1976), Augmented Lagrangians and applications of the proximal point algorithm in convex
    programming.
    """

    max_outer: int = 60
    rest: InnerSolver | None = None
    name: ClassVar[str] = "prox-newton-alm"

    def __post_init__(self) -> None:
        check_fields(self, max_outer=COUNT, rest=optional(INNER))

    def refuse(self, form: Composite) -> str | None:
        return penalised(form)

    def predicted_passes(self, form: Composite) -> float:
        return 60.0

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Multipliers(form, monitor, self)


class _Enveloped:
    """The losses, those with kinks by their envelopes.

    Attributes
    ----------
    alpha : for each loss its multipliers; of a smooth one they are not read
    kinked : whether it is not smooth
    sigma : the proximal parameter
    """

    def __init__(self, form: Composite, typical: float) -> None:
        self.y, self.sigma = form.y, _FIRST * typical
        weights = [np.ones(form.m) if c is None else c for _, c in form.parts]
        self.counted = [c > 0.0 for c in weights]
        self.parts: list[tuple[ConvexLoss, Vec]] = [
            (loss, np.where(counts, c, 1.0))
            for (loss, _), c, counts in zip(form.parts, weights, self.counted, strict=True)
        ]
        self.kinked = [not loss.smooth() for loss, _ in self.parts]
        self.alpha = [np.zeros(form.m) for _ in self.parts]

    def _maximiser(self, k: int, margin: Vec) -> tuple[Vec, Vec]:
        """a / c of a loss with kinks, and what its proximal map was asked for."""
        (loss, c), alpha = self.parts[k], self.alpha[k]
        v = (alpha + self.sigma * (loss.offset - margin)) / c
        return loss.conjugate_prox(v, self.sigma / c), v

    def loss(self, margin: Vec) -> float:
        """The value."""
        total = 0.0
        for k, (loss, c) in enumerate(self.parts):
            if not self.kinked[k]:
                total += loss.value(margin, self.y, np.where(self.counted[k], c, 0.0))
                continue
            a, _ = self._maximiser(k, margin)
            height = c * (a * (loss.offset - margin) - loss.conjugate(a))
            height -= (c * a - self.alpha[k]) ** 2 / (2.0 * self.sigma)
            total += float(height[self.counted[k]].sum())
        return total

    def gradient(self, margin: Vec) -> Vec:
        """Minus the slopes."""
        return sum(self._slopes(margin), start=np.zeros(margin.size))

    def _slopes(self, margin: Vec) -> list[Vec]:
        """Minus the slopes of each loss."""
        found = []
        for k, (loss, c) in enumerate(self.parts):
            smooth = not self.kinked[k]
            s = loss.gradient(loss.offset - margin) if smooth else self._maximiser(k, margin)[0]
            found.append(np.where(self.counted[k], c * s, 0.0))
        return found

    def curvature(self, margin: Vec) -> Vec:
        """The second derivatives."""
        total = np.zeros(margin.size)
        for k, (loss, c) in enumerate(self.parts):
            if not self.kinked[k]:
                bend = c * curvature(loss, margin)
            else:
                a, v = self._maximiser(k, margin)
                bend = self.sigma * loss.conjugate_prox_slope(v, self.sigma / c, a)
            total += np.where(self.counted[k], bend, 0.0)
        return total

    def advance(self, margin: Vec) -> float:
        """alpha becomes a; what the proximal step counts in the objective."""
        moved = self.step(margin)
        self.alpha = self._slopes(margin)
        return moved

    def step(self, margin: Vec) -> float:
        """What the proximal step counts at these margins."""
        known = zip(self._slopes(margin), self.alpha, self.kinked, strict=True)
        moved = sum(float(((a - b) ** 2).sum()) for a, b, kinked in known if kinked)
        return moved / (2.0 * self.sigma)


class _Multipliers(Session):
    """What lasts from one tilted problem to the next: the last point, and the multipliers."""

    def __init__(self, form: Composite, monitor: Monitor, options: KinkedNewton) -> None:
        self.monitor, self.options = monitor, options
        self.other: Session | None = None  # that goes on where the steps have stalled
        u = np.ones(form.m)
        self.typical = (
            float(np.mean(form.gradient(np.min([k.offset for k in form.losses]) - u))) or 1.0
        )
        self.losses = _Enveloped(form, self.typical)
        self.w, self.b = np.zeros(form.n), 0.0

    def place(self, w: Vec, b: float) -> None:
        self.w, self.b = w.copy(), b

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        if self.other is not None:
            return self.other.solve(form, tilt, tol)
        own = self.options.max_outer
        at = Step(form, tilt, (self.w, self.b), self.monitor, 1.0, None, self.losses)
        limit = self.monitor.limit(own) if self.whole else own
        best, kept, since, outer, status = np.inf, Answer(w=at.w, b=at.b), 0, 0, "max_iter"
        for outer in range(1, limit + 1):
            with np.errstate(over="ignore", invalid="ignore"):
                steps = self._minimise(at)
            at.t = form.margins(at.w, at.b)  # without the rounding of the steps
            moved = self.losses.advance(at.t)
            value = form.value(at.t, at.w, tilt)
            bound, missed = form.lower_bound(at.slopes, at.t, tilt, at.w)
            self.monitor.passes += 1.0
            gap = (value - bound) / max(abs(value), 1e-300)
            left = max(abs(gap), missed)
            since = idle(since, left, best)
            if left <= best:
                # the dual point that the bound is of
                best, slopes = left, sum(form.shares(at.slopes, at.t), start=np.zeros(form.m))
                kept = Answer(w=at.w, b=at.b, slopes=slopes)
            stop = self.whole and self.monitor.report(outer, value, gap)
            if abs(gap) <= _ENOUGH * tol and missed <= tol:
                status = "converged"
                break
            if stop or self.monitor.late:
                status = "interrupted"
                break
            if since >= PATIENCE or at.lost:
                break
            factor = growth(steps, _AT_ONCE) if moved > _STILL * abs(value) else 1.0
            self.losses.sigma = min(factor * self.losses.sigma, _LARGEST * self.typical)
            at.restart()
        if best <= tol and status == "max_iter":
            status = "converged"
        self.w, self.b = kept.plane
        self.losses.sigma = _AGAIN * self.typical
        if status == "max_iter" and (outer < limit or self.monitor.max_iter is None):
            rest = self.options.rest if moderate(self.options.rest, form) else None
            found = instead(rest, form, tilt, tol, self.monitor, kept.plane)
            if found is not None:
                self.other, answer = found
                return answer
        return kept.after(
            status, f"{outer} multiplier steps left a relative gap or violation of {best:.2g}"
        )

    def _minimise(self, at: Step) -> int:
        """Newton steps on the envelopes; their number."""
        for step in range(MOST):
            at.look()
            if at.gain <= _INNER * self.losses.step(at.t) or self.monitor.late:
                return step
            seen = at.advance()
            hidden = at.exact and not seen and at.gain > _FALLS * at.before
            if at.lost or hidden:
                return step + 1
        at.look()
        return MOST
