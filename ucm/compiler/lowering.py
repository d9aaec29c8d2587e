"""The contract of a lowering: a declaration as a standard form, and the way back.

What a lowering changes on the way in it undoes on the way back. The certificate is of the declaration:
nothing of the form enters it but the answer of the solver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from ucm.compiler.recover import BIAS_RULES
from ucm.data.approx import Waves
from ucm.data.bound import Data
from ucm.data.gram import Expansion, Gram
from ucm.data.linear import Vec
from ucm.data.weighing import Weighing
from ucm.errors import DataError, ParameterError
from ucm.evidence.support import vector_of
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer, Posed, checked
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Form", "Given", "Lowering", "Parts", "Proof", "Regime", "Verdict"]

Form = TypeVar("Form", bound=Posed)


@dataclass(frozen=True)
class Regime:
    """Whether a model is convex for its data, and how that is known.

    Attributes
    ----------
    convex : of a set: False where 0 lies in U
    how : a sentence
    floor : a lower bound of the optimum of a set that holds 0: minus the norm of a point of it
    """

    convex: bool
    how: str
    floor: float = 0.0


@dataclass(frozen=True)
class Proof:
    """An answer and what the declaration proves of it.

    Attributes
    ----------
    answer, certificate : these two
    objective : the value of the declared problem
    w, b, x : normal, bias where it is a variable, point of U; as for `Solution`
    size : how large the points of U are
    """

    answer: Answer
    certificate: Certificate
    objective: float
    w: Vec | None
    b: float | None = None
    x: Vec | None = None
    size: float = 0.0


class Verdict(NamedTuple):
    """A status and its sentence; whether to warn."""

    status: str
    message: str
    warns: bool = False


def other_shape(same: str) -> ParameterError:
    """The error for a warm start that does not fit; `same` is what it must have in common."""
    return ParameterError(
        f"solve: warm_start is the solution of a model of another shape; give one {same}"
    )


@dataclass(frozen=True)
class Parts:
    """The parts of a solution that are recovered once an answer is judged; as for `Solution`."""

    w: Vec | None
    b: float | None
    x: Vec | None
    weights: Vec | None
    bias_rule: str
    coefficients: Vec | None = None
    expansion: Expansion | Waves | None = None
    make_parts: Callable[[], tuple[Vec, ...]] | None = None
    rho: float | None = None

    def over(self, weighing: Weighing) -> Parts:
        """The same over the samples that were given, those of weight 0 among them."""
        if weighing.kept is None:
            return self
        expansion = self.expansion
        if isinstance(expansion, Expansion):
            support = weighing.kept[expansion.support]
            expansion = replace(expansion, support=support, m=weighing.given)
        weights, c = weighing.spread(self.weights), weighing.spread(self.coefficients)
        return replace(self, weights=weights, coefficients=c, expansion=expansion)


@dataclass(frozen=True)
class Given:
    """An answer from elsewhere; as for `Plan.certify`."""

    w: Any = None
    b: Any = None
    x: Any = None
    weights: Any = None
    coefficients: Any = None

    def vector(self, name: str, size: int) -> Vec | None:
        """One of them as a vector of finite numbers, where it is given.

        Raises
        ------
        DataError
            It is none of this length.
        """
        v = getattr(self, name)
        return None if v is None else vector_of(v, size, f"certify: {name}")

    def per_sample(self, name: str, data: Data) -> Vec | None:
        """One of them as a vector with an entry for every sample that was given, without those of weight 0.

        Raises
        ------
        DataError
            It is none of this length, or not 0 for a sample of weight 0.
        """
        v, kept = self.vector(name, data.given), data.weighing.kept
        if v is None or kept is None:
            return v
        left_out = np.setdiff1d(np.flatnonzero(v), kept)
        if left_out.size:
            raise DataError(
                f"certify: {name}: expected 0 for the samples of weight 0, which are left out, got "
                f"{v[left_out[0]]:g} for sample {left_out[0]}; set it to 0"
            )
        return v[kept]

    def refuse(self, why: str, *names: str) -> None:
        """Raises `ParameterError` where one of these is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise ParameterError(f"certify: unexpected {name}: {why}")


class Lowering(ABC, Generic[Form]):
    """A model, bound to data, as one standard form.

    Attributes
    ----------
    model, data : the declaration and the samples
    form : what a solver sees
    asked : the solver that is wanted, by name or as an instance; or "auto"
    gram : the Gram matrix of a kernel, where the data are not in its space
    factor : what the objective of the form is multiplied by to be that of the model
    rules : the rules of the bias that apply
    ruled : why no others do
    wrong : what is to blame where a certificate contradicts an answer
    """

    model: Any  # a RobustMargin or an Objective, narrowed below
    data: Data
    form: Form
    asked: str | Solver[Any]
    gram: Gram | None = None
    factor: float = 1.0
    rules: tuple[str, ...] = BIAS_RULES
    ruled: ClassVar[str] = "b is a variable of this objective"
    wrong: str

    @property
    def kernel(self) -> str:
        """The kernel, or the features in place of one, that the certificate is about; "" without."""
        return self.data.kernel if self.gram is None else self.gram.told

    @property
    @abstractmethod
    def regime(self) -> Regime:
        """Convex or not."""

    @abstractmethod
    def lines(self) -> list[str]:
        """What `explain()` says of data and form."""

    @abstractmethod
    def tail(self, solver: str, verbose: bool) -> list[str]:
        """What `explain(verbose)` says of what else a solve may lead to."""

    @abstractmethod
    def elsewhere(self, proof: Proof | None, monitor: Monitor) -> Lowering[Any] | None:
        """The lowering that has the answer where this one has not: asked before a solve, without a
        proof, and after it."""

    @abstractmethod
    def begin(self, warm: Solution) -> Answer | None:
        """The start that a solution gives.

        Raises
        ------
        ParameterError
            It is the solution of a model of another shape.
        """

    @abstractmethod
    def run(
        self, solver: Solver[Form], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        """The answers of a solver, one for each start that the form has a use for."""

    def answer(self, solver: Solver[Form], monitor: Monitor, start: Answer | None) -> Answer:
        """The answer of a solver from one start, looked at before anything is computed from it."""
        return checked(solver.solve(self.form, monitor, start), self.form.expected, solver.name)

    @abstractmethod
    def certify(self, answer: Answer, tol: float) -> Proof:
        """What the declaration proves of an answer; a relative gap of `tol` is enough."""

    @abstractmethod
    def certify_given(self, given: Given) -> Certificate:
        """What the declaration proves of an answer from elsewhere.

        Raises
        ------
        ParameterError, DataError
            What is given does not belong to this model, or is no vector of its length.
        """

    @abstractmethod
    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        """What the gap alone does not decide; None where it does."""

    @abstractmethod
    def slack(self, proof: Proof, tol: float) -> float:
        """How far below 0 a relative gap may be before it contradicts the answer."""

    @abstractmethod
    def recover(self, proof: Proof, bias_rule: str) -> Parts:
        """The classifier and its weights.

        Raises
        ------
        ParameterError
            The rule of the bias does not apply.
        """

    @abstractmethod
    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """The CVXPY twin; of a non-convex model the convex problem around a solution."""

    @abstractmethod
    def dual_reference(self) -> cp.Problem | None:
        """The dual of the twin, where it is written down."""

    @abstractmethod
    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        """A solution that was asked for to a relative gap of `tol`, compared with the twin."""
