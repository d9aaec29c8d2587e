"""Checks of custom domains, sets, losses, penalties and solvers against their laws and CVXPY.

As `check_estimator` does for scikit-learn: `check_domain(MyDomain(...))`, `check_set(MySet(...))` or
`check_solver(MySolver())` return nothing, or raise an `AssertionError` that names the law, what broke it
and the numbers.
"""

from ucm.testing.check_domain import check_domain
from ucm.testing.check_set import check_set
from ucm.testing.check_solver import check_solver
from ucm.testing.check_terms import check_loss, check_penalty

__all__ = ["check_domain", "check_loss", "check_penalty", "check_set", "check_solver"]
