import subprocess
import sys

import pytest

from dask_rcylon.comm import launcher


@pytest.fixture
def mpirun(tmp_path):
    """Run a program of this test as some ranks: ``mpirun(ranks, source)``; return its output."""

    def run(ranks, source, timeout=60):
        program = tmp_path / "program.py"
        program.write_text(source)
        found = launcher.find()
        done = subprocess.run(
            found.command(ranks, [sys.executable, str(program)]),
            env=found.environment("test", str(tmp_path)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
