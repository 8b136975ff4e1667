"""TPC-H tables as Parquet files, made once and kept in the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

TABLES = ("customer", "orders", "lineitem")


def cache_folder() -> Path:
    """Return the folder in which tables are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "dask-rcylon"


def generator() -> str:
    """Return the path of ``tpchgen-cli``.

    Raises
    ------
    RuntimeError
        If it is not installed.
    """
    beside = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise RuntimeError(
            "the TPC-H generator tpchgen-cli was not found; install it with\n"
            '    pip install "dask-rcylon[demo]"'
        )
    return found


def make_tables(scale: float, parts: int, folder: Path | None = None) -> Path:
    """Make the tables, unless they are there from an earlier run.

    Parameters
    ----------
    scale : float
        TPC-H scale factor; 1 is about 1 GB as text, 6 million rows of lineitem.
    parts : int
        Files per table, each of which becomes a partition.
    folder : Path, optional
        Where to keep them; `cache_folder` by default, a temporary folder if that can't be written.

    Returns
    -------
    Path
        Folder with one folder of Parquet files for each table.

    Raises
    ------
    RuntimeError
        If the generator is missing or fails.
    """
    folder = _writable(folder or cache_folder())
    place = folder / f"tpch-{scale:g}-{parts}"
    if place.exists():
        return place
    program = generator()
    # Made under another name and renamed when complete: an interrupted run leaves nothing behind
    # that a later one would take for tables.
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as making:
        command = [program, "parquet", "-s", f"{scale:g}", "-T", ",".join(TABLES)]
        command += ["--parts", str(parts), "-o", making]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\nfailed: {done.stderr.strip()}")
        complete = Path(making) / "tables"
        complete.mkdir()
        for table in TABLES:
            (Path(making) / table).rename(complete / table)
        try:
            complete.rename(place)
        except OSError:
            if not place.exists():  # else another process was faster
                raise
    return place


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        fallback = Path(tempfile.gettempdir()) / "dask-rcylon-cache"
        fallback.mkdir(exist_ok=True)
        return fallback
