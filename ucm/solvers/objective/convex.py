"""Any convex composite problem, through CVXPY: built once, its tilts are parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ucm.data.linear import Vec
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, InnerSolver, Session, Tilt
from ucm.language.parameter import Coefficient, Numbers
from ucm.language.terms import loss_cvxpy
from ucm.solvers.programs import accuracy, attempt, cut_short, numbers

__all__ = ["ClarabelComposite"]

_TIGHT = (1e-11, 1e-9, 1e-7)  # tolerances, the next where the solver gets stuck
_SMALL = 1e-3  # an optimum that absolute tolerances leave with few digits


@dataclass(frozen=True)
class ClarabelComposite(InnerSolver):
    """Clarabel, an interior-point method: every convex loss and penalty."""

    name: ClassVar[str] = "clarabel-loss"

    def refuse(self, form: Composite) -> str | None:
        return None

    def predicted_passes(self, form: Composite) -> float:
        return float("nan")

    def open(self, form: Composite, monitor: Monitor) -> Session:
        return _Built(form, monitor)


class _Built(Session):
    """One CVXPY problem for each tuple of penalties met."""

    def __init__(self, form: Composite, monitor: Monitor) -> None:
        self.monitor = monitor
        self.problems: dict[Any, tuple[Any, ...]] = {}

    def place(self, w: Vec, b: float) -> None:
        """An interior-point method has no use for a start."""

    def _problem(self, form: Composite) -> tuple[Any, ...]:
        import cvxpy as cp

        if form.penalties not in self.problems:
            # features of size one, and an objective of its own size
            unit = form.scale or 1.0
            w, b, t = cp.Variable(form.n) / unit, cp.Variable(), cp.Variable(form.m)
            v, u, size = cp.Parameter(form.m), cp.Parameter(form.n), cp.Parameter(nonneg=True)
            plain = Numbers()
            total = sum(loss_cvxpy(loss, t, c, plain) for loss, c in form.parts)
            total += sum(penalty.cvxpy(w, Coefficient(), plain) for penalty in form.penalties)
            equation = t == cp.multiply(form.y, (form.X / unit) @ (unit * w) + b)
            problem = cp.Problem(cp.Minimize(size * total - v @ t - u @ w), [equation])
            self.problems[form.penalties] = (problem, w, b, v, u, size, equation)
        return self.problems[form.penalties]

    def solve(self, form: Composite, tilt: Tilt, tol: float) -> Answer:
        """In larger units of the objective where the optimum is far below 1, as tolerances are absolute."""
        answer = self._solve(form, tilt, 1.0)
        if answer.slopes is None or tilt.margin.any() or tilt.normal.any():
            return answer
        value, gap = _gap(form, tilt, answer, answer.slopes)
        for power in (1.0, 0.5):
            if not 1e-200 < value < _SMALL or gap <= 0.5 * tol * value or self.monitor.late:
                break
            again = self._solve(form, tilt, value**-power)
            if again.slopes is not None:
                other, left = _gap(form, tilt, again, again.slopes)
                if left < gap:
                    answer, value, gap = again, other, left
        return answer

    def _solve(self, form: Composite, tilt: Tilt, factor: float) -> Answer:
        problem, w, b, v, u, size, equation = self._problem(form)
        v.value, u.value, size.value = factor * tilt.margin, factor * tilt.normal, factor
        failure = ""
        for tight in _TIGHT:  # a gap is first order in the dual error: as tight as it can be had
            failure = attempt(problem, "CLARABEL", self.monitor, **accuracy("CLARABEL", tight))
            if not failure and problem.status not in ("unbounded", "infeasible"):
                break
        if failure:
            message = f"Clarabel failed ({failure}); scale the features"
            return _failed(form, "max_iter", message)
        late = cut_short(problem, self.monitor)
        if w.value is None and late:
            return _failed(form, "interrupted", "")
        if w.value is None:
            status = problem.status if problem.status in ("infeasible", "unbounded") else "max_iter"
            message = f"Clarabel ended with the status {problem.status!r}; scale the features"
            return _failed(form, status, message)
        slopes = numbers(equation.dual_value) / factor - tilt.margin
        answer = Answer(w=form.penalty.feasible(numbers(w.value)), b=float(b.value), slopes=slopes)
        return answer.interrupted() if late else answer


def _gap(form: Composite, tilt: Tilt, answer: Answer, slopes: Vec) -> tuple[float, float]:
    """The value of an answer, and the gap that its slopes prove."""
    w, b = answer.plane
    margin = form.margins(w, b)
    value = form.value(margin, w, tilt)
    return value, value - form.lower_bound(slopes, margin, tilt, w)[0]


def _failed(form: Composite, status: str, message: str) -> Answer:
    return Answer(w=np.zeros(form.n), b=0.0, status=status, message=message)
