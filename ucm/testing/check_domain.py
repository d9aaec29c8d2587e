"""`check_domain`: the laws of a domain, and a comparison with CVXPY."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ucm.data.linear_map import Vec
from ucm.errors import CompositionError
from ucm.language import cvx as cp
from ucm.language.contracts import (
    BoundDomain,
    Domain,
    MassMultipliers,
    Projectable,
    SampleWeights,
    SemiSmooth,
)
from ucm.language.domains.cvxpy_domain import ConicDomain
from ucm.testing.checker import Checker, check_formula, check_jacobian, check_size, check_support


@dataclass(frozen=True)
class _Case(Checker):
    """A test case: a domain in a fixed dimension, unbound or bound to samples, and its declaration."""

    domain: BoundDomain
    declared: BoundDomain
    dim: int
    samples: SampleWeights
    rng: np.random.Generator

    def vectors(self) -> list[Vec]:
        """Return random vectors of four scales, then 0, the vector of ones and a vector with ties."""
        generic = [scale * self.rng.standard_normal(self.dim) for scale in (0.1, 1.0, 30.0, 1e-12)]
        return [*generic, np.zeros(self.dim), np.ones(self.dim), (np.arange(self.dim) % 2).astype(float)]

    def outside(self, q: Vec) -> float:
        """Return the violation of q; by conic programs relative to the domain, the accuracy of its points."""
        violation = self.domain.violation(q)
        conic = violation > self.tol and isinstance(self.domain, ConicDomain)
        return ConicDomain.violation(self.domain, q) if conic else violation  # type: ignore[arg-type]

    def directions(self, count: int) -> Iterator[tuple[Vec, float, Vec]]:
        """Yield triples (random direction of finite support, support, maximiser), at most `count`."""
        for g in self.rng.standard_normal((count, self.dim)):
            top, q = self.domain.support(g)
            if np.isfinite(top):
                yield g, top, q

    def reaches(self, law: str, x: cp.Variable, constraints: list, count: int = 2) -> None:
        """Check that the maximum of `<g, q>` in CVXPY is the support, in random directions g.

        q are the first entries of x. The program is compiled once, with g as its parameter.
        """
        g = cp.Parameter(self.dim)
        program = cp.Problem(cp.Maximize(g @ x[: self.dim]), constraints)
        for g.value, top, _ in self.directions(count):
            self.equal(law, float(program.solve(solver=cp.CLARABEL)), top, 1e-5)

    def repeats(self, function: Callable[[Vec], Vec]) -> None:
        """Check that a function leaves its input unchanged and gives one answer for all memory layouts."""
        v = self.rng.standard_normal(self.dim)
        before, first = v.copy(), function(v)
        if not np.array_equal(v, before):
            self.fail("the input is unchanged", before, v)
        v.flags.writeable = False
        for kind, vector in (("read-only", v), ("strided", np.repeat(before, 2)[::2])):
            if not np.array_equal(function(vector), first):
                self.fail(f"the same answer twice, for {kind} input", first, function(vector))


def check_domain(
    domain: Domain | BoundDomain,
    dims: tuple[int, ...] = (1, 2, 5, 12),
    seed: int = 0,
    *,
    cvxpy_dim: int = 5,
    tol: float = 1e-9,
    samples: bool = True,
) -> None:
    """Check the laws of a domain in every dimension of `dims` where it is not empty.

    Parameters
    ----------
    domain : Domain
        The domain.
    dims : tuple of int
        Dimensions to try; with classes, those of at least 2.
    seed : int
        For the random vectors.
    cvxpy_dim : int
        Largest dimension compared with CVXPY, which is accurate to about 1e-6.
    tol : float
        Relative slack of the laws.
    samples : bool
        Whether to check the domain also as weights of samples: with two classes, with weights, with both.

    Raises
    ------
    AssertionError
        A law is broken, or the domain is empty in every dimension tried.

    Examples
    --------
    >>> import ucm
    >>> from ucm.testing import check_domain
    >>> check_domain(ucm.NormBall(0.7), dims=(3,))
    """
    rng, cases = np.random.default_rng(seed), 0
    for case in _cases(domain, dims, tol, rng, samples and isinstance(domain, Domain)):
        g = case.rng.standard_normal(case.dim)
        solid = case.domain.support(g)[0] + case.domain.support(-g)[0] > 1e-6
        compare = solid and case.dim <= cvxpy_dim
        _check_support(case)
        if case.domain is not case.declared:
            _check_bound(case, compare)
        if isinstance(case.domain, Projectable):
            _check_projection(case, case.domain)
        if isinstance(case.domain, MassMultipliers):
            _check_multipliers(case, case.domain)
        if compare:
            _check_against_cvxpy(case)
        cases += 1
    if not cases:
        raise AssertionError(f"{domain!r}: empty in every dimension of {dims}; choose others")


def _cases(
    domain: Domain | BoundDomain,
    dims: tuple[int, ...],
    tol: float,
    rng: np.random.Generator,
    over_samples: bool,
) -> Iterator[_Case]:
    """Yield the nonempty cases of a domain: unbound, and bound to samples of one and two classes."""
    for dim in dims:
        subject = f"{domain!r}, dimension {dim}"
        if domain.infeasibility_reason(dim) is None:
            yield _Case(subject, tol, domain, domain, dim, SampleWeights(dim), rng)
        y = np.where(np.arange(dim) % 3 == 1, -1.0, 1.0)
        c = np.resize([1.0, 2.0, 3.0, 1.0], dim)
        for classes in (None, y)[: min(dim, 2)] if over_samples else ():
            for weights in (None, c):
                samples = SampleWeights(dim, weights, classes)
                try:
                    bound = domain.bind(samples)  # type: ignore[attr-defined]
                except CompositionError:  # weights have no meaning
                    continue
                if bound is not domain and bound.infeasibility_reason(dim) is None:
                    words = f"{subject}, classes {classes}, weights {weights}"
                    yield _Case(words, tol, bound, domain, dim, samples, rng)


def _check_bound(case: _Case, compare: bool) -> None:
    """Check a bound domain against its declaration, and a weight k as k equal samples."""
    domain, declared, samples = case.domain, case.declared, case.samples
    for _, _, q in case.directions(3):
        for point in (q, domain.center(case.dim)):
            if samples.weights is None and not declared.on_simplex:
                slack = 10.0 * case.tol
                case.at_most("it lies in the declared domain", declared.violation(point), slack)
    if samples.weights is not None:
        times = samples.weights.astype(int)
        classes = None if samples.classes is None else np.repeat(samples.classes, times)
        repeated = declared.bind(SampleWeights(int(times.sum()), None, classes))  # type: ignore[attr-defined]
        law, tol = "a weight is a number of equal samples", max(1e-7, 10.0 * case.tol)
        for g in case.rng.standard_normal((3, case.dim)):
            case.equal(law, domain.support(g)[0], repeated.support(np.repeat(g, times))[0], tol)
    elif compare and (samples.classes is None or not declared.on_simplex):
        x = cp.Variable(case.dim)
        simplex = samples.cvxpy(x) if domain.on_simplex else []
        law = "it is the declared domain and the simplex, by CVXPY"
        case.reaches(law, x, declared.own_constraints(x) + simplex, 3)


def _check_support(case: _Case) -> None:
    domain = case.domain
    check_formula(case, domain)

    def check_mass(q: Vec) -> None:
        if domain.on_simplex:
            case.at_most("it lies on the simplex", case.samples.outside(q), 10.0 * case.tol)

    def support(g: Vec) -> tuple[float, Vec]:
        top, q = domain.support(g)
        if np.isfinite(top):
            case.at_most("the maximiser is inside", case.outside(q), case.tol)
            check_mass(q)
        return top, q

    check_support(case, support, case.vectors())
    case.repeats(lambda g: domain.support(g)[1])
    center = domain.center(case.dim)
    case.at_most("the centre is inside", case.outside(center), case.tol)
    check_mass(center)
    reach = [domain.support(s * e)[0] for e in np.eye(case.dim) for s in (1.0, -1.0)]
    if np.isfinite(reach).all():
        outside = center + 10.0 * (1.0 + float(np.abs(reach).max()))
        if domain.violation(outside) <= 0.0:
            case.fail("a point beyond the support has a violation above 0", outside)


def _check_projection(case: _Case, domain: Projectable) -> None:
    previous: tuple[Vec, Vec] | None = None
    for v in case.vectors():
        q = domain.project(v)
        scale = 1.0 + float(np.abs(v).max()) + float(np.abs(q).max())
        case.at_most("the projection is inside", domain.violation(q), case.tol)
        case.at_most("projecting twice changes nothing", np.abs(domain.project(q) - q), 1e-7 * scale)
        acute = domain.support(v - q)[0] - float((v - q) @ q)
        law = "no point of the domain makes an acute angle with v - P(v)"
        case.at_most(law, acute, case.tol * scale * scale * case.dim)
        if previous is not None:
            growth = np.linalg.norm(q - previous[1]) - np.linalg.norm(v - previous[0])
            case.at_most("the projection is non-expansive", growth, case.tol * scale)
        previous = (v, q)
    case.repeats(domain.project)
    if isinstance(domain, SemiSmooth):
        for scale in (0.1, 1.0, 5.0):
            v = scale * case.rng.standard_normal(case.dim)
            J = domain.jacobian(v)
            dense = np.diag(J.d) + J.U @ J.S @ J.U.T
            directions = (*np.eye(case.dim)[:3], *case.rng.standard_normal((3, case.dim)))
            for d in directions:
                case.equal("`matvec` is that of the Jacobian", J.matvec(d), dense @ d)
            check_jacobian(case, domain.project, v, dense, directions)


def _check_multipliers(case: _Case, domain: MassMultipliers) -> None:
    """Check that mass multipliers shift with g, and that q / c is non-decreasing in g in each class.

    The order of the entries is checked where the multiplier of the class is unique.
    """
    groups = [index for index, _ in case.samples.groups]
    for g in case.vectors():
        theta = np.array(domain.mass_multipliers(g), dtype=np.float64)
        shifted = np.array(domain.mass_multipliers(g + 3.0), dtype=np.float64)
        if theta.shape != (len(groups), 2):
            case.fail("one interval for each mass", theta)
        case.at_most("an interval has lo <= hi", theta[:, 0] - theta[:, 1])
        slack = 1e-6 * (1.0 + float(np.abs(g).max())) * case.dim
        case.equal("multipliers shift with g", shifted, theta + 3.0, slack)
        density = domain.support(g)[1] / case.samples.c
        for (lo, hi), index in zip(theta, groups, strict=True):
            order = np.argsort(g[index])
            falls = -np.diff(density[index][order]) * (np.diff(g[index][order]) > 1e-9)
            case.at_most("entries grow with g - theta", falls if lo == hi else 0.0, 1e-7)


def _check_against_cvxpy(case: _Case) -> None:
    """Check support and projection against CVXPY, the polyhedron, and DPP and convexity in the size."""
    domain, size, x = case.domain, case.domain.size(), cp.Variable(case.dim)
    constraints = domain.own_constraints(x)
    case.reaches("the support agrees with CVXPY", x, constraints)
    point = cp.Parameter(case.dim)
    nearest = cp.Problem(cp.Minimize(cp.sum_squares(x - point)), constraints)
    for v in case.rng.standard_normal((2, case.dim)) if isinstance(domain, Projectable) else ():
        point.value, q = v, domain.project(v)  # type: ignore[attr-defined]
        least = float(nearest.solve(solver=cp.CLARABEL))
        law = "the projection agrees with CVXPY"
        case.equal(law, float((q - v) @ (q - v)), least, 1e-5, float(v @ v))
    polyhedron = domain.polyhedron(case.dim)
    if polyhedron is not None:
        p, P, inequalities = cp.Variable(polyhedron.lower.size), polyhedron, []
        rows = P.A @ p if P.least.size else p[:0]
        for sign, e, bound in ((1, p, P.lower), (-1, p, P.upper), (1, rows, P.least), (-1, rows, P.most)):
            finite = np.flatnonzero(np.isfinite(bound))
            inequalities += [sign * e[finite] >= sign * bound[finite]] if finite.size else []
        case.reaches("the support agrees with the inequalities", p, inequalities)
    if size is not None:
        for law, number in (
            ("constraints are DPP in the size", cp.Parameter()),
            ("constraints are convex in point and size together", cp.Variable()),
        ):
            program = cp.Problem(cp.Minimize(0), domain.cvxpy(x, number))
            if not program.is_dcp(dpp=True):
                case.fail(law, domain)
            if all(v is not number for v in (*program.parameters(), *program.variables())):
                case.fail("`cvxpy` depends on the size", domain)
    check_size(case, size)
