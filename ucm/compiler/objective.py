"""Lowering of `loss + penalty` to a composite problem, or to a difference of two convex ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.lowering import (
    ExternalAnswer,
    Lowering,
    Proof,
    Recovered,
    Regime,
    Verdict,
    warm_start_error,
)
from ucm.data.bound import Data
from ucm.data.gram import Expansion
from ucm.data.linear import Vec
from ucm.errors import ParameterError
from ucm.evidence.certificate import is_proven
from ucm.evidence.majorant import dual_problem, majorant, verify_objective
from ucm.evidence.objective import InFeatures, certify_objective, is_local, is_unattained
from ucm.evidence.support import vector_of
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver
from ucm.language.objective import Objective
from ucm.language.terms import Penalty
from ucm.solvers import DCA
from ucm.solvers.threads import blas_threads

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["ObjectiveLowering", "normal_of"]


class ObjectiveLowering(Lowering[Composite | DifferenceOfConvex]):
    """`min G - H`, a composite problem if H is 0."""

    model: Objective

    def __init__(
        self,
        model: Objective,
        data: Data,
        asked: str | Solver[Any] = "auto",
        bias_rules: tuple[str, ...] = ("auto",),
    ) -> None:
        self.model, self.data, self.asked, self.bias_rules = model, data, asked, bias_rules
        for penalty in model.nodes_of_type(Penalty):
            penalty.check_features(data.n)
        self.split = DifferenceOfConvex.of(model, data)
        composite = self.split.convex and asked != DCA.name and not isinstance(asked, DCA)
        self.form = self.split.G if composite else self.split

    @property
    def regime(self) -> Regime:
        if self.split.convex:
            return Regime(True, "the answer is the global optimum")
        return Regime(False, "DCA from a convex start, to a critical point; n_starts=k tries more")

    def describe(self) -> list[str]:
        G, H = self.model.dc()
        data = self.data
        return [
            f"data      {data.m} samples, {data.n} features, {data.stored} entries"
            + ("" if data.gram is None else f"; {data.gram.kernel}, features spanning it"),
            f"G         {G}",
            f"H         {H}",
        ]

    def warm_start(self, warm: Solution) -> Answer | None:
        w, c = warm.w, warm.coefficients
        if self.data.gram is not None and c is not None and c.size == self.data.m:
            w = self.data.X.T @ c
        if w is None or w.shape != (self.data.n,):
            raise warm_start_error("over the same features")
        return Answer(w=w, b=warm.b or 0.0)

    def run(
        self,
        solver: Solver[Composite | DifferenceOfConvex],
        monitor: Monitor,
        start: Answer | None,
        starts: int,
    ) -> list[Answer]:
        form = self.form
        with blas_threads(min(self.data.m, self.data.n)):
            if isinstance(form, DifferenceOfConvex) and isinstance(solver, DCA):
                solver = solver if starts == 1 else replace(solver, n_starts=starts)
            return [self.answer(solver, monitor, start)]

    def certify(self, answer: Answer, tol: float) -> Proof:
        """Certify the answer, or w = 0 with the best b if a convex solver ended above its objective.

        `judge` handles an objective that is NaN.
        """
        proof = self._proof(answer)
        proven = is_proven(proof.certificate, tol)
        if not self.split.convex or proven or not np.isfinite(proof.objective):
            return proof
        constant = self.split.constant()
        trivial = self._proof(replace(answer, w=constant.w, b=constant.b))
        return trivial if trivial.objective < proof.objective else proof

    def _proof(self, answer: Answer) -> Proof:
        w, b = answer.plane
        certificate = certify_objective(
            self.model, self.data, InFeatures(self.data.X, w), b, answer.slopes
        )
        return Proof(answer, certificate, certificate.primal, w, b)

    def certify_external(self, given: ExternalAnswer) -> Certificate:
        if self.data.gram is None:
            given.refuse("there are features; give w and b", "x", "coefficients")
            w, b = normal_of(given, self.data)
        else:
            given.refuse("a kernel hides the features; give coefficients and b", "w", "x")
            c, b = normal_of(given, self.data, "coefficients")
            w = self.data.X.T @ c
        normal = InFeatures(self.data.X, w)
        slopes = given.per_sample("weights", self.data)
        if slopes is not None:
            margin = self.data.y * (normal.scores + b)
            slopes = slopes - self.split.tilt(margin, w).margin
        return certify_objective(self.model, self.data, normal, b, slopes)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        convex = self.split.convex
        if convex and is_proven(proof.certificate, monitor.tol):
            return None
        w, b = proof.answer.plane
        endless = is_unattained(self.model, self.data, w, b)
        if endless is not None:
            return Verdict("unattained", endless, warns=True)
        if convex:
            return None
        gap, missed = proof.certificate.relative_gap, proof.certificate.violation
        if missed > monitor.tol or gap > monitor.tol:
            return None
        if is_local(self.model, self.data, w, b):
            return Verdict(
                "local",
                f"critical (residual {gap:.2g}), and a local minimum: what is subtracted is affine "
                "there",
            )
        return Verdict("stationary", f"critical: the next convex problem gains at most {gap:.2g}")

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        w, b = proof.answer.plane
        G = self.split.G
        slopes = proof.answer.slopes
        if slopes is None or self.split.losses:
            margin = G.margins(w, b)
            slopes = G.gradient(margin) if slopes is None else slopes
            slopes = slopes + self.split.tilt(margin, w).margin
        weights, gram = np.maximum(slopes, G.floors), self.data.gram
        if gram is None:
            return Recovered(w, b, None, weights, "variable")
        c = gram.combination(self.data.X, w)
        expansion = Expansion.of(gram.kernel, gram.X, c)
        return Recovered(None, b, None, weights, "variable", c, expansion)

    @property
    def _features(self) -> Any:
        """Return the root of the Gram matrix, the samples of a reference problem with a kernel."""
        return None if self.data.gram is None else self.data.gram.spectral()

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """Return the twin; of a difference of convex functions the majorant at a solution, or at 0."""
        w, b = (None, None) if at is None else (at.w, at.b)
        return majorant(self.model, self.data, w, b or 0.0, self._features, scaled)

    def dual_reference(self) -> cp.Problem | None:
        return dual_problem(self.model, self.data, self._features)

    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        return verify_objective(self.model, self.data, solution, self._features, tol, **options)


def normal_of(given: ExternalAnswer, data: Data, name: str = "w") -> tuple[Vec, float]:
    """Return the normal, or its coefficients with a kernel, and the bias of an external answer.

    Raises
    ------
    ParameterError, DataError
        One of both is missing, or no finite number.
    """
    w = given.vector(name, data.n) if name == "w" else given.per_sample(name, data)
    b = given.b
    if w is None or b is None:
        missing = name if w is None else "b"
        raise ParameterError(
            f"certify: {missing}: expected both {name} and b, the variables of this objective, got no "
            f"{missing}; give it too"
        )
    return w, float(vector_of([b], 1, "certify: b")[0])
