from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import psutil
import pytest

from dask_rcylon.comm.mpi import WORLD_VARIABLE


def processes(label: str) -> list[psutil.Process]:
    """Return what lives of a world: guard, mpiexec, its helpers and ranks."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get(WORLD_VARIABLE) == label
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def segments(found: list[psutil.Process]) -> set[str]:
    """Return the files in shared memory that processes use."""
    paths = set()
    for process in found:
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            path = line.split(None, 5)[-1]
            if path.startswith("/dev/shm/") and not path.endswith("(deleted)"):
                paths.add(path)
    return paths


def own(scratch: Path) -> list[Path]:
    """Return the temporary files of worlds; Dask's scheduler keeps a folder with locks besides."""
    return list(scratch.glob("dask-rcylon-*"))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Where clusters of this test, and of scripts it runs, put their temporary files."""
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "scratch")}),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("DASK_TEMPORARY_DIRECTORY", str(tmp_path / "scratch"))
        (tmp_path / "scratch").mkdir()
        yield tmp_path / "scratch"


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Make a shell script that can be used as a program."""

    def make(text: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return os.fspath(path)

    return make
