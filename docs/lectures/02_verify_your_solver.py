# %% [markdown]
# # 2. Verify your own solver against CVXPY
#
# **Goal.** Write a solver in fifteen lines, use it as `solver=`, and show that it is correct: by an independent certificate, by
# a CVXPY program, by a test with a deliberate error, and by a table of the paper.
#
# A solver receives the standard form: find the point nearest to 0 among $x(q) = c + \sum_k A_k q_k$ with $q_k \in D_k$. The method
# of Frank and Wolfe (1956) needs only the support function of the set. It moves towards the point $s$ of $U$ that lies furthest
# along $-x$, with an exact line search:
#
# $$s = \arg\max_{u \in U} -x^\top u, \qquad x \leftarrow x + t\,(s - x), \qquad
# t = \min\Bigl(1, \frac{x^\top (x - s)}{\|s - x\|^2}\Bigr).$$
#
# The number $x^\top (x - s)$ bounds the distance of $\|x\|^2$ from its minimum.

# %%
import importlib.util
import subprocess
import sys

# in a fresh environment: install the library from the checkout of this lecture
if importlib.util.find_spec("ucm") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "../..[plot]"], check=True)

# %%
import warnings
from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm.extend import Answer, MinNorm, Solver

# %%
X, y = ucm.datasets.load("wine")
U = ucm.models.nu_svm(0.3)
print(U)


# %% [markdown]
# ## The declaration of a solver


# %%
@dataclass(frozen=True)
class FrankWolfe(Solver[MinNorm]):
    """The method of Frank and Wolfe; `longest` is the longest step."""

    longest: float = 1.0
    name: ClassVar[str] = "frank-wolfe"

    def refuse(self, form):
        if form.norm != 2.0 or form.couplings:
            return "it takes the Euclidean norm, and no intersections"
        return None

    def solve(self, form, monitor, start=None):
        q = form.begin(start)
        x = form.matvec(q)
        zero = monitor.zero * form.largest
        for k in range(1, monitor.limit(20_000) + 1):
            if np.linalg.norm(x) <= zero:  # 0 lies in U
                return Answer(q)
            gradient = form.rmatvec(x)
            s = [b.domain.support(-g)[1] for b, g in zip(form.blocks, gradient)]
            d = form.matvec(s) - x
            gap = float(-x @ d)
            monitor.passes += 1.0
            stop = monitor.report(k, -float(np.linalg.norm(x)), gap / float(x @ x))
            if gap <= 0.5 * monitor.tol * float(x @ x):
                return Answer(q)
            if stop:
                return Answer(q).interrupted()
            t = min(self.longest, gap / float(d @ d))
            q = [a + t * (b - a) for a, b in zip(q, s)]
            x = x + t * d
        return Answer(q, status="max_iter", message="Frank-Wolfe is slow near the optimum")


# %% [markdown]
# ## The certificate
#
# The library computes $x$ from the weights by the definition of the set, and bounds the optimum by the support function of
# the *declared* set. No solver certifies its own answer: `status` is "optimal" only with a proof.

# %%
plan = ucm.compile(U, X, y, solver=FrankWolfe())
solution = plan.solve(tol=1e-4)
print(solution.status, "|", solution.certificate)
print("passes:", round(solution.stats.passes), "  iterations:", solution.stats.iterations)

# %% [markdown]
# `verify` writes the declaration in CVXPY, from the definitions of the sets, solves it, and compares:

# %%
check = plan.verify()
print(check)
assert check.agrees

# %% [markdown]
# `check_solver` tests a solver on small problems: the laws of an answer, limits, callbacks, and agreement with Clarabel. It
# raises an error if a test fails.

# %%
ucm.testing.check_solver(FrankWolfe())
print("check_solver: nothing to complain of")

# %% [markdown]
# ## Answers of other libraries
#
# The certificate needs the declaration and the answer alone, so that it judges any solver. `audit` reads the declaration from the
# parameters of a fitted estimator. Here LIBLINEAR runs out of iterations, and a smaller tolerance is worse:

# %%
from sklearn.datasets import make_classification
from sklearn.svm import LinearSVC

A, label = make_classification(1000, 300, n_informative=20, random_state=0)
errors = []
for tol in (1e-4, 1e-8, 1e-12):
    svc = LinearSVC(loss="hinge", fit_intercept=False, random_state=0, max_iter=20_000, tol=tol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = ucm.audit(svc.fit(A, label), A, label)
    errors.append(report[0].excess)
    print(f"tol={tol:g}: {report.verdict}")
assert min(errors) > 1e-6

# %% [markdown]
# ## Does a check find an error?
#
# A useful check finds errors. Without the limit $t \le 1$ a step may leave the set:

# %%
wrong = ucm.compile(U, X, y, solver=FrankWolfe(longest=np.inf))
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ucm.ConvergenceWarning)
    try:
        found = wrong.solve(tol=1e-4, max_iter=500)
        verdict = f"{found.status}, violation {found.certificate.violation:.2g}"
        caught = found.status != "optimal" or found.certificate.violation <= 1e-4
    except ucm.SolverError as error:
        verdict, caught = f"refused: {error}", True
print(verdict)
assert caught
try:
    ucm.testing.check_solver(FrankWolfe(longest=np.inf))
    print("check_solver found nothing")
except AssertionError as error:
    print("check_solver:", str(error).splitlines()[0])

# %% [markdown]
# ## The picture

# %%
solvers = {"frank-wolfe": FrankWolfe(), "apg": "apg", "ssnal": "ssnal"}
ucm.plot.ConvergenceDisplay.from_model(U, X, y, solvers=solvers, tol=1e-4)
plt.show()

# %% [markdown]
# ## From the paper: accuracy against an interior-point method
#
# Section 6.3 of Ito, Takeda and Toh (2015): with $\epsilon = 10^{-6}$ in APG and $10^{-8}$ in the interior-point solver the
# objective values differ by less than 0.001 %. Their solver was SeDuMi, ours is Clarabel. Their stopping rule is
# `stop="paper"`.

# %%
print(f"{'data':>14}  {'APG':>12}  {'Clarabel':>12}  {'difference':>10}  passes of APG")
for name in ("wine", "breast_cancer", "digits"):
    A, t = ucm.datasets.load(name)
    model = ucm.models.mm_mpm(0.5 * min(1.0, ucm.admissible(ucm.models.mm_mpm(0.1), A, t)["kappa"].upper))
    apg = ucm.solve(model, A, t, solver=ucm.solvers.APG(stop="paper", eps=1e-6), tol=1e-3)
    inner = ucm.solve(model, A, t, solver="clarabel")
    differ = abs(apg.objective - inner.objective) / abs(inner.objective)
    print(
        f"{name:>14}  {apg.objective:12.7f}  {inner.objective:12.7f}  {differ:10.2%}  {apg.stats.passes:.0f}"
    )
    assert differ < 1e-5

# %% [markdown]
# ## Exercises
#
# 1. Change the set, not the solver: `ucm.models.mm_mpm(0.5)`. Why is no line to be changed? How many passes now?
# 2. Frank-Wolfe on hulls zigzags near the optimum. How does the number of passes grow with $1/\text{tol}$?
# 3. What does `refuse` do when a reader asks for `RobustMargin(U, norm=1)` with this solver?
# 4. Return `Answer(q)` after ten steps, without a test of the gap. Which check finds this error?

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. The solver needs only the support function, and every domain has one. An ellipsoid is strongly convex, hence few passes.
round_set = ucm.solve(ucm.models.mm_mpm(0.5), X, y, solver=FrankWolfe(), tol=1e-6)
print(round_set.status, round(round_set.stats.passes))
assert round_set.status == "optimal" and round_set.stats.passes < 200

# %% tags=["hide-cell"]
# 2. About in proportion: the rate is O(1/k) where the nearest point lies on an edge.
counts = [ucm.solve(U, X, y, solver=FrankWolfe(), tol=tol).stats.passes for tol in (1e-2, 1e-3, 1e-4)]
print([round(c) for c in counts])
assert counts[0] < counts[1] < counts[2]

# %% tags=["hide-cell"]
# 3. The route is refused with the reason, and the message says what to do.
try:
    ucm.compile(ucm.RobustMargin(U, norm=1.0), X, y, solver=FrankWolfe())
except ucm.SolverError as error:
    print(error)
    assert "Euclidean norm" in str(error)


# %% tags=["hide-cell"]
# 4. The certificate: the gap is above the tolerance, so that the status is not "optimal", and a warning says so.
class Hasty(FrankWolfe):
    """Ten steps, and no doubt."""

    def solve(self, form, monitor, start=None):
        monitor.max_iter = 10
        return Answer(super().solve(form, monitor, start).q)


with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    hasty = ucm.solve(U, X, y, solver=Hasty())
print(hasty.status, f"gap {hasty.certificate.relative_gap:.2g},", heard[0].category.__name__)
assert hasty.status == "converged" and hasty.certificate.relative_gap > 1e-6
