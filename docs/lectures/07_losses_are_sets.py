# %% [markdown]
# # 7. Losses are sets
#
# **Goal.** Translate between the two halves of the language: losses of the margin, and sets of weights. After this lecture the
# $\nu$-SVM, CVaR, and the exponential loss are the same kind of thing.
#
# Section 5 of Ito, Takeda and Toh (2015): for a convex loss $l$ the generalised $\nu$-SVM (22)
#
# $$\min_{\|w\|^2 \le \lambda^2,\ b,\ \rho}\ -\rho + \frac1m \sum_i l\bigl(\rho - y_i (w^\top x_i + b)\bigr)$$
#
# has a dual over weights $q$ of the samples, with mass $\tfrac12$ on each class. In the dual the loss is a constraint,
#
# $$\frac1m \sum_i l^*(m q_i) \le r .$$
#
# Every loss therefore gives a set $U = \{\sum_i q_i y_i x_i\}$ (Proposition 2). The conjugate $l^*$ determines its shape.

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
from ucm import signed

# %% [markdown]
# ## The picture
#
# Above the losses; below, for three samples and three sizes, the set of weights of each loss: the triangle intersected with caps, with a
# ball, with a divergence ball.

# %%
losses = {"hinge": ucm.Hinge(), "squared hinge": ucm.Hinge(2), "exponential": ucm.Exponential()}
sizes = {
    "hinge": [0.7, 0.5, 0.4],
    "squared hinge": [0.6, 0.7, 0.8],
    "exponential": [0.95, 0.8, 0.6],
}
corners = np.array([[-0.9, -0.5], [0.9, -0.5], [0.0, 1.0]])  # weights of three samples, as points
A, t = np.vstack([corners, [[0.0, 0.0]]]), np.array([1, 1, 1, -1])
directions = [(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 200)]
margins = np.linspace(-1.5, 2.5, 200)
fig, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for (name, loss), (above, below) in zip(losses.items(), axes.T):
    above.plot(margins, [loss.value(np.array([s])) for s in margins])
    above.set(title=name, xlabel="margin $y (w'x + b)$", ylim=(-0.2, 4))
    below.fill(*corners.T, fill=False, edgecolor="gray")
    for size in sizes[name]:
        U = ucm.Hull(ucm.pos, weights=(3.0 * loss).to_set(size).weights)
        shape = np.array([ucm.support(U, A, t, d)[1] for d in directions])
        below.plot(*np.vstack([shape, shape[:1]]).T)
    below.set(aspect="equal")
    below.axis("off")
plt.show()

# %% [markdown]
# | loss $l$ | conjugate $l^*$ | set of weights | name |
# | --- | --- | --- | --- |
# | $[u]_+/\nu$ | 0 on $[0, 1/\nu]$ | $q_i \le 1/(m\nu)$ | $\nu$-SVM, CVaR |
# | $[u]_+^2$ | a square | $\|q\|_2 \le \kappa$ | l2-loss $\nu$-SVM |
# | $e^{u}$ | an entropy | $\sum_i q_i \log(m q_i) \le -\log \alpha$ | KL, coherent exponential |
#
# ## The declaration

# %%
X, y = ucm.datasets.load("breast_cancer")
m = y.size
sets = {
    "caps": 2 * ucm.Hull(signed, weights=ucm.CappedSimplex(1 / (m * 0.4))),
    "2-ball": 2 * ucm.Hull(signed, weights=ucm.NormBall(0.06)),
    "KL-ball": 2 * ucm.Hull(signed, weights=ucm.KLBall(0.4)),
}
for name, U in sets.items():
    print(f"{name:>8}: {U}")

# %% [markdown]
# The first is the $\nu$-SVM of lecture 1, written for both classes at once:

# %%
joint = ucm.solve(sets["caps"], X, y)
apart = ucm.solve(ucm.models.nu_svm(0.4), X, y)
print(joint.objective, apart.objective)
assert abs(joint.objective - apart.objective) < 1e-5 * abs(apart.objective)

# %% [markdown]
# ## From the paper: Proposition 2 in numbers
#
# Solve `loss + lam * L2()`; read the size $r$ off the answer with `to_set`; solve the set. The direction must be the same. And back
# with `to_loss`.

# %%
print(f"{'loss':>14}  {'angle between the two w':>24}  set")
for loss in (ucm.Hinge(), ucm.Hinge(2), ucm.Hinge(1.5), ucm.Exponential(), ucm.Logistic()):
    fitted = ucm.solve(loss + 1.0 * ucm.L2(), X, y, tol=1e-9)
    U = loss.to_set(fitted)
    robust = ucm.solve(U, X, y, tol=1e-9)
    cosine = robust.w @ fitted.w / np.linalg.norm(fitted.w)
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    print(f"{loss!r:>14}  {angle:18.5f} degrees  {type(U).__name__}: {U!r:.60}")
    assert angle < 0.2

# %% [markdown]
# ## The certificate
#
# The classifier has two independent proofs: by Fenchel's inequality for the loss, by the distance for the set.

# %%
print("loss:", fitted.certificate)
print("set: ", robust.certificate)
assert fitted.status == robust.status == "optimal"

# %% [markdown]
# ## From the paper: coherent risks (section 5.1)
#
# $\max_{q \in Q} \sum_i q_i z_i$ over a set $Q$ of probability vectors is a coherent measure of the risk of $z$. The caps
# $q_i \le 1/(\nu m)$ give the mean of the worst part $\nu$: CVaR. Losses of a fund, or minus the margins of a classifier.

# %%
z = -y * joint.decision(X)
nu = 0.4
cap = ucm.CappedSimplex(1 / (m * nu))
worst, q = cap.support(z)
k = m * nu
ordered = np.sort(z)[::-1]
by_hand = (ordered[: int(k)].sum() + (k - int(k)) * ordered[int(k)]) / k
print(f"support function {worst:.6f}, mean of the worst {nu:.0%} {by_hand:.6f}")
assert abs(worst - by_hand) < 1e-9

# %% [markdown]
# ## How the worst case weighs the samples

# %%
ucm.plot.WeightsDisplay.from_model(sets, X, y)
plt.show()

# %% [markdown]
# ## Exercises
#
# 1. Show that CVaR is subadditive: $\rho(z + z') \le \rho(z) + \rho(z')$, with random vectors.
# 2. The hinge and $\lambda$: which cap belongs to $\lambda$ = 0.1, 1, 10? Does it rise or fall?
# 3. Which exponent belongs to the ball $\|q\|_3 \le \kappa$? ($1/p + 1/\gamma = 1$.) Check it as in the table.
# 4. For `KLBall(alpha)`: what is $U$ for $\alpha = 1$? And as $\alpha \to 0$?

# %% [markdown]
# ## Solutions

# %% tags=["hide-cell"]
# 1. A support function is sublinear: one q cannot be the worst for both.
rng = np.random.default_rng(0)
for _ in range(100):
    a, b = rng.normal(size=(2, m))
    assert cap.support(a + b)[0] <= cap.support(a)[0] + cap.support(b)[0] + 1e-12
print("100 pairs")

# %% tags=["hide-cell"]
# 2. A small lam leaves few samples with weight, each with a large cap.
caps = []
for lam in (0.1, 1.0, 10.0):
    fitted = ucm.solve(ucm.Hinge() + lam * ucm.L2(), X, y, tol=1e-8)
    weights = ucm.solve(ucm.Hinge().to_set(fitted), X, y).weights
    caps.append(float(weights.max()))
    print(f"lam = {lam:g}: largest weight {caps[-1]:.5f}, samples with weight {np.sum(weights > 1e-8)}")
assert caps[0] > caps[1] > caps[2]

# %% tags=["hide-cell"]
# 3. p = 3/2: the conjugate of u^p is a multiple of q^gamma with gamma = p / (p - 1) = 3.
fitted = ucm.solve(ucm.Hinge(1.5) + 1.0 * ucm.L2(), X, y, tol=1e-9)
weights = fitted.weights / fitted.weights.sum()
ball = 2 * ucm.Hull(signed, weights=ucm.NormBall(float(np.sum(weights**3) ** (1 / 3)), 3))
w = ucm.solve(ball, X, y, tol=1e-9).w
print(w @ fitted.w / np.linalg.norm(fitted.w))
assert w @ fitted.w / np.linalg.norm(fitted.w) > 1 - 1e-5

# %% tags=["hide-cell"]
# 4. alpha = 1 leaves q_i = 1/m, but the classes need mass 1/2 each: empty unless they are as many. alpha -> 0: all of the hull.
ends = ucm.admissible(ucm.models.kl_svm(0.4), X, y)["alpha"]
print(ends.lower, ends.upper)
assert ends.upper < 1.0
try:
    ucm.solve(ucm.models.kl_svm(0.9999999), X, y)
except ucm.EmptySetError as error:
    print(error)
