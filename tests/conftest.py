"""What every test shares: the default marker, a scratch folder for doctests, Hypothesis' settings."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

SLOW_MARKERS = ("statistical", "engines")
JIT_IS_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}

# No random seed: a red test then means a change, not luck. (Hypothesis also tries constants that it reads in
# the modules loaded so far, so a file run alone can see other examples than in the whole suite.)
# `--hypothesis-profile=explore` looks for new examples. Deadlines are off because the first call of a kernel
# compiles it. Interpreted kernels are some hundred times slower, and that run is there for coverage, so it
# takes fewer examples.
settings.register_profile("same", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.register_profile("interpreted", settings.get_profile("same"), max_examples=10)
settings.load_profile("interpreted" if JIT_IS_OFF else "same")


class DoctestFolder:
    """Runs every doctest in a folder of its own, so that an example may save a file."""

    @pytest.fixture(autouse=True)
    def _in_scratch_folder(self, request, tmp_path_factory, monkeypatch):
        if isinstance(request.node, pytest.DoctestItem):
            monkeypatch.chdir(tmp_path_factory.mktemp("doctest"))


def pytest_configure(config):
    # A plain fixture here would reach tests/ only; the doctests live in fastbin/.
    config.pluginmanager.register(DoctestFolder(), "fastbin-doctest-folder")


def pytest_report_header():
    modes = [name for name in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK") if os.environ.get(name)]
    return f"fastbin: {' and '.join(modes) or 'compiled kernels'}"


def pytest_collection_modifyitems(items):
    for item in items:
        if not any(item.get_closest_marker(name) for name in SLOW_MARKERS):
            item.add_marker("fast")
