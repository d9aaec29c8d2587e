"""The compiled model `Plan`, with `solve -> certify -> judge -> recover` for every kind of declaration."""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import ArrayLike

from ucm.compiler.lowering import ExternalAnswer, Lowering, Proof, Regime, Verdict
from ucm.compiler.recover import BIAS_RULES
from ucm.compiler.robust import SphereLowering
from ucm.compiler.route import choose, fallback_names, fallbacks, label, table, unknown, verdicts
from ucm.data.bound_data import Data
from ucm.data.first_pass import RowData, refuse_gathering
from ucm.data.kernel_options import FeatureFunction
from ucm.data.options import COUNT, FLAG, STARTS, TOLERANCE, OptionSpec, one_of, optional, options_of, within
from ucm.data.validation import scale_hint
from ucm.errors import ConvergenceWarning, ParameterError, SolverError, brief, unknown_option, warn_of
from ucm.evidence.certificate import is_proven, without_lower_bound
from ucm.evidence.guarantees import Guarantees, guarantees
from ucm.evidence.local_minimum import certify_local
from ucm.evidence.portable import portable
from ucm.evidence.reference import Verification, explained
from ucm.forms.display import sheet
from ucm.forms.display import table as html_table
from ucm.forms.monitor import Monitor, check_time_limit, time_of
from ucm.forms.solution import Certificate, Solution, Stats
from ucm.forms.solver import Answer, Solver
from ucm.language import cvx as cp
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

_UNLIMITED = 2**31 - 1  # the largest limit of iterations that external solvers accept
_SAME = 1e-9  # relative difference of equal minima
_OUTSIDE = 1e-2  # relative violation of an invalid answer
_DONE = ("infeasible", "interrupted")  # statuses of answers without a fallback
_RATIO = within("a number in (0, 1]", lambda x: 0.0 < x <= 1.0)
_SOLUTION = OptionSpec("a Solution", lambda x: x is None or isinstance(x, Solution))
_LIMIT = optional(COUNT), "leave it out for the default of the solver"
_OPTIONS: dict[str, tuple[OptionSpec, str]] = {
    "tol": (TOLERANCE, "leave it out for 1e-6"),
    "n_starts": (STARTS, "leave it out for 1"),
    "max_iter": _LIMIT,
    "trace": _LIMIT,
    "warm_start": (_SOLUTION, "give the answer of a solve"),
    "callback": (
        OptionSpec("a function of one record", lambda x: x is None or callable(x)),
        "write callback=lambda record: False",
    ),
    "bias_rule": (one_of(*BIAS_RULES), "leave it out for the best rule that applies"),
    "bound": (FLAG, "leave it out for True"),
}


@dataclass(frozen=True, repr=False)
class Plan:
    """A compiled model: the declaration bound to data, its standard form and its solver.

    Attributes
    ----------
    lowering : the standard form, and the way back from it
    solver : the solver chosen
    setup_time : seconds of compiling
    alternatives : the other lowerings of the model
    declared_values : the declared parameters that the data convert, as lam to a radius
    """

    lowering: Lowering
    solver: Solver
    setup_time: float = 0.0
    alternatives: tuple[Lowering, ...] = ()
    declared_values: Mapping[str, float] = field(default_factory=dict)
    _latest: list[Solution] = field(default_factory=list, init=False, compare=False)

    @property
    def model(self) -> RobustMargin | Objective:
        """The declared model, a `RobustMargin` or an `Objective`."""
        return self.lowering.model

    @property
    def data(self) -> Data:
        """The samples and labels as bound data."""
        return self.lowering.data.as_given

    @property
    def form(self) -> Any:
        """The standard form that the solver takes."""
        return self.lowering.form

    @property
    def regime(self) -> Regime:
        """The convexity of the model for these data, with the reason."""
        return self.lowering.regime

    @property
    def solution(self) -> Solution:
        """The latest solution of this plan; without a solution, a solve with the default options."""
        return self._latest[0] if self._latest else self.solve()

    def __repr__(self) -> str:
        return f"Plan({self.model!r}, m={self.data.m}, n={self.data.n}, solver={self.solver.name!r})"

    def explain(self, verbose: bool = False) -> str:
        """Return a text on data, form, regime and solvers: all solvers, or three unless `verbose`.

        Parameters
        ----------
        verbose : every route, with why it is refused
        """
        return "\n".join(
            [
                str(self.model),
                *(f"{name:<10}{text}" for name, text in self._facts().items()),
                *table(self._verdicts(), verbose),
                *self.lowering.describe_other(self.solver.name, verbose),
            ]
        )

    def _repr_html_(self) -> str:
        rows = self._verdicts()
        words = {"chosen": "bold", "refused": "grey"}
        marks = [words.get(re.split(r"\W", verdict)[0], "") for _, verdict in rows]
        facts = {"model": str(self.model), **self._facts()}
        return sheet("Plan", facts, html_table(rows, ("solver", "verdict"), marks))

    def _facts(self) -> dict[str, str]:
        """Return the facts of `explain()`: data, form, regime, route and fallbacks."""
        regime, solver, approx = self.regime, self.solver, self.data.approx
        following = ", then ".join(fallback_names(self.form, solver, self.lowering.requested))
        facts = {
            **self.lowering.describe(),
            "features": "" if approx is None else brief(approx),
            "regime": f"{'convex' if regime.convex else 'not convex'}: {regime.how}",
            "route": label(solver),
            "fallback": f"if it ends without proof: {following}" if following else "",
            "scales": scale_hint(self.data.X),
        }
        return {name: text for name, text in facts.items() if text}

    def _verdicts(self) -> list[tuple[str, str]]:
        """Return (solver, verdict) pairs in the order of the route table."""
        rows = (
            row
            for other in (self.lowering, *self.alternatives)
            for row in verdicts(other.form, other.requested, self.solver)
        )
        return list(dict.fromkeys(rows))  # a solver asked for by name appears once for every form

    def solve(
        self,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        time_limit: float | None = None,
        trace: int | None = None,
        warm_start: Solution | None = None,
        n_starts: int = 1,
        callback: Callable[[dict], object] | None = None,
        verbose: bool = False,
        bias_rule: str = "auto",
        bound: bool = True,
        **unknown: Any,
    ) -> Solution:
        """Solve the model, certify the answer and recover the classifier: return the `Solution`.

        Parameters
        ----------
        tol : relative duality gap to prove
        max_iter : limit of iterations; None for the default of the solver
        time_limit : seconds; the solve then ends with the proven gap, after the current product,
            factorisation or iteration of an external solver. None for no limit
        trace : k for a record of every k-th iterate, and of the last, in `Solution.history`: the iterate
            (q, x; w, b) and, depending on the method, L, eta, restarts, the generalised gradient, counts of
            gradients, projections, products and evaluations, and their seconds. Compiled loops record their
            reports only, external solvers one: CVXPY passes no callback to Clarabel, ECOS or SCS, and HiGHS
            prints a banner if one is set. Tracing costs time, and does not change the iterates
        warm_start : a solution of a plan of the same shape
        n_starts : number of starts of a non-convex model, at most 10,000
        callback : called with every record; returning True stops the solve
        verbose : print a table of the iterations
        bias_rule : "auto", "multipliers", "midpoint", "means", "min_error", "odds", "boundary", "zero"
        bound : if 0 lies in U, search for a lower bound of the optimum too, in about the time of one more
            start; `Plan.bound` searches longer

        Raises
        ------
        ParameterError
            An option outside its range, or an unknown option; the message names the nearest option.
        DataError
            X or y were changed in place after the compilation.
        SolverError
            The solver failed, returned an invalid answer, or contradicts the certificate.
        KeyboardInterrupt
            Ctrl-C, with the objective and the gap that were reached as a note. Over rows that are read block
            by block the solve returns its solution instead.

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached; the message has the gap.
        """
        if unknown:
            raise unknown_option("solve", unknown, options_of(Plan.solve))
        values = {
            "tol": tol, "n_starts": n_starts, "max_iter": max_iter, "trace": trace,
            "warm_start": warm_start, "callback": callback, "bias_rule": bias_rule, "bound": bound,
        }  # fmt: skip
        defaults = Plan.solve.__kwdefaults__ or {}
        for name, x in values.items():
            if x is not defaults[name]:
                option, remedy = _OPTIONS[name]
                option.check("solve", name, x, remedy)
        check_time_limit(time_limit, "solve")
        if bias_rule not in self.lowering.bias_rules:
            raise ParameterError(
                f"solve: bias_rule={bias_rule!r} does not apply: {self.lowering.bias_refusal}; "
                f"use {' or '.join(map(repr, self.lowering.bias_rules))}"
            )
        data = self.data
        data.check_unchanged()
        limit = None if max_iter is None else min(int(max_iter), _UNLIMITED)
        monitor = Monitor(tol, limit, callback, verbose, time_limit, trace=int(trace or 0), bound=bool(bound))
        try:
            with data.overflow_guard(), time_of(monitor):
                solution = self._solve(monitor, warm_start, n_starts, bias_rule)
        except KeyboardInterrupt as stop:
            stop.add_note(f"solve: {monitor.last_report}")
            raise
        self._latest[:] = [solution]
        return solution

    def _solve(self, monitor: Monitor, warm_start: Solution | None, starts: int, bias_rule: str) -> Solution:
        lowering = self.lowering
        monitor.factor = lowering.factor
        further = lowering.before_solve(monitor)
        if further is not None:
            return self._continue(further, monitor, warm_start, starts, bias_rule)
        start = None if warm_start is None else lowering.warm_start(warm_start)
        remaining_solvers = fallbacks(lowering.form, self.solver, lowering.requested)
        solver, answers = self._run_solver(monitor, start, starts, remaining_solvers)
        proofs = [lowering.certify(answer, monitor.tol) for answer in answers]
        proof, start = min(zip(proofs, answers, strict=True), key=lambda pair: pair[0].certificate.primal)
        further = lowering.after_proof(proof, monitor)
        if further is not None:
            return self._continue(further, monitor, warm_start, starts, bias_rule)
        solver, proof = self._run_fallbacks(solver, proof, start, monitor, remaining_solvers)
        ends = [each.objective for each in proofs] if len(proofs) > 1 else monitor.start_objectives
        return self._solution(solver.name, proof, monitor, bias_rule, ends, starts)

    def _continue(
        self, further: Lowering, monitor: Monitor, warm_start: Solution | None, starts: int, bias_rule: str
    ) -> Solution:
        """Return the solution of another lowering of the model, which refers to a plan of its own."""
        second = Plan.of((further,), time.perf_counter() - self.setup_time, self.declared_values)
        if isinstance(further, type(self.lowering)):
            warm_start = None  # the vectors are in other coordinates
        else:
            monitor.history.clear()  # the records are of another objective
        monitor.iterations = 0
        solution = second._solve(monitor, warm_start, starts, bias_rule)
        return solution if solution.plan is not None else replace(solution, plan=second)

    def proven(self, proof: Proof, monitor: Monitor) -> Solution:
        """Return the recovered solution of a given proof, with the work in the monitor, without a solve."""
        return self._solution(self.solver.name, proof, monitor, "auto")

    def _run_solver(
        self, monitor: Monitor, start: Answer | None, starts: int, remaining_solvers: Iterator[Solver]
    ) -> tuple[Solver, list[Answer]]:
        """Run the solver or, after a `SolverError`, the next fallback; return the solver and its answers."""
        solver: Solver | None = self.solver
        while True:
            try:
                answers = self.lowering.run(solver, monitor, start, starts)
                return solver, [_stopped_by(answer, monitor) for answer in answers]
            except SolverError:
                solver = None if monitor.timed_out else next(remaining_solvers, None)
                if solver is None:
                    raise

    def _run_fallbacks(
        self, solver: Solver, proof: Proof, start: Answer, monitor: Monitor, solvers: Iterator[Solver]
    ) -> tuple[Solver, Proof]:
        """Run the remaining solvers until a proof or a limit, each from `start`, the best answer of the form.

        The answer of the proof may have other blocks, those of the declaration.
        """
        lowering = self.lowering
        while (
            not lowering.settled(proof, monitor.tol)
            and proof.answer.status not in _DONE
            and monitor.may_continue
            and not monitor.timed_out
            and (tried := next(solvers, None)) is not None
        ):
            try:
                answer = _stopped_by(lowering.run(tried, monitor, start, 1)[0], monitor)
                again = lowering.certify(answer, monitor.tol)
            except SolverError:  # the previous answer stays the best
                continue
            gaps = [abs(each.certificate.relative_gap) for each in (proof, again)]
            if answer.status == "infeasible" or lowering.settled(again, monitor.tol) or gaps[1] < gaps[0]:
                monitor.record_fallback(tried.name, solver.name)
                solver, proof, start = tried, again, answer
        return solver, proof

    def _judged(self, solver: str, proof: Proof, monitor: Monitor) -> tuple[Certificate, Verdict]:
        """Return the certificate, with the kernel's name, and the verdict; emit its warning."""
        certificate = proof.certificate
        if kernel := self.lowering.kernel:
            certificate = replace(certificate, kernel=kernel)
            proof = replace(proof, certificate=certificate)
        verdict = _judge(self.lowering, proof, solver, monitor)
        if verdict.status == "indefinite":  # Fenchel's inequality needs a feature space
            certificate = without_lower_bound(certificate)
        if verdict.warns:
            warn_of(verdict.message, ConvergenceWarning)
        return certificate, verdict

    def _solution(
        self,
        solver: str,
        proof: Proof,
        monitor: Monitor,
        bias_rule: str,
        ends: Sequence[float] = (),
        starts: int = 1,
    ) -> Solution:
        """Return the `Solution` of a proof; `ends` are the objectives at the end of each of the `starts`."""
        certificate, verdict = self._judged(solver, proof, monitor)
        parts = self.lowering.recover(proof, bias_rule)
        model, data = self.model, self.data
        if data.approx is not None and parts.w is not None:
            parts = replace(parts, expansion=FeatureFunction(data.approx, parts.w))
        solution = Solution(
            objective=proof.objective,
            certificate=certificate,
            status=verdict.status,
            message=verdict.message + (_starts_summary(ends) if starts > 1 else ""),
            tol=monitor.tol,
            stats=Stats(
                solver, self.setup_time, monitor.seconds, int(monitor.iterations), float(monitor.passes),
                int(monitor.kernel_operations), int(monitor.systems), float(monitor.hessian_passes),
                int(monitor.reads),
            ),
            history=monitor.history,
            start_objectives=tuple(ends) or (proof.objective,),
            size=proof.size,
            answer=proof.answer,
            params={**self.declared_values, **model.params()},
            make_certificate=functools.partial(portable, model, data),
            **vars(parts.over(data.weighing)),
        )  # fmt: skip
        if parts.make_weights is not None:
            del vars(solution)["weights"]  # computed when they are first read
        return solution

    def bound(
        self, solution: Solution | None = None, *, ratio: float = 0.99, time_limit: float | None = None
    ) -> Solution:
        """Improve the lower bound of a solution where 0 lies in U: return the new solution.

        In up to 6 dimensions the search extends a polytope inside of U. In more dimensions, or if this is not
        enough, it computes the best affine decision rule over the weights. A better w on the way is a new
        start.

        Parameters
        ----------
        solution : of this plan; None for `plan.solution`, the latest one
        ratio : fraction of the objective that the lower bound is to reach, in (0, 1]
        time_limit : seconds; None for no limit

        Returns
        -------
        Solution
            The solution with its new certificate, status and message, or a better solution; of a convex model
            the given solution.

        Raises
        ------
        ParameterError
            A ratio outside of (0, 1], an invalid solution, or a solution of another shape.

        Notes
        -----
        The least value of a rule is that of Ben-Tal, Goryashko, Guslitzer and Nemirovski (2004), *Adjustable
        robust solutions of uncertain linear programs*, over a sphere, where it is exact.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> plan = ucm.compile(ucm.models.l2_nu_svm(0.5), X[:, :4], y)
        >>> sol = plan.bound()
        >>> sol.certificate.kind, bool(sol.certificate.dual >= 0.5 * sol.objective)
        ('global', True)
        """
        _RATIO.check("bound", "ratio", ratio, "leave it out for 0.99")
        check_time_limit(time_limit, "bound")
        plan, solution = self._solution_with_plan("bound", solution)
        monitor = Monitor(solution.tol, time_limit=time_limit)
        with self.data.overflow_guard(), time_of(monitor):
            improved = plan._with_better_bound(solution, float(ratio), monitor)
        if improved is not solution:
            improved = replace(improved, plan=solution.plan)
            self._latest[:] = [improved]
        return improved

    def _solution_with_plan(self, method: str, solution: Solution | None) -> tuple[Plan, Solution]:
        """Return the plan of a solution, and the solution, by default the latest; check the samples."""
        _SOLUTION.check(method, "solution", solution, "leave it out for the latest one")
        self.data.check_unchanged()
        solution = self.solution if solution is None else solution
        return solution.plan or self, solution

    def _with_better_bound(self, solution: Solution, ratio: float, monitor: Monitor) -> Solution:
        """Return the solution with the lower bound of a longer search, or a better solution."""
        lowering = self.lowering
        if not isinstance(lowering, SphereLowering) or solution.answer is None or not solution.w.any():
            return solution
        w = lowering.tighten(ratio, solution, monitor)
        if w is not None:
            better = self._solve(monitor, replace(solution, w=w), 1, "auto")
            if better.objective < solution.objective:
                return better
        proof = lowering.certify(solution.answer, monitor.tol)
        certificate, (status, message, _) = self._judged(self.solver.name, proof, monitor)
        return replace(solution, certificate=certificate, status=status, message=message)

    def reference(self, at: Solution | None = None, *, scaled: bool = False) -> cp.Problem:
        """Return the CVXPY problem of the model; of a non-convex model its convex problem at a solution.

        Each hyperparameter is a `cvxpy.Parameter`.

        The problem is vectorised, and its optimal value is the objective of the declared problem.

        Parameters
        ----------
        at : of a non-convex model, the solution whose convex problem is built: a critical point solves it
        scaled : True for variables scaled to about 1, as solvers with absolute tolerances need; False for w,
            x and q as in the formula
        """
        if at is not None and at.plan is not None and at.plan is not self:
            return at.plan.reference(at, scaled=scaled)
        self.data.check_unchanged()
        return self.lowering.reference(at, scaled)

    def dual_reference(self) -> cp.Problem:
        """Return the CVXPY dual of a convex loss with `lam * L2()`, with the optimal value of the primal.

        For `C * Hinge(p)` it is problem (17) of Sun (2024).

        Raises
        ------
        ParameterError
            The model has another form.
        """
        self.data.check_unchanged()
        problem = self.lowering.dual_reference()
        if problem is None:
            raise ParameterError(
                f"dual_reference: only a convex loss with lam * L2() has one, got {self.model!r}; "
                "use reference()"
            )
        return problem

    def certify(
        self,
        *,
        w: ArrayLike | None = None,
        b: float | None = None,
        x: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        coefficients: ArrayLike | None = None,
    ) -> Certificate:
        """Return the certificate of an external solver's answer, computed from the declaration.

        Of a set, w proves the upper bound `max over U of -w'x`, and a point of U the lower bound `-||x||_q`.
        A missing bound is infinite, and the kind is then "none". Of `loss + lam * penalty`, the value at (w,
        b) is the upper bound, and weights, minus the slopes of the losses, give the lower bound.

        Parameters
        ----------
        w : (n,) array, optional
            Of any norm; by default the direction of x.
        b : float, optional
            Of `loss + lam * penalty` only.
        x : (n,) array, optional
            A point of U. A conic program computes its relative distance from U, the `violation`; above 1e-6
            the point gives no bound.
        weights : (m,) array, optional
            As `Solution.weights`. The weights of hulls give the point, and their domains the violation.
        coefficients : (m,) array, optional
            In place of w with a kernel: `w = sum_i c_i phi(x_i)`, as `Solution.coefficients`.

        Raises
        ------
        ParameterError
            No argument, an argument of another kind of model, or w = 0.
        DataError
            A vector of another length or with NaN or infinities; X or y were changed in place.

        Examples
        --------
        >>> import ucm
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.svm import NuSVC
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> y = 2 * y - 1
        >>> svc = NuSVC(kernel="linear", nu=0.5, tol=1e-9).fit(X, y)
        >>> plan = ucm.compile(ucm.models.nu_svm(0.5), X, y)
        >>> print(plan.certify(w=svc.coef_[0]).dual)
        -inf
        >>> plan.certify(w=svc.coef_[0], x=plan.solve().x).relative_gap < 1e-4
        True
        """
        self.data.check_unchanged()
        certificate = self.lowering.certify_external(ExternalAnswer(w, b, x, weights, coefficients))
        return replace(certificate, kernel=self.lowering.kernel)

    def certify_local(self, solution: Solution | None = None) -> Certificate:
        """Try to prove that a solution of a non-convex `loss + penalty` is a strict local minimum.

        The proof takes the one-sided slopes of the terms at (w, b), one linear program and one rank: 0 must
        lie in the interior of the set of slopes of the objective. A margin or a weight is at a kink when its
        relative distance is below 1e-7.

        Parameters
        ----------
        solution : of this plan; None for `plan.solution`, the latest one

        Returns
        -------
        Certificate
            The certificate of the solution, with the `kind` "strict local" if the proof succeeds. Without a
            proof the solution may still be a local minimum.

        Raises
        ------
        ParameterError
            The model is not `loss + penalty` in the features, or a penalty is not a sum over the weights w_j.

        References
        ----------
        Ong and Le Thi (2013), Theorem 3.1 (IV), proves a local minimum where the subtracted part is affine.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("breast_cancer")
        >>> plan = ucm.compile(ucm.models.zero_norm_svm(1.0), X, y)
        >>> plan.certify_local(plan.solve()).kind
        'strict local'
        """
        _, solution = self._solution_with_plan("certify_local", solution)
        return certify_local(self.model, self.data, solution)

    def verify(self, solution: Solution | None = None, **options: object) -> Verification:
        """Compare a solution with the optimum of the CVXPY reference problem, at the tolerance of its solve.

        A comparison that differs names the first side that is wrong: the feasibility of a block, the primal
        point, the dual point, the claimed status, or the reference itself, which a proven answer refutes.

        Parameters
        ----------
        solution : of this plan; None for `plan.solution`, the latest one
        **options
            Of `cvxpy.Problem.solve`; `solver` is Clarabel by default.

        Raises
        ------
        ParameterError
            An invalid solution, or an unknown option of the reference solver.
        SolverError
            The reference solver failed.
        """
        answers = [name for name in ("w", "b", "weights", "x") if name in options]
        if answers:
            raise ParameterError(
                f"verify: expected options of cvxpy.Problem.solve, got {', '.join(answers)}; certify other "
                f"answers by plan.certify({answers[0]}=...)"
            )
        plan, solution = self._solution_with_plan("verify", solution)
        try:
            lowering = plan.lowering
            verification = lowering.verify(solution, solution.tol, **options)
            return explained(
                verification, lowering, solution, lambda: lowering.verify(solution, solution.tol)
            )
        except TypeError as error:
            if not options:
                raise
            raise ParameterError(
                f"verify: expected options of cvxpy.Problem.solve and of the reference solver, got "
                f"{', '.join(options)} ({error}); leave out the unknown options"
            ) from error

    def guarantees(
        self,
        solution: Solution | None = None,
        X_test: ArrayLike | None = None,
        y_test: ArrayLike | None = None,
        *,
        level: float = 0.95,
    ) -> Guarantees:
        """Return error bounds for new data, from held-out samples and from the declared set.

        Bounds by held-out samples come first, then bounds by the set at the fitted (w, b).

        Parameters
        ----------
        solution : None for `plan.solution`, the latest one
        X_test, y_test : held-out samples, and their labels -1 and +1
        level : probability of each bound by samples

        Returns
        -------
        Guarantees
            A sequence of bounds, printed as a table, each with its formula, its assumptions, its source and,
            if the bound is a probability statement, its probability.

        Raises
        ------
        ParameterError
            One of X_test and y_test alone; a level outside of (0, 1).
        DataError
            X_test has other features than the fit, or y_test labels other than -1 and +1.

        Examples
        --------
        >>> import ucm
        >>> X, y = ucm.datasets.load("wine")
        >>> found = ucm.compile(ucm.models.mm_mpm(0.5), X, y).guarantees()
        >>> print(found[0], "-", found[0].holds)
        error, class +1: ≤ 0.2122 - no probability statement
        """
        plan, solution = self._solution_with_plan("guarantees", solution)
        if isinstance(plan.data, RowData):
            refuse_gathering(plan.data.source, "a bound on the errors of new data")
        return guarantees(self.model, plan.data, solution, X_test, y_test, level)

    @classmethod
    def of(
        cls,
        lowerings: tuple[Lowering, ...],
        began: float | None = None,
        declared_values: Mapping[str, float] | None = None,
    ) -> Plan:
        """Return the plan of the first lowering whose form has a solver; raise if none has the requested one.

        `began` is the start of the compilation by `time.perf_counter`, None for now.
        """
        began = time.perf_counter() if began is None else began
        for k, lowering in enumerate(lowerings):
            solver = choose(lowering.form, lowering.requested)
            if solver is not None:
                alternatives = lowerings[:k] + lowerings[k + 1 :]
                return cls(lowering, solver, time.perf_counter() - began, alternatives, declared_values or {})
        raise unknown(lowerings[-1].requested, [lowering.form for lowering in lowerings])


def _judge(lowering: Lowering, proof: Proof, solver: str, monitor: Monitor) -> Verdict:
    """Return the verdict on an answer: by the lowering if `verdict` returns one, else by the certified gap.

    Raise `SolverError` for a certificate without numbers, or a "converged" answer far outside of its domains.
    """
    certificate, tol = proof.certificate, monitor.tol
    if proof.answer.status == "converged" and certificate.violation > max(_OUTSIDE, 10.0 * tol):
        raise SolverError(
            f"solver {solver!r}: expected an answer in its domains with the status 'converged', got "
            f"a relative violation of {certificate.violation:.2g}; take another solver, or project the "
            "blocks of a solver of your own onto their domains (ucm.testing.check_solver finds the error)"
        )
    if math.isnan(certificate.gap) or (certificate.kind != "none" and math.isnan(certificate.violation)):
        raise SolverError(
            f"solver {solver!r}: expected an answer with a finite objective, got {certificate}; "
            "the numbers overflow, or the set has no bound: scale the features, or bound the domains"
        )
    verdict = lowering.verdict(proof, solver, monitor)
    if verdict is None and is_proven(certificate, tol):
        verdict = Verdict("optimal", f"proven: the relative gap is {certificate.relative_gap:.2g}")
    if verdict is None:
        answer = proof.answer
        if answer.status == "converged" and monitor.timed_out:  # another solver or form would go on
            answer = _stopped_by(answer.interrupted(), monitor)
        gap, why = certificate.relative_gap, answer.message
        left = f"a relative gap of {gap:.2g}" if math.isfinite(gap) else "no lower bound"
        left += f" and a violation of {certificate.violation:.2g}, tolerance {tol:.2g}"
        message = (
            f"{solver} stopped: {why}; it ends with {left}"
            if why
            else f"{solver} stopped with {left}. Scale the features, lower the solver's own tolerance, or "
            "take another solver."
        )
        verdict = Verdict(answer.status, message, warns=True)
    return verdict._replace(message=verdict.message + monitor.fallback_note)


def _stopped_by(answer: Answer, monitor: Monitor) -> Answer:
    """Return the answer; if the monitor interrupted the solver, with the status and reason of the stop."""
    if answer.status != "interrupted":
        return answer
    if monitor.timed_out:
        limit = f"the time limit of {monitor.time_limit:g} s came first"
        return answer.ended("time_limit", limit)
    who = "Ctrl-C" if monitor.interrupted else "the callback"
    return answer.ended("interrupted", f"stopped by {who}")


def _starts_summary(ends: Sequence[float]) -> str:
    """Return a clause that compares the final objectives of several starts; "" for fewer than two."""
    if len(ends) < 2:
        return ""
    best = min(ends)
    same = sum(end <= best + _SAME * abs(best) for end in ends)
    return f"; the best of {len(ends)} starts, reached by {same} of them, the worst ended at {max(ends):.6g}"
