"""A Dask cluster of two real worker processes, for all tests of the folder."""

import os
import signal

import pytest


@pytest.fixture(scope="package")  # its processes take CPU seconds also while they have no work
def cluster():
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        # A worker that has been killed may take longer to come back on a busy machine, and would be given up.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


@pytest.fixture
def killer(cluster):
    """Return a function that returns a callback, which kills a worker after the round of that number, once."""

    def kills(in_round):
        killed = []

        def callback(number, _):
            if number == in_round and not killed:
                killed.append(next(worker.pid for worker in cluster.workers.values() if worker.pid))
                os.kill(killed[0], signal.SIGKILL)

        callback.killed = killed
        return callback

    return kills
