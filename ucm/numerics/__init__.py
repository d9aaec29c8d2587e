"""Compiled functions: arrays and scalars in and out. numba is loaded when the first one is used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ball": ["project_ball_simplex"],
        "power": ["power_root"],
        "psmo": ["hinge_gap", "hinge_levels", "slacks", "smo"],
        "simplex": ["project_capped", "threshold"],
    },
)
