"""What every test stands on: no test ever touches the keyring of whoever runs it."""

from __future__ import annotations

import os

os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
