"""The programs inside of solvers, against other ways to them: linear, conic, quadratic with walls."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

import ucm
from ucm.forms.monitor import Monitor
from ucm.forms.objective import Composite, LinearTerm
from ucm.language.cvx import quiet_solve
from ucm.language.losses import Hinge
from ucm.language.penalties import L1
from ucm.numerics.conic_programs import accuracy, attempt
from ucm.solvers import HiGHS, ProxALM
from ucm.solvers.linear_program import _SHORT, LinearProgram
from ucm.solvers.objective.quadratic_models import boxed_quadratic

Matrix = NDArray[np.float64]


def problem(seed: int) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Cost, entries, sides of the rows: feasible, and bounded by 0 <= v <= 1."""
    generator = np.random.default_rng(seed)
    A = generator.standard_normal((5, 8))
    inside = A @ generator.random(8)
    return generator.standard_normal(8), A, inside - 0.1, inside + 0.1


def by_scipy(cost: Matrix, A: Matrix, least: Matrix, most: Matrix) -> Any:
    return linprog(cost, A_ub=np.vstack([A, -A]), b_ub=np.r_[most, -least], bounds=(0.0, 1.0), method="highs")


def test_a_quiet_solve_sets_what_cvxpy_sets() -> None:
    """The statistics too, which CVXPY keeps in a private attribute."""
    x = cp.Variable(2)
    ours, theirs = (cp.Problem(cp.Minimize(cp.norm(x)), [x[0] + 2.0 * x[1] == 5.0]) for _ in range(2))
    quiet_solve(ours, "CLARABEL")
    point = x.value
    theirs.solve("CLARABEL")
    assert point == pytest.approx(np.array([1.0, 2.0])) and ours.value == theirs.value
    assert ours.status == theirs.status == "optimal"
    known, found = theirs.solver_stats, ours.solver_stats
    assert (found.solver_name, found.num_iters) == (known.solver_name, known.num_iters) and found.num_iters


def test_a_linear_program_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    program = LinearProgram()
    program.columns(1, 0.0, 1.0, cost=1.0)
    program.solve()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.coo_array])
def test_a_linear_program_is_that_of_scipy(seed: int, form: Any) -> None:
    cost, A, least, most = problem(seed)
    program = LinearProgram()
    columns = np.concatenate([program.columns(1, 0.0, 1.0, c) for c in cost])
    halves = [(columns[:3], form(A[:, :3])), (columns[3:], form(A[:, 3:]))]
    rows = program.rows(halves, least, most)
    assert columns.tolist() == list(range(8)) and rows.tolist() == list(range(5))
    found, known = program.solve(), by_scipy(cost, A, least, most)
    assert found.status == "optimal" and found.words == "Optimal"
    assert cost @ found.x == pytest.approx(known.fun, abs=1e-9)
    dual = known.ineqlin.marginals
    np.testing.assert_allclose(found.dual, dual[:5] - dual[5:], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_program_grows_and_goes_on_from_its_basis(seed: int) -> None:
    _, A, least, most = problem(seed)
    free = np.full(5, np.inf)
    program = LinearProgram(presolve="off")
    first = program.columns(5, 0.0, 1.0)
    program.rows([(first, A[:2, :5])], -free[:2], free[:2])
    program.solve()
    rest = program.columns(3, 0.0, np.ones(3), entries=sparse.csr_array(A[:2, 5:].T))
    program.rows([(rest, A[2:, 5:]), (first, A[2:, :5])], -free[2:], free[2:])
    program.sides(least, most)
    marked = program.columns(1, 0.0, 1.0, cost=-1.0)
    program.column(int(marked[0]), A[:, 0])
    found = program.solve()
    wide = np.column_stack([A, A[:, 0]])
    known = by_scipy(np.r_[np.zeros(8), -1.0], wide, least, most)
    assert -found.x[-1] == pytest.approx(known.fun, abs=1e-9)
    moved = program.solve()
    assert moved.pivots == 0 and np.array_equal(moved.x, found.x)


def test_a_linear_program_without_an_answer_says_why() -> None:
    program = LinearProgram(presolve="off")
    v = program.columns(2, 0.0, np.inf, -1.0)
    assert program.solve().status == "unbounded"
    program.rows([(v, np.ones((1, 2)))], -np.inf, np.array([-1.0]))
    assert program.solve().status == "infeasible"
    program.sides(np.array([-np.inf]), np.array([1.0]))
    assert program.solve().x.sum() == pytest.approx(1.0)
    short = LinearProgram(presolve="off", simplex_iteration_limit=0)
    v = short.columns(2, 0.0, np.inf, -1.0)
    short.rows([(v, np.array([[1.0, 2.0]]))], -np.inf, np.ones(1))
    assert short.solve().status == "max_iter"
    with pytest.raises(ucm.SolverError, match="numbers that HiGHS does not take"):
        short.rows([(v, np.array([[1e16, 2.0]]))], -np.inf, np.ones(1))


def test_a_basis_gone_bad_is_left() -> None:
    """Few samples make the program infeasible; HiGHS then ended all samples with 'Not Set'."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((2000, 100))
    y = np.where(X[:, :10].sum(axis=1) + 2.0 * generator.standard_normal(2000) >= 0.0, 1.0, -1.0)
    form = Composite(X, y, (Hinge(),), (10.0 * L1(),))
    answer = HiGHS(samples=500, rough=ProxALM(max_outer=1)).solve(form, Monitor())
    assert answer.status == "converged"
    assert answer.w is not None and answer.b is not None
    value = form.value(form.margins(answer.w, answer.b), answer.w)
    assert value == pytest.approx(840.1386617721869, rel=1e-9)


@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS", "SCS"])
def test_an_accuracy_is_in_the_words_of_the_solver(solver: str) -> None:
    cp = pytest.importorskip("cvxpy")
    if solver not in cp.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    v = cp.Variable(2)
    norm = cp.Problem(cp.Minimize(cp.norm(v - np.array([3.0, 4.0]))), [v <= 0])
    assert attempt(norm, solver, **accuracy(solver, 1e-9)) == ""
    assert norm.value == pytest.approx(5.0, rel=1e-7)


def test_an_inaccurate_answer_is_a_status_and_no_warning() -> None:
    cp = pytest.importorskip("cvxpy")
    v = cp.Variable(2)
    cone = cp.Problem(cp.Minimize(cp.norm(v)), [cp.sum(v) == 1.0])
    for limit in (None, 1e3):
        assert attempt(cone, "SCS", Monitor(time_limit=limit), max_iters=1, eps_abs=1e-12) == ""
        assert cone.status == "optimal_inaccurate"


def test_a_failure_is_a_line() -> None:
    cp = pytest.importorskip("cvxpy")
    v = cp.Variable()
    assert "NONE" in attempt(cp.Problem(cp.Minimize(cp.abs(v))), "NONE")
    assert accuracy("HIGHS", 1e-9) == {}


@pytest.mark.parametrize("rank", [3, 8])
def test_quadratic_programs_with_walls(rank: int) -> None:
    rng = np.random.default_rng(rank)
    A = rng.standard_normal((rank, 8))
    H, r, ridge = A.T @ A, A.T @ rng.standard_normal(rank), 0.1
    lower, upper = -rng.uniform(0.0, 2.0, 8), rng.uniform(0.0, 2.0, 8)
    lower[0] = upper[0] = 0.0
    x = np.zeros(8)
    boxed_quadratic(H, r.copy(), x, lower, upper, ridge, 1e-10, 50, lambda: True)
    assert not x.any()  # the time is over
    boxed_quadratic(H, r.copy(), x, lower, upper, ridge, 1e-10, 50, lambda: False)
    z = cp.Variable(8)
    walls = upper @ cp.pos(z) - lower @ cp.neg(z)
    height = cp.sum_squares(A @ z) / 2.0 + r @ z + ridge / 2.0 * cp.sum_squares(z) + walls
    least = cp.Problem(cp.Minimize(height)).solve(cp.CLARABEL)
    z.value = x
    assert height.value == pytest.approx(least, abs=1e-7)


def test_ctrl_c_ends_a_long_program() -> None:
    """HiGHS, here one that runs until its time is over, is told to end, and has no limit afterwards."""
    over = threading.Event()
    limits: list[Any] = []

    class Endless:
        def getNumNz(self) -> int:
            return _SHORT + 1

        def run(self) -> None:
            time.sleep(0.1)  # until the main thread waits
            _thread.interrupt_main()
            over.wait()
            time.sleep(0.1)
            limits.append("ended")

        def setOptionValue(self, name: str, number: float) -> None:
            limits.append((name, number))
            over.set()

    program: Any = LinearProgram()
    program.highs = Endless()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            program.solve()
    finally:
        signal.signal(signal.SIGINT, before)
    assert limits == [("time_limit", 0.0), "ended", ("time_limit", np.inf)]


def test_a_constraint_that_w_meets_far_from_0_beside_a_large_feature() -> None:
    """The conic solver answers in units of the objective at the least w only."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = np.where(X @ rng.normal(size=5) + 0.5 * rng.normal(size=200) > 0, 1, -1)
    model = ucm.Robust(ucm.Logistic(), ucm.Ball(0, 0.1)) / 200 + 0.05 * ucm.LInf()
    row, sizes = np.array([1.0, -1.0, 0.5, 2.0, 0.0]), np.array([1e4, 1.0, 1.0, 1.0, 1.0])
    solution = ucm.solve(model + ucm.LinearConstraint([row], 1.0), X * sizes, y)
    v, b, r = cp.Variable(5), cp.Variable(), cp.Variable()  # v = sizes * w: features of one size
    w = cp.multiply(1.0 / sizes, v)
    loss = cp.sum(cp.logistic(r - cp.multiply(y, X @ v + b))) / 200
    program = cp.Problem(cp.Minimize(loss + 0.05 * cp.norm_inf(w)), [row @ w >= 1.0, 0.1 * cp.norm(w) <= r])
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(float(program.solve(solver="CLARABEL")), rel=1e-6)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_programs_of_a_session_keep_few_samples(scale: float) -> None:
    """Programs over few samples are unbounded at first; samples far from the breakpoint leave again."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((600, 6))
    y = np.where(X[:, 0] + generator.standard_normal(600) >= 0.0, 1.0, -1.0)
    form = Composite(X, y, (Hinge(),), (scale * L1(),))
    session: Any = HiGHS(samples=50, rough=ProxALM(max_outer=1)).session(form)
    answer = session.solve(form, Monitor())
    for _ in range(8):  # samples are given up, as by a ramp loss
        far = form.margins(*answer.plane) < generator.uniform(-1.0, 0.5)
        tilt = LinearTerm(-far.astype(float), np.zeros(form.n))
        answer = session.solve(form.tilted(tilt), Monitor(), answer)
        assert answer.status == "converged"
        value = form.tilted(tilt).value(form.margins(*answer.plane), answer.plane[0])
        assert value == pytest.approx(_primal(form, far, scale), rel=1e-8)
    assert session.program.samples.size < 100
    answer = session.solve(form.tilted(LinearTerm(np.full(form.m, 2.0), np.zeros(form.n))), Monitor(), answer)
    assert answer.status == "unbounded"


def _primal(form: Composite, given_up: np.ndarray, scale: float) -> float:
    """Return the optimum of `sum max(0, 1 - t) + t over those given up + scale ||w||_1` by linprog."""
    m = form.m
    Z = form.y[:, None] * form.X
    lost = given_up.astype(float)
    cost = np.r_[np.ones(m), scale + lost @ Z, scale - lost @ Z, lost @ form.y, -lost @ form.y]
    A = -np.hstack([np.eye(m), Z, -Z, form.y[:, None], -form.y[:, None]])
    return float(linprog(cost, A_ub=A, b_ub=-np.ones(m)).fun)
