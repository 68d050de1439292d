"""The schemes there are. A group's parameters name theirs; adding one is a file beside `bbs` and a line here."""

from __future__ import annotations

from thebes.privacy.faults import Mistake
from thebes.tokens.bbs.scheme import BbsPseudonyms
from thebes.tokens.scheme import Scheme

DEFAULT = BbsPseudonyms.name
_SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in (BbsPseudonyms(),)}


def named(name: object) -> Scheme:
    """The scheme of this name."""
    if not isinstance(name, str) or name not in _SCHEMES:
        raise Mistake("scheme", f"must be one of {sorted(_SCHEMES)}; a later Thebes may know more")
    return _SCHEMES[name]
