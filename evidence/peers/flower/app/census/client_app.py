"""A site's half of the Flower app: one step of logistic regression down its own rows."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    held = np.load(str(context.node_config["rows"]))
    weights = message.content["arrays"].to_numpy_ndarrays()[0]
    inputs = np.column_stack([held["rows"], np.ones(len(held["rows"]))])
    slope = inputs.T @ (1 / (1 + np.exp(-inputs @ weights)) - held["labels"]) / len(inputs)
    arrays = ArrayRecord([weights - 4.0 * slope])
    metrics = MetricRecord({"num-examples": len(inputs)})
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
