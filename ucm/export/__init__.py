"""Declarations as the source of standalone CVXPY programs."""
