"""The manifests in `deploy/kubernetes`: held against the schemas of Kubernetes and against the compose file. Nothing of
them is started."""

from __future__ import annotations

import copy
import stat
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.unit.test_deploy import DEPLOY, options, spoken
from thebes.coordinator.home import CoordinatorHome
from thebes.site.home import SiteHome

FOLDER = DEPLOY / "kubernetes"
VERSIONS = ("1.31", "1.37")
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))["services"]
VOLUME, HOME = "/var/lib/thebes", "/var/lib/thebes/home"
#: pods and their services in compose
PODS = {"coordinator": "coordinator", "north": "north"}


def manifests() -> list[dict[str, Any]]:
    told = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
    found = []
    for name in told["resources"]:
        found += list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))
    return found


def of(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod(name: str) -> dict[str, Any]:
    """The pod's own description."""
    (found,) = [each for each in manifests() if each["metadata"]["name"] == name and "template" in each["spec"]]
    told: dict[str, Any] = found["spec"]["template"]["spec"]
    return told


def test_the_kustomization_has_every_file() -> None:
    told = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
    assert {*told["resources"], "kustomization.yaml"} == {path.name for path in FOLDER.iterdir()}
    assert told["namespace"] == of("Namespace", "thebes")["metadata"]["name"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_one_and_a_field_with_a_letter_wrong_is_not(version: str) -> None:
    for each in manifests():
        kubernetes_validate.validate(each, version, strict=True)
    wrong = copy.deepcopy(of("Deployment", "coordinator"))
    probe = wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]
    probe["timeoutSecond"] = probe.pop("timeoutSeconds")
    with pytest.raises(kubernetes_validate.ValidationError, match="timeoutSecond"):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_the_service_of_the_compose_file(name: str) -> None:
    service, told = COMPOSE[PODS[name]], pod(name)
    (container,) = told["containers"]
    assert container["image"] == service["image"]
    assert container["args"] == service["command"]
    env = {each["name"]: each["value"] for each in container.get("env", [])}
    assert env == {**service.get("environment", {}), "THEBES_HOME": HOME}
    ports = {str(each["containerPort"]) for each in container.get("ports", [])}
    assert ports == {each.split(":")[-1] for each in service.get("ports", [])}
    homes = {each["mountPath"] for each in container["volumeMounts"] if each["name"] == "home"}
    assert homes == {each.split(":")[1] for each in service["volumes"]} & {VOLUME}
    secrets = {f"/run/secrets/{each}" for each in service.get("secrets", [])}
    assert secrets <= {each["mountPath"] for each in container["volumeMounts"]}


@pytest.mark.parametrize("name", PODS)
def test_a_home_is_a_folder_below_the_volume_which_the_cluster_opens_to_a_group(name: str, tmp_path: Path) -> None:
    """As the kubelet does: at the first mount the whole volume, later only where its root is not as it left it."""
    told = pod(name)
    assert told["securityContext"]["fsGroup"] == told["securityContext"]["runAsGroup"] == 10001
    assert told["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    for container in [*told["containers"], *told.get("initContainers", [])]:
        if any(each["name"] == "home" for each in container["volumeMounts"]):
            assert {"name": "THEBES_HOME", "value": HOME} in container["env"]
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o2770)
    for _ in range(2):
        home = volume / Path(HOME).relative_to(VOLUME)
        made = CoordinatorHome(home) if name == "coordinator" else SiteHome(home)
        assert stat.S_IMODE(volume.stat().st_mode) == 0o2770, "the root is left as it is, so nothing is opened again"
        assert not made.folder.stat().st_mode & 0o077


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_no_more_than_it_needs_and_says_how_it_is(name: str) -> None:
    told = pod(name)
    assert told["automountServiceAccountToken"] is False
    assert told["securityContext"]["runAsNonRoot"] is True
    assert told["securityContext"]["runAsUser"] == 10001
    assert told["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(told)
    for container in [*told["containers"], *told.get("initContainers", [])]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {*container["resources"]["limits"]} == {*container["resources"]["requests"]} == {"cpu", "memory"}
        if "command" not in container:
            asked, given = spoken("thebes " + " ".join(container["args"]))
            assert given <= options(*([asked, "join"] if "join" in container["args"] else [asked]))
    (container,) = told["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)


def test_a_site_is_one_pod_that_nobody_reaches() -> None:
    site, coordinator = of("StatefulSet", "north"), of("Deployment", "coordinator")
    assert site["spec"]["replicas"] == coordinator["spec"]["replicas"] == 1
    assert coordinator["spec"]["strategy"] == {"type": "Recreate"}
    labels = site["spec"]["template"]["metadata"]["labels"]
    policy = of("NetworkPolicy", "sites")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert (policy["policyTypes"], policy["ingress"]) == (["Ingress"], [])
    (rule,) = of("NetworkPolicy", "coordinator")["spec"]["ingress"]
    ports = {each["name"] for each in coordinator["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert {each["port"] for each in rule["ports"]} == ports
    assert not [
        each for each in manifests() if each["kind"] == "Service" and each["spec"]["selector"].get("app") == "site"
    ]
