"""Chunks over threads: serial kernels that release the GIL, run by an ordinary thread pool.

Not numba's ``parallel=True``: its back-ends die after a fork or under concurrent callers. A result never
depends on the number of threads, because partial results are merged as integers.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Workers start only when there is work and no idle worker; callers bound what they submit.
MOST_WORKERS = 256

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
    """Results in the order of the items, with at most ``threads`` of them in work.

    An exception, Ctrl-C included, drops what has not started and waits for what runs: at most one chunk.
    """
    if threads == 1:
        yield from map(function, items)
        return
    pool = _shared_pool()
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            if len(waiting) == threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)  # nobody writes into the caller's arrays once the caller has control again


def row_ranges(n: int, threads: int, most_rows: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into pieces of at most ``most_rows``, a multiple of ``threads`` in number."""
    if n == 0:
        return [(0, 0)]
    rounds = -(-n // (threads * most_rows))
    pieces = min(n, threads * rounds)
    return [(n * i // pieces, n * (i + 1) // pieces) for i in range(pieces)]
