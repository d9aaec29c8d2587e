"""Convex losses with the squared l2 norm over row sources."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ucm.compiler.lowering import Given, Lowering, Parts, Proof, Regime, Verdict
from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.data.source import spread
from ucm.data.survey import RowData, refuse_gathering, rows_here
from ucm.data.tags import Factors
from ucm.errors import ParameterError
from ucm.evidence.majorant import majorant
from ucm.evidence.row_losses import at_rest, losses_proven
from ucm.evidence.verify import Verification, compared, solved
from ucm.forms.answer import Answer
from ucm.forms.lazy import LazyVector
from ucm.forms.monitor import Monitor
from ucm.forms.objective import weighed
from ucm.forms.rows import RowLosses
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver
from ucm.language.node import Node
from ucm.language.objective import Objective
from ucm.language.penalties import L2
from ucm.language.penalties.gathered import Gathered
from ucm.language.statistics.samples import Samples
from ucm.language.term_algebra import peeled
from ucm.language.terms import ConvexLoss
from ucm.solvers.blocks.band import WRITTEN, SievedRows
from ucm.solvers.blocks.newton_rows import curve

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ToRowLosses", "groups_in", "loss_factors", "loss_terms"]


def loss_terms(model: Objective) -> tuple[tuple[ConvexLoss, ...], float] | None:
    """The losses and lam of `losses + lam * L2()`, all convex, and where one is of a group all of one kind;
    None for any other objective."""
    (losses, less), (penalties, taken) = model.loss.split(), model.penalty.split()
    lam = Gathered(penalties).square
    if less or taken or lam is None or (groups_in(model) and len(set(map(_base, losses))) > 1):
        return None
    return losses, lam


def groups_in(model: Node) -> tuple[tuple[str, Any], ...]:
    """Kind and label of every group that a model names."""
    parts = (x.part for x in model.walk() if isinstance(x, Samples) and x.label is not None)
    return tuple(dict.fromkeys(parts))


def _base(loss: ConvexLoss) -> ConvexLoss:
    """What a loss of some samples is a multiple of, over all."""
    base = peeled(loss)[1]
    return base if base.counted is None else replace(base, on=None)


def loss_factors(losses: tuple[ConvexLoss, ...], named: tuple[tuple[str, Any], ...]) -> Factors:
    """What a row counts in losses of groups that are all of one kind."""
    sides: tuple[dict[Any, float], dict[Any, float]] = {}, {}
    for loss in losses:
        own, c = loss.counted, peeled(loss)[0]
        kind, label = ("signed", None) if own is None else own.part
        for side, k in zip(sides, ("pos", "neg"), strict=True):
            if kind in ("signed", k):
                side[label] = side.get(label, 0.0) + c
    return Factors(*sides, named)


class _Ends(NamedTuple):
    """A sample of class +1 and one of class -1, with their weights; as `ucm.data.bound.Data`."""

    y: Vec
    factors: Vec
    weights: Vec | None
    groups: None = None


def _form(terms: tuple[tuple[ConvexLoss, ...], float], data: RowData) -> RowLosses:
    factors = np.array(data.weighing.classes)
    ends = _Ends(np.array([1.0, -1.0]), factors, None if data.weighing.plain else factors)
    found = []
    for loss, C in zip(*weighed(terms[0], ends), strict=True):  # type: ignore[arg-type]
        c, base = peeled(loss)
        plus, minus = c * (np.ones(2) if C is None else C)
        found.append((base, (float(plus), float(minus))))
    return RowLosses(data, tuple(found), terms[1])


class ToRowLosses(Lowering[RowLosses]):
    """Convex losses and `lam ||w||_2^2` over rows that are read block by block."""

    wrong = "a dual point above the primal one); the pass over the rows"

    def __init__(
        self,
        model: Objective,
        terms: tuple[tuple[ConvexLoss, ...], float],
        data: RowData,
        asked: str | Solver[Any] = "auto",
    ) -> None:
        self.model, self.asked, self.rules = model, asked, ("auto",)
        self.data: Any = data  # of rows elsewhere
        if groups_in(model):  # what the rows weigh says in which group they are
            base = _base(terms[0][0])
            self.written, terms = base + terms[1] * L2(), ((base,), terms[1])
        else:
            self.written = model
        self.form = _form(terms, data)

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
        self, solver: Solver[RowLosses], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        return [self.answer(solver, monitor, start)]

    def certify(self, answer: Answer, tol: float) -> Proof:
        w, b = answer.plane
        if answer.rows is None:  # stopped before a pass was over
            nothing = Certificate(np.inf, 0.0, np.inf, np.inf, np.nan, "none")
            return Proof(answer, nothing, np.nan, w, b)
        certificate = losses_proven(self.form, answer.rows)
        return Proof(answer, certificate, certificate.primal, w, b)

    def certify_given(self, given: Given) -> Certificate:
        refuse_gathering(self.data.source, "a certificate of an answer from elsewhere")

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        return None

    def slack(self, proof: Proof, tol: float) -> float:
        return max(tol, 1e-9)

    def recover(self, proof: Proof, bias_rule: str) -> Parts:
        found, data = proof.answer.rows, self.data
        weights: Any = None
        if found is not None and found.slopes is not None:
            weights = LazyVector(
                data.given, functools.partial(spread, data.source, found.rows.weights)
            )
        return Parts(proof.w, proof.b, None, weights, "variable")

    # --- the twin ----------------------------------------------------------------------------------
    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        if at is None:
            raise ParameterError(
                "reference: over rows it is the program of some of them, and of what the slopes of the "
                "others bound, which a solution knows; give one, reference(solution)"
            )
        data, others = self._written(at)
        return majorant(self.written, data, None, 0.0, scaled=scaled, others=others)

    def dual_reference(self) -> cp.Problem | None:
        return None

    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        problem = self.reference(solution, True)
        least = min(loss.lowest() for loss, _ in self.form.losses)
        unit = at_rest(self.form)
        return compared(
            solution,
            solved(problem, options),
            tol,
            objective=solution.objective,
            unit=unit,
            least=least,
        )

    def _written(self, solution: Solution) -> tuple[Data, tuple[Vec, float, float]]:
        """Samples that are written out, of a band all, and the bound of the others by their slopes."""
        found = None if solution.answer is None else solution.answer.rows
        if found is None or found.slopes is None or solution.w is None:
            raise ParameterError("verify: expected a solution with slopes, got none; solve first")
        if isinstance(found.rows, SievedRows):
            X, y = found.rows.band.table()
            a = np.concatenate(found.rows.band.p)
            gain = float(a.sum())
        else:
            X, y = self.data.sample
            step = -(-y.size // WRITTEN)
            X, y = X[::step], y[::step]
            _, own = curve(X, y, None, found.w, found.b, self.form.losses)
            a, gain = found.rows.of(X, y), float(own.gains.sum())
        sign = np.sign(y)
        normal = found.points[0] - found.points[1] - np.asarray(X.T @ (sign * a)).ravel()
        slope = float(found.slopes[0] - found.slopes[1] - sign @ a)
        rest = normal, slope, float(np.sum(found.gains)) - gain
        return rows_here(X, y, self.data.weighing), rest
