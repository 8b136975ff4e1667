"""Which expressions become stages, and why the others don't."""
