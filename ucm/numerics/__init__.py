"""Compiled functions: arrays and scalars in and out. numba is loaded when the first one is used."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from ucm.numerics._cache import ready as ready
    from ucm.numerics._cache import soon as soon
    from ucm.numerics._cache import warm as warm
    from ucm.numerics.ball import project_ball_simplex as project_ball_simplex
    from ucm.numerics.boxed import boxed_quadratic as boxed_quadratic
    from ucm.numerics.capped import project_capped as project_capped
    from ucm.numerics.capped import threshold as threshold
    from ucm.numerics.checksum import checksum as checksum
    from ucm.numerics.entropy import project_entropy as project_entropy
    from ucm.numerics.entropy import support_entropy as support_entropy
    from ucm.numerics.gram import add_rows as add_rows
    from ucm.numerics.gram import rbf_exponents as rbf_exponents
    from ucm.numerics.left_out import left_out as left_out
    from ucm.numerics.margins import plus_newton as plus_newton
    from ucm.numerics.mdm import class_gaps as class_gaps
    from ucm.numerics.mdm import clip_gsk as clip_gsk
    from ucm.numerics.mdm import clip_mdm as clip_mdm
    from ucm.numerics.mdm import extreme_steps as extreme_steps
    from ucm.numerics.newton_gram import gram_march as gram_march
    from ucm.numerics.newton_hull import march as march
    from ucm.numerics.outer import add_outer as add_outer
    from ucm.numerics.parts import costs_of_parts as costs_of_parts
    from ucm.numerics.parts import within_parts as within_parts
    from ucm.numerics.power import power_root as power_root
    from ucm.numerics.power import project_power as project_power
    from ucm.numerics.printed import bisected as bisected
    from ucm.numerics.printed import bisected_ball as bisected_ball
    from ucm.numerics.printed import by_breakpoints as by_breakpoints
    from ucm.numerics.psmo import hinge_gap as hinge_gap
    from ucm.numerics.psmo import hinge_levels as hinge_levels
    from ucm.numerics.psmo import slacks as slacks
    from ucm.numerics.psmo import smo as smo
    from ucm.numerics.share import shares as shares
    from ucm.numerics.states import GRAM_STATE as GRAM_STATE
    from ucm.numerics.states import SIDE as SIDE
    from ucm.numerics.states import STATE as STATE
    from ucm.numerics.tied import line_minimum as line_minimum
    from ucm.numerics.tied import top_threshold as top_threshold
    from ucm.numerics.tiles import rbf_sums as rbf_sums
    from ucm.numerics.tiles import sparse_products as sparse_products
    from ucm.numerics.vertex import edge_descent as edge_descent
    from ucm.numerics.walled import walled_newton as walled_newton
    from ucm.numerics.walled import walled_path as walled_path

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "_cache": ["ready", "soon", "warm"],
        "ball": ["project_ball_simplex"],
        "boxed": ["boxed_quadratic"],
        "capped": ["project_capped", "threshold"],
        "checksum": ["checksum"],
        "entropy": ["project_entropy", "support_entropy"],
        "gram": ["add_rows", "rbf_exponents"],
        "left_out": ["left_out"],
        "margins": ["plus_newton"],
        "mdm": ["class_gaps", "clip_gsk", "clip_mdm", "extreme_steps"],
        "newton_gram": ["gram_march"],
        "newton_hull": ["march"],
        "outer": ["add_outer"],
        "parts": ["costs_of_parts", "within_parts"],
        "power": ["power_root", "project_power"],
        "printed": ["bisected", "bisected_ball", "by_breakpoints"],
        "psmo": ["hinge_gap", "hinge_levels", "slacks", "smo"],
        "share": ["shares"],
        "states": ["GRAM_STATE", "SIDE", "STATE"],
        "tied": ["line_minimum", "top_threshold"],
        "tiles": ["rbf_sums", "sparse_products"],
        "vertex": ["edge_descent"],
        "walled": ["walled_newton", "walled_path"],
    },
)
