"""Ask institutions a question with a client that was generated from the coordinator's own description.

    python ask.py https://thebes.example TOKEN DATASET
"""

from __future__ import annotations

import sys
import time

from thebes_api import AuthenticatedClient
from thebes_api.api.site import sites
from thebes_api.api.task import post_task, record, task, tasks
from thebes_api.models import Detail, Posted, PostTaskDocument, Problem, PublishedRecord, PublishedRelease


class Refused(Exception):
    """A refusal in the coordinator's words: what happened, and what to do next."""


def ask(client: AuthenticatedClient, document: dict[str, object]) -> PublishedRelease:
    """Put a document up and wait for its answer."""
    posted = post_task.sync(client=client, body=PostTaskDocument.from_dict(document))
    if not isinstance(posted, Posted):
        raise refused(posted)
    while True:
        told = task.sync(posted.task_id, client=client)
        if not isinstance(told, Detail):
            raise refused(told)
        if told.result is not None:
            keep(client, posted.task_id)
            return told.result
        if told.status.value not in ("open", "running"):
            raise Refused(f"{told.status.value}: {told.refusals}")
        time.sleep(0.2)


def keep(client: AuthenticatedClient, task_id: str) -> None:
    """Save the release as it was signed; `thebes verify` checks the file."""
    told = record.sync_detailed(task_id, client=client)
    if not isinstance(told.parsed, PublishedRecord):
        raise refused(told.parsed)
    with open("release.json", "wb") as file:
        file.write(told.content)


def refused(problem: Problem | None) -> Refused:
    """Tell what a problem says: of a document every field that is at fault."""
    if problem is None:
        return Refused("the coordinator answered in a way that is not described")
    faults = [f"{fault.field}: {fault.message}" for fault in problem.problems or []]
    return Refused("; ".join(faults) or problem.detail)


def main(url: str, token: str, dataset: str) -> None:
    """Show what there is, ask for a mean, and print it with its error bar."""
    client = AuthenticatedClient(base_url=url, token=token)
    there = sites.sync(client=client)
    if not isinstance(there, list):
        raise refused(there)
    for site in there:
        print(site.name, site.state.value, sorted(site.datasets.additional_properties))
    release = ask(client, {"type": "query", "dataset": dataset, "statistic": "mean", "column": "age", "epsilon": 1})
    print(release.value, release.interval, release.certificate.text)
    open_ = tasks.sync(client=client)
    print(len(open_) if isinstance(open_, list) else open_, "tasks are open")
    try:
        ask(client, {"type": "query", "dataset": dataset, "statistic": "meen", "column": "age", "epsilon": 1})
    except Refused as refusal:
        print("refused:", refusal)


if __name__ == "__main__":
    main(*sys.argv[1:])
