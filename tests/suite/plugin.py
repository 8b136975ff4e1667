"""Dask's own tests, with their stages on MPI ranks.

    python -m pytest -c tests/suite/pytest.ini -p tests.suite.plugin --pyargs dask....

Every way in which a test of Dask's asks for a scheduler of this process means ours, so that its
graphs go to an embedded cluster.  The summary says how many stages ran on ranks: a run that routed
nothing has shown nothing.  With ``--unrouted`` the same tests run as Dask runs them.

Tests that assert what Dask's own plan looks like can't pass, and are named in ``plan_shape.txt``,
each with its reason; a name in it that has no failing test is itself a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import dask
import dask.base
import pytest

_LIST = Path(__file__).parent / "plan_shape.txt"

#: Names of Dask's schedulers that run in the process of the tests.
_IN_PROCESS = ("sync", "synchronous", "single-threaded", "threads", "threading")

_EMBEDDED = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a run without routing."""
    parser.addoption("--unrouted", action="store_true", help="run the tests as Dask runs them")


def pytest_configure(config: pytest.Config) -> None:
    """Start the cluster and have every scheduler of this process mean it."""
    if config.getoption("--unrouted"):
        return
    from dask_rcylon.scheduler import RcylonScheduler, register

    class Suite(RcylonScheduler):
        def __call__(self, expr: Any, keys: Any, **kwargs: Any) -> Any:
            # Dask's assert_eq forbids to pickle expressions, as its schedulers need not.
            with dask.config.set({"dask-expr-no-serialize": False}):
                return super().__call__(expr, keys, **kwargs)

    embedded = config.stash[_EMBEDDED] = Suite()
    register()
    dask.base.named_schedulers.update(dict.fromkeys((*_IN_PROCESS, "rcylon"), embedded))
    dask.config.set({"scheduler": "rcylon", "rcylon.ranks": 2, "rcylon.dashboard-address": None})
    embedded.client()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the cluster."""
    embedded = config.stash.get(_EMBEDDED, None)
    if embedded is not None:
        embedded.shutdown()


def _listed() -> dict[str, str]:
    """Return the patterns of ``plan_shape.txt`` and the reasons."""
    found = {}
    for line in _LIST.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition("  ")
            found[name] = reason.strip()
    return found


def _name(item: pytest.Item) -> str:
    """Return a test's name: its file below ``dask/``, and what pytest calls it there."""
    path = item.path.relative_to(Path(dask.__file__).parent).as_posix()
    return f"{path}::{item.nodeid.partition('::')[2]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect failures where they are listed."""
    listed = {} if config.getoption("--unrouted") else _listed()
    for item in items:
        name = _name(item)
        reasons = [why for pattern, why in listed.items() if fnmatchcase(name, pattern)]
        for reason in reasons:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Iterator[None]:
    """Where a test is to be run once with each of Dask's methods, have it use ours."""
    if "shuffle_method" not in item.fixturenames or item.config.getoption("--unrouted"):
        return (yield)
    item.funcargs["shuffle_method"] = "rcylon"
    with dask.config.set({"dataframe.shuffle.method": "rcylon"}):
        return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many stages ran on ranks."""
    embedded = config.stash.get(_EMBEDDED, None)
    if embedded is not None:
        pilot = embedded.pilot()
        stages = Counter(pilot.stages if pilot is not None else {})
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(stages.items()))
        terminalreporter.write_line(f"{stages.total()} stages ran on MPI ranks ({kinds or 'none'})")
