"""Lowerings of `loss + penalty`: composite, difference of convex functions, and dual of a hinge loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ucm.compiler.lowering import (
    BoundModel,
    ExternalAnswer,
    Form,
    Lowering,
    Proof,
    Recovered,
    Regime,
    Verdict,
    check_features,
    in_its_space,
    warm_start_error,
)
from ucm.compiler.route import requested_solvers
from ucm.data.bound_data import Data
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, ParameterError, SolverError, brief
from ucm.evidence.certificate import is_proven, without_lower_bound
from ucm.evidence.objective import (
    certify_flips,
    certify_objective,
    certify_parts,
    constraint_multipliers,
    is_local,
    is_unattained,
)
from ucm.evidence.reference import Verification, dual_problem, majorant, verify_objective
from ucm.evidence.support import vector_of
from ucm.forms.bound import FeatureNormal, KernelNormal, Normal
from ucm.forms.flips import FlipComposite
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.forms.objective import (
    BestSubset,
    Composite,
    DifferenceOfConvex,
    declared_plane,
    lifted_plane,
    weighed,
)
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer, Solver, name_of
from ucm.language import cvx as cp
from ucm.language.losses import Hinge
from ucm.language.objective import Objective, ScaledPenalty, split_scalar
from ucm.language.parameter import value
from ucm.language.penalties.cardinality import KSupport, fixed
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import LinearConstraint, check_constraints
from ucm.language.penalties.quadratic import evaluated
from ucm.language.robust_samples import with_statistics
from ucm.language.statistics.affine import Statistic
from ucm.language.terms import Penalty
from ucm.language.wasserstein import WassersteinObjective
from ucm.native.threads import blas_threads
from ucm.solvers import DCA
from ucm.solvers.smo.problem import Pairs

FeatureForm = Composite | DifferenceOfConvex | BestSubset
Multipliers = Sequence[Vec | None]

_TESTED = 2000  # support vectors whose kernel matrix is tested


class _PenalizedLowering(Lowering[Form]):
    """Base class of the lowerings of `loss + penalty`: reference problems and external certificates."""

    model: Objective

    @property
    def hidden(self) -> Gram | None:
        """The Gram matrix of a kernel that hides the features; None if the features are known."""
        return self.data.gram

    def normal_by_kernel(self, c: Vec) -> Normal:
        """Return the normal `sum_i c_i phi(x_i)` with the sample coefficients c."""
        return FeatureNormal(self.data.X, self.data.X.T @ c)

    def dual_point(self, weights: Vec, normal: Normal, b: float) -> Vec:
        """Return the dual point of the convex losses, minus their slopes, for given sample weights."""
        return weights

    def proven(
        self, normal: Normal, b: float, slopes: Vec | None, tol: float = 0.0, multipliers: Multipliers = ()
    ) -> Certificate:
        """Return the certificate of (w, b), as `certify_objective`."""
        return certify_objective(self.model, self.data, normal, b, slopes, tol, multipliers)

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        external.refuse_space(self.hidden is not None, " and b")
        external.refuse("it is a point of a set, and this is an objective", "x")
        name = "w" if self.hidden is None else "coefficients"
        v = external.vector(name, self.data.n) if name == "w" else external.per_sample(name, self.data)
        if v is None or external.b is None:
            missing = name if v is None else "b"
            raise ParameterError(
                f"certify: {missing}: expected both {name} and b, the variables of this objective, got no "
                f"{missing}; give it too"
            )
        normal = FeatureNormal(self.data.X, v) if name == "w" else self.normal_by_kernel(v)
        b = float(vector_of([external.b], 1, "certify: b")[0])
        weights = external.per_sample("weights", self.data)
        slopes = None if weights is None else self.dual_point(weights, normal, b)
        return self.proven(normal, b, slopes)

    @property
    def _root(self) -> Vec | None:
        """The root of the Gram matrix, which replaces X in a reference problem; None without a kernel."""
        gram = self.data.gram if self.gram is None else self.gram
        return None if gram is None else gram.spectral()

    def at(self, solution: Solution | None) -> Objective:
        """Return the objective whose reference problem, at a solution or without one, is to be solved."""
        return self.model

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """Return the CVXPY problem; of a non-convex objective its convex majorant at `at`, or at w = 0."""
        w, b = (None, None) if at is None or self.model.convex else (at.w, at.b)
        return majorant(self.at(at), self.data, w, b or 0.0, self._root, scaled)

    def dual_reference(self) -> cp.Problem | None:
        return dual_problem(self.model, self.data, self._root)

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        return verify_objective(self.at(solution), self.data, solution, self._root, tol, **options)


class ObjectiveLowering(_PenalizedLowering[FeatureForm]):
    """The lowering of `loss + penalty` to `min G - H`; to `min G` if H is 0 and DCA is not requested."""

    def __init__(
        self,
        model: Objective,
        data: Data,
        requested: str | Solver = "auto",
        bias_rules: tuple[str, ...] = ("auto",),
    ) -> None:
        self.model, self.data, self.requested, self.bias_rules = model, data, requested, bias_rules
        for penalty in model.nodes_of_type(Penalty):
            penalty.check_features(data.n)
        check_constraints(model.penalty, data.n)
        self.split = DifferenceOfConvex.of(model, data)
        composite = self.split.convex and name_of(requested) != DCA.name
        self.form = self.split.G if composite else self.split

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        """Return the dual if the model is a pSVM, and the problem in w (with a kernel, in the span)."""
        model, data, gram, solver = bound.model, bound.data, bound.gram, bound.requested
        hidden = bound.hides_features  # penalties use the features
        if not hidden and model.nodes_of_type(Statistic):
            loss = with_statistics(model.loss, data)
            model = replace(model, loss=loss, penalty=evaluated(model.penalty, data))
        terms = None if hidden and model.in_features() is not None else _hinge_terms(model, data)
        pairs = () if terms is None else (HingeDualLowering(model, terms, data, gram, solver),)
        if not hidden:
            rules = HingeDualLowering.bias_rules if pairs else ("auto",)
            return (*pairs, ObjectiveLowering(model, data, solver, rules))
        if not pairs:
            check_features(model)
            return (ObjectiveLowering(model, in_its_space(data, gram), solver),)
        if requested_solvers(solver, Composite):
            raise SolverError(
                f"solver {name_of(solver)!r} does not take this model: it works on features, and a kernel "
                'hides them; use solver="auto"'
            )
        return pairs

    @property
    def regime(self) -> Regime:
        if self.split.convex:
            return Regime(True, "the answer is the global optimum")
        return Regime(False, "DCA from a convex start, to a critical point; n_starts=k tries more")

    def describe(self) -> dict[str, str]:
        G, H = self.model.dc()
        return {"data": self.describe_data(), "G": str(G), "H": str(H)}

    def warm_start(self, warm: Solution) -> Answer | None:
        w, c = warm.w, warm.coefficients
        if self.data.gram is not None and c is not None and c.size == self.data.m:
            w = self.data.X.T @ c
        if w is None or w.shape != (self.data.n,):
            raise warm_start_error("over the same features")
        w, b = lifted_plane(self.model, w, (warm.b or 0.0) + self.split.level)
        return Answer(w=w, b=b)

    def _declared(self, w: Vec, b: float) -> tuple[Vec, float]:
        """Return the declared plane of a plane of the form."""
        w, b = declared_plane(self.model, w, b)
        return w, b - self.split.level

    def run(
        self, solver: Solver[FeatureForm], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        if isinstance(solver, DCA) and starts > 1:
            solver = replace(solver, n_starts=starts)
        m, n = self.data.m, self.data.n
        with blas_threads(min(m, n), m * n):
            return [self.answer(solver, monitor, start)]

    def answer(self, solver: Solver[FeatureForm], monitor: Monitor, start: Answer | None) -> Answer:
        answer = super().answer(solver, monitor, start)
        w = self.split.G.penalty.project_domain(answer.plane[0])
        return answer if w is answer.w else replace(answer, w=w)  # rounding left it

    def certify(self, answer: Answer, tol: float) -> Proof:
        """Return the proof of an answer; of w = 0 with the best b if that is better and nothing is proven.

        An objective that overflows is of no answer; a w outside of the constraints is one.
        """
        proof, (w, _) = self._proof(answer, tol), answer.plane
        outside = np.isfinite(w @ w) and self.split.G.penalty.value(w) == np.inf
        answered = np.isfinite(proof.objective) or outside
        if not self.split.convex or not answered or is_proven(proof.certificate, tol):
            return proof
        w, b = self.split.constant().plane
        value = self.split.G.value(self.split.G.margins(w, b), w)
        return self._proof(replace(answer, w=w, b=b), tol) if value < proof.objective else proof

    def _proof(self, answer: Answer, tol: float) -> Proof:
        w, b = self._declared(*answer.plane)
        normal = FeatureNormal(self.data.X, w)
        q = iter(answer.multipliers)
        multipliers = [next(q) if moves else None for moves in self.split.varies if answer.multipliers]
        certificate = self.proven(normal, b, answer.slopes, tol, multipliers)
        return Proof(answer, certificate, certificate.primal, w, b)

    def dual_point(self, weights: Vec, normal: Normal, b: float) -> Vec:
        if self.split.convex or not isinstance(normal, FeatureNormal):
            return weights
        w, _ = lifted_plane(self.model, normal.w, b)
        margin = self.data.y * (normal.scores + (b + self.split.level + self.data.y * self.split.G.shift))
        return weights - self.split.subgradient(margin, w).margin

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        convex = self.split.convex
        underflows = proof.certificate.primal == 0.0  # of a positive loss that is an infimum
        if convex and is_proven(proof.certificate, monitor.tol) and not underflows:
            return None
        w, b = self._declared(*proof.answer.plane)
        endless = is_unattained(self.model, self.data, w, b)
        if endless is not None:
            return Verdict("unattained", endless, warns=True)
        if convex:
            return None
        return critical(proof.certificate, monitor.tol, lambda: is_local(self.model, self.data, w, b))

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        w, b = proof.answer.plane
        G = self.split.G
        slopes = proof.answer.slopes
        if slopes is None or self.split.losses:
            margin = G.margins(w, b)
            slopes = G.gradient(margin) if slopes is None else slopes
            slopes = slopes + self.split.subgradient(margin, w).margin
        weights, gram = np.maximum(slopes, G.floors), self.data.gram
        w, b = self._declared(w, b)
        proven = self.split.convex and np.isfinite(weights).all()
        given = constraint_multipliers(self.model, self.data, w, b, weights) if proven else ()
        recovered = Recovered(w, b, None, weights, "variable", multipliers=given)
        return recovered if gram is None else recovered.by_kernel(gram, gram.combination(self.data.X, w))


class FlipsLowering(ObjectiveLowering):
    """The lowering of a Wasserstein ball with label flips; of labels that stay to a norm beside the mean."""

    model: WassersteinObjective

    def __init__(self, model: WassersteinObjective, data: Data, requested: str | Solver = "auto") -> None:
        self.model, self.data, self.requested = model, data, requested
        weights, free = (data.factors / data.factors.sum(),), model.intercept is not None
        if value(model.kappa) == np.inf:
            penalty = ScaledPenalty(value(model.eps), model.length)
            self.form = Composite(data.X, data.y, (model.loss,), (penalty,), weights, intercept=free)
        else:
            self.form = FlipComposite(data.X, data.y, (model.loss,), (), weights, intercept=free, model=model)
        self.split = DifferenceOfConvex(self.form, varies=(True,))

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        if bound.hides_features:
            check_features(bound.model)
        return (cls(bound.model, in_its_space(bound.data, bound.gram), bound.requested),)

    def describe(self) -> dict[str, str]:
        return {"data": self.describe_data()}

    def proven(
        self, normal: Normal, b: float, slopes: Vec | None, tol: float = 0.0, multipliers: Multipliers = ()
    ) -> Certificate:
        # with a kernel the samples have coordinates
        return certify_flips(self.model, self.data, normal, b, slopes, tol, multipliers)  # type: ignore[arg-type]


class BestSubsetLowering(ObjectiveLowering):
    """The lowering of `loss + c * L2() + Cardinality(k)`, which has convex lower bounds."""

    def __init__(self, model: Objective, data: Data, requested: str | Solver = "auto") -> None:
        super().__init__(model, data, requested)
        self.form = self.subset = BestSubset.of(self.split.G)

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        model = bound.model
        if bound.hides_features:
            check_features(model)
        G, H = model.dc()
        squares = [R for R in G.penalties if split_scalar(R)[1].nodes_of_type(KSupport)]
        declared = model.penalty.nodes_of_type(KSupport)
        declared += tuple(R for R in model.penalty.nodes_of_type(LinearConstraint) if R.box() is None)
        if G.joint or H.losses or H.penalties or len(model.relaxed) > 1 or declared or not squares:
            raise CompositionError(
                f"{model.relaxed[0]!r}: expected one such constraint beside a multiple of L2(), otherwise "
                "convex sums of losses, and penalties without k-support norms and constraints but "
                f"NonNegative(), got {brief(model)}; write for example Hinge() + 0.5 * L2() + Cardinality(5)"
            )
        model = replace(model, penalty=evaluated(model.penalty, bound.data))
        return (cls(model, bound.data, bound.requested),)

    @property
    def regime(self) -> Regime:
        return Regime(False, "branch and bound, with convex lower bounds of the global optimum")

    def certify(self, answer: Answer, tol: float) -> Proof:
        w, b = self._declared(*answer.plane)
        normal = FeatureNormal(self.data.X, w)
        certificate = certify_parts(self.model, self.data, normal, b, answer.parts, answer.slopes, tol)
        return Proof(answer, certificate, certificate.primal, w, b)

    def at(self, solution: Solution | None) -> Objective:
        """Return the convex objective over the support of a solution; without one the model itself."""
        if solution is None or solution.w is None:
            return self.model
        known = np.array([*self.subset.support.included, *self.subset.support.excluded], dtype=int)
        kinds = solution.w != 0.0, solution.w == 0.0
        parts = (tuple(np.setdiff1d(np.flatnonzero(kind), known).tolist()) for kind in kinds)
        return replace(self.model, penalty=fixed(self.model.penalty, *parts))

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        found, count = super().verify(solution, tol, **options), int(np.count_nonzero(solution.w))
        others = "the certificate bounds" if is_proven(solution.certificate, tol) else "no bound excludes"
        scope = f"the best weights of the {count} features of the solution; {others} other features"
        return replace(found, scope=scope)


def _hinge_terms(model: Objective, data: Data) -> tuple[float, float, float, Vec] | None:
    """Return (p, C, lam, sample weights) of `C * Hinge(p) + lam * L2()`; None for another model, or weight 0.

    Two such losses, one for each class, count as one.
    """
    G, H = model.dc()
    if model.needs or H.losses or H.penalties or model.intercept != "free":
        return None
    losses, weights = weighed(G.losses, data)
    C, loss = split_scalar(losses[0]) if len(losses) == 1 else (0.0, None)
    if not isinstance(loss, Hinge) or loss.offset != 1.0:
        return None
    lam = CombinedPenalty(G.penalties).square
    c = data.factors if weights[0] is None else weights[0]
    return None if lam is None or not c.all() else (loss.p, C, lam, c)


def critical(certificate: Certificate, tol: float, is_local: Callable[[], bool]) -> Verdict | None:
    """Return the verdict on a point where the next convex problem gains no more than `tol`; else None."""
    gap = certificate.relative_gap
    if not (certificate.violation <= tol and gap <= tol):
        return None
    if is_local():
        affine = "and a local minimum: the subtracted part is affine there"
        return Verdict("local", f"critical (residual {gap:.2g}), {affine}")
    return Verdict("stationary", f"critical: the next convex problem gains at most {gap:.2g}")


class HingeDualLowering(_PenalizedLowering[HingeDual]):
    """The lowering of the pSVM of Sun (2024), `C * Hinge(p) + lam * L2()`, to its dual, kernel or linear.

    Problem (17) in units of lam = 1/2, in multipliers of the samples that change in pairs.

    terms : (p, C, lam, (m,) the weights of the samples)
    gram : the Gram matrix, or None without a kernel
    """

    bias_rules = ("auto", "multipliers")

    def __init__(
        self,
        model: Objective,
        terms: tuple[float, float, float, Vec],
        data: Data,
        gram: Gram | None,
        requested: str | Solver = "auto",
    ) -> None:
        self.model, self.data, self.gram, self.requested = model, data, gram, requested
        p, C, lam, weights = terms
        self.factor = 2.0 * lam
        linear = gram is None or gram.kernel.name == "linear"  # the features are known
        limit = () if gram is None else (gram.limit,)
        self.form = HingeDual(
            data.y,
            np.ascontiguousarray(weights * (C / self.factor)),
            p,
            gram if gram is not None and not linear else Gram(Kernel("linear"), data.centred.X, *limit),
            data.X if linear else None,
        )

    @property
    def regime(self) -> Regime:
        return Regime(True, "for every C > 0")

    def describe(self) -> dict[str, str]:
        m, gram, form = self.data.m, self.gram, self.form
        space = f"{self.data.n} features"
        if gram is not None:
            rows = "all" if gram.fits else f"{min(m, gram.limit // (4 * m))}"
            space = f"{gram.kernel}, cache_size holds {rows} rows of its matrix"
        cap = ", a <= C" if form.p == 1.0 else ""
        return {
            "data": f"{m} samples, {space}",
            "form": f"the dual (17) of Sun (2024), p = {form.p:g}: {m} multipliers, y'a = 0{cap}",
        }

    def warm_start(self, warm: Solution) -> Answer | None:
        if warm.weights is None or warm.weights.size != self.data.given:
            raise warm_start_error("over the same samples")
        weights = self.data.weighing.gather(warm.weights)
        return None if weights is None else Answer(slopes=weights / self.factor)

    def certify(self, answer: Answer, tol: float) -> Proof:
        form, X, data = self.form, self.form.X, self.data
        a = np.zeros(form.m) if answer.slopes is None else answer.slopes
        c = a * data.y
        w = None if X is None else np.asarray(X.T @ c).ravel()
        normal = KernelNormal(form.gram, c) if w is None else FeatureNormal(X, w)
        program = Pairs.of_hinge(form)
        b = -float(program.thresholds(c, program.gradient(c, normal.scores))[0])
        certificate = self.proven(normal, b, self.factor * a)
        return Proof(answer, certificate, certificate.primal, w, b)

    @property
    def hidden(self) -> Gram | None:
        return None if self.form.X is not None else self.form.gram

    def normal_by_kernel(self, c: Vec) -> Normal:
        return KernelNormal(self.form.gram, c)

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        certificate, gram = super().certify_external(external), self.gram
        c = external.per_sample("coefficients", self.data)
        if c is None or gram is None or negative_curvature(gram, c != 0.0) is None:
            return certificate
        return without_lower_bound(certificate)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        """Return the verdict "indefinite" for a kernel found indefinite, as no gap is a proof; else None."""
        answer, certificate, gram, why = proof.answer, proof.certificate, self.gram, None
        if answer.status == "indefinite":
            why = answer.message
        elif gram is not None and certificate.violation <= monitor.tol:
            if certificate.dual == -np.inf and not gram.kernel.definite:
                why = "the kernel is indefinite: the dual exceeds the primal objective"
            else:
                a = np.zeros(self.form.m) if answer.slopes is None else answer.slopes
                why = negative_curvature(gram, a > 0.0)
        if why is None:
            return None
        message = f"{solver} stopped with a relative gap of {certificate.relative_gap:.2g}. {why}"
        return Verdict("indefinite", message, warns=True)

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        a = np.zeros(self.form.m) if proof.answer.slopes is None else proof.answer.slopes
        c = a * self.data.y
        recovered = Recovered(proof.w, proof.b, None, self.factor * a, "multipliers", c)
        return recovered if proof.w is not None else recovered.by_kernel(self.form.gram, c)


def negative_curvature(gram: Gram, support: np.ndarray) -> str | None:
    """Return a message if the kernel is proven indefinite over the support vectors; else None.

    Without support vectors it takes all samples. Of more than `_TESTED` rows it takes as many, evenly spaced:
    a negative eigenvalue of a part is a bound of that of the whole matrix.
    """
    if gram.kernel.definite:
        return None
    rows, of = np.flatnonzero(support), "support vectors"
    if rows.size == 0:
        rows, of = np.arange(gram.m), "samples"
    rows = rows[:: -(-rows.size // _TESTED)]
    K = gram.between(rows, rows)
    allowed = 1e-8 * float(np.abs(K).max()) * rows.size
    try:
        np.linalg.cholesky(K + allowed * np.eye(rows.size))
        return None  # a Cholesky factor costs a tenth of the eigenvalues
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    return (
        f"the kernel is indefinite: its matrix over {rows.size} {of} has the eigenvalue "
        f"{least:.3g}, so the answer is a stationary point; use a positive semidefinite kernel such "
        "as rbf"
    )
