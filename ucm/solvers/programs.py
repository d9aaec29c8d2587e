"""Linear programs in HiGHS with warm starts, and conic programs in CVXPY.

`scipy.optimize.linprog` takes the same linear programs to the same HiGHS, but every call begins anew; here
a program grows, its bounds and entries move, and the simplex method goes on from the last basis. CVXPY
writes them too, in three times the time that HiGHS needs for some hundred samples, and is slow to load.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ucm.data.linear_map import Vec
from ucm.errors import SolverError
from ucm.forms.distance import MinNorm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite
from ucm.forms.solver import Answer, Status
from ucm.language.cvx import unpack
from ucm.language.domains import NormBall

if TYPE_CHECKING:
    import cvxpy as cp

Index = NDArray[np.intp]

_SHORT = 200_000  # entries up to which HiGHS runs in the main thread, for some 0.1 s
_POLL = 0.1  # seconds between checks for Ctrl-C
_LEAST = 1e-9  # least scale of a feature, relative to the scale of all features
_SMALL = 1e-6  # radius of a ball that is the unit of its own coordinates


# --- linear programs, HiGHS ---------------------------------------------------------------------
class Vertex(NamedTuple):
    """Result of the simplex method: status, primal and dual solution, pivots.

    Attributes
    ----------
    status : "optimal", "infeasible", "unbounded", "time_limit", "max_iter" or "stopped"
    words : what HiGHS calls it
    x : (columns,) empty where there is none
    dual : (rows,) slopes of the optimum in the sides of the rows; empty where there are none
    pivots : of the simplex method
    """

    status: str
    words: str
    x: Vec
    dual: Vec
    pivots: int


class LinearProgram:
    """Linear program in HiGHS, `min <cost, v>` over `lower <= v <= upper`, `least <= A v <= most`.

    It can grow and change between solves.

    Parameters
    ----------
    monitor : of the solve: its limits are those of the program, whose pivots it counts as iterations; it
        prints the log of HiGHS if that one is verbose
    options : of HiGHS, beside tolerances of 1e-10
    """

    def __init__(self, monitor: Monitor | None = None, **options: Any) -> None:
        import highspy

        self.monitor = monitor or Monitor()
        self.highs: Any = _without_callbacks()()
        verbose = self.monitor.verbose
        tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        for name, setting in {"output_flag": verbose, **tight, **options}.items():
            self.highs.setOptionValue(name, setting)
        verdicts = highspy.HighsModelStatus
        self.words = {
            verdicts.kOptimal: "optimal",
            verdicts.kInfeasible: "infeasible",
            verdicts.kUnbounded: "unbounded",
            verdicts.kTimeLimit: "time_limit",
            verdicts.kIterationLimit: "max_iter",
        }
        self.error = highspy.HighsStatus.kError
        self.has_basis = False

    def _accepted(self, code: Any) -> None:
        """Raise `SolverError` if HiGHS has not taken a change of the program: entries beyond 1e15, NaN."""
        if code == self.error:
            raise SolverError(
                "highs: the linear program has numbers that HiGHS does not take; scale the features, or take "
                'solver="clarabel"'
            )

    def columns(self, count: int, lower: Any, upper: Any, cost: float = 0.0, entries: Any = None) -> Index:
        """Add `count` variables with `entries` (count, rows) in the existing rows; return their indices."""
        before, rows = self.highs.getNumCol(), self.highs.getNumRow()
        terms = [] if entries is None else [(np.arange(rows), entries)]
        code = self.highs.addCols(
            count, np.full(count, cost), _each(lower, count), _each(upper, count),
            *_compressed(terms, (count, rows)),
        )  # fmt: skip
        self._accepted(code)
        return np.arange(before, before + count)

    def rows(self, terms: Sequence[tuple[Index, Any]], least: Any, most: Any) -> Index:
        """Add rows `least <= sum_k A_k v[at_k] <= most` for terms (at_k, A_k); return their indices."""
        before, count = self.highs.getNumRow(), np.size(most)
        code = self.highs.addRows(
            count, _each(least, count), _each(most, count),
            *_compressed(terms, (count, self.highs.getNumCol())),
        )  # fmt: skip
        self._accepted(code)
        return np.arange(before, before + count)

    def sides(self, least: Vec, most: Vec) -> None:
        """Set the lower and upper bounds of all rows."""
        every = np.arange(least.size, dtype=np.int32)
        self._accepted(self.highs.changeRowsBounds(least.size, every, least, most))

    def column(self, at: int, entries: Vec) -> None:
        """Set the leading coefficients of a column, as many as `entries` has."""
        for row, entry in enumerate(entries.tolist()):
            self._accepted(self.highs.changeCoeff(row, at, entry))

    def row(self, at: int, entries: Vec, side: float) -> None:
        """Set the leading coefficients of a row, and both of its bounds to `side`."""
        for column, entry in enumerate(entries.tolist()):
            self._accepted(self.highs.changeCoeff(at, column, entry))
        self._accepted(self.highs.changeRowBounds(at, side, side))

    def solve(self) -> Vertex:
        """Solve from the last basis; if that fails, solve again from scratch."""
        verdict = self._run()
        if self.has_basis and self.words.get(verdict) not in ("optimal", "time_limit", "max_iter"):
            self.highs.clearSolver()
            verdict = self._run()
        self.has_basis = True
        solution = self.highs.getSolution()
        pivots = int(self.highs.getInfo().simplex_iteration_count)
        self.monitor.iterations += pivots
        return Vertex(
            self.words.get(verdict, "stopped"),
            self.highs.modelStatusToString(verdict),
            np.array(solution.col_value if solution.value_valid else []),
            np.array(solution.row_dual if solution.dual_valid else []),
            pivots,
        )

    def _run(self) -> Any:
        if self.monitor.time_limit is not None:  # the clock of HiGHS goes on from run to run
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + self.monitor.seconds_left)
        if self.monitor.max_iter is not None:
            left = max(0, self.monitor.max_iter - self.monitor.iterations)
            self.highs.setOptionValue("simplex_iteration_limit", left)
        if self.highs.getNumNz() <= _SHORT:
            self.highs.run()
        else:
            self._run_interruptibly()
        return self.highs.getModelStatus()

    def _run_interruptibly(self) -> None:
        """Run HiGHS in a thread, so that Ctrl-C can stop it.

        Python handles Ctrl-C in the main thread, which a call of HiGHS blocks.
        """
        # an event, since before Python 3.13 a thread whose `join` is interrupted counts as ended
        ended = threading.Event()

        def run() -> None:
            try:
                self.highs.run()
            finally:
                ended.set()

        threading.Thread(target=run).start()
        try:
            while not ended.wait(_POLL):
                pass
        except BaseException:
            self.highs.setOptionValue("time_limit", 0.0)
            ended.wait()
            self.highs.setOptionValue("time_limit", math.inf)
            raise


@functools.cache
def _without_callbacks() -> Any:
    """Return the class `Highs` with callbacks disabled, as version 1.16 prints its banner for them."""
    import highspy

    return type("Highs", (highspy.Highs,), {"enableCallbacks": lambda self: None})


def _each(side: Any, count: int) -> Vec:
    """Return a scalar or a vector as a new float64 vector of length `count`."""
    return np.array(np.broadcast_to(side, count), dtype=np.float64)


def _compressed(terms: Sequence[tuple[Index, Any]], shape: tuple[int, int]) -> tuple:
    """Return the sum of matrices A_k, placed in the columns at_k, as CSR.

    In the order of HiGHS: number of entries, row starts, column indices, entries.
    """
    if len(terms) == 1 and isinstance(terms[0][1], np.ndarray):
        at, dense = terms[0]
        start = at.size * np.arange(shape[0], dtype=np.int32)
        index = np.tile(at.astype(np.int32), shape[0])
        return dense.size, start, index, np.ascontiguousarray(dense).ravel()
    parts = [(at, sparse.coo_array(A)) for at, A in terms]
    none = np.zeros(0, dtype=np.intp)
    i = np.concatenate([none, *(A.row for _, A in parts)])
    j = np.concatenate([none, *(at[A.col] for at, A in parts)])
    entries = np.concatenate([np.zeros(0), *(A.data for _, A in parts)])
    A: Any = sparse.csr_array((entries, (i, j)), shape=shape)
    return A.nnz, A.indptr[:-1].astype(np.int32), A.indices.astype(np.int32), A.data


# --- conic programs, CVXPY ----------------------------------------------------------------------
_CLOCKS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}  # ECOS has none
_COMPILING = {"canon_backend", "enforce_dpp", "ignore_dpp"}  # options of CVXPY and not of its solvers


def attempt(problem: cp.Problem, solver: str, monitor: Monitor | None = None, **options: Any) -> str:
    """Solve a CVXPY problem within the monitor's time limit; return the first line of the error, or "".

    The options are those of `cvxpy.Problem.solve`. The time of CVXPY's compilation counts.
    """
    import cvxpy as cp

    monitor = monitor or Monitor()
    limited = monitor.time_limit is not None
    compiling = {name: options.pop(name) for name in _COMPILING & options.keys()}
    warm = options.pop("warm_start", True) and not limited
    try:
        if limited:
            for variable in problem.variables():  # values of the previous solve
                variable.value = None
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


_FINAL = ("optimal", "infeasible", "unbounded")


def ended(problem: cp.Problem, solver: str, monitor: Monitor) -> Status:
    """Return the status of an answer from that of a CVXPY problem: proof, limit or numerical failure."""
    if problem.status in _FINAL or monitor.timed_out:
        return "converged" if problem.status in _FINAL else "interrupted"
    # SCS names its limit of iterations "inaccurate"; the interior-point methods so name a lack of progress
    at_limit = problem.status == "user_limit" or (solver == "SCS" and problem.status == "optimal_inaccurate")
    return "max_iter" if at_limit else "stalled"


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


def column_sizes(X: Any) -> Vec:
    """Return the largest absolute entry of each feature, 1 for a feature of zeros."""
    top = abs(X).max(axis=0)
    top = np.asarray(top.toarray() if sparse.issparse(top) else top, dtype=np.float64).ravel()
    return np.where(top > 0.0, top, 1.0)


def duality_gap(form: Composite, answer: Answer) -> tuple[float, float]:
    """Return the objective at an answer and its duality gap from the slopes, inf without slopes."""
    w, b = answer.plane
    margin = form.margins(w, b)
    value = form.value(margin, w)
    if answer.slopes is None:
        return value, np.inf
    return value, value - form.lower_bound(answer.slopes, margin, w)[0]


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
        import cvxpy as cp

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
