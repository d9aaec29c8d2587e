"""Quasi-Newton steps for the worst case over the unit sphere, the start of other methods."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from ucm.data.linear_map import Vec
from ucm.forms.monitor import Monitor
from ucm.forms.sphere import UnitNorm


def descended(form: UnitNorm, v: Vec, monitor: Monitor) -> Vec:
    """Return coordinates after quasi-Newton steps for `f(v) / ||v||_p`, which end where it is 0."""
    unit = form.height(v) or 1.0

    def slope(u: Vec) -> tuple[float, Vec]:
        monitor.passes += 1.0
        length, (height, q) = form.length(u), form.highest(u)
        value = height / length
        if value <= monitor.zero * unit or monitor.timed_out:
            return value / unit, np.zeros_like(u)  # a gradient of 0 ends the steps
        gradient = -form.lower(form.image.matvec(q)) - value * form.normal(u / length)
        return value / unit, gradient / (unit * length)

    options = {"maxiter": 100, "maxcor": 50, "ftol": 1e-14, "gtol": 1e-12}
    return form.unit(minimize(slope, v, jac=True, method="L-BFGS-B", options=options).x)
