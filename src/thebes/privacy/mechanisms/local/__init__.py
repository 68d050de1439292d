"""Local mechanisms: noise is added where the value lives, and nobody else has to be trusted."""

from thebes.privacy.mechanisms.local.additive import LocalGaussian, LocalLaplace
from thebes.privacy.mechanisms.local.bounded import Hybrid, Piecewise, TwoPoint
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.choose import choose_categorical, choose_number
from thebes.privacy.mechanisms.local.hadamard import HadamardResponse
from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.mechanisms.local.shape import Estimate, LocalMechanism
from thebes.privacy.mechanisms.local.subset import SubsetSelection
from thebes.privacy.mechanisms.local.unary import AsymmetricUnaryEncoding, SymmetricUnaryEncoding

__all__ = [
    "AsymmetricUnaryEncoding",
    "CategoryMechanism",
    "Estimate",
    "HadamardResponse",
    "Hybrid",
    "LocalGaussian",
    "LocalLaplace",
    "LocalMechanism",
    "NumberMechanism",
    "Piecewise",
    "PrivUnit",
    "RandomizedResponse",
    "SubsetSelection",
    "SymmetricUnaryEncoding",
    "TwoPoint",
    "choose_categorical",
    "choose_number",
]
