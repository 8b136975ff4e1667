from pathlib import Path

import dask
import jsonschema
import yaml

import dask_rcylon

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
