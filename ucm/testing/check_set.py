"""`check_set`: agreement of lowered form, `evaluate`, support function and CVXPY form of a set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ucm.compiler.lowering import check_combinations, check_statistics
from ucm.data.bound_data import Data, bind
from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.export.cvxpy_codegen import fitting_dimension
from ucm.language import cvx as cp
from ucm.language.contracts import LoweredSet, UncertaintySet
from ucm.language.domains.cvxpy_domain import CvxpyDomain
from ucm.language.parameter import Parameters
from ucm.language.serialize import from_json, to_json
from ucm.testing.checker import Checker, check_formula, check_size, check_support, groups_in_turn, optimum


def check_set(
    U: UncertaintySet,
    X: object = None,
    y: ArrayLike | None = None,
    seed: int = 0,
    *,
    subgroup: object = None,
    tol: float = 1e-9,
    cvxpy_tol: float = 1e-5,
) -> None:
    """Check that `lower`, `evaluate`, `support` and `cvxpy` of an uncertainty set describe one set.

    `cvxpy` is its definition. For a set with a kernel form its points must combine the samples with
    coefficients that do not depend on X.

    Parameters
    ----------
    U : UncertaintySet
        The set.
    X : (m, n) array or sparse matrix, optional
        Samples to bind it to; random ones by default.
    y : (m,) labels -1 and +1, optional
        The labels of the samples.
    seed : int
        For the samples and the directions.
    subgroup : (m,) array, optional
        The groups of the samples; random samples take the groups that the set names, in turn.
    tol : float
        Relative slack of the laws.
    cvxpy_tol : float
        Relative slack of the comparisons with CVXPY.

    Raises
    ------
    AssertionError
        A law is broken; the message names the set, the law and the numbers.

    Examples
    --------
    >>> import ucm
    >>> from ucm.testing import check_set
    >>> check_set(ucm.Hull(ucm.pos) - ucm.Ball(ucm.neg.mean, 0.5))
    """
    rng = np.random.default_rng(seed)
    if X is None:
        y = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
        X = rng.standard_normal((9, fitting_dimension(U, 3))) + y[:, None]
        subgroup = groups_in_turn(U, 9)
    data = bind(X, y, subgroup=subgroup)
    try:
        check_statistics(U, data)
        if U.in_features() is None:
            check_combinations(U, data)
    except CompositionError as error:
        raise AssertionError(str(error)) from error
    why = U.infeasibility_reason(data)
    if why is not None:
        raise AssertionError(f"{why}; check_set needs samples for which the set has points")
    case = _Case(repr(U), tol, U, data, U.lower(data), rng)
    _check_identity(case)
    _check_maps(case)
    members = [] if case.image.couplings else _members(case)
    directions = [case.direction() for _ in range(4)]
    check_support(case, case.support, directions, members, exact=not case.image.couplings)
    _check_against_cvxpy(case, cvxpy_tol)
    check_size(case, U.size(data))


@dataclass(frozen=True)
class _Case(Checker):
    """A test case: a set bound to samples, with its lowered form."""

    U: UncertaintySet
    data: Data
    image: LoweredSet
    rng: np.random.Generator

    def direction(self) -> Vec:
        d = self.rng.standard_normal(self.image.center.size)
        return d / np.linalg.norm(d)

    def support(self, d: Vec) -> tuple[float, Vec | None]:
        return self.U.support(self.data, d, {})


def _check_identity(case: _Case) -> None:
    U = case.U
    again = from_json(to_json(U), functions=[D.build for D in U.nodes_of_type(CvxpyDomain)])  # pyright: ignore[reportArgumentType] : a field, no method
    if again != U or hash(again) != hash(U):
        case.fail("to_json and from_json give an equal set", again)
    check_formula(case, U)
    if "\n" in repr(U):
        case.fail("its source text has one line", repr(U))


def _check_maps(case: _Case) -> None:
    n, dim = case.U.dimension(case.data.n), case.image.center.size
    if n != dim:
        case.fail("`dimension` is that of the lowered centre", n, dim)
    maps = [b.map for b in case.image.blocks]
    if any(A.shape[0] != n for A in maps):
        case.fail("every block maps to the space of the set", [A.shape for A in maps])
    for c in case.image.couplings:
        if any(B.shape != (c.offset.size, maps[k].shape[1]) for k, B in c.terms):
            case.fail("the terms of a coupling fit their blocks", [B.shape for _, B in c.terms])
        maps += [B for _, B in c.terms]
    for A in maps:
        q, w = (case.rng.standard_normal(d) for d in reversed(A.shape))
        case.equal("<w, A q> = <A'w, q>", float(A.rmatvec(w) @ q), float(w @ A.matvec(q)))


def _members(case: _Case) -> list[Vec]:
    """Return points of a lowered set without couplings, after a check of `evaluate` at these points."""
    image, points = case.image, []
    centers = [b.domain.center(b.map.shape[1]) for b in image.blocks]
    for fraction in (0.0, 1.0, 0.6, 0.3):
        d = case.direction()
        ends = [b.domain.support(b.map.rmatvec(d)) for b in image.blocks]
        if fraction and not np.isfinite([top for top, _ in ends]).all():
            continue
        q = [fraction * end + (1.0 - fraction) * c for (_, end), c in zip(ends, centers, strict=True)]
        terms = (b.map.matvec(v) for b, v in zip(image.blocks, q, strict=True))
        points.append(sum(terms, start=image.center.copy()))
        x, violation = case.U.evaluate(case.data, iter(q))
        case.at_most("points of the lowered form are inside", violation, case.tol)
        size = np.abs(x).max()
        case.equal("`evaluate` gives the point of the lowered form", points[-1], x, size=size)
    for k, b in enumerate(image.blocks):
        e = np.ones(b.map.shape[1])
        reach = max(b.domain.support(s * e)[0] for s in (1.0, -1.0))
        outside = [v + 10.0 * (1.0 + abs(reach)) * e if j == k else v for j, v in enumerate(centers)]
        if np.isfinite(reach) and not case.U.evaluate(case.data, iter(outside))[1] > 0.0:
            case.fail("a block outside of its domain has a violation", k)
    return points


def _check_against_cvxpy(case: _Case, tol: float) -> None:
    """Check that `cvxpy`, the lowered form and `support` give one maximum of `<d, x>`, random d.

    With couplings, `support` need only be an upper bound.
    """
    expression, constraints = case.U.cvxpy(case.data, Parameters())
    if not cp.Problem(cp.Maximize(expression[0]), constraints).is_dcp(dpp=True):
        case.fail("the CVXPY twin is convex, and DPP in its parameters", constraints)
    q = [cp.Variable(b.map.shape[1]) for b in case.image.blocks]
    blocks = list(zip(case.image.blocks, q, strict=True))
    z = sum((b.map.matrix() @ v for b, v in blocks), start=case.image.center)
    lowered = [c for b, v in blocks for c in b.domain.own_constraints(v)]
    for c in case.image.couplings:
        lowered.append(sum((B.matrix() @ q[k] for k, B in c.terms), start=c.offset) == 0)
    for d in (case.direction(), case.direction()):
        top = case.support(d)[0]
        if np.isfinite(top):
            defined = optimum(cp.Maximize(d @ expression), constraints)
            case.equal("`lower` agrees with `cvxpy`", optimum(cp.Maximize(d @ z), lowered), defined, tol)
            case.equal("`support` bounds `cvxpy`", max(defined, top), top, tol)
            if not case.image.couplings:
                case.equal("`support` agrees with `cvxpy`", defined, top, tol)
