"""Lowerings of a robust-margin model: to the minimum-norm problem or, for 0 in U, over the unit sphere."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import sparse

from ucm.compiler.lowering import (
    BoundModel,
    ExternalAnswer,
    Form,
    Lowering,
    Proof,
    Recovered,
    Regime,
    Verdict,
    check_combinations,
    check_features,
    warm_start_error,
)
from ucm.compiler.objective import negative_curvature
from ucm.compiler.recover import (
    bias,
    coefficients_of,
    feature_normal,
    ignores_origin,
    sample_weights,
    summand_points,
)
from ucm.compiler.route import choose, refusal, requested_solvers, table, verdicts
from ucm.data.bound_data import Data, GramSpace, Space
from ucm.data.deadline import OutOfTime
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.evidence.certificate import certify, is_proven, unproven, without_lower_bound
from ucm.evidence.external_certificate import both_sides, broken_rule, of_weights
from ucm.evidence.feasible_point import member, nearest_member
from ucm.evidence.reference import Verification, linearised, reference_problem, verify, verify_stationary
from ucm.evidence.sphere import at_kink, certify_unit, has_full_rank, lower_bound
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import CRITICAL, CROSSED, INSIDE, SEPARATED, ZERO, Monitor, time_of
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.forms.sphere_proof import LowerBoundProof
from ucm.language import cvx as cp
from ucm.language.notation import TEXT
from ucm.language.robust import RobustMargin
from ucm.language.sets.intersection import Intersection
from ucm.language.statistics.affine import MatrixNode
from ucm.native.threads import blas_threads
from ucm.ranges.parameter_range import advice
from ucm.solvers import SMO, Facets
from ucm.solvers.nearest_point import NearestPoint
from ucm.solvers.sphere.affine_rules import lower_bound_rule
from ucm.solvers.sphere.ray_shooting import radial

_WIDE = 2e8  # largest number of entries of a basis of the span of the samples
_COORDINATES = 1000  # largest number of samples for a factor of the Gram matrix under "auto"
_SPANNED = 500  # largest dimension in which the span of U takes a fraction of a second
_FEW = 6  # largest dimension for bounds by polytopes
_POINTS = 20_000  # largest number of points of a polytope
_CANCELLED = 1e-14  # of the largest column, or of the samples: the rounding error of x by cancellation
_NO_RULE = "no rule with a positive bound was found; plan.bound() looks longer"


def proof_of_distance(
    proof: Proof, norm: float, tol: float, resolution: float, rounding: Callable[[], float]
) -> Proof:
    """Return the proof of a point of U with its objective; with w = 0 if the point counts as 0.

    The point counts as 0 if its norm is within the resolution of the space, whatever the tolerance is, and
    the worst case along w exceeds neither this resolution nor rounding errors.
    """
    certificate, size = proof.certificate, proof.size
    if certificate.violation <= INSIDE and norm <= resolution * size:
        proven = resolution < GramSpace.resolution and is_proven(certificate, tol)
        least = SEPARATED if proven else resolution
        if not certificate.primal < -(least * size + rounding()):
            certificate = unproven(-norm, certificate.violation)
            zero = np.zeros(0 if proof.w is None else proof.w.size)
            return replace(proof, certificate=certificate, objective=0.0, w=zero)
    objective = -norm if np.isfinite(certificate.dual) else certificate.primal
    return replace(proof, objective=objective)


def minimum_norm(model: RobustMargin, data: Data) -> MinNorm:
    """Return the minimum-norm problem of a model for bound data, computed once."""

    def make() -> MinNorm:
        with blas_threads(data.n, max(data.stored, data.n**2)):  # forms and factors covariances
            return MinNorm.of(model.set.lower(data), model.dual, data.stored, data.space)

    return model.once("form", make, data)


class _RobustLowering(Lowering[Form]):
    """Base class of the lowerings of a robust margin, for 0 outside of U and for 0 in U."""

    model: RobustMargin
    image: MinNorm

    def describe(self) -> dict[str, str]:
        form, data = self.image, self.data
        sizes = ", ".join(f"R^{b.map.shape[1]} with {b.domain.formula(TEXT)}" for b in form.blocks)
        how = "features spanning it" if data.space.gram is None else "rows of its Gram matrix as needed"
        facts = {
            "data": self.describe_data(how),
            "form": f"min ||c + sum A_k q_k||_{form.norm:g} in dimension {form.n}; q in {sizes or 'none'}",
        }
        if count := len(form.couplings):
            many = "s" if count > 1 else ""
            facts["coupled"] = f"{count} intersection{many}, {form.coupled} equations"
        facts["cost"] = (
            f"a pass, X w and X'q, has {2 * data.stored:,} operations; "
            f"A q and A'w take {form.pass_cost():.3g} passes"
        )
        return facts

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        model, data, form = self.model, self.data, self.image
        external.refuse("the objective of a set has no bias", "b")
        external.refuse_space(data.gram is not None, " or weights")
        w, c = external.vector("w", form.n), external.per_sample("coefficients", data)
        unit = None
        if w is not None:
            unit = data.space.direction(w, model.norm)
        elif c is not None and data.space.gram is not None:
            unit = data.space.dual_vector(c, 2.0) if data.space.norm(c) > 0.0 else None
        elif c is not None:
            unit = data.space.direction(np.asarray(data.X.T @ c), 2.0)
        if unit is None and not (w is None and c is None):
            raise ParameterError("certify: w: expected a direction, got 0; give a w other than 0")
        x, weights = external.vector("x", form.n), external.per_sample("weights", data)
        broken, violation = "", math.nan
        if weights is not None:
            external.refuse("weights give the point; give one of both", "x")
            blocks = of_weights(form, weights)
            x, violation = member(model, data, blocks)
            broken = broken_rule(form, blocks, violation, data.y)
        elif x is not None:
            x, violation = nearest_member(model, data, form, x)
            broken = f"x is {violation:.3g} of its length away from U"
        if unit is None and x is None:
            raise ParameterError(
                "certify: expected an answer, got none; give w, weights of the samples or a point x of U"
            )
        certificate = both_sides(model, data, unit, x, violation, broken)
        rows = [v != 0.0 for v in (c, weights) if v is not None]
        if data.space.gram is None or not rows:
            return certificate
        indefinite = negative_curvature(data.space.gram, np.logical_or.reduce(rows))
        return certificate if indefinite is None else without_lower_bound(certificate)

    def advice(self, monitor: Monitor, *, empty: bool = False) -> str:
        """Return a text with the sizes for which U is not empty and 0 lies outside of U, if known."""
        gram = self.data.gram
        if gram is not None and self.data.space.gram is not None and not gram.fits:
            return (
                f"The admissible sizes need the whole Gram matrix, {gram.megabytes:.0f} MB, more than it may "
                "take: take features in place of the kernel, kernel_approx=500, or raise cache_size of "
                "ucm.compile"
            )
        return advice(self.model, self.data.in_coordinates, monitor, empty=empty)

    def _summand_points(self, q: list[Vec]) -> tuple[Vec, ...]:
        """Return the point of every Minkowski summand, after a check for changed samples."""
        self.data.check_unchanged()
        return summand_points(self.model.set, self.data.as_given, q)

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        model, data, w, x, q = self.model, self.data, proof.w, proof.x, proof.answer.q
        gram, b, rule, rho, make, normal = data.gram, None, "none", None, None, None
        if w is not None and w.any():
            # With 0 in U a multiplier or a midpoint need not lie between the classes.
            one_class = data.source is None and abs(data.y.sum()) == data.y.size
            if bias_rule == "auto" and proof.objective >= -Space.resolution * proof.size and not one_class:
                bias_rule = "min_error"
            b, rule, rho = bias(bias_rule, model.set, self.image, data, q, w)
        if gram is None and w is not None:
            if x is not None and len(q) == len(self.image.blocks):
                make = functools.partial(self._summand_points, q)
            normal = feature_normal(model.set, w)
            normal = None if normal is w else normal
        weights = sample_weights(self.image, q, data.m) if q else None
        recovered = Recovered(w, b, x, weights, rule, make_summand_points=make, rho=rho, normal=normal)
        if gram is not None and w is not None and x is not None:
            c, point = coefficients_of(model, data, gram, q, w, x)
            if gram.kernel.name != "linear":
                return recovered.by_kernel(gram, c)
            w, x = np.asarray(gram.X.T @ c), np.asarray(gram.X.T @ point)  # in the features
            recovered = replace(recovered, w=w, x=x, coefficients=c)
        if b is None or w is None or rule == "zero" or not data.origin.any():
            return recovered
        return replace(recovered, b=b - float(data.origin @ (w if normal is None else normal)))


class DistanceLowering(_RobustLowering[MinNorm]):
    """The lowering of a robust margin to `min ||x||_q`; `beyond` is the solver for 0 in U, None for w = 0."""

    def __init__(
        self,
        model: RobustMargin,
        data: Data,
        requested: str | Solver = "auto",
        beyond: str | Solver | None = "auto",
    ) -> None:
        why = model.set.infeasibility_reason(data)
        if why is not None:
            raise EmptySetError(why)
        self.model, self.data, self.requested, self.beyond = model, data, requested, beyond
        self.image = self.form = minimum_norm(model, data)
        self._cached_regime: Regime | None = None

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        """Return the lowering over features, coordinates of the samples' span, or inner products."""
        model, data, gram, solver = bound.model, bound.data, bound.gram, bound.requested
        if data.approx is not None or gram is not None:
            check_features(model.set)
        model.set.dimension(data.n)
        beyond = "auto" if solver == "auto" else solver if requested_solvers(solver, UnitNorm) else None
        requested = solver if beyond is None or requested_solvers(solver, MinNorm) else "auto"
        spanned = gram is None and solver == "auto" and _in_span(model, data)
        if gram is not None or spanned:
            check_combinations(model.set, data)
        centred = data if bound.hides_features else data.centred
        if centred is not data and ignores_origin(model.set, data.n):
            data = centred
            gram = gram if gram is None or not data.origin.any() else Gram(gram.kernel, data.X, gram.limit)
        if gram is not None:
            if model.norm != 2.0:
                raise CompositionError(
                    "kernel: expected the Euclidean norm only, as of inner products, got "
                    f"norm={model.norm:g}; use norm=2, or an approximation of the kernel, kernel_approx=500"
                )
            rows = _by_rows(model, data, gram, requested)
            data = data.in_gram_space(gram) if rows else data.in_feature_space(gram)
        elif spanned:
            data = data.in_feature_space(Gram(Kernel("linear"), data.X))
        return (DistanceLowering(model, data, requested, beyond),)

    @property
    def by_rows(self) -> bool:
        """True if the form uses inner products of the samples only, without coordinates."""
        return self.data.space.gram is not None

    @functools.cached_property
    def unit(self) -> UnitNorm:
        """The problem over the unit sphere, for 0 in U."""
        return UnitNorm.of(self.form, self.model.norm)

    @property
    def regime(self) -> Regime:
        return self._known_regime(Monitor()) or Regime(True, "the solve decides")

    def _known_regime(self, monitor: Monitor) -> Regime | None:
        """Return the regime, computed once; None if the time limit comes first."""
        if self._cached_regime is None and not monitor.timed_out:
            regime = self._regime(monitor)
            self._cached_regime = None if monitor.timed_out else regime
        return self._cached_regime

    def _regime(self, monitor: Monitor) -> Regime:
        """Return the regime, by a test of whether 0 lies in U.

        A direction that separates 0 from U proves that it does not. The centre c of U is tried; then the
        program `max {s : -s c in U}`, not negative exactly when 0 lies in U, and whose dual vector
        separates otherwise: over hulls it is a linear program, equivalent to (30) of Barbero, Takeda and
        Lopez (2015).
        """
        if self.by_rows:
            return Regime(True, "the solve decides, as there are inner products only")
        form, data, unit = self.form, self.data, self.unit
        middle = form.centers()
        center = form.off_lines(form.matvec(middle))
        norm = data.space.norm(center)
        if norm == 0.0 and not form.couplings:  # the centre may violate the couplings
            return Regime(False, "0 is the centre of U")
        if norm == 0.0:
            return Regime(True, "the solve decides, as the couplings may leave no point")
        if self.model.set.support(data, -center / norm, {})[0] < 0.0:
            return Regime(True, "the difference of the centres separates 0 from U")
        inside = unit.lower(center)
        if data.space.norm(center - unit.lift(inside)) > 1e-6 * norm:
            return Regime(True, "0 is not in the affine hull of U")
        ray_in = radial(unit, monitor.child(1e-6))
        ray = ray_in(inside / norm)
        program = "linear program" if unit.hulls is not None else "conic program"
        if ray is not None and ray.s >= 0.0 and form.coupling_violation(middle) > INSIDE:
            # a centre that misses the couplings is not in U; the point of the ray is
            middle = ray.q
            center = form.off_lines(form.matvec(middle))
            norm = data.space.norm(center)
            if norm > 1e-9 * form.largest:
                ray = ray_in(unit.lower(center) / norm)
        if ray is None:
            return Regime(True, f"the {program} for 0 in U had no answer; the solve decides")
        if ray.s < 0.0:
            return Regime(True, f"a {program} separates 0 from U")
        part = ray.s / (norm + ray.s)
        point = [part * c + (1.0 - part) * v for c, v in zip(middle, ray.q, strict=True)]
        certificate, _, x, _ = certify(self.model, data, point)
        floor = certificate.dual
        if math.isfinite(floor):
            floor = -data.space.norm(form.off_lines(x), form.norm)
        return Regime(False, f"0 lies in U, by a {program}", floor)

    @property
    def extends(self) -> bool:
        """True if a solve may continue with the problem over the unit sphere, for 0 in U."""
        if self.beyond is None:
            return False
        if self.requested != "auto" and all(
            refusal(s, self.unit) for s in requested_solvers(self.beyond, UnitNorm)
        ):
            return False
        if self.by_rows and self.data.gram is not None:
            return self.data.gram.fits
        return self.finite

    @functools.cached_property
    def finite(self) -> bool:
        """True if U has a finite worst case along some w that is known, where solvers start for 0 in U."""
        return self.unit.rank > 0 and math.isfinite(self.unit.height(self.unit.start()))

    def describe_other(self, solver: str, verbose: bool) -> list[str]:
        if self.regime.convex:
            return []
        if self.beyond is None:
            return [f"0 in U    {solver}, named, ends with zero_in_set"]
        further = SphereLowering(self, self.regime.floor)
        return [f"0 in U    {further.problem}", *further.describe_other(solver, verbose)]

    def before_solve(self, monitor: Monitor) -> Lowering | None:
        # the solver asked for may take the sphere only, and other norms may not resolve 0
        on_sphere = self.requested == "auto" != self.beyond
        return self._beyond(monitor) if not self.by_rows and (on_sphere or self.form.norm != 2.0) else None

    def after_proof(self, proof: Proof, monitor: Monitor) -> Lowering | None:
        zero, ended = self._zero_in_set(proof), proof.answer.status in ("infeasible", "interrupted")
        # by a proof, emptiness, an interruption or the limits: no other form ends better
        if not zero and (is_proven(proof.certificate, monitor.tol) or ended or not monitor.may_continue):
            return None
        if monitor.timed_out and (self.by_rows or self.form.n > _SPANNED):
            return None
        return self._beyond(monitor, proof.certificate.dual if zero else None)

    def _beyond(self, monitor: Monitor, floor: float | None = None) -> Lowering | None:
        """Return the lowering over the sphere, if a solve may continue with it and 0 lies in U."""
        try:
            # few coordinates always give a direction
            with time_of(monitor if self.form.n > _SPANNED else None):
                if not self.extends:
                    return None
                if self.by_rows:
                    return DistanceLowering(self.model, self.data.in_coordinates)
                if floor is None:
                    regime = self._known_regime(monitor)
                    if regime is None or regime.convex:
                        return None
                    floor = regime.floor
                return SphereLowering(self, floor)
        except OutOfTime:
            return None

    def warm_start(self, warm: Solution) -> Answer | None:
        answer = warm.answer
        if answer is None or not answer.q:
            return None
        if [v.size for v in answer.q] != [b.map.shape[1] for b in self.form.blocks]:
            raise warm_start_error("of the same set over the same samples")
        w = answer.w
        if w is None or w.size != self.form.n or not w.any():  # w is 0, or in other coordinates
            return Answer(answer.q)
        return Answer(answer.q, -warm.objective * w)

    def run(
        self, solver: Solver[MinNorm], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        form = self.form
        if form.blocks:
            return [self.answer(solver, monitor, start)]
        # a single point, or several points that must coincide
        gap = max((float(np.abs(c.offset).max()) for c in form.couplings), default=0.0)
        if gap > 1e-12 * max(self.data.scale, float(np.abs(form.center).max())):
            return [Answer(status="infeasible", message=f"its points lie {gap:.3g} apart")]
        return [Answer(multipliers=[np.zeros_like(c.offset) for c in form.couplings])]

    def certify(self, answer: Answer, tol: float) -> Proof:
        if answer.status == "infeasible":
            # the declaration is asked, not the solver
            if self.model.set.evaluate(self.data, iter(self.form.centers()))[1] <= INSIDE:
                raise SolverError(
                    "the solver ended with the status 'infeasible', and the centre of U lies in U: expected "
                    "a point of it, got none; take another solver"
                )
            zero = np.zeros(self.form.n)
            return Proof(answer, unproven(), -np.inf, zero, None, zero)
        form, splits, size = self.form, self.form.splits(answer), self.form.size(answer.q)
        prove = functools.partial(
            certify, self.model, self.data, answer.q, splits=splits, tol=tol,
            size=size, terms=self._largest_column,
        )  # fmt: skip
        certificate, w, x, q = prove(answer.w)
        if certificate.primal == np.inf:
            direction = form.bounded(w)
            if direction is not None:
                certificate, w, x, q = prove(direction)
        if any(moved is not before for moved, before in zip(q, answer.q, strict=True)):
            answer, size = replace(answer, q=q), form.size(q)
        norm = self.data.space.norm(x, self.model.dual)
        resolution = self.data.space.resolution
        cancelled = self.data.gram is None and x.size == self.data.n and norm <= _CANCELLED * self.data.scale
        if cancelled:
            cancelled = bool((np.abs(x) <= _CANCELLED * self.data.sizes).all())
        if cancelled or not is_proven(certificate, tol):  # the sizes of U and of rounding decide
            size = max(size, form.largest, _CANCELLED * self.data.scale / resolution)
        proof = Proof(answer, certificate, math.nan, w, None, x, size)
        return proof_of_distance(proof, norm, tol, resolution, lambda: _CANCELLED * self._largest_column())

    def _zero_in_set(self, proof: Proof) -> bool:
        """True if the proof has w = 0 and a point in U, so that 0 counts as a point of U."""
        inside = proof.certificate.violation <= INSIDE
        return inside and proof.w is not None and not proof.w.any()

    def settled(self, proof: Proof, tol: float) -> bool:
        return super().settled(proof, tol) or self._zero_in_set(proof)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        if proof.answer.status == "infeasible":
            hint = self.advice(monitor, empty=True)
            raise EmptySetError(f"{self.model.set!r}: empty, {proof.answer.message}. {hint}")
        gram, q = self.data.space.gram, proof.answer.q
        weights = sample_weights(self.image, q, self.data.m) if gram is not None and q else None
        if gram is not None and weights is not None:
            why = negative_curvature(gram, weights != 0.0)
            if why is not None:
                return Verdict("indefinite", f"{solver} stopped. {why}", warns=True)
        if not self._zero_in_set(proof):
            return None
        if monitor.timed_out and (self.form.n > _SPANNED or self.extends):
            limit = f"the time limit of {monitor.time_limit:g} s came first"
            return Verdict("time_limit", f"0 may lie in U, and {limit}", warns=True)
        if not sparse.issparse(self.data.X) and not np.ptp(self.data.X, axis=0).any():
            constant = "all features are constant, so 0 lies in U and w = 0; give features that vary"
            return Verdict("zero_in_set", constant)
        message = "0 lies in U, so no direction has a positive worst-case margin and w = 0."
        if not self.by_rows and self.unit.rank > 0 and not self.finite:
            message += " U has no bound, and no w with a finite worst case is known: bound its domains."
        if not self.extends:  # else another lowering continues
            message += f" {self.advice(monitor)}"
        return Verdict("zero_in_set", message)

    def _largest_column(self) -> float:
        columns = [float(b.map.column_norms().max(initial=0.0)) for b in self.form.blocks]
        return max(columns, default=0.0)

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        return reference_problem(self.model, self.data.by_spectrum, scaled).problem

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        if self.data.gram is not None and solution.answer is not None:
            c = self.model.set.evaluate(self.data.over_samples, iter(solution.answer.q))[0]
            solution = replace(solution, x=self.data.by_spectrum.X.T @ c)
        return verify(self.model, self.data.by_spectrum, solution, tol, **options)


def _in_span(model: RobustMargin, data: Data) -> bool:
    """True for a covariance or an intersection of wide sparse samples: dense vectors dominate the cost."""
    few = sparse.issparse(data.X) and data.m <= _COORDINATES
    if not few or data.m * data.n <= _WIDE or model.norm != 2.0 or model.set.in_features():
        return False
    return bool(model.nodes_of_type(MatrixNode) or model.nodes_of_type(Intersection))


def _by_rows(model: RobustMargin, data: Data, gram: Gram, requested: str | Solver) -> bool:
    """True if a kernel model is solved from rows of the Gram matrix, without coordinates from a factor.

    Under "auto" a kernel that is positive semidefinite by its formula has this solver; any other kernel needs
    the factor of the Gram matrix as a proof, unless the factor costs too much.
    """
    if requested == "auto" and gram.fits and not gram.kernel.definite and data.m <= _COORDINATES:
        return False
    solvers = [SMO()] if requested == "auto" else requested_solvers(requested, MinNorm)
    space = data.in_gram_space(gram)
    if not any(isinstance(s, NearestPoint) for s in solvers) or model.set.infeasibility_reason(space):
        return False
    return any(refusal(s, minimum_norm(model, space)) is None for s in solvers)


class SphereLowering(_RobustLowering[UnitNorm]):
    """The lowering to `min f(w)` over the unit sphere for 0 in U, with `f(w) = max over U of -w'x`."""

    def __init__(self, convex: DistanceLowering, floor: float) -> None:
        self.model, self.data, self.image = convex.model, convex.data, convex.image
        self.form, self.floor, self.size = convex.unit, floor, convex.image.largest
        self.requested = "auto" if convex.beyond is None else convex.beyond
        self.unbounded = ""  # the reason for no lower bound

    @property
    def regime(self) -> Regime:
        return Regime(False, "0 lies in U", self.floor)

    @property
    def problem(self) -> str:
        """The text of the problem over the unit sphere, for `explain()`."""
        form = self.form
        where = f"the span of U, dimension {form.rank} of {form.image.n}" if form.flat else "R^n"
        where += ", orthogonal to the lines in U" if form.image.endless[0].size else ""
        where += ", <r, w> >= 0 for the rays r of U" if form.rays.size else ""
        return f"min f(w) over ||w||_{self.model.norm:g} = 1, w in {where}"

    def describe(self) -> dict[str, str]:
        return {**super().describe(), "0 in U": self.problem}

    def describe_other(self, solver: str, verbose: bool) -> list[str]:
        if self.form.rank == 0:
            return []
        return table(verdicts(self.form, self.requested, choose(self.form, self.requested)), verbose)

    def warm_start(self, warm: Solution) -> Answer | None:
        if warm.w is None or not warm.w.any():
            return None
        if warm.w.size != self.image.n:
            raise warm_start_error("over the same features")
        inside = self.data.space.norm(self.form.lower(warm.w)) > 0.0
        return Answer(w=warm.w) if inside else None

    def run(
        self, solver: Solver[UnitNorm], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        """Return the answers from `start` or the default start, and from up to `starts - 1` random w."""
        form, generator = self.form, np.random.default_rng(solver.seed)
        answers = [self.answer(solver, monitor, start)]
        if monitor.bound and answers[0].witness is None and self.floor <= 0.0:
            self._bound(lower_bound_rule(form, monitor))
        while len(answers) < starts and answers[-1].status != "interrupted" and not monitor.timed_out:
            if self._bound_is_tight(self.certify(answers[-1], monitor.tol).certificate, monitor.tol):
                break  # no start can end lower
            monitor.start += 1
            w = form.lift(generator.standard_normal(form.rank))
            answers.append(self.answer(solver, monitor, Answer(w=w)))
        return answers

    def _bound(self, witness: LowerBoundProof | str) -> None:
        """Update the lower bound by a witness, or store the reason for a missing witness."""
        if isinstance(witness, str):
            self.unbounded = witness
            return
        self.floor = max(self.floor, lower_bound(self.model, self.data, self.form, witness))
        self.unbounded = "" if self.floor > 0.0 else _NO_RULE

    def tighten(self, ratio: float, solution: Solution, monitor: Monitor) -> Vec | None:
        """Search for a lower bound of `ratio` times the objective; return a better w if one is found."""
        form, w, best = self.form, None, solution.objective
        if form.rank <= _FEW and not form.image.couplings:
            polytope = Facets(most=_FEW, max_points=_POINTS, ratio=ratio)
            answer = self.answer(polytope, monitor.child(monitor.tol), self.warm_start(solution))
            if answer.witness is not None:
                self._bound(answer.witness)
            objective = form.height(form.lower(answer.plane[0]))
            if objective < best:
                w, best = answer.w, objective
        if self.floor < ratio * (1.0 - monitor.tol) * best:
            self._bound(lower_bound_rule(form, monitor, best=True))
        return w

    def certify(self, answer: Answer, tol: float) -> Proof:
        model, data, form = self.model, self.data, self.form
        w = data.space.direction(answer.plane[0], model.norm)
        if w is None or data.space.norm(w - form.lift(form.lower(w))) > 1e-6:
            raise SolverError(
                "the solver's normal w: expected a vector of the span of U, of length 1, got "
                f"{'0' if w is None else 'one with a part outside'}; project it on form.basis"
            )
        answer = replace(answer, w=w)
        certificate, x = certify_unit(model, data, form, answer, w, self.floor, self.size)
        inside = certificate.violation <= CRITICAL
        if inside and certificate.kind == "local":
            bound_is_known = certificate.dual > 0.0 or self._bound_is_tight(certificate, tol)
            certificate = replace(certificate, kind="global" if bound_is_known else "local")
        kernel = self.data.gram is not None
        if inside and kernel and self._at_zero(certificate, GramSpace.resolution):
            certificate = unproven(certificate.dual, certificate.violation)
            nothing = np.zeros_like(w)
            return Proof(replace(answer, w=nothing), certificate, 0.0, nothing, None, x, self.size)
        return Proof(answer, certificate, certificate.primal, w, None, x, self.size)

    def _bound_is_tight(self, certificate: Certificate, tol: float) -> bool:
        """True if the relative gap is at most `tol`, or 0 lies on the boundary of U."""
        closed = -CROSSED <= certificate.relative_gap <= tol
        return closed or self._at_zero(certificate, ZERO)

    def _at_zero(self, certificate: Certificate, part: float) -> bool:
        """True if a point of U counts as 0, and the objective is at most `part` of the size of U."""
        return certificate.dual >= -ZERO * self.size and certificate.primal <= part * self.size

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        tol = monitor.tol
        certificate, form, w, size = proof.certificate, self.form, proof.answer.plane[0], proof.size
        if not w.any():
            return Verdict(
                "zero_in_set",
                f"the objective is 0 within {GramSpace.resolution * self.size:.2g}, which the inner products "
                "of the kernel do not resolve: w = 0. Make the set smaller or the kernel narrower",
            )
        residual = certificate.residual or 0.0
        if certificate.kind == "global" and self._bound_is_tight(certificate, tol):
            if -CROSSED <= certificate.relative_gap <= tol:
                return Verdict("optimal", f"proven: {certificate}; 0 lies in U")
            return Verdict(
                "zero_in_set", f"0 lies on the boundary of U: the objective is 0 within {certificate.gap:.2g}"
            )
        if (
            certificate.kind != "none"
            and certificate.violation <= CRITICAL
            and residual <= tol * max(size, 1e-300)
        ):
            facts, kink = f"0 lies in U; {residual:.2g} from stationary", at_kink(form, w)
            if has_full_rank(form, w):
                edge = "; the norm has a kink there" if kink else ""
                status = "stationary" if kink else "local"
                return Verdict(
                    status,
                    f"{facts}, and the ties of the margins pin w{edge}{self._distance_text(certificate)}",
                )
            where = f", at a kink of the {self.model.norm:g}-norm" if kink else ""
            return Verdict("stationary", f"{facts}{where}{self._distance_text(certificate)}")
        message = (
            f"{solver} stopped {residual:.2g} from stationary with a violation of "
            f"{certificate.violation:.2g}, tolerance {tol * size:.2g}. "
            + (proof.answer.message or "Take another solver, or more starts.")
        )
        return Verdict(proof.answer.status, message, warns=True)

    def _distance_text(self, certificate: Certificate) -> str:
        """Return a clause on the distance of the objective from the optimum."""
        if certificate.kind == "global" and certificate.dual > 0.0:
            percent = math.floor(100.0 * certificate.dual / certificate.primal)
            return f"; the optimum is at least {percent} % of the objective"
        return f"; how far from the optimum is not known: {self.unbounded}" if self.unbounded else ""

    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """Return the CVXPY problem linearised at the w of a solution."""
        if at is None or at.answer is None or at.answer.w is None:
            raise ParameterError(
                "reference: where 0 lies in U it is the program around a solution; "
                "give one, reference(solution)"
            )
        return linearised(self.model, self.data, self.form, at.answer, scaled).problem

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        return verify_stationary(self.model, self.data, self.form, solution, tol, **options)
