from pathlib import Path

import dask
import jsonschema
import pytest
import yaml

import dask_rcylon
from dask_rcylon import LocalMPICluster, config

PACKAGE = Path(dask_rcylon.__file__).parent
DEFAULTS = yaml.safe_load((PACKAGE / "rcylon.yaml").read_text())
SCHEMA = yaml.safe_load((PACKAGE / "rcylon-schema.yaml").read_text())


def keys(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def schema_keys(schema, prefix=""):
    for name, value in schema["properties"].items():
        if "properties" in value:
            yield from schema_keys(value, f"{prefix}{name}.")
        else:
            assert value["description"]
            yield f"{prefix}{name}"


def test_defaults_follow_the_schema():
    jsonschema.validate(DEFAULTS, SCHEMA)


def test_schema_and_defaults_have_the_same_keys():
    assert sorted(keys(DEFAULTS)) == sorted(schema_keys(SCHEMA))


def test_defaults_are_in_dasks_configuration():
    for key in keys(DEFAULTS):
        assert dask.config.get(key, default="missing") != "missing"


def test_every_key_is_documented():
    text = (PACKAGE.parent / "docs" / "configuration.md").read_text()
    for key in keys(DEFAULTS):
        assert f"`{key}`" in text


@pytest.mark.parametrize("key", sorted(keys(DEFAULTS)))
def test_every_value_is_checked_before_a_cluster_starts(key):
    with (
        dask.config.set({key: object()}),
        pytest.raises(ValueError, match=f"^{key} must be .*; it is <object"),
    ):
        LocalMPICluster(1, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rcylon.ranks", 0),
        ("rcylon.ranks", "two"),
        ("rcylon.ranks", True),
        ("rcylon.threads-per-rank", -1),
        ("rcylon.memory-limit", "lots"),
        ("rcylon.dashboard-address", 8787),
        ("rcylon.mpiexec-args", "-ppn 2"),
        ("rcylon.start-timeout", "soon"),
        ("rcylon.start-timeout", "0s"),
        ("rcylon.warm-up", "maybe"),
        ("rcylon.exchange.message-bytes", "2 GiB"),
        ("rcylon.exchange.message-bytes", 0),
        ("rcylon.exchange.timeout", None),
        ("rcylon.store.memory", 1.5),
    ],
)
def test_values_that_are_refused(key, value):
    with dask.config.set({key: value}), pytest.raises(ValueError, match=f"^{key} must be"):
        config.check()


def test_values_that_are_taken():
    config.check()
    with dask.config.set(
        {
            "rcylon.ranks": None,
            "rcylon.threads-per-rank": None,
            "rcylon.memory-limit": 0.25,
            "rcylon.dashboard-address": None,
            "rcylon.mpiexec-args": ("-ppn", 2),
            "rcylon.start-timeout": 30,
            "rcylon.exchange.message-bytes": 2**31 - 1,
        }
    ):
        assert config.ranks() == dask.system.CPU_COUNT
        assert config.threads_per_rank() is config.dashboard_address() is None
        assert config.memory_limit() == 0.25
        assert config.mpiexec_args() == ["-ppn", "2"]
        assert config.start_timeout() == 30
        assert config.message_bytes() == 2**31 - 1
