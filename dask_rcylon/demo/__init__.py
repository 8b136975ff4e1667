"""The main job: a TPC-H query with Dask as it is, and again with the one line added."""
