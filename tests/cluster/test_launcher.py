"""Finding mpiexec and speaking its dialect."""

from __future__ import annotations

import os
import sys
import sysconfig

import dask
import pytest

from dask_rcylon.comm import launcher
from dask_rcylon.comm.launcher import Launcher, LaunchError


def test_finds_one():
    found = launcher.find()
    assert os.access(found.path, os.X_OK)
    assert found.flavour in ("hydra", "openmpi")


@pytest.mark.parametrize(
    ("version", "flavour"),
    [
        ("HYDRA build details:\\n    Version: 4.3.0", "hydra"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.10", "hydra"),
        ("mpiexec (Open MPI) 5.0.11", "openmpi"),
        ("mpirun (Open MPI) 4.1.6", "openmpi"),
        ("prterun (PRRTE) 3.0.13", "openmpi"),
        ("slurm 23.02.7", "slurm"),
        ("something else", "other"),
    ],
)
def test_flavours(version, flavour, program):
    assert launcher.find(program(f'printf "{version}"')).flavour == flavour


def test_the_configured_one(program):
    path = program("echo Hydra")
    with dask.config.set({"rcylon.mpiexec": path}):
        assert launcher.find() == Launcher(path, "hydra")


def test_configured_but_missing():
    with (
        dask.config.set({"rcylon.mpiexec": "/no/such/mpiexec"}),
        pytest.raises(LaunchError, match=r"rcylon\.mpiexec is '/no/such/mpiexec'"),
    ):
        launcher.find()
    with pytest.raises(LaunchError, match=r"^mpiexec is 'nowhere'"):
        launcher.find("nowhere")


def test_none_at_all(monkeypatch, tmp_path):
    monkeypatch.setattr(launcher.sysconfig, "get_path", lambda *_: str(tmp_path))
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match=r'pip install "dask-rcylon\[mpich\]"'):
        launcher.find()


@pytest.mark.parametrize("flavour", ["hydra", "openmpi", "slurm", "other"])
def test_command(flavour):
    with dask.config.set({"rcylon.mpiexec-args": ["-v", 1]}):
        command = Launcher("mpiexec", flavour).command(3, ["python", "-c", "pass"])
    assert command[0] == "mpiexec"
    assert command[-7:] == ["-v", "1", "-n", "3", "python", "-c", "pass"]


def test_environment(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_MCA_btl", "self,sm")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with dask.config.set({"distributed.nanny.environ": {"MINE": 5, "NOT_MINE": None}}):
        environ = Launcher("mpiexec", "openmpi").environment("w", "/tmp/d", EXTRA="x")
    # Marks of the world that this process may be in don't reach another one.
    assert "PMI_RANK" not in environ
    assert "OMPI_COMM_WORLD_SIZE" not in environ
    assert environ["OMPI_MCA_btl"] == "self,sm"
    assert environ["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    # As Dask's nanny does: what the configuration says, unless the user has set it.
    assert environ["OMP_NUM_THREADS"] == "1"
    assert environ["MKL_NUM_THREADS"] == "7"
    assert environ["MINE"] == "5"
    assert "NOT_MINE" not in environ
    assert environ["DASK_RCYLON_WORLD"] == "w"
    assert environ["EXTRA"] == "x"


def test_own_path(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path, str(tmp_path / "missing")])
    environ = Launcher("mpiexec", "other").environment("w", "/tmp/d")
    places = environ["PYTHONPATH"].split(os.pathsep)
    assert places[0] == str(tmp_path)
    assert str(tmp_path / "missing") not in places
    # What any interpreter finds by itself.
    assert not {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")} & {*places}
