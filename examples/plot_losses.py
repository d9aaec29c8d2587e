"""
A loss is a set of weights
==========================

The hinge caps the weights of the samples, its square confines them to a ball, the logistic loss to a set
between the two.
"""

import matplotlib.pyplot as plt

import ucm

ucm.plot.LossDisplay.from_loss([ucm.Hinge(), ucm.Hinge(2), ucm.Logistic()])
print(ucm.Hinge(2), "|", ucm.Logistic())
plt.show()
