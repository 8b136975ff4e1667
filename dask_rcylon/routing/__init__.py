"""Which expressions become stages, and why the others don't.

One rule per file: `merge`, `shuffle`, `sort`, `set_index`. `hooks` puts them into Dask, `target`
finds out where an expression goes, `explain` shows what the rules decide.
"""
