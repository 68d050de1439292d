"""PyTorch models for gradient tasks: a module and its loss become data, trained weights come back into the module.

    model, loss = thebes.torch.encode(module, torch.nn.MSELoss())
    document = {"type": "gradient", ..., "model": model, "loss": loss}

Needs `pip install thebes[torch]`. Used by requestors only.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["convert_state_dict", "decode_weights", "encode", "encode_weights", "to_module"]


def encode(
    model: Any,
    loss: Any,
    *,
    inputs: int | Sequence[int] | None = None,
    targets: Literal["number", "class"] | None = None,
) -> tuple[str, str]:
    """`document["model"]` and `document["loss"]` for a module and a loss module or function (outputs, targets).

    `inputs` is the shape of one example without a batch axis: a number of columns, or for images (channels, height,
    width). Left out, it is what the first layer takes, if that is a Linear, LayerNorm or Unflatten. `targets` says
    what an owner's output columns are: `"number"`, one column for each number the model gives, or `"class"`, one
    column holding 0, 1, ..., which the loss sees as zeros and a one (the default for CrossEntropyLoss, not for
    others). Parameters with `requires_grad=False` travel but are not trained.

    The two strings hold an allow-listed graph and numbers, no code. What cannot travel (buffers, random masks,
    operations outside the list) is a `Mistake` that names it.
    """
    _need_torch()
    import torch

    from thebes.learning.graph.document import SITE, read_loss, read_model, write_model
    from thebes.learning.graph.export import export_loss, export_model

    if targets not in (None, "number", "class"):
        raise Mistake("targets", "must be 'number' or 'class'")
    shape = _first_shape(model) if inputs is None else _shape(inputs)
    crossed = isinstance(loss, torch.nn.CrossEntropyLoss)
    if crossed and (loss.ignore_index != -100 or loss.weight is not None):
        raise Mistake("loss", "CrossEntropyLoss cannot travel with class weights or ignore_index")
    kind: Literal["number", "class"] = targets if targets is not None else "class" if crossed else "number"
    graph, values = export_model(model, shape)
    if not graph.trained:
        raise Mistake("model", "has no parameter with requires_grad=True: there is nothing to train")
    text = write_model(graph, values)
    read = read_model(text, limits=SITE)  # what people are asked has a lower limit, which their kinds of task hold
    if kind == "class" and (len(read.output_shape) != 2 or read.output_shape[1] < 2):
        raise Mistake("model", "gives no row of two or more scores, one for each class")
    written = export_loss(loss, read.output_shape, kind).text
    read_loss(written, read)
    return text, written


def encode_weights(model: Any) -> bytes:
    """The trained parameters of a module as safetensors, to send as the weights of a round."""
    _need_torch()
    from safetensors.torch import save

    return bytes(save({n: p.detach().contiguous() for n, p in model.named_parameters() if p.requires_grad}))


def decode_weights(weights: bytes | str) -> dict[str, Any]:
    """Tensors by name, from safetensors bytes or from the string `document["model"]`."""
    _need_torch()
    from safetensors import SafetensorError
    from safetensors.torch import load

    if isinstance(weights, str):
        import torch

        from thebes.learning.graph.document import SITE, read_model

        return {name: torch.from_numpy(values) for name, values in read_model(weights, limits=SITE).values.items()}
    try:
        return dict(load(weights))
    except (SafetensorError, TypeError, ValueError) as error:
        raise Mistake("weights", "must be safetensors bytes or the string of a model") from error


def to_module(module: Any, weights: bytes | str | Mapping[str, Any] | ArrayLike) -> Any:
    """`module` with these weights in it: safetensors, tensors by name, or one flat vector in the order of its
    trained parameters. Every trained parameter must be there with its shape; the module is returned."""
    _need_torch()
    import torch

    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if isinstance(weights, (bytes, str)):
        weights = decode_weights(weights)
    if not isinstance(weights, Mapping):
        flat = torch.as_tensor(weights, dtype=torch.float32).reshape(-1)
        sizes = [parameter.numel() for parameter in trained.values()]
        if flat.numel() != sum(sizes):
            raise Mistake("weights", f"must be {sum(sizes):,} numbers, as many as the module trains")
        parts = torch.split(flat, sizes)
        weights = {n: part.reshape(p.shape) for (n, p), part in zip(trained.items(), parts, strict=True)}
    everything = dict(module.named_parameters())
    for name in weights:
        if name not in everything:
            raise Mistake("weights", f"the module has no parameter '{name}'")
    for name in trained:
        if name not in weights:
            raise Mistake("weights", f"the parameter '{name}' is missing")
    found = {name: torch.as_tensor(value, dtype=torch.float32) for name, value in weights.items()}
    for name, value in found.items():
        if value.shape != everything[name].shape:
            raise Mistake("weights", f"the parameter '{name}' must have the shape {list(everything[name].shape)}")
    with torch.no_grad():
        for name, value in found.items():
            everything[name].copy_(value)
    return module


def convert_state_dict(path: str | Path, *, digest: str | None = None, backbone: str) -> bytes:
    """Safetensors of a backbone's convolutions, from a torchvision weight file whose SHA-256 is `digest`: left out,
    that of the file that torchvision publishes for this backbone (SqueezeNet 1.1 and VGG 16 are known).

    `backbone` is a name in `thebes.learning.graph.architectures.ARCHITECTURES`. This is the one place that reads a
    file through torch's unpickler, restricted to tensors (`weights_only=True`). That restriction has been escaped
    before, so convert only files whose digest you took from their publisher: the digest is compared first. Owners
    read the safetensors and never this file.
    """
    _need_torch()
    import torch

    from thebes.learning.graph.architectures import architecture
    from thebes.learning.graph.published_weights import PUBLISHED

    module = architecture(backbone)
    if digest is None:
        if backbone not in PUBLISHED:
            raise Mistake("digest", f"is missing: no published one is known for {backbone}")
        digest = PUBLISHED[backbone].sha256
    raw = Path(path).read_bytes()
    if hashlib.sha256(raw).hexdigest() != digest.lower():
        raise Mistake("digest", "the file is not the one with this SHA-256")
    try:
        state = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:
        raise Mistake("path", "is not a file of tensors by name") from error
    if not isinstance(state, dict):
        raise Mistake("path", "is not a file of tensors by name")
    chosen = {}
    for name, parameter in module.named_parameters():
        value = state.get(name)
        if not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
            raise Mistake("path", f"holds no '{name}' of shape {list(parameter.shape)}, which {backbone} needs")
        if not bool(torch.isfinite(value).all()):
            raise Mistake("path", f"'{name}' holds NaN or infinity")
        chosen[name] = value
    to_module(module, chosen)
    return encode_weights(module)


def _need_torch() -> None:
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise Mistake("thebes.torch", "needs PyTorch: pip install 'thebes[torch]'") from error


def _shape(inputs: int | Sequence[int]) -> tuple[int, ...]:
    sides = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    if not sides or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
        raise Mistake("inputs", "must be a number of columns or a shape such as (3, 32, 32)")
    return sides


def _first_shape(model: Any) -> tuple[int, ...]:
    import torch

    if not isinstance(model, torch.nn.Module):
        raise Mistake("model", "must be a torch.nn.Module")
    for part in model.modules():
        if next(part.children(), None) is not None:
            continue
        if isinstance(part, torch.nn.Linear):
            return (part.in_features,)
        if isinstance(part, torch.nn.LayerNorm):
            return tuple(part.normalized_shape)
        if isinstance(part, torch.nn.Unflatten) and part.dim == 1:
            count = 1
            for side in part.unflattened_size:
                count *= int(side)
            return (count,)
        if type(part).__name__ in ("Identity", "ReLU", "Tanh", "Sigmoid", "Dropout"):
            continue
        break
    raise Mistake("inputs", "cannot be told from the first layer: give the shape of one example, as (3, 32, 32)")
