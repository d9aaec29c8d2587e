"""`C * Hinge(p) + lam * L2()`: the pSVM of Sun (2024), linear or behind a kernel."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm import numerics
from ucm.compiler.plan import Plan
from ucm.data.bound import Data
from ucm.data.gram import Expansion, Gram
from ucm.data.kernels import Kernel
from ucm.data.linear import Vec
from ucm.errors import ConvergenceWarning, ParameterError, SolverError
from ucm.evidence.hinge import HingeTwin, certify_hinge, compare_hinge
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.pair import HingeDual
from ucm.forms.solution import Solution, Stats
from ucm.forms.solver import Solver
from ucm.language.loss_algebra import ScaledLoss
from ucm.language.losses import Hinge
from ucm.language.objective import Objective
from ucm.language.penalties import L2
from ucm.language.penalty_algebra import ScaledPenalty
from ucm.solvers import PSMO, HingeNewton

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["HingePlan", "HingeTerms", "hinge_terms"]

_FEW_FEATURES = 128  # up to here a linear system costs less than pair updates


@dataclass(frozen=True)
class HingeTerms:
    """`C * Hinge(p) + lam * L2()` as numbers."""

    p: float
    C: float
    lam: float


def hinge_terms(model: Any, solver: str | Solver = "auto") -> HingeTerms | None:
    """The numbers of a pSVM; None for any other model, and for a solver of all objectives."""
    ours = solver == "auto" or isinstance(solver, HingeNewton | PSMO)
    if not isinstance(model, Objective) or not (ours or solver in (HingeNewton.name, PSMO.name)):
        return None
    C, loss = 1.0, model.loss
    while isinstance(loss, ScaledLoss):
        C *= loss.c()
        loss = loss.term
    lam, penalty = 1.0, model.penalty
    while isinstance(penalty, ScaledPenalty):
        lam *= penalty.c()
        penalty = penalty.term
    if not isinstance(loss, Hinge) or not isinstance(penalty, L2):
        return None
    return HingeTerms(loss.p, C, lam)


class HingePlan(Plan):
    """A compiled pSVM.

    Attributes
    ----------
    form : the dual, in units of lam = 1/2
    gram : the Gram matrix, or None without a kernel
    linear : whether w has coordinates: without a kernel, and with the linear one
    """

    model: Objective

    def __init__(
        self,
        model: Objective,
        terms: HingeTerms,
        data: Data,
        gram: Gram | None,
        solver: str | Solver,
    ) -> None:
        began = time.perf_counter()
        self.model, self.terms, self.data, self.gram = model, terms, data, gram
        weights = np.where(data.y > 0, *data.class_weight)
        self.linear = gram is None or gram.kernel.name == "linear"  # then the features are there
        self.form = HingeDual(
            data.y,
            np.ascontiguousarray(weights * (terms.C / (2.0 * terms.lam))),
            terms.p,
            Gram(Kernel("linear"), data.X) if gram is None else gram,
            data.X if self.linear else None,
        )
        self.solver, self._table = _choose(self.form, solver)
        self.setup_time = time.perf_counter() - began

    def explain(self) -> str:
        """The form, the route chosen, the routes refused and why."""
        m = self.data.m
        space = (
            f"{self.data.n} features"
            if self.gram is None
            else f"{self.gram.kernel}, "
            + ("whole" if self.gram.fits else f"{self.gram.store.shape[0]} rows kept at a time")
        )
        lines = [
            str(self.model),
            f"data      {m} samples, {space}",
            f"form      the dual (17) of Sun (2024), p = {self.terms.p:g}: {m} multipliers, y'a = 0"
            + (", a <= C" if self.terms.p == 1.0 else ""),
            "regime    convex for every C > 0",
            f"route     {self.solver.name}",
        ]
        width = max(len(name) for name, _ in self._table)
        return "\n".join(
            [*lines, *(f"  {name:<{width}}  {verdict}" for name, verdict in self._table)]
        )

    def __repr__(self) -> str:
        return (
            f"Plan({self.model!r}, m={self.data.m}, n={self.data.n}, solver={self.solver.name!r})"
        )

    def _solve(
        self, monitor: Monitor, warm_start: Solution | None, starts: int, bias_rule: str
    ) -> Solution:
        if bias_rule not in ("auto", "kkt"):
            raise ParameterError(
                f"solve: bias_rule={bias_rule!r}: b is a variable of this objective; "
                'use "auto" or "kkt", which give its optimal value'
            )
        start = None
        if warm_start is not None and warm_start.answer is not None:
            start = warm_start.answer
            if start.slopes is not None and start.slopes.size != self.data.m:
                raise ParameterError(
                    "solve: warm_start is the solution of a model of another shape; "
                    "give one over the same samples"
                )
        return self._finish(self.solver.solve(self.form, monitor, start), monitor)

    def _finish(self, answer: Answer, monitor: Monitor) -> Solution:
        form = self.form
        a = np.zeros(form.m) if answer.slopes is None else answer.slopes
        c = a * self.data.y
        w = np.asarray(self.data.X.T @ c).ravel() if self.linear else None
        f = self.form.gram.times(c) if w is None else np.asarray(self.data.X @ w).ravel()
        b, certificate = min(
            (
                (b, certify_hinge(self.model, self.data, 2.0 * self.terms.lam * a, f, b))
                for b in (*([] if answer.b is None else [answer.b]), *hinge_biases(form, a, f))
            ),
            key=lambda pair: pair[1].primal,
        )
        status, message = self._judge(answer, a, certificate, monitor.tol)
        scale = 2.0 * self.terms.lam  # of the objective as declared, over that of the form
        history = [
            {**record, "objective": scale * record["objective"]} for record in monitor.history
        ]
        stats = Stats(
            self.solver.name, self.setup_time, monitor.seconds, monitor.iterations, monitor.passes,
            form.gram.computed,
        )  # fmt: skip
        return Solution(
            w, b, None, 2.0 * self.terms.lam * a, certificate.primal, certificate, status, message,
            stats, history, bias_rule="kkt", answer=answer, coefficients=c,
            expansion=None if self.linear else Expansion.of(form.gram.kernel, form.gram.X, c),
        )  # fmt: skip

    def _judge(self, answer: Answer, a: Vec, certificate: Any, tol: float) -> tuple[str, str]:
        if answer.status != "indefinite":
            if certificate.violation <= tol and abs(certificate.relative_gap) <= tol:
                if self.gram is not None and not self.gram.kernel.definite:
                    why = indefinite(self.gram, a > 0.0)
                    if why is not None:
                        answer.status, answer.message = "indefinite", why
                if answer.status != "indefinite":
                    return "optimal", f"proven: {certificate}"
            elif certificate.relative_gap < -tol and certificate.violation <= tol:
                if self.gram is None or self.gram.kernel.definite:
                    raise SolverError(
                        f"{self.solver.name}: the certificate contradicts the answer (relative gap "
                        f"{certificate.relative_gap:.2g}); please report it"
                    )
                answer.status = "indefinite"
                answer.message = "the kernel is indefinite: the dual exceeds the primal objective"
        message = (
            f"{self.solver.name} stopped with a relative gap of {certificate.relative_gap:.2g}. "
            + (answer.message or "Lower the solver's own tolerance, or take another solver.")
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
        return answer.status, message

    def reference(self) -> cp.Problem:
        return self._twin().primal

    def dual_reference(self) -> cp.Problem:
        """The dual, problem (17) of Sun (2024), in CVXPY; its value is that of the objective."""
        return self._twin().dual

    def _twin(self) -> HingeTwin:
        features = self.data.X if self.gram is None else self.gram.spectral()
        return HingeTwin(self.model, self.data, features, self.terms.p)

    def _verify(self, solution: Solution, **options: Any) -> Verification:
        return compare_hinge(self._twin(), solution, **options)


def _choose(form: HingeDual, solver: str | Solver) -> tuple[Solver, list[tuple[str, str]]]:
    """Newton where the features are few, pair updates else; or the one asked for."""
    rows: tuple[tuple[Solver, str], ...] = (
        (HingeNewton(), "few features: some ten products with the samples"),
        (PSMO(), "pair updates; linear kernels on a working set of support vectors"),
    )
    if form.X is not None and form.X.shape[1] > _FEW_FEATURES:
        rows = rows[::-1]
    if solver == "auto":
        table, chosen = [], None
        for candidate, purpose in rows:
            why = candidate.refuse(form)
            if why is None and chosen is None:
                chosen = candidate
                table.append((candidate.name, f"chosen: {purpose}"))
            else:
                verdict = f"possible: {purpose}" if why is None else f"refused: {why}"
                table.append((candidate.name, verdict))
        return chosen or PSMO(), table
    known = {candidate.name: candidate for candidate, _ in rows}
    if not isinstance(solver, Solver):
        if not isinstance(solver, str) or solver not in known:
            raise ParameterError(
                f'solver: expected "auto", a solver instance or one of {", ".join(known)} for '
                f"C * Hinge(p) + lam * L2(); got {solver!r}"
            )
        solver = known[solver]
    why = solver.refuse(form)
    if why is not None:
        raise SolverError(
            f'solver {solver.name!r} does not take this model: {why}; use solver="auto"'
        )
    return solver, [(solver.name, "chosen, by name")]


def hinge_biases(form: HingeDual, a: Vec, f: Vec) -> list[float]:
    """Candidates for b from the multipliers; all the same number at the optimum.

    With `xi_k = (a_k / (C p))^(1/(p-1))` every a_k > 0 (p = 1: below C) gives
    `b = y_k (1 - xi_k) - f_k`, which is exact for every p, where equation (21) of Sun (2024) is so
    for p = 2 only. Their mean, and the middle of the interval that all multipliers allow.
    """
    if form.p == 1.0:  # interior methods end near the bounds, not at them
        near = 1e-7 * form.C
        a = np.where(a <= near, 0.0, np.where(a >= form.C - near, form.C, a))
    F = form.y * (1.0 - numerics.slacks(a, form.C, form.p)) - f
    top, bottom = numerics.hinge_levels(form.y, form.C, a, form.p, F)
    free = a > 1e-12 * max(float(a.max(initial=0.0)), 1e-300)
    if form.p == 1.0:
        free &= a < form.C
    found = [0.5 * (top + bottom)] if np.isfinite(top + bottom) else []
    if free.any():
        found.append(float(np.mean(F[free])))
    return found or [0.0]


def indefinite(gram: Gram, support: np.ndarray, limit: int = 2000) -> str | None:
    """Why the kernel is not positive semidefinite over the support vectors; None when it is, or
    when there are too many to tell."""
    rows = np.flatnonzero(support)
    if rows.size == 0 or rows.size > limit:
        return None
    K = gram.between(rows, rows)
    allowed = 1e-8 * float(np.abs(K).max()) * rows.size
    try:
        np.linalg.cholesky(K + allowed * np.eye(rows.size))
        return None  # a tenth of the time of the eigenvalues
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    return (
        f"the kernel is indefinite: its matrix over the {rows.size} support vectors has the eigenvalue "
        f"{least:.3g}, so the answer is a stationary point; use a positive semidefinite kernel such "
        "as rbf"
    )
