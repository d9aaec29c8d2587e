"""The lowering of a generalised nu-SVM with an inactive norm bound: a problem over w, b and rho."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ucm.compiler.lowering import (
    BoundModel,
    ExternalAnswer,
    Lowering,
    Proof,
    Recovered,
    Regime,
    in_its_space,
    warm_start_error,
)
from ucm.compiler.recover import bias
from ucm.compiler.robust import DistanceLowering, minimum_norm
from ucm.errors import ParameterError
from ucm.evidence.reference import Verification, compared, solved
from ucm.forms.monitor import INSIDE, Monitor
from ucm.forms.objective import Composite
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer, Solver
from ucm.language import cvx as cp
from ucm.language.robust import RobustMargin
from ucm.ranges.generalised_nu_svm import Bounds, GeneralisedNuSVM, radius_from_lambda


class GeneralisedNuSVMLowering(Lowering[Composite]):
    """The lowering of a generalised nu-SVM whose bound `||w|| <= lam` is inactive.

    The problem is `min -rho + (1/m) sum l(rho - margin_i)`, with the optimum at `||w|| < lam`.

    0 then lies on the boundary of the set with the radius of lam. The set does not determine the length of w,
    and no gap relative to the distance 0 proves the direction of w.
    """

    model: RobustMargin
    bias_rules = ("auto", "multipliers", "means", "min_error", "odds", "zero")
    bias_refusal = "there are no nearest points where the bound of the norm is inactive"

    def __init__(self, problem: GeneralisedNuSVM, requested: str | Solver = "auto") -> None:
        self.problem, self.requested = problem, requested
        self.model, self.data, self.form = problem.model, problem.data, problem.form

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        """Return the lowering of a model by lam; of an active bound, that of the set with its radius."""
        problem = radius_from_lambda(bound.model, in_its_space(bound.data, bound.gram))
        if problem.active:
            return DistanceLowering.candidates(replace(bound, model=problem.model))
        return (GeneralisedNuSVMLowering(problem, bound.requested),)

    @property
    def regime(self) -> Regime:
        return Regime(True, "the bound lam of the norm of w is inactive: every larger lam has the same w")

    def describe(self) -> dict[str, str]:
        form = "min -rho + mean of l(rho - margin) over w, b and rho, as declared by lam"
        return {"data": self.describe_data(), "form": form}

    def warm_start(self, warm: Solution) -> Answer | None:
        if warm.w is not None and warm.w.shape != (self.data.n,):
            raise warm_start_error("over the same features")
        return None

    def answer(self, solver: Solver[Composite], monitor: Monitor, start: Answer | None) -> Answer:
        """Return the answer of a solver, started by default from the normal found with the radius."""
        if start is None and self.problem.w is not None:
            start = self.problem.start(self.problem.w)
        return super().answer(solver, monitor, start)

    def certify(self, answer: Answer, tol: float) -> Proof:
        found = self._bounds(answer)
        x = np.asarray(self.data.X.T @ (found.q * self.data.y)).ravel()
        return Proof(answer, found.certificate, found.certificate.primal, found.w, found.b, x)

    def _bounds(self, answer: Answer) -> Bounds:
        """Return the better bounds of two: with the slopes at the normal, or those of the answer."""
        w, bounds = self.problem.normal(answer.plane[0]), self.problem.bounds
        tried = [bounds(w), *([] if answer.slopes is None else [bounds(w, answer.slopes)])]
        return max(tried, key=lambda f: (f.certificate.violation <= INSIDE, f.certificate.dual))

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        data = self.data
        external.refuse("b is the best one for w", "b")
        external.refuse("the weights of the samples give the lower bound", "x")
        external.refuse_space(hidden=data.gram is not None)
        w, c = external.vector("w", data.n), external.per_sample("coefficients", data)
        weights = external.per_sample("weights", data)
        if w is None and c is None:
            raise ParameterError(
                "certify: w: expected the normal of this problem, of its own length, got none; give it"
            )
        w = np.asarray(data.X.T @ c).ravel() if w is None else w
        per_hull = None if weights is None else weights / len(self.problem.hulls)
        return self.problem.bounds(w, per_hull).certificate

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        data, gram = self.data, self.data.gram
        found = self._bounds(proof.answer)
        w, b, rule = found.w, proof.b, "multipliers"
        if bias_rule not in ("auto", "multipliers") and w.any():
            b, rule, _ = bias(bias_rule, self.model.set, minimum_norm(self.model, data), data, [], w)
        weights = found.q * len(self.problem.hulls)
        recovered = Recovered(w, b, proof.x, weights, rule, rho=found.rho)
        return recovered if gram is None else recovered.by_kernel(gram, gram.combination(data.X, w))

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        return self.problem.reference_problem(scaled)

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        reference = solved(self.problem.reference_problem(), options)
        return compared(solution, reference, tol, unit=1.0)
