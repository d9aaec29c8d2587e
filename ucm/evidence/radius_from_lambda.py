"""The radius of a ball of a loss that stands for the lam of a generalised nu-SVM.

Ito, Takeda and Toh (2015), (22) and (25): with `h(q) = (1/m) sum l*(m q_i)` over weights q of mass 1/2 for
each class, and Z of columns `y_i x_i`,

    min over ||w|| <= lam, b, rho of -rho + (1/m) sum l(rho - margin_i) = -min over q of h(q) + lam ||Z q||.

By their Lemma 5 an optimal q is the nearest point of the hull whose weights have `h <= h(q)`. Where `Z q = 0`
there, 0 lies on the boundary of that hull and `||w|| <= lam` is inactive: w is not 0, as they say for every
lam beyond some lam_max, but the same for all of these, and the problem is solved as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from ucm.data.bound_data import Data
from ucm.data.maps import scaled
from ucm.errors import CompositionError, EmptySetError, ParameterError, SolverError
from ucm.forms.free_margin import FreeMargin, PricedWeights
from ucm.forms.monitor import Monitor
from ucm.language.contracts import UncertaintySet
from ucm.language.domains import LossBall
from ucm.language.domains.divergence_ball import ConjugateFunction
from ucm.language.losses import Hinge
from ucm.language.parameter import Param, value
from ucm.language.robust import RobustMargin
from ucm.language.sets import Hull
from ucm.language.sets.combination import summands
from ucm.language.statistics.samples import neg, pos, signed
from ucm.language.term_sums import split_scalar
from ucm.solvers import BallNewton

__all__ = ["KnownRadius", "by_lam", "hulls_by_lam", "penalised_problem", "radius_from_lambda"]

_GAP = 1e-6  # of the distance: where an end is none


def by_lam(node: Any) -> bool:
    """True if the node is a ball whose radius follows from a lam."""
    return isinstance(node, LossBall) and node.lam is not None


@dataclass(frozen=True)
class KnownRadius:
    """A model by lam, at the optimum of its problem.

    Attributes
    ----------
    model : with radii, `Param`s of this name, in place of every lam
    active : whether `||w|| = lam` there; False: 0 lies on the boundary of the set with these radii
    """

    model: RobustMargin
    active: bool


def radius_from_lambda(model: RobustMargin, data: Data) -> KnownRadius:
    """The optimum of a model by lam, found once for the data.

    Raises
    ------
    CompositionError
        The hulls are not those of (22), or have two lams, or a loss of one class is no p-hinge with p > 1.
    EmptySetError
        The slopes of the loss are too small for any radius.
    ParameterError
        lam is not positive; more than 2,000 features and samples.
    SolverError
        The optimum was not found.
    """
    return data.once(("radii", model), lambda: _solved(model, data))


def _solved(model: RobustMargin, data: Data) -> KnownRadius:
    hulls, form = penalised_problem(model, data)
    if all(hull.weights.loss.slope() is not None for hull in hulls):  # type: ignore[union-attr]
        radii, active = [0.0] * len(hulls), True  # l* is 0 wherever it is finite
    else:
        lam, solver = _lam(hulls), BallNewton()
        why = solver.refuse(form)
        if why is not None:
            raise ParameterError(
                f"lam: expected at most {solver.max_order:,} features or as many samples, got {form.n:,} and "
                f"{form.m:,}; give the radius"
            )
        found, _ = solver.minimise(form, Monitor())
        active = not found.inactive
        if active and not found.gap <= _GAP * found.norm < math.inf:
            raise SolverError(
                f"lam: the radius of lam = {lam:g} was not found, its relative gap is "
                f"{found.gap / found.norm:.2g}; scale the features, or give the radius"
            )
        radii = []
        for hull, q in zip(hulls, found.q, strict=True):
            ball: Any = hull.weights
            radii.append(ball.curve(hull.samples.bound(data)).value(q))
    taken = model.params()
    each = [_with_radius(hull, r, taken) for hull, r in zip(hulls, radii, strict=True)]
    U = each[0] if len(each) == 1 else each[0] - each[1]
    return KnownRadius(replace(model, set=U), active)


def penalised_problem(
    model: RobustMargin, data: Data, lam: float | None = None
) -> tuple[list[Hull], FreeMargin]:
    """The hulls of a model by lam, that of all samples or those of class +1 and -1, and its problem with this
    lam, or its own; as `radius_from_lambda`."""
    hulls = hulls_by_lam(model)
    bound = _lam(hulls) if lam is None else lam
    power = max(math.frexp(data.scale)[1], -1000)  # of the unit of the samples
    small = data.with_coordinates(data.X * math.ldexp(1.0, -power), data.gram, data.space)
    if lam is None:
        bound = min(max(math.ldexp(bound, power), 1e-100), 1e100)
    return hulls, FreeMargin(_terms(hulls, small), bound, math.ldexp(1.0, power))


def hulls_by_lam(model: RobustMargin) -> list[Hull]:
    """The hulls of (22): that of all samples, or those of class +1 and -1.

    Raises
    ------
    CompositionError
        The model is another.
    """
    hulls = _hulls(model.set)
    if hulls is None or model.norm != 2.0:
        raise CompositionError(
            f"lam: expected Hull(signed, weights=LossBall(loss, lam=...)) or such hulls of pos and of neg, "
            f"Hull(pos, ...) - Hull(neg, ...), in the Euclidean norm, got {model!r}; give the radius"
        )
    return hulls


def _hulls(U: UncertaintySet) -> list[Hull] | None:
    """Return the hull of all samples, or those of both classes, with radii from lam; None for other sets."""
    pairs = list(summands(U))
    signs = {V.samples: L for V, L in pairs if isinstance(V, Hull) and by_lam(V.weights)}
    if len(signs) != len(pairs) or signs not in ({signed: 1.0}, {pos: 1.0, neg: -1.0}):
        return None
    return sorted((V for V, _ in pairs), key=lambda V: V.samples == neg)  # type: ignore[attr-defined, return-value]


def _lam(hulls: list[Hull]) -> float:
    """Return the common lam of the hulls."""
    found = [value(hull.weights.lam) for hull in hulls]  # type: ignore[union-attr]
    if len(set(found)) > 1:
        raise CompositionError(
            f"lam: expected one lam for both classes, as ||w|| has one bound, got {found[0]:g} and "
            f"{found[1]:g}; give both the same, and multiply a loss to weigh its class"
        )
    if not 0.0 < found[0] < math.inf:
        raise ParameterError(
            f"lam: expected a positive number, got {found[0]:g}; write one, as 1.0"
        )
    return found[0]


def _with_radius(hull: Hull, radius: float, taken: Collection[str]) -> Hull:
    """`taken` are the names of the other parameters."""
    word = "radius" if hull.samples == signed else f"radius_{hull.samples.tag}"
    while word in taken:
        word += "_of_lam"
    return replace(hull, weights=LossBall(hull.weights.loss, Param(word, radius)))  # type: ignore[union-attr]


def _terms(hulls: list[Hull], data: Data) -> tuple[PricedWeights, ...]:
    bound = [hull.samples.bound(data) for hull in hulls]
    count = sum(samples.total for samples in bound) / len(hulls)
    found = []
    for hull, samples in zip(hulls, bound, strict=True):
        ball: Any = hull.weights
        base = split_scalar(ball.loss)[1]
        if len(hulls) > 1 and not (isinstance(base, Hinge) and base.p > 1.0):
            raise CompositionError(
                f"lam: expected the loss of one class to be Hinge(p) with p > 1, got {ball.loss!r}, whose "
                "balls are others with the number of samples; take Hull(signed, ...)"
            )
        why = samples.missing(hull) or ball.too_flat(samples)
        if why is not None:
            raise EmptySetError(f"{hull!r}: {why.partition(': ')[2]}")
        A = scaled(hull.image(data)[1], -1.0 if hull.samples == neg else 1.0)
        found.append(
            PricedWeights(A, samples, ConjugateFunction(ball.loss, count, samples.weights))
        )
    return tuple(found)
