"""A compiled model: the declaration, bound to data, lowered and routed."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.recover import bias, sample_weights
from ucm.compiler.routes import choose
from ucm.contracts import Solver, UncertaintySet, Vec
from ucm.data import Data, bind
from ucm.errors import ConvergenceWarning, EmptySetError, ParameterError, SolverError
from ucm.evidence.admissible import advice
from ucm.evidence.certificate import certify
from ucm.evidence.reference import twin
from ucm.evidence.verify import Verification, verify
from ucm.forms import MinNorm, Raw
from ucm.language.objective import RobustMargin, as_model
from ucm.solution import Certificate, Solution, Stats
from ucm.solvers.driver import Monitor

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Plan", "compile", "solve"]


def compile(
    model: UncertaintySet | RobustMargin,
    X: Any,
    y: Any,
    *,
    kernel: str | None = None,
    solver: str | Solver = "auto",
    class_weight: tuple[float, float] = (1.0, 1.0),
    **kernel_params: Any,
) -> Plan:
    """Bind a declaration to data and choose its solver.

    Parameters
    ----------
    model : uncertainty set or RobustMargin
    X : (m, n) array, data frame or sparse matrix
    y : (m,) labels -1 and +1
    kernel : None or "linear"
    solver : "auto", a name, or an instance such as `ucm.solvers.APG(stop="paper")`
    class_weight : factors of the caps of the samples of class +1 and of class -1

    Raises
    ------
    DataError
        X or y cannot be used: NaN, one class, lengths that differ, ...
    CompositionError
        The declaration does not fit the data (dimensions).
    EmptySetError
        The set has no point for these parameters; the message names the admissible range.
    ParameterError
        An unknown option.
    SolverError
        The named solver does not take this model.

    Examples
    --------
    >>> import ucm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> plan = ucm.compile(ucm.models.nu_svm(0.3), X[50:], 2 * (y[50:] == 2) - 1)
    >>> plan.solve().status
    'optimal'
    """
    began = time.perf_counter()
    robust = as_model(model, "compile")
    if kernel not in (None, "linear"):
        raise ParameterError(
            f'kernel: expected None or "linear", got {kernel!r}; map the features first, '
            "for example with sklearn.kernel_approximation.Nystroem"
        )
    if kernel_params:
        raise ParameterError(
            f"compile: unknown option {', '.join(sorted(kernel_params))}; "
            "the options are kernel, solver and class_weight, and only a kernel takes others"
        )
    data = bind(X, y, class_weight)
    robust.set.dimension(data.n)
    why = robust.set.emptiness(data)
    if why is not None:
        raise EmptySetError(why)
    image = robust.set.lower(data)
    form = MinNorm.of(image, robust.dual, data.stored)
    chosen, table = choose(form, solver)
    return Plan(robust, data, form, chosen, table, time.perf_counter() - began)


def solve(
    model: UncertaintySet | RobustMargin,
    X: Any,
    y: Any,
    *,
    kernel: str | None = None,
    solver: str | Solver = "auto",
    **options: Any,
) -> Solution:
    """Compile and solve in one call; `options` are those of `Plan.solve`.

    Examples
    --------
    >>> import ucm
    >>> sol = ucm.solve(ucm.models.mm_fda(0.1), [[0.0], [1.0], [3.0], [4.0]], [-1, -1, 1, 1])
    >>> round(sol.objective, 4)
    -2.9293
    """
    return compile(model, X, y, kernel=kernel, solver=solver).solve(**options)


class Plan:
    """A compiled model. Made by `ucm.compile`.

    Attributes
    ----------
    model : the declaration
    data : the bound samples
    form : the standard form
    solver : the solver chosen
    """

    def __init__(
        self,
        model: RobustMargin,
        data: Data,
        form: MinNorm,
        solver: Solver,
        table: list[tuple[str, str]],
        setup_time: float,
    ) -> None:
        self.model, self.data, self.form, self.solver = model, data, form, solver
        self.setup_time = setup_time
        self._table = table
        self._last: Solution | None = None

    def explain(self) -> str:
        """The form, the route chosen, the routes refused and why, the cost of a pass."""
        form = self.form
        sizes = ", ".join(f"{b.map.shape[1]} in {b.domain!r}" for b in form.blocks)
        regime = "convex while 0 is not in U; when 0 is in U the status is zero_in_set"
        passes = self.solver.predicted_passes(form)
        lines = [
            str(self.model),
            f"data      {self.data.m} samples, {self.data.n} features, {self.data.stored} entries",
            f"form      min ||c + sum A_k q_k||_{form.norm:g} in dimension {form.n}; "
            f"blocks: {sizes or 'none'}",
        ]
        if form.couplings:
            lines.append(
                f"coupled   {len(form.couplings)} intersection(s), {form.coupled} equations"
            )
        lines += [
            f"regime    {regime}",
            f"route     {self.solver.name}"
            + ("" if np.isnan(passes) else f", about {passes:g} passes to a gap of 1e-6"),
            f"a pass    {2 * self.data.stored:,} multiplications; one product of this form costs "
            f"{form.pass_cost():.3g} passes",
        ]
        width = max(len(name) for name, _ in self._table)
        lines += [f"  {name:<{width}}  {verdict}" for name, verdict in self._table]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Plan({self.model!r}, m={self.data.m}, n={self.data.n}, solver={self.solver.name!r})"
        )

    def solve(
        self,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        warm_start: Solution | None = None,
        starts: int = 1,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
        bias_rule: str = "auto",
    ) -> Solution:
        """Solve, certify, recover.

        Parameters
        ----------
        tol : relative duality gap to prove
        max_iter : limit of iterations; None for the solver's own
        warm_start : a solution of a plan of the same shape, to start from
        starts : for non-convex models; a convex one needs a single start
        callback : called with every reported record; returning True stops
        verbose : print a table of the iterations
        bias_rule : "auto", "kkt", "midpoint", "error" or "zero"

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached; the message carries the gap.
        """
        if not 0.0 < tol < 1.0:
            raise ParameterError(f"solve: tol lies in (0, 1), got {tol!r}")
        for name, limit in (("max_iter", max_iter), ("starts", starts)):
            if limit is not None and (not isinstance(limit, int | np.integer) or limit < 1):
                raise ParameterError(f"solve: {name} is a positive whole number, got {limit!r}")
        monitor = Monitor(tol, max_iter, callback, verbose)
        raw = self._run(monitor, warm_start)
        solution = self._finish(raw, monitor, bias_rule)
        self._last = solution
        return solution

    def _run(self, monitor: Monitor, warm_start: Solution | None) -> Raw:
        start = None if warm_start is None or warm_start.raw is None else warm_start.raw.q
        if start is not None and [v.size for v in start] != [
            b.map.shape[1] for b in self.form.blocks
        ]:
            raise ParameterError(
                "solve: warm_start is the solution of a model of another shape; "
                "give one of the same set over the same samples"
            )
        if not self.form.blocks:  # a single point
            return Raw([])
        if not self.form.couplings and start is not None:
            start = [
                b.domain.project(v, classes=b.classes)  # type: ignore[attr-defined]
                for b, v in zip(self.form.blocks, start, strict=True)
            ]
        return self.solver.solve(self.form, monitor, start)

    def _finish(self, raw: Raw, monitor: Monitor, bias_rule: str) -> Solution:
        stats = Stats(
            self.solver.name,
            self.setup_time,
            monitor.seconds,
            monitor.iterations,
            monitor.passes,
            monitor.kernel_operations,
        )
        make = functools.partial(Solution, stats=stats, history=monitor.history, raw=raw)
        zero = np.zeros(self.form.n)
        if raw.status == "infeasible":
            nothing = Certificate(-np.inf, -np.inf, np.nan, np.nan, np.nan, "none")
            message = f"U is empty: {raw.message}. {advice(self.model, self.data)}".strip()
            return make(zero, None, zero, None, -np.inf, nothing, "infeasible", message)
        splits = raw.multiplier_map(self.form)
        certificate, w, x = certify(self.model, self.data, raw.q, raw.w, splits)
        norm = -certificate.dual
        size = self._size(raw.q)
        weights = sample_weights(self.form, raw.q, self.data.m)
        if norm <= max(monitor.tol, 1e-9) * size and certificate.violation <= max(
            monitor.tol, 1e-6
        ):
            certificate = Certificate(0.0, -norm, norm, 0.0, certificate.violation, "global")
            message = (
                "0 lies in U, so no direction has a positive worst-case margin and w = 0. "
                + advice(self.model, self.data)
            )
            return make(zero, None, x, weights, 0.0, certificate, "zero_in_set", message, size=size)
        b, rule = bias(bias_rule, self.model.set, self.form, self.data, raw.q, w)
        status, message = self._judge(raw, certificate, monitor.tol)
        return make(
            w, b, x, weights, -norm, certificate, status, message, bias_rule=rule, size=size
        )

    def _size(self, q: list[Vec]) -> float:
        """`||c|| + sum ||A_k q_k||`."""
        norm = self.data.space.norm
        parts = [norm(b.map.matvec(v)) for b, v in zip(self.form.blocks, q, strict=True)]
        return norm(self.form.center) + sum(parts)

    def _judge(self, raw: Raw, certificate: Certificate, tol: float) -> tuple[str, str]:
        inside = certificate.violation <= tol
        if inside and abs(certificate.relative_gap) <= tol:
            return "optimal", f"proven: {certificate}"
        if inside and certificate.relative_gap < -tol:
            raise SolverError(
                f"{self.solver.name}: the certificate contradicts the answer (relative gap "
                f"{certificate.relative_gap:.2g}, a point of U nearer than its support allows); "
                "the lowering of this set is wrong: please report it"
            )
        status = raw.status
        message = (
            f"{self.solver.name} stopped with a relative gap of {certificate.relative_gap:.2g} and "
            f"a violation of {certificate.violation:.2g}, tolerance {tol:.2g}. "
            + (raw.message or "Lower the solver's own tolerance, or take another solver.")
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
        return status, message

    def reference(self) -> cp.Problem:
        """The CVXPY twin: vectorised, one `cvxpy.Parameter` per hyperparameter. Its value is that of
        the declared problem."""
        return twin(self.model, self.data).problem

    def verify(self, **options: Any) -> Verification:
        """Compare the last solution (a new one when there is none) with the CVXPY twin.

        `options` go to `cvxpy.Problem.solve`; `solver` is Clarabel by default.
        """
        solution = self._last or self.solve()
        return verify(self.model, self.data, solution, **options)
