"""Checks for classes written against the contracts: the laws, and CVXPY as the second opinion.

As `check_estimator` does for scikit-learn: `check_domain(MyDomain(...))`, `check_set(MySet(...))` or
`check_solver(MySolver())` return nothing, or raise an `AssertionError` that names the law, what broke it
and the numbers.
"""

from ucm.evidence.laws.domains import check_domain
from ucm.evidence.laws.sets import check_set
from ucm.evidence.laws.solvers import check_solver
from ucm.evidence.laws.terms import check_loss, check_penalty

__all__ = ["check_domain", "check_loss", "check_penalty", "check_set", "check_solver"]
