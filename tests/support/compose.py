"""A compose file whose services run as processes of this machine: no container, but the same commands, settings,
volumes and secrets, in the order that its head says.

Paths in a container become those of its volumes here, names of services become 127.0.0.1, and ports free ones.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import yaml  # type: ignore[import-untyped]

from tests.support.ports import free_ports
from tests.support.postgres import server_programs

PATIENCE = 240.0
#: where services listen that others reach, and what each of a site's own pages does
_PORTS = ("database:5432", "coordinator:8000", "coordinator:8443")


class Compose:
    """Use in a `with` block: what runs at its end is ended. `file` lies beside `secrets` and `data` in its folder."""

    def __init__(self, file: Path, environment: dict[str, str]) -> None:
        self.folder = file.parent
        self.text = file.read_text(encoding="utf-8")
        self.services: dict[str, Any] = yaml.safe_load(self.text)["services"]
        self._environment = environment  #: the image's
        self._home = environment["THEBES_HOME"]
        self._ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    @property
    def commands(self) -> list[str]:
        """The commands that its head says are to be typed."""
        return re.findall(r"^#   (docker compose .*)$", self.text, re.MULTILINE)

    def address(self, named: str) -> str:
        """The address at which `SERVICE:PORT` is reached."""
        return f"127.0.0.1:{self._ports[named]}"

    def volume(self, service: str) -> Path:
        """The folder that is a service's home."""
        return next(here for there, here in self._mounts(service) if there == self._home)

    def type(self, line: str) -> None:
        """One of the commands; it must succeed."""
        _, _, verb, *words = shlex.split(line)
        if verb == "up":
            assert words[:2] == ["-d", "--wait"]
            for name in words[2:]:
                self._up(name)
            return
        assert (verb, words[0]) == ("run", "--rm")
        ended = self._ended(words[1], words[2:])
        assert ended.returncode == 0, f"{line}: {ended.stderr}"

    def kill(self, name: str) -> None:
        """SIGKILL, and again what `restart: on-failure` does."""
        assert self.services[name]["restart"] == "on-failure"
        self.running[name].kill()
        self.running.pop(name).wait()
        self._up(name)

    def stop(self, name: str) -> int:
        process = self.running.pop(name)
        if name == "database":
            stop = [str(_postgres() / "pg_ctl"), "stop", "-m", "fast", "-D", str(self.volume_of_database)]
            subprocess.run([*_as_postgres(), *stop], check=True, capture_output=True, cwd="/")
        else:
            process.terminate()
        return process.wait(timeout=PATIENCE)

    def _up(self, name: str) -> None:
        service = self.services[name]
        for needed in service.get("depends_on", ()):
            assert needed in self.running, f"{name} needs {needed}"
        if name == "database":
            self.running[name] = self._database()
        else:
            command = [sys.executable, "-m", "thebes.cli.main", *self._words(name, service["command"])]
            with (self.folder / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(command, env=self._given(name), stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while not self._healthy(name):
            assert self.running[name].poll() is None, (self.folder / f"{name}.log").read_text()
            assert time.monotonic() < end, (self.folder / f"{name}.log").read_text()
            time.sleep(0.2)

    def _healthy(self, name: str) -> bool:
        how, program, *words = self.services[name]["healthcheck"]["test"]
        assert how == "CMD"
        if program == "pg_isready":
            host, port = self.address("database:5432").split(":")
            ready = [str(_postgres() / program), "-h", host, "-p", port, *words]
            return subprocess.run(ready, capture_output=True, check=False).returncode == 0
        assert program == "thebes"
        return self._ended(name, words).returncode == 0

    def _ended(self, name: str, words: list[str]) -> subprocess.CompletedProcess[str]:
        """`thebes` with these words, in the container of a service."""
        command = [sys.executable, "-m", "thebes.cli.main", *self._words(name, words)]
        return subprocess.run(
            command, env=self._given(name), capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    # --- what a container sees --------------------------------------------------------------------------

    def _given(self, name: str) -> dict[str, str]:
        """The image's environment and the service's, and nothing else of this machine's but where programs lie."""
        told = {**self._environment, **self.services[name].get("environment", {})}
        here = {key: self._path(name, value) for key, value in told.items()}
        quiet = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}  # a container has none
        return {**here, "PATH": os.environ["PATH"], "HOME": str(self.folder), **quiet}

    def _mounts(self, name: str) -> list[tuple[str, Path]]:
        """(path in the container, path here), longest first."""
        service, found = self.services[name], dict[str, Path]()
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            here = self.folder / (source if source.startswith(".") else f"volumes/{source}")
            here.mkdir(mode=0o700, parents=True, exist_ok=True)
            found[target] = here.resolve()
        secrets = yaml.safe_load(self.text)["secrets"]
        for secret in service.get("secrets", ()):
            found[f"/run/secrets/{secret}"] = (self.folder / secrets[secret]["file"]).resolve()
        return sorted(found.items(), key=lambda each: -len(each[0]))

    def _path(self, name: str, word: str) -> str:
        for there, here in self._mounts(name):
            if word == there or word.startswith(f"{there}/"):
                return f"{here}{word.removeprefix(there)}"
        return word

    def _words(self, name: str, words: list[str]) -> list[str]:
        return [self._word(name, self._path(name, word)) for word in words]

    def _word(self, name: str, word: str) -> str:
        word = word.replace("@database/", "@database:5432/").replace("//127.0.0.1:", f"//{name}:")
        for named, port in self._ports.items():
            word = word.replace(named, f"127.0.0.1:{port}")
        own = {named.partition(":")[2]: str(port) for named, port in self._ports.items() if named.startswith(name)}
        return {"0.0.0.0": "127.0.0.1", "8100": "0", **own}.get(word, word)

    def _database(self) -> subprocess.Popen[bytes]:
        """PostgreSQL, as its image starts it: the superuser has the password of the secret."""
        told, where = self.services["database"]["environment"], self.volume_of_database
        as_user = _as_postgres()
        password = self.folder / "password"
        shutil.copyfile(self._path("database", told["POSTGRES_PASSWORD_FILE"]), password)
        for path in (where, password):
            if as_user:
                shutil.chown(path, "postgres")
        user = told["POSTGRES_USER"]
        if not (where / "PG_VERSION").exists():
            made = [
                str(_postgres() / "initdb"),
                "-D",
                str(where),
                "-U",
                user,
                "-A",
                "scram-sha-256",
                f"--pwfile={password}",
            ]
            subprocess.run([*as_user, *made, "--no-sync"], check=True, capture_output=True, cwd="/")
            _, port = self.address("database:5432").split(":")
            more = f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n"
            with (where / "postgresql.conf").open("a") as settings:
                settings.write(more)
            single = [str(_postgres() / "postgres"), "--single", "-D", str(where), "postgres"]
            given = f"CREATE DATABASE {told['POSTGRES_DB']}\n".encode()
            subprocess.run([*as_user, *single], input=given, check=True, capture_output=True, cwd="/")
        with (self.folder / "database.log").open("ab") as log:
            return subprocess.Popen(
                [*as_user, str(_postgres() / "postgres"), "-D", str(where)], stdout=log, stderr=log, cwd="/"
            )

    @property
    def volume_of_database(self) -> Path:
        ((_, where),) = [each for each in self._mounts("database") if "postgresql" in each[0]]
        return where


def _as_postgres() -> list[str]:
    """Begin a command of PostgreSQL's, which refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def _postgres() -> Path:
    programs = server_programs()
    assert programs is not None
    return programs
