"""What Demur's confidence is shown against: simpler ways from the same columns to a confidence. For benchmarks and
reports; none of them is ever stored in an artefact."""

from .base import Baseline, Rows
from .four_tier import FourTierScore
from .hallunox import HalluNoxTiers
from .histogram_regression import HistogramRegression
from .kernel_regression import KernelRegression
from .mice import MiceForest, MiceLogistic
from .raw_confidence import RawConfidence
from .route_tiers import RouteTiers

__all__ = [
    "Baseline",
    "FourTierScore",
    "HalluNoxTiers",
    "HistogramRegression",
    "KernelRegression",
    "MiceForest",
    "MiceLogistic",
    "RawConfidence",
    "RouteTiers",
    "Rows",
]
