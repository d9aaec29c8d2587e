"""The contract of a solver: from a standard form to an answer, without access to the declaration.

The type of a solver names the form that it takes, `class Mine(Solver[MinNorm])`. The forms are the modules
of `ucm.forms`, `ucm.forms.distance` first; a solver returns a `ucm.forms.answer.Answer`.
`ucm.testing.check_solver` checks this contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar, get_args, get_origin

from ucm.data.options import OptionSpec
from ucm.forms.answer import Answer
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor

Form = TypeVar("Form", contravariant=True)


class Solver(ABC, Generic[Form]):
    """Base class of the solvers of one or several standard forms.

    Attributes
    ----------
    name : the name for `solver=` and `explain()`
    takes : the forms in its type, `Solver[MinNorm]` or `Solver[MinNorm | Composite]`
    """

    name: ClassVar[str]
    takes: ClassVar[tuple[type, ...]] = (MinNorm,)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            origin, forms = get_origin(base), get_args(base)
            arguments = get_args(forms[0]) or (forms[0],)
            if isinstance(origin, type) and issubclass(origin, Solver):
                cls.takes = tuple(form for form in arguments if isinstance(form, type)) or cls.takes

    @abstractmethod
    def refuse(self, form: Form) -> str | None:
        """Return the reason for which this solver does not take the form; None if accepted."""

    def session(self, form: Form) -> Solver[Form]:
        """Return a solver for successive problems over the samples of a form; by default this solver."""
        return self

    @abstractmethod
    def solve(self, form: Form, monitor: Monitor, start: Answer | None = None) -> Answer:
        """Solve a form from an optional start until the gap, the iterations or the monitor end the run.

        The run ends when the gap is below `monitor.tol`, after `monitor.limit(own)` iterations, or when
        `monitor.report` returns True.

        Long work between two reports checks `monitor.timed_out`. The form and the start stay unchanged.

        Parameters
        ----------
        form : a form that `refuse` accepts
        monitor : counts passes, records every iteration, and decides when to stop
        start : an answer to a form of the same shape, which may be infeasible
        """


class Session(Solver[Form]):
    """A solver with a state that lasts from one problem to the next over the same samples.

    The losses, the penalties and the linear term of a problem may differ from the one before. The caller says
    by `start` where a problem begins.

    Parameters
    ----------
    solver
        The solver without a state, whose forms and name these are.
    """

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        vars(self).update(name=solver.name, takes=solver.takes)

    def refuse(self, form: Form) -> str | None:
        return self.solver.refuse(form)


def solver_of(form: type, example: str = "ucm.solvers.SSNAL()") -> OptionSpec:
    """Return the `OptionSpec` of an option that takes a solver of this form."""
    return OptionSpec(
        f"a solver of {form.__name__}", lambda x: isinstance(x, Solver) and form in x.takes, example
    )


def solvers_of(form: type) -> OptionSpec:
    """Return the `OptionSpec` of an option that takes a non-empty tuple of solvers of this form."""

    def holds(x: object) -> bool:
        return isinstance(x, tuple) and len(x) > 0 and all(map(solver_of(form).holds, x))

    example = "(ucm.solvers.SSNAL(), ucm.solvers.APG())"
    return OptionSpec(f"a tuple of solvers of {form.__name__}", holds, example)
