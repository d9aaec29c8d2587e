"""Checks shared by domains, sets, terms and solvers, and `Checker`, which reports broken laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucm.data.linear_map import Vec
from ucm.language import cvx as cp
from ucm.language.contracts import BoundDomain, Size
from ucm.language.node import LATEX, TEXT, Node
from ucm.language.parameter import Parameters
from ucm.language.statistics.samples import Samples


@dataclass(frozen=True)
class Checker:
    """Comparisons of numbers, to a relative slack, whose `AssertionError` names the subject and the broken
    law.
    """

    subject: str
    tol: float

    def fail(self, law: str, *numbers: object) -> NoReturn:
        raise AssertionError(f"{self.subject}: {law}: {', '.join(map(str, numbers))}")

    def at_most(self, law: str, numbers: ArrayLike, bound: float = 0.0) -> None:
        """Check that no entry of `numbers` exceeds the bound; NaN fails."""
        largest = float(np.max(np.asarray(numbers, dtype=np.float64), initial=-np.inf))
        if not largest <= bound:
            self.fail(law, f"{largest:.3e} above {bound:.3e}")

    def equal(
        self, law: str, a: ArrayLike, b: ArrayLike, tol: float | None = None, size: ArrayLike = 0.0
    ) -> None:
        """Check that all `|a - b| <= tol (1 + |b| + size)`; an infinite number equals itself."""
        a, b, size = np.broadcast_arrays(a, b, size)
        with np.errstate(invalid="ignore"):
            error = np.where(a == b, 0.0, np.abs(a - b) / (1.0 + np.abs(b) + size))
        self.at_most(law, error, self.tol if tol is None else tol)


def groups_in_turn(node: Node, m: int) -> NDArray[np.object_] | None:
    """Return group labels for m samples, two of each declared group in turn, (m,); None without groups."""
    all_labels = dict.fromkeys(s.label for s in node.nodes_of_type(Samples))
    labels = [label for label in all_labels if label is not None]
    return np.array(labels, dtype=object)[np.arange(m) // 2 % len(labels)] if labels else None


def check_support(
    judge: Checker,
    support: Callable[[Vec], tuple[float, Vec | None]],
    directions: Iterable[Vec],
    members: Iterable[Vec] = (),
    exact: bool = True,
) -> None:
    """Check that `support` is attained, homogeneous, subadditive if `exact`, and bounds all members."""

    def slack(d: Vec, x: Vec | None) -> float:
        return judge.tol * (np.abs(d).max() * max(1.0, 0.0 if x is None else np.abs(x).sum()) + 1e-300)

    supports: list[tuple[Vec, float, float]] = []
    members = list(members)
    for d in directions:
        top, x = support(d)
        if not np.isfinite(top):
            continue
        tol = slack(d, x)
        if x is not None:
            judge.at_most("the support is attained", abs(top - float(d @ x)), tol)
            members.append(x)
        judge.at_most("the support is homogeneous", abs(support(2.0 * d)[0] - 2.0 * top), 4.0 * tol)
        for e, other, other_tol in supports if exact else ():
            excess = support(d + e)[0] - top - other
            judge.at_most("the support is subadditive", excess, 2.0 * (tol + other_tol))
        supports.append((d, top, tol))
    for d, top, _ in supports:
        for x in members:
            judge.at_most("no point is beyond the support", float(d @ x) - top, slack(d, x))


def check_jacobian(
    judge: Checker,
    prox: Callable[[Vec], Vec],
    v: Vec,
    J: NDArray[np.float64],
    directions: Iterable[Vec],
    tol: float = 1e-4,
) -> None:
    """Check that J is a generalised Jacobian of a proximal map at v: symmetric, 0 <= J <= I, slopes agree.

    J d must be the derivative in every direction d in which the slopes of the map on both sides of v agree.
    A projection is a proximal map, too.
    """
    judge.at_most("the slope of the proximal map is symmetric", np.abs(J - J.T), 1e-9)
    eigenvalues = np.linalg.eigvalsh(0.5 * (J + J.T))
    judge.at_most("the slope of the proximal map is at least 0", -eigenvalues, 1e-7)
    judge.at_most("the slope of the proximal map is at most I", eigenvalues - 1.0, 1e-7)
    h = 1e-6 * (1.0 + float(np.abs(v).max()))
    aside = h * np.cos(np.arange(v.size))
    center, beside = prox(v), prox(v + aside)
    for d in directions:
        plus, minus = prox(v + h * d), prox(v - h * d)
        bend = np.abs(plus - 2.0 * center + minus).max()
        bend = max(bend, np.abs(prox(v + h * d + aside) - beside - plus + center).max())
        if bend <= 1e-3 * h:  # no kink between them
            error = np.abs((plus - minus) / (2.0 * h) - J @ d)
            judge.at_most("the slope of the proximal map is its derivative", error, tol)


def check_formula(judge: Checker, node: Node | BoundDomain) -> None:
    """Check that a declaration has a formula as text and as LaTeX."""
    for notation in (TEXT, LATEX):
        try:
            formula = node.formula(notation)
        except Exception as error:  # of any kind: the message names it
            formula = error
        if not isinstance(formula, str) or not formula:
            judge.fail("`formula` gives text and LaTeX", repr(formula))


def check_size(judge: Checker, size: Size | None) -> None:
    """Check that `size.derived` undoes `size.inverse` at the number of a size."""
    if size is not None and np.isfinite(size.number):
        again = size.derived(size.inverse(size.number))
        judge.equal("`inverse` undoes `derived`", again, size.number, 1e-9)


def check_program(
    judge: Checker, cvxpy: Callable[..., cp.Expression], value: Callable[[Vec], float], points: Iterable[Vec]
) -> None:
    """Check that the CVXPY form of a term has the values of the term, is convex and is DPP."""
    for v in (points := list(points)):
        expression = cp.sum(cvxpy(cp.Constant(v), 1.0, Parameters()))
        judge.equal("the value agrees with CVXPY", expression.value, value(v))
    program = cp.Minimize(cp.sum(cvxpy(cp.Variable(points[0].size), 2.0, Parameters())))
    if not cp.Problem(program).is_dcp(dpp=True):
        judge.fail("CVXPY sees it convex, and DPP", program)


def optimum(sense: cp.Expression, constraints: list) -> float:
    """Return the optimal value of an objective `Maximize` or `Minimize` under constraints, by Clarabel."""
    return float(cp.Problem(sense, constraints).solve(solver=cp.CLARABEL))
