"""What every compiled model offers; `ucm.compile` makes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ucm.compiler.recover import BIAS_RULES
from ucm.data.bound import Data
from ucm.errors import ParameterError, brief
from ucm.evidence.verify import Verification
from ucm.forms.monitor import Monitor
from ucm.forms.solution import Solution
from ucm.forms.solver import Solver

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["Plan"]


class Plan(ABC):
    """A compiled model: the declaration, bound to data, lowered and routed.

    Attributes
    ----------
    model : the declaration
    data : the bound samples
    solver : the solver chosen
    setup_time : seconds of compiling
    """

    model: Any  # narrowed by every kind of plan
    data: Data
    solver: Solver
    setup_time: float
    _last: Solution | None = None

    @abstractmethod
    def explain(self) -> str:
        """The form, the route chosen, the routes refused and why, the cost of a pass."""

    @abstractmethod
    def reference(self) -> cp.Problem:
        """The CVXPY twin: vectorised, one `cvxpy.Parameter` per hyperparameter. Its value is that
        of the declared problem."""

    @abstractmethod
    def _solve(
        self, monitor: Monitor, warm_start: Solution | None, starts: int, bias_rule: str
    ) -> Solution:
        """Solve, certify, recover."""

    @abstractmethod
    def _verify(self, solution: Solution, **options: Any) -> Verification:
        """Compare a solution with the twin."""

    def solve(
        self,
        *,
        tol: float = 1e-6,
        max_iter: int | None = None,
        warm_start: Solution | None = None,
        starts: int = 1,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
        bias_rule: str = "auto",
    ) -> Solution:
        """Solve, certify, recover.

        Parameters
        ----------
        tol : relative duality gap to prove
        max_iter : limit of iterations; None for the solver's own
        warm_start : a solution of a plan of the same shape, to start from
        starts : for non-convex models; a convex one needs a single start
        callback : called with every reported record; returning True stops
        verbose : print a table of the iterations
        bias_rule : "auto", "kkt", "midpoint", "error", "odds" or "zero"

        Raises
        ------
        ParameterError
            An option outside its range.

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached; the message carries the gap.
        """
        if not isinstance(tol, float | np.floating) or not 0.0 < tol < 1.0:
            raise ParameterError(f"solve: tol lies in (0, 1), got {brief(tol)}")
        for name, limit in (("max_iter", max_iter), ("starts", starts)):
            whole = isinstance(limit, int | np.integer) and not isinstance(limit, bool)
            if limit is not None and not (whole and limit >= 1):
                raise ParameterError(
                    f"solve: {name} is a positive whole number, got {brief(limit)}"
                )
        if warm_start is not None and not isinstance(warm_start, Solution):
            raise ParameterError(f"solve: warm_start is a Solution, got {brief(warm_start)}")
        if callback is not None and not callable(callback):
            raise ParameterError(
                f"solve: callback is a function of one record, got {brief(callback)}"
            )
        if bias_rule not in BIAS_RULES:
            raise ParameterError(
                f"solve: bias_rule is one of {', '.join(BIAS_RULES)}, got {brief(bias_rule)}"
            )
        monitor = Monitor(tol, max_iter, callback, verbose)
        self._last = self._solve(monitor, warm_start, starts, bias_rule)
        return self._last

    def verify(self, **options: Any) -> Verification:
        """Compare the last solution (a new one when there is none) with the CVXPY twin.

        `options` go to `cvxpy.Problem.solve`; `solver` is Clarabel by default.
        """
        return self._verify(self._last or self.solve(), **options)
