"""Sphinx configuration."""

project = "dask-rcylon"
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "alabaster"
# Most members of LocalMPICluster are those of distributed's own clusters.
numpydoc_show_class_members = False
autosummary_generate = False
