"""
The worst group
===============

A second feature separates the classes in the usual group and misleads in a rare group. A pooled set uses
this feature and misclassifies nearly all of the rare group; the union over groups protects the rare group,
at a cost for the other samples.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm
from ucm import CVaR, neg, pos


def drawn(m, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], m)
    group = np.where(rng.random(m) < 0.06, "rare", "usual")
    misled = np.where(group == "rare", -2.0, 2.0) * y + 0.7 * rng.normal(size=m)
    return np.column_stack([y + rng.normal(size=m), misled]), y, group


X, y, group = drawn(400, seed=0)
models = {
    "pooled": CVaR(pos, 0.5) - CVaR(neg, 0.5),
    "union over groups": ucm.models.group_dro(["usual", "rare"], 0.5),
}
X_test, y_test, group_test = drawn(20_000, seed=1)
worst, axes = {}, plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")[1]
for (name, model), ax in zip(models.items(), axes):
    found = ucm.solve(model, X, y, subgroup=group)
    wrong = np.sign(X_test @ found.w + found.b) != y_test
    worst[name] = max(
        wrong[(group_test == g) & (y_test == c)].mean() for g in ("usual", "rare") for c in (-1, 1)
    )
    ucm.plot.SetDisplay.from_model(model, X, y, solution=found, subgroup=group, panels="classes", ax=ax)
    ax.set_title(f"{name}: worst group {worst[name]:.0%} wrong, all {wrong.mean():.0%}", loc="left")
    print(f"{name}: {wrong.mean():.1%} errors, {worst[name]:.1%} in the worst group of a class")
assert worst["union over groups"] < worst["pooled"]
plt.show()
