"""torch, alone and with Opacus' engine around it, as its tutorial has it."""

from typing import Any


def private_network(given: Any, epsilon: float) -> Any:
    import torch
    from opacus import PrivacyEngine
    from torch import nn

    middle, half = (given.high + given.low) / 2, (given.high - given.low) / 2
    rows = torch.tensor((given.rows - middle) / half, dtype=torch.float32)
    data = torch.utils.data.TensorDataset(rows, torch.tensor(given.labels))
    loader = torch.utils.data.DataLoader(data, batch_size=len(rows) // 20)
    model = nn.Sequential(nn.Linear(rows.shape[1], 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
    model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=epsilon,
        target_delta=1e-6,
        epochs=5,
        max_grad_norm=1.0,
    )
    for _ in range(5):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    unseen = torch.tensor((given.unseen - middle) / half, dtype=torch.float32)
    return model(unseen).argmax(1)


def plain_network(given: Any, epsilon: float) -> Any:
    import torch
    from torch import nn

    middle, half = (given.high + given.low) / 2, (given.high - given.low) / 2
    rows = torch.tensor((given.rows - middle) / half, dtype=torch.float32)
    data = torch.utils.data.TensorDataset(rows, torch.tensor(given.labels))
    loader = torch.utils.data.DataLoader(data, batch_size=len(rows) // 20, shuffle=True)
    model = nn.Sequential(nn.Linear(rows.shape[1], 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(20):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    unseen = torch.tensor((given.unseen - middle) / half, dtype=torch.float32)
    return model(unseen).argmax(1)
