"""Give a running Dask cluster a pilot, and tell whether it has one."""

from __future__ import annotations

import time
import weakref

from distributed import Client

from dask_rcylon.pilot import nannies, orders
from dask_rcylon.pilot.scheduler_plugin import PilotSchedulerPlugin
from dask_rcylon.pilot.world import PilotInfo

#: Seconds for which a client's answer is believed: lowering one expression asks many times.
_BELIEVED = 1.0

_answers: weakref.WeakKeyDictionary[Client, tuple[float, PilotInfo | None]] = (
    weakref.WeakKeyDictionary()
)


def attach(client: Client) -> PilotInfo:
    """Install the pilot on a client's scheduler and workers.

    Parameters
    ----------
    client : distributed.Client
        Client of a cluster whose workers, or their nannies, are the ranks of one MPI world.

    Returns
    -------
    PilotInfo
        With `reason` set if stages can't run there.
    """
    client.register_plugin(PilotSchedulerPlugin(), name=orders.PLUGIN_NAME)
    info = _asked(client)
    if info.reason is not None and nannies.replace(client):
        info = _asked(client)
    return info


def _asked(client: Client) -> PilotInfo:
    """Return the pilot as it is now, and not as it was a moment ago."""
    _answers.pop(client, None)
    info = pilot_of(client)
    assert info is not None
    return info


def detach(client: Client) -> None:
    """Take the pilot away again."""
    client.unregister_scheduler_plugin(orders.PLUGIN_NAME)
    client.unregister_worker_plugin(orders.PLUGIN_NAME)
    client.set_metadata([orders.PLUGIN_NAME], None)
    _answers.pop(client, None)


def pilot_of(client: Client) -> PilotInfo | None:
    """Return what is known of the pilot of a client's cluster, None if it has none."""
    plugin = _plugin_in_process(client)
    if plugin is not None:
        return plugin.info
    if client.asynchronous or client.status != "running":
        return _answers.get(client, (0.0, None))[1]
    asked, answer = _answers.get(client, (-_BELIEVED, None))
    if time.monotonic() - asked > _BELIEVED:
        known = client.get_metadata([orders.PLUGIN_NAME], default=None)
        answer = None if known is None else PilotInfo(**known)
        _answers[client] = (time.monotonic(), answer)
    return answer


def _plugin_in_process(client: Client) -> PilotSchedulerPlugin | None:
    """Return the plugin itself where the scheduler runs in this process."""
    scheduler = getattr(client.cluster, "scheduler", None)
    plugin = getattr(scheduler, "plugins", {}).get(orders.PLUGIN_NAME)
    return plugin if isinstance(plugin, PilotSchedulerPlugin) else None
