"""Proximal augmented Lagrangian solver for losses and worst means plus a penalty with a proximal map.

With multipliers s0 of `u = o - t`, a loss l is replaced by its envelope

    l_sigma(t) = max over s of  s (o - t) - l*(s) - (s - s0)^2 / (2 sigma),

which has a Lipschitz gradient: minus the maximiser `s = prox_{sigma l*}(s0 + sigma (o - t))`. A worst mean
has multipliers q0 of its domain D too, and becomes

    max over q in D of  <A q, l_sigma(t)> - ||q - q0||^2 / (2 tau),

attained at `q = P_D(q0 + tau A'l_sigma(t))`. A smooth loss over a ball of a divergence is tried without it:
the worst mean is smooth where the ball is active. Both proximal terms are convex in q and `s A q` together.
The sum with the penalty is minimised by proximal Newton steps, which see only samples near the breakpoints
of their loss and of the projection; then s0 and q0 become s and q, and sigma and tau grow, as in
`ucm.solvers.distance.ssnal`. In the limit they are a dual point. One hinge loss, also of the worst points of
boxes, or its CVaR, with the squared l2 norm alone, goes to `ucm.solvers.objective.hinge_active_set` first.

Smooth losses and powers p >= 1.5 of the hinge loss with the squared l2 norm get Newton steps without
envelopes first. The second derivative `p (p - 1) u^(p - 2)` of a power below 2 is infinite at u = 0, but if
the samples have a density there, the mean of its square is finite for p > 1.5, and for p = 1.5 it grows as
the logarithm of their number. If few samples have u > 0, as for nearly separable classes with a small
penalty, the predicted gains of the steps hardly fall, and the augmented Lagrangian takes over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, ParamSpec, TypeVar

import numpy as np
from scipy import sparse

from ucm.data.linear_map import Matrix, Vec
from ucm.data.options import COUNT, option
from ucm.errors import brief
from ucm.forms.bound import times
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, GeneralComposite, WorstTerm, curvature
from ucm.forms.solver import Answer, Session, Solver
from ucm.language.cone import Bound
from ucm.language.contracts import Jacobian, SemiSmooth, jacobian
from ucm.language.domains.separable_constraint import KKTPoint, SimplexSublevelSet
from ucm.language.losses import Hinge
from ucm.language.objective import split_scalar
from ucm.language.terms import ConvexLoss
from ucm.numerics.newton_steps import MOST, Stall, growth
from ucm.solvers.objective.hinge_active_set import HingeActiveSet, SplitActiveSet, TailActiveSet
from ucm.solvers.objective.orthant_step import iterate
from ucm.solvers.objective.proximal_step import ProximalIterate, descend, penalised
from ucm.solvers.objective.sessions import in_range_space

P = ParamSpec("P")
T = TypeVar("T")
_FIRST = 1.0  # the first sigma, in slopes at margin o - 1
_AGAIN = 10.0  # the first sigma near the solution of another problem, in units of _FIRST
_AT_ONCE = 9.0  # growth of sigma where no Newton step was needed
_LARGEST = 1e16  # largest sigma, in slopes
_INNER = 0.1  # predicted gain at which Newton steps end, relative to the proximal term
_FALLS = 0.25  # ratio of two gains below which slopes improve although rounding hides the gain
_TOGETHER = 1e-9  # curvature of weights that all change together, relative to that of one
_HIGHEST = 1e150  # of a loss
_DIRECT = 3  # rounds of Newton steps for smooth worst means, before they get a proximal term
_POWER = 1.5  # least power of the hinge loss for Newton steps without an envelope
_NEWTON = 40  # limit of these steps
_PATIENCE = 8  # steps after which a predicted gain above a tenth of the objective ends them
_STILL = 1e-12  # proximal term, relative to the objective, at which sigma stops growing


@dataclass(frozen=True)
class ProxALM(Solver[Composite | GeneralComposite]):
    """Minimise losses, also worst means, plus a penalty with a proximal map by an augmented Lagrangian.

    Smooth losses, and powers p >= 1.5 of the hinge loss, with the squared l2 norm get Newton steps first.

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

    max_order: int = option(COUNT, 3000)
    max_outer: int = option(COUNT, 60)
    name: ClassVar[str] = "prox-alm"

    def refuse(self, form: Composite | GeneralComposite) -> str | None:
        order = min(form.m, form.n)
        if form.penalty.square is not None and order > self.max_order:
            return f"its linear systems would have order {order}"
        for h in form.worst:
            D, *others = h.domains
            if others:
                return "an intersection of domains has no projection"
            if not isinstance(D, SemiSmooth):
                return f"{brief(D)} has no projection with a Jacobian"
        return penalised(form)

    def session(self, form: Composite | GeneralComposite) -> Session[Composite]:
        return in_range_space(self, form, lambda form: _Multipliers(self, form))

    def solve(
        self, form: Composite | GeneralComposite, monitor: Monitor, start: Answer | None = None
    ) -> Answer:
        return self.session(form).solve(form, monitor, start)


def _without_envelope(loss: ConvexLoss) -> bool:
    """Return True for losses with Newton steps of their own: smooth ones, and powers of the hinge loss."""
    match split_scalar(loss)[1]:
        case Hinge(p=p):
            return p >= _POWER
    return loss.smooth()


def _kept(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function with its last result kept, which calls with the same objects return."""
    last: list[tuple[tuple[object, ...], T]] = []

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not last or any(a is not b for a, b in zip(args, last[0][0], strict=True)):
            last[:] = [(args, function(*args, **kwargs))]
        return last[0][1]

    return call


class _Smoothed:
    """A loss, or if it is not smooth (`kinked`) its envelope with multipliers s, (m,) slopes of the loss."""

    def __init__(self, loss: ConvexLoss, m: int) -> None:
        self.loss, self.kinked = loss, not loss.smooth()
        self.s = np.zeros(m)
        self._kept = _kept(self._at)

    def at(self, margin: Vec, sigma: Bound) -> tuple[Vec, Vec, Vec]:
        """Return the values at the margins, minus the derivatives, and the second derivatives."""
        return self._kept(margin, sigma, self.s)

    def _at(self, margin: Vec, sigma: Bound, s0: Vec) -> tuple[Vec, Vec, Vec]:
        loss, u = self.loss, self.loss.offset - margin
        if not self.kinked:
            return loss.each(margin), loss.gradient(u), curvature(loss, margin)
        v = s0 + sigma * u
        s = loss.conjugate_prox(v, sigma)
        height = s * u - loss.conjugate(s) - (s - s0) ** 2 / (2.0 * sigma)
        return height, s, sigma * loss.conjugate_prox_slope(v, sigma, s)

    def step(self, s: Vec, sigma: Bound) -> Bound:
        """Return the proximal term of each sample for new multipliers."""
        return (s - self.s) ** 2 / (2.0 * sigma) if self.kinked else 0.0


class _Plain:
    """A loss with fixed weights c of the samples; the steps of its multipliers are those of c s."""

    def __init__(self, loss: ConvexLoss, c: Vec | None, m: int, typical: float) -> None:
        self.smoothed, self.c = _Smoothed(loss, m), np.ones(m) if c is None else c
        self.unit = typical / np.where(self.c > 0.0, self.c, 1.0)
        self.grow(_FIRST)

    def grow(self, sigma: float) -> None:
        """Set the proximal parameter to sigma, in typical slopes."""
        self.sigma = sigma * self.unit

    def value(self, margin: Vec) -> float:
        return float(times(self.c, self.smoothed.at(margin, self.sigma)[0]).sum())

    def slopes(self, margin: Vec) -> Vec:
        return times(self.c, self.smoothed.at(margin, self.sigma)[1])

    def curvature(self, margin: Vec) -> Vec:
        return times(self.c, self.smoothed.at(margin, self.sigma)[2])

    def coupling(self, margin: Vec) -> None:
        return None

    def step(self, margin: Vec, advance: bool = False) -> float:
        """Return the proximal term of an update of the multipliers at the margins, which `advance` does."""
        smoothed, s = self.smoothed, self.smoothed.at(margin, self.sigma)[1]
        moved = float(np.sum(self.c * smoothed.step(s, self.sigma)))
        if advance:
            smoothed.s = s
        return moved


class _Worst:
    """A worst mean with multipliers of its domain.

    With J the Jacobian of the projection, its second derivatives are
    `diag(A q) l_sigma'' + tau diag(s) A J A' diag(s)`.

    q : the multipliers of the domain
    direct : True where the worst mean itself is minimised, `q` without a proximal term and 1 for tau
    A : the map of q to the weights of the samples; None for the identity
    apart : True if every entry of q weighs one sample of its own
    """

    def __init__(self, term: WorstTerm, m: int) -> None:
        self.smoothed = _Smoothed(term.loss, m)
        self.A = None if term.by_sample else sparse.csr_array(term.map.matrix())
        self.domain: SemiSmooth = term.domains[0]  # type: ignore[assignment]
        self._project, self._jacobian = _kept(self._projection), _kept(self._slope)
        d = term.map.shape[1]
        self.q, self.apart = self.domain.center(d), self.A is None or self.A.nnz == d
        self.steep = float(term.loss.gradient(np.ones(1))[0]) or 1.0
        self.direct = not self.smoothed.kinked and isinstance(self.domain, SimplexSublevelSet)
        self.grow(_FIRST)

    def grow(self, sigma: float) -> None:
        """Set the proximal parameters to sigma, in typical slopes and weights."""
        self.sigma = sigma * self.steep
        self.tau = 1.0 if self.direct else sigma / (self.steep * self.q.size)

    def _spread(self, q: Vec) -> Vec:
        """Return A q, or A times each column."""
        return q if self.A is None else self.A @ q

    def _projected(self, margin: Vec) -> tuple[Vec, Vec | KKTPoint | None]:
        """Return the maximal q, and the argument of its projection, or its point if `direct`."""
        return self._project(self.smoothed.at(margin, self.sigma)[0], self.q)

    def _projection(self, losses: Vec, q0: Vec) -> tuple[Vec, Vec | KKTPoint | None]:
        means = np.minimum(losses if self.A is None else self.A.T @ losses, _HIGHEST)
        if self.direct:
            return self.domain.solve(means, prox=False)  # type: ignore[attr-defined]
        return self.domain.project(v := q0 + self.tau * means), v

    def _slope(self, v: Vec | KKTPoint | None) -> Jacobian:
        """Return the Jacobian of q in the means of the losses, times 1 / tau."""
        if isinstance(v, np.ndarray):
            return self.domain.jacobian(v)
        if v is None:  # at a vertex q stays
            return jacobian(np.zeros(self.q.size), [])
        return jacobian(np.where(v.q > 0.0, v.w, 0.0), self.domain.samples.groups, v.normal)  # type: ignore[attr-defined]

    def _lost(self, q: Vec) -> float:
        """Return the proximal term of q."""
        return 0.0 if self.direct else float(((q - self.q) ** 2).sum()) / (2.0 * self.tau)

    def value(self, margin: Vec) -> float:
        losses = self.smoothed.at(margin, self.sigma)[0]
        q, _ = self._projected(margin)
        return float(times(self._spread(q), losses).sum()) - self._lost(q)

    def slopes(self, margin: Vec) -> Vec:
        return times(self._spread(self._projected(margin)[0]), self.smoothed.at(margin, self.sigma)[1])

    def curvature(self, margin: Vec) -> Vec:
        _, s, bend = self.smoothed.at(margin, self.sigma)
        q, v = self._projected(margin)
        h = times(self._spread(q), bend)
        if self.apart:
            h += self.tau * s * s * self._spread(self._jacobian(v).d)
        return h

    def coupling(self, margin: Vec) -> tuple[Matrix, Matrix]:
        """Return V and S of the second derivatives `V S V'` beside those of `curvature`."""
        s = self.smoothed.at(margin, self.sigma)[1]
        J = self._jacobian(self._projected(margin)[1])
        if self.A is None or self.apart:
            # entries that all rise together leave q as it is: a little curvature stays there
            return s[:, None] * self._spread(J.U), (1.0 - _TOGETHER) * self.tau * J.S
        return self.A.multiply(s[:, None]), self.tau * J.matvec(np.eye(self.q.size))

    def step(self, margin: Vec, advance: bool = False) -> float:
        """Return the proximal term of an update of the multipliers at the margins, which `advance` does."""
        s, (q, _) = self.smoothed.at(margin, self.sigma)[1], self._projected(margin)
        moved = self._lost(q) + float(np.sum(self._spread(q) * self.smoothed.step(s, self.sigma)))
        if advance:
            self.q, self.smoothed.s = q, s
        return moved


class _Envelopes:
    """The losses of a form with each nonsmooth loss and each worst mean replaced by its envelope."""

    def __init__(self, form: Composite, typical: float) -> None:
        self.worst = [_Worst(h, form.m) for h in form.worst]
        self.parts = [*(_Plain(loss, c, form.m, typical) for loss, c in form.parts), *self.worst]
        self.grow(_FIRST)

    def grow(self, sigma: float) -> None:
        """Set the proximal parameter to sigma, in typical slopes."""
        self.sigma = sigma
        for part in self.parts:
            part.grow(sigma)

    @property
    def direct(self) -> bool:
        """True if some worst means have no proximal term."""
        return any(part.direct for part in self.worst)

    def separate(self) -> None:
        """Give all worst means a proximal term."""
        for part in self.worst:
            part.direct = False
        self.grow(_FIRST)

    def loss(self, margin: Vec) -> float:
        """Return the sum of smooth losses and envelopes at the margins."""
        return sum(part.value(margin) for part in self.parts)

    def gradient(self, margin: Vec) -> Vec:
        """Return minus the derivatives of the sum in the margins."""
        return sum((part.slopes(margin) for part in self.parts), start=np.zeros(margin.size))

    def curvature(self, margin: Vec) -> Vec:
        """Return the (generalised) second derivatives of the sum, those of single margins."""
        return sum((part.curvature(margin) for part in self.parts), start=np.zeros(margin.size))

    def coupling(self, margin: Vec) -> list[tuple[Matrix, Matrix]]:
        """Return V and S of further second derivatives `V S V'`, which join samples."""
        return [h.coupling(margin) for h in self.worst]

    def step(self, margin: Vec, advance: bool = False) -> float:
        """Return the proximal term of an update of the multipliers at the margins, which `advance` does."""
        return sum(part.step(margin, advance) for part in self.parts)


class _Multipliers(Session[Composite]):
    """Session of ProxALM, whose multipliers last from one problem to the next.

    `active` is the active-set method where the losses are one hinge loss, also of worst points of boxes, or
    its CVaR; else None. `newton` is true if Newton steps without envelopes come first.
    """

    def __init__(self, solver: ProxALM, form: Composite) -> None:
        super().__init__(solver)
        self.max_outer = solver.max_outer
        self._take(form)

    def _take(self, form: Composite) -> None:
        """Reset the envelopes and the active-set method to the losses of a form."""
        self.form = form
        vars(self).pop("losses", None)
        self.active = HingeActiveSet.of(form) or TailActiveSet.of(form) or SplitActiveSet.of(form)
        square = form.penalty.square is not None and not form.worst
        self.newton = square and all(map(_without_envelope, form.losses))

    @functools.cached_property
    def losses(self) -> _Envelopes:
        """The envelopes of the losses, which the active-set method does without."""
        least = np.min([k.offset for k in self.form.every_loss])
        typical = float(np.mean(self.form.gradient(least - np.ones(self.form.m)))) or 1.0
        return _Envelopes(self.form, typical)

    def solve(self, form: Composite, monitor: Monitor, start: Answer | None = None) -> Answer:
        if not form.same_terms(self.form):
            self._take(form)
        if self.active is not None:
            if start is not None and start.slopes is None:
                start = replace(start, slopes=form.gradient(form.margins(*start.plane)))
            start = self.active.solve(form, monitor, start, self.max_outer)
        elif self.newton:
            start = self._descend(form, monitor, start)
        else:
            return self._multiply(form, monitor, start)
        if start.status not in ("max_iter", "stalled") or not monitor.may_continue:
            return start
        return self._multiply(form, monitor, start)

    def _descend(self, form: Composite, monitor: Monitor, start: Answer | None) -> Answer:
        """Take Newton steps without envelopes."""
        at = iterate(form, (np.zeros(form.n), 0.0) if start is None else start.plane, monitor, None)
        with np.errstate(over="ignore", invalid="ignore"):
            status, left = descend(at, monitor, 0, monitor.limit(_NEWTON), patience=_PATIENCE)
        return Answer(w=at.w, b=at.b, slopes=np.clip(at.dual, form.floors, form.caps)).after(status, left)

    def _multiply(self, form: Composite, monitor: Monitor, start: Answer | None) -> Answer:
        begin = (np.zeros(form.n), 0.0) if start is None else start.plane
        at = iterate(form, begin, monitor, None, self.losses)
        limit, tol = monitor.limit(self.max_outer), monitor.tol
        best, answer, step, status = np.inf, Answer(w=at.w, b=at.b), 0, "max_iter"
        stalled = Stall()
        for step in range(1, limit + 1):
            with np.errstate(over="ignore", invalid="ignore"):
                steps = self._minimise(at, monitor, 0.1**step * tol)
            at.t = form.margins(at.w, at.b)  # without the rounding of the steps
            moved = self.losses.step(at.t, advance=True)
            value, q = form.value(at.t, at.w), [h.q for h in self.losses.worst]
            bound, missed = form.fixed(at.t, q).lower_bound(at.slopes, at.t, at.w)
            monitor.passes += form.cost
            gap = (value - bound) / max(abs(value), 1e-300)
            left = max(abs(gap), missed)
            ends = stalled.after(left)
            if left <= best:
                best = left
                slopes = np.clip(at.slopes, form.floors, form.caps)
                answer = Answer(w=at.w, b=at.b, slopes=slopes, multipliers=q)
            stop = monitor.report(step, value, gap)
            if monitor.reached(gap) and monitor.met(missed):
                status = "converged"
                break
            if stop or monitor.timed_out:
                status = "interrupted"
                break
            if self.losses.direct and (step == _DIRECT or ends or at.lost):
                self.losses.separate()
                at, stalled = iterate(form, (at.w, at.b), monitor, None, self.losses), Stall()
                continue
            if ends or at.lost:
                status = "stalled"
                break
            factor = growth(steps, _AT_ONCE) if moved > _STILL * abs(value) else 1.0
            self.losses.grow(min(factor * self.losses.sigma, _LARGEST))
            at.restart()
        if best <= tol and status != "interrupted":
            status = "converged"
        self.losses.grow(_AGAIN * _FIRST)
        left = f"{step} multiplier steps left a relative gap or violation of {best:.2g}"
        return answer.after(
            status, f"{left}; {'scale the features' if status == 'stalled' else 'raise max_iter'}"
        )

    def _minimise(self, at: ProximalIterate, monitor: Monitor, tol: float) -> int:
        """Take Newton steps on the envelopes plus penalty; return their number.

        Where the proximal term is 0, as for smooth losses, a gain of `tol` times the objective is enough.
        """
        for step in range(MOST):
            at.look()
            enough = _INNER * self.losses.step(at.t) or tol * abs(at.value)
            if at.gain <= enough or monitor.timed_out:
                return step
            seen = at.advance()
            hidden = not seen and at.gain > _FALLS * at.before
            if at.lost or hidden:
                return step + 1
        at.look()
        return MOST
