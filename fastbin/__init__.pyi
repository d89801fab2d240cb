from fastbin import bounds as bounds
from fastbin._modelfile import ModelFileError as ModelFileError
from fastbin._modelfile import load as load
from fastbin._steps import run_step as run_step
from fastbin._warmup import warmup as warmup
from fastbin.binning import bin_index as bin_index
from fastbin.binning import bin_means as bin_means
from fastbin.bounds import boundary_ranks as boundary_ranks
from fastbin.calibrators import fit as fit
from fastbin.calibrators import fit_counts as fit_counts
from fastbin.calibrators import fit_fixed_width as fit_fixed_width
from fastbin.calibrators import fit_isotonic as fit_isotonic
from fastbin.calibrators import fit_sample_split as fit_sample_split
from fastbin.calibrators import fit_scaling_binning as fit_scaling_binning
from fastbin.calibrators import fit_uniform_mass as fit_uniform_mass
from fastbin.guarantees import Guarantee as Guarantee
from fastbin.model import Calibrator as Calibrator
from fastbin.model import TieWarning as TieWarning
from fastbin.ordering import tie_broken_argsort as tie_broken_argsort
from fastbin.passes import FitPlan as FitPlan
from fastbin.planning import Plan as Plan
from fastbin.planning import plan as plan
from fastbin.platt import PlattScaler as PlattScaler
from fastbin.platt import fit_platt as fit_platt

__version__: str
__all__: list[str]
