import subprocess
import sys

import pytest

from dask_rcylon.demo import job, tables


def test_the_main_job(tmp_path):
    command = [sys.executable, "-m", "dask_rcylon", "demo", "--scale", "0.01", "--ranks", "2"]
    done = subprocess.run(
        [*command, "--data", str(tmp_path)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the results are equal, row for row" in done.stdout
    assert "join   inner on 'orderkey'" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["tpch-0.01-16"]


@pytest.mark.parametrize("options", [{"ranks": 0}, {"scale": -1}])
def test_options_out_of_range(options):
    given = {"scale": 0.1, "ranks": 1, "data": None, "keep": None, **options}
    with pytest.raises(ValueError, match=f"--{next(iter(options))}"):
        job.run(**given)


def test_a_missing_generator(monkeypatch, tmp_path):
    monkeypatch.setattr(tables.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="pip install"):
        tables.make_tables(0.01, 2, tmp_path)
