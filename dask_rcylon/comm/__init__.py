"""MPI: which library, which ranks, which communicator, and the exchange of bytes.

Nothing in this package knows of data frames or of Dask tasks.
"""
