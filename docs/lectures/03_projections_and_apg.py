# %% [markdown]
# # 3. Projections and accelerated gradients
#
# **Goal.** Understand the subproblem that an accelerated proximal gradient method (APG) solves in each step, and the effect of each
# of the four strategies of Ito, Takeda and Toh (2015).
#
# A point of $U$ is $x(q) = c + A q$ with $q \in D$. APG minimises $f(q) = \tfrac12\|x(q)\|^2$ over $D$:
#
# $$q^k = P_D\bigl(p^k - \tfrac1L \nabla f(p^k)\bigr), \qquad
#   p^{k+1} = q^k + \tfrac{t_k - 1}{t_{k+1}} (q^k - q^{k-1}) .$$
#
# A step costs one product with $A$, one with $A^\top$, and one projection $P_D$. The paper then answers two questions: which $D$ have
# a cheap projection (section 4), and how large may $1/L$ be (section 3.2)?

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
from ucm.solvers import APG

# %% [markdown]
# ## Projections: Figure 4
#
# Onto $\{q : \sum_i q_i = \tfrac12,\ 0 \le q_i \le \tfrac{1}{m\nu}\}$ the projection of $\bar q$ is
# $q_i(\theta) = \min\{[\bar q_i - \theta]_+, \tfrac{1}{m\nu}\}$, where $\theta$ solves $h(\theta) = \sum_i q_i(\theta) = \tfrac12$.
# For the ball $\|q\|_2 \le \kappa$ in place of the cap (section 4.3) the same holds with another $q_i(\theta)$. Both functions $h$
# are decreasing, so that bisection finds $\theta$.

# %%
rng = np.random.default_rng(1)
qbar, cap, kappa = rng.normal(0.0, 0.5, 12), 0.12, 0.25
theta = np.linspace(qbar.min() - 0.3, qbar.max() + 0.1, 400)
cut = np.maximum(qbar - theta[:, None], 0.0)
capped = np.minimum(cut, cap).sum(axis=1)
scaled = (np.minimum(1.0, kappa / np.maximum(np.linalg.norm(cut, axis=1), 1e-300))[:, None] * cut).sum(axis=1)

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
for ax, h, title in zip(
    axes,
    (capped, scaled),
    ("caps (section 4.2): piecewise linear", "a ball (section 4.3): smooth parts"),
):
    ax.plot(theta, h)
    ax.axhline(0.5, color="0.5", lw=1)
    ax.set(title=title, xlabel=r"$\theta$", ylabel=r"$h(\theta)$" if ax is axes[0] else "")
plt.show()
assert (np.diff(capped) <= 1e-12).all() and (np.diff(scaled) <= 1e-12).all()

# %% [markdown]
# The library computes the root in closed form between two kinks. The test: no point of the set is nearer.

# %%
domain = ucm.CappedSimplex(2 * cap)  # of mass 1: twice the above
q = domain.project(2 * qbar)
print("sum", q.sum().round(12), " largest", q.max().round(12), " cap", 2 * cap)
worst = domain.support(2 * qbar - q)[0] - (2 * qbar - q) @ q  # <= 0 for the nearest point, and only for it
print(f"variational inequality: {worst:.1e}")
assert abs(worst) < 1e-12
ucm.testing.check_domain(domain)

# %% [markdown]
# ## The declaration

# %%
X, y = ucm.datasets.load("breast_cancer")
U = ucm.models.nu_svm(0.3)
plan = ucm.compile(U, X, y, solver=APG(stop="paper", eta_min=1.0))  # Algorithm 1 as printed
print(U)

# %% [markdown]
# ## The certificate, and a dense history
#
# `trace=1` keeps every iterate, with `L`, the restarts, the generalised gradient, and the counts of section 6.

# %%
solution = plan.solve(trace=1, tol=1e-3)
last = solution.history[-1]
print(solution.certificate)
print({name: last[name] for name in ("iteration", "restarts", "gradients", "projections", "evaluations")})
assert solution.status == "optimal" and last["gradients"] >= last["iteration"]

# %% [markdown]
# As in Table 3 of the paper ($\nabla f$ 1375, $f$ 369, $P$ 1453 calls) there are a few more projections than gradients, and
# far fewer values of $f$: only every tenth step tests $L$, and every hundredth checks the second rule.
# `python -m benchmarks.papers unified tables-3-7` prints the table for its sizes.
#
# ## From the paper: Figure 6
#
# Left: two measures of the violation of optimality. Middle: $f(q^k) - f(q^*)$ and the bound of Theorem 1. Right: $L$ and the
# Lipschitz constant $L_f$, the largest eigenvalue of $A^\top A$.

# %%
k = np.array([r["iteration"] for r in solution.history])
f = 0.5 * np.array([r["objective"] for r in solution.history]) ** 2
best = ucm.solve(U, X, y, solver=APG(), tol=1e-10)
A = np.hstack([X[y > 0].T, -X[y < 0].T])
L_f = np.linalg.norm(A, 2) ** 2
apart = sum(np.sum((a - b) ** 2) for a, b in zip(solution.history[0]["q"], best.answer.q))
bound = 2 * L_f * apart / (k + 1) ** 2

figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
axes[0].semilogy(k, [r["residual"] for r in solution.history], label=r"$\|L(T_L(q)-q)\|$")
axes[0].semilogy(k[1:], [r["step"] for r in solution.history[1:]], ls="--", label=r"$\|L(q-p)\|$")
axes[1].semilogy(k, np.maximum(f - 0.5 * best.objective**2, 1e-14), label=r"$f(q^k)-f(q^*)$")
axes[1].semilogy(k, bound, ls="--", label="Theorem 1")
axes[2].semilogy(k, [r["L"] for r in solution.history], label="$L$")
axes[2].axhline(L_f, ls="--", color="C1", label="$L_f$")
for ax, title in zip(axes, ("violation of optimality", "above the optimum", "step length")):
    ax.set(xlabel="iteration", title=title)
    ax.legend()
plt.show()
print(f"mean of L {np.mean([r['L'] for r in solution.history]):.0f}, L_f {L_f:.0f}")
assert (f - 0.5 * best.objective**2 <= bound).all()

# %% [markdown]
# What agrees with the paper: the two violations differ little, so the cheap one may stop the method; the values stay
# below the bound and fall faster; $L$ is far below $L_f$ (theirs: 368 against 36,100).
#
# ## The picture: the strategies one by one (Figure 7)
#
# *bt* is backtracking on $L$; *re* restarts the momentum when it increases the objective; *decL* also decreases $L$; *deceta* decreases
# $L$ by smaller and smaller factors.

# %%
off = {"decrease_L": False, "restart": False, "decrease_eta": False}
strategies = {
    "bt": APG(stop="paper", **off),
    "bt+re": APG(stop="paper", **(off | {"restart": True})),
    "bt+re+decL": APG(stop="paper", decrease_eta=False),
    "all four": APG(stop="paper", eta_min=1.0),
}
traced = {n: ucm.solve(U, X, y, solver=s, trace=1, tol=1e-3) for n, s in strategies.items()}
ucm.plot.ConvergenceDisplay.from_solution(traced, x="iterations", y="residual")
ucm.plot.ConvergenceDisplay.from_solution(traced, x="iterations", y="L")
plt.show()

# %%
for name, s in traced.items():
    print(f"{name:>11}: {s.stats.iterations:5d} iterations, {s.history[-1]['restarts']} restarts")
assert traced["all four"].stats.iterations < traced["bt+re"].stats.iterations < traced["bt"].stats.iterations

# %% [markdown]
# As in Figure 7, restarts have the largest effect, and decreasing $L$ the second largest.
#
# ## Beyond the paper
#
# Whole calls of `ucm.solve` on the sets of Table 5: the time of APG as printed over that of the automatic route, and the proven gaps
# of both.
# `python -m benchmarks.papers run "beyond unified"` measures it, `python -m benchmarks.papers page` draws it:
#
# ![Times and gaps of the method of the paper and of the library](../_static/papers-unified.png)
#
# ## Exercises
#
# 1. Fix $L = L_f$ (`APG(backtracking=False)`). How many more iterations does it take?
# 2. Draw the same picture for MM-MPM with $\kappa = 0.5$ (Figure 11). Is anything different?
# 3. The paper stops at $\|L(q-p)\| < 10^{-6}$. Which relative gap does this prove here, and at $10^{-3}$?
# 4. Project onto the simplex by sorting, in five lines, and compare with `ucm.Simplex().project`.

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. Steps of 1 / L_f are too short.
fixed = ucm.solve(U, X, y, solver=APG(stop="paper", backtracking=False), tol=1e-3)
print(fixed.stats.iterations, "against", traced["all four"].stats.iterations)
assert fixed.stats.iterations > traced["all four"].stats.iterations

# %% tags=["hide-cell"]
# 2. The order is the same; all methods need fewer steps, as covariances are better conditioned than samples.
ellipsoids = {
    n: ucm.solve(ucm.models.mm_mpm(0.5), X, y, solver=s, trace=1, tol=1e-3) for n, s in strategies.items()
}
ucm.plot.ConvergenceDisplay.from_solution(ellipsoids, x="iterations", y="residual")
plt.show()
print({name: s.stats.iterations for name, s in ellipsoids.items()})
assert ellipsoids["all four"].stats.iterations < ellipsoids["bt"].stats.iterations < 50

# %% tags=["hide-cell"]
# 3. The rule is absolute, the gap is proven: they measure different things.
for eps in (1e-3, 1e-6):
    found = ucm.solve(U, X, y, solver=APG(stop="paper", eps=eps), tol=0.5)
    print(f"eps {eps:g}: relative gap {found.certificate.relative_gap:.1e}")
assert found.certificate.relative_gap < 1e-5

# %% tags=["hide-cell"]
# 4. The threshold is the largest (sum of the k largest - 1) / k that is below the k-th.
v = rng.normal(size=50)
s = np.sort(v)[::-1]
excess = (np.cumsum(s) - 1.0) / np.arange(1, s.size + 1)
threshold = excess[np.flatnonzero(s > excess)[-1]]
assert np.allclose(np.maximum(v - threshold, 0.0), ucm.Simplex().project(v), atol=1e-14)
