"""The ``rcylon`` configuration, in Dask's way: defaults, and each option's value checked.

Every option is read by one function here; a value that is not allowed is a ValueError that names
the option and says what is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import dask
import yaml
from dask.system import CPU_COUNT
from dask.utils import parse_bytes, parse_timedelta

T = TypeVar("T")

_FILE = Path(__file__).parent / "rcylon.yaml"

dask.config.ensure_file(source=str(_FILE))

with _FILE.open() as _stream:
    _defaults = yaml.safe_load(_stream)

dask.config.update_defaults(_defaults)


def ranks() -> int:
    """Return the ranks of the embedded world."""
    return _read("ranks", _count, "an integer of at least 1, or null for one per CPU") or CPU_COUNT


def threads_per_rank() -> int | None:
    """Return the task threads of each of them."""
    return _read(
        "threads-per-rank", _count, "an integer of at least 1, or null for the CPUs' share"
    )


def memory_limit() -> Any:
    """Return the memory of each of them, as Dask's workers take it."""

    def convert(value: Any) -> Any:
        if value not in ("auto", None) and parse_bytes(value) < 0:
            raise ValueError
        return value

    what = 'auto, null for none, bytes, a text such as "4 GiB" or a fraction of the memory'
    return _read("memory-limit", convert, what)


def dashboard_address() -> str | None:
    """Return where the embedded cluster's dashboard listens; None for no dashboard."""
    return _read("dashboard-address", _text, 'an address such as ":8787", or null for none')


def mpiexec() -> str | None:
    """Return the launcher to use; None to look for one."""
    return _read("mpiexec", _text, "the name of a program, or null")


def mpiexec_args() -> list[str]:
    """Return further options for the launcher."""

    def convert(value: Any) -> list[str]:
        if not isinstance(value or [], list | tuple):
            raise TypeError
        return [str(item) for item in value or ()]

    return _read("mpiexec-args", convert, "a list of options")


def start_timeout() -> float:
    """Return how long a world may take to start, in seconds."""
    return _read("start-timeout", _seconds, 'a time such as "60s"')


def warm_up() -> bool:
    """Tell whether kernels are compiled or loaded when a rank starts."""

    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    return _read("warm-up", convert, "true or false")


def message_bytes() -> int:
    """Return the longest MPI message in bytes."""

    def convert(value: Any) -> int:
        nbytes = int(parse_bytes(value))
        if not 1 <= nbytes < 2**31:
            raise ValueError
        return nbytes

    return _read("exchange.message-bytes", convert, "between 1 byte and 2 GiB, which MPI can count")


def exchange_timeout() -> float:
    """Return for how long nothing may move in an exchange, in seconds."""
    return _read("exchange.timeout", _seconds, 'a time such as "300s"')


def store_share() -> float:
    """Return the share of a rank's memory limit for rows on their way."""

    def convert(value: Any) -> float:
        if not 0 <= float(value) <= 1:
            raise ValueError
        return float(value)

    return _read("store.memory", convert, "between 0 and 1, a share of the memory limit")


def check() -> None:
    """Read every option.

    Raises
    ------
    ValueError
        If a value is not allowed.
    """
    for read in (
        ranks,
        threads_per_rank,
        memory_limit,
        dashboard_address,
        mpiexec,
        mpiexec_args,
        start_timeout,
        warm_up,
        message_bytes,
        exchange_timeout,
        store_share,
    ):
        read()


def _read(name: str, convert: Callable[[Any], T], allowed: str) -> T:
    value = dask.config.get(f"rcylon.{name}")
    try:
        return convert(value)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"rcylon.{name} must be {allowed}; it is {value!r}") from error


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or operator.index(value) < 1:
        raise ValueError
    return operator.index(value)


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str | Path):
        raise TypeError
    return None if value is None else str(value)


def _seconds(value: Any) -> float:
    seconds = float(parse_timedelta(value))
    if not seconds > 0:
        raise ValueError
    return seconds
