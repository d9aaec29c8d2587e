"""Difference-of-convex-functions algorithm (DCA), Algorithm 1 of Ong and Le Thi (2013)."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.data.options import COUNT, POSITIVE, SEED, STARTS, STOP, option, optional
from ucm.errors import ParameterError
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex, LinearTerm
from ucm.forms.solver import Answer, Solver, solver_of
from ucm.language.objective import ScaledPenalty
from ucm.language.terms import FoldedExcess
from ucm.solvers.objective.sessions import InnerSession

_WORTH = 1e-6  # least gain of a move of single weights, relative to the objective
_INSIDE = optional(solver_of(Composite))


@dataclass(frozen=True)
class DCA(Solver[DifferenceOfConvex]):
    """Minimise G - H by DCA: `z <- argmin G(z) - <gamma, z>`, gamma a subgradient of H at the last z.

    The first z solves the convex problem with the convex part of the loss and L1 (or L2) at the weight
    of the penalty; for ramp losses with one mu < 1 with the hinge loss, a standard SVM, as the paper
    does: at w = 0 the gradient of H may vanish, and the iterations stop there. Where the end lies above
    w = 0 with the best b, the iterations begin once more from that. The objective never increases. They
    stop at a critical point, where the next problem is already solved within tolerance, or when the
    objective stops. With smooth losses and folded concave penalties they go on from there as long as some
    weights, each moved by itself to 0 or to where its penalty has no slope, lower the objective.

    Parameters
    ----------
    inner
        The solver of the convex problems; None: chosen by the structure.
    max_outer
        Limit of convex problems for each start.
    n_starts
        How many, at most 10,000; the first is the convex problem, or the one that is given; with ramp losses
        of one mu < 1 the second is the convex problem with the convex part of the loss.
    seed
        Of the further starts.
    stop
        "gap", or "paper": also where w and b change by less than `eps` in all, which proves nothing; no
        weight is moved by itself.
    eps
        Of the rule "paper".
    fallback
        The solver that continues the convex problems where `inner` ends without proof; None: none does.

    Notes
    -----
    Ong and Le Thi (2013), Algorithm 1 and Theorem 3.1; the rule "paper" in section 4.
    """

    inner: Solver[Composite] | None = option(_INSIDE, None)
    max_outer: int = option(COUNT, 200)
    n_starts: int = option(STARTS, 1)
    seed: int = option(SEED, 0)
    stop: str = option(STOP, "gap")
    eps: float = option(POSITIVE, 1e-3)
    fallback: Solver[Composite] | None = option(_INSIDE, None)
    name: ClassVar[str] = "dca"

    @property
    def inner_solvers(self) -> tuple[Solver, ...]:
        return tuple(solver for solver in (self.inner, self.fallback) if solver is not None)

    def refuse(self, form: DifferenceOfConvex) -> str | None:
        return None if self.inner is None else self.inner.refuse(form.G)

    def solve(self, form: DifferenceOfConvex, monitor: Monitor, start: Answer | None = None) -> Answer:
        if self.inner is None:
            raise ParameterError(
                "DCA: expected a solver of the convex problems to solve with, got inner=None; give one, or "
                "let ucm.compile choose it"
            )
        session = InnerSession(self.inner, self.fallback, form.G, monitor)
        constant = _Iterate(form, form.constant())
        if start is None:
            hinged = form.hinged()
            first = form.convex_surrogate() if hinged is None else hinged
            start = session.solve(first, monitor.tol)
            if hinged is not None and start.w is not None:
                w, b = start.plane
                start = replace(start, w=w / form.unit, b=b / form.unit, slopes=None)
            if start.status == "interrupted":
                return start
            if start.status != "converged":
                message = f"the convex problem to start from: {start.message}"
                usable = start.w is not None and _Iterate(form, start).height <= constant.height
                return (start if usable else constant.answer).ended(start.status, message)
        best, end = self._descend(_Iterate(form, start), session, monitor)
        if constant.height < best.height and end.get("status") != "interrupted":
            best, end = self._descend(constant, session, monitor)
        generator = np.random.default_rng(self.seed)
        for k in range(self.n_starts - 1):
            if monitor.timed_out:
                break
            if k == 0 and form.unit != 1.0:
                begin = _Iterate(form, session.solve(form.convex_surrogate(), monitor.tol))
            elif k % 2 == 0:
                begin = _relaxation(form, session, generator, monitor.tol)
            else:
                begin = _nearby(best, generator)
            other, other_end = self._descend(begin, session, monitor)
            if other.height < best.height:
                best, end = other, other_end
        return replace(best.answer, **end)

    def _descend(self, at: _Iterate, session: InnerSession, monitor: Monitor) -> tuple[_Iterate, dict]:
        """Run DCA from one start, with weight moves; return the end point and changed answer fields."""
        point, end = self._critical(at, session, monitor)
        jumps = _separable(point.form) and self.stop == "gap"
        while jumps and "status" not in end and monitor.may_continue and not monitor.timed_out:
            ahead = point.apart()
            if ahead is None:
                break
            other, other_end = self._critical(ahead, session, monitor)
            if other_end.get("status", "interrupted") != "interrupted":
                break  # not a critical point: keep the previous point
            point, end = other, other_end
        monitor.end_start(point.height)
        return point, end

    def _critical(self, at: _Iterate, session: InnerSession, monitor: Monitor) -> tuple[_Iterate, dict]:
        exact = max(1e-12, min(monitor.tol, 1e-10))
        limit = monitor.limit(self.max_outer)
        for _ in range(limit):
            gap = at.gap()
            if monitor.report(monitor.iterations + 1, at.height, gap, at.trace_record):
                return at, {"status": "interrupted"}
            if gap <= exact:
                return at, {}
            # a convex problem is solved beyond tol, as the last gap proves the answer
            answer = session.solve(at.majorant, 1e-2 * monitor.tol, at.answer)
            new = at if answer.w is None else _Iterate(at.form, answer)
            falls = new.height < at.height - 1e-12 * abs(at.height)  # a smaller decrease is rounding
            if answer.status == "interrupted":
                return new if falls else at, {"status": "interrupted"}
            if not falls and answer.status != "converged":
                return at, {"status": answer.status, "message": answer.message}
            if not falls:  # z is optimal in the last problem, by the dual point of its answer
                return at, {"slopes": answer.slopes}
            drop = (at.height - new.height) / max(abs(at.height), 1e-300)
            change = float(np.abs(new.w - at.w).sum()) + abs(new.b - at.b)
            at = new
            if self.stop == "paper" and change < self.eps:
                return at, {}
            if drop <= 1e-3 * monitor.tol and monitor.reached(at.gap()):
                monitor.report(monitor.iterations + 1, at.height, at.gap(), at.trace_record)
                return at, {}
        return at, {
            "status": "max_iter",
            "message": f"{limit} convex problems solved; raise max_iter",
        }


class _Iterate:
    """Point z = (w, b) with its answer, margins, objective and majorant.

    answer : what a session said
    margin, height : (m,) margins, and the objective G - H
    majorant : the next convex problem, with a subgradient of H
    """

    def __init__(self, form: DifferenceOfConvex, answer: Answer) -> None:
        self.form, self.answer = form, answer
        self.w, self.b = answer.plane
        self.margin = form.G.margins(self.w, self.b)
        self.height = form.value(self.margin, self.w)

    @functools.cached_property
    def majorant(self) -> Composite:
        return self.form.G.tilted(self.form.subgradient(self.margin, self.w))

    def gap(self) -> float:
        """Return the relative gap of the next convex problem at this point; inf without a dual point."""
        slopes = self.answer.slopes
        if slopes is None:
            return np.inf
        bound, violation = self.majorant.lower_bound(slopes, self.margin, self.w)
        gain = self.majorant.value(self.margin, self.w) - bound
        return np.inf if violation > 1e-9 else max(gain, 0.0) / max(abs(self.height), 1e-300)

    def apart(self) -> _Iterate | None:
        """Return a point of lower objective by moves of single weights; None if there is none.

        A point that separates the samples is not returned, as a bounded penalty may have no minimum there.
        """
        gain, to, mean = _coordinate_moves(self.form, self.margin, self.w)
        order = np.argsort(-gain)
        order = order[gain[order] > _WORTH * abs(self.height)]
        best, count = self, order.size
        while count:
            w = self.w.copy()
            w[order[:count]] = to[order[:count]]
            b = self.b - float(mean @ (w - self.w)) if self.form.G.intercept else 0.0
            other = _Iterate(self.form, Answer(w=w, b=b))
            if other.height < best.height and (other.margin <= 0.0).any():
                best = other
            count //= 2
        return best if best.height < (1.0 - _WORTH) * self.height else None

    def trace_record(self) -> dict:
        return {"w": self.w.copy(), "b": self.b}


def _separable(form: DifferenceOfConvex) -> bool:
    """Return True if single weights can be minimised separately.

    The losses are smooth, and the penalties are boxes, L2 and at least one folded concave penalty.
    """
    smooth = all(loss.smooth() for loss in form.G.losses) and not (form.losses or form.G.worst)
    folded = all(h.coordinatewise for h in form.penalties)
    return smooth and folded and bool(form.penalties) and form.G.penalty.boxed is not None


def _coordinate_moves(form: DifferenceOfConvex, margin: Vec, w: Vec) -> tuple[Vec, Vec, Vec]:
    """Return for each weight the gain of its best single move and its new value, and the bias slopes.

    In a quadratic model of the losses with the penalty of the weight, the new value is 0 or the minimiser of
    the losses alone, whichever is lower. The bias falls by the slope for each unit of a weight.
    """
    G, (lower, upper, c) = form.G, form.G.penalty.boxed or (0.0, 0.0, 0.0)
    g, h = -G.adjoint(G.gradient(margin)), G.curvature(margin)
    squares = G.X.multiply(G.X) if sparse.issparse(G.X) else np.square(G.X)
    total_weight = float(h.sum()) or 1.0
    mean = np.asarray(G.X.T @ h) * (float(G.intercept) / total_weight)
    bend = np.asarray(squares.T @ h) - total_weight * mean * mean

    def height(v: Vec) -> Vec:
        s = np.abs(v)
        total = np.where(v > 0.0, upper, np.where(v < 0.0, lower, 0.0)) * v + c * v * v
        return total - sum(p.each(s) for p in form.penalties if isinstance(p, FoldedExcess))

    before, gain, to = height(w), np.zeros(w.size), w
    with np.errstate(over="ignore", invalid="ignore"):
        newton_step = np.divide(g + 2.0 * c * w, bend + 2.0 * c, out=np.zeros(w.size), where=bend > 0.0)
        for v in (np.zeros(w.size), w - newton_step):
            decrease = before - height(v) - (g + 0.5 * bend * (v - w)) * (v - w)
            to, gain = np.where(decrease > gain, v, to), np.fmax(decrease, gain)
    return gain, to, mean


def _relaxation(
    form: DifferenceOfConvex, session: InnerSession, generator: np.random.Generator, tol: float
) -> _Iterate:
    """Solve a randomly reweighted convex problem, and return its solution as a start for DCA.

    The penalty has a random weight, and where the loss is bounded random samples are given up.
    """
    factor = float(10.0 ** generator.uniform(-3.0, 0.5))
    weights = tuple(ScaledPenalty(factor, penalty) for penalty in form.start)
    lost = generator.random(form.G.m) < generator.choice([0.0, 0.1, 0.3])
    below = form.subgradient(np.full(form.G.m, -np.inf), np.zeros(form.G.n)).margin
    tilt = LinearTerm(np.where(lost, below, 0.0), np.zeros(form.G.n))
    return _Iterate(form, session.solve(replace(form.G, penalties=weights, tilt=tilt), tol))


def _nearby(best: _Iterate, generator: np.random.Generator) -> _Iterate:
    """Return a start at a random step from the best point, with a random sample on the decision boundary."""
    G = best.form.G
    step = float(np.exp(generator.uniform(-2.0, 1.0))) * (float(np.abs(best.w).mean()) or 1.0)
    w = G.penalty.project_domain(best.w + step * generator.standard_normal(G.n))
    b = -float(np.squeeze(G.X[[generator.integers(G.m)]] @ w)) if G.intercept else 0.0
    return _Iterate(best.form, Answer(w=w, b=b))
