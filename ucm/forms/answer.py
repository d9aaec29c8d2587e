"""The answer of a solver, which can also start another solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.errors import SolverError, brief

STATUSES = (
    "converged", "max_iter", "stalled", "infeasible", "unbounded", "interrupted", "indefinite",
)  # fmt: skip
"""The statuses that a solver may return."""

_SAID = {
    "converged": "",
    "interrupted": "",  # the plan adds the reason
    "infeasible": "a separating direction was found",
}


@dataclass(frozen=True)
class LowerBoundProof:
    """The data by which a solver of `UnitNorm` proves a lower bound of the optimum.

    `evidence.sphere` computes the bound.

    Attributes
    ----------
    kind : "vertices": points of U along every vertex of the ball of the dual norm, which it therefore
        holds; "points": points of U whose convex hull holds that ball; "rule": q0 and slopes V so that
        `q0 + V u` are blocks of a point of U for `||u||_2 <= 1`, which is an ellipsoid in U
    points : blocks of points of U
    slopes : of every block its V, (size of the block, rank of the form)
    """

    kind: str
    points: list[list[Vec]] = field(default_factory=list)
    slopes: list[NDArray[np.float64]] = field(default_factory=list)


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
    multipliers : of the couplings, scaled to `||w||_p = 1`
    status : "converged", "max_iter", "stalled", "infeasible", "unbounded", "interrupted" (by the
        monitor), or "indefinite" for a kernel
    message : a sentence for the user, empty if nothing is wrong
    witness : of `UnitNorm`, the proof of a lower bound of the optimum
    rows : over a row source, the results of the last pass; a pickle leaves them out
    """

    q: list[Vec] = field(default_factory=list)
    w: Vec | None = None
    b: float | None = None
    slopes: Vec | None = None
    multipliers: list[Vec] = field(default_factory=list)
    status: str = "converged"
    message: str = ""
    witness: LowerBoundProof | None = None
    rows: Any = None

    def __getstate__(self) -> dict:
        return {**vars(self), "rows": None}

    def ended(self, status: str, message: str) -> Answer:
        """Return a copy of the answer with the given status and message."""
        return replace(self, status=status, message=message)

    def after(self, status: str, left: str) -> Answer:
        """Return a copy with the given status; `left` is the message if none is standard."""
        return self.ended(status, _SAID.get(status, left))

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
    multipliers : of the multipliers of the couplings
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
        _refuse(solver, "a ucm.forms.answer.Answer", brief(answer))
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
            _refuse(solver, "a ucm.forms.answer.LowerBoundProof or None", brief(answer.witness))
        lists += [("a point of the witness", blocks, expected.q or ()) for blocks in answer.witness.points]
    expectations = (("w", answer.w, expected.w), ("slopes", answer.slopes, expected.slopes))
    vectors = [(name, v, size) for name, v, size in expectations if v is not None and size is not None]
    for name, blocks, sizes in lists:
        if not isinstance(blocks, list | tuple) or len(blocks) != len(sizes):
            got = f"{len(blocks)}" if isinstance(blocks, list | tuple) else brief(blocks)
            _refuse(solver, f"{name} with {len(sizes)} blocks", got)
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
