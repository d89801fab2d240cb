"""Chunks over threads: serial kernels that release the GIL, run by an ordinary thread pool.

Not numba's ``parallel=True``: its back-ends die after a fork or under concurrent callers. A result never
depends on the number of threads, because partial results are merged as integers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")

# Workers start only when there is work and no idle worker; callers bound what they submit.
MOST_WORKERS = 256

HUGE_PAGE = 1 << 21

_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool  # noqa: PLW0603 - the pool is per process: after a fork its threads do not exist
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def _shared_pool() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - see above
    if _pool is None:
        _pool = ThreadPoolExecutor(MOST_WORKERS, thread_name_prefix="fastbin")
    return _pool


def available_threads() -> int:
    """Cores that this process may use (``taskset`` and CPU sets give fewer than the machine has)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Results in the order of the items, worked on by the caller's thread and ``threads - 1`` helpers.

    The caller works too, and whoever is free takes the next item: a helper that wakes up late (a sleeping
    core of a virtual machine can take 10 ms) costs nothing but its help. An exception, Ctrl-C included, stops
    the taking of items and waits for what runs: nobody writes into the caller's arrays afterwards.
    """
    if threads == 1:
        yield from map(function, items)
        return
    job = _Job(function, items, most_waiting=2 * threads)
    helpers = [_shared_pool().submit(job.help) for _ in range(threads - 1)]
    try:
        while job.work_on_one():
            yield from job.ready()
        wait(helpers)
        yield from job.ready()
        if job.error is not None:
            raise job.error
    finally:
        job.stop()
        for helper in helpers:
            helper.cancel()  # one that has not even started
        wait(helpers)


class _Job(Generic[Item, Result]):
    """Items to be worked on by several threads, and the results that wait for their turn."""

    def __init__(self, function: Callable[[Item], Result], items: Iterable[Item], most_waiting: int) -> None:
        self.error: BaseException | None = None
        self._function = function
        self._items = enumerate(items)
        self._results: dict[int, Result] = {}
        self._next = 0
        self._most_waiting = most_waiting
        self._stopped = False
        self._changed = threading.Condition()

    def work_on_one(self) -> bool:
        """Take the next item and work on it; False where there is none."""
        with self._changed:
            task = None if self._stopped else next(self._items, None)
        if task is None:
            self.stop()  # a helper may be waiting for room for a result that it will never have
            return False
        result = self._function(task[1])
        with self._changed:
            self._results[task[0]] = result
        return True

    def help(self) -> None:
        """Work until there is nothing left, but not so far ahead that results pile up."""
        try:
            while self._may_go_on() and self.work_on_one():
                pass
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self.error = error
            self.stop()

    def _may_go_on(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._results) < self._most_waiting)
            return not self._stopped

    def ready(self) -> Iterator[Result]:
        """The results whose turn has come."""
        while self._next in self._results:
            with self._changed:
                result = self._results.pop(self._next)
                self._next += 1
                self._changed.notify_all()
            yield result

    def stop(self) -> None:
        """Let nobody take another item."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def fresh_array(n: int, dtype: type[np.generic]) -> NDArray[Any]:
    """An uninitialised array for threads to write, each of its huge pages touched once by this thread.

    Two threads that fault in the huge pages of one new array can hold each other up in the kernel: a plain
    copy of 80 MB by two threads took 79 ms in place of 6.7 on a virtual machine, predict 15 in place of 9.
    """
    array = np.empty(n, dtype)
    array[:: HUGE_PAGE // array.itemsize] = 0
    return array


def row_ranges(n: int, threads: int, most_rows: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into pieces of at most ``most_rows``, a multiple of ``threads`` in number."""
    if n == 0:
        return [(0, 0)]
    rounds = -(-n // (threads * most_rows))
    pieces = min(n, threads * rounds)
    return [(n * i // pieces, n * (i + 1) // pieces) for i in range(pieces)]
