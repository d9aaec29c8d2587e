"""A certificate as JSON: the declaration, the hashes of the samples, the points that prove both bounds.

`check_certificate.py`, a program without this library, computes the bounds anew in interval arithmetic.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from ucm.data.bound_data import Data
from ucm.data.linear_map import Vec
from ucm.errors import ParameterError
from ucm.evidence.certificate import is_proven
from ucm.forms.solution import Solution
from ucm.language.contracts import UncertaintySet
from ucm.language.objective import Objective
from ucm.language.per_sample import quantities_of
from ucm.language.robust import RobustMargin
from ucm.language.sample_sets import SampleSets
from ucm.language.serialize import to_json
from ucm.language.sets import Ball, Ellipsoid, Hull
from ucm.language.sets.combination import Combination

_OUTWARD = 1e-9  # relative: the room for the rounding of another computation


def portable(model: RobustMargin | Objective, data: Data, solution: Solution) -> dict:
    """Return the certificate of a solution with finite bounds as a dict for JSON.

    The dual point of a set is a generator for each of its summands: the weights of a hull, or the vector d
    for an ellipsoid `c + {S d : d'S d <= r^2}`. That of an objective is minus the slopes of its losses. Both
    bounds are moved outward by 1e-9 of the objective.

    Raises
    ------
    ParameterError
        A kernel, rows that are read block by block, samples of weight 0, a model that is not convex, or a
        solution without a global certificate.
    """
    certificate = solution.certificate
    if data.source is not None or data.moments is not None or certificate.kernel or data.gram is not None:
        raise ParameterError(
            "save_certificate: expected samples in memory without a kernel, got others; the bounds of these "
            "are computed from inner products or blocks of rows, which the file does not hold"
        )
    if names := quantities_of(model) | {repr(U) for U in model.nodes_of_type(SampleSets)}:
        raise ParameterError(
            f"save_certificate: expected a model of samples and labels alone, got {', '.join(sorted(names))} "
            "of each sample, which the file does not hold; keep the solution"
        )
    convex = isinstance(model, RobustMargin) or model.convex
    convex = convex and certificate.residual is None
    if not convex or not is_proven(certificate, 1.0) or data.weighing.nonzero is not None:
        raise ParameterError(
            "save_certificate: expected a convex model with both bounds of the optimum, and samples of "
            f"positive weight, got {certificate}; leave out samples of weight 0, solve with a smaller tol"
        )
    given = data.as_given
    X = given.X.toarray() if sparse.issparse(given.X) else given.X
    margin = _OUTWARD * max(abs(certificate.primal), abs(certificate.dual))
    if isinstance(model, Objective):
        dual = {"slopes": solution.weights}
    else:
        dual = {"generators": list(_generators(model.set, given, iter(solution.answer.q)))}
    weights = data.factors
    file = {
        "format": "ucm certificate",
        "version": 1,
        "declaration": json.loads(to_json(model)),
        "data": {"X": _digest(X), "y": _digest(data.y), "shape": X.shape},
        "weights": None if (weights == 1.0).all() else weights,
        "primal": {"w": solution.w, "b": solution.b},
        "dual": dual,
        "bounds": {"lower": certificate.dual - margin, "upper": certificate.primal + margin},
    }
    return json.loads(json.dumps(file, default=lambda v: v.tolist(), allow_nan=False))


def _digest(a: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(a, dtype="<f8").tobytes()).hexdigest()


def _generators(U: UncertaintySet, data: Data, q: Iterator[Vec]) -> Iterator[Vec]:
    """Yield the generator of the point of every summand; raise `ParameterError` for a set without one."""
    match U:
        case Combination():
            for V, _ in U.terms():
                yield from _generators(V, data, q)
        case Hull():
            yield next(q)
        case Ball() | Ellipsoid():
            offset = U.evaluate(data, q)[0] - U.center.evaluate(data)
            root = U.support_map(data).matrix()
            root = root.toarray() if sparse.issparse(root) else root
            yield np.linalg.lstsq(root @ root.T, offset)[0]
        case _:
            raise ParameterError(
                f"save_certificate: expected a sum of hulls, balls and ellipsoids, got {U!r}; its point has "
                "no generators that the file could hold"
            )
