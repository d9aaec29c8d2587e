"""Certificates, error bounds and CVXPY references of models and solutions."""
