"""Defaults of the ``rcylon`` configuration, in Dask's way."""

from __future__ import annotations

from pathlib import Path

import dask
import yaml

_FILE = Path(__file__).parent / "rcylon.yaml"

dask.config.ensure_file(source=str(_FILE))

with _FILE.open() as _stream:
    _defaults = yaml.safe_load(_stream)

dask.config.update_defaults(_defaults)
