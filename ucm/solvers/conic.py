"""Solver by conic programs through CVXPY, for nearest points and for losses with penalties.

Of a set the program is `min ||d z||_q` with `s d z = c + sum A_k q_k`, s the scale of the features and d, at
most 1, that of each feature against it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ucm.data.linear_map import column_sizes
from ucm.errors import ParameterError, SolverError, brief
from ucm.forms.distance import MinNorm
from ucm.forms.flips import FlipComposite
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, GeneralComposite, MovedComposite
from ucm.forms.solver import Answer, Solver, Status
from ucm.language.domains.conic_form import support
from ucm.language.parameter import Scope
from ucm.language.robust import dual_exponent
from ucm.language.terms import loss_cvxpy
from ucm.numerics.conic_programs import Blocks, absent, accuracy, attempt, ended, numbers

_FIRST_ORDER = ("SCS",)
_FAR = 10.0  # of its range: the mean of a feature that is taken away
_COUNTS = {"CLARABEL": "max_iter", "ECOS": "max_iters", "SCS": "max_iters"}
_LEFT: dict[Status, str] = {
    "converged": "", "interrupted": "", "max_iter": "the limit of iterations came first; raise max_iter",
    "stalled": "numerical errors end the progress; scale the features",
}  # fmt: skip


class Conic(Solver[MinNorm | Composite | GeneralComposite | FlipComposite | MovedComposite]):
    """Solve nearest points, or convex losses plus penalties, by a conic solver through CVXPY.

    It takes any norm, any domain, and every convex loss and penalty, if the conic solver has cones for
    powers.

    Parameters
    ----------
    name : str, optional
        The name by which CVXPY knows it, as "clarabel", "ecos" (interior-point methods) or "scs" (a splitting
        method: many cheap iterations, modest accuracy).
    **options
        Passed to the solver, beside tolerances derived from the relative gap that is asked for.
    """

    name: ClassVar[str] = "clarabel"

    def __init__(self, name: str = "clarabel", **options: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ParameterError(f'Conic: expected the name of a solver, as "clarabel", got {brief(name)}')
        vars(self).update(name=name.lower(), backend=name.upper(), options=options)

    backend: str
    options: dict

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conic) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        arguments = [repr(self.name), *(f"{k}={v!r}" for k, v in self.options.items())]
        return f"Conic({', '.join(arguments)})"

    def refuse(
        self, form: MinNorm | Composite | GeneralComposite | FlipComposite | MovedComposite
    ) -> str | None:
        why = absent(self.name)
        if why is not None or self.backend != "ECOS":
            return why
        if isinstance(form, Composite):
            return "it has no cone for powers, which losses may need"
        return None if form.norm in (1.0, 2.0, np.inf) else "it has no cone for this norm"

    def solve(
        self,
        form: MinNorm | Composite | GeneralComposite | FlipComposite | MovedComposite,
        monitor: Monitor,
        start: Answer | None = None,
    ) -> Answer:
        if isinstance(form, Composite):
            return self._penalized(form, monitor)
        if monitor.timed_out:
            return Answer(form.centers()).interrupted()
        import cvxpy as cp

        blocks = Blocks(form)
        z, d = cp.Variable(form.n), blocks.sizes
        image = z == cp.multiply(1.0 / d, blocks.x)
        objective = cp.Minimize(_norm(cp, cp.multiply(d, z), form.norm))
        problem = cp.Problem(objective, [image, *blocks.constraints])
        # far below the requested gap, as the solver measures errors differently
        tol = 1e-3 * monitor.tol
        # a tighter tolerance is cheap for interior-point methods, as they converge fast
        failure = self.attempt(problem, monitor, tol if self.backend in _FIRST_ORDER else min(tol, 1e-9))
        if failure:
            raise SolverError(
                f"{self.name}: the solver failed ({failure}); scale the features, or take another solver"
            )
        status = ended(problem, self.backend, monitor)
        if z.value is None and status in ("interrupted", "max_iter"):
            return Answer(form.centers()).ended(status, _LEFT[status])
        if problem.status in ("infeasible", "infeasible_inaccurate"):
            message = f"{self.name} found no point"
            return Answer(form.centers(), status="infeasible", message=message)
        if z.value is None:
            raise SolverError(
                f"{self.name}: no answer, status {problem.status}; scale the features, or take another solver"
            )
        answer = Answer(blocks.point())
        dual = numbers(image.dual_value) / d
        size = form.space.norm(dual, dual_exponent(form.norm))
        if size > 0.0:
            # stationarity in z and q: w = -dual, and A'w + sum_j B_j'mu_j supports the domain
            sign = 1.0 if float(dual @ (d * z.value)) >= 0.0 else -1.0
            answer.w = sign * dual / size
            answer.multipliers = blocks.multipliers(-sign / size)
        value = -blocks.scale * float(problem.value)
        monitor.report(monitor.iterations, value, float("nan"))
        return answer.ended(status, _LEFT[status])

    def _penalized(self, form: Composite, monitor: Monitor) -> Answer:
        """Solve; without a proof again with the objective in units of its value, then of the root of it.

        The tolerances of the solvers are absolute, and in some units their steps fail.
        """
        answer = self._penalized_once(form, monitor, 1.0)
        value, gap = form.duality_gap(answer)
        unit = value
        if value == np.inf:  # no answer: the unit is the value of the least w
            w = form.penalty.project_domain(np.zeros(form.n))
            unit = form.value(form.margins(w, 0.0), w)
        for power in (1.0, 0.5):
            limited = monitor.timed_out or not monitor.may_continue
            if form.tilt or not 1e-200 < unit < np.inf or gap <= 0.5 * monitor.tol * unit or limited:
                break
            again = self._penalized_once(form, monitor, unit**-power)
            other, remaining = form.duality_gap(again)
            if (remaining, other) < (gap, value):  # the lower value where neither has a gap
                answer, value, gap = again, other, remaining
                unit = value
        monitor.report(max(1, monitor.iterations), value, float("nan"))
        proven = answer.status in _LEFT and gap <= 0.5 * monitor.tol * abs(value) < np.inf
        return answer.ended("converged", "") if proven else answer

    def _penalized_once(self, form: Composite, monitor: Monitor, factor: float) -> Answer:
        problem, w, b, equation, above = _program(form, factor)
        failure, name = "", self.name
        # the gap is of first order in the dual error: the tightest tolerance that succeeds
        for tight in (1e-3 * monitor.tol,) if self.backend in _FIRST_ORDER else (1e-11, 1e-9, 1e-7):
            failure = self.attempt(problem, monitor, tight)
            done = not failure and problem.status not in ("unbounded", "infeasible")
            if done or not monitor.may_continue or monitor.timed_out:
                break
        if failure:
            return _failed(form, "stalled", f"{name} failed ({failure}); scale the features")
        status = ended(problem, self.backend, monitor)
        if w.value is None:
            if status in ("interrupted", "max_iter"):
                return _failed(form, status, _LEFT[status])
            message = f"{name} ended with the status {problem.status!r}; scale the features"
            return _failed(form, "unbounded" if problem.status == "unbounded" else "stalled", message)
        slopes = numbers(equation.dual_value) / factor - form.linear.margin
        normal = form.without_rounding(form.penalty.project_domain(numbers(w.value)))
        q = [numbers(c.dual_value) / factor for c in above]
        answer = Answer(w=normal, b=float(b.value), slopes=slopes, multipliers=q)
        return answer.ended(status, _LEFT[status])

    def attempt(self, problem: Any, monitor: Monitor, tol: float) -> str:
        """Run the solver on a CVXPY problem with tolerance `tol`; return its error message, or "".

        The monitor counts its iterations, and limits them.
        """
        options = accuracy(self.backend, tol) | self.options
        if monitor.max_iter is not None and self.backend in _COUNTS:
            options[_COUNTS[self.backend]] = max(1, monitor.max_iter - monitor.iterations)
        failure = attempt(problem, self.backend, monitor, **options)
        if problem.solver_stats is not None:
            monitor.iterations += int(problem.solver_stats.num_iters or 0)
        return failure


def _norm(cp, z, q: float):
    return cp.norm(z, q) if q in (1.0, 2.0, np.inf) else cp.pnorm(z, q, approx=False)


def _program(form: Composite, factor: float) -> tuple:
    """Return `factor` times the problem of a form in CVXPY, w, b, the equation of t and those of worst means.

    The tilt and the factor are constants: as parameters of CVXPY they cost a matrix of all variables times
    all parameters, more than building the problem for every tilt.
    """
    import cvxpy as cp

    # features far from 0 of mean 0, where an intercept takes the means; all scaled to size 1
    X, free, centre = form.X, form.intercept, np.zeros(form.n)
    if free and isinstance(X, np.ndarray):
        mean = X.mean(axis=0)
        centre = np.where(np.abs(mean) > _FAR * np.ptp(X, axis=0), mean, 0.0)
    X = X - centre if centre.any() else X
    unit = np.maximum(column_sizes(X), 1e-12 * np.abs(centre))
    unit = np.maximum(unit, 1e-9 * unit.max(initial=0.0))  # least scale of a feature, relative to the largest
    w = cp.multiply(1.0 / unit, cp.Variable(form.n))
    level, t = cp.Variable() if free else cp.Constant(0.0), cp.Variable(form.m)
    scores, b = X @ w + level, level - centre @ w
    plain, tilt = Scope(), form.linear
    margins = cp.multiply(form.y, scores) + form.shift
    equation = t == margins
    if isinstance(form, MovedComposite):
        sets = form.moved
        heights = sets.sets.cvxpy(sets.images_cvxpy(w[: sets.G.shape[1]]), plain)
        equation = t <= margins - cp.multiply(sets.sizes, heights)
    if isinstance(form, FlipComposite):  # the multipliers of flipped losses are the parts of flipped labels
        total, (flips, *others) = form.model.cvxpy(t, w, form.caps, plain)
        return cp.Problem(cp.Minimize(factor * total), [equation, flips, *others]), w, b, equation, [flips]
    total = sum(loss_cvxpy(loss, t, c, plain) for loss, c in form.parts)
    total += sum(penalty.cvxpy(w, 1.0, plain) for penalty in form.penalties)
    if form.tilt is not None:
        total -= tilt.margin @ t + tilt.normal @ w
    above, constraints = [], [equation]
    for h in form.worst:  # s bounds the losses or means that q weighs, and q is its multiplier
        d = h.map.shape[1]
        s, q = cp.Variable(d), cp.Variable(d)
        above.append(s >= h.map.matrix().T @ h.loss.cvxpy(t, 1.0, plain))
        inside = [c for D in h.domains for c in D.own_constraints(q / d)]
        height, within = support(q, inside, s)
        total += height / d
        constraints += [above[-1], *within]
    return cp.Problem(cp.Minimize(factor * total), constraints), w, b, equation, above


def _failed(form: Composite, status: Status, message: str) -> Answer:
    return Answer(w=np.zeros(form.n), b=0.0, status=status, message=message)
