"""A coordinator as a requestor sees it.

server = thebes.connect("http://127.0.0.1:8000", token="...")
release = server.submit(document).wait(timeout=60)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from thebes.data.featurizer import read
from thebes.data.schema import read_shown
from thebes.privacy.faults import Mistake, ThebesError
from thebes.requestor.algorithms import algorithms
from thebes.requestor.handle import Handle
from thebes.requestor.institutions import Round, Watching, document_of, must_be_text, named_sites
from thebes.requestor.quote import Quote, quote_from_json
from thebes.requestor.sign_in import SilentRenewal
from thebes.requestor.stored_logins import StoredLogins
from thebes.requestor.tables import Listing
from thebes.tasks import registry
from thebes.tasks.document import Document
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotFound, Unreachable

if TYPE_CHECKING:
    from thebes.requestor.curve import ErrorCurve
    from thebes.sql.answer import SqlAnswer
    from thebes.sql.question import SqlQuestion

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)  #: of a curve, where none are named

AnyDocument = Mapping[str, Any] | Document


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout: float | None = None,
    ca_file: str | Path | None = None,
    proxy: str | None = None,
    trust_env: bool = False,
) -> Server:
    """The coordinator at `url`. Nothing is sent until something is asked.

    `token` is a requestor's; reading open tasks needs none. Without one the sign-in of `thebes login` counts, where
    there is one for this address, and is renewed silently. `timeout` is for one request with its repeats and its
    whole answer, in seconds (30; through a SOCKS proxy 90; four times as long for what may hold a model). `ca_file`
    names a PEM file where the deployment has its own certificate authority; `proxy` a proxy to go through, of HTTP or
    of SOCKS5 (`tor`, `socks5h://HOST:PORT`); `trust_env` lets the environment name one.

    Example: thebes.connect("https://thebes.example").query("patients", "count", epsilon=0.5)
    """
    client = CoordinatorClient(url, token, timeout=timeout, ca_file=ca_file, proxy=proxy, trust_env=trust_env)
    if token is None and StoredLogins().known(client.url):
        client.present_from(SilentRenewal(client.apart()))
    return Server(client)


class Server:
    """The requests that a requestor can make of a coordinator.

    Example:
        server = thebes.connect("https://thebes.example")
        print(server.quote(document))  # what it would cost, and who would answer
        release = server.submit(document).wait(timeout=600)

    """

    def __init__(self, client: CoordinatorClient) -> None:
        self.client = client

    @property
    def url(self) -> str:
        return self.client.url

    def login(self, username: str, password: str) -> datetime:
        """Use the token that the coordinator gives for a name and a password, until the moment that comes back."""
        body = self.client.login(username, password)
        try:
            token, moment = body["token"], datetime.fromisoformat(body["expires_at"])
        except (KeyError, TypeError, ValueError):
            raise Unreachable(self.url, "the answer to the login cannot be read; check the address") from None
        self.client.present(token)
        return moment

    def quote(self, document: AnyDocument) -> Quote:
        """The price of a document before anything is asked of anybody; of a question to sites also whether they would
        answer it now."""
        body = self.client.quote(_checked(document))
        try:
            return quote_from_json(body)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Unreachable(self.url, "the quote cannot be read; the coordinator may be of another version") from None

    def curve(
        self,
        document: AnyDocument,
        epsilons: Sequence[float] = EPSILONS,
        rows_about: int | None = None,
        *,
        repeats: int = 200,
    ) -> ErrorCurve:
        """Say how far off the answer would be at each of these epsilons, and at which of them sites would refuse.

        Each point says `epsilon`, `half_width` (the distance from the exact answer that 95 of 100 answers keep) and its
        `basis`: `formula` where that follows from the noise alone, else `rehearsal`, simulated on this machine over
        made-up rows: of people within their bounds, of sites within their schemas. `rows_about` is about how many rows
        all sites have together, or how many people take part; nobody is asked and nothing is spent.

        Example: print(server.curve(document, [0.1, 0.5, 1, 2], rows_about=5000))
        """
        from thebes.requestor.curve import drawn

        if not epsilons or not all(isinstance(each, (int, float)) and each > 0 for each in epsilons):
            raise Mistake("epsilons", "must be at least one number greater than 0")
        fields = document.as_json() if isinstance(document, Document) else dict(document)
        checked = registry.check({**fields, "epsilon": float(fields.get("epsilon") or min(epsilons))})
        if not isinstance(checked, SiteDocument):
            return drawn(checked, epsilons, rows_about, repeats=repeats)
        schemas = {
            str(site["name"]): checked.schema_among(
                {dataset: read_shown(site["datasets"][dataset]["schema"]) for dataset in checked.datasets}
            )
            for site in self.sites()
            if (site.get("datasets") or {}).keys() >= {*checked.datasets}
            and (checked.sites == "all" or site["name"] in checked.sites)
        }
        said = self.quote(checked).verdicts
        caps = {site: float(one.left["epsilon"]) for site, one in said.items() if one.left is not None}
        return drawn(checked, epsilons, rows_about, schemas=schemas, caps=caps, repeats=repeats)

    def submit(self, document: AnyDocument) -> Handle:
        """Put a document up as a task. What cannot work is refused here, naming the field, before it is sent."""
        known = _checked(document)
        self._warn_of_unpublished(known)
        body = self.client.post_task(known)
        task_id, digest = body.get("task_id"), body.get("digest")
        if not isinstance(task_id, str) or not isinstance(digest, str):
            raise Unreachable(self.url, "no coordinator replied; check the address, then list the tasks")
        if known.get("group") is not None and known.get("epoch") is None:  # the coordinator fills in the newest
            known = {**known, "epoch": self._filled_in(task_id, "epoch")}
        if known.get("helper") is not None and known.get("helper_key") is None:  # and by which key it is known
            known = {**known, "helper_key": self._filled_in(task_id, "helper_key")}
        if known.get("accuracy") is not None:  # and what that costs
            known = {**known, "epsilon": self._filled_in(task_id, "epsilon") or 0.0}
        if known.get("type") in registry.types() and digest != registry.check(known).digest:
            warnings.warn(
                f"the coordinator read the document of task {task_id} differently, so it may be of another version; "
                "compare handle.document with yours",
                UserWarning,
                stacklevel=2,
            )
        return Handle(self.client, task_id, digest)

    def _warn_of_unpublished(self, known: Mapping[str, Any]) -> None:
        """Warn where nobody publishes a table that people are to read: an answer would be made of stand-ins."""
        if not isinstance(known.get("featurizer"), str):
            return
        try:
            published = {
                f"{app}.{table}".lower() for app, told in self.schemas().items() for table in told.get("tables", ())
            }
            missing = [name for name in read(known["featurizer"]).tables if name.lower() not in published]
        except (ThebesError, AttributeError, TypeError):
            return
        if published and missing:
            told = f"nobody publishes {', '.join(missing)} here (server.schemas())"
            beside = "people who agreed by a rule answer with a stand-in where they have no value"
            warnings.warn(f"{told}: {beside}", UserWarning, stacklevel=3)

    def _filled_in(self, task_id: str, name: str) -> Any:
        """Return what the coordinator wrote into a field of a task's document."""
        document = self.client.task(task_id).get("document")
        return document.get(name) if isinstance(document, Mapping) else None

    def task(self, task_id: str) -> Handle:
        """A task that exists already; `NotFound` where it does not."""
        digest = self.client.task(task_id).get("digest")
        return Handle(self.client, task_id, digest if isinstance(digest, str) else None)

    def tasks(self) -> Listing:
        """The open tasks."""
        columns = (
            *("task_id", "type", "status", "contributions", "min_count"),
            *("price.epsilon", "document.anonymity", "document.name"),
        )
        return Listing(self.client.tasks(), columns)

    def schemas(self) -> dict[str, Any]:
        """Return the tables and columns that collectors say they fill: what a featurizer may read."""
        return self.client.schemas()

    def sites(self) -> Listing:
        """The institutions that take part, whether they are linked, and what they may be asked about; empty where there
        are none. `datasets` holds the schema of each data set, never how many rows it has."""
        try:
            found = self.client.sites()
        except NotFound:
            found = []
        return Listing(found, ("name", "state", "last_seen", "datasets"))

    def query(
        self,
        dataset: str,
        statistic: str | Mapping[str, Mapping[str, Any]],
        *,
        column: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        by: str | Sequence[str] | None = None,
        sites: str | Sequence[str] = "all",
        epsilon: float | None = None,
        accuracy: tuple[float, float] | Mapping[str, float] | None = None,
        max_epsilon: float | None = None,
        noise: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Release:
        """One statistic over the rows of one, some or all sites; waits for the answer, for `timeout` seconds if given.

        Of a count, histogram or sum `accuracy` (alpha, beta) may be said instead of epsilon: it costs as little as it
        can, and at most `max_epsilon`; `quote` says beforehand how much. Several statistics, each by its name, share
        one epsilon: {"n": {"statistic": "count"}, "mean_age": {"statistic": "mean", "column": "age"}}.
        `options` are further fields of the document: bins, quantile, delta, min_sites, patience, privacy, name,
        purpose. What the release covers, and who is missing and why, stands in `release.extra["coverage"]`.

        Example: server.query("patients", "mean", column="age", where="sex = 'female'", by="ward", epsilon=0.5)
        """
        groups = [by] if isinstance(by, str) else by
        fields: dict[str, Any] = {
            "statistic" if isinstance(statistic, str) else "statistics": statistic,
            "column": column,
            "columns": columns,
            "where": where,
            "by": groups,
        }
        fields |= {"epsilon": epsilon, "accuracy": accuracy, "max_epsilon": max_epsilon, "noise": noise}
        return self.submit(document_of("query", dataset, sites, fields, options)).wait(timeout)

    def sql(
        self,
        text: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        sites: str | Sequence[str] = "all",
        noise: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> SqlAnswer:
        """One SELECT over a data set of sites; waits for the answer. All of its numbers share epsilon and delta.

        What cannot be private is refused with the clause and a way out. Arithmetic over aggregates, HAVING, ORDER BY
        and LIMIT are done after the noise, and free. Where nobody declared the values of a text in GROUP BY, those that
        enough people have are found first, for half of epsilon and delta, one person counting with at most
        `max_groups_per_person` (1) of them; `release.threshold` says what is enough. `options` are further fields of
        the document.

        Example: server.sql("SELECT ward, COUNT(*), AVG(age) FROM patients GROUP BY ward", epsilon=1)
        """
        question = self.explain_sql(text, epsilon, delta, sites=sites, noise=noise, **options)
        return question.answer(self.submit(question.document).wait(timeout))

    def explain_sql(
        self,
        text: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        sites: str | Sequence[str] = "all",
        noise: str | None = None,
        **options: Any,
    ) -> SqlQuestion:
        """Read a SELECT without asking it: its `document`, and its `explanation` in the words that stewards see."""
        from thebes.sql.declaration import schema_at
        from thebes.sql.question import read
        from thebes.sql.statement import read_statement

        statement, named = read_statement(text), named_sites(sites)
        fields: dict[str, Any] = {"sites": named, "noise": noise, **options}
        schema = schema_at(self.sites(), statement.datasets, named)
        return read(statement, schema, epsilon=epsilon, delta=delta, **fields)

    def train(
        self,
        dataset: str,
        *,
        model: Any,
        inputs: Sequence[str],
        output: str,
        loss: Any = None,
        sites: str | Sequence[str] = "all",
        rounds: int | None = None,
        epsilon: float,
        delta: float,
        noise: str | None = None,
        progress: Callable[[Round], None] | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Release:
        """A model over the rows of all these sites together; waits for it. `release.model` predicts.

        `model` is "LogisticRegression", "LinearRegression", or a network: `model` and `loss` as `thebes.torch.encode`
        gives them. `progress` is told how
        the training stands whenever that has changed: the round, the loss if there is one, and where the time went.
        `options` are further fields of the document: local_steps, learning_rate, clip, batch, where, min_sites,
        tolerance, loss_share, name, purpose and others.

        Example: server.train("patients", model="LogisticRegression", inputs=["age", "bmi"], output="diabetes",
            rounds=30, epsilon=2, delta=1e-6, progress=print)
        """
        must_be_text(model, loss)
        fields: dict[str, Any] = {"model": model, "loss": loss, "inputs": inputs, "output": output, "rounds": rounds}
        fields |= {"epsilon": epsilon, "delta": delta, "noise": noise}
        handle = self.submit(document_of("train", dataset, sites, fields, options))
        return handle.wait(timeout, progress="auto" if progress is None else Watching(handle, progress))

    def algorithms(self) -> Listing:
        """Every kind of task this installation knows, with the choices its documents offer."""
        return Listing(algorithms(), ("type", "answered_by", "server", "choices"))

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<coordinator at {self.url}>"


def _checked(document: AnyDocument) -> dict[str, Any]:
    """The document as it will be read. A kind that only the coordinator knows is left for it to judge."""
    named = document.get("type") if isinstance(document, Mapping) else None
    if isinstance(document, Mapping) and isinstance(named, str) and named not in registry.written_types():
        return dict(document)
    return registry.check(document).as_json()
