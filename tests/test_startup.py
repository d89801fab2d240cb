"""What start-up costs and what it leaves alone, each measured in a fresh interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

import fastbin

# The promises are 0.15 s for the import beyond numpy and 0.5 s for --help. The best of several runs in CPU
# time is compared, so a busy machine does not matter; a slow one may take twice as long.
PROMISED_IMPORT = 0.15
PROMISED_HELP = 0.5
SLOW_MACHINE = 2.0
RUNS = 5


def python(code: str, *args: str, **environment: str) -> str:
    """Run code in a new compiled-mode interpreter, whatever mode this test run is in; return its output."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "COV_"))}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules_after(statement: str) -> set[str]:
    return set(json.loads(python(f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))")))


def test_import_loads_neither_numba_nor_scipy():
    loaded = modules_after("import fastbin")
    assert "fastbin" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "scipy"})


@pytest.mark.parametrize("module", ["bounds", "planning", "model", "cli"])
def test_light_modules_load_no_numba(module):
    loaded = modules_after(f"import fastbin.{module}")
    assert f"fastbin.{module}" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "scipy.stats"})


def test_bounds_and_plan_answer_without_numba():
    loaded = modules_after(
        "import fastbin as fb; fb.bounds.conditional_epsilon(5000, 10, 0.1); str(fb.plan(5000, alpha=0.1))"
    )
    assert loaded.isdisjoint({"numba", "llvmlite", "scipy.stats"})


def test_help_loads_no_numba():
    code = """
        import contextlib, io, sys
        from fastbin.cli import main
        with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
            main(["--help"])
        assert "demo" in text.getvalue()
        print(*sys.modules)
    """
    assert set(python(code).split()).isdisjoint({"numba", "llvmlite", "scipy"})


def cpu_seconds(preparation: str, measured: str) -> float:
    """The least CPU time of a statement over several interpreters; the first one writes the byte code."""
    code = f"import time\n{preparation}\nt = time.process_time()\n{measured}\nprint(time.process_time() - t)"
    return min(float(python(code).split()[-1]) for _ in range(RUNS))


def test_import_is_quick():
    assert cpu_seconds("import numpy", "import fastbin") < PROMISED_IMPORT * SLOW_MACHINE


def test_help_is_quick():
    """From the start of the interpreter: ``process_time`` begins with the process."""
    code = """
        import contextlib, io, time
        from fastbin.cli import main
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(["--help"])
        print(time.process_time())
    """
    assert min(float(python(code)) for _ in range(RUNS)) < PROMISED_HELP * SLOW_MACHINE


IMPORT_ALL_KERNELS = """
    import importlib, json, pkgutil
    from fastbin import _kernels
    names = [module.name for module in pkgutil.iter_modules(_kernels.__path__)]
    modules = [importlib.import_module(f"fastbin._kernels.{name}") for name in names]
    kernels = {
        f"{module.__name__}.{name}": thing
        for module in modules for name, thing in vars(module).items() if hasattr(thing, "py_func")
    }
"""


def test_nothing_compiles_at_import():
    code = (
        textwrap.dedent(IMPORT_ALL_KERNELS)
        + "print(json.dumps({n: len(k.signatures) for n, k in kernels.items()}))"
    )
    signatures = json.loads(python(code))
    assert len(signatures) > 10, "the walk must find the kernels"
    assert [name for name, count in signatures.items() if count] == []


def test_warmup_compiles_what_a_fit_and_a_predict_need():
    """After ``warmup`` a fit, predict or argsort of either width, on any cuts, adds no signature."""
    code = textwrap.dedent(IMPORT_ALL_KERNELS) + textwrap.dedent("""
        import numpy as np
        import fastbin as fb
        fb.warmup()
        before = {n: len(k.signatures) for n, k in kernels.items()}
        uniform = np.random.default_rng(0).random(5000)
        for scores in (uniform, 10 ** (-40 * uniform), uniform.round(1), np.zeros(70_000)):
            for column in (scores, scores.astype(np.float32)):
                calibrator = fb.fit_uniform_mass(column, (scores > 0.5).astype(np.int64), 10)
                calibrator.predict(column)
                calibrator.assign(column)
                fb.bin_index(column, [0.5, 0.7])
                fb.tie_broken_argsort(column)
        rng = np.random.default_rng(0)
        for scores in (rng.random(70_000), rng.random(70_000).round(1), np.zeros(5_000)):
            for labels in (rng.random(scores.size) < scores, scores.astype(np.float32), scores):
                for column in (scores, scores.astype(np.float32)):
                    fb.fit_sample_split(column, labels, 10).predict(column)
                    fb.fit_fixed_width(column, labels, 10).predict(column)
                    fb.fit_scaling_binning(column, labels, 10).predict(column)
                    fb.fit_isotonic(column, labels).predict(column)
                    for on in ("logit", "probability"):
                        fb.fit_platt(column, labels, on=on, smooth_targets=True).predict(column)
        after = {n: len(k.signatures) for n, k in kernels.items()}
        print(json.dumps([sum(before.values()), [n for n in after if after[n] != before[n]]]))
    """)
    compiled, added = json.loads(python(code))
    assert compiled > 0
    assert added == []


def test_warmup_is_a_public_name():
    assert callable(fastbin.warmup)


PEEK = """
import numpy as np
from fastbin._jit import jit

@jit
def peek(array, i):
    return array[i]

try:
    peek(np.zeros(4), 9)
except IndexError:
    print("caught")
else:
    print("not caught")
"""


@pytest.mark.parametrize(("checked", "expected"), [("1", "caught"), ("0", "not caught")])
def test_the_bounds_check_mode_checks_bounds(checked, expected, tmp_path):
    """Numba's cache does not know this flag: code cached unchecked would be served to the checking run."""
    script = tmp_path / "peek.py"
    script.write_text(PEEK)
    cache = str(tmp_path / "cache")
    code = "import runpy, sys; runpy.run_path(sys.argv[1])"
    python(code, str(script), NUMBA_BOUNDSCHECK="0" if checked == "1" else "1", XDG_CACHE_HOME=cache)
    assert python(code, str(script), NUMBA_BOUNDSCHECK=checked, XDG_CACHE_HOME=cache).strip() == expected
