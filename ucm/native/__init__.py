"""Compiled functions, in C: arrays and scalars in and out. The first use loads the library."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from ucm.native.ball import project_ball_simplex as project_ball_simplex
    from ucm.native.capped import project_capped as project_capped
    from ucm.native.capped import threshold as threshold
    from ucm.native.checksum import checksum as checksum
    from ucm.native.entropy import project_entropy as project_entropy
    from ucm.native.entropy import support_entropy as support_entropy
    from ucm.native.exchange import exchanges as exchanges
    from ucm.native.kernels import KINDS as KINDS
    from ucm.native.kernels import exponentials as exponentials
    from ucm.native.kernels import kernel_sums as kernel_sums
    from ucm.native.kernels import rbf_values as rbf_values
    from ucm.native.leave_one_out import leave_one_out as leave_one_out
    from ucm.native.outer import add_outer as add_outer
    from ucm.native.power import power_root as power_root
    from ucm.native.power import project_power as project_power
    from ucm.native.share import shares as shares
    from ucm.native.smo import COUNTS as COUNTS
    from ucm.native.smo import NUMBERS as NUMBERS
    from ucm.native.smo import pair_updates as pair_updates
    from ucm.native.smo import smo_slack as smo_slack
    from ucm.native.smo import smo_step as smo_step
    from ucm.native.weighted_quantile import line_minimum as line_minimum
    from ucm.native.weighted_quantile import top_threshold as top_threshold

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "ball": ["project_ball_simplex"],
        "capped": ["project_capped", "threshold"],
        "checksum": ["checksum"],
        "entropy": ["project_entropy", "support_entropy"],
        "exchange": ["exchanges"],
        "kernels": ["KINDS", "exponentials", "kernel_sums", "rbf_values"],
        "leave_one_out": ["leave_one_out"],
        "outer": ["add_outer"],
        "power": ["power_root", "project_power"],
        "share": ["shares"],
        "smo": ["COUNTS", "NUMBERS", "pair_updates", "smo_slack", "smo_step"],
        "weighted_quantile": ["line_minimum", "top_threshold"],
    },
)
