"""Ways to tell apart pictures that people keep, with a network that learned to see elsewhere: each through a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.tiresias.backbone import FEATURES, Backbone, installed, one_thread, train
from papers.tiresias.pictures import KEPT, SHAPE, Dots, Kinds
from thebes.simulation.world import simulate

DELTA = 1e-5  #: of integrated tasks and of Gaussian noise; the others are pure
ROUNDS, RATE, CLIP = 20, 1.0, 2.0
ALL_ROUNDS = 32  #: as many as the paper has epochs
FEW = 16  #: features that a bounded report carries: the first ones, in which public pictures differ most
WIDE = 3.0  #: a feature is cut there, in public deviations
KIND = "kind"
DOTS = tuple(f"p{place}" for place in range(int(np.prod(SHAPE))))

Table = dict[str, NDArray[Any]]
Guess = Callable[[Dots], Kinds]
Way = Callable[[Backbone, Dots, Kinds, float, int], Guess]  #: backbone, pictures, their kinds, epsilon, seed


def integrated(backbone: Backbone, dots: Dots, kinds: Kinds, epsilon: float, seed: int) -> Guess:
    """Features, which a collector with the same backbone writes, at a server that is trusted."""
    asked = {
        **_reading("integrated", _names(FEATURES), epsilon),
        "quality": False,  # scored on rows of the experiment's own
        "delta": DELTA,
        "model": "LogisticRegression",
        "inputs": _names(FEATURES),
        "output": KIND,
        "bounds": _bounds(FEATURES),
    }
    model = _released(asked, _seen(backbone, dots, kinds, FEATURES), seed).model
    return lambda rows: np.asarray(model.predict(backbone.features(rows)), dtype=np.int64)


def bounded(backbone: Backbone, dots: Dots, kinds: Kinds, epsilon: float, seed: int) -> Guess:
    """The first features and the kind as one report, changed as a whole."""
    asked = {
        **_reading("bounded", _names(FEW), epsilon),
        "bounds": _bounds(FEW, default=True),
        "mechanism": "privunit-short",
    }
    model = _released(asked, _seen(backbone, dots, kinds, FEW), seed).fit("logistic", output=KIND)
    return lambda rows: np.asarray(model.predict(backbone.features(rows)[:, :FEW]), dtype=np.int64)


def extraction(backbone: Backbone, dots: Dots, kinds: Kinds, epsilon: float, seed: int) -> Guess:
    """Owners' backbones stay as they are; a layer over what they see is trained. Each person in one of the rounds."""
    return _extracted(backbone, dots, kinds, epsilon, seed, rounds=ROUNDS)


def in_all_rounds(backbone: Backbone, dots: Dots, kinds: Kinds, epsilon: float, seed: int) -> Guess:
    """The same with Gaussian noise and every person in every round, as the paper trains: epsilon is for all of them."""
    more = {"rounds": ALL_ROUNDS, "rounds_per_owner": ALL_ROUNDS, "mechanism": "gaussian", "delta": DELTA}
    return _extracted(backbone, dots, kinds, epsilon, seed, **more)


def tuning(backbone: Backbone, dots: Dots, kinds: Kinds, epsilon: float, seed: int) -> Guess:
    """The whole network is trained further. Each person in one of the rounds."""
    from torch import nn

    from thebes.torch import encode

    model, loss = encode(_whole(backbone), nn.CrossEntropyLoss(), inputs=SHAPE)
    made = _descended({"model": model, "loss": loss, "rounds": ROUNDS}, dots, kinds, epsilon, seed)
    return lambda rows: np.asarray(made.predict(rows), dtype=np.int64)


WAYS: Mapping[str, Way] = {
    "integrated, on features": integrated,
    f"bounded, on {FEW} features": bounded,
    "gradient, feature extraction": extraction,
    "gradient, fine-tuning": tuning,
    "gradient, feature extraction, each in all rounds": in_all_rounds,
}


def together(backbone: Backbone, dots: Dots, kinds: Kinds) -> Guess:
    """A logistic regression over all features, in one place and without privacy."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        model = LogisticRegression(max_iter=300).fit(backbone.features(dots), kinds)
    return lambda rows: np.asarray(model.predict(backbone.features(rows)), dtype=np.int64)


def tuned_together(backbone: Backbone, dots: Dots, kinds: Kinds, *, epochs: int) -> Guess:
    """The whole network, trained further in one place and without privacy."""
    import torch

    network = _whole(backbone)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(0)
        train(network, dots, kinds, epochs=epochs)

    def guess(rows: Dots) -> Kinds:
        with torch.no_grad():
            return np.asarray(network(torch.from_numpy(rows).reshape(-1, *SHAPE)).argmax(1).numpy())

    return guess


def _extracted(backbone: Backbone, dots: Dots, kinds: Kinds, epsilon: float, seed: int, **more: Any) -> Guess:
    model, loss = _line()
    with installed(backbone) as digest:
        asked = {"model": model, "loss": loss, "backbone": digest, **more}
        made = _descended(asked, dots, kinds, epsilon, seed)
    return lambda rows: np.asarray(made.predict(rows), dtype=np.int64)


def _descended(more: Mapping[str, Any], dots: Dots, kinds: Kinds, epsilon: float, seed: int) -> Any:
    asked = {
        **_reading("gradient", DOTS, epsilon),
        "inputs": list(DOTS),
        "outputs": [KIND],
        "clip": CLIP,
        "learning_rate": RATE,
        **more,
    }
    with one_thread():
        return _released(asked, {**dict(zip(DOTS, dots.T, strict=True)), KIND: kinds}, seed).model


def _released(asked: Mapping[str, Any], shown: Table, seed: int) -> Any:
    return simulate(asked, shown, seed)


@cache
def _line() -> tuple[str, str]:
    from torch import nn

    from thebes.torch import encode

    return encode(_blank(), nn.CrossEntropyLoss())


def _whole(backbone: Backbone) -> Any:
    import copy

    from torch import nn

    return nn.Sequential(copy.deepcopy(backbone.module), _blank())


def _blank() -> Any:
    """A layer that prefers no kind."""
    from torch import nn

    layer = nn.Linear(FEATURES, len(KEPT))
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _names(count: int) -> list[str]:
    return [f"f{place}" for place in range(count)]


def _seen(backbone: Backbone, dots: Dots, kinds: Kinds, count: int) -> Table:
    return {**dict(zip(_names(count), backbone.features(dots).T, strict=False)), KIND: kinds}


def _reading(kind: str, columns: Sequence[str], epsilon: float) -> dict[str, Any]:
    featurizer = f"SELECT {', '.join((*columns, KIND))} FROM pictures.own"  # noqa: S608, our own names
    return {"type": kind, "epsilon": epsilon, "featurizer": featurizer}


def _bounds(count: int, *, default: bool = False) -> dict[str, Any]:
    stand_in: dict[str, Any] = {"default": 0.0} if default else {}
    ranges = {name: {"type": "range", "low": -WIDE, "high": WIDE, **stand_in} for name in _names(count)}
    return {**ranges, KIND: {"type": "set", "values": [*range(len(KEPT))], **({"default": 0} if default else {})}}
