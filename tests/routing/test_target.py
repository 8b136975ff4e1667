"""Where an expression goes is found out from who is sending it."""

from typing import ClassVar

import dask
import dask.base
import dask.dataframe as dd
import pytest
from distributed import Client, LocalCluster

from dask_rcylon.routing import target as module
from dask_rcylon.routing.target import SENDERS, Target, pilot_behind, target


class Spy(dd.dask_expr._expr.Blockwise):
    """Tells what the target is when it is lowered."""

    _parameters: ClassVar[list] = ["frame"]
    seen: ClassVar[list] = []

    @staticmethod
    def operation(frame):
        return frame

    def _lower(self):
        type(self).seen.append(target())


class Asked(Spy):
    """Tells it also when it is asked for its divisions."""

    _parameters: ClassVar[list] = ["frame"]
    asked: ClassVar[list] = []

    def _divisions(self):
        type(self).asked.append(target())
        return self.frame.divisions

    def _lower(self):
        super()._lower()
        assert self.npartitions == 6


class Nested(Spy):
    """Computes something else while it is lowered."""

    _parameters: ClassVar[list] = ["frame"]

    def _lower(self):
        dd.dask_expr.new_collection(Spy(self.frame)).compute(scheduler="sync")
        assert seen().pilot is None
        super()._lower()


@pytest.fixture
def spied(left):
    Spy.seen.clear()
    return dd.dask_expr.new_collection(Spy(left.expr))


def seen():
    assert Spy.seen, "it was not lowered"
    return Spy.seen[-1]


@pytest.mark.parametrize("code", SENDERS, ids=lambda code: code.co_qualname)
def test_senders_have_their_locals(code):
    names, _ = SENDERS[code]
    missing = [name for name in names if name not in code.co_varnames]
    assert not missing, (
        f"dask {dask.__version__}: {code.co_qualname} has no local variable {missing} any more, by "
        "which dask_rcylon.routing.target finds the scheduler that it has chosen"
    )


def test_not_sent(spied):
    spied.optimize()
    assert seen() == Target(None, None, True)


def test_configured(spied, routed):
    spied.optimize()
    assert seen().pilot is routed.info
    assert seen().sender is None


def test_compute_with_a_scheduler(spied, fake):
    with pytest.raises(AssertionError, match="nothing was to be computed"):
        spied.compute(scheduler=fake)
    assert seen().pilot is fake.info
    assert seen().scheduler is fake
    with pytest.raises(AssertionError, match="nothing was to be computed"):
        dask.compute(spied, 1, scheduler=fake)
    assert seen().pilot is fake.info


def test_compute_elsewhere(spied, routed):
    spied.compute(scheduler="sync")
    assert seen().pilot is None


def test_persist_with_a_scheduler(spied, fake):
    """A dataframe's persist optimises before a scheduler has been chosen."""
    with pytest.raises(AssertionError, match="nothing was to be computed"):
        spied.persist(scheduler=fake)
    assert all(where.pilot is fake.info for where in Spy.seen)
    Spy.seen.clear()
    with dask.config.set(scheduler=fake):
        spied.persist(scheduler="sync")
    assert all(where.pilot is None for where in Spy.seen)
    with pytest.raises(ValueError, match="Expected one of"):
        spied.persist(scheduler="no-such-scheduler")


def test_nearest_sender_counts(left, fake):
    Spy.seen.clear()
    with pytest.raises(AssertionError, match="nothing was to be computed"):
        dd.dask_expr.new_collection(Nested(left.expr)).compute(scheduler=fake)
    assert seen().pilot is fake.info


def test_asked_for_divisions(left, routed):
    Spy.seen.clear()
    dd.dask_expr.new_collection(Asked(left.expr)).optimize()
    assert seen().lowering
    assert Asked.asked
    assert not any(where.lowering for where in Asked.asked)


def test_pilot_behind(fake):
    assert pilot_behind(fake) is fake.info
    assert pilot_behind(fake.__call__) is fake.info
    assert pilot_behind(dask.base.named_schedulers["threads"]) is None
    assert pilot_behind(None) is None


def test_clients(spied, monkeypatch):
    """A client sends; the default client is the default; a client without a pilot has none."""
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        spied.optimize()
        assert seen() == Target(None, None, True)
        spied.compute()
        assert seen().pilot is None
        assert seen().scheduler.__self__ is client

        info = object()
        monkeypatch.setattr(module, "pilot_of", lambda it: info if it is client else None)
        spied.optimize()
        assert seen().pilot is info
        for send in (spied.compute, spied.persist):
            Spy.seen.clear()
            send()
            assert {where.pilot for where in Spy.seen} == {info}
        client.compute(spied).result()
        assert seen().scheduler is client
        assert seen().pilot is info
        client.persist(spied)
        assert seen().pilot is info
        spied.compute(scheduler=client)
        assert seen().pilot is info
        spied.compute(scheduler="sync")
        assert seen().pilot is None
        with dask.config.set(scheduler="distributed"):
            spied.optimize()
        assert seen().pilot is info
        with dask.config.set(scheduler="threads"):
            spied.optimize()
        assert seen().pilot is None
    spied.optimize()
    assert seen().pilot is None
