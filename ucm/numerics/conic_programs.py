"""Conic programs in CVXPY: solves within a time limit, accuracies, and sets as expressions."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.errors import DISTRIBUTION
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.solver import Status
from ucm.language import cvx as cp
from ucm.language.cvx import unpack
from ucm.language.domains import NormBall

_LEAST = 1e-9  # least scale of a feature, relative to the scale of all features
_SMALL = 1e-6  # radius of a ball that is the unit of its own coordinates
_CLOCKS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}  # ECOS has none
_PER_NUMBER = 4e-7  # seconds, measured for programs of a million numbers
_COMPILING = {"canon_backend", "enforce_dpp", "ignore_dpp"}  # options of CVXPY and not of its solvers


def attempt(problem: cp.Problem, solver: str, monitor: Monitor | None = None, **options: Any) -> str:
    """Solve a CVXPY problem within a time limit; return the first line of the error, or ""."""
    monitor = monitor or Monitor.within_limit()
    limited = monitor.time_limit is not None
    # the default, CPP, takes more than twice the time for dense samples, and never less
    compiling = {"canon_backend": cp.SCIPY_CANON_BACKEND}
    compiling |= {name: options.pop(name) for name in _COMPILING & options.keys()}
    warm = options.pop("warm_start", True) and not limited
    try:
        if limited:
            for variable in problem.variables():  # values of the previous solve
                variable.value = None
        if not monitor.allows(_compilation_seconds(problem) if limited else 0.0):
            return ""
        data, chain, inverse = problem.get_problem_data(solver, solver_opts=options, **compiling)
        if monitor.timed_out:
            return ""
        if limited and solver in _CLOCKS:
            options = {**options, _CLOCKS[solver]: monitor.seconds_left}
        result = chain.solve_via_data(problem, data, warm, monitor.verbose, options)
        unpack(problem, result, chain, inverse)
    except (cp.error.SolverError, ArithmeticError, ValueError) as error:
        # a ValueError comes from CVXPY, for a status of the solver that it does not know
        return str(error).splitlines()[0]
    return ""


def _compilation_seconds(problem: cp.Problem) -> float:
    """Return an estimate of the time that CVXPY takes to compile a problem, from its numbers."""
    values = (constant.value for constant in problem.constants())
    return _PER_NUMBER * sum(int(v.nnz) if sparse.issparse(v) else np.size(v) for v in values)


_FINAL = ("optimal", "infeasible", "unbounded")


def ended(problem: cp.Problem, solver: str, monitor: Monitor) -> Status:
    """Return the status of an answer from that of a CVXPY problem: proof, limit or numerical failure."""
    if problem.status in _FINAL or monitor.timed_out:
        return "converged" if problem.status in _FINAL else "interrupted"
    # SCS names its limit of iterations "inaccurate"; the interior-point methods so name a lack of progress
    at_limit = problem.status == "user_limit" or (solver == "SCS" and problem.status == "optimal_inaccurate")
    return "max_iter" if at_limit else "stalled"


@functools.cache
def installed(backend: str) -> bool:
    """Return whether CVXPY has a solver, by CVXPY's name."""
    if backend in ("CLARABEL", "ECOS", "SCS"):  # without loading CVXPY
        return importlib.util.find_spec(backend.lower()) is not None
    return backend in cp.installed_solvers()


def absent(solver: str) -> str | None:
    """Return why CVXPY has no solver of a name, in any case of letters; None if it has one."""
    if installed(solver.upper()):
        return None
    has = f"pip install '{DISTRIBUTION}[conic]' has ecos and scs"
    return f"{solver} is not installed ({has}), or no solver of CVXPY"


def accuracy(solver: str, tol: float) -> dict:
    """Return the solver options for an accuracy `tol`; {} for an unknown solver."""
    names = {
        "CLARABEL": ("tol_gap_abs", "tol_gap_rel", "tol_feas"),
        "ECOS": ("abstol", "reltol", "feastol"),
        "SCS": ("eps_abs", "eps_rel"),
    }
    options = dict.fromkeys(names.get(solver, ()), tol)
    return {**options, "max_iters": 100_000} if solver == "SCS" else options


def numbers(value: Any) -> Vec:
    """Return a primal or dual value of CVXPY as a float64 vector."""
    return np.asarray(value, dtype=np.float64).ravel()


def units(form: MinNorm) -> tuple[float, list[float]]:
    """Return the scale of the features and the scale of every coupling, the units of the programs."""
    columns = [float(b.map.column_norms().max(initial=0.0)) for b in form.blocks]
    scale = max([form.space.norm(form.center), *columns]) or 1.0
    meets = [max(float(np.linalg.norm(c.offset)), scale if c.offset.any() else 1.0)
             for c in form.couplings]  # fmt: skip
    return scale, meets


class Blocks:
    """Set `{c + sum_k A_k q_k}` of a form as CVXPY expressions and constraints.

    Parameters
    ----------
    form : norm and objective do not matter
    basis : (n, r) orthonormal columns; x is written in coordinates of them

    Attributes
    ----------
    x : the points of the set over `scale`
    sizes : the largest term of each coordinate of x, at least `_LEAST`
    q : the parameters of the blocks
    constraints : the domains, then the couplings
    """

    def __init__(self, form: MinNorm, basis: NDArray[np.float64] | None = None) -> None:
        self.scale, self.units = units(form)
        center = (form.center if basis is None else basis.T @ form.center) / self.scale
        self.x: Any = center
        sizes = np.abs(center)
        self.q: list = []
        self.constraints: list = []
        for b in form.blocks:
            d = b.map.shape[1]
            size = b.domain.size()
            number = None if size is None else size.number
            u: Any = cp.Variable(d) / (d if b.samples is not None else 1)
            v, ball = u, isinstance(b.domain, NormBall) and b.domain.around is None
            if ball and number is not None and 0.0 < number < _SMALL:  # below the accuracy of the program
                v, number = number * u, 1.0
            A = (b.map.matrix() if basis is None else basis.T @ b.map.matrix()) / self.scale
            largest = abs(A).max(axis=1)
            largest = largest.toarray().ravel() if sparse.issparse(largest) else largest
            sizes = np.maximum(sizes, largest)
            self.q.append(v)
            self.x = self.x + A @ v
            self.constraints += b.domain.cvxpy(u, number)
        self.sizes = np.maximum(sizes, _LEAST)
        self.meets: list = []
        for c, unit in zip(form.couplings, self.units, strict=True):
            terms = (B.matrix() @ self.q[k] for k, B in c.terms)
            self.meets.append(sum(terms, start=cp.Constant(c.offset)) / unit == 0)
        self.constraints += self.meets

    def point(self) -> list[Vec]:
        """Return the values of the parameters q_k after a solve."""
        return [numbers(v.value) for v in self.q]

    def multipliers(self, factor: float) -> list[Vec]:
        """Return the multipliers of the couplings in the units of the form, multiplied by `factor`."""
        return [
            numbers(m.dual_value) * (self.scale / unit * factor)
            for m, unit in zip(self.meets, self.units, strict=True)
        ]
