"""A real PKCS#11 token for tests: SoftHSM, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REQUIRE = "THEBES_REQUIRE"
MODULE = Path("/usr/lib/softhsm/libsofthsm2.so")
PIN = "4711"


class SoftToken:
    """A token called `thebes`, whose PIN lies in a file. The module reads where it is from the environment, once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tokens").mkdir()
        self.config, self.pin_file = folder / "softhsm2.conf", folder / "pin"
        self.config.write_text(f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\n")
        self.pin_file.write_text(f"{PIN}\n")
        self.pin_file.chmod(0o600)
        words = ["--init-token", "--free", "--label", "thebes", "--pin", PIN, "--so-pin", "815815"]
        subprocess.run(
            [_program(), *words], env={**os.environ, "SOFTHSM2_CONF": str(self.config)}, check=True, capture_output=True
        )

    def uri(self, label: str, *, token: str = "thebes", module: Path = MODULE) -> str:
        return f"pkcs11:token={token};object={label}?module-path={module}&pin-source={self.pin_file}"

    def objects(self) -> str:
        """Everything in the token, as another program sees it."""
        done = subprocess.run(
            ["pkcs11-tool", "--module", str(MODULE), "--login", "--pin", PIN, "--list-objects"],
            env={**os.environ, "SOFTHSM2_CONF": str(self.config)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout


def _program() -> str:
    """The program that makes tokens. Without SoftHSM the test is skipped, or fails where THEBES_REQUIRE names it."""
    found = shutil.which("softhsm2-util")
    if found is None or not MODULE.exists() or shutil.which("pkcs11-tool") is None:
        reason = "SoftHSM or OpenSC is not installed"
        if "softhsm" in os.environ.get(REQUIRE, ""):
            pytest.fail(f"{reason}, and {REQUIRE} asks for them")
        pytest.skip(reason)
    return found
