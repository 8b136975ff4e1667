"""The pilot: the worlds of a Dask cluster, and what runs stages on their ranks."""
