"""The laws of a solver: it solves every small form that it takes, stops when told, and changes nothing."""

from __future__ import annotations

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucm.data.bound_data import Data, bind
from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.evidence.certificate import certify
from ucm.evidence.objective import FeatureNormal, certify_objective, tangent_plane
from ucm.evidence.reference import linearised, majorant, reference_problem
from ucm.evidence.sphere import certify_unit
from ucm.evidence.verify import solved
from ucm.forms.answer import STATUSES, Answer, checked
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, DifferenceOfConvex, InnerSolver
from ucm.forms.solver import Solver
from ucm.forms.sphere import UnitNorm
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import CappedSimplex, KLBall, NormBall
from ucm.language.losses import Exponential, Hinge, Logistic, Ramp, SquaredHinge
from ucm.language.objective import Objective
from ucm.language.penalties import L1, L2, CappedL1, ElasticNet
from ucm.language.robust import RobustMargin
from ucm.language.sets import Ball, Ellipsoid, Hull, ReducedHull
from ucm.language.statistics.samples import neg, pos, signed
from ucm.testing.checker import Checker

__all__ = ["check_solver"]

_METHODS = ("refuse", "solve")
_CLARABEL = 1e-7  # relative error of the answer of Clarabel


def check_solver(solver: Solver[Any], seed: int = 0, *, tol: float = 1e-6) -> None:
    """Hold a solver against the forms of small declared models, whose optimum Clarabel finds from the
    declaration.

    `refuse` gives a reason or None for every form. For each one that it takes, from the solver's own
    start, from one outside of the domains and from the answer, the answer is certified by the
    declaration, and its objective is that of Clarabel. Each run is reported, passes only
    grow, `max_iter` and a callback that answers True stop it, and what it was given is unchanged. An
    empty set is "infeasible"; where 0 lies in the set or on its boundary the answer is near 0.

    Parameters
    ----------
    solver : Solver
        A solver of `MinNorm`, `UnitNorm` or `Composite`.
    seed : int
        For the samples and the starts.
    tol : float
        The relative gap that the solver must reach.

    Raises
    ------
    AssertionError
        A law is broken; the message names the form, the law and the numbers, or the missing method.

    Examples
    --------
    >>> import ucm
    >>> from ucm.testing import check_solver
    >>> check_solver(ucm.solvers.SSNAL())
    """
    subject = solver.__name__ if inspect.isclass(solver) else repr(solver)
    trials = _check_contract(Checker(subject, tol), solver)
    rng, refused, taken = np.random.default_rng(seed), [], 0
    for trial in trials(rng):
        judge = Checker(f"{subject}, {trial.label}", tol)
        why = _refusal(judge, solver, trial.form)
        if why is None:
            taken += 1
            _check_trial(judge, solver, trial, rng)
        else:
            refused.append(f"{trial.label}: {why}")
    if not taken:
        Checker(subject, tol).fail("it takes one of the forms", *refused)
    if isinstance(solver, InnerSolver):
        _check_tilts(Checker(f"{subject}, in a session", tol), solver, rng)


# --- the problems ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Trial(ABC):
    """A declared model over samples, and its form, with the centre of the lowered set."""

    label: str
    model: Any
    data: Data
    form: Any
    center: Vec

    @abstractmethod
    def elsewhere(self, rng: np.random.Generator) -> Answer:
        """A start far off."""

    @abstractmethod
    def judge(self, judge: Checker, answer: Answer) -> None:
        """Judge the answer of a finished run."""


@dataclass(frozen=True)
class _Distance(_Trial):
    """The nearest point of a set; `case` is "apart" from 0, "near" it, or "empty"."""

    case: str = "apart"

    @functools.cached_property
    def size(self) -> float:
        """Return the scale of the points of the set."""
        centers, norm = self.form.centers(), self.data.space.norm
        parts = [b.map.matvec(q) for b, q in zip(self.form.blocks, centers, strict=True)]
        return norm(self.form.center) + sum(map(norm, parts))

    @functools.cached_property
    def best(self) -> float:
        reference = reference_problem(self.model, self.data)
        return -reference.scale * solved(reference.unit, {}).value

    def elsewhere(self, rng: np.random.Generator) -> Answer:
        q = [3.0 * rng.standard_normal(b.map.shape[1]) for b in self.form.blocks]
        return Answer(q, rng.standard_normal(self.form.n))

    def judge(self, judge: Checker, answer: Answer) -> None:
        if self.case == "empty":
            if answer.status != "infeasible":
                judge.fail('an empty set is "infeasible"', answer.status)
            return
        _finite(judge, [*answer.q, *answer.multipliers])
        if answer.w is not None:
            _finite(judge, [answer.w])
        shapes = [(b.map.shape[1],) for b in self.form.blocks]
        if [np.shape(v) for v in answer.q] != shapes:
            judge.fail("a vector for each block", [np.shape(v) for v in answer.q], shapes)
        splits = self.form.splits(answer)
        certificate, _, x, _ = certify(self.model, self.data, answer.q, answer.w, splits)
        norm = self.data.space.norm(x, self.model.dual)
        judge.at_most("the blocks lie in their domains", certificate.violation, 2.0 * judge.tol)
        if self.case == "near":
            judge.at_most("0 lies in the set", norm, judge.tol * self.size)
            return
        _converged(judge, answer)
        error = abs(norm - self.best) / self.best
        judge.at_most("the distance is that of Clarabel", error, judge.tol + _CLARABEL)
        judge.at_most("w and the multipliers prove it", certificate.relative_gap, judge.tol)
        if answer.w is not None and not self.data.space.inner(answer.w, x) > 0.0:
            judge.fail("w points to the side of x", answer.w, x)


@dataclass(frozen=True)
class _Sphere(_Trial):
    """The least worst case over the unit sphere, 0 in the set."""

    def elsewhere(self, rng: np.random.Generator) -> Answer:
        return Answer(w=5.0 * rng.standard_normal(self.form.image.n))

    def judge(self, judge: Checker, answer: Answer) -> None:
        w = _normal(judge, answer)
        _finite(judge, answer.q)
        _converged(judge, answer)
        length = self.data.space.norm(w, self.form.norm)
        judge.at_most("||w||_p = 1", abs(length - 1.0), 1e-9)
        splits = self.form.image.splits(answer)
        certificate, _ = certify_unit(
            self.model, self.data, self.form, w, answer.q, -math.inf, splits
        )
        judge.at_most("the blocks lie in their domains", certificate.violation, 2.0 * judge.tol)
        residual = (certificate.residual or 0.0) / certificate.primal
        judge.at_most("w is stationary", residual, judge.tol)
        program = linearised(self.model, self.data, self.form, answer)
        value = program.scale * solved(program.unit, {}).value
        error = abs(value - certificate.primal) / certificate.primal
        judge.at_most("the program at w gains nothing, by Clarabel", error, judge.tol + _CLARABEL)


@dataclass(frozen=True)
class _Losses(_Trial):
    """A convex loss and a convex penalty."""

    @functools.cached_property
    def best(self) -> float:
        return solved(majorant(self.model, self.data, None, 0.0), {}).value

    def elsewhere(self, rng: np.random.Generator) -> Answer:
        return Answer(w=rng.standard_normal(self.data.n), b=3.0)

    def judge(self, judge: Checker, answer: Answer) -> None:
        normal = FeatureNormal(self.data.X, _normal(judge, answer))
        _converged(judge, answer)
        b = answer.b or 0.0
        certificate = certify_objective(self.model, self.data, normal, b, answer.slopes)
        error = abs(certificate.primal - self.best) / self.best
        judge.at_most("the objective is that of Clarabel", error, judge.tol + _CLARABEL)
        judge.at_most("the slopes meet their constraints", certificate.violation, judge.tol)
        judge.at_most("the slopes prove it", certificate.relative_gap, judge.tol)


def _normal(judge: Checker, answer: Answer) -> Vec:
    if answer.w is None:
        judge.fail("the answer has a normal", "w is None")
    _finite(judge, [answer.w])
    return answer.w


def _finite(judge: Checker, arrays: list[Vec]) -> None:
    if not all(np.isfinite(v).all() for v in arrays):
        judge.fail("the answer is made of finite numbers", *arrays)


def _converged(judge: Checker, answer: Answer) -> None:
    if answer.status != "converged":
        judge.fail("the run ends with a solution", repr(answer.status), answer.message)


_Y = np.repeat([1.0, -1.0], 7)


def _apart(rng: np.random.Generator, n: int) -> Data:
    """Classes that lie in opposite orthants."""
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
    problems: list[tuple[str, UncertaintySet, Data, float, str]] = [
        ("two hulls", hulls, data, 2.0, "apart"),
        ("two reduced hulls", reduced, data, 2.0, "apart"),
        ("two reduced hulls of many features", reduced, wide, 2.0, "apart"),
        ("two reduced hulls on a line", reduced, line, 2.0, "apart"),
        ("weights in a ball", Hull(signed, weights=NormBall(0.4)), data, 2.0, "apart"),
        ("weights near the uniform ones", Hull(signed, weights=KLBall(0.7)), data, 2.0, "apart"),
        ("two ellipsoids", ellipsoids, data, 2.0, "apart"),
        ("two ellipsoids of many features", ellipsoids, wide, 2.0, "apart"),
        ("a sum of sets", parts, data, 2.0, "apart"),
        ("an intersection of domains", cut, data, 2.0, "apart"),
        ("an intersection of sets", coherent, data, 2.0, "apart"),
        ("two hulls, p = 1", hulls, data, 1.0, "apart"),
        ("two hulls, p = inf", hulls, data, math.inf, "apart"),
        ("two ellipsoids, p = 3", ellipsoids, data, 3.0, "apart"),
        ("hulls that touch", hulls, meeting, 2.0, "near"),
        ("a ball that touches 0", ball([1.0, 0.0, 0.0], 1.0), data, 2.0, "near"),
        ("a set around 0", ball(0, 1.0) + 0.1 * Hull(pos), data, 2.0, "near"),
        ("an empty set", empty, data, 2.0, "empty"),
    ]
    for label, U, samples, norm, case in problems:
        model = RobustMargin(U, norm)
        form = MinNorm.of(U.lower(samples), model.dual, samples.stored, samples.space)
        yield _Distance(label, model, samples, form, form.center, case)


def _spheres(rng: np.random.Generator) -> Iterator[_Trial]:
    around = 2.0 * np.concatenate([np.eye(3), -np.eye(3), np.zeros((1, 3))])
    data = bind(np.tile(around, (2, 1)) + 0.2 * rng.standard_normal((14, 3)), _Y)
    both = Ellipsoid(pos.mean, pos.cov, 2.0) - Ellipsoid(neg.mean, neg.cov, 2.0)
    one = Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, 3.0)
    sets = {"two hulls": Hull(pos) - Hull(neg), "an ellipsoid": one, "two ellipsoids": both}
    for label, U in sets.items():
        for norm in (2.0, 1.0, math.inf):
            model = RobustMargin(U, norm)
            image = MinNorm.of(U.lower(data), model.dual, data.stored, data.space)
            form = UnitNorm.of(image, norm)
            yield _Sphere(f"{label} around 0, p = {norm:g}", model, data, form, image.center)


def _objectives(rng: np.random.Generator) -> Iterator[_Trial]:
    losses = (Hinge(), SquaredHinge(), Logistic(), Exponential(), 2.0 * Hinge(1.5))
    for n, weights in ((3, (1.0, 1.0)), (20, (1.0, 1.0)), (3, (2.0, 0.5))):
        data = bind(rng.standard_normal((14, n)) + 0.3 * _Y[:, None], _Y, weights)
        for loss in losses:
            for penalty in (L1(), 0.5 * L2(), ElasticNet(0.5)):
                model: Objective = loss + penalty
                label = f"{model!r}, {n} features, class weights {weights}"
                form = DifferenceOfConvex.of(model, data).G
                yield _Losses(label, model, data, form, np.zeros(n))


_TRIALS: dict[type, Callable[[np.random.Generator], Iterator[_Trial]]] = {
    MinNorm: _distances,
    UnitNorm: _spheres,
    Composite: _objectives,
}


# --- the laws --------------------------------------------------------------------------------------
def _check_contract(
    judge: Checker, solver: Any
) -> Callable[[np.random.Generator], Iterator[_Trial]]:
    """The solver has the methods and the name of one; the forms to hold it against."""
    missing = [name for name in _METHODS if not callable(getattr(solver, name, None))]
    missing += sorted(getattr(solver, "__abstractmethods__", ()))
    if missing:
        judge.fail("a solver has the methods", ", ".join(missing))
    if inspect.isclass(solver) or not isinstance(solver, Solver):
        judge.fail("it is an instance of a subclass of ucm.forms.solver.Solver", type(solver))
    if not isinstance(getattr(solver, "name", None), str):
        judge.fail("it has a `name`", getattr(solver, "name", None))
    known = [form for form in solver.takes if form in _TRIALS]
    if not known:
        names = ", ".join(form.__name__ for form in solver.takes)
        judge.fail("its form is MinNorm, UnitNorm or Composite", names)
    return lambda rng: (trial for form in known for trial in _TRIALS[form](rng))


def _refusal(judge: Checker, solver: Solver[Any], form: Any) -> str | None:
    try:
        why = solver.refuse(form)
    except Exception as error:
        judge.fail("`refuse` never raises", repr(error))
    if why is not None and not (isinstance(why, str) and why):
        judge.fail("`refuse` gives a reason or None", repr(why))
    return why


def _run(
    judge: Checker, solver: Solver[Any], trial: _Trial, start: Answer | None = None, **options: Any
) -> tuple[Answer, Monitor]:
    """Run the solver once and judge the answer."""
    monitor = Monitor(judge.tol, **options)
    given = [trial.data.X, trial.data.y, trial.center]
    if start is not None:
        given += [*start.q, *(v for v in (start.w, start.slopes) if v is not None)]
    before = [v.copy() for v in given]
    try:
        answer = solver.solve(trial.form, monitor, start)
    except Exception as error:
        judge.fail("`solve` ends with an answer", repr(error))
    if not isinstance(answer, Answer):
        judge.fail("`solve` gives an Answer", type(answer).__name__)
    if answer.status not in STATUSES:
        judge.fail(f"the status is one of {', '.join(STATUSES)}", repr(answer.status))
    for old, new in zip(before, given, strict=True):
        if not np.array_equal(old, new):
            judge.fail("what it was given is unchanged", old, new)
    passes = [0.0, *(record["passes"] for record in monitor.history), monitor.passes]
    if not (np.diff(passes) >= 0.0).all():
        judge.fail("passes only grow", passes)
    return answer, monitor


def _check_trial(
    judge: Checker, solver: Solver[Any], trial: _Trial, rng: np.random.Generator
) -> None:
    run = functools.partial(_run, judge, solver, trial)
    answer, monitor = run()
    trial.judge(judge, answer)
    try:
        checked(answer, trial.form.expected, solver.name)
    except SolverError as error:
        judge.fail("a plan takes the answer", error)
    if answer.status == "converged":
        if not monitor.history:
            judge.fail("every run is reported", monitor.history)
        for start in (trial.elsewhere(rng), answer):
            trial.judge(judge, run(start)[0])
    short, monitor = run(max_iter=1)
    if len(monitor.history) > 1:  # a program in other hands may report once, at its end
        judge.at_most("`max_iter=1` stops it", monitor.history[-1]["iteration"], 1)
    if short.status != "max_iter":
        trial.judge(judge, short)
    seen: list[Any] = []
    stopped, _ = run(callback=lambda record: seen.append(record) is None)
    judge.at_most("it stops where the callback answers True", len(seen), 1)
    if stopped.status != "interrupted":
        trial.judge(judge, stopped)
    ended, monitor = run(time_limit=1e-9)
    judge.at_most("it stops where the time is over", len(monitor.history), 1)
    if ended.status != "interrupted":
        trial.judge(judge, ended)


def _check_tilts(judge: Checker, solver: InnerSolver, rng: np.random.Generator) -> None:
    """A session solves the majorants of an objective, at one point after another."""
    data = bind(rng.standard_normal((14, 3)) + 0.3 * _Y[:, None], _Y, (2.0, 0.5))
    for loss in (Ramp(0.5), Logistic()):
        for penalty in (0.5 * CappedL1(1.0), 0.5 * L2()):
            model: Objective = loss + penalty
            form, (G, H) = DifferenceOfConvex.of(model, data), model.dc()
            if solver.refuse(form.G) is not None:
                continue
            session = solver.open(form.G, Monitor(judge.tol))
            for _ in range(3):
                w, b = 2.0 * rng.standard_normal(3), float(rng.standard_normal())
                margin = data.y * (data.X @ w + b)
                plane = tangent_plane(H, data, FeatureNormal(data.X, w), margin)
                best = solved(majorant(model, data, w, b), {}).value
                tilt = form.tilt(margin, w)
                answer = session.solve(form.G, tilt, judge.tol)
                _converged(judge, answer)
                w, b = _normal(judge, answer), answer.b or 0.0
                margin = data.y * (data.X @ w + b)
                height = G.value(margin, w, data.y, data.weights, data.groups) - plane.height
                height -= float(plane.margin @ margin) + float(plane.normal @ w)
                error = abs(height - best) / max(abs(best), 1.0)
                judge.at_most(f"{model!r}, tilted, is solved", error, judge.tol + _CLARABEL)
