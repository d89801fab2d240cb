"""The ``fastbin`` command: a thin shell around the public functions.

Exit codes: 0 done, 2 wrong usage, 3 bad data or model file, 4 file or package not to be had, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Sequence

import fastbin as fb

USAGE_ERROR, BAD_DATA, NOT_AVAILABLE, INTERRUPTED = 2, 3, 4, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; errors are one line on stderr."""
    arguments = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except KeyboardInterrupt:
        print("fastbin: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (OSError, ImportError) as error:
        return _fail(error, NOT_AVAILABLE)
    except (ValueError, TypeError) as error:
        return _fail(error, BAD_DATA)


def _fail(error: Exception, code: int) -> int:
    print(f"fastbin: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastbin",
        description="Turn classifier scores into probabilities that can be believed, and say how far.",
    )
    parser.add_argument("--version", action="version", version=f"fastbin {fb.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = _command(commands, "demo", _demo, "simulate scores, fit, predict, and print the guarantee")
    demo.add_argument("--rows", type=_positive_int, default=10_000_000, help="rows to fit and to predict")
    demo.add_argument("--bins", type=_positive_int, default=10, help="number of bins")
    demo.add_argument("--seed", type=_seed, default=0, help="seed of the simulation and of the tie keys")

    plan = _command(commands, "plan", _plan, "how many bins, or how many rows: the guarantee before the data")
    plan.add_argument("--n", type=_positive_int, help="calibration rows")
    plan.add_argument("--alpha", type=float, default=0.1, help="probability that the guarantee fails")
    plan.add_argument("--epsilon", type=float, help="how far off a bin may be")
    plan.add_argument("--bins", type=_positive_int, help="number of bins")
    plan.add_argument("--kind", choices=("conditional", "marginal"), default="conditional",
                      help="every bin at once, or an average row")  # fmt: skip

    show = _command(commands, "show", _show, "print a model file: its bins and its guarantee")
    show.add_argument("model", help="a file written by Calibrator.save")
    show.add_argument("--alpha", type=float, default=0.1, help="probability that the guarantee fails")

    _command(commands, "warmup", _warmup, "compile everything now, for example in a container image")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.",
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.set_defaults(run=run)
    return parser


def _positive_int(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _seed(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {number}")
    return number


def _print(arguments: argparse.Namespace, data: dict[str, object], text: str) -> int:
    print(json.dumps(data, indent=1) if arguments.json else text)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from fastbin import demo  # noqa: PLC0415 - loads the compiler

    stream = sys.stderr if arguments.json else sys.stdout
    report = demo.run(
        arguments.rows, arguments.bins, arguments.seed, lambda line: print(line, file=stream, flush=True)
    )
    return _print(arguments, report.to_dict(), demo.text(report))


def _plan(arguments: argparse.Namespace) -> int:
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
    return _print(arguments, data, f"{calibrator}\n\n{textwrap.fill(f'Guarantee: {guarantee}', 100)}")


def _warmup(arguments: argparse.Namespace) -> int:
    seconds = fb.warmup()
    return _print(arguments, {"seconds": seconds}, f"kernels ready after {seconds:.1f} s")
