"""The meaning of the fields that several kinds of documents have, as the reference and the forms say it."""

from __future__ import annotations

from collections.abc import Mapping

from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.form import Form, PartChoice
from thebes.tasks.site_document import SiteDocument

#: of every document
OF_ALL: Mapping[str, str] = {
    "type": "the task type",
    "version": "of the format",
    "name": "a few words that people see in their list",
    "purpose": "for what the answer will be used, in words that everybody understands; a person's page says where it "
    "is missing",
    "contact": "how to reach whoever asks; a person's page says where it is missing",
    "epsilon": "the total that one contributor pays, over every column, round and extra",
    "delta": "0: only mechanisms with a pure guarantee. Else at least 1e-15, and the mechanism with the least expected "
    "error within epsilon and delta is used; the certificate says what was spent",
    "expires_at": "a moment with a time zone. With fewer people or sites than are needed by then nothing is released",
}

#: of what people answer
OF_PEOPLE: Mapping[str, str] = {
    "server": "whom contributors trust: one server, at least one of two, or nobody. May be left out",
    "min_count": "how many must have contributed before anything is released, for each phase; min_sample_size is "
    "another spelling",
    "max_count": "keeps a phase open until that many, or until expires_at",
    "featurizer": "one SQL SELECT over collector.table names; the task works on its columns",
    "bounds": "what is known of each column beforehand: a range or a set of values, each perhaps with a default",
    "default_is_meant": "true: a simulation may rest on defaults alone. Without it one in which nobody has a usable "
    "value in some column is refused",
    "diagnostics": "a share of epsilon that buys a private count of failing featurizers by class of error",
    "anonymity": "token: only members of the group answer, each once, and nobody can tell who",
    "group": "the group whose members answer",
    "epoch": "of the group; the newest where it is left out",
    "mixed": "what may be learned by somebody who sees the answers and cannot tell whose is whose; needs tokens. The "
    "local epsilon is then found",
    "mixed.epsilon": "of whoever sees the collected answers",
    "mixed.delta": "0.000001, or 1 in 10 times min_count where that is less; not more than 1 in 10 times min_count",
    "mixed.colluding": "the share of the others that breaks the rules, tells what it sent, sends from its own address, "
    "or does not exist",
    "mixed.delay_seconds": "every answer waits a random time up to this. It is the same for everybody, so that no "
    "machine's own setting tells whose it is; where somebody's own is longer, this one holds, and their page says so",
    "helper": "where two servers share the trust: the site that is the second one. It is linked to this coordinator "
    "and of another institution",
    "helper_key": "the helper's fingerprint. Left out, the coordinator fills in what the helper says, and signs the "
    "document with it",
    "missing": "refuse: a person without the value sends nothing. count: null is sent and counted privately",
}

#: of what institutions answer
OF_SITES: Mapping[str, str] = {
    "epsilon": "what one unit pays at each site that answers: somebody whose rows lie at m sites pays m times",
    "delta": "likewise at each site. With one noise over several sites and a delta, m sites make more than m times "
    "delta, as the certificate says",
    "sites": "all, or a list of names",
    "dataset": "the data set's name at every site",
    "noise": "site: each site adds its own, and nobody has to trust the coordinator. coordinator: sites send exact "
    "totals and trust it to add noise once, which makes smaller error bars. split: sites send totals in shares to two "
    "servers, each of which adds noise once",
    "helper": "where noise is split: the site that is the second server. It gives no rows to this question",
    "helper_key": "the helper's fingerprint, which the coordinator fills in",
    "min_sites": "with fewer answers there is no release; left out 1, or 3 where noise is split",
    "patience": "seconds for which a site is waited for",
    "where": "a condition in SQL over declared columns: comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT",
    "features": "new columns by name, made of declared ones by operations that are data",
}

#: of what makes a model by steps
OF_STEPS: Mapping[str, str] = {
    "model": "a network as text from thebes.torch.encode",
    "loss": "the network's loss, from the same",
    "learning_rate": "of every step",
    "momentum": "of the server's steps",
    "average": "which weights are released: tail is the mean over the second half of the rounds, last those after the "
    "last round",
    "clip": "L2 length to which one contributor's gradient is shortened",
}


def common(document: type[Document]) -> dict[str, str]:
    """Return what those fields of a kind's documents mean that are not its own, by their paths."""
    people = OF_PEOPLE if issubclass(document, PeopleDocument) else {}
    sites = OF_SITES if issubclass(document, SiteDocument) else {}
    return {**OF_ALL, **people, **sites}


def meaning(path: str, document: type[Document], form: Form) -> str:
    """Return what a field means: in the kind's own words, in those of all kinds, or as its form helps with it."""
    said = form.meanings.get(path) or common(document).get(path)
    hint = form.fields.get(path)
    return said or ("" if hint is None or isinstance(hint, PartChoice) else hint.help)
