"""
Quick start
===========

Declare a nu-SVM, solve it, read its certificate, compare it with CVXPY, tune it.
"""

from sklearn.model_selection import GridSearchCV

import ucm
from ucm import Param, neg, pos

X, y = ucm.datasets.load("breast_cancer")

nu = Param("nu", 0.3)
U = ucm.ReducedHull(pos, nu=nu) - ucm.ReducedHull(neg, nu=nu)
print(U)
print("admissible:", ucm.admissible(U, X, y)["nu"])

plan = ucm.compile(U, X, y)
print(plan.explain())
solution = plan.solve()
print(solution)
print(solution.certificate)
print(plan.verify())

search = GridSearchCV(ucm.Classifier(U), {"model__nu": [0.1, 0.2, 0.3]}, cv=3).fit(X, y)
print(f"best nu {search.best_params_['model__nu']}, accuracy {search.best_score_:.3f}")
