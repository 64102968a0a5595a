"""The demonstration: one small release, run with and without memory."""
