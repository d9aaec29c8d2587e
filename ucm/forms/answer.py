"""What every solver answers, and what it may start from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ucm.data.linear import Vec
from ucm.errors import SolverError

__all__ = ["Answer", "Witness"]


@dataclass(frozen=True)
class Witness:
    """What proves a lower bound of `UnitNorm`; `evidence.bounds` turns it into the bound.

    Attributes
    ----------
    kind : "vertices": points of U along every vertex of the ball of the dual norm, which it therefore
        holds; "points": points of U whose convex hull holds that ball; "sphere": the multiplier of an
        ellipsoid
    points : blocks of points of U
    multiplier : the number
    """

    kind: str
    points: list[list[Vec]] = field(default_factory=list)
    multiplier: float = 0.0


@dataclass
class Answer:
    """A primal point, and the dual quantities that a solver happens to know.

    Attributes
    ----------
    q : the parameters, block by block, of a set
    w : (n,) the normal. Over sets a dual vector of any length, None to take that of x, and in a start as
        long as the nearest point is expected to be; over losses None behind a kernel
    b : the bias, of losses
    slopes : (m,) minus the slopes of the losses at the margins, a dual point; of `HingeDual` the multipliers
    multipliers : of the couplings, scaled to `||w||_p = 1`
    status : "converged", "max_iter", "stalled", "infeasible", "unbounded", "interrupted" (by the
        monitor), or "indefinite" behind a kernel
    message : a sentence for the person, empty when all is well
    witness : of `UnitNorm`, what proves a lower bound of the optimum
    """

    q: list[Vec] = field(default_factory=list)
    w: Vec | None = None
    b: float | None = None
    slopes: Vec | None = None
    multipliers: list[Vec] = field(default_factory=list)
    status: str = "converged"
    message: str = ""
    witness: Witness | None = None

    def ended(self, status: str, message: str) -> Answer:
        """The same with a status, and what the person should know."""
        return replace(self, status=status, message=message)

    def interrupted(self) -> Answer:
        """The same, where `monitor.report` asked to stop or `monitor.late` is true; the plan knows why."""
        return self.ended("interrupted", self.message)

    @property
    def plane(self) -> tuple[Vec, float]:
        """Normal and bias, where a solver must give them.

        Raises
        ------
        SolverError
            It gave no normal.
        """
        if self.w is None:
            raise SolverError("the solver gave no normal w: its `Answer` needs one for this form")
        return self.w, self.b or 0.0
