"""The contract of a solver: it takes a standard form, and never sees a declaration.

A solver of one's own says which form it takes in its type, `class Mine(Solver[MinNorm])`; the forms stand
beside this page, `ucm.forms.distance` first, and what it returns in `ucm.forms.answer`.
`ucm.testing.check_solver` holds it against what is promised here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from ucm.data.options import OptionSpec
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor

__all__ = ["Solver", "solver_of", "solvers_of"]

Form = TypeVar("Form")


class Solver(ABC, Generic[Form]):
    """An algorithm for one standard form.

    Attributes
    ----------
    name : its own, for `solver=` and `explain()`
    takes : the forms in its type, `Solver[MinNorm]` or `Solver[MinNorm | Composite]`
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[type, ...]] = (MinNorm,)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            origin, forms = get_origin(base), get_args(base)
            named = get_args(forms[0]) or (forms[0],)
            if isinstance(origin, type) and issubclass(origin, Solver):
                cls.takes = tuple(form for form in named if isinstance(form, type)) or cls.takes

    @abstractmethod
    def refuse(self, form: Form) -> str | None:
        """Why this solver does not take the form; None when it does."""

    @abstractmethod
    def predicted_passes(self, form: Form) -> float:
        """A rough number of passes over the data to a relative gap of 1e-6, for `explain()`; NaN where
        none is known."""

    def session(self) -> Solver[Form]:
        """Return a solver for several problems in turn over the same samples, which keeps what it can from
        one to the next. By default this solver, which keeps nothing but the start that it is given."""
        return self

    @abstractmethod
    def solve(self, form: Form, monitor: Monitor, start: Answer | None = None) -> Answer:
        """Run until the gap is below `monitor.tol`, `monitor.limit(own)` iterations are done, or
        `monitor.report` answers True; what may take long between two reports asks `monitor.late`. Nothing
        of the form or the start is changed.

        Parameters
        ----------
        form : what `refuse` accepts
        monitor : counts passes, records every iteration, and says when to stop
        start : an answer to a form of the same shape to start from; it need not be feasible
        """


def solver_of(form: type, example: str = "ucm.solvers.SSNAL()") -> OptionSpec:
    """A solver of this form, as the option of another."""
    return OptionSpec(
        f"a solver of {form.__name__}", lambda x: isinstance(x, Solver) and form in x.takes, example
    )


def solvers_of(form: type) -> OptionSpec:
    """Solvers of this form, one or more."""

    def holds(x: Any) -> bool:
        return isinstance(x, tuple) and len(x) > 0 and all(map(solver_of(form).holds, x))

    example = "(ucm.solvers.SSNAL(), ucm.solvers.APG())"
    return OptionSpec(f"a tuple of solvers of {form.__name__}", holds, example)
