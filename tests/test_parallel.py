"""Chunks over threads: order, errors, and nobody left waiting or working."""

import threading
import time

import pytest

from fastbin._parallel import parallel_map, row_ranges

THREADS = [1, 2, 3, 7]


def drained(iterator, seconds=20.0):
    """All results, or a failure where some thread waits for ever."""
    results = []
    worker = threading.Thread(target=lambda: results.extend(iterator), daemon=True)
    worker.start()
    worker.join(seconds)
    assert not worker.is_alive(), "a deadlock"
    return results


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 200])
def test_results_come_in_the_order_of_the_items(threads, n):
    def uneven(i):
        time.sleep(0.002 * (i % 3 == 0))
        return i * i

    assert drained(parallel_map(uneven, range(n), threads)) == [i * i for i in range(n)]


@pytest.mark.parametrize("threads", THREADS)
def test_a_slow_first_item_holds_nobody_up_for_ever(threads):
    """The others run ahead until their results pile up, and go on when the first is done."""
    assert drained(parallel_map(lambda i: time.sleep(0.2 * (i == 0)) or i, range(100), threads)) == [
        *range(100)
    ]


@pytest.mark.parametrize("threads", [2, 5])
def test_results_do_not_pile_up_before_a_slow_reader(threads):
    done, ahead = [], []
    for i, _ in enumerate(parallel_map(done.append, range(60), threads)):
        time.sleep(0.002)
        ahead.append(len(done) - i)
    assert len(done) == 60
    assert max(ahead) <= 4 * threads


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("bad", [0, 3, 49])
def test_an_error_is_raised_and_nothing_runs_afterwards(threads, bad):
    started = []

    def fail(i):
        started.append(i)
        if i == bad:
            raise ValueError(f"item {i}")
        time.sleep(0.001)
        return i

    with pytest.raises(ValueError, match=f"item {bad}"):
        list(parallel_map(fail, range(50), threads))
    n_started = len(started)
    time.sleep(0.02)
    assert len(started) == n_started


@pytest.mark.parametrize("threads", [2, 7])
def test_a_reader_that_leaves_early_stops_the_work(threads):
    started = []
    results = parallel_map(started.append, range(10_000), threads)
    next(results)
    results.close()
    n_started = len(started)
    time.sleep(0.02)
    assert len(started) == n_started < 10_000


@pytest.mark.parametrize(
    ("n", "threads", "most"), [(0, 2, 5), (1, 4, 9), (10, 3, 2), (1000, 2, 64), (7, 7, 1)]
)
def test_row_ranges_cover_every_row_once(n, threads, most):
    pieces = list(row_ranges(n, threads, most))
    assert [row for start, stop in pieces for row in range(start, stop)] == list(range(n))
    assert all(stop - start <= most for start, stop in pieces)
