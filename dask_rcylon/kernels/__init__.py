"""Local compute on raw buffers: hash, partition, unpack, join, sort, gather.

Kernels see widths, not types.  They know nothing of pandas, Arrow or Dask.
"""
