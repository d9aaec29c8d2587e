"""Certificates, error bounds, admissible intervals and CVXPY references of models and solutions."""
