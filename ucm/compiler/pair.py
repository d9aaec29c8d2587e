"""Lowering of `C * Hinge(p) + lam * L2()`, the pSVM of Sun (2024), to its dual, linear or with a kernel."""

from __future__ import annotations

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
from ucm.compiler.objective import normal_of
from ucm.data.bound import Data
from ucm.data.gram import Expansion, Gram
from ucm.data.kernels import Kernel
from ucm.data.linear import Vec
from ucm.evidence.majorant import dual_problem, majorant, verify_objective
from ucm.evidence.objective import InFeatures, KernelNormal, Normal, certify_objective
from ucm.evidence.verify import Verification
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.pair import HingeDual, slacks
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Solver
from ucm.language.objective import Objective

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["HingeDualLowering"]


class HingeDualLowering(Lowering[HingeDual]):
    """The dual (17) in units of lam = 1/2, in multipliers of the samples that change in pairs.

    Parameters
    ----------
    terms : (p, C, lam, (m,) the weights of the samples)
    gram : the Gram matrix, or None without a kernel
    """

    model: Objective
    bias_rules = ("auto", "multipliers")

    def __init__(
        self,
        model: Objective,
        terms: tuple[float, float, float, Vec],
        data: Data,
        gram: Gram | None,
        asked: str | Solver[Any] = "auto",
    ) -> None:
        self.model, self.data, self.gram, self.asked = model, data, gram, asked
        p, C, lam, weights = terms
        self.factor = 2.0 * lam
        linear = gram is None or gram.kernel.name == "linear"  # the features are known
        self.form = HingeDual(
            data.y,
            np.ascontiguousarray(weights * (C / self.factor)),
            p,
            Gram(Kernel("linear"), data.X) if gram is None else gram,
            data.X if linear else None,
        )

    @property
    def regime(self) -> Regime:
        return Regime(True, "for every C > 0")

    def describe(self) -> list[str]:
        m, gram, form = self.data.m, self.gram, self.form
        space = f"{self.data.n} features"
        if gram is not None:
            rows = (
                "all rows"
                if gram.fits
                else f"{min(self.data.m, gram.limit // (4 * self.data.m))} rows"
            )
            space = f"{gram.kernel}, cache_size holds {rows} of its matrix"
        return [
            f"data      {m} samples, {space}",
            f"form      the dual (17) of Sun (2024), p = {form.p:g}: {m} multipliers, y'a = 0"
            + (", a <= C" if form.p == 1.0 else ""),
        ]

    def warm_start(self, warm: Solution) -> Answer | None:
        if warm.weights is None or warm.weights.size != self.data.given:
            raise warm_start_error("over the same samples")
        weights: Any = self.data.weighing.gathered(warm.weights)
        return Answer(slopes=weights / self.factor)

    def certify(self, answer: Answer, tol: float) -> Proof:
        form, X, data = self.form, self.form.X, self.data
        a = np.zeros(form.m) if answer.slopes is None else answer.slopes
        c = a * data.y
        w = None if X is None else np.asarray(X.T @ c).ravel()
        normal = KernelNormal(form.gram, c) if w is None else InFeatures(X, w)
        f = normal.scores
        biases = [*([] if answer.b is None else [answer.b]), *_biases(form, a, f)]
        loss = self.model.loss
        b = min(
            biases, key=lambda b: loss.value(data.y * (f + b), data.y, data.weights, data.groups)
        )
        certificate = certify_objective(self.model, data, normal, b, self.factor * a)
        return Proof(answer, certificate, certificate.primal, w, b)

    def certify_external(self, given: ExternalAnswer) -> Certificate:
        data, form = self.data, self.form
        if form.X is None:
            given.refuse("a kernel hides the features; give coefficients and b", "w", "x")
            c, b = normal_of(given, data, "coefficients")
            normal: Normal = KernelNormal(form.gram, c)
        else:
            given.refuse("there are features; give w and b", "x", "coefficients")
            w, b = normal_of(given, data)
            normal = InFeatures(form.X, w)
        weights = given.per_sample("weights", data)
        return certify_objective(self.model, data, normal, b, weights)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        """Return the verdict "indefinite" if the kernel is, because a gap then proves nothing."""
        why = self._indefinite(proof, monitor.tol)
        if why is None:
            return None
        gap = proof.certificate.relative_gap
        return Verdict(
            "indefinite", f"{solver} stopped with a relative gap of {gap:.2g}. {why}", warns=True
        )

    def _indefinite(self, proof: Proof, tol: float) -> str | None:
        answer, certificate, gram = proof.answer, proof.certificate, self.gram
        if answer.status == "indefinite":
            return answer.message
        if gram is None or gram.kernel.definite or certificate.violation > tol:
            return None
        if certificate.dual == -np.inf:
            return "the kernel is indefinite: the dual exceeds the primal objective"
        if certificate.relative_gap <= tol and answer.slopes is not None:
            return _negative_curvature(gram, answer.slopes > 0.0)
        return None

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        a = np.zeros(self.form.m) if proof.answer.slopes is None else proof.answer.slopes
        c, gram = a * self.data.y, self.form.gram
        expansion = Expansion.of(gram.kernel, gram.X, c) if proof.w is None else None
        return Recovered(proof.w, proof.b, None, self.factor * a, "multipliers", c, expansion)

    @property
    def _features(self) -> Any:
        """Return the root of the Gram matrix, the samples of a reference problem with a kernel."""
        return None if self.gram is None else self.gram.spectral()

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        return majorant(self.model, self.data, None, 0.0, self._features, scaled)

    def dual_reference(self) -> cp.Problem | None:
        return dual_problem(self.model, self.data, self._features)

    def verify(self, solution: Solution, tol: float, **options: Any) -> Verification:
        return verify_objective(self.model, self.data, solution, self._features, tol, **options)


def _biases(form: HingeDual, a: Vec, f: Vec) -> list[float]:
    """Return candidates for b from the multipliers, which agree at the optimum.

    With `xi_k = (a_k / (C p))^(1/(p-1))` every a_k > 0 (p = 1: below C) gives
    `b = y_k (1 - xi_k) - f_k`, which is exact for every p, where equation (21) of Sun (2024) is so
    for p = 2 only. Their mean, and the middle of the interval that all multipliers allow.
    """
    if form.p == 1.0:  # interior-point methods end near the bounds
        near = 1e-7 * form.C
        a = np.where(a <= near, 0.0, np.where(a >= form.C - near, form.C, a))
    F = form.y * (1.0 - slacks(a, form.C, form.p)) - f
    top, bottom = form.levels(a, F)
    free = a > 1e-12 * max(float(a.max(initial=0.0)), 1e-300)
    if form.p == 1.0:
        free &= a < form.C
    candidates = [0.5 * (top + bottom)] if np.isfinite(top + bottom) else []
    if free.any():
        candidates.append(float(np.mean(F[free])))
    return candidates or [0.0]


def _negative_curvature(gram: Gram, support: np.ndarray, limit: int = 2000) -> str | None:
    """Return a proof that the kernel is not positive semidefinite over the support vectors, or None.

    More support vectors than the limit are not tested.
    """
    rows = np.flatnonzero(support)
    if rows.size == 0 or rows.size > limit:
        return None
    K = gram.between(rows, rows)
    allowed = 1e-8 * float(np.abs(K).max()) * rows.size
    try:
        np.linalg.cholesky(K + allowed * np.eye(rows.size))
        return None  # a Cholesky factor costs a tenth of the eigenvalues
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    return (
        f"the kernel is indefinite: its matrix over the {rows.size} support vectors has the eigenvalue "
        f"{least:.3g}, so the answer is a stationary point; use a positive semidefinite kernel such "
        "as rbf"
    )
