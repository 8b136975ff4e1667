"""Columns: pandas and Arrow to raw buffers and back, and keys in the form that kernels take."""
