"""Behind a kernel: which sets have a meaning there, and the way back to coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ucm.data.bound import Data, GramSpace
from ucm.data.gram import Expansion, Gram
from ucm.data.kernels import KERNEL_OPTIONS, kernel_of
from ucm.data.linear import Vec
from ucm.errors import CompositionError, ParameterError
from ucm.forms.distance import MinNorm
from ucm.forms.nearest import NearestPoint
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver
from ucm.language.objective import Objective
from ucm.language.robust import RobustMargin
from ucm.language.sets import Ball, Image, LinearImage
from ucm.language.statistics.matrices import ConstantMatrix
from ucm.language.statistics.vectors import ConstantVector
from ucm.solvers import GSK, MDM, ClipGSK, ClipMDM, GramNewton, Newton

__all__ = ["check_kernel", "expand", "gram_of", "in_rows", "lowered", "point_coefficients"]

_COORDINATES = 1000  # samples up to which a factor of the Gram matrix is worth its cost
_BY_ROWS = {solver.name: solver for solver in (GramNewton(), GSK(), MDM(), ClipGSK(), ClipMDM())}
_EXPLICIT = (Ball, Image, LinearImage, ConstantVector, ConstantMatrix)


def gram_of(kernel: Any, data: Data, options: dict[str, Any]) -> Gram | None:
    """The Gram matrix that the options of `compile` ask for, nothing of it computed yet.

    Raises
    ------
    ParameterError
        An unknown option, or one of a kernel where there is none.
    """
    if kernel is None:
        if options:
            raise ParameterError(
                f"compile: unknown option {', '.join(sorted(options))}; the options are kernel, solver "
                f"and class_weight, and only a kernel takes others ({', '.join(KERNEL_OPTIONS)})"
            )
        return None
    found, limit = kernel_of(kernel, data.X, **options)
    return Gram(found, data.X, limit)


def check_kernel(model: RobustMargin | Objective) -> None:
    """Refuse what has no meaning in the feature space of a kernel.

    Raises
    ------
    CompositionError
        A norm other than 2, a set written in the features themselves, or an objective other than
        `C * Hinge(p) + lam * L2()`.
    """
    if isinstance(model, Objective):
        raise CompositionError(
            f"kernel: {model!r} needs the coordinates of w, or has no route behind a kernel; "
            'C * Hinge(p) + lam * L2() has one with solver="auto" or "psmo", or map the features '
            "first with sklearn.kernel_approximation.Nystroem"
        )
    if model.norm != 2.0:
        raise CompositionError(
            f"kernel: it gives inner products, hence the Euclidean norm only; got norm={model.norm:g}; "
            "use norm=2, or map the features first with sklearn.kernel_approximation.Nystroem"
        )
    for node in model.set.walk():
        if isinstance(node, _EXPLICIT):
            raise CompositionError(
                f"kernel: {node!r} is written in the features, and a kernel replaces these by its own "
                "feature space; use sets made of samples (hulls, ellipsoids of means and covariances), "
                "or map the features first with sklearn.kernel_approximation.Nystroem"
            )


def in_rows(model: RobustMargin, data: Data, gram: Gram, solver: str | Solver) -> Data | None:
    """The samples as coefficients over themselves, where a nearest-point solver takes the model: then
    rows of the Gram matrix do, as needed. None where coordinates in the feature space are wanted.

    Under "auto" that is every kernel with a feature space by its form; for others the factor of the
    Gram matrix tells, but where it costs too much.
    """
    if solver == "auto":
        if gram.fits and not gram.kernel.definite and data.m <= _COORDINATES:
            return None
        wanted: Solver = ClipMDM()
    elif isinstance(solver, str):
        wanted = _BY_ROWS.get(solver, Newton())
    else:
        wanted = solver
    if not isinstance(wanted, NearestPoint):
        return None
    space = data.in_gram_space(gram)
    if model.set.emptiness(space) is not None:
        return None
    return space if wanted.refuse(lowered(model, space)) is None else None


def lowered(model: RobustMargin, data: Data) -> MinNorm:
    """The standard form of a model for bound data."""
    return data.once(
        ("form", model),
        lambda: MinNorm.of(model.set.lower(data), model.dual, data.stored, data.space),
    )


def point_coefficients(model: RobustMargin, data: Data, q: Sequence[Vec]) -> Vec:
    """The point that the blocks q stand for, as coefficients over the samples: the definition of the
    set over unit vectors."""
    return model.set.rebuild(data.over_samples, iter(q))[0]


def expand(model: RobustMargin, data: Data, gram: Gram, solution: Solution) -> Solution:
    """The solution with `w = sum_i c_i phi(x_i)` in place of coordinates.

    The nearest point x is made of samples, so its coefficients are exact; where w is not x / ||x||,
    the rest comes from the factor of the Gram matrix. A linear kernel keeps w and x, as features.
    """
    if solution.answer is None or solution.w is None or solution.x is None:
        return solution
    by_rows = isinstance(data.space, GramSpace)
    point = solution.x if by_rows else point_coefficients(model, data, solution.answer.q)
    norm = data.space.norm(solution.x)
    # where 0 lies in U, x is on its other side
    side = -1.0 if data.space.inner(solution.w, solution.x) < 0.0 else 1.0
    c, rest = np.zeros(gram.m), solution.w
    if norm != 0.0 and solution.w.any():
        c = side * point / norm
        rest = solution.w - side * data.space.dual_vector(solution.x, 2.0)
    if float(np.linalg.norm(rest)) > 1e-13:
        c = c + gram.combination(data.X, rest)
    linear = gram.kernel.name == "linear"
    w = np.asarray(gram.X.T @ c) if linear else None
    x = np.asarray(gram.X.T @ point) if linear else None
    return replace(
        solution,
        w=w,
        x=x,
        coefficients=c,
        expansion=None if linear else Expansion.of(gram.kernel, gram.X, c),
    )
