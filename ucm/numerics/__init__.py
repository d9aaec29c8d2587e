"""Compiled functions: arrays and scalars in and out. numba is loaded when the first one is used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ball": ["project_ball_simplex"],
        "margins": ["plus_newton"],
        "power": ["power_root"],
        "simplex": ["project_capped", "threshold"],
    },
)
