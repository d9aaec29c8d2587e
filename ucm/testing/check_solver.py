"""`check_solver`: a solver solves the small forms that it takes, stops on request, keeps its inputs."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ucm.compiler.lowering import BoundModel, Lowering
from ucm.compiler.objective import BestSubsetLowering, FlipsLowering, ObjectiveLowering
from ucm.compiler.out_of_core import OutOfCoreHullsLowering, OutOfCoreLossesLowering, statistics_of_rows
from ucm.compiler.robust import DistanceLowering, SphereLowering
from ucm.data.bound_data import Data, bind
from ucm.data.gram import Gram
from ucm.data.kernels import Kernel
from ucm.data.readers import open_rows
from ucm.errors import SolverError
from ucm.evidence.diagnosis import diagnose
from ucm.evidence.objective import tangent_plane
from ucm.evidence.reference import linearised, majorant, solved
from ucm.forms.bound import FeatureNormal
from ucm.forms.distance import MinNorm
from ucm.forms.flips import FlipComposite
from ucm.forms.hinge_dual import HingeDual
from ucm.forms.monitor import Monitor
from ucm.forms.objective import BestSubset, Composite, DifferenceOfConvex, GeneralComposite, MovedComposite
from ucm.forms.out_of_core import RowHulls, RowLosses
from ucm.forms.solver import Answer, Solver, checked
from ucm.forms.sphere import UnitNorm
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import CappedSimplex, KLBall, NormBall
from ucm.language.losses import Exponential, Hinge, Logistic, Ramp, SquaredHinge
from ucm.language.objective import Objective
from ucm.language.parameter import value
from ucm.language.penalties import L1, L2, CappedL1, Cardinality, ElasticNet
from ucm.language.penalties.cardinality import fixed
from ucm.language.robust import RobustMargin
from ucm.language.robust_samples import Robust
from ucm.language.sample_sets import FeatureDeletion
from ucm.language.sets import Ball, Ellipsoid, Hull, ReducedHull
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.wasserstein import WassersteinObjective
from ucm.language.worst_mean import WorstMean
from ucm.testing.checker import Checker

_CLARABEL = 1e-7  # relative error of the answer of Clarabel


def check_solver(solver: Solver, seed: int = 0, *, tol: float = 1e-6) -> None:
    """Check a solver on small models of the forms that it takes, against the optimum by Clarabel.

    `refuse` gives a reason or None for every form. For each one that it takes, from the solver's own
    start, from one outside of the domains and from the answer, the answer is certified by the
    declaration, and its objective is that of Clarabel. Each run is reported, passes only
    grow, `max_iter` and a callback that answers True stop it, and its inputs are unchanged. An
    empty set is "infeasible"; where 0 lies in the set or on its boundary the answer is near 0.

    Parameters
    ----------
    solver : Solver
        A solver of one of the standard forms in `ucm.forms`.
    seed : int
        For the samples and the starts.
    tol : float
        The relative gap that the solver must reach.

    Raises
    ------
    AssertionError
        A law is broken; the message names the form, the law and the numbers, or the missing method. Of a
        wrong answer it names the side that is wrong, primal, dual, feasibility or status, and the changes of
        the answer or of the problem that explain the figures.

    Examples
    --------
    >>> import ucm
    >>> from ucm.testing import check_solver
    >>> check_solver(ucm.solvers.SSNAL())
    """
    subject = solver.__name__ if inspect.isclass(solver) else getattr(solver, "name", repr(solver))
    judge = Checker(subject, tol)
    forms = _check_contract(judge, solver)
    rng, reasons, solved_forms = np.random.default_rng(seed), [], 0
    for trial in itertools.chain.from_iterable(_TRIALS[form](rng) for form in forms):
        of_trial = Checker(f"{subject}, {trial.label}", tol)
        why = _refusal(of_trial, solver, trial.form)
        if why is None:
            solved_forms += 1
            _check_trial(of_trial, solver, trial, rng)
        else:
            reasons.append(f"{trial.label}: {why}")
    if not solved_forms:
        judge.fail("it takes one of the forms", *reasons)
    if Composite in forms:
        _check_tilts(Checker(f"{subject}, in a session", tol), solver, rng)


# --- the problems ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Trial:
    """A test case: a small declared model, lowered over samples, with 0 "apart" from its set, "near", or
    "empty".
    """

    label: str
    lowering: Lowering
    case: str = "apart"
    memory: Lowering | None = None  # of samples that `lowering` reads block by block

    @property
    def form(self) -> Any:
        return self.lowering.form

    def elsewhere(self, rng: np.random.Generator) -> Answer:
        """Return a random start, in general outside of the domains."""
        sizes = self.form.expected.q if isinstance(self.lowering, DistanceLowering) else ()
        q = [3.0 * rng.standard_normal(size) for size in sizes or ()]
        if isinstance(self.form, HingeDual):
            return Answer(slopes=3.0 * rng.standard_normal(self.form.m))
        return Answer(q, rng.standard_normal(self.form.expected.w), 3.0)

    @functools.cached_property
    def _best(self) -> float:
        """The optimal value of the convex model by Clarabel."""
        twin = self.lowering if self.memory is None else self.memory
        if not isinstance(twin, BestSubsetLowering):
            return solved(twin.reference(None, True), {}).value
        n, model, values = twin.data.n, twin.model, []
        for kept in itertools.combinations(range(n), int(value(twin.subset.support.k))):
            penalty = fixed(model.penalty, (), [j for j in range(n) if j not in kept])
            program = majorant(replace(model, penalty=penalty), twin.data, None, 0.0)
            values.append(solved(program, {}).value)
        return min(values)

    def best(self, answer: Answer) -> float:
        """Return the optimal value by Clarabel; of a non-convex model that of the program at an answer."""
        lowering = self.lowering
        if isinstance(lowering, SphereLowering):
            program = linearised(lowering.model, lowering.data, lowering.form, answer)
            return program.scale * solved(program.unit, {}).value
        if isinstance(lowering.form, DifferenceOfConvex):
            return solved(majorant(lowering.model, lowering.data, *answer.plane), {}).value
        return self._best

    def judge(self, judge: Checker, answer: Answer, history: Sequence[dict] = ()) -> None:
        """Check the answer of a finished run; a broken law names the side that is wrong, with its causes."""
        if self.case == "empty":
            if answer.status != "infeasible":
                judge.fail('an empty set is "infeasible"', answer.status)
            return
        try:
            self._check_values(judge, answer)
        except AssertionError as broken:
            if self.case != "apart":
                raise
            best = self.best(answer)
            finding = diagnose(self.lowering, answer, best, judge.tol + _CLARABEL, abs(best), history)
            if finding is None:
                raise
            raise AssertionError(f"{broken}. Wrong side: {finding}") from None

    def _check_values(self, judge: Checker, answer: Answer) -> None:
        """Check violation, status, gap and optimal value."""
        try:
            proof = self.lowering.certify(answer, judge.tol)
        except SolverError as error:
            judge.fail("a plan takes the answer", error)
        certificate, norm = proof.certificate, self.lowering.data.space.norm
        law = "the blocks lie in their domains, the slopes meet their constraints"
        judge.at_most(law, certificate.violation, 2.0 * judge.tol)
        if self.case == "near" and proof.x is not None:
            judge.at_most("0 lies in the set", norm(proof.x, self.form.norm), judge.tol * self.form.largest)
            return
        if answer.status != "converged":
            judge.fail("the run ends with a solution", repr(answer.status), answer.message)
        if isinstance(self.lowering, SphereLowering):
            judge.at_most("||w||_p = 1", abs(norm(answer.plane[0], self.form.norm) - 1.0), 1e-9)
            residual = (certificate.residual or 0.0) / certificate.primal
            judge.at_most("w is stationary", residual, judge.tol)
            error = abs(self.best(answer) - certificate.primal) / certificate.primal
            judge.at_most("the program at w gains nothing, by Clarabel", error, judge.tol + _CLARABEL)
            return
        kind = "distance" if isinstance(self.form, MinNorm | RowHulls) else "objective"
        best = self.best(answer)
        error = abs(proof.objective - best) / abs(best)
        judge.at_most(f"the {kind} is that of Clarabel", error, judge.tol + _CLARABEL)
        judge.at_most("the dual vectors prove it", certificate.relative_gap, judge.tol)
        if answer.w is not None and proof.x is not None and not float(answer.w @ proof.x) > 0.0:
            judge.fail("w points to the side of x", answer.w, proof.x)


_Y = np.repeat([1.0, -1.0], 7)


def _apart(rng: np.random.Generator, n: int) -> Data:
    """Return two classes of 7 samples each in opposite orthants, in n features."""
    return bind(_Y[:, None] * (0.5 + np.abs(rng.standard_normal((14, n)))), _Y)


def _distances(rng: np.random.Generator) -> Iterator[_Trial]:
    data, wide, line = (_apart(rng, n) for n in (3, 40, 1))
    meeting = bind(np.where(np.arange(14)[:, None] % 7 == 0, 0.0, data.X), _Y)
    ball: Any = Ball  # of a number or a list, which stand for a vector
    hulls, reduced = Hull(pos) - Hull(neg), ReducedHull(pos, nu=0.7) - ReducedHull(neg, nu=0.7)
    ellipsoids = Ellipsoid(pos.mean, pos.cov, 0.5) - Ellipsoid(neg.mean, neg.cov, 0.5)
    cut = Hull(pos, weights=NormBall(0.5) & CappedSimplex(0.3)) - Hull(neg)
    coherent = (Ellipsoid(pos.mean, pos.cov, 1.0) & Hull(pos)) - Hull(neg)
    parts = Hull(pos) + ball(0, 0.3) - ReducedHull(neg, nu=0.7)
    empty = (ball(0, 1.0) & ball([3.0, 0.0, 0.0], 1.0)) - Hull(neg)
    plain: dict[str, tuple[UncertaintySet, Data]] = {
        "two hulls": (hulls, data),
        "two reduced hulls": (reduced, data),
        "two reduced hulls of many features": (reduced, wide),
        "two reduced hulls on a line": (reduced, line),
        "weights in a ball": (Hull(signed, weights=NormBall(0.4)), data),
        "weights near the uniform ones": (Hull(signed, weights=KLBall(0.7)), data),
        "two ellipsoids": (ellipsoids, data),
        "two ellipsoids of many features": (ellipsoids, wide),
        "a sum of sets": (parts, data),
        "an intersection of domains": (cut, data),
        "an intersection of sets": (coherent, data),
    }
    for label, (U, samples) in plain.items():
        yield _Trial(label, DistanceLowering(RobustMargin(U), samples))
    for U, norm in ((hulls, 1.0), (hulls, math.inf), (ellipsoids, 3.0)):
        yield _Trial(f"{U!r}, p = {norm:g}", DistanceLowering(RobustMargin(U, norm), data))
    touching: UncertaintySet = ball([1.0, 0.0, 0.0], 1.0)
    for label, U, samples, case in (
        ("hulls that touch", hulls, meeting, "near"),
        ("a ball that touches 0", touching, data, "near"),
        ("a set around 0", ball(0, 1.0) + 0.1 * Hull(pos), data, "near"),
        ("an empty set", empty, data, "empty"),
    ):
        yield _Trial(label, DistanceLowering(RobustMargin(U), samples), case)


def _spheres(rng: np.random.Generator) -> Iterator[_Trial]:
    around = 2.0 * np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))])
    data = bind(np.tile(around, (2, 1)) + 0.2 * rng.standard_normal((14, 3)), _Y)
    both = Ellipsoid(pos.mean, pos.cov, 2.0) - Ellipsoid(neg.mean, neg.cov, 2.0)
    one = Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, 3.0)
    sets = {"two hulls": Hull(pos) - Hull(neg), "an ellipsoid": one, "two ellipsoids": both}
    for label, U in sets.items():
        for norm in (2.0, 1.0, math.inf):
            convex = DistanceLowering(RobustMargin(U, norm), data)
            yield _Trial(f"{label} around 0, p = {norm:g}", SphereLowering(convex, -math.inf))


def _objectives(rng: np.random.Generator) -> Iterator[_Trial]:
    losses = (Hinge(), SquaredHinge(), Logistic(), Exponential(), 2.0 * Hinge(1.5))
    for n, weights in ((3, (1.0, 1.0)), (20, (1.0, 1.0)), (3, (2.0, 0.5))):
        data = bind(rng.standard_normal((14, n)) + 0.3 * _Y[:, None], _Y, weights)
        for loss in losses:
            for penalty in (L1(), 0.5 * L2(), ElasticNet(0.5)):
                model: Objective = loss + penalty
                label = f"{model!r}, {n} features, class weights {weights}"
                yield _Trial(label, ObjectiveLowering(model, data))


def _of(lowering: Callable[[Any, Data], Lowering], data: Data, *models: Any) -> Iterator[_Trial]:
    return (_Trial(repr(model), lowering(model, data)) for model in models)


def _worst_means(rng: np.random.Generator) -> Iterator[_Trial]:
    weights: tuple = (CappedSimplex(0.2), NormBall(0.5))
    means = [WorstMean(loss, weights=D) for loss in (Hinge(), Logistic()) for D in weights]
    return _of(ObjectiveLowering, _apart(rng, 3), *(mean + 0.02 * L2() for mean in means))


def _moved(rng: np.random.Generator) -> Iterator[_Trial]:
    robust = (Robust(loss, within=FeatureDeletion(1)) for loss in (Hinge(), Logistic()))
    return _of(ObjectiveLowering, _apart(rng, 3), *(loss + 0.5 * L2() for loss in robust))


def _flips(rng: np.random.Generator) -> Iterator[_Trial]:
    balls = [WassersteinObjective(loss, eps=0.1, kappa=k) for loss, k in ((Hinge(), 1.0), (Logistic(), 0.5))]
    return _of(FlipsLowering, _mixed(rng, 3), *balls)


def _differences(rng: np.random.Generator) -> Iterator[_Trial]:
    models = (Ramp(0.5) + 0.5 * L2(), Hinge() + 0.5 * CappedL1(1.0), Ramp(1.0) + 0.5 * CappedL1(1.0))
    return _of(ObjectiveLowering, _mixed(rng, 3), *models)


def _subsets(rng: np.random.Generator) -> Iterator[_Trial]:
    models = (loss + 0.5 * L2() + Cardinality(2) for loss in (Hinge(), Logistic()))
    return _of(BestSubsetLowering, _mixed(rng, 4), *models)


def _multipliers(rng: np.random.Generator) -> Iterator[_Trial]:
    data, models = _mixed(rng, 3), [2.0 * Hinge(p) + 0.25 * L2() for p in (1.0, 1.5, 2.0)]
    for kernel, model in itertools.product(("linear", "rbf"), models):
        bound = BoundModel(model, data, Gram(Kernel(kernel, gamma=0.5), data.X))
        yield _Trial(f"{model!r}, kernel {kernel}", ObjectiveLowering.candidates(bound)[0])


def _hulls_of_rows(rng: np.random.Generator) -> Iterator[_Trial]:
    capped = ReducedHull(pos, nu=0.7) - ReducedHull(neg, nu=0.7)
    balls = Hull(pos, weights=NormBall(0.5)) - Hull(neg, weights=NormBall(0.5))
    models = map(RobustMargin, (Hull(pos) - Hull(neg), capped, balls))
    return _of_rows(OutOfCoreHullsLowering, DistanceLowering, _apart(rng, 3), None, models)


def _losses_of_rows(rng: np.random.Generator) -> Iterator[_Trial]:
    models = (Hinge() + 0.5 * L2(), Hinge() + 0.5 * L1(), Logistic() + 0.5 * L2())
    return _of_rows(OutOfCoreLossesLowering, ObjectiveLowering, _mixed(rng, 3), _WEIGHTS, models)


def _of_rows(lowering: Any, in_memory: Any, data: Data, weights: Any, models: Iterable) -> Iterator[_Trial]:
    """Yield models over the samples as rows that are read block by block."""
    for model in models:
        rows = statistics_of_rows(model, open_rows(data.X, data.y), weights)
        yield _Trial(repr(model), lowering(model, rows, "auto"), memory=in_memory(model, data))


_WEIGHTS = (2.0, 0.5)


def _mixed(rng: np.random.Generator, n: int) -> Data:
    """Return two overlapping classes of 7 samples each in n features, with class weights 2 and 1/2."""
    return bind(rng.standard_normal((14, n)) + 0.3 * _Y[:, None], _Y, _WEIGHTS)


_TRIALS: dict[type, Callable[[np.random.Generator], Iterator[_Trial]]] = {
    MinNorm: _distances,
    UnitNorm: _spheres,
    Composite: _objectives,
    GeneralComposite: _worst_means,
    FlipComposite: _flips,
    MovedComposite: _moved,
    DifferenceOfConvex: _differences,
    BestSubset: _subsets,
    HingeDual: _multipliers,
    RowHulls: _hulls_of_rows,
    RowLosses: _losses_of_rows,
}


# --- the laws --------------------------------------------------------------------------------------
def _check_contract(judge: Checker, solver: object) -> list[type]:
    """Check the methods, class, name and forms of a solver; return the forms that have trials."""
    missing = [name for name in ("refuse", "solve") if not callable(getattr(solver, name, None))]
    missing += sorted(getattr(solver, "__abstractmethods__", ()))
    if missing:
        judge.fail("a solver has the methods", ", ".join(missing))
    if not isinstance(solver, Solver):
        judge.fail("it is an instance of a subclass of ucm.forms.solver.Solver", type(solver))
    if not isinstance(getattr(solver, "name", None), str):
        judge.fail("it has a `name`", getattr(solver, "name", None))
    forms = [form for form in solver.takes if form in _TRIALS]
    if not forms:
        names = ", ".join(form.__name__ for form in solver.takes)
        judge.fail(f"its form is one of {', '.join(form.__name__ for form in _TRIALS)}", names)
    return forms


def _refusal(judge: Checker, solver: Solver, form: object) -> str | None:
    try:
        why = solver.refuse(form)
    except Exception as error:
        judge.fail("`refuse` never raises", repr(error))
    if why is not None and not (isinstance(why, str) and why):
        judge.fail("`refuse` gives a reason or None", repr(why))
    return why


def _run(
    judge: Checker, solver: Solver, trial: _Trial, start: Answer | None = None, **options: Any
) -> tuple[Answer, Monitor]:
    """Run the solver once, check answer, inputs and passes, and return the answer and the monitor."""
    monitor, lowering = Monitor(judge.tol, **options), trial.lowering
    data = lowering.data if trial.memory is None else trial.memory.data
    inputs = [data.X, data.y]
    inputs += [lowering.image.center] if isinstance(lowering, DistanceLowering | SphereLowering) else []
    if start is not None:
        inputs += [*start.q, *(v for v in (start.w, start.slopes) if v is not None)]
    copies = [v.copy() for v in inputs]
    try:
        answer = solver.solve(trial.form, monitor, start)
    except Exception as error:
        judge.fail("`solve` ends with an answer", repr(error))
    try:
        checked(answer, trial.form.expected, solver.name)
    except SolverError as error:
        judge.fail("a plan takes the answer", error)
    for old, new in zip(copies, inputs, strict=True):
        if not np.array_equal(old, new):
            judge.fail("the inputs are unchanged", old, new)
    passes = [0.0, *(record["passes"] for record in monitor.history), monitor.passes]
    if not (np.diff(passes) >= 0.0).all():
        judge.fail("passes only grow", passes)
    return answer, monitor


def _check_trial(judge: Checker, solver: Solver, trial: _Trial, rng: np.random.Generator) -> None:
    run = functools.partial(_run, judge, solver, trial)
    answer, monitor = run()
    trial.judge(judge, answer, monitor.history)
    if answer.status == "converged":
        if not monitor.history:
            judge.fail("every run is reported", monitor.history)
        for start in (trial.elsewhere(rng), answer):
            again, monitor = run(start)
            trial.judge(judge, again, monitor.history)
    short, monitor = run(max_iter=1)
    if len(monitor.history) > 1:  # an external program may report once, at its end
        judge.at_most("`max_iter=1` stops it", monitor.history[-1]["iteration"], 1)
    records: list = []
    stopped, _ = run(callback=lambda record: records.append(record) is None)
    judge.at_most("it stops where the callback answers True", len(records), 1)
    late, monitor = run(time_limit=1e-9)
    judge.at_most("it stops where the time is over", len(monitor.history), 1)
    for answer, status in ((short, "max_iter"), (stopped, "interrupted"), (late, "interrupted")):
        if answer.status != status:
            trial.judge(judge, answer)


def _check_tilts(judge: Checker, solver: Solver[Composite], rng: np.random.Generator) -> None:
    """Check that one session solves the convex majorants of an objective at successive points."""
    data = _mixed(rng, 3)
    for loss in (Ramp(0.5), Logistic()):
        for penalty in (0.5 * CappedL1(1.0), 0.5 * L2()):
            model: Objective = loss + penalty
            form, (G, H) = DifferenceOfConvex.of(model, data), model.dc()
            if solver.refuse(form.G) is not None:
                continue
            session = solver.session(form.G)
            for _ in range(3):
                w, b = 2.0 * rng.standard_normal(3), float(rng.standard_normal())
                margin = data.y * (data.X @ w + b)
                plane = tangent_plane(H, data, FeatureNormal(data.X, w), margin)
                best = solved(majorant(model, data, w, b), {}).value
                tilted = form.G.tilted(form.subgradient(margin, w))
                answer = session.solve(tilted, Monitor(judge.tol), Answer(w=w, b=b))
                if answer.status != "converged":
                    judge.fail(f"{model!r}, tilted, is solved", answer.status, answer.message)
                w, b = answer.plane
                margin = data.y * (data.X @ w + b)
                value = G.value(margin, w, data.y, data.weights, data.groups) - plane.height
                value -= float(plane.margin @ margin) + float(plane.normal @ w)
                error = abs(value - best) / max(abs(best), 1.0)
                judge.at_most(f"{model!r}, tilted, is solved", error, judge.tol + _CLARABEL)
