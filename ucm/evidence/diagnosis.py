"""The side of an answer that is wrong, with its likely causes.

The bounds of an answer are compared with the optimum by a reference solver. A cause is not guessed: the
answer, or the problem, is changed as a usual error would have changed it, and the change is named if the
bounds then meet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.evidence.external_certificate import broken_rule
from ucm.evidence.feasible_point import BESIDE
from ucm.evidence.objective import covers
from ucm.forms.distance import MinNorm
from ucm.forms.flips import FlipComposite
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import CROSSED
from ucm.forms.objective import BestSubset, Composite, DifferenceOfConvex, LinearTerm
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solver import Answer
from ucm.forms.sphere import UnitNorm
from ucm.language.objective import ScaledPenalty
from ucm.language.parameter import value

Side = Literal["feasibility", "primal", "dual", "primal and dual", "status", "reference"]

_EXPLAINED = 0.02  # a change that leaves this part of an error explains it
_FAR = 0.1  # relative loss by a normal that is no inaccuracy
_WHOLE = 0.98  # the part of a gap that counts as all of it
_FACTORS = np.geomspace(1e-3, 1e3, 25)


@dataclass(frozen=True)
class Finding:
    """The first side of an answer that is wrong.

    side : "feasibility", "primal" (w and b), "dual" (slopes, multipliers or the point of U), "primal and
        dual", "status", or "reference" if the certificate refutes the reference solver
    what : the figures
    causes : likely causes, those that explain the figures; for "reference" the call that mends it
    """

    side: Side
    what: str
    causes: tuple[str, ...] = ()

    def __str__(self) -> str:
        causes = f"; likely cause: {', or '.join(self.causes)}" if self.causes else ""
        return f"{self.side}: {self.what}{causes}"


class Problem(Protocol):
    """A lowered problem, which certifies an answer by its declaration."""

    form: Any
    data: Data

    def certify(self, answer: Answer, tol: float) -> Any: ...


Change = tuple[str, Callable[[Answer], Answer]]


@dataclass(frozen=True)
class _Examined:
    """An answer with the optimum `best`; errors are relative to `unit`, and up to `allowed` none."""

    problem: Problem
    answer: Answer
    best: float
    allowed: float
    unit: float

    @property
    def on_sphere(self) -> bool:
        return isinstance(self.problem.form, UnitNorm)

    def errors(self, answer: Answer) -> tuple[float, float]:
        """Return how far the bounds of an answer are above and below the optimum; inf without a bound."""
        try:
            with np.errstate(all="ignore"):
                proof = self.problem.certify(answer, 0.0).certificate
        except (SolverError, ArithmeticError, ValueError):
            return math.inf, math.inf
        if self.on_sphere:
            return (proof.residual or 0.0) / max(abs(proof.primal), 1e-300), 0.0
        moved = answer.w is not self.answer.w or answer.b != self.answer.b
        best = proof.dual if moved and proof.kind == "local" else self.best  # the optimum depends on (w, b)
        above, below = (proof.primal - best) / self.unit, (best - proof.dual) / self.unit
        return tuple(x if x == x else math.inf for x in (above, below))  # type: ignore[return-value]

    def explaining(self, changes: Sequence[Change], error: Callable[[Answer], float]) -> tuple[str, ...]:
        """Return the texts of the changes that leave nearly nothing of an error."""
        limit = max(self.allowed, _EXPLAINED * min(error(self.answer), 1.0))
        return tuple(text for text, change in changes if error(change(self.answer)) <= limit)

    def best_factor(self, change: Callable[[float], Answer], error: Callable[[Answer], float]) -> float:
        """Return the factor of least error, by a grid and its refinements."""
        factors, best = _FACTORS, 1.0
        for _ in range(5):
            k = int(np.argmin([error(change(f)) for f in factors]))
            ends = factors[max(k - 1, 0)], factors[min(k + 1, factors.size - 1)]
            factors, best = np.geomspace(*ends, factors.size), factors[k]
        return float(best)


def diagnose(
    problem: Problem, answer: Answer, best: float, allowed: float, unit: float, history: Sequence[dict] = ()
) -> Finding | None:
    """Return the first side of an answer that is wrong, with figures and likely causes; None if none is.

    problem : the lowered problem
    answer : of a solver, in the coordinates of the form
    best : the optimum of the declared problem by a reference solver; of a problem that is not convex, of the
        convex problem at the answer
    allowed : the error that counts as none, relative to `unit`
    history : the records of the run
    """
    if answer.status == "infeasible":
        return Finding("status", f"it claims an infeasible problem, whose optimum is {best:.8g}",
                       ("the test for an empty set is wrong",))  # fmt: skip
    at = _Examined(problem, answer, best, allowed, unit)
    outside = _outside(problem, answer, 2.0 * allowed)
    if outside is not None:
        return outside
    above, below = at.errors(answer)
    if at.on_sphere:
        text = f"w is {above:.2g} from stationary (relative to the objective)"
        causes = _causes_of_primal(at, lambda a: at.errors(a)[0])
        return Finding("primal", text, causes) if not above <= allowed else None
    primal, dual = not above <= allowed, not below <= allowed
    figures = []
    if primal:
        figures.append(f"the upper bound is {above:.2g} above the optimum {best:.8g} (relative)")
    if dual:
        figures.append(f"the lower bound is {below:.2g} below the optimum {best:.8g} (relative)")
    what = ", ".join(figures)
    if primal and dual:
        causes = _causes_of_both(at, lambda a: max(at.errors(a)))
        if causes:
            return Finding("primal and dual", what, causes)
        if answer.status == "converged":
            gap = history[-1]["gap"] if history and "gap" in history[-1] else math.nan
            rule = "is not that of this problem" if gap <= allowed else "does not reach the tolerance"
            cause = f"the stopping rule: the last reported gap, {gap:.2g}, {rule}"
            cause = _progress(history) if gap < -CROSSED else cause
            return Finding("status", f"it claims convergence, and {what}", (cause,))
        return Finding("primal and dual", what, (_progress(history),))
    if primal:
        return Finding("primal", what, _causes_of_primal(at, lambda a: at.errors(a)[0]))
    if dual:
        return Finding("dual", what, _causes_of_dual(at, lambda a: at.errors(a)[1]))
    return _behind(problem, answer)


def _progress(history: Sequence[dict]) -> str:
    """Return a text on the gaps that a run reported."""
    gaps = [record["gap"] for record in history if "gap" in record]
    if not gaps:
        return "the stopping rule, or no step was made: no iteration was reported"
    if gaps[-1] < -CROSSED:
        return f"the sign of a gradient or of an oracle: a reported gap is negative, {gaps[-1]:.2g}"
    text = f"the reported gap went from {gaps[0]:.2g} to {gaps[-1]:.2g} in {len(gaps)} reports"
    return f"a step that does not lead to the optimum of this problem, or too few of them: {text}"


# --- feasibility -----------------------------------------------------------------------------------
def _outside(problem: Problem, answer: Answer, allowed: float) -> Finding | None:
    """Return the finding of an answer outside of its domains; None if it lies inside."""
    match problem.form:
        case MinNorm(blocks=blocks) as form if len(answer.q) == len(blocks):
            violations = [b.domain.violation(v) for b, v in zip(blocks, answer.q, strict=True)]
            worst = max(violations, default=0.0)
            if worst <= max(allowed, BESIDE) or problem.certify(answer, 0.0).certificate.violation <= allowed:
                return None
            k = int(np.argmax(violations))
            what = f"block {k} of {len(violations)}: {broken_rule(form, answer.q, worst, problem.data.y)}"
            return Finding("feasibility", what, tuple(_rescaled(form, answer.q, k)))
        case UnitNorm() as form if answer.w is not None:
            length = form.length(form.lower(answer.w))
            if abs(length - 1.0) > allowed:
                return Finding("feasibility", f"||w||_p is {length:.6g}, not 1", ("w is not normalised",))
        case HingeDual() as form if answer.slopes is not None:
            return _outside_of_box(form, answer.slopes, allowed)
        case BestSubset(support=support) as form:
            used, most = np.count_nonzero(answer.plane[0]), value(support.k)
            if used > most:
                return Finding("feasibility", f"w has {used} nonzero entries, more than k = {most:g}",
                               ("the entries beyond the k largest are not set to 0",))  # fmt: skip
    match problem.form:
        case (Composite() as G) | DifferenceOfConvex(G=G) | BestSubset(G=G) if answer.w is not None:
            broken = [R for R in G.penalties if R.value(answer.w) == np.inf]
            if broken:
                return Finding("feasibility", f"w lies outside of {broken[0]!r}", ("w is not projected",))
            if not G.intercept and answer.b:
                return Finding("feasibility", f"b is {answer.b:.4g}, not 0", ("the model has no intercept",))
    return None


def _rescaled(form: MinNorm, q: Sequence[Vec], k: int) -> Iterator[str]:
    """Yield the factor that brings block k into its domain, if there is one."""
    domain, v = form.blocks[k].domain, q[k]
    factor = float(domain.center(v.size).sum() / (v.sum() or 1.0))
    if domain.violation(v * factor) <= BESIDE:
        yield f"its scale: {factor:.4g} times it lies inside"


def _outside_of_box(form: HingeDual, a: Vec, allowed: float) -> Finding | None:
    """Return the finding of multipliers outside of `0 <= a <= C`, `y'a = 0`; None if they lie inside."""
    size = max(float(np.abs(a).max(initial=0.0)), 1e-300)
    low, high = float(a.min(initial=0.0)), float((a - form.C).max(initial=0.0)) if form.p == 1.0 else 0.0
    excess = float(form.y @ a) / max(float(np.abs(a).sum()), 1e-300)
    if low < -allowed * size:
        by_label = bool((form.y * a >= -allowed * size).all())
        cause = "the labels y are in the multipliers" if by_label else "the sign"
        return Finding("feasibility", f"a multiplier is negative, {low:.3g}", (cause,))
    if high > allowed * size:
        text = f"a multiplier is {high:.3g} above its bound C"
        return Finding("feasibility", text, ("the clip to C, or the scale of C",))
    if abs(excess) > allowed:
        text = f"y'a is {excess:.2g} of the sum of a, not 0"
        return Finding("feasibility", text, ("a step that changes one class alone",))
    return None


# --- causes ----------------------------------------------------------------------------------------
def _behind(problem: Problem, answer: Answer) -> Finding | None:
    """Return the finding of a normal of a set that points away from the nearest point; None if none does."""
    form = problem.form
    if not isinstance(form, MinNorm) or answer.w is None or not answer.w.any():
        return None
    x = problem.certify(answer, 0.0).x
    if x is None or x.shape != answer.w.shape or float(answer.w @ x) > 0.0 or not x.any():
        return None
    cosine = float(answer.w @ x) / max(problem.data.space.norm(answer.w) * problem.data.space.norm(x), 1e-300)
    text = f"w points away from the point x of the set, the cosine of their angle is {cosine:.3g}"
    return Finding("primal", text, ("the sign of w",) if cosine < -_FAR else ())


def _causes_of_primal(at: _Examined, error: Callable[[Answer], float]) -> tuple[str, ...]:
    """Return the changes of (w, b) that mend the upper bound."""
    if at.answer.w is None:
        return ()
    w, b = at.answer.plane
    if not w.any():
        return ("the w of the solver is 0, or worse than w = 0, which took its place: its sign or its scale",)

    def of(w: Vec, b: float) -> Callable[[Answer], Answer]:
        return lambda answer: replace(answer, w=w, b=b)

    changes = [("the sign of w and b", of(-w, -b)), ("the sign of w", of(-w, b))]
    height = _height(at.problem.form)
    if height is not None:
        level = _minimiser(lambda c: height(w, c), b)
        changes.append((f"b, which {level:.6g} in place of {b:.6g} mends", of(w, level)))
        factor = _minimiser(lambda f: height(f * w, b), 1.0)
        changes.append((f"the scale of w: {factor:.4g} times it", of(factor * w, b)))
    return at.explaining(changes, error)


def _causes_of_dual(at: _Examined, error: Callable[[Answer], float]) -> tuple[str, ...]:
    """Return the changes of the dual point that mend the lower bound."""
    answer, form = at.answer, at.problem.form
    if isinstance(form, BestSubset) and not covers([part for part, _ in answer.parts]):
        return ("the parts do not cover the problem: a branch is missing",)
    changes: list[Change] = []
    s = answer.slopes
    if s is not None and not isinstance(form, OutOfCoreForm):
        factor = at.best_factor(lambda f: replace(answer, slopes=f * s), error)
        others = [
            ("the sign of the slopes", -s),
            ("the labels in the slopes", at.problem.data.y * s),
            (f"the scale of the slopes: {factor:.4g} times them", factor * s),
        ]
        changes = [(text, lambda a, s=s: replace(a, slopes=s)) for text, s in others]
    return at.explaining(changes, error)


def _causes_of_both(at: _Examined, error: Callable[[Answer], float]) -> tuple[str, ...]:
    """Return the changes of the problem, or of the whole answer, with which the bounds meet."""
    answer = at.answer
    match at.problem.form:
        case MinNorm(blocks=blocks) as form:
            return tuple(_of_distance(at, form, error)) if len(answer.q) == len(blocks) else ()
        case HingeDual() as form:
            return tuple(_of_multipliers(form, answer.slopes))
        case DifferenceOfConvex() as form:
            return tuple(_of_difference(form, answer))
        case FlipComposite():  # its weights have the sum 1
            return ()
        case (Composite() as G) | BestSubset(G=G):
            return tuple(_of_composite(G, answer))
    return ()


def _gap(form: Composite, answer: Answer) -> float:
    """Return the relative gap of an answer to a composite, at its slopes or at those of the losses."""
    w, b = answer.plane
    slopes = form.gradient(form.margins(w, b))
    gaps = []
    for s in (answer.slopes, slopes):
        with np.errstate(all="ignore"):
            height, gap = form.duality_gap(replace(answer, slopes=slopes if s is None else s))
        gaps.append(gap / max(abs(height), 1e-300) if gap == gap else math.inf)
    return min(gaps)


def _of_composite(form: Composite, answer: Answer) -> Iterator[str]:
    """Yield the errors in a composite problem of which the answer is the optimum."""
    w, b = answer.plane
    limit = _EXPLAINED * _gap(form, answer)

    def solves(other: Composite) -> bool:
        return _gap(other, answer) <= limit

    if any(c is not None for c in form.weights) and solves(replace(form, weights=())):
        yield "the weights of the samples are left out"
    if form.intercept and b == 0.0 and solves(replace(form, intercept=False)):
        yield "b is left at 0"
    if not form.penalties:
        return
    margin, h = form.margins(w, b), 1e-6
    points = [form.gradient(margin)]
    if answer.slopes is not None:
        counted = max(float(np.max(answer.slopes / np.maximum(form.caps, 1e-300))), 1e-300)
        points += [answer.slopes, answer.slopes / counted]
    rise = (form.penalty.value((1.0 + h) * w) - form.penalty.value((1.0 - h) * w)) / (2.0 * h)
    pulls = [(float(w @ form.adjoint(s)), s) for s in points]
    for pull, s in pulls if 0.0 < rise < math.inf else ():
        c = pull / rise
        if not 0.0 < c < math.inf:
            continue
        other = replace(form, penalties=tuple(ScaledPenalty(c, R) for R in form.penalties))
        if _gap(other, replace(answer, slopes=s)) <= limit:
            yield (
                f"(w, b) is optimal for {c:.4g} times the penalty: the step of the proximal map, or the "
                "scale of the penalty or of the loss"
            )
            return


def _of_difference(form: DifferenceOfConvex, answer: Answer) -> Iterator[str]:
    """Yield the wrong linear terms with which an answer is optimal for the convex part."""
    w, b = answer.plane
    tilt = form.subgradient(form.G.margins(w, b), w)
    limit = _EXPLAINED * _gap(form.G.tilted(tilt), answer)
    if _gap(form.G, answer) <= limit:
        yield "the subtracted part H is left out: the answer minimises G"
    elif _gap(form.G.tilted(LinearTerm(-tilt.margin, -tilt.normal)), answer) <= limit:
        yield "the sign of the subgradient of H"


def _of_multipliers(form: HingeDual, a: Vec | None) -> Iterator[str]:
    """Yield the errors of multipliers of a hinge loss."""
    parts = np.zeros(1) if a is None else a / form.C
    top = float(parts.max(initial=0.0))
    if form.p == 1.0 and 0.0 < top < 1.0 - 1e-6 and np.sum(parts >= top * (1.0 - 1e-9)) > 1:
        yield f"the bound C: the largest multipliers stand at {top:.4g} C"


def _of_distance(at: _Examined, form: MinNorm, error: Callable[[Answer], float]) -> Iterator[str]:
    """Yield the errors of a point of a set: other problems that it solves, and the block of the gap."""
    q, changes = at.answer.q, []
    for k, j in itertools.combinations(range(len(q)), 2):
        if q[j].size == q[k].size:
            swapped = list(q)
            swapped[j], swapped[k] = q[k], q[j]
            changes.append((f"blocks {k} and {j} are exchanged", lambda a, q=swapped: replace(a, q=q)))
    if found := at.explaining(changes, error):
        yield from found
        return
    x, center = form.matvec(q), form.matvec(form.centers())
    if form.space.norm(x, form.norm) > form.space.norm(center, form.norm) * (1.0 + 1e-9):
        yield "the sign of the gradient or of the oracle: the point is farther from 0 than the centre"
    pull = form.rmatvec(form.space.dual_vector(x, form.norm) if x.any() else np.zeros_like(x))
    heights = [height for height, _ in form.supports([-g for g in pull])]
    own = np.array([g @ v + height for g, v, height in zip(pull, q, heights, strict=True)])
    if all(np.count_nonzero(v) <= 1 < v.size for v in q):
        yield "every block is a vertex: the steps are not averaged, or of length 1"
    elif len(own) > 1 and own.max() >= _WHOLE * own.sum() > 0.0:
        yield f"the step of block {int(np.argmax(own))}: all of the gap is in it"


def _height(form: Any) -> Callable[[Vec, float], float] | None:
    """Return the objective of a form as a function of w and b; None if it has none."""
    match form:
        case (Composite() as G) | DifferenceOfConvex(G=G):
            return lambda w, b: form.value(G.margins(w, b), w)
        case BestSubset(G=G):
            return _height(G)
    return None


def _minimiser(f: Callable[[float], float], start: float) -> float:
    """Return the minimiser of a function of one number, near convex, from a start."""
    step = 1.0 + abs(start)
    with np.errstate(all="ignore"):
        found: Any = minimize_scalar(f, bracket=(start - step, start + step), tol=1e-12)
    return float(found.x)
