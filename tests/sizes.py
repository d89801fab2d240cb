"""Sizes of the fast tests: the same laws on fewer rows when the kernels run as plain Python."""

import os

NO_JIT = os.environ.get("NUMBA_DISABLE_JIT") == "1"

LARGE = 2_000 if NO_JIT else 200_000
MEDIUM = 1_000 if NO_JIT else 40_000
EXAMPLES = 8 if NO_JIT else 60
REPEATS = 1 if NO_JIT else 4
