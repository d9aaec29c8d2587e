"""Proximal augmented Lagrangian solver for nonsmooth convex losses plus a penalty with a proximal map.

With multipliers alpha of `u = o - t`, a loss l is replaced by its envelope

    max over a of  a (o - t) - l*(a) - (a - alpha)^2 / (2 sigma),

which has a Lipschitz gradient: minus the maximiser `a = prox_{sigma l*}(alpha + sigma (o - t))`. Its sum with
the penalty is minimised by proximal Newton steps, which see only the samples near their breakpoints; then
alpha becomes a, and sigma grows, as in `ucm.solvers.distance.ssnal`. In the limit alpha is a dual point
of the losses. One hinge loss with the squared l2 norm alone goes to `ucm.solvers.objective.hinge_active_set`
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, check_fields
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, curvature
from ucm.forms.solver import Answer, Session, Solver
from ucm.language.terms import ConvexLoss
from ucm.numerics.newton_steps import MOST, Stall, growth
from ucm.solvers.objective.hinge_active_set import HingeActiveSet
from ucm.solvers.objective.orthant_step import iterate
from ucm.solvers.objective.proximal_step import ProximalIterate, penalised
from ucm.solvers.objective.sessions import in_range_space

_FIRST = 1.0  # the first sigma, in slopes at margin o - 1
_AGAIN = 10.0  # the first sigma near the solution of another problem, in units of _FIRST
_AT_ONCE = 9.0  # growth of sigma where no Newton step was needed
_LARGEST = 1e16  # largest sigma, in slopes
_INNER = 0.1  # predicted gain at which Newton steps end, relative to the proximal term
_FALLS = 0.25  # ratio of two gains below which slopes improve although rounding hides the gain
_STILL = 1e-12  # proximal term, relative to the objective, at which sigma stops growing


@dataclass(frozen=True)
class ProxALM(Solver[Composite]):
    """Minimise convex losses plus a penalty with a proximal map by a proximal augmented Lagrangian.

    Parameters
    ----------
    max_order : int, optional
        Largest of min(samples, features), the order of the linear systems, with the squared l2 norm.
    max_outer : int, optional
        Limit of multiplier steps.

    Notes
    -----
    Rockafellar (1976), Augmented Lagrangians and applications of the proximal point algorithm in convex
    programming.
    """

    max_order: int = 3000
    max_outer: int = 60
    name: ClassVar[str] = "prox-alm"

    def __post_init__(self) -> None:
        check_fields(self, max_order=COUNT, max_outer=COUNT)

    def refuse(self, form: Composite) -> str | None:
        order = min(form.m, form.n)
        if form.penalty.square is not None and order > self.max_order:
            return f"its linear systems would have order {order}"
        return penalised(form)

    def session(self, form: Composite) -> Session[Composite]:
        return in_range_space(self, form, lambda form: _Multipliers(self, form))

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        return self.session(form).solve(form, monitor, start)


class _Envelopes:
    """Losses with each nonsmooth loss replaced by its Moreau envelope.

    Attributes
    ----------
    alpha : the multipliers of each loss; those of a smooth loss are not used
    kinked : True for each nonsmooth loss
    sigma : the proximal parameter
    """

    def __init__(self, form: Composite, sigma: float) -> None:
        self.y, self.sigma = form.y, sigma
        weights = [np.ones(form.m) if c is None else c for _, c in form.parts]
        self.counted = [c > 0.0 for c in weights]
        self.parts: list[tuple[ConvexLoss, Vec]] = [
            (loss, np.where(counts, c, 1.0))
            for (loss, _), c, counts in zip(form.parts, weights, self.counted, strict=True)
        ]
        self.kinked = [not loss.smooth() for loss, _ in self.parts]
        self.alpha = [np.zeros(form.m) for _ in self.parts]
        self._last: list[tuple[tuple, tuple[Vec, Vec]]] = [((), (margin, margin)) for margin in self.alpha]

    def _maximiser(self, k: int, margin: Vec) -> tuple[Vec, Vec]:
        """Return the maximiser a / c of the envelope of loss k, and the argument of its proximal map.

        Those of the last margins are kept: value, slopes and curvature are asked for at the same point.
        """
        (loss, c), alpha, sigma = self.parts[k], self.alpha[k], self.sigma
        at, known = self._last[k]
        if not (at and at[0] is margin and at[1] is alpha and at[2] == sigma):
            v = (alpha + sigma * (loss.offset - margin)) / c
            known = loss.conjugate_prox(v, sigma / c), v
            self._last[k] = (margin, alpha, sigma), known
        return known

    def loss(self, margin: Vec) -> float:
        """Return the sum of smooth losses and envelopes at the margins."""
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
        """Return minus the derivatives of the sum in the margins."""
        return sum(self._slopes(margin), start=np.zeros(margin.size))

    def _slopes(self, margin: Vec) -> list[Vec]:
        """Return minus the derivatives in the margins, one vector for each loss."""
        slopes = []
        for k, (loss, c) in enumerate(self.parts):
            smooth = not self.kinked[k]
            s = loss.gradient(loss.offset - margin) if smooth else self._maximiser(k, margin)[0]
            slopes.append(np.where(self.counted[k], c * s, 0.0))
        return slopes

    def curvature(self, margin: Vec) -> Vec:
        """Return the (generalised) second derivatives of the sum in the margins."""
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
        """Set the multipliers to those at the margins; return `step(margin)`."""
        moved = self.step(margin)
        self.alpha = self._slopes(margin)
        return moved

    def step(self, margin: Vec) -> float:
        """Return `||change of the multipliers||^2 / (2 sigma)` for an update at the margins."""
        changes = zip(self._slopes(margin), self.alpha, self.kinked, strict=True)
        moved = sum(float(((a - b) ** 2).sum()) for a, b, kinked in changes if kinked)
        return moved / (2.0 * self.sigma)


class _Multipliers(Session[Composite]):
    """Session of ProxALM, whose multipliers last from one problem to the next.

    Attributes
    ----------
    active : for one hinge loss with the squared l2 norm alone, its active-set method; else None
    """

    def __init__(self, solver: ProxALM, form: Composite) -> None:
        super().__init__(solver)
        self.max_outer = solver.max_outer
        self._take(form)

    def _take(self, form: Composite) -> None:
        """Reset the envelopes and the active-set method to the losses of a form."""
        self.form = form
        least = np.min([k.offset for k in form.losses])
        self.typical = float(np.mean(form.gradient(least - np.ones(form.m)))) or 1.0
        self.losses = _Envelopes(form, _FIRST * self.typical)
        self.active = HingeActiveSet.of(form)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        if not form.same_terms(self.form):
            self._take(form)
        if self.active is not None:
            if start is not None and start.slopes is None:
                start = replace(start, slopes=form.gradient(form.margins(*start.plane)))
            start = self.active.solve(form, monitor, start, self.max_outer)
            if start.status not in ("max_iter", "stalled") or not monitor.may_continue:
                return start
        return self._multiply(form, monitor, start)

    def _multiply(self, form: Composite, monitor: Monitor, start: Answer | None) -> Answer:
        begin = (np.zeros(form.n), 0.0) if start is None else start.plane
        at = iterate(form, begin, monitor, None, self.losses)
        limit, tol = monitor.limit(self.max_outer), monitor.tol
        best, answer, step, status = np.inf, Answer(w=at.w, b=at.b), 0, "max_iter"
        stalled = Stall()
        for step in range(1, limit + 1):
            with np.errstate(over="ignore", invalid="ignore"):
                steps = self._minimise(at, monitor)
            at.t = form.margins(at.w, at.b)  # without the rounding of the steps
            moved = self.losses.advance(at.t)
            value = form.value(at.t, at.w)
            bound, missed = form.lower_bound(at.slopes, at.t, at.w)
            monitor.passes += form.cost
            gap = (value - bound) / max(abs(value), 1e-300)
            left = max(abs(gap), missed)
            ends = stalled.after(left)
            if left <= best:
                best = left
                answer = Answer(w=at.w, b=at.b, slopes=np.clip(at.slopes, form.floors, form.caps))
            stop = monitor.report(step, value, gap)
            if monitor.reached(gap) and monitor.met(missed):
                status = "converged"
                break
            if stop or monitor.timed_out:
                status = "interrupted"
                break
            if ends or at.lost:
                break
            factor = growth(steps, _AT_ONCE) if moved > _STILL * abs(value) else 1.0
            self.losses.sigma = min(factor * self.losses.sigma, _LARGEST * self.typical)
            at.restart()
        if best <= tol and status == "max_iter":
            status = "converged"
        self.losses.sigma = _AGAIN * _FIRST * self.typical
        return answer.after(status, f"{step} multiplier steps left a relative gap or violation of {best:.2g}")

    def _minimise(self, at: ProximalIterate, monitor: Monitor) -> int:
        """Take Newton steps on the envelopes plus penalty; return their number."""
        for step in range(MOST):
            at.look()
            if at.gain <= _INNER * self.losses.step(at.t) or monitor.timed_out:
                return step
            seen = at.advance()
            hidden = not seen and at.gain > _FALLS * at.before
            if at.lost or hidden:
                return step + 1
        at.look()
        return MOST
