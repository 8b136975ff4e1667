"""Options are refused by name before anything has started."""

from __future__ import annotations

import logging

import dask
import numpy as np
import pytest
from dask.system import CPU_COUNT
from distributed import Security

from dask_rcylon import LocalMPICluster
from dask_rcylon.cluster import options


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0, ValueError, "must be at least 1, got 0"),
        (-1, ValueError, "must be at least 1, got -1"),
        (1.5, TypeError, "must be an int, got 1.5"),
        ("2", TypeError, "must be an int, got '2'"),
        (True, TypeError, "must be an int, got True"),
    ],
)
@pytest.mark.parametrize("name", ["n_workers", "threads_per_worker"])
def test_counts(name, value, error, text):
    with pytest.raises(error, match=f"{name} {text}"):
        LocalMPICluster(**{name: value})


def test_too_many_ranks():
    most = 64 * CPU_COUNT
    with pytest.raises(ValueError, match=f"n_workers must be at most {most}"):
        LocalMPICluster(n_workers=most + 1)


def test_counts_that_are_allowed():
    assert options.sizes(3, 2) == (3, 2)
    assert options.sizes(np.int64(3), None) == (3, max(1, -(-CPU_COUNT // 3)))
    assert options.sizes(None, CPU_COUNT) == (1, CPU_COUNT)
    ranks, threads = options.sizes(None, None)
    assert ranks * threads >= CPU_COUNT


@pytest.mark.parametrize("value", ["many", "4 bananas", object()])
def test_memory_limit(value):
    with pytest.raises(ValueError, match="memory_limit must be"):
        LocalMPICluster(1, 1, value)


def test_memory_limits_that_are_allowed():
    assert options.memory_limit("100 MB", 2, 1) == 100_000_000
    assert options.memory_limit(None, 2, 1) is None
    assert options.memory_limit(0, 2, 1) is None
    assert options.memory_limit("auto", 2, 1) * 2 <= dask.system.CPU_COUNT * 2**50


def test_unknown_option():
    with pytest.raises(TypeError, match=r"no option 'n_worker'.*resources"):
        LocalMPICluster(n_worker=2)
    with pytest.raises(TypeError, match="no option 'processes': each worker is a process"):
        LocalMPICluster(processes=False)


def test_option_that_cannot_travel():
    with pytest.raises(TypeError, match="option 'resources' travels"):
        LocalMPICluster(resources={"GPU": object()})


def test_security():
    assert not options.security(None).require_encryption
    assert isinstance(options.security(False), Security)
    with pytest.raises(TypeError, match="security must be"):
        LocalMPICluster(security="yes")


def test_configuration_that_is_no_json(caplog):
    from distributed import Client

    with (
        caplog.at_level(logging.WARNING),
        dask.config.set({"pool": object(), "rcylon-test": {"list": [1, object()], "text": "a"}}),
        LocalMPICluster(1, 1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        got = client.submit(dask.config.get, "rcylon-test").result()
        assert got == {"list": [1], "text": "a"}
