"""Compiled functions: arrays and scalars in and out. numba is loaded when the first one is used."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from ucm.numerics.ball import project_ball_simplex as project_ball_simplex
    from ucm.numerics.power import power_root as power_root
    from ucm.numerics.simplex import project_capped as project_capped
    from ucm.numerics.simplex import threshold as threshold

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ball": ["project_ball_simplex"],
        "margins": ["plus_newton"],
        "power": ["power_root"],
        "psmo": ["hinge_gap", "hinge_levels", "slacks", "smo"],
        "simplex": ["project_capped", "threshold"],
    },
)
