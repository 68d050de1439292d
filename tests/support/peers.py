"""Members of a group for tests: they enrol over HTTP and make tokens, without a home or a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from thebes.coordinator.people.groups import ContributorGroups
from thebes.tokens import Context, Credential, Enrolment, GroupParameters
from thebes.wire.groups import GroupRecord, report_of


@dataclass(frozen=True)
class Peer:
    """One member with a credential; `published` is what the group shows."""

    credential: Credential
    published: GroupParameters

    def context(self, task: Mapping[str, Any], part: str) -> Context:
        return Context(str(task["task_id"]), str(task["digest"]), part)

    def pseudonym(self, task: Mapping[str, Any], part: str = "phase-0") -> str:
        return self.credential.pseudonym(self.context(task, part))

    def body(self, task: Mapping[str, Any], asked: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
        """A submission with its token."""
        context = self.context(task, asked["part"])
        report = context.report_digest(report_of(asked["ask_id"], payload))
        token = self.credential.present(context, report, self.published)
        return {"ask_id": asked["ask_id"], "part": asked["part"], "payload": dict(payload), "token": token}


def enrolment(client: httpx.Client, name: str, code: str, epoch: str | None = None) -> tuple[Enrolment, httpx.Response]:
    """Begin one under whatever the coordinator shows, and send its request."""
    shown = client.get(f"/api/group/{name}", params={} if epoch is None else {"epoch": epoch}).json()
    begun = Enrolment.begin(GroupParameters.from_json(shown["parameters"]), pin=shown["digest"])
    body = {"code": code, "request": begun.request, "epoch": shown["epoch"]}
    return begun, client.post(f"/api/group/{name}/enrol", json=body)


def group_of(
    register: ContributorGroups,
    client: httpx.Client,
    count: int,
    *,
    name: str = "city",
    epoch: str = "one",
    minimum: int = 2,
) -> list[Peer]:
    """A published group of so many members."""
    register.create(name, minimum=minimum, epoch=epoch)
    codes = register.admit(name, [f"member {number}" for number in range(count)], epoch=epoch)
    credentials = members(client, name, list(codes.values()), epoch)
    record = register.publish(name, epoch=epoch)
    return [Peer(credential, record.parameters) for credential in credentials]


def members(client: httpx.Client, name: str, codes: Sequence[str], epoch: str) -> list[Credential]:
    """A credential for each code."""
    made = []
    for code in codes:
        begun, answer = enrolment(client, name, code, epoch)
        assert answer.status_code == 200, answer.text
        made.append(begun.finish(answer.json()["response"]))
    return made


def frozen(client: httpx.Client, name: str, epoch: str) -> GroupRecord:
    """The public record, as anybody reads it."""
    return GroupRecord.from_json(client.get(f"/api/group/{name}", params={"epoch": epoch}).json())
