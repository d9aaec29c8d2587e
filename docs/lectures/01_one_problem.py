# %% [markdown]
# # 1. One problem, many classifiers
#
# **Goal.** Read a classifier off its *uncertainty set*, draw it, solve it, and say for which sizes the problem is convex.
#
# The $\nu$-SVM, the minimax probability machine and Fisher's discriminant have separate origins. Ito, Takeda and Toh (2015)
# state all three as one problem, their equation (2):
#
# $$\min_{\|w\|_2 = 1}\ \max_{x \in U}\ -w^\top x .$$
#
# They differ only in the set $U \subset \mathbb{R}^n$. If $0 \notin U$, the constraint may be relaxed to $\|w\|_2 \le 1$, and the
# dual problem is geometric: find the point of $U$ nearest to 0,
#
# $$\min_{\|w\|_2 \le 1}\max_{x \in U} -w^\top x \;=\; -\min_{x \in U}\|x\|_2 , \qquad w^* = x^* / \|x^*\|_2 .$$

# %%
import importlib.util
import subprocess
import sys

# in a fresh environment: install the library from the checkout of this lecture
if importlib.util.find_spec("ucm") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "../..[plot]"], check=True)

# %%
import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm import neg, pos

# %% [markdown]
# Two classes of thirty samples that overlap a little.

# %%
rng = np.random.default_rng(0)
A = rng.normal(size=(30, 2)) @ [[1.0, 0.35], [0.0, 0.55]] + [1.6, 0.9]
B = rng.normal(size=(30, 2)) @ [[0.55, -0.35], [0.0, 0.95]] - [1.2, 0.3]
X, y = np.vstack([A, B]), np.repeat([1, -1], 30)

# %% [markdown]
# ## The declaration
#
# `A - B` is the Minkowski difference $\{a - b\}$. A declaration knows no data: `pos` and `neg` stand for the two classes.
#
# * **ν-SVM**: reduced hulls, $\{\sum_i q_i x_i : \sum_i q_i = 1,\ 0 \le q_i \le 2/(m\nu)\}$.
# * **MM-MPM**: ellipsoids around the class means, $\{\bar x_o + \Sigma_o^{1/2} u : \|u\|_2 \le \kappa\}$.
# * **MM-FDA**: one ellipsoid around the difference of the means, with the sum of the covariances.

# %%
models = {
    "nu-SVM": ucm.ReducedHull(pos, nu=0.35) - ucm.ReducedHull(neg, nu=0.35),
    "MM-MPM": ucm.Ellipsoid(pos.mean, pos.cov, 0.9) - ucm.Ellipsoid(neg.mean, neg.cov, 0.9),
    "MM-FDA": ucm.Ellipsoid(pos.mean - neg.mean, pos.cov + neg.cov, 0.9),
}
for name, U in models.items():
    print(f"{name}:  U = {U}")

# %% [markdown]
# ## The picture
#
# Left: the classes, their sets, and the hyperplane half-way between the nearest points. The area of a mark is
# the weight of its sample in the worst case. Right: the set $U$. The classifier is the arrow from 0 to the nearest point of $U$.

# %%
for U in models.values():
    ucm.plot.SetDisplay.from_model(U, X, y)
plt.show()

# %% [markdown]
# ## The certificate
#
# For *every* $w$ with $\|w\| \le 1$ and *every* $x \in U$ weak duality says
# $-\|x\| \le \text{optimum} \le \max_{u \in U} -w^\top u$. Both ends are computed from the declaration, not by the solver.

# %%
for name, U in models.items():
    solution = ucm.solve(U, X, y)
    print(f"{name}  w = ({solution.w[0]:.4f}, {solution.w[1]:.4f})  {solution.certificate}")
    assert solution.status == "optimal"
    assert np.allclose(solution.w, solution.x / np.linalg.norm(solution.x))  # the arrow

# %% [markdown]
# `verify` writes the declaration in CVXPY, solves it with Clarabel, and compares:

# %%
plan = ucm.compile(models["MM-MPM"], X, y)
check = plan.verify()
print(check)
assert check.agrees

# %% [markdown]
# ## From the paper: Figure 2
#
# The left panel of Figure 2 has $0 \notin U$: the classes' sets are disjoint. In the right panel they meet, $0 \in U$, and
# the relaxed problem has the useless solution $w = 0$. One parameter leads from one panel to the other. An animation shows
# the transition, and `admissible` computes the value at which it happens.

# %%
ends = ucm.admissible(ucm.models.mm_mpm(0.9), X, y)["kappa"]
print(f"0 is outside of U for kappa in [{ends.lower:g}, {ends.upper:.4f})")
ucm.plot.SetAnimation.from_model(ucm.models.mm_mpm(0.9), X, y, kappa=[0.7, 1.3, 2.1], n_frames=3)
plt.show()

# %%
left, right = (ucm.compile(ucm.models.mm_mpm(f * ends.upper), X, y) for f in (0.99, 1.01))
print("left panel: ", left.regime.how)
print("right panel:", right.regime.how)
assert left.regime.convex and not right.regime.convex

# %% [markdown]
# ## Exercises
#
# 1. What is $w$ as $\kappa \to 0$, for MM-MPM and for MM-FDA? Check it.
# 2. As $\kappa$ tends to the end of its interval, MM-FDA becomes Fisher's discriminant,
#    $w \propto (\Sigma_+ + \Sigma_-)^{-1} (\bar x_+ - \bar x_-)$. Show it in numbers.
# 3. Compare the $\nu$-SVM with `sklearn.svm.NuSVC`. What do they share, and what not?
# 4. Which $\nu$ is the largest with a non-empty set here? What is $U$ there?

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. Both sets shrink to the point `mean(A) - mean(B)`, which is then the nearest point itself.
means = A.mean(axis=0) - B.mean(axis=0)
for model in (ucm.models.mm_mpm(1e-9), ucm.models.mm_fda(1e-9)):
    w = ucm.solve(model, X, y).w
    print(w, means / np.linalg.norm(means))
    assert np.allclose(w, means / np.linalg.norm(means), atol=1e-6)

# %% tags=["hide-cell"]
# 2. At the end of the interval U touches 0, and its normal there is Fisher's direction.
top = ucm.admissible(ucm.models.mm_fda(0.5), X, y)["kappa"].upper
fisher = np.linalg.solve(np.cov(A.T, bias=True) + np.cov(B.T, bias=True), means)
fisher /= np.linalg.norm(fisher)
for part in (0.0, 0.5, 0.9, 0.999, 0.99999):
    w = ucm.solve(ucm.models.mm_fda(part * top), X, y).w
    angle = np.degrees(np.arccos(np.clip(w @ fisher, -1.0, 1.0)))
    print(f"{part:7g} of the largest kappa: {angle:8.4f} degrees from Fisher's discriminant")
assert angle < 0.05

# %% tags=["hide-cell"]
# 3. The direction and the support vectors are the same; the length of w is not (here it is 1).
from sklearn.svm import NuSVC

theirs = NuSVC(nu=0.35, kernel="linear", tol=1e-8).fit(X, y)
ours = ucm.solve(models["nu-SVM"], X, y, tol=1e-9)
print(theirs.coef_[0] / np.linalg.norm(theirs.coef_), ours.w)
assert np.allclose(theirs.coef_[0] / np.linalg.norm(theirs.coef_), ours.w, atol=1e-4)
assert set(theirs.support_) == set(np.flatnonzero(ours.weights > 1e-9))

# %% tags=["hide-cell"]
# 4. nu = 1: the cap 2 / (m nu) = 1/30 leaves one choice of weights, and U is the difference of the means.
largest = ucm.admissible(ucm.models.nu_svm(0.5), X, y)["nu"].upper
solution = ucm.solve(ucm.models.nu_svm(largest), X, y)
print(largest, solution.x, means)
assert largest == 1.0 and np.allclose(solution.x, means)
