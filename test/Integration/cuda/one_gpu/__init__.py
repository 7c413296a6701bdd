"""Checks on a single real GPU: see ../run."""
