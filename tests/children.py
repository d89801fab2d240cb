"""Scripts in child processes: a time limit, warnings as errors, and nothing written to stderr."""

import os
import subprocess
import sys
from pathlib import Path

import fastbin

PACKAGE = Path(fastbin.__file__).parent
SECONDS = 120  # far above what any of them takes: a child that hangs fails its test

# Interpreted, NumPy warns when the hash wraps around; CPython from 3.12 on warns of any fork beside threads.
ALLOWED = ("ignore:overflow encountered:RuntimeWarning", "ignore:This process:DeprecationWarning")


def environment(package=PACKAGE, **changes):
    """This process's environment, mode of compilation included; a change to None takes a variable out."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}
    changed = {**inherited, "PYTHONPATH": str(Path(package).parent), **changes}
    return {name: str(value) for name, value in changed.items() if value is not None}


def command(script, *args):
    filters = [part for rule in ("error", *ALLOWED) for part in ("-W", rule)]
    return [sys.executable, *filters, str(script), *map(str, args)]


def run(script, *args, package=PACKAGE, preexec_fn=None, **changes):
    """Run a script file to its end; its standard output."""
    done = subprocess.run(
        command(script, *args),
        env=environment(package, **changes),
        cwd=Path(script).parent,
        preexec_fn=preexec_fn,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"exit code {done.returncode}\n{done.stderr}"
    return done.stdout.strip()
