"""Common base of the lowerings over samples read block by block."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import numpy as np

from ucm.compiler.lowering import ExternalAnswer, Lowering, Proof
from ucm.data.first_pass import RowData, refuse_gathering
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import ParameterError
from ucm.forms.out_of_core import OutOfCoreForm
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer
from ucm.language.node import Node
from ucm.language.statistics.samples import Samples

_WRITTEN = 1000  # rows in a reference problem without an active set

Form = TypeVar("Form", bound=OutOfCoreForm)


class OutOfCoreLowering(Lowering[Form]):
    """Base class of the lowerings over samples read block by block.

    Attributes
    ----------
    rows : the statistics of the samples
    """

    rows: RowData

    @abstractmethod
    def describe_form(self) -> str:
        """Return the description of the form, for a line of `explain()`."""

    def describe(self) -> dict[str, str]:
        rows = self.rows
        return {
            "data": f"{self.describe_data()}; {rows.source!r}",
            "form": self.describe_form(),
            "cost": f"1 pass reads every block of rows once, {2 * rows.stored:,} operations",
        }

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        refuse_gathering(self.rows.source, "a certificate of an answer from elsewhere")

    def certify(self, answer: Answer, tol: float) -> Proof:
        if answer.rows is None:  # stopped before a pass was over
            nothing = Certificate(np.inf, -np.inf, np.inf, np.inf, np.nan, "none")
            return Proof(answer, nothing, np.nan, answer.w, answer.b)
        return self.proof(answer, tol)

    @abstractmethod
    def proof(self, answer: Answer, tol: float) -> Proof:
        """Return the proof of an answer by the sums of its last pass."""

    def written(self, at: Solution | None) -> tuple[Answer, Matrix, Vec, Vec, float]:
        """Return the answer of a solution, and X, y, weights and gain of the rows in its reference problem.

        The rows are the active set, or some rows of the sample; y holds labels times sample weights. All
        other rows keep their weights.

        Raises
        ------
        ParameterError
            There is no solution with the sums of a pass.
        """
        answer = None if at is None else at.answer
        if answer is None or answer.rows is None or answer.rows.points is None:
            raise ParameterError(
                "reference: over rows that are read block by block the program holds some rows, and the "
                "others keep their weights in a solution; give one, reference(solution)"
            )
        X, y = self.rows.sample
        step = -(-y.size // _WRITTEN)
        return answer, *answer.rows.rows.written((X[::step], y[::step]))


def groups_in(model: Node) -> tuple[tuple[str, object], ...]:
    """Return the distinct (kind, label) pairs of the groups that a model names."""
    parts = (x.part for x in model.nodes_of_type(Samples) if x.label is not None)
    return tuple(dict.fromkeys(parts))
