"""CVXPY reference problems of sets and objectives, and their comparison with solutions.

The problems are the nearest point of a set, the program linearised at a normal, the majorant of an objective
at a point, and its dual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ucm.data.bound_data import Data, with_column
from ucm.data.linear_map import Matrix, Vec
from ucm.errors import CompositionError, SolverError
from ucm.evidence.certificate import is_proven
from ucm.evidence.diagnosis import Finding, Problem, diagnose
from ucm.evidence.objective import at_worst, tangent_plane, weights_in
from ucm.evidence.sphere import contradiction, normal_near
from ucm.forms.bound import FeatureNormal
from ucm.forms.display import sheet
from ucm.forms.objective import lifted_plane
from ucm.forms.solution import Solution
from ucm.forms.solver import Answer
from ucm.forms.sphere import UnitNorm
from ucm.language import cvx as cp
from ucm.language.domains.conic_form import support
from ucm.language.objective import Objective
from ucm.language.parameter import Parameters
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.robust import RobustMargin
from ucm.language.robust_samples import Perturbations
from ucm.language.terms import ConvexLoss, loss_cvxpy
from ucm.numerics.conic_programs import absent, accuracy, attempt

_AGREED = 1e-6  # relative difference up to which two objectives agree
_TIGHT = 1e-10  # accuracy of Clarabel, first; not every problem can reach it
_ATTEMPTS = (accuracy("CLARABEL", _TIGHT), {})
_MENDED = 1e-9  # accuracy of another reference solver that is off at its default
_AT_SOLUTION = "the convex problem at the solution; this confirms no global optimum"
_REDUCED = 5e-5  # its accuracy where it reports an inaccurate solution
_WITHOUT_BOUND = ("zero_in_set", "unattained", "indefinite")  # statuses that claim no lower bound


# --- problems --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Reference:
    """A CVXPY problem with a `cvxpy.Parameter` named after every hyperparameter, and a scaled copy.

    `unit` is the problem in units of `scale`, for solvers with absolute tolerances, and z its variable.
    """

    problem: cp.Problem
    unit: cp.Problem
    scale: float
    z: cp.Variable


def reference_problem(model: RobustMargin, data: Data, scaled: bool = True) -> Reference:
    """Return the DPP problem `maximise -||x||_q over x in U`, with x in units of max |X| if `scaled`."""
    scope, scale = Parameters(scaled), data.scale if scaled else 1.0
    expression, constraints = model.set.cvxpy(data, scope)
    z = cp.Variable(expression.shape[0], name=f"x / {scale:.3g}" if scaled else "x")
    constraints = [z == (expression / scale if scaled else expression), *constraints]
    q = model.dual
    norm = cp.norm(z, q) if q in (1.0, 2.0, float("inf")) else cp.pnorm(z, q, approx=False)
    height = -(scale * norm if scaled else norm) + scope.zero()
    problem = cp.Problem(cp.Maximize(height), constraints)
    return Reference(problem, cp.Problem(cp.Maximize(-norm), constraints), scale, z)


def linearised(
    model: RobustMargin, data: Data, form: UnitNorm, answer: Answer, scaled: bool = True
) -> Reference:
    """Return the problem `max {s : -s n in U}` with the optimum f(w) if the w of an answer is stationary.

    n is the normal of the unit ball at w. At a kink of the norm n is the subgradient nearest to the point x
    of the answer. If U does not span the space, n is taken in the span of U, but the points are those of the
    declared set, without a restriction.
    """
    v = form.lower(np.asarray(answer.w))
    x = form.lower(model.set.evaluate(data, iter(answer.q))[0])
    f = -float(v @ x)
    n = normal_near(form, v, -x / f if f > 0.0 else np.zeros_like(v))
    scope, scale = Parameters(scaled), data.scale if scaled else 1.0
    expression, constraints = model.set.cvxpy(data, scope)
    length = float(np.linalg.norm(n))
    s = cp.Variable()
    constraints = [expression / scale + s * (form.lift(n) / length) == 0, *constraints]
    factor = scale / length
    problem = cp.Problem(cp.Maximize(factor * s + scope.zero()), constraints)
    return Reference(problem, cp.Problem(cp.Maximize(s), constraints), factor, s)


def majorant(
    model: Objective,
    data: Data,
    w: Vec | None,
    b: float,
    features: Matrix | None = None,
    scaled: bool = True,
    remaining: tuple[Vec, float, float] | None = None,
) -> cp.Problem:
    """Return the convex majorant of an objective G - H at (w, b) as a CVXPY problem.

    It is `min G(z) - <gamma, z> + <gamma, z_k> - H(z_k)`, gamma in dH(z_k): the objective itself if H =
    0, else the convex problem that DCA solves at z_k = (w, b), with the value of the objective at z_k.

    From the declaration; vectorised, DPP, scaled by max |X| or not, with a `cvxpy.Parameter` for every
    hyperparameter of G, named like it, and `tilt_margin` and `tilt_normal` for gamma. A w of None is 0.
    `features`, (m, r), are in place of the samples: with a kernel any root of the Gram matrix.
    `remaining` = (v, s, h) bounds samples that are not written out from below by `h - <v, w> - s b`.
    """
    X = data.X if features is None else features
    moved = Perturbations.of(model, data) if model.needs & {"perturbations", "shapes"} else None
    w = np.zeros(X.shape[1]) if w is None else w
    scale = data.scale if features is None else float(np.abs(X).max(initial=0.0)) or 1.0
    declared = model
    if model.penalised:
        w, b = lifted_plane(model, w, b)[0][: X.shape[1] + 1], 0.0
        model, X = model.with_column(X.shape[1]), with_column(X, model.scaling)
    G, H = model.dc()
    omega = cp.Variable(X.shape[1], name=f"{scale:.3g} w" if scaled else "w")
    scale = scale if scaled else 1.0
    w_unscaled, Z = (omega / scale, X / scale) if scaled else (omega, X)
    bias = cp.Constant(0.0) if model.intercept is None else cp.Variable(name="b")
    t = cp.Variable(data.m, name="t")
    scope = Parameters()
    margin, shift = cp.multiply(data.y, Z @ omega + bias), model.shift(data.y, data.per_sample)
    margin = margin + shift if np.any(shift) else margin
    if "flips" in model.needs:
        height, constraints = model.cvxpy(t, w_unscaled, data.factors, scope)  # type: ignore[attr-defined]
        return cp.Problem(cp.Minimize(height + scope.zero()), [t == margin, *constraints])
    total: cp.Expression = cp.Constant(0.0)
    for loss in G.losses:
        total += loss_cvxpy(loss, t, weights_in(loss, data), scope)
    for penalty in G.penalties:
        total += penalty.cvxpy(w_unscaled, 1.0, scope)
    x = w_unscaled[:-1] if model is not declared else w_unscaled
    constraints = [t == margin if moved is None else t <= margin - moved.cvxpy(x, scope)]
    for joint in G.joint:  # the support function of its weights at s >= the means, as no weight is negative
        means = joint.means(lambda rows, loss=joint.loss: loss.cvxpy(t[rows], 1.0, scope), data)
        s = cp.Variable(means.shape[0], name="s")
        q, own = joint.weights_cvxpy(data, scope)
        height, inside = support(s.size * q, own, s)
        total, constraints = total + height / s.size, [*constraints, s >= means, *inside]
    normal = FeatureNormal(X, w)
    plane = tangent_plane(H, data, normal, data.y * (normal.scores + b) + shift)
    if H.losses:
        v = cp.Parameter(data.m, name="tilt_margin", value=plane.margin)
        total = total - v @ t
    if H.penalties:
        u = cp.Parameter(w.size, name="tilt_normal", value=plane.normal / scale)
        total = total - u @ omega
    if remaining is not None:
        total = total + remaining[2] - remaining[0] @ w_unscaled - remaining[1] * bias
    return cp.Problem(cp.Minimize(total - plane.height + scope.zero()), constraints)


def dual_problem(model: Objective, data: Data, features: Matrix | None = None) -> cp.Problem | None:
    """Return the dual problem of one convex loss plus `lam ||w||_2^2`; None for other objectives.

    `max sum_i o s_i - c_i l*(s_i / c_i) - ||sum_i s_i y_i x_i||^2 / (4 lam)` over `y's = 0`, c_i the weights
    of the samples: for the p-hinge problem (17) of Sun (2024).
    """
    added, subtracted = model.penalty.split()
    lam = CombinedPenalty(added).square
    if lam is None or subtracted:
        return None
    match model.loss:
        case ConvexLoss(counted=None, moves="") as loss:
            pass
        case _:
            return None
    X = data.X if features is None else features
    X = with_column(X, model.scaling) if model.penalised else X
    unit = float(loss.gradient(np.ones(1))[0])  # a multiplier of usual size: t is near 1
    t, c = cp.Variable(data.m), data.factors
    try:
        conjugates, constraints = loss.conjugate_cvxpy(cp.multiply(unit / c, t))
    except CompositionError:  # a loss need not have one
        return None
    total = cp.Variable()
    constraints = [*constraints, c @ conjugates / c.sum() <= total]
    square = cp.sum_squares(X.T @ cp.multiply(data.y, t)) * (unit**2 / (4.0 * lam))
    offsets = loss.offset - model.shift(data.y, data.per_sample) * np.ones(data.m)
    height = unit * (offsets @ t) - c.sum() * total - square
    balance = [data.y @ t == 0] if model.intercept == "free" else []
    return cp.Problem(cp.Maximize(height), [*constraints, *balance])


# --- comparison ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Verification:
    """The comparison of a solution with its CVXPY reference; true if both agree, printed as a report.

    Attributes
    ----------
    agrees : True if both answers are equal within the tolerance, and so is the lower bound of an answer that
        claims to be converged
    objective, reference_objective : objectives of the solution and of the CVXPY reference
    difference : relative difference of the objectives
    x_distance : distance between the two points, relative to the norm; NaN if it is not compared
    x_allowed : the distance that both gaps allow
    violation : relative distance of the solution from U, by the definition of U
    status, reference_status : statuses of both solves
    reference_solver : the solver behind CVXPY
    bound : the lower bound that is compared with the reference; NaN if none is
    finding : the first side that is wrong, with figures and likely causes; None if both agree, or if no side
        is known to be wrong
    scope : of a non-convex model the problem that both have solved, which confirms no global optimum; else ""
    """

    agrees: bool
    objective: float
    reference_objective: float
    difference: float
    x_distance: float
    x_allowed: float
    violation: float
    status: str
    reference_status: str
    reference_solver: str
    bound: float = math.nan
    finding: Finding | None = None
    scope: str = ""

    def __bool__(self) -> bool:
        return self.agrees

    @property
    def _facts(self) -> dict[str, str]:
        """The report as texts by name."""
        facts = {
            "objective": f"{self.objective:.10g}  ({self.status})",
            "reference": f"{self.reference_objective:.10g}  ({self.reference_status})",
            "difference": f"{self.difference:.2g} relative",
        }
        if not math.isnan(self.x_distance):
            facts["points"] = f"{self.x_distance:.2g} apart, {self.x_allowed:.2g} allowed (relative)"
        facts["outside U"] = f"{self.violation:.2g} relative"
        if not math.isnan(self.bound) and not self.agrees:
            facts["lower bound"] = f"{self.bound:.10g}"
        if self.finding is not None:
            facts["wrong"] = f"{self.finding.side}: {self.finding.what}"
            name = "remedy" if self.finding.side == "reference" else "cause"
            facts |= {name if k == 0 else f"{name} {k + 1}": c for k, c in enumerate(self.finding.causes)}
        return {**facts, "compared": self.scope} if self.scope else facts

    def __str__(self) -> str:
        if self.finding is not None and self.finding.side == "reference":
            title = f"{self.finding.what}."
        else:
            verdict = "agrees with" if self.agrees else "DIFFERS from"
            title = f"The solution {verdict} the CVXPY reference ({self.reference_solver})."
        return "\n".join([title, *(f"  {name:11} {text}" for name, text in self._facts.items())])

    def _repr_html_(self) -> str:
        facts = {name: text.replace("-", "−") for name, text in self._facts.items()}
        refuted = self.finding is not None and self.finding.side == "reference"
        verdict = "agrees" if self.agrees else "the reference is off" if refuted else "DIFFERS"
        return sheet(f"Verification: {verdict}, by {self.reference_solver}", facts)


def explained(
    verification: Verification, problem: Problem, solution: Solution, arbiter: Callable[[], Verification]
) -> Verification:
    """Return a comparison that differs with the side that is wrong.

    The reference is wrong if Clarabel, the `arbiter`, confirms a proven solution. Otherwise the answer is
    diagnosed against the reference.
    """
    if verification.agrees or solution.answer is None:
        return verification
    certificate, value = solution.certificate, verification.reference_objective
    settled = is_proven(certificate, max(_AGREED, solution.tol))
    if settled and verification.reference_solver.upper() != "CLARABEL" and arbiter().agrees:
        solver = verification.reference_solver.upper()
        what = (
            f"{solver} is off by {verification.difference:.2g}; the answer is proven to "
            f"{max(certificate.relative_gap, 0.0):.2g}"
        )
        options = {"solver": solver, **accuracy(solver, _MENDED)}
        call = ", ".join(f"{name}={x!r}" for name, x in options.items())
        remedy = (f"verify({call})",) if len(options) > 1 else ("verify(), by Clarabel",)
        return replace(verification, finding=Finding("reference", what, remedy))
    unit = abs(verification.objective - value) / verification.difference if verification.difference else 0.0
    unit = unit if math.isfinite(unit) and unit > 0.0 else max(abs(value), 1e-12)
    finding = diagnose(
        problem, solution.answer, value, 2.0 * max(_AGREED, solution.tol), unit, solution.history
    )
    return replace(verification, finding=finding)


class CvxpyResult(NamedTuple):
    """The optimal value, status and solver of a solved CVXPY problem, and the value of a variable or None."""

    value: float
    status: str
    solver: str
    point: Vec | None = None


def solved(
    problem: cp.Problem, options: Mapping[str, object], variable: cp.Variable | None = None
) -> CvxpyResult:
    """Solve a CVXPY problem, by Clarabel to 1e-10 or, if not reached, to its default tolerances.

    The options are those of `cvxpy.Problem.solve`; another solver is called once. The value of
    `variable` is kept. Raises `SolverError` if all attempts fail.
    """
    solver_options = dict(options)
    solver = str(solver_options.pop("solver", "CLARABEL"))
    if (why := absent(solver)) is not None:
        raise SolverError(f"verify: the reference solver {why}; leave it out for Clarabel")
    failed, result = "", None
    for tolerances in _ATTEMPTS if solver.upper() == "CLARABEL" else ({},):
        failure = attempt(problem, solver.upper(), **{**tolerances, **solver_options})
        if failure or problem.value is None or problem.status == "user_limit":
            failed = failure or f"it ended with the status {problem.status!r}"
            continue
        point = None if variable is None else variable.value
        result = CvxpyResult(float(problem.value), str(problem.status), solver, point)
        if not result.status.endswith("inaccurate"):
            break
    if result is None:
        raise SolverError(
            f"verify: the reference solver {solver} failed ({failed}); take another solver, such as "
            "verify(solver='SCS'), or scale the features"
        )
    return result


def compared(
    solution: Solution,
    reference: CvxpyResult,
    tol: float,
    *,
    objective: float | None = None,
    size: float = 1e-12,
    unit: float = 0.0,
    apart: float = math.nan,
    least: float = 0.0,
    bound: float | None = None,
) -> Verification:
    """Return the comparison of a solution with a reference, which agree within a relative `max(1e-6, tol)`.

    They also differ if a weight is below `least`, the violation exceeds this tolerance, the points are
    further apart than both gaps allow, or the lower bound of an answer that claims to be converged is lower
    than this tolerance. `bound` is that bound, NaN for none, by default that of the certificate. A reference
    without a feasible point agrees with no solution.

    `objective` is in place of that of the solution; `size` is the unit of the difference if both
    objectives are smaller. The reference solver resolves 1e-9 of `unit`, 5e-5 if it reports an
    inaccurate solution. `apart` is the relative distance of the two points; both gaps allow `sqrt(2
    (gap + gap_ref))`.
    """
    objective = solution.objective if objective is None else objective
    allowed, violation = max(_AGREED, tol), solution.certificate.violation
    allowed_distance, agrees, difference = math.nan, False, math.inf
    bound = solution.certificate.dual if bound is None else bound
    if solution.answer is None or solution.answer.status != "converged" or solution.status in _WITHOUT_BOUND:
        bound = math.nan
    if reference.status not in ("infeasible", "infeasible_inaccurate"):
        error = _REDUCED if reference.status.endswith("inaccurate") else 10.0 * _TIGHT
        larger = max(abs(objective), abs(reference.value), size, unit * (error / _AGREED))
        difference = abs(objective - reference.value) / larger
        agrees = difference <= allowed and violation <= allowed
        agrees = agrees and not reference.value - bound > 2.0 * allowed * larger
        if not math.isnan(apart):
            allowed_distance = math.sqrt(2.0 * (max(solution.certificate.relative_gap, 0.0) + allowed))
            agrees = agrees and apart <= allowed_distance
        if solution.weights is not None:
            agrees = agrees and bool(np.all(solution.weights >= least - 1e-9))
    return Verification(
        bool(agrees), objective, reference.value, difference, apart, allowed_distance, violation,
        solution.status, reference.status, reference.solver, bound,
    )  # fmt: skip


def verify(
    model: RobustMargin, data: Data, solution: Solution, tol: float = 1e-6, **options: object
) -> Verification:
    """Solve the CVXPY problem of a set; compare its optimum, and for p = 2 its point, with a solution."""
    reference = reference_problem(model, data)
    result = solved(reference.unit, options, reference.z)
    if result.point is None:
        return compared(solution, result, tol)
    x, size, apart = reference.scale * result.point, 1e-12 * data.scale, math.nan
    norm = data.space.norm(x, model.dual)
    if solution.status == "zero_in_set":
        size = max(solution.size, data.scale)
    elif model.norm == 2.0:
        apart = data.space.norm(x - solution.x) / max(norm, 1e-300)
    point = result._replace(value=-norm)
    return compared(solution, point, tol, size=size, unit=reference.scale, apart=apart)


def verify_stationary(
    model: RobustMargin, data: Data, form: UnitNorm, solution: Solution, tol: float = 1e-6, **options: object
) -> Verification:
    """Verify that w is stationary: compare f(w) with the optimum of the CVXPY problem linearised at w.

    It confirms no global optimum; a positive lower bound is held against the declared support function.
    """
    reference = linearised(model, data, form, solution.answer)
    result = solved(reference.unit, options)
    # below, 0 lies on the boundary of U, as far as the solve can tell
    near = solution.certificate.primal <= max(_AGREED, tol) * solution.size
    size = solution.size if near else 1e-12 * data.scale
    result = result._replace(value=reference.scale * result.value)
    verification = compared(solution, result, tol, size=size, unit=reference.scale, bound=math.nan)
    bound = solution.certificate.dual
    if bound > 0.0 and contradiction(model, data, form, bound, solution.size):
        verification = replace(verification, agrees=False)
    return replace(verification, scope=_AT_SOLUTION)


def verify_objective(
    model: Objective,
    data: Data,
    solution: Solution,
    features: Matrix | None = None,
    tol: float = 1e-6,
    **options: object,
) -> Verification:
    """Compare a solution with the CVXPY optimum of its objective or, if not convex, of the majorant.

    A critical point attains the optimum of the majorant. If there is a dual problem too, the report is
    of the problem whose value is further away; a problem that its solver fails on is left out.
    `features` are any root of the Gram matrix, (m, r), for a solution with a kernel. Options and errors
    as of `verify`.
    """
    b, X, w = solution.b or 0.0, data.X, solution.w
    if features is not None:
        X, w = features, features.T @ data.weighing.gather(solution.coefficients)
    weighed = data.y, data.weights, data.groups
    [(plain, at)] = at_worst(model, data, w, best=False)
    X = at.X if at is not data else X
    objective = plain.value(data.y * (X @ w + b), w, *weighed, b=b, per_sample=data.per_sample)
    results, failure = [], SolverError("verify: no reference")
    for problem in (majorant(model, data, w, b, features), dual_problem(model, data, features)):
        try:
            results += [] if problem is None else [solved(problem, options)]
        except SolverError as error:
            failure = error
    if not results:
        raise failure
    worst = max(results, key=lambda end: abs(end.value - objective))
    origin = plain.value(np.zeros(data.m), np.zeros(w.size), *weighed, b=0.0, per_sample=data.per_sample)
    least = min((loss.lowest() for loss in model.dc()[0].pointwise), default=0.0)
    found = compared(solution, worst, tol, objective=objective, unit=origin, least=least)
    if not model.convex:
        return replace(found, scope=_AT_SOLUTION)
    return found
