"""The command line as its user sees it: output, exit codes, one-line errors.

Exit codes: 0 ok, 2 usage, 3 bad data, 4 input or output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import fastbin as fb
from fastbin.cli import main
from sizes import NO_JIT

ROWS = 2_000 if NO_JIT else 20_000


class Result:
    def __init__(self, code, captured):
        self.code, self.out, self.err = code, captured.out, captured.err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(capsys):
    """Call the command in this process; argparse leaves by SystemExit, the rest by the returned code."""

    def call(*args):
        capsys.readouterr()
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:
            code = stop.code
        return Result(code or 0, capsys.readouterr())

    return call


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(5)
    scores = rng.random(500)
    calibrator = fb.fit_uniform_mass(scores, rng.random(500) < scores**2, 10)
    path = tmp_path / "model.json"
    calibrator.save(path)
    return path


@pytest.fixture(autouse=True)
def _no_interpreted_warmup(monkeypatch):
    """Interpreted, a warm-up compiles nothing and takes half a minute; its own doctest goes through it."""
    if NO_JIT:
        monkeypatch.setattr(fb, "warmup", lambda: 0.0)


def assert_one_line_error(result, code, *words):
    assert result.code == code
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1, result.err
    for word in words:
        assert word in result.err


# --- demo --------------------------------------------------------------------------------------------


def test_demo_as_json(run):
    result = run("demo", "--rows", ROWS, "--bins", 8, "--seed", 3, "--json")
    assert result.code == 0
    answer = result.json
    assert answer["rows"] == ROWS
    assert answer["bins"] == len(answer["values"]) == len(answer["edges"]) + 1 == 8
    assert sum(answer["counts"]) == ROWS - 7  # the points at the 7 cuts are left out
    assert 0 < answer["ece_after"] < answer["ece_before"] < 1
    assert answer["fit_rows_per_second"] > 0
    assert answer["predict_rows_per_second"] > 0
    assert 0 < answer["guarantee"]["conditional"] < 1
    assert answer["guarantee"]["holds"] is True
    assert "compil" in result.err, "what is going on goes to stderr, so that stdout is JSON alone"


def test_demo_repeats_itself(run):
    """All but the times is a function of rows, bins and seed."""
    first, again, other = (run("demo", "--rows", ROWS, "--seed", seed, "--json").json for seed in (1, 1, 2))
    for figure in ("edges", "values", "ece_after"):
        assert first[figure] == again[figure] != other[figure]


def test_demo_as_text(run):
    result = run("demo", "--rows", ROWS)
    assert result.code == 0
    assert re.search(r"compiling.*\n.*\d s", result.out), "the one-time compilation is announced and timed"
    assert re.search(r"fit .* rows/s", result.out)
    assert re.search(r"predict .* rows/s", result.out)
    assert re.search(r"(ECE|calibration error).*before.*after", result.out)
    assert re.search(r"With probability at least 0\.9 .* 10 bins .* Assumes: ", result.out)


@pytest.mark.parametrize(
    "bad", [("--rows", "0"), ("--rows", "ten"), ("--bins", "0"), ("--bins", "-3"), ("--bins", "2.5")]
)
def test_demo_refuses(run, bad):
    assert_one_line_error(run("demo", *bad), 2, bad[0])


def test_demo_with_more_bins_than_rows_allow(run):
    assert_one_line_error(run("demo", "--rows", 100, "--bins", 80), 2, "50")


# --- plan --------------------------------------------------------------------------------------------


def test_plan_as_text(run):
    result = run("plan", "--n", 5000, "--alpha", 0.1)
    assert result.code == 0
    assert result.out.strip() == str(fb.plan(5000, alpha=0.1)).strip()
    assert len(result.out.strip().splitlines()) > 5


def test_plan_as_json_agrees_with_the_bounds(run):
    result = run("plan", "--n", 5000, "--alpha", 0.1, "--json")
    assert result.code == 0
    rows = result.json["rows"]
    assert len(rows) > 3
    for row in rows:
        assert row["epsilon"] == fb.bounds.conditional_epsilon(5000, row["n_bins"], 0.1)


@pytest.mark.parametrize("alpha", ["0", "1", "-0.1", "1.5", "nan"])
def test_plan_refuses_alpha(run, alpha):
    assert_one_line_error(run("plan", "--n", 5000, "--alpha", alpha), 2, "alpha")


def test_plan_refuses_no_samples(run):
    assert_one_line_error(run("plan", "--n", 0), 2, "n")


# --- show --------------------------------------------------------------------------------------------


def test_show_as_text(run, model):
    result = run("show", model)
    assert result.code == 0
    assert "500" in result.out
    assert str(fb.load(model).guarantee(0.1)) in result.out


def test_show_as_json(run, model):
    calibrator = fb.load(model)
    answer = run("show", model, "--json").json
    assert answer["n_samples"] == 500
    assert answer["guarantee"]["conditional"] == calibrator.guarantee(0.1).conditional


def break_checksum(text):
    return text.replace('"n_samples": 500', '"n_samples": 501').replace('"n_samples":500', '"n_samples":501')


@pytest.mark.parametrize(
    "damage",
    [
        break_checksum,
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: "\x00\x01",
    ],
    ids=["one number changed", "truncated", "empty", "foreign", "binary"],
)
def test_show_refuses_a_broken_file(run, model, damage):
    before = model.read_text()
    model.write_text(damage(before))
    assert model.read_text() != before
    assert_one_line_error(run("show", model), 3, "model.json")


def test_show_without_the_file(run, tmp_path):
    assert_one_line_error(run("show", tmp_path / "none.json"), 4, "none.json")


def test_show_a_folder(run, tmp_path):
    assert_one_line_error(run("show", tmp_path), 4)


# --- warmup, version, usage -----------------------------------------------------------------------------


def test_warmup(run):
    result = run("warmup")
    assert result.code == 0
    assert re.search(r"\d s", result.out + result.err), "it says how long compilation took"


def test_version(run):
    result = run("--version")
    assert result.code == 0
    assert result.out.strip() == f"fastbin {fb.__version__}"


def test_help_names_every_command(run):
    result = run("--help")
    assert result.code == 0
    for command in ("demo", "plan", "show", "warmup"):
        assert command in result.out
        assert run(command, "--help").code == 0


@pytest.mark.parametrize(
    "args", [("polish",), ("plan",), ("show",), ("plan", "--n", "many"), ("demo", "--unknown")]
)
def test_usage_errors(run, args):
    assert_one_line_error(run(*args), 2)


# --- as a process -----------------------------------------------------------------------------------


def process(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "fastbin", *args], capture_output=True, text=True, check=False, **options
    )


def test_python_dash_m():
    done = process("--version")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, f"fastbin {fb.__version__}", "")


def test_an_error_is_no_traceback(tmp_path):
    broken = tmp_path / "model.json"
    broken.write_text("{")
    done = process("show", str(broken))
    assert done.returncode == 3
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error():
    """``fastbin plan ... | head -1``: the reader leaves early."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "fastbin", "plan", "--n", "5000"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
