"""Seconds, passes and memory, beside other solvers and by themselves."""
