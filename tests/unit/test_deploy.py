"""The units, the compose file and the example of settings in `deploy/`: read, held against the program, and linted
where the tools are there. Nothing of them is started."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from thebes.cli import main
from thebes.coordinator import settings
from tools import supply

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = sorted((DEPLOY / "systemd").glob("*.service"))


def unit(path: Path) -> dict[str, list[str]]:
    """Key -> every value, of all sections."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            key, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(key, []).append(value)
    return found


def options(*names: str) -> set[str]:
    """Every option of a command of the program; a command that does not exist fails."""
    found = typer.main.get_command(main.wired())
    for name in names:
        found = found.commands[name]  # type: ignore[attr-defined]
    return {option for parameter in found.params for option in parameter.opts}


def spoken(line: str) -> tuple[str, set[str]]:
    """The command and the options of `thebes ...` in a line."""
    words = shlex.split(line)
    words = words[next(i for i, word in enumerate(words) if word.endswith("thebes")) + 1 :]
    return words[0], {word for word in words if word.startswith("--")}


def test_there_are_units_for_every_role_that_is_a_server() -> None:
    assert [path.name for path in SERVICES] == [
        "thebes-backup@.service",
        "thebes-coordinator.service",
        "thebes-site.service",
    ]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_a_unit_starts_what_exists_as_a_user_of_its_own_that_can_reach_its_home_only(path: Path) -> None:
    told = unit(path)
    (start,) = told["ExecStart"]
    if path.name.startswith("thebes-backup"):
        start = shlex.split(start)[-1].replace("$$", "$").replace("%%", "%")
    asked, given = spoken(start)
    arguments = re.search(r'"THEBES_ARGUMENTS=([^"]*)"', told.get("Environment", [""])[0])
    given |= {word for word in (arguments.group(1).split() if arguments else []) if word.startswith("--")}
    assert given <= options(asked)
    assert told["User"][0] not in ("root", "")
    wanted = {
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "PrivateDevices": "yes",
        "UMask": "0077",
        "LimitCORE": "0",
    }
    assert {key: told[key] for key in wanted} == {key: [value] for key, value in wanted.items()}
    assert told["SystemCallFilter"][0].startswith("@system-service")
    assert "StateDirectoryMode" not in told or told["StateDirectoryMode"] == ["0700"]


def test_the_walls_around_strangers_work_can_still_be_built() -> None:
    """A filter that refused them would take from the children what they take from themselves."""
    for name in ("thebes-coordinator.service", "thebes-site.service"):
        told = unit(DEPLOY / "systemd" / name)
        calls = set(told["SystemCallFilter"][0].split())
        assert {"seccomp", "unshare", "landlock_create_ruleset", "landlock_restrict_self"} <= calls
        assert told["RestrictNamespaces"] == ["user net"]


def test_what_a_service_is_told_in_secret_can_be_read_by_root_alone() -> None:
    """The process of a site that talks runs as the service's user and can reach files in /etc."""
    lines = (DEPLOY / "systemd" / "thebes.tmpfiles.conf").read_text(encoding="utf-8").splitlines()
    assert [line.split() for line in lines if "/etc/" in line] == [["d", "/etc/thebes", "0700", "root", "root"]]
    made: set[str] = set()
    written = 0
    for line in (DEPLOY.parent / "docs" / "deployments.md").read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"# install -m 600 /dev/null (/etc/thebes/\S+)", line):
            made.add(found.group(1))
        elif line.startswith("# ") and (found := re.search(r"(?:>|tee|cp .*) *(/etc/thebes/\S+)", line)):
            assert found.group(1) in made, line
            written += 1
    assert written


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong_with_a_unit_and_little_exposed(path: Path, tmp_path: Path) -> None:
    name = path.name.replace("@.", "@thebes-site.")
    text = path.read_text(encoding="utf-8").replace("/opt/thebes/bin/thebes", "/bin/true")
    (tmp_path / name).write_text(text, encoding="utf-8")

    def said(*arguments: str) -> subprocess.CompletedProcess[str]:
        asked = ["systemd-analyze", *arguments, str(tmp_path / name)]
        return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)

    verified = said("verify", "--man=no")
    complaints = [line for line in verified.stderr.splitlines() if str(tmp_path) in line]
    assert complaints == []
    security = said("security", "--offline=yes", "--no-pager", "--threshold=25")
    if "unrecognized option" not in security.stderr:
        assert security.returncode == 0, security.stdout[-300:]


def test_the_compose_file_gives_each_service_no_more_than_it_needs() -> None:
    told = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    ours = {name: service for name, service in told["services"].items() if name != "database"}
    assert set(ours) == {"coordinator", "north", "south"}
    for name, service in ours.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "network_mode", "pid", "user"} & set(service)
        role = service["image"].removeprefix("thebes-")
        assert service["build"]["args"] == {"ROLE": role}
        asked, given = spoken(shlex.join(["thebes", *service["command"]]))
        assert asked == role
        assert given <= options(asked)
        assert service["volumes"][0].split(":") == [name, "/var/lib/thebes"]
        how, *probe = service["healthcheck"]["test"]
        asked, given = spoken(shlex.join(probe))
        assert (how, asked) == ("CMD", "doctor")
        assert given <= options(asked)
    ports = {name: service["ports"] for name, service in told["services"].items() if "ports" in service}
    assert ports == {"coordinator": ["127.0.0.1:8000:8000", "8443:8443"]}  # without TLS on this machine only
    written = (DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8")
    assert not re.search(r"(?i)password: ", written)  # secrets are files
    assert set(told["secrets"]) == {"database", "pgpass"}


def test_the_container_is_built_from_hashes_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "compose" / "Containerfile").read_text(encoding="utf-8")
    assert text.count("--require-hashes") == 2
    assert text.index("\nUSER 10001:10001\n") < text.index("\nHEALTHCHECK") < text.index("\nENTRYPOINT")
    root = DEPLOY.parent
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied
    roles = ("coordinator", "site")
    assert [name for name in copied for role in roles if not (root / name.replace("${ROLE}", role)).exists()] == []


@pytest.mark.parametrize("container", supply.CONTAINERS)
def test_a_container_installs_what_its_role_needs_and_no_tool(container: str) -> None:
    written = supply.runtime_file(container).read_text(encoding="utf-8")
    assert written == supply.runtime(container), "run: make runtime"
    names = set(supply.pins(supply.runtime_file(container)))
    tools = {"pip", "setuptools", "pytest", "mypy", "playwright", "pyspark", "torch", "hypothesis", "ruff"}
    assert not names & tools
    assert ("hatchling" in names) == (container == "build")
    assert ("duckdb" in names) == (container == "site")


def test_the_example_of_settings_says_every_setting_with_its_default(tmp_path: Path) -> None:
    text = (DEPLOY / "coordinator.toml").read_text(encoding="utf-8")
    fields = settings.CoordinatorSettings.model_fields
    assert set(tomllib.loads(text)) == {name for name, field in fields.items() if field.default is not None}
    without = [name for name, field in fields.items() if field.default is None]
    assert [name for name in without if f"\n# {name} = " not in text and f"\n# [{name}]\n" not in text] == []
    spoken = tomllib.loads(text.replace("\n# operator", "\noperator").replace("\n# contact", "\ncontact"))
    assert {"operator", "contact"} <= set(spoken)
    (tmp_path / settings.FILE).write_text(text, encoding="utf-8")
    assert settings.read(tmp_path) == settings.CoordinatorSettings()
