import threading

import pytest

from dask_rcylon.comm.thread import MPIThread


def test_jobs_run_in_order_on_one_thread():
    thread = MPIThread()
    ran = []
    futures = [
        thread.submit(lambda n=n: ran.append((n, threading.get_ident()))) for n in range(100)
    ]
    for future in futures:
        future.result(5)
    assert [n for n, _ in ran] == list(range(100))
    assert len({ident for _, ident in ran}) == 1
    thread.close()


def test_an_error_reaches_the_future_and_the_thread_goes_on():
    thread = MPIThread()
    with pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 / 0).result(5)
    assert thread.submit(lambda: 3).result(5) == 3
    thread.close()
    with pytest.raises(RuntimeError, match="closed"):
        thread.submit(lambda: 3)
