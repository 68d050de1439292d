"""The server's half of the Flower app: federated averaging from zero, and where the weights go at the end."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    start = ArrayRecord([np.zeros(int(settings["columns"]) + 1)])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    result = strategy.start(grid=grid, initial_arrays=start, num_rounds=int(settings["rounds"]))
    np.save(str(settings["model"]), result.arrays.to_numpy_ndarrays()[0])
