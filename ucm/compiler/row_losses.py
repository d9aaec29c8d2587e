"""Hinge losses with the squared l2 norm over row sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.lowering import Given, Lowering, Parts, Proof, Regime, Verdict
from ucm.data.survey import RowData, refuse_gathering
from ucm.evidence.row_hinge import hinge_proven
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer
from ucm.forms.lazy import LazyVector
from ucm.forms.monitor import Monitor
from ucm.forms.rows import RowHinge
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver
from ucm.language.losses import Hinge
from ucm.language.objective import Objective
from ucm.language.penalties.gathered import Gathered
from ucm.language.term_algebra import ScaledLoss

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ToRowLosses", "hinge_terms"]


def hinge_terms(model: Objective) -> tuple[float, float, float] | None:
    """(p, C, lam) of `C * Hinge(p) + lam * L2()`; None for any other objective."""
    (losses, less), (penalties, taken) = model.loss.split(), model.penalty.split()
    lam = Gathered(penalties).square
    if len(losses) != 1 or less or taken or lam is None:
        return None
    C, loss = 1.0, losses[0]
    while isinstance(loss, ScaledLoss):
        C, loss = C * loss.c(), loss.term
    return (loss.p, C, lam) if isinstance(loss, Hinge) and loss.on is None else None


class ToRowLosses(Lowering[RowHinge]):
    """`C sum max(0, 1 - margin)^p + lam ||w||_2^2` over rows that are read block by block."""

    wrong = "a dual point above the primal one); the pass over the rows"

    def __init__(
        self,
        model: Objective,
        terms: tuple[float, float, float],
        data: RowData,
        asked: str | Solver[Any] = "auto",
    ) -> None:
        self.model, self.asked, self.rules = model, asked, ("auto",)
        self.data: Any = data  # of rows elsewhere
        p, C, lam = terms
        plus, minus = data.weighing.classes
        self.form = RowHinge(data, p, (C * plus, C * minus), lam)

    @property
    def regime(self) -> Regime:
        return Regime(True, "the answer is the global optimum")

    def lines(self) -> list[str]:
        data = self.data
        return [
            f"data      {data.m} samples, {data.n} features, {data.stored} entries; {data.source!r}",
            f"form      {self.model}",
            f"a pass    every block of rows once, {2 * data.stored:,} multiplications",
        ]

    def tail(self, solver: str, verbose: bool) -> list[str]:
        return []

    def elsewhere(self, proof: Proof | None, monitor: Monitor) -> Lowering[Any] | None:
        return None

    def begin(self, warm: Solution) -> Answer | None:
        return None  # a sample tells more than the solution for other weights

    def run(
        self, solver: Solver[RowHinge], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        return [self.answer(solver, monitor, start)]

    def certify(self, answer: Answer, tol: float) -> Proof:
        w, b = answer.plane
        if answer.rows is None:  # stopped before a pass was over
            nothing = Certificate(np.inf, 0.0, np.inf, np.inf, np.nan, "none")
            return Proof(answer, nothing, np.nan, w, b)
        certificate = hinge_proven(self.form, answer.rows)
        return Proof(answer, certificate, certificate.primal, w, b)

    def certify_given(self, given: Given) -> Certificate:
        refuse_gathering(self.data.source, "a certificate of an answer from elsewhere")

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        return None

    def slack(self, proof: Proof, tol: float) -> float:
        return max(tol, 1e-9)

    def recover(self, proof: Proof, bias_rule: str) -> Parts:
        found = proof.answer.rows
        weights: Any = None
        if found is not None and found.slopes is not None:
            weights = LazyVector(self.data.m, found.rows.weights)
        return Parts(proof.w, proof.b, None, weights, "variable")

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        refuse_gathering(self.data.source, "the CVXPY twin of a loss")

    def dual_reference(self) -> cp.Problem | None:
        return None

    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        refuse_gathering(self.data.source, "the CVXPY twin of a loss")
