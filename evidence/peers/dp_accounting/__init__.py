"""dp-accounting: Google's accountants, which Thebes uses as well."""

from evidence.peers.peer import Peer, Work

_SAME = "the same events, in the same relation (one row more or less)"
_EXACT = (
    "Gaussians add up exactly, and need no distribution for that. Whoever knows it adds ratios up by hand and asks "
    "theirs for one Gaussian"
)
_ROUNDED = "Both fold distributions with the same code; ours adds what the rounding of floats may have lost"


def _work(name: str, does: str, why: str) -> Work:
    return Work(
        name=name,
        does=does,
        tables="noises",
        score="itself",
        measure="epsilon",
        better="less",
        spare=1,
        settings=({"delta": 1e-6},),
        ours_promises=_SAME,
        theirs_promises=_SAME,
        why=why,
    )


PEER = Peer(
    title="dp-accounting",
    about=(
        "What releases cost together. Thebes asks this library for privacy loss distributions, and rounds up; "
        "Gaussians alone it composes exactly. Theirs is its closest accountant, that of distributions."
    ),
    works=(
        _work("gaussians", "200 Gaussian releases, each with noise of its own", _EXACT),
        _work("descent", "10,000 steps of sampled Gaussian noise (rate .01, noise 1.1)", _ROUNDED),
        _work("mixed", "200 different Laplace releases and 10 Gaussian ones", _ROUNDED),
        _work("laplace_alike", "50 Laplace releases, all with the same noise", _ROUNDED),
    ),
)
