"""The contract of a solver, from a standard form to an answer, without access to the declaration.

The type of a solver names the form that it takes, `class Mine(Solver[MinNorm])`. The forms are the modules
of `ucm.forms`, `ucm.forms.distance` first; a solver returns an `Answer`, which can also start another solver.
`ucm.testing.check_solver` checks this contract.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
)

import numpy as np

from ucm.data.linear_map import Vec
from ucm.data.options import OptionSpec, check_fields
from ucm.errors import SolverError, brief
from ucm.forms.monitor import Monitor
from ucm.forms.sphere_proof import LowerBoundProof

Form = TypeVar("Form", contravariant=True)

Ended = Literal["converged", "max_iter", "stalled", "infeasible", "unbounded", "interrupted", "indefinite"]
STATUSES: tuple[str, ...] = get_args(Ended)
"""The statuses that a solver may return."""

Status = Literal[Ended, "optimal", "time_limit", "local", "stationary", "zero_in_set", "unattained"]
"""The statuses of answers and, without "infeasible", of solutions."""


class Part(NamedTuple):
    """The part of a problem with at most k features in which some are among the k, and others are not."""

    included: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()


@dataclass
class Answer:
    """The answer of a solver: a primal point, and the dual quantities that the solver knows.

    Attributes
    ----------
    q : the parameters, block by block, of a set
    w : (n,) the normal. Over sets a dual vector of any length, or None for the direction of x; the start of a
        set has the expected length of the nearest point; over losses None with a kernel
    b : the bias, of losses
    slopes : (m,) minus the slopes of the losses at the margins, a dual point; of `HingeDual` the multipliers
    multipliers : of the couplings, scaled to `||w||_p = 1`; of `GeneralComposite` the maximal q of every
        worst mean
    status : "converged", "max_iter", "stalled", "infeasible", "unbounded", "interrupted" (by the
        monitor), or "indefinite" for a kernel
    message : a sentence for the user, empty if nothing is wrong
    witness : of `UnitNorm`, the proof of a lower bound of the optimum
    parts : of `BestSubset`, parts that cover the problem, each with a dual point as `slopes`
    rows : over a row source, the results of the last pass; a pickle leaves them out
    """

    q: list[Vec] = field(default_factory=list)
    w: Vec | None = None
    b: float | None = None
    slopes: Vec | None = None
    multipliers: list[Vec] = field(default_factory=list)
    status: Status = "converged"
    message: str = ""
    witness: LowerBoundProof | None = None
    parts: list[tuple[Part, Vec]] = field(default_factory=list)
    rows: Any = None

    def __getstate__(self) -> dict:
        return {**vars(self), "rows": None}

    def ended(self, status: Status, message: str) -> Answer:
        """Return a copy of the answer with the given status and message."""
        return replace(self, status=status, message=message)

    def after(self, status: Status, left: str) -> Answer:
        """Return a copy with the given status; `left` is the message if none is standard."""
        said = {"converged": "", "interrupted": "", "infeasible": "a separating direction was found"}
        return self.ended(status, said.get(status, left))

    def interrupted(self) -> Answer:
        """Return a copy of the answer with the status "interrupted"."""
        return self.ended("interrupted", self.message)

    @property
    def plane(self) -> tuple[Vec, float]:
        """The pair (w, b) of an answer with a normal; a missing b is 0.

        Raises
        ------
        SolverError
            The answer has no normal.
        """
        if self.w is None:
            raise SolverError(
                "the solver gave no normal w: its `Answer` needs one for this form; give Answer(w=...)"
            )
        return self.w, self.b or 0.0


@dataclass(frozen=True)
class Expected:
    """The lengths of the vectors in an answer to a form; None for a vector that the form does not read.

    Attributes
    ----------
    q : of the blocks
    w, slopes : of the normal and the dual point
    multipliers : of the multipliers of the couplings, or of the maximal q of worst means
    """

    q: tuple[int, ...] | None = None
    w: int | None = None
    slopes: int | None = None
    multipliers: tuple[int, ...] = ()


class StandardForm(Protocol):
    """A standard form, which states the lengths of the vectors in its answers."""

    @property
    def expected(self) -> Expected: ...


def checked(answer: object, expected: Expected, solver: str) -> Answer:
    """Return the answer after a check of its types, status, lengths and numbers; raise `SolverError`."""
    if not isinstance(answer, Answer):
        _refuse(solver, "a ucm.forms.solver.Answer", brief(answer))
    if answer.status not in STATUSES:
        _refuse(solver, f"a status among {', '.join(STATUSES)}", brief(answer.status))
    if answer.b is not None and not (isinstance(answer.b, Real) and math.isfinite(answer.b)):
        _refuse(solver, "a finite number b", brief(answer.b))
    lists: list[tuple[str, object, tuple[int, ...]]] = []
    if expected.q is not None and not (answer.status == "infeasible" and _no_blocks(answer.q)):
        lists.append(("q", answer.q, expected.q))
    if not _no_blocks(answer.multipliers):
        lists.append(("multipliers", answer.multipliers, expected.multipliers))
    if answer.witness is not None:
        if not isinstance(answer.witness, LowerBoundProof):
            _refuse(solver, "a ucm.forms.sphere_proof.LowerBoundProof or None", brief(answer.witness))
        lists += [("a point of the witness", blocks, expected.q or ()) for blocks in answer.witness.points]
    expectations = (("w", answer.w, expected.w), ("slopes", answer.slopes, expected.slopes))
    vectors = [(name, v, size) for name, v, size in expectations if v is not None and size is not None]
    vectors += [("slopes of a part", v, expected.slopes or 0) for _, v in answer.parts]
    for name, blocks, sizes in lists:
        if not isinstance(blocks, list | tuple):
            _refuse(solver, f"{name} with {len(sizes)} blocks", brief(blocks))
        if len(blocks) != len(sizes):
            _refuse(solver, f"{name} with {len(sizes)} blocks", f"{len(blocks)}")
        vectors += [(f"{name}[{k}]", v, size) for k, (v, size) in enumerate(zip(blocks, sizes, strict=True))]
    for name, v, size in vectors:
        if not isinstance(v, np.ndarray) or v.dtype.char != "d" or v.shape != (size,):
            dtype = f" and dtype {v.dtype}" if isinstance(v, np.ndarray) else ""
            _refuse(solver, f"{name} as a float64 array of shape ({size},)", brief(v) + dtype)
        if not np.isfinite(v).all():
            _refuse(solver, f"finite numbers in {name}", f"{brief(v)} with NaN or inf")
    return answer


def _no_blocks(blocks: object) -> bool:
    return isinstance(blocks, list) and not blocks


def _refuse(solver: str, need: str, got: str) -> NoReturn:
    raise SolverError(
        f"solver {solver!r}: expected {need} in its answer, got {got}; scale the features or take another "
        "solver, and hold one of your own against its contract with ucm.testing.check_solver"
    )


class Solver(ABC, Generic[Form]):
    """Base class of the solvers of one or several standard forms.

    Attributes
    ----------
    name : the name for `solver=` and `explain()`
    takes : the forms in its type, `Solver[MinNorm]` or `Solver[MinNorm | Composite]`
    seed : of the random starts of a non-convex model
    """

    name: ClassVar[str]
    seed: int = 0
    takes: ClassVar[tuple[type, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in vars(cls).get("__orig_bases__", ()):
            origin, forms = get_origin(base), get_args(base)
            arguments = get_args(forms[0]) or (forms[0],)
            if isinstance(origin, type) and issubclass(origin, Solver):
                cls.takes = tuple(form for form in arguments if isinstance(form, type)) or cls.takes

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def refuse(self, form: Form) -> str | None:
        """Return the reason for which this solver does not take the form; None if accepted."""

    @property
    def inner_solvers(self) -> tuple[Solver, ...]:
        """The solver of the inner problems and its fallback, for `explain()`; by default none."""
        return ()

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


def name_of(solver: str | Solver) -> str:
    """Return the name of a solver, which may be given by it."""
    return solver if isinstance(solver, str) else solver.name


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
