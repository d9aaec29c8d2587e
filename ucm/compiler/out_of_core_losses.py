"""Lowering of `loss + penalty` over out-of-core samples."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.lowering import Proof, Recovered, Regime, Verdict
from ucm.compiler.objective import critical
from ucm.compiler.out_of_core_lowering import OutOfCoreLowering, groups_in
from ucm.data.first_pass import RowData, rows_here
from ucm.data.weights import Factors
from ucm.errors import ParameterError
from ucm.evidence.objective import losses_proven
from ucm.evidence.reference import Verification, compared, majorant, solved
from ucm.forms.monitor import Monitor
from ucm.forms.out_of_core import RowLosses
from ucm.forms.solution import Solution
from ucm.forms.solver import Answer, Solver
from ucm.language.objective import LossSum, Objective, split_scalar
from ucm.language.penalties.penalty_sum import CombinedPenalty
from ucm.language.terms import ConvexLoss, Penalty

if TYPE_CHECKING:
    import cvxpy as cp


def takes(model: Objective) -> bool:
    """True if an out-of-core solver takes an objective.

    Convex losses with `lam * L2()`, and hinge or ramp losses with any penalty; if a loss is of a group, all
    losses are of one kind.
    """
    losses, subtracted_losses = model.loss.split()
    penalties, subtracted_penalties = model.penalty.split()
    groups, kinds, tails = groups_in(model), set(map(_base, losses)), set(map(_base, subtracted_losses))
    if subtracted_losses or subtracted_penalties or CombinedPenalty(penalties).square is None:
        straight = all(loss.slope() is not None for loss in (*kinds, *tails))
        if len(kinds) > 1 or len(tails) > 1 or not straight:
            return False
    return not groups or (
        len(kinds) == 1
        and (not subtracted_losses or loss_factors(subtracted_losses, groups) == loss_factors(losses, groups))
    )


def _base(loss: Any) -> Any:
    """Return a loss without its factor and without its restriction to a class or group."""
    base = split_scalar(loss)[1]
    return base if base.counted is None else replace(base, on=None)


def loss_factors(losses: tuple[ConvexLoss, ...], named: tuple[tuple[str, object], ...]) -> Factors:
    """Return the row factors by class and group of losses that are all of one kind."""
    sides: tuple[dict[object, float], dict[object, float]] = {}, {}
    for loss in losses:
        samples, c = loss.counted, split_scalar(loss)[0]
        kind, label = ("signed", None) if samples is None else samples.part
        for side, k in zip(sides, ("pos", "neg"), strict=True):
            if kind in ("signed", k):
                side[label] = side.get(label, 0.0) + c
    return Factors(*sides, named)


class OutOfCoreLossesLowering(OutOfCoreLowering[RowLosses]):
    """The lowering of `loss + penalty` over out-of-core samples."""

    bias_rules = ("auto",)

    def __init__(self, model: Objective, data: RowData, requested: str | Solver = "auto") -> None:
        self.model, self.requested, self.data, self.rows = model, requested, data, data
        for penalty in model.nodes_of_type(Penalty):
            penalty.check_features(data.n)
        self.written_model = model
        if groups_in(model):  # what the rows weigh says in which group they are
            first = model.loss.terms[0] if isinstance(model.loss, LossSum) else model.loss
            self.written_model = _base(first) + model.penalty
        self.form = RowLosses.of(self.written_model, data)

    @property
    def regime(self) -> Regime:
        if self.form.convex:
            return Regime(True, "the answer is the global optimum")
        return Regime(False, "DCA from its end over a sample of the rows, to a critical point")

    def describe_form(self) -> str:
        return f"{self.model}"

    def run(
        self, solver: Solver[RowLosses], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        if starts != 1 and not self.form.convex:
            raise ParameterError(
                f"solve: n_starts: expected 1 over rows that are read block by block, got {starts}; leave it "
                "out, or bring all samples into memory, X, y = ucm.open_rows(X, y).gather()"
            )
        return [self.answer(solver, monitor, start)]

    def proof(self, answer: Answer, tol: float) -> Proof:
        certificate = losses_proven(self.form, answer.rows)
        return Proof(answer, certificate, certificate.primal, *answer.plane)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        if self.form.convex:
            return None
        return critical(proof.certificate, monitor.tol, lambda: self.form.is_local(proof.answer.rows))

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        row_proof = proof.answer.rows
        if row_proof is None or row_proof.slopes is None:
            return Recovered(proof.w, proof.b, None, None, "variable")
        weights = partial(self.rows.source.spread, row_proof.rows.weights)
        return Recovered(proof.w, proof.b, None, None, "variable", make_weights=weights)

    # --- the reference -----------------------------------------------------------------------------
    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """Return the problem of some rows; the losses of all others are bounded by their slopes."""
        answer, X, y, a, gain = self.written(at)
        sums, a = answer.rows, np.sign(y) * a
        normal = sums.points[0] - sums.points[1] - np.asarray(X.T @ a).ravel()
        slope = float(sums.slopes[0] - sums.slopes[1] - a.sum())
        remaining = normal, slope, float(np.sum(sums.gains)) + sums.constant - gain
        data = rows_here(X, y, self.rows.weighing)
        return majorant(self.written_model, data, *answer.plane, scaled=scaled, remaining=remaining)

    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        problem = self.reference(solution, True)
        return compared(
            solution,
            solved(problem, options),
            tol,
            objective=solution.objective,
            unit=self.form.value_at_zero,
            least=min(loss.lowest() for loss, _ in self.form.losses),
        )
