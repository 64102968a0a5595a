"""Measurements at full size; each module runs with `python -m` and prints JSON."""
