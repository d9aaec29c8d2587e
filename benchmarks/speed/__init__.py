"""Seconds, passes and memory beside the solvers that people use."""
