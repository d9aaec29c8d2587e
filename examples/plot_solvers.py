"""
Test a solver of your own
=========================

For optimisers. A class of 25 lines implements Frank-Wolfe as a value of `solver=`. The declaration certifies
its answer, CVXPY verifies the answer, `check_solver` runs it on small problems, and `ConvergenceDisplay`
compares its gap with those of other solvers. A disc marks a proof of the tolerance, a cross a run without.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm.extend import Answer, MinNorm, Solver


class FrankWolfe(Solver[MinNorm]):
    """Steps towards the point of the set that lies furthest along -x, by exact line search."""

    name = "frank-wolfe"

    def refuse(self, form):
        return "it takes the norm 2 and no couplings" if form.norm != 2 or form.couplings else None

    def solve(self, form, monitor, start=None):
        q = form.begin(start)
        for k in range(1, monitor.limit(20_000) + 1):
            x = form.matvec(q)
            s = [far for _, far in form.supports([-g for g in form.rmatvec(x)])]
            d = form.matvec(s) - x
            square = max(x @ x, 1e-300)
            gap = -(x @ d) / square
            monitor.passes += form.pass_cost()
            stop = monitor.report(k, -np.sqrt(square), gap)
            if gap <= 0.5 * monitor.tol or square**0.5 <= monitor.zero * form.largest:
                return Answer(q)
            if stop:
                return Answer(q).interrupted()
            t = min(1.0, gap * square / max(d @ d, 1e-300))
            q = [a + t * (b - a) for a, b in zip(q, s)]
        return Answer(q, status="max_iter", message="raise max_iter")


X, y = ucm.datasets.load("wine")
U = ucm.models.l2_nu_svm(0.12)
plan = ucm.compile(U, X, y, solver=FrankWolfe())
print(plan.solve(tol=1e-4).certificate)
print(plan.verify())
ucm.testing.check_solver(FrankWolfe(), tol=1e-3)

solvers = {"own": FrankWolfe(), "apg": "apg", "ssnal": "ssnal", "clarabel": "clarabel"}
shown = ucm.plot.ConvergenceDisplay.from_model(U, X, y, solvers=solvers, tol=1e-6)
print(shown.status)
plt.show()
