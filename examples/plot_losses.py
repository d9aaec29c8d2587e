"""
A loss is a set of weights
==========================

The hinge loss caps the weights of the samples, the squared hinge loss confines them to a ball, and the
logistic loss to a set between the two. The triangle shows the weights of three samples, with sum 1; its
centre is the vector of equal weights.
"""

import matplotlib.pyplot as plt
import numpy as np

import ucm

losses = {"hinge": ucm.Hinge(), "squared hinge": ucm.Hinge(2), "logistic": ucm.Logistic()}
sizes = {"hinge": [0.7, 0.5, 0.4], "squared hinge": [0.6, 0.7, 0.8], "logistic": [-1.8, -1.5, -1.1]}

# Three samples of one class at the corners of a triangle: a point of their hull shows its weights.
corners = np.array([[-0.9, -0.5], [0.9, -0.5], [0.0, 1.0]])
X, y = np.vstack([corners, [[0.0, 0.0]]]), np.array([1, 1, 1, -1])
directions = [(np.cos(t), np.sin(t)) for t in np.linspace(0, 2 * np.pi, 200)]
margins = np.linspace(-1.5, 2.5, 200)

fig, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for (name, loss), (above, below) in zip(losses.items(), axes.T):
    above.plot(margins, [loss.value(np.array([t])) for t in margins])
    above.set(title=name, xlabel="margin $y (w'x + b)$", ylim=(-0.2, 4))
    below.fill(*corners.T, fill=False, edgecolor="gray")
    for size in sizes[name]:
        weights = (3.0 * loss).to_set(size).weights
        U = ucm.Hull(ucm.pos, weights=weights)
        shape = np.array([ucm.support(U, X, y, d)[1] for d in directions])
        below.plot(*np.vstack([shape, shape[:1]]).T)
    below.set(aspect="equal")
    below.axis("off")
print(ucm.Hinge(2).to_set(0.5))
plt.show()
