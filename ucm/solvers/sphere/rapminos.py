"""RAPMINOS: radially projected minimum-norm subgradients for sums of reduced hulls, in any norm."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucm.data.linear_map import Vec
from ucm.data.options import SEED, one_of, option
from ucm.errors import ParameterError
from ucm.forms.faces import Face, SumOfHulls, min_norm_point
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Answer, Solver
from ucm.forms.sphere import UnitNorm
from ucm.native.threads import blas_threads
from ucm.solvers.sphere.quasi_newton import descended
from ucm.solvers.sphere.ray_shooting import PolyhedralRay

_SAME = 1e-13  # relative change of the objective that counts as rounding
_SLOW = 1e-9  # least relative decrease of the objective in a window of steps
_ENTRIES = 50_000  # of samples up to which one program of all of them stays warm
_ROUNDS = 20  # programs in a row in which the same weights vary


class _State(NamedTuple):
    """Iterate w in the coordinates of the form, with the scores `-w'z_i` and the face of U along -w."""

    v: Vec
    scores: Vec
    face: Face

    @property
    def value(self) -> float:
        return self.face.value


@dataclass(frozen=True)
class Rapminos(Solver[UnitNorm]):
    """Find a local minimum of f over the unit sphere by RAPMINOS, by default with linear-program steps.

    Algorithm 2 of Barbero, Takeda and Lopez (2015), for every norm.

    From w go along `-N g`, g the subgradient of f with the least norm after the part along the normal n of
    the unit ball is taken out (`N = I - n n' / n'n`), then back to `||w||_p = 1` along the ray. The sets S
    (tied samples) and Q (samples at their cap) are rebuilt from the margins at every step: a tied sample of
    weight 0 still belongs to the subdifferential. A stationary point whose ties do not pin w is no
    minimum, and is left along a direction orthogonal to the ties, up to the next kink.

    As printed the method zigzags (3,700 steps on ida_waveform). By default f is minimised on `<n, w> = 1` by
    a linear program in place of a step along `-N g`. Where the program gains nothing, w is stationary. With
    many samples quasi-Newton steps come first, as f is nearly smooth away from its minimum, and the programs
    have the weights of the samples nearest to the threshold only: their function lies below f and equals f at
    w, so that a w that is stationary for it is stationary for f.

    Parameters
    ----------
    step
        "line": to the least f along a direction, and farther while `f / ||w||_p` falls. "nearest": along
        `-N g` to the first kink, equation (29), with S the ties alone, the method as printed.
    seed
        Of the further starts.

    Notes
    -----
    f never increases: it falls along the direction, and dividing by a norm >= 1 lowers it further
    (Lemma 19).
    """

    step: str = option(one_of("line", "nearest"), "line")
    seed: int = option(SEED, 0)
    name: ClassVar[str] = "rapminos"

    def refuse(self, form: UnitNorm) -> str | None:
        return None if form.hulls is not None else "it takes sums of reduced hulls"

    def solve(self, form: UnitNorm, monitor: Monitor, start: Answer | None = None) -> Answer:
        if form.hulls is None:
            raise ParameterError(
                "Rapminos: expected a sum of reduced hulls, got another set; take ucm.solvers.Linearize()"
            )
        with blas_threads(form.rank):
            return self._descend(form, form.hulls, monitor, form.begin(start))

    def _descend(self, form: UnitNorm, hulls: SumOfHulls, monitor: Monitor, v: Vec) -> Answer:
        line = self.step == "line"
        small = hulls.points.size <= _ENTRIES and not monitor.timed_out
        program = PolyhedralRay(hulls, monitor) if line and small else None
        at = _state(hulls, descended(form, v, monitor) if line and not small else v)
        width = 8 * form.rank  # samples of each group whose weights vary
        limit = monitor.limit(5000)
        flat = form.image.space.resolution * form.image.largest
        window = max(100, form.rank)
        mark = at.value
        for step in range(limit):
            if at.value <= flat:  # 0 lies on the boundary of U, as far as rounding can tell
                return _answer(form, hulls, at)
            if step % window == window - 1:
                if not at.value < mark * (1.0 - _SLOW):
                    message = f"{window} steps in a row gained less than {_SLOW:g} of the objective"
                    return _answer(form, hulls, at).ended("stalled", message)
                mark = at.value
            record = functools.partial(form.trace_record, at.v)
            if monitor.report(monitor.iterations + 1, at.value, float("nan"), record):
                return _answer(form, hulls, at).interrupted()
            if not line:
                new = _steepest(form, hulls, at, monitor)
            elif program is not None:
                new = _linearised(form, hulls, at, program, monitor)
            else:
                new, width = _in_part(form, hulls, at, width, monitor)
            if new is None or not new.value < at.value * (1.0 - 1e-15):
                new = _escape(form, hulls, at, monitor)
            monitor.passes += 1.0
            if new is None and monitor.timed_out:
                return _answer(form, hulls, at).interrupted()
            if new is None:
                return _answer(form, hulls, at)
            at = new
        message = f"{limit} steps taken; raise max_iter"
        return _answer(form, hulls, at).ended("max_iter", message)


def _answer(form: UnitNorm, hulls: SumOfHulls, at: _State) -> Answer:
    return Answer(hulls.blocks(form.residual(at.v)[1]), form.lift(at.v))


def _state(hulls: SumOfHulls, v: Vec) -> _State:
    scores = hulls.scores(v)
    return _State(v, scores, hulls.face(v, scores))


def _moved(form: UnitNorm, hulls: SumOfHulls, v: Vec, d: Vec, t: float) -> _State | None:
    return _state(hulls, form.unit(v + t * d)) if 0.0 < t < np.inf else None


def _along(form: UnitNorm, hulls: SumOfHulls, at: _State, d: Vec, t: float) -> _State | None:
    """Return the state after the step t, doubled while f falls over the sphere.

    t has the least f on `<n, w> = 1`; `f / ||w||_p` can fall further, as `||w||_p` grows along d.
    """
    best = _moved(form, hulls, at.v, d, t)
    while best is not None and t < 1e6:
        t *= 2.0
        new = _moved(form, hulls, at.v, d, t)
        if new is None or not new.value < best.value:
            break
        best = new
    return best


def _steepest(form: UnitNorm, hulls: SumOfHulls, at: _State, monitor: Monitor) -> _State | None:
    """Return the state at the first kink along the steepest descent direction; None if none descends."""
    pairs = (_direction(hulls, at.face, n, monitor) for n in form.corners(at.v))
    d, size = max(pairs, key=lambda pair: pair[1])
    return _moved(form, hulls, at.v, d, hulls.nearest_kink(at.v, d)) if size > 1e-12 else None


def _direction(hulls: SumOfHulls, face: Face, n: Vec, monitor: Monitor) -> tuple[Vec, float]:
    """Return the steepest descent direction `-N g` orthogonal to n, and its norm relative to the data.

    At a kink of the norm each of its subgradients n gives a direction of descent, or 0.
    """
    n = n / np.linalg.norm(n)

    def tangent(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return rows - np.multiply.outer(rows @ n, n)

    points = hulls.points[face.index]
    # g = -x, so that -N g = N x
    _, d = min_norm_point(
        tangent(face.fixed), tangent(points), hulls.caps[face.index], face.group, face.rest, monitor
    )
    d = tangent(d)
    size = float(np.linalg.norm(face.fixed)) + float(np.abs(points).max(initial=0.0))
    return d, float(np.linalg.norm(d)) / max(size, 1e-300)


def _linearised(
    form: UnitNorm, hulls: SumOfHulls, at: _State, program: PolyhedralRay, monitor: Monitor
) -> _State | None:
    """Return a better state from the program on `<n, w> = 1` of some normal n at w; None if none is better.

    The same state if no program is lower, so that w is stationary.
    """
    stationary = True
    for n in form.corners(at.v):
        point = None if monitor.timed_out else program.reach(n)
        if point is None or not point[0] < at.value * (1.0 - _SAME):
            stationary = stationary and point is not None
            continue
        d = point[1] - at.v
        t = hulls.line_minimum(at.scores, at.v, d, 1.0)
        new = _along(form, hulls, at, d, t)
        if new is not None and new.value < at.value:
            return new
        stationary = False
    return at if stationary else None


def _in_part(
    form: UnitNorm, hulls: SumOfHulls, at: _State, width: int, monitor: Monitor
) -> tuple[_State | None, int]:
    """Return a better state by programs in which few weights vary, or None, and the next width.

    `width` samples of each group vary, and grow fourfold where w leaves the range in which they alone do.
    """
    while not monitor.timed_out:
        part = hulls.part(hulls.face(at.v, at.scores, width))
        program, inner, best = PolyhedralRay(part, monitor), _state(part, at.v), at
        for _ in range(_ROUNDS):
            new = _linearised(form, part, inner, program, monitor)
            if new is inner:
                return best, width
            if new is None:
                break
            moved = _state(hulls, new.v)
            if not moved.value < best.value:
                break
            best, inner = moved, new
            if new.value < moved.value * (1.0 - _SAME):  # other weights vary
                break
        if best is not at or width >= hulls.caps.size:
            return best, width
        width *= 4
    return None, width


def _free(form: UnitNorm, hulls: SumOfHulls, at: _State) -> NDArray[np.float64]:
    """Return orthonormal rows that span the directions orthogonal to all ties and to the normal."""
    rows = np.vstack([hulls.differences(at.face), form.normal(at.v)])
    sizes = np.linalg.norm(rows, axis=1)
    rows = rows[sizes > 0.0] / sizes[sizes > 0.0, None]
    small = np.linalg.qr(rows, mode="r") if rows.shape[0] > rows.shape[1] else rows  # of thousands of ties
    _, s, V = np.linalg.svd(small)
    return V[int((s > 1e-8).sum()) :]


def _escape(form: UnitNorm, hulls: SumOfHulls, at: _State, monitor: Monitor) -> _State | None:
    """Return the best state at the next kinks along directions orthogonal to the ties; None if not better.

    A state of equal f is better if its ties leave fewer directions.
    """
    free = _free(form, hulls, at)
    best = None
    for d in (*free, *(-free)):
        if monitor.timed_out:
            break
        new = _moved(form, hulls, at.v, d, hulls.nearest_kink(at.v, d))
        if new is None or (best is not None and new.value >= best.value):
            continue
        lower = new.value < at.value * (1.0 - _SAME)
        level = new.value <= at.value * (1.0 + _SAME)
        if lower or (level and _free(form, hulls, new).shape[0] < free.shape[0]):
            best = new
    return best
