"""
Solvers against each other
==========================

One declaration, three solvers, each with its certificate.
"""

import warnings

import ucm

X, y = ucm.datasets.load("wine")
U = ucm.models.l2_nu_svm(0.12)

for solver in ("apg", "clarabel", "ecos"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ucm.ConvergenceWarning)  # the gap is printed anyway
        solution = ucm.solve(U, X, y, solver=solver)
    print(
        f"{solver:>9}  {solution.status:<10} objective {solution.objective:.10f}  "
        f"proven relative gap {solution.certificate.relative_gap:.1e}"
    )
