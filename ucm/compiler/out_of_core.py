"""Samples read block by block: the lowerings of two hulls and of `loss + penalty`, and their statistics."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.compiler.column_generation import of_vertices
from ucm.compiler.lowering import BoundModel, ExternalAnswer, Lowering, Proof, Recovered, Regime, Verdict
from ucm.compiler.objective import critical
from ucm.compiler.recover import least_error_bias
from ucm.compiler.robust import proof_of_distance
from ucm.compiler.route import choose
from ucm.data.bound_data import Data, refuse_squares, with_column
from ucm.data.first_pass import (
    OutOfCoreMap,
    RowData,
    first_pass,
    of_moments,
    refuse_gathering,
    rows_here,
)
from ucm.data.linear_map import LinearMap, Matrix, Vec
from ucm.data.source import RowSource, View
from ucm.data.validation import label_values
from ucm.data.weights import ClassWeight, Factors, members, untagged
from ucm.errors import EmptySetError, ParameterError
from ucm.evidence.certificate import unproven
from ucm.evidence.reference import Verification, compared, majorant, reference_problem, solved, verify
from ucm.evidence.rows import certify_hulls, certify_losses
from ucm.forms.monitor import Monitor
from ucm.forms.objective import declared_plane
from ucm.forms.out_of_core import HullProof, OutOfCoreForm, RowHulls, RowLosses
from ucm.forms.solution import Certificate, Solution
from ucm.forms.solver import Answer, Solver
from ucm.language import cvx as cp
from ucm.language.contracts import ROUNDING, SampleWeights, SimplexDomain, UncertaintySet
from ucm.language.domains import Box, CappedSimplex, CvxpyDomain, NormBall, Simplex
from ucm.language.loss_sets import as_loss_ball
from ucm.language.losses import Hinge
from ucm.language.node import Node
from ucm.language.objective import Objective, PenaltySum, multiplied, split_scalar
from ucm.language.parameter import value
from ucm.language.penalties.combined import CombinedPenalty
from ucm.language.penalties.constraints import check_constraints
from ucm.language.penalties.epigraph import LastWeight, OfFirst
from ucm.language.penalties.norms import L1
from ucm.language.robust import RobustMargin
from ucm.language.sets.affine_image import AffineImage
from ucm.language.sets.combination import Combination, is_number
from ucm.language.sets.hull import Hull
from ucm.language.statistics.samples import Covariance, Mean, SampleNode, Samples
from ucm.language.terms import ConvexLoss, Loss, Penalty
from ucm.language.worst_mean import WorstMean

_WRITTEN = 1000  # rows in a reference problem without an active set

Form = TypeVar("Form", bound=OutOfCoreForm)


class OutOfCoreLowering(Lowering[Form]):
    """Base class of the lowerings over samples read block by block, with their statistics as `rows`."""

    rows: RowData

    def __init__(self, model: RobustMargin | Objective, rows: RowData, requested: str | Solver) -> None:
        self.model, self.requested, self.data, self.rows = model, requested, rows, rows

    @classmethod
    def candidates(cls, bound: BoundModel) -> tuple[Lowering, ...]:
        """Return the lowering of the statistics of rows; raise `DataError` if no route takes its form."""
        if not isinstance(bound.data, RowData):
            return ()
        lowering = cls(bound.model, bound.data, bound.requested)
        if bound.requested == "auto" and choose(lowering.form, "auto") is None:
            n = lowering.rows.n - added_features(bound.model)
            refuse_gathering(lowering.rows.source, f"{bound.model!r} with {n} features")
        return (lowering,)

    @abstractmethod
    def describe_form(self) -> str:
        """Return the description of the form, for a line of `explain()`."""

    def describe(self) -> dict[str, str]:
        rows = self.rows
        return {
            "data": f"{self.describe_data()}; {rows.source!r}",
            "form": self.describe_form(),
            "cost": f"1 pass reads every block of rows once, {2 * rows.stored:,} operations",
        }

    def certify_external(self, external: ExternalAnswer) -> Certificate:
        refuse_gathering(self.rows.source, "a certificate of an answer from elsewhere")

    def answer(self, solver: Solver[Form], monitor: Monitor, start: Answer | None) -> Answer:
        answer = super().answer(solver, monitor, start)
        if answer.rows is not None:
            monitor.count_read()  # the pass of the certificate
        return answer

    def certify(self, answer: Answer, tol: float) -> Proof:
        try:
            if answer.rows is not None:  # else stopped before a pass was over
                return self.proof(answer, tol)
        except KeyboardInterrupt:
            answer = answer.ended("interrupted", "stopped by Ctrl-C in the pass of the certificate")
        return Proof(answer, unproven(), np.nan, answer.w, answer.b)

    @abstractmethod
    def proof(self, answer: Answer, tol: float) -> Proof:
        """Return the proof of an answer, by a pass over all rows."""

    def written(self, at: Solution | None) -> tuple[Answer, Matrix, Vec, Vec, float]:
        """Return the answer of a solution, and X, y, weights and gain of the rows in its reference problem.

        y holds labels times sample weights; all other rows keep their weights.
        """
        answer = None if at is None else at.answer
        if answer is None or answer.rows is None or answer.rows.rows is None:
            raise ParameterError(
                "reference: over rows that are read block by block the program holds some rows, and the "
                "others keep their weights in a solution; give one, reference(solution)"
            )
        X, y = self.rows.sample
        step = -(-y.size // _WRITTEN)
        return answer, *answer.rows.rows.written((X[::step], y[::step]))


Groups = tuple[tuple[str, object], ...]
"""The kind and the label of some groups."""


def groups_in(model: Node) -> Groups:
    """Return the distinct (kind, label) pairs of the groups that a model names."""
    parts = (x.part for x in model.nodes_of_type(Samples) if x.label is not None)
    return tuple(dict.fromkeys(parts))


# --- hulls ---------------------------------------------------------------------------------------
def of_hulls(U: UncertaintySet, curved: bool = False) -> bool:
    """True if a set is a sum of multiples of hulls of samples, whole or with one cap.

    With `curved`, hulls with weights in a ball count too.
    """
    match U:
        case Combination():
            return all(is_number(L) and of_hulls(V, curved) for V, L in U.terms())
        case Hull(samples=Samples(), weights=None | Simplex() | CappedSimplex()):
            return True
        case Hull(samples=Samples(), weights=SimplexDomain() | NormBall() | Box()):
            return curved
    return False


def row_hulls(model: RobustMargin, data: RowData) -> RowHulls:
    """Return the form of a declared set of two hulls of rows, with weights below caps or in balls."""
    declared = f"{model!r}"
    if model.norm != 2.0 or not of_hulls(model.set, curved=True):
        refuse_gathering(data.source, declared)
    model.set.dimension(data.n)
    why = model.set.infeasibility_reason(data)
    if why is not None:
        raise EmptySetError(why)
    image = model.set.lower(data)
    by_class: dict[str, tuple[float, float, float, int]] = {}  # factor, weight sum, scale, place of the ball
    balls: list[tuple[ConvexLoss, float]] = []
    for b in image.blocks:
        kind, factor = _kind(b.map)
        kinds = ("pos", "neg") if kind == "signed" else (kind,)
        groups = b.groups
        ball = None if groups is not None else as_loss_ball(b.domain)
        has_route = groups is not None or ball is not None
        if not has_route or not factor or any(not k or k in by_class for k in kinds):
            refuse_gathering(data.source, declared)
        for i, k in enumerate(kinds):
            c, sign = ("pos", "neg").index(k), -1.0 if kind == "signed" and k == "neg" else 1.0
            if groups is not None:
                weight_sum = groups[i].mass
                scale = min(groups[i].cap / data.means[c], weight_sum / data.least)
                balls.append((Hinge(), 0.0))
                place = len(balls) - 1
            else:
                weight_sum, scale = 1.0 / len(kinds), data.weighing.classes[c] / data.count(kind)
                place = len(balls)
            by_class[k] = sign * factor, weight_sum, scale, place
        balls += [] if ball is None else [ball]
    capped = {loss == Hinge() for loss, _ in balls}
    if len(by_class) < 2 or len(capped) > 1:
        refuse_gathering(data.source, declared)
    factors, weight_sums, scales, places = zip(by_class["pos"], by_class["neg"], strict=True)
    of = int(places[0]), int(places[1])
    form = RowHulls(data, factors, weight_sums, scales, tuple(balls), of)
    return form if form.capped else _below_caps(form) or form


def _below_caps(form: RowHulls) -> RowHulls | None:
    """Return the form with caps in place of balls if the caps imply every ball; else None."""
    slack, caps = form.radii.copy(), []
    for k, weight_sum, scale, m in zip(form.of, form.weight_sums, form.scales, form.data.counts, strict=True):
        loss = form.balls[k][0]
        cap = min(scale * loss.steepest(), weight_sum / form.data.least)
        full, last = min(weight_sum / cap * (1.0 + 1e-14), m), 0.0
        if form.data.plain:
            full, last = float(int(full)), 1.0  # with weights of samples the number need not be whole
        ends = np.array([cap, max(weight_sum - full * cap, 0.0), 0.0]) / scale  # the highest vertex
        counts = np.array([full, last, m - full - last]) if full < m else np.array([m, 0.0, 0.0])
        slack[k] -= scale * float(counts @ loss.conjugate(ends))
        caps.append(cap)
    if min(slack) < 0.0:
        return None
    hinges = (Hinge(), 0.0), (Hinge(), 0.0)
    return RowHulls(form.data, form.factors, form.weight_sums, (caps[0], caps[1]), hinges, (0, 1))


def _kind(A: LinearMap) -> tuple[str, float]:
    """Return the kind and the factor of a map that is a multiple of samples; kind "" for other maps."""
    A, factor = A.without_factor()
    return (A.kind, factor) if isinstance(A, OutOfCoreMap) else ("", factor)


class OutOfCoreHullsLowering(OutOfCoreLowering[RowHulls]):
    """The lowering of two hulls of out-of-core samples to `min ||x||_2`."""

    bias_rules = ("auto", "multipliers", "midpoint", "min_error", "zero")
    bias_refusal = "over rows that are read block by block it is not known"

    def __init__(self, model: RobustMargin, rows: RowData, requested: str | Solver) -> None:
        super().__init__(model, rows, requested)
        self.form = row_hulls(model, rows)
        refuse_squares(rows.scale, "hulls of rows")

    def describe_form(self) -> str:
        data, form = self.rows, self.form
        sides = zip(data.class_sizes, ("+1", "-1"), form.scales, form.of, form.weight_sums, strict=True)
        hulls = [
            f"{size} samples of class {sign}, "
            + (f"0 ≤ q ≤ {scale:.4g}" if form.capped else f"q in ball {k}")
            + f", Σ q = {weight_sum:g}"
            for size, sign, scale, k, weight_sum in sides
        ]
        return f"min ||x||_2 over hulls of rows, {', '.join(hulls)}"

    def proof(self, answer: Answer, tol: float) -> Proof:
        certificate, sums = certify_hulls(self.form, answer.rows)
        if answer.rows.points is None:
            return Proof(answer, certificate, certificate.primal, answer.w)
        answer = replace(answer, rows=replace(answer.rows, points=sums.points, heights=sums.heights))
        norm, size = self.form.norm_and_size(sums.points)
        x = np.array(self.form.factors) @ sums.points
        bounded = Proof(answer, certificate, math.nan, answer.w, None, x, size)
        return proof_of_distance(bounded, norm, tol, self.data.space.resolution, float)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        if not math.isfinite(proof.certificate.dual):
            return Verdict(proof.answer.status, f"{proof.answer.message}; {proof.certificate}", warns=True)
        if proof.w is None or proof.w.any():
            return None
        return Verdict(
            "zero_in_set",
            "0 lies in U, so no direction has a positive worst-case margin and w = 0. Make the sets smaller; "
            f"the non-convex side needs all samples in memory, {self.rows.source.nbytes / 1e9:.3g} GB: "
            "X, y = ucm.open_rows(X, y).gather()",
        )

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        form, row_proof, w = self.form, proof.answer.rows, proof.w
        points = None if row_proof is None else row_proof.points
        if row_proof is None or points is None or w is None or not w.any():
            return Recovered(w, None, proof.x, None, "none")
        parts = functools.partial(self._parts, points)
        if bias_rule in ("auto", "multipliers"):
            alpha, beta = self._thresholds(row_proof, points, w)
            b, rule, rho = -0.5 * (alpha + beta), "multipliers", 0.5 * (alpha - beta)
        else:
            (b, rule), rho = self._bias(bias_rule, points, w), None
        weights = functools.partial(self.rows.source.spread, row_proof.rows.weights, form.factors)
        return Recovered(w, b, proof.x, None, rule, make_summand_points=parts, rho=rho, make_weights=weights)

    def _thresholds(self, row_proof: HullProof, points: NDArray[np.float64], w: Vec) -> tuple[float, float]:
        """Return for class +1 and class -1 the score at which weights leave their bounds."""
        form = self.form
        balls = form.slacks[list(form.of)] > 0.0
        free = np.array(form.scales) < form.weight_sums if form.capped else balls
        thresholds = -row_proof.mu / (np.linalg.norm(row_proof.w) * np.array(form.factors))
        means = [float(w @ x) / weight_sum for x, weight_sum in zip(points, form.weight_sums, strict=True)]
        alpha, beta = np.where(free, thresholds, means).tolist()
        return alpha, beta

    def _bias(self, rule: str, points: NDArray[np.float64], w: Vec) -> tuple[float, str]:
        """Return the bias and its rule: 0, of least training error, or midway between the class points."""
        form = self.form
        if rule == "zero":
            return 0.0, "zero"
        if rule == "min_error":
            return least_error_bias(self.rows, w), "min_error"
        if form.weight_sums != (1.0, 1.0) or not form.factors[0] > 0.0 > form.factors[1]:
            raise ParameterError(
                f"bias_rule={rule!r} does not apply to {self.model.set!r} over rows; use bias_rule='auto'"
            )
        return -0.5 * float(sum(w @ point for point in points)), "midpoint"

    def _parts(self, points: NDArray[np.float64]) -> tuple[Vec, ...]:
        """Return the point of every summand, in the order of the declaration."""
        by_kind = {"pos": points[0], "neg": points[1], "signed": points[0] - points[1]}
        return tuple(by_kind[s.kind] for s in self.model.set.nodes_of_type(Samples))

    # --- the reference -----------------------------------------------------------------------------
    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        return reference_problem(*self._reference(at), scaled).problem

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        model, data = self._reference(solution)
        return verify(model, data, replace(solution, weights=None), tol, **options)

    def _reference(self, at: Solution | None) -> tuple[RobustMargin, Data]:
        """Return the set over the rows of the reference, the others with their weights, and these rows."""
        form, (answer, X, y, q, _) = self.form, self.written(at)
        side = np.where(y > 0.0, 0, 1)
        scale = np.array(form.scales)[side] * np.abs(y)
        s = q / scale  # near 1, which conic solvers need
        A = (sparse.diags_array(np.array(form.factors)[side] * scale) @ X).T
        slack, left = form.radii.copy(), []
        for c in (0, 1):
            mask = side == c
            left.append((mask, float(q[mask].sum())))
            height = form.balls[form.of[c]][0].conjugate(s[mask])
            slack[form.of[c]] += scale[mask] @ height - answer.rows.heights[c]

        def build(v: cp.Expression) -> list:
            rows = [v >= 0.0, *(scale[mask] @ v[mask] == weight_sum for mask, weight_sum in left)]
            for k, (loss, _) in enumerate(form.balls):
                mask = np.isin(side, [c for c in (0, 1) if form.of[c] == k])
                height, inside = loss.conjugate_cvxpy(v[mask])
                rows += [*inside, scale[mask] @ height <= slack[k]]
            return rows

        center = np.array(form.factors) @ answer.rows.points - A @ s
        return RobustMargin(AffineImage(A, CvxpyDomain(build), center=center)), rows_here(X, y)


# --- losses --------------------------------------------------------------------------------------
def takes(model: Objective) -> bool:
    """True if an out-of-core solver takes an objective.

    Convex losses with `lam * L2()`, and hinge or ramp losses with any penalty; if a loss is of a group, all
    losses are of one kind. A worst mean of a hinge loss over a capped simplex, no other one, no
    perturbations, and no limit of the number of features.
    """
    if tail_of_hinge(model) is not None:
        return True
    if model.needs:
        return False
    losses, subtracted_losses = model.loss.split()
    penalties, subtracted_penalties = model.penalty.split()
    groups, kinds, tails = groups_in(model), set(map(_base, losses)), set(map(_base, subtracted_losses))
    if subtracted_losses or subtracted_penalties or CombinedPenalty(penalties).square is None:
        straight = all(loss.slope() is not None for loss in (*kinds, *tails))
        if len(kinds) > 1 or len(tails) > 1 or not straight:
            return False
    return not groups or (
        len(kinds) == 1
        and (not subtracted_losses or loss_factors(subtracted_losses, groups) == loss_factors(losses, groups))
    )


def tail_of_hinge(model: RobustMargin | Objective) -> tuple[Hinge, float, CappedSimplex] | None:
    """Return the hinge, its factor c and the capped simplex of a worst mean alone; None for other objectives.

    With the cap k, `max of sum_i q_i c l(t_i)` over it is the least `c (s + k sum_i max(0, o - s - t_i))`
    over s >= 0, Rockafellar and Uryasev (2000): a sum of hinge losses with one more feature of value y_i, of
    which s is the weight. The bound of s is a box, to which one other penalty may be added.
    """
    match model:
        case Objective(loss=WorstMean(groups=()) as worst) if model.needs == {"worst mean"} and model.convex:
            others = [R for R in model.penalty.split()[0] if not _one_norm(R)]
            if len(others) > 1 or not all(R.keeps_signs for R in others):
                return None
            factor, base = split_scalar(worst.loss)
            match base, Simplex() if worst.weights is None else worst.weights:
                case Hinge(p=1.0, on=None), (CappedSimplex() | Simplex()) as D if not model.penalised:
                    return base, factor, CappedSimplex(1.0) if isinstance(D, Simplex) else D
    return None


def _one_norm(penalty: Penalty) -> bool:
    """True for a multiple of the l1 norm, which is the support function of a box."""
    base = split_scalar(penalty)[1]
    return isinstance(base, L1) and base.weights is None


def added_features(model: RobustMargin | Objective) -> int:
    """Return the number of features that bound rows have beside the given ones, as the last ones."""
    return int(model.penalised or tail_of_hinge(model) is not None)


def _with_label(X: Matrix, y: np.ndarray) -> tuple[Matrix, np.ndarray]:
    """Return a block of rows with the label as one more feature."""
    return with_column(X, label_values(untagged(y)[0])[0]), y


def _base(loss: Loss) -> Any:
    """Return a loss without its factor and without its restriction to a class or group."""
    base = split_scalar(loss)[1]
    return base if base.counted is None else replace(base, on=None)


def loss_factors(losses: tuple[ConvexLoss, ...], named: Groups) -> Factors:
    """Return the row factors by class and group of losses that are all of one kind."""
    sides: tuple[dict[object, float], dict[object, float]] = {}, {}
    for loss in losses:
        samples, c = loss.counted, split_scalar(loss)[0]
        kind, label = ("signed", None) if samples is None else samples.part
        for side, k in zip(sides, ("pos", "neg"), strict=True):
            if kind in ("signed", k):
                side[label] = side.get(label, 0.0) + c
    return Factors(*sides, named)


class OutOfCoreLossesLowering(OutOfCoreLowering[RowLosses]):
    """The lowering of `loss + penalty` over out-of-core samples."""

    bias_rules = ("auto",)

    def __init__(self, model: Objective, rows: RowData, requested: str | Solver) -> None:
        super().__init__(model, rows, requested)
        self.tail = tail_of_hinge(model)
        n = rows.n - added_features(model)
        for penalty in model.nodes_of_type(Penalty):
            penalty.check_features(n)
        check_constraints(model.penalty, n)
        self.written_model = model
        if groups_in(model):  # what the rows weigh says in which group they are
            self.written_model = replace(model, loss=_base(model.loss.addends()[0]))
        if model.penalised:
            self.written_model = self.written_model.with_column(n)
        if self.tail is not None:
            self.written_model = self._with_level(*self.tail)
        self.form = RowLosses.of(self.written_model, rows)

    def _with_level(self, hinge: Hinge, factor: float, D: CappedSimplex) -> Objective:
        """Return the sum of hinge losses with the level s as the last weight, in place of a worst mean."""
        total = float(np.array(self.rows.counts) @ self.rows.weighing.classes)
        samples = SampleWeights(math.ceil(total), number=total)
        cap = value(D.given) / total if D.relative else float(np.max(D.bind(samples).cap))
        if cap * total < 1.0 - ROUNDING:
            raise EmptySetError(f"{self.model!r}: {D.too_small(samples, 1.0 / total)}")
        terms: list[Any] = [LastWeight(factor, self.rows.n)]
        for R in self.model.penalty.split()[0]:
            weights = np.append(np.ones(self.rows.n - 1), 0.0)
            terms.append(multiplied(split_scalar(R)[0], L1(weights)) if _one_norm(R) else OfFirst(R))
        penalty = PenaltySum(tuple(terms))
        return replace(self.model, loss=multiplied(cap * factor, hinge), penalty=penalty)

    @property
    def regime(self) -> Regime:
        if self.form.convex:
            return Regime(True, "the answer is the global optimum")
        return Regime(False, "DCA from its end over a sample of the rows, to a critical point")

    def describe_form(self) -> str:
        return f"{self.model}"

    def run(
        self, solver: Solver[RowLosses], monitor: Monitor, start: Answer | None, starts: int
    ) -> list[Answer]:
        if starts != 1 and not self.form.convex:
            raise ParameterError(
                f"solve: n_starts: expected 1 over rows that are read block by block, got {starts}; leave it "
                "out, or bring all samples into memory, X, y = ucm.open_rows(X, y).gather()"
            )
        return [self.answer(solver, monitor, start)]

    def proof(self, answer: Answer, tol: float) -> Proof:
        certificate = certify_losses(self.form, answer.rows)
        return Proof(answer, certificate, certificate.primal, *answer.plane)

    def verdict(self, proof: Proof, solver: str, monitor: Monitor) -> Verdict | None:
        if self.form.convex:
            return None
        return critical(proof.certificate, monitor.tol, lambda: self.form.is_local(proof.answer.rows))

    def recover(self, proof: Proof, bias_rule: str) -> Recovered:
        row_proof, (w, b) = proof.answer.rows, declared_plane(self.model, *proof.answer.plane)
        w = w if self.tail is None else w[:-1]
        if row_proof is None or row_proof.sums is None:
            return Recovered(w, b, None, None, "variable")
        weights = functools.partial(self.rows.source.spread, row_proof.rows.weights)
        return Recovered(w, b, None, None, "variable", make_weights=weights)

    # --- the reference -----------------------------------------------------------------------------
    def reference(self, at: Solution | None, scaled: bool) -> cp.Problem:
        """Return the problem of some rows; the losses of all others are bounded by their slopes."""
        answer, X, y, a, gain = self.written(at)
        sums, a = answer.rows.sums, np.sign(y) * a
        normal = sums.points[0] - sums.points[1] - np.asarray(X.T @ a).ravel()
        slope = float(sums.slopes[0] - sums.slopes[1] - a.sum())
        remaining = normal, slope, float(np.sum(sums.gains)) + answer.rows.constant - gain
        data = rows_here(X, y, self.rows.weighing)
        return majorant(self.written_model, data, *answer.plane, scaled=scaled, remaining=remaining)

    def verify(self, solution: Solution, tol: float, **options: object) -> Verification:
        problem = self.reference(solution, True)
        return compared(
            solution,
            solved(problem, options),
            tol,
            objective=solution.objective,
            unit=self.form.value_at_zero,
            least=min(loss.lowest() for loss, _ in self.form.losses),
        )


# --- the choice of the statistics ----------------------------------------------------------------
def of_statistics(U: Node) -> bool:
    """True if the samples of a set enter only through means and covariances."""
    match U:
        case Mean(samples=Samples()) | Covariance(samples=Samples()):
            return True
        case SampleNode():
            return False
    return all(map(of_statistics, U.children()))


def statistics_of_rows(model: RobustMargin | Objective, rows: RowSource, class_weight: ClassWeight) -> Data:
    """Return the statistics of one pass over rows: means and covariances, or counts and a sample."""
    if model.relative_names() or model.by_lam:
        refuse_gathering(rows, f"{model!r}")
    groups = groups_in(model)
    if groups and "group" not in rows.tags:
        members(None, *groups[0], np.zeros(0, dtype=np.intp))  # refuses a model of groups
    if isinstance(model, Objective):
        return _of_losses(model, rows, class_weight, groups)
    return _of_set(model, rows, class_weight, groups)


def _of_losses(model: Objective, rows: RowSource, class_weight: ClassWeight, groups: Groups) -> Data:
    if model.penalty.nodes_of_type(SampleNode) or not takes(model):
        refuse_gathering(rows, f"{model!r}")
    factors = loss_factors(model.loss.split()[0], groups) if groups else Factors()
    factors = factors if rows.tags else None
    if model.penalised:
        rows = rows.mapped(functools.partial(with_column, value=model.scaling))
    if tail_of_hinge(model) is not None:
        rows = View(rows, _with_label, n=rows.n + 1)
    return first_pass(rows, factors, class_weight)


def _of_set(model: RobustMargin, rows: RowSource, class_weight: ClassWeight, groups: Groups) -> Data:
    if of_statistics(model.set):
        return of_moments(rows, class_weight, Factors(model_groups=groups) if rows.tags else None)
    every: list[object] = [None]
    sides = [[label for k, label in groups if k in (kind, "signed")] for kind in ("pos", "neg")]
    if any(len(labels) > 1 for labels in sides):
        refuse_gathering(rows, f"{model!r}", "hulls of one group of each class")
    plus, minus = (dict.fromkeys(labels or every, 1.0) for labels in sides)
    factors = Factors(plus, minus, groups) if rows.tags else None
    if of_vertices(model.set) and not of_hulls(model.set):  # whole hulls beside means or covariances
        return of_moments(rows, class_weight, factors)
    return first_pass(rows, factors, class_weight)
