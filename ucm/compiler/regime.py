"""Convex or not: whether 0 lies in U, and what is done where it does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ucm.compiler.recover import bias, sample_weights
from ucm.compiler.unit_routes import choose_unit
from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.errors import ConvergenceWarning, ParameterError, warn_of
from ucm.evidence.bounds import lower_bound
from ucm.evidence.stationary import at_kink, certify_unit, pinned, proven
from ucm.forms.answer import Answer
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Certificate, Solution, Stats
from ucm.forms.sphere import UnitNorm, UnitSolver
from ucm.language.robust import RobustMargin
from ucm.solvers.sphere.radial import radial

__all__ = ["Regime", "beyond", "regime_of"]

_REPRODUCED = 1e-9  # of the objective: the same minimum


@dataclass(frozen=True)
class Regime:
    """Whether a model is convex for its data, and how that is known.

    Attributes
    ----------
    convex : False where 0 lies in U
    how : a sentence
    floor : a lower bound of the optimum where it is not convex: minus the norm of a point of U
    """

    convex: bool
    how: str
    floor: float = 0.0


def regime_of(model: RobustMargin, data: Data, unit: UnitNorm) -> Regime:
    """Whether 0 lies in U.

    A direction that separates 0 from U proves that it does not. The centre c of U is tried; then the
    program `max {s : -s c in U}`, not negative exactly when 0 lies in U, and whose dual vector separates
    otherwise: over hulls it is a linear program, equivalent to (30) of Barbero, Takeda and Lopez (2015).
    """
    form = unit.image
    center = form.matvec(form.centers())
    norm = data.space.norm(center)
    if norm == 0.0:
        return Regime(False, "0 is the centre of U")
    if model.set.support(data, -center / norm, {})[0] < 0.0:
        return Regime(True, "the difference of the centres separates 0 from U")
    inside = unit.lower(center)
    if data.space.norm(center - unit.lift(inside)) > 1e-6 * norm:
        return Regime(True, "0 is not in the affine hull of U")
    found = radial(unit, 1e-6)(inside / norm)
    program = "linear program" if unit.hulls is not None else "conic program"
    if found is None:
        return Regime(True, f"the {program} for 0 in U had no answer; the solve decides")
    if found.s < 0.0:
        return Regime(True, f"a {program} separates 0 from U")
    part = found.s / (norm + found.s)
    near = part * center + (1.0 - part) * form.matvec(found.q)
    return Regime(False, f"0 lies in U, by a {program}", -data.space.norm(near, model.dual))


def beyond(
    model: RobustMargin,
    data: Data,
    unit: UnitNorm,
    wanted: UnitSolver | None,
    floor: float,
    size: float,
    setup_time: float,
    monitor: Monitor,
    warm_start: Solution | None,
    starts: int,
    bias_rule: str,
) -> Solution:
    """Solve where 0 lies in U, and U is more than this point.

    Parameters
    ----------
    wanted : the solver named, or None for the table
    floor : a lower bound of the optimum
    size : how large the points of U are
    starts : the first from the barycentres, the others random
    """
    solver, _ = choose_unit(unit, wanted)
    monitor.history.clear()  # of the convex solver, whose objective is another
    monitor.iterations = 0
    raws = []
    for start in _starts(unit, data, warm_start, starts):
        raws.append(solver.solve(unit, monitor, start))
        if raws[-1].status == "interrupted":
            break
    form = unit.image
    found = [
        certify_unit(model, data, unit, _normal(answer), answer.q, floor, form.splits(answer))
        for answer in raws
    ]
    heights = np.array([certificate.primal for certificate, _ in found])
    best = int(np.argmin(heights))
    answer, (certificate, x) = raws[best], found[best]
    w = _normal(answer)
    if answer.witness is not None:
        bound = lower_bound(model, data, unit, answer.witness)
        if bound > floor:
            certificate = proven(certificate, bound, data.scale)
    certificate, status, message = _judge(
        model, unit, answer, certificate, w, solver.name, monitor.tol, size
    )
    if len(raws) > 1:
        same = int((heights <= heights[best] + _REPRODUCED * abs(heights[best])).sum())
        message += (
            f"; the best of {len(raws)} starts, reached by {same} of them, "
            f"the worst ended at {heights.max():.6g}"
        )
    b, rule = bias(bias_rule, model.set, form, data, answer.q, w)
    stats = Stats(
        solver.name,
        setup_time,
        monitor.seconds,
        monitor.iterations,
        monitor.passes,
        monitor.kernel_operations,
    )
    weights = sample_weights(form, answer.q, data.m)
    return Solution(
        w, b, x, weights, certificate.primal, certificate, status, message, stats,
        monitor.history, bias_rule=rule, size=size, answer=answer,
    )  # fmt: skip


def _normal(answer: Answer) -> Vec:
    if answer.w is None:
        raise ParameterError("a solver of the non-convex side must give w")
    return answer.w


def _starts(
    unit: UnitNorm, data: Data, warm_start: Solution | None, count: int
) -> list[Answer | None]:
    """The given w or the barycentres, then random directions."""
    first: Answer | None = None
    if warm_start is not None and warm_start.w is not None and warm_start.w.any():
        if warm_start.w.size != unit.image.n:
            raise ParameterError(
                "solve: warm_start is the solution of a model of another shape; "
                "give one over the same features"
            )
        if data.space.norm(unit.lower(warm_start.w)) > 0.0:
            first = Answer(w=warm_start.w)
    generator = np.random.default_rng(0)
    random = (unit.lift(generator.standard_normal(unit.rank)) for _ in range(count - 1))
    return [first, *(Answer(w=w) for w in random)]


def _judge(
    model: RobustMargin,
    unit: UnitNorm,
    answer: Answer,
    certificate: Certificate,
    w: Vec,
    name: str,
    tol: float,
    size: float,
) -> tuple[Certificate, str, str]:
    inside, residual = certificate.violation <= max(tol, 1e-6), certificate.residual or 0.0
    span = "" if unit.basis is None else f", w in the span of U, of dimension {unit.rank}"
    if inside and certificate.gap <= tol * max(abs(certificate.primal), 1e-300):
        certificate = replace(certificate, kind="global")
        return certificate, "optimal", f"proven: {certificate}; 0 lies in U{span}"
    if inside and certificate.gap <= max(tol, 1e-9) * size:
        certificate = replace(certificate, kind="global")
        return (
            certificate,
            "optimal",
            (f"0 lies on the boundary of U{span}: the objective is 0 within {certificate.gap:.2g}"),
        )
    if inside and residual <= tol * max(size, 1e-300):
        what = f"0 lies in U{span}; {residual:.2g} from stationary"
        if pinned(unit, w):
            kink = "; the norm has a kink there" if at_kink(unit, w) else ""
            status = "stationary" if kink else "local"
            return certificate, status, f"{what}, and the ties of the margins pin w{kink}"
        if at_kink(unit, w):
            return certificate, "stationary", f"{what}, at a kink of the {model.norm:g}-norm"
        return certificate, "stationary", f"{what}"
    message = (
        f"{name} stopped {residual:.2g} from stationary with a violation of "
        f"{certificate.violation:.2g}, tolerance {tol:.2g} of {size:.2g}. "
        + (answer.message or "Take another solver, or more starts.")
    )
    warn_of(message, ConvergenceWarning)
    return certificate, answer.status, message
