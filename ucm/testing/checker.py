"""Common parts of the checks: a checker that names the subject, the law and the numbers, and common laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ucm.data.linear import Vec
from ucm.language.contracts import Size
from ucm.language.node import Node
from ucm.language.statistics.samples import Samples

__all__ = ["Checker", "check_size", "check_support", "groups_in_turn", "optimum"]


@dataclass(frozen=True)
class Checker:
    """Compares, and fails with an `AssertionError`.

    Attributes
    ----------
    subject : the name of the checked object in a failure
    tol : relative slack
    """

    subject: str
    tol: float

    def fail(self, law: str, *numbers: object) -> NoReturn:
        raise AssertionError(f"{self.subject}: {law}: {', '.join(map(str, numbers))}")

    def at_most(self, law: str, number: float, bound: float = 0.0) -> None:
        if not number <= bound:
            self.fail(law, f"{number:.3e} above {bound:.3e}")


def groups_in_turn(node: Node, m: int) -> Any:
    """(m,) the groups that a declaration names, each for two samples in turn; None where it names none."""
    named = dict.fromkeys(s.label for s in node.walk() if isinstance(s, Samples))
    labels = [label for label in named if label is not None]
    return np.array(labels, dtype=object)[np.arange(m) // 2 % len(labels)] if labels else None


def check_support(
    judge: Checker,
    support: Callable[[Vec], tuple[float, Vec | None]],
    directions: Iterable[Vec],
    members: Iterable[Vec] = (),
    exact: bool = True,
) -> None:
    """`support` is attained, homogeneous and subadditive, and no member is beyond it.

    Parameters
    ----------
    support : the height of a direction, inf where there is none, and a maximiser or None
    members : points of the set
    exact : False for an upper bound of the support, which need not be subadditive
    """

    def slack(d: Vec, x: Vec | None) -> float:
        return judge.tol * (
            np.abs(d).max() * max(1.0, 0.0 if x is None else np.abs(x).sum()) + 1e-300
        )

    found, members = [], list(members)
    for d in directions:
        top, x = support(d)
        if not np.isfinite(top):
            continue
        near = slack(d, x)
        if x is not None:
            judge.at_most("the support is attained", abs(top - float(d @ x)), near)
            members.append(x)
        double = support(2.0 * d)[0]
        judge.at_most("the support is homogeneous", abs(double - 2.0 * top), 4.0 * near)
        for e, other, rest in found if exact else ():
            both = support(d + e)[0] - top - other
            judge.at_most("the support is subadditive", both, 2.0 * (near + rest))
        found.append((d, top, near))
    for d, top, _ in found:
        for x in members:
            judge.at_most("no point is beyond the support", float(d @ x) - top, slack(d, x))


def check_size(judge: Checker, size: Size | None) -> None:
    """The number that a declared scalar derives leads back to it."""
    if size is not None and np.isfinite(size.number):
        again = size.derived(size.inverse(size.number))
        error = abs(again - size.number) / (1.0 + abs(size.number))
        judge.at_most("`inverse` undoes `derived`", error, 1e-9)


def optimum(sense: Any, constraints: list[Any]) -> float:
    """The value of `cvxpy.Maximize(...)` or `Minimize(...)` under constraints, by Clarabel."""
    import cvxpy as cp

    return float(cp.Problem(sense, constraints).solve(solver=cp.CLARABEL))
