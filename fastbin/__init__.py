"""fastbin: scores into probabilities that can be believed, and how far they can be believed.

Names are resolved on first use: ``import fastbin`` loads no compiler and compiles nothing.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "Calibrator": "fastbin.model",
    "FitPlan": "fastbin.passes",
    "Guarantee": "fastbin.guarantees",
    "ModelFileError": "fastbin._modelfile",
    "Plan": "fastbin.planning",
    "PlattScaler": "fastbin.platt",
    "TieWarning": "fastbin.model",
    "bin_index": "fastbin.binning",
    "bin_means": "fastbin.binning",
    "boundary_ranks": "fastbin.bounds",
    "bounds": "fastbin.bounds",
    "fit": "fastbin.calibrators",
    "fit_counts": "fastbin.calibrators",
    "fit_fixed_width": "fastbin.calibrators",
    "fit_isotonic": "fastbin.calibrators",
    "fit_platt": "fastbin.platt",
    "fit_sample_split": "fastbin.calibrators",
    "fit_scaling_binning": "fastbin.calibrators",
    "fit_uniform_mass": "fastbin.calibrators",
    "load": "fastbin._modelfile",
    "plan": "fastbin.planning",
    "run_step": "fastbin._steps",
    "tie_broken_argsort": "fastbin.ordering",
    "warmup": "fastbin._warmup",
}

__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605 - the stub spells them out


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(
            f"module 'fastbin' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}"
        )
    module = import_module(home)
    value = module if home == f"fastbin.{name}" else getattr(module, name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
