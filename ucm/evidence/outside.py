"""Certificates for answers from elsewhere: a normal, a point or weights of the samples."""

from __future__ import annotations

import numpy as np

from ucm.data.bound import Data
from ucm.data.linear import Vec
from ucm.data.maps import IdentityMap
from ucm.errors import ParameterError, SolverError
from ucm.evidence.support import Heights
from ucm.forms.distance import MinNorm
from ucm.forms.solution import Certificate
from ucm.language import cvx as cp
from ucm.language.robust import RobustMargin
from ucm.solvers.programs import Blocks, accuracy, attempt

__all__ = ["both_sides", "nearest_member", "of_weights"]

_MEMBER = 1e-6  # violation up to which a point bounds the optimum
_ACCURACY = 1e-11  # of Clarabel


def both_sides(
    model: RobustMargin, data: Data, unit: Vec | None, x: Vec | None, violation: float
) -> Certificate:
    """The bounds that a normal and a point prove: `-||x||_q <= optimum <= sigma_U(-w)`.

    Parameters
    ----------
    unit : w with `||w||_p = 1`; None for that of x
    x : a point of U; None for none, which leaves the lower bound infinite
    violation : how far x is outside of U; one that is, is no bound
    """
    primal, dual, size = np.inf, -np.inf, 0.0
    if x is not None:
        size = data.space.norm(x, model.dual)
        if unit is None and size > 0.0:
            unit = data.space.dual_vector(x, model.dual)
        if violation <= _MEMBER:
            dual = -size
    if unit is not None:
        primal = Heights(model.set, data)(-unit).value
    gap = primal - dual
    kind = "global" if np.isfinite(gap) else "none"
    relative = gap / max(size, 1e-12 * data.scale) if kind == "global" else np.inf
    return Certificate(primal, dual, gap, relative, violation, kind)


def of_weights(form: MinNorm, weights: Vec) -> list[Vec]:
    """The blocks of a lowered set that weights of the samples stand for.

    Raises
    ------
    ParameterError
        Not every point of the set is given by one weight for every sample.
    """
    blocks: dict[int, Vec] = {}
    met = np.zeros(weights.size, dtype=bool)
    for k, b in enumerate(form.blocks):
        q, known = np.zeros(b.map.shape[1]), 0
        for where, part in b.parts or ((slice(None), b),):
            if part.samples is None or part.weight == 0.0:
                continue
            if met[part.samples].any():
                raise _no_weights("a sample has weights in two hulls")
            met[part.samples] = True
            q[where] = weights[part.samples] / abs(part.weight)
            known += part.samples.size
        if known == q.size:
            blocks[k] = q
    for c in form.couplings:  # the copies of weights in an intersection of domains
        (first, A), *rest = c.terms
        for k, B in rest:
            if first in blocks and isinstance(A, IdentityMap) and isinstance(B, IdentityMap):
                blocks.setdefault(k, blocks[first])
    if len(blocks) < len(form.blocks):
        raise _no_weights("a part is made of no samples")
    if weights[~met].any():
        raise _no_weights("a sample with a weight has no place")
    return [blocks[k] for k in range(len(form.blocks))]


def _no_weights(why: str) -> ParameterError:
    return ParameterError(
        "certify: weights: expected a set whose points are sums of samples, each with one weight, got a set "
        f"where {why}; give the point x itself"
    )


def nearest_member(model: RobustMargin, data: Data, form: MinNorm, x: Vec) -> float:
    """How far x is outside of U, relative: from the nearest point of the lowered set, by a conic program,
    as the definition rebuilds it.

    Raises
    ------
    SolverError
        The program failed.
    """
    blocks = Blocks(form)
    miss = cp.norm(blocks.x - x / blocks.scale, 2)
    problem = cp.Problem(cp.Minimize(miss), blocks.constraints)
    failure = attempt(problem, "CLARABEL", **accuracy("CLARABEL", _ACCURACY))
    if failure or (form.blocks and blocks.q[0].value is None):
        raise SolverError(
            f"certify: the program for the point of U nearest to x ended with {failure or problem.status}; "
            "scale the features"
        )
    near, violation = model.set.rebuild(data, iter(blocks.point()))
    unit = max(data.space.norm(x), 1e-4 * form.largest) or 1.0
    return max(violation, data.space.norm(near - x) / unit)
