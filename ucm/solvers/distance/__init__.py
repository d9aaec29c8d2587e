"""Solvers of `MinNorm`, the nearest-point problem in parameter coordinates."""
