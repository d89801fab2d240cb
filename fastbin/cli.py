"""The ``fastbin`` command: a thin shell around the public functions.

Exit codes: 0 done, 2 wrong usage, 3 bad data or model file, 4 file or package not to be had, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import fastbin as fb

USAGE_ERROR, BAD_DATA, NOT_AVAILABLE, INTERRUPTED = 2, 3, 4, 130
MOST_SEEDS = 1 << 63


class _OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Leave with the message and where to look for help."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write; argparse itself would swallow an error, and a lost help text would be a success."""
        (file or sys.stderr).write(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; errors are one line on stderr."""
    code_for_bad_values = USAGE_ERROR
    try:
        try:
            arguments = _parser().parse_args(argv)
            code_for_bad_values = arguments.code_for_bad_values
            run: Callable[[argparse.Namespace], int] = arguments.run
            code = run(arguments)
        except SystemExit as stop:  # argparse has printed help, a version or an error
            code = int(stop.code or 0)
        sys.stdout.flush()  # a full disk shows here, and not after the exit code is decided
    except KeyboardInterrupt:
        print("fastbin: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head, has left
        _drop_output()
        return 0
    except (OSError, ImportError) as error:
        _drop_output()
        return _fail(error, NOT_AVAILABLE)
    except (ValueError, TypeError) as error:
        return _fail(error, code_for_bad_values)
    return code


def _drop_output() -> None:
    """What is still buffered for standard output goes nowhere, instead of raising again at exit."""
    with contextlib.suppress(OSError, ValueError):  # there may be no descriptor behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: Exception, code: int) -> int:
    print(f"fastbin: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="fastbin",
        description="Turn classifier scores into probabilities that can be believed, and say how far.",
    )
    parser.add_argument("--version", action="version", version=f"fastbin {fb.__version__}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_OneLineParser
    )

    demo = _command(commands, "demo", _demo, "simulate scores, fit, predict, and print the guarantee")
    demo.add_argument("--rows", type=_positive_int, default=10_000_000, help="rows to fit and to predict")
    demo.add_argument("--bins", type=_positive_int, default=10, help="number of bins")
    demo.add_argument("--seed", type=_seed, default=0, help="seed of the simulation and of the tie keys")

    plan = _command(commands, "plan", _plan, "how many bins, or how many rows: the guarantee before the data")
    plan.add_argument("--n", type=_positive_int, help="calibration rows")
    plan.add_argument("--alpha", type=_probability, default=0.1, help="probability that the guarantee fails")
    plan.add_argument("--epsilon", type=float, help="how far off a bin may be")
    plan.add_argument("--bins", type=_positive_int, help="number of bins")
    plan.add_argument("--kind", choices=("conditional", "marginal"), default="conditional",
                      help="every bin at once, or an average row")  # fmt: skip

    show = _command(commands, "show", _show, "print a model file: its bins and its guarantee")
    show.set_defaults(code_for_bad_values=BAD_DATA)
    show.add_argument("model", help="a file written by Calibrator.save")
    show.add_argument("--alpha", type=_probability, default=0.1, help="probability that the guarantee fails")

    _command(commands, "warmup", _warmup, "compile everything now, for example in a container image")
    return parser


def _command(
    commands: argparse._SubParsersAction[_OneLineParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.",
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    # Wrong values come from the command line itself, unless the command reads data.
    parser.set_defaults(run=run, code_for_bad_values=USAGE_ERROR)
    return parser


def _whole(text: str, least: int) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, not {number}")
    return number


def _positive_int(text: str) -> int:
    return _whole(text, 1)


def _seed(text: str) -> int:
    number = _whole(text, 0)
    if number >= MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"must be below 2**63, not {number}")
    return number


def _probability(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"must be a number strictly between 0 and 1, not {text}")
    return number


def _print(arguments: argparse.Namespace, data: dict[str, object], text: str) -> int:
    print(json.dumps(data, indent=1) if arguments.json else _wrapped(text))
    return 0


def _wrapped(text: str) -> str:
    """Long sentences broken into lines on a terminal; a pipe gets them whole."""
    if not sys.stdout.isatty():
        return text
    width = min(shutil.get_terminal_size().columns, 100)
    lines = text.split("\n")
    return "\n".join(textwrap.fill(line, width) if len(line) > 2 * width else line for line in lines)


def _demo(arguments: argparse.Namespace) -> int:
    from fastbin import demo  # noqa: PLC0415 - loads the compiler

    stream = sys.stderr if arguments.json else sys.stdout
    report = demo.run(
        arguments.rows, arguments.bins, arguments.seed, lambda line: print(line, file=stream, flush=True)
    )
    return _print(arguments, report.to_dict(), demo.text(report))


def _plan(arguments: argparse.Namespace) -> int:
    if arguments.n is None and arguments.epsilon is None:
        raise ValueError("plan needs --n (what so many rows support) or --epsilon (the rows it takes).")
    plan = fb.plan(
        arguments.n,
        alpha=arguments.alpha,
        epsilon=arguments.epsilon,
        n_bins=arguments.bins,
        kind=arguments.kind,
    )
    return _print(arguments, plan.to_dict(), str(plan))


def _show(arguments: argparse.Namespace) -> int:
    calibrator = fb.load(arguments.model)
    guarantee = calibrator.guarantee(arguments.alpha)
    data = {**calibrator.to_dict(), "guarantee": {**guarantee.to_dict(), "sentence": str(guarantee)}}
    return _print(arguments, data, f"{calibrator}\n\nGuarantee: {guarantee}")


def _warmup(arguments: argparse.Namespace) -> int:
    seconds = fb.warmup()
    return _print(arguments, {"seconds": seconds}, f"kernels ready after {seconds:.1f} s")
