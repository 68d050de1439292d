"""The names with which a developer's pipeline is written: `from thebes.pipeline import Pipeline`."""

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data, Feature
from thebes.curator.pipelines.pipeline import Pipeline, Trial
from thebes.curator.pipelines.validators import Best, Validation, Verdict, absolute, validate

__all__ = [
    "Allowance",
    "Best",
    "Data",
    "Feature",
    "Pipeline",
    "Trial",
    "Validation",
    "Verdict",
    "absolute",
    "validate",
]
