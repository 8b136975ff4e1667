from types import SimpleNamespace

import pytest

from dask_rcylon.pilot import worker_plugin
from dask_rcylon.pilot.worker_plugin import PilotWorkerPlugin


class Loop:
    """An event loop whose clock is moved by hand."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def call_later(self, delay, callback):
        timer = (self.now + delay, callback)
        self.timers.append(timer)
        return timer

    def remove_timeout(self, timer):
        if timer in self.timers:
            self.timers.remove(timer)

    def advance(self, seconds):
        self.now += seconds
        for timer in [timer for timer in self.timers if timer[0] <= self.now]:
            self.timers.remove(timer)
            timer[1]()


@pytest.fixture
def given_back(monkeypatch):
    times = []
    monkeypatch.setattr(worker_plugin, "give_back", lambda: times.append(plugin_loop.now))
    plugin_loop = Loop()
    return plugin_loop, times


def over(plugin, number):
    """Let a stage begin and end."""
    plugin._runs["stage"] = SimpleNamespace(number=number, close=lambda: None)
    plugin._on_forget("stage", number)


def test_memory_is_given_back_when_no_stage_has_run_for_a_while(given_back):
    loop, times = given_back
    plugin = PilotWorkerPlugin()
    plugin._prepare(SimpleNamespace(loop=loop))
    for number in range(1, 51):
        over(plugin, number)
        loop.advance(1)
    assert times == []  # never 30 s without a stage
    assert len(loop.timers) == 1
    loop.advance(worker_plugin._IDLE_SECONDS)
    assert len(times) == 1


def test_memory_is_kept_while_a_stage_runs(given_back):
    loop, times = given_back
    plugin = PilotWorkerPlugin()
    plugin._prepare(SimpleNamespace(loop=loop))
    over(plugin, 1)
    plugin._runs["another"] = SimpleNamespace(number=2, close=lambda: None)
    loop.advance(worker_plugin._IDLE_SECONDS)
    assert times == []
