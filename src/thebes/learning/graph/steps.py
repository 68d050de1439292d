"""The gradients of a batch as one list of kernels, found once for a graph and then called one after another.

Finding them is torch's work: it differentiates the graph for one row and maps that over a batch, and calls each kernel
through several layers of itself, which for a small network takes far longer than the kernel. What is noted here is
which kernels it ended up calling, and with what: the same results, bit for bit. No source text is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thebes.learning.graph.document import GraphLoss, Input, Model
from thebes.learning.graph.interpret import evaluate, tensors
from thebes.learning.graph.weights import named

#: kernel, arguments, options, the places of its results, and those that nobody needs afterwards
_Step = tuple[Callable[..., Any], list[Any], Mapping[str, Any], list[int | None], list[int]]


class _Place:
    """The place where an earlier result lies."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Steps:
    """Takes the trained weights in their order, a batch of `width` rows and their truths; gives for each of the weights
    one gradient per row, then one loss per row."""

    def __init__(self, model: Model, loss: GraphLoss, width: int) -> None:
        import torch
        from torch.func import grad_and_value, vmap

        names = [weight.name for weight in model.graph.trained]
        fixed = {name: each for name, each in tensors(model, model.initial).items() if name not in names}

        def loss_of(trained: tuple[Any, ...], row: Any, truth: Any) -> Any:
            known = dict(zip(names, trained, strict=True))
            said = evaluate(model.graph, {**fixed, **known, model.input.name: row})
            value = evaluate(loss.graph, {loss.outputs.name: said, loss.targets.name: truth})
            return value.reshape(())

        start = [torch.from_numpy(each) for each in named(model.graph, model.initial).values()]
        given = [*start, _nothing(width, model.input), _nothing(width, loss.targets)]
        calls: list[tuple[Any, Any, Any, Any]] = []
        with _recorder(calls):
            slopes, losses = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))(tuple(start), *given[-2:])
        self._noted(given, calls, [*slopes, losses])

    def __call__(self, *given: Any) -> list[Any]:
        constants = [each.clone() for each in self._constants] if self._written else self._constants
        known: list[Any] = [*given, *constants, *[None] * self._results]
        for kernel, positional, options, places, over in self._steps:
            found = kernel(
                *[_filled(each, known) for each in positional],
                **{name: _filled(each, known) for name, each in options.items()},
            )
            for place, each in zip(places, found if isinstance(found, (tuple, list)) else (found,), strict=True):
                if place is not None:
                    known[place] = each
            for number in over:
                known[number] = None
        return [known[each] for each in self._told]

    def _noted(self, given: list[Any], calls: list[tuple[Any, Any, Any, Any]], told: list[Any]) -> None:
        """Number everything that was computed. All of it is held meanwhile, so that no two things share an identity."""
        made = {id(each) for *_, results in calls for each in _within(results)}
        used = [each for _, positional, options, _ in calls for each in _within([positional, options])]
        inputs = {id(each) for each in given}
        outside = {id(each): each for each in used if id(each) not in made and id(each) not in inputs}
        self._constants = list(outside.values())
        self._written = any(kernel._schema.is_mutable for kernel, *_ in calls)
        places = {identity: number for number, identity in enumerate([*map(id, given), *outside])}
        first = len(places)
        last: dict[int, int] = {}  #: by place, the step that needs it last
        self._steps: list[_Step] = []
        for number, (kernel, positional, options, results) in enumerate(calls):
            for each in _within([positional, options]):
                last[places[id(each)]] = number
            taken = _placed(list(positional), places), {name: _placed(each, places) for name, each in options.items()}
            mine: list[int | None] = []
            for each in results if isinstance(results, (tuple, list)) else (results,):
                fresh = hasattr(each, "untyped_storage")
                mine.append(places.setdefault(id(each), len(places)) if fresh else None)
            self._steps.append((kernel, *taken, mine, []))
        self._results = len(places) - first
        self._told = [places[id(each)] for each in told]
        for place, number in last.items():
            if place >= first and place not in self._told:
                self._steps[number][-1].append(place)


def _recorder(calls: list[tuple[Any, Any, Any, Any]]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class KernelRecorder(TorchDispatchMode):  # type: ignore[misc]
        """Notes every kernel that is called under it."""

        def __torch_dispatch__(self, kernel: Any, _: Any, positional: Any = (), options: Any = None) -> Any:
            results = kernel(*positional, **(options or {}))
            calls.append((kernel, positional, options or {}, results))
            return results

    return KernelRecorder()


def _nothing(width: int, into: Input) -> Any:
    """A batch to find the kernels with: which they are does not depend on it."""
    import torch

    return torch.from_numpy(np.zeros((width, *into.shape), dtype=np.float32))


def _within(value: Any) -> list[Any]:
    """Every tensor in an argument or a result."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [each for one in value for each in _within(one)]
    return [value] if hasattr(value, "untyped_storage") else []


def _placed(value: Any, places: Mapping[int, int]) -> Any:
    """An argument with places where tensors go."""
    if isinstance(value, (list, tuple)):
        return [_placed(each, places) for each in value]
    return _Place(places[id(value)]) if hasattr(value, "untyped_storage") else value


def _filled(value: Any, known: list[Any]) -> Any:
    if type(value) is _Place:
        return known[value.number]
    return [_filled(each, known) for each in value] if type(value) is list else value
