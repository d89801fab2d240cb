"""An attribute computed at first use and then kept, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - used as a decorator, like property
    """Like ``functools.cached_property``, which until Python 3.12 holds one lock for all instances.

    A process forked while some thread computes a value would inherit that lock and wait for ever. Here two
    threads may compute the same value; the last one stays, and both are right.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Value:
        value = self._compute(instance)
        instance.__dict__[self._name] = value  # found before this descriptor from now on
        return value
