"""The report of an audit: a verdict, and a row for each two-class problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ucm.forms.display import Report, aligned, sheet
from ucm.forms.display import table as html_table
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin

_HEAD = (
    "problem", "objective", "optimum", "gap", "loose side", "nonzero (at optimum)", "accuracy (at optimum)",
)  # fmt: skip


@dataclass(frozen=True)
class AuditedProblem:
    """The answer of an estimator to one two-class problem, beside the proven optimum.

    Attributes
    ----------
    problem : the classes, as "2 against the rest"; "" for the only one
    model : the declaration
    objective : the value of the declared problem at the answer; inf if the answer is infeasible
    bound : the lower bound that the multipliers of the answer prove, -inf if they break their constraints;
        None for an answer without multipliers
    lower, upper : the proven interval of the optimum
    tol : the relative gap up to which a side is not loose
    nonzeros, optimal_nonzeros : how many weights are not 0 at the answer and at the optimum
    size : the number of weights, of features, or with a nonlinear kernel of samples
    accuracy, optimal_accuracy : of the samples of the problem, at the answer and at the optimum
    message : of the solve, if it did not end with a proof
    """

    problem: str
    model: Objective | UncertaintySet | RobustMargin
    objective: float
    bound: float | None
    lower: float
    upper: float
    tol: float
    nonzeros: int
    optimal_nonzeros: int
    size: int
    accuracy: float
    optimal_accuracy: float
    message: str = ""

    def _relative(self, difference: float) -> float:
        return difference / max(abs(self.upper), 1e-300)

    @property
    def gap(self) -> float:
        """The relative gap of the answer, `(objective - lower) / |optimum|`: at most so far from optimal."""
        return self._relative(max(self.objective - self.lower, 0.0))

    @property
    def excess(self) -> float:
        """How far the objective is above the upper end of the interval, relative: at least so far."""
        return self._relative(max(self.objective - self.upper, 0.0))

    @property
    def dual_gap(self) -> float | None:
        """The relative gap that the multipliers leave below the optimum; None without multipliers."""
        return None if self.bound is None else self._relative(max(self.upper - self.bound, 0.0))

    @property
    def loose(self) -> str:
        """The side that is not optimal to `tol`: "primal", "dual", "both", "none", or "unknown"."""
        if not math.isfinite(self.lower) or self.gap > self.tol >= self.excess:
            return "unknown"
        primal, dual = self.gap > self.tol, self.dual_gap is not None and self.dual_gap > self.tol
        return {(1, 1): "both", (1, 0): "primal", (0, 1): "dual"}.get((primal, dual), "none")

    @property
    def verdict(self) -> str:
        """A sentence on this problem."""
        place = f"the optimum lies in {self.interval}"
        if self.loose == "unknown":
            return f"undecided to {self.tol:g}: {place}{self.message and f'; {self.message}'}"
        if self.loose == "none":
            return f"optimal to {self.tol:g}: the relative gap is {self.gap:.1g}"
        times = self.excess >= 1.0 and self.upper > 0.0
        above = f"{1.0 + self.excess:.3g} times" if times else f"{_percent(self.excess)} above"
        above = f"the objective {self.objective:.9g} is {above} the optimum"
        if self.objective == math.inf:
            above = "w and b are infeasible"
        below = f"the multipliers give a lower bound {_percent(self.dual_gap or 0.0)} below the optimum"
        if self.bound == -math.inf:
            below = "the multipliers break their constraints and prove nothing"
        words = {
            "both": f"{above}, and {below}",
            "primal": above,
            "dual": f"w and b are optimal, but {below}",
        }
        return f"not optimal to {self.tol:g}: {words[self.loose]}; {place}"

    @property
    def interval(self) -> str:
        """The proven interval of the optimum as text."""
        return f"[{self.lower:#.9g}, {self.upper:#.9g}]"

    def _cells(self) -> tuple[str, ...]:
        zeros = f"{self.nonzeros} ({self.optimal_nonzeros}) of {self.size}"
        rates = f"{self.accuracy:.4g} ({self.optimal_accuracy:.4g})"
        return (
            self.problem, f"{self.objective:#.9g}", self.interval, f"{self.gap:.2g}", self.loose,
            zeros, rates,
        )  # fmt: skip


def _percent(x: float) -> str:
    return f"{100.0 * x:.3g}%"


@dataclass(frozen=True, repr=False)
class Audit(Report[AuditedProblem]):
    """The result of `ucm.audit`: a sequence of `AuditedProblem`, printed with a verdict.

    Attributes
    ----------
    estimator : the estimator as text
    problems : one for two classes, else one for each class or pair
    note : a clause on the fit, which a verdict that is not optimal ends with
    """

    estimator: str
    problems: tuple[AuditedProblem, ...]
    note: str = ""
    _listed = "problems"

    @property
    def optimal(self) -> bool:
        """True if all sides of all answers are proven to be optimal."""
        return all(one.loose == "none" for one in self)

    @property
    def verdict(self) -> str:
        """One sentence: the verdict of the problem, of several that of the worst."""
        worst = max(self, key=lambda one: (one.loose != "none", one.loose != "unknown", _loss(one)))
        failed = sum(one.loose != "none" for one in self)
        count = f"{failed or len(self)} of {len(self)} problems"
        where = f" ({count}, worst {worst.problem})" if len(self) > 1 else ""
        start, _, rest = worst.verdict.partition(":")
        more = f"; {self.note}" if self.note and failed else ""
        return f"{start}{where}:{rest}{more}."

    def rows(self) -> list[dict[str, Any]]:
        names = (
            "problem", "objective", "lower", "upper", "gap", "excess", "bound", "dual_gap", "loose",
            "nonzeros", "optimal_nonzeros", "size", "accuracy", "optimal_accuracy", "verdict",
        )  # fmt: skip
        return [{**{name: getattr(one, name) for name in names}, "model": repr(one.model)} for one in self]

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain data: the estimator, the verdict, and the rows."""
        facts = {"estimator": self.estimator, "verdict": self.verdict, "optimal": self.optimal}
        return {**facts, "problems": self.rows()}

    def __repr__(self) -> str:
        return f"Audit({self.estimator}: {self.verdict.partition(':')[0]})"

    def _facts(self) -> dict[str, object]:
        model = self.problems[0].model
        return {"estimator": self.estimator, "declaration": repr(model), "problem": str(model)}

    def _table(self) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
        skip = int(len(self) == 1)
        return [one._cells()[skip:] for one in self], _HEAD[skip:]

    def __str__(self) -> str:
        rows, head = self._table()
        lines = [f"{name:<13}{text}" for name, text in self._facts().items()]
        return "\n".join([*lines, *aligned([head, *rows]), self.verdict])

    def _repr_html_(self) -> str:
        rows, head = self._table()
        marks = ["" if one.loose == "none" else "bold" for one in self]
        return sheet("Audit", self._facts(), html_table(rows, head, marks), self.verdict)


def _loss(one: AuditedProblem) -> float:
    return max(one.excess, one.dual_gap or 0.0)
