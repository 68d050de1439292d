"""Whoever asks Thebes for the model."""

import json
import sys
from pathlib import Path

import thebes

url, token, rounds, model = sys.argv[1:]
server = thebes.connect(url, Path(token).read_text(encoding="utf-8").strip())
release = server.train(
    "census",
    model="LogisticRegression",
    inputs=[f"x{place}" for place in range(7)],
    output="rich",
    sites=["site-0", "site-1", "site-2"],
    rounds=int(rounds),
    learning_rate=4.0,
    average="last",
    epsilon=2,
    delta=1e-6,
    timeout=600,
)
Path(model).write_text(json.dumps(release.as_json()), encoding="utf-8")
