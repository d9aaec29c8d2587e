"""The global minimum over the unit sphere for one ellipsoid, by a secular equation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof
from ucm.forms.trust_region import nearest_on_ellipsoid, polar_rule
from ucm.language.domains import NormBall


@dataclass(frozen=True)
class TrustRegionSecular(Solver[UnitNorm]):
    """Find the least worst case over one ellipsoid that contains 0 by a secular equation.

    The ellipsoid itself, as an affine rule, is the proof: Ito, Takeda and Toh (2015), equation (34), beyond
    its largest kappa; Conn, Gould and Toint (2000), chapter 7.
    """

    name: ClassVar[str] = "secular"

    def refuse(self, form: UnitNorm) -> str | None:
        image = form.image
        if form.norm != 2.0:
            return "it takes the Euclidean norm only"
        if image.couplings:
            return "the blocks are coupled by an intersection"
        if len(image.blocks) != 1:
            return "it takes a single ellipsoid"
        D = image.blocks[0].domain
        return None if isinstance(D, NormBall) and D.euclidean else f"{D!r} is no Euclidean ball around 0"

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        size = form.image.blocks[0].domain.size()
        F, c, r = form.block_matrix(0), form.lower(form.image.center), 0.0 if size is None else size.number
        monitor.passes += form.rank
        v = form.unit(nearest_on_ellipsoid(r * r * (F.T @ F), c)[1])
        monitor.report(1, form.height(v), 0.0)
        rule = LowerBoundProof("rule", [form.image.centers()], slopes=[polar_rule(F, r)])
        return Answer(form.highest(v)[1], form.lift(v), witness=rule)
