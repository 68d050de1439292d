"""The same network, steps and samples as a training over one site, whose data set keeps the ledger."""

from typing import Any


def private_network(given: Any, epsilon: float) -> Any:
    from torch import nn

    import thebes
    from thebes.torch import encode

    names = [f"x{place}" for place in range(len(given.low))]
    ranges = zip(names, given.low, given.high, strict=True)
    columns = {name: {"type": "float", "low": low, "high": high} for name, low, high in ranges}
    schema = {"unit": "person", "columns": {**columns, "rich": {"type": "integer", "values": [0, 1]}}}
    network = nn.Sequential(nn.Linear(len(names), 16), nn.Tanh(), nn.Linear(16, 2))
    model, loss = encode(network, nn.CrossEntropyLoss())
    document = {
        "type": "train",
        "dataset": "census",
        "model": model,
        "loss": loss,
        "inputs": names,
        "output": "rich",
        "batch": 0.05,
        "rounds": 100,
        "learning_rate": 1.0,
        "momentum": 0.5,
        "epsilon": epsilon,
        "delta": 1e-6,
    }
    office = {**dict(zip(names, given.rows.T, strict=True)), "rich": given.labels}
    release = thebes.simulate(document, {"office": office}, schema=schema)
    return release.model.predict(dict(zip(names, given.unseen.T, strict=True)))
