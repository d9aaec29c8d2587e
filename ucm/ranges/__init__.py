"""Admissible intervals of parameters, and the values that relative sizes stand for: they run solvers."""
