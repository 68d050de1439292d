"""torch, with Opacus around it and without."""

from evidence.peers.peer import Peer, Work

_DOES = "a network of 16 units on Adult (32,561 rows, 7 columns), 100 steps over a twentieth of the rows"
_OURS = (
    "epsilon and delta 1e-6 for a person more or less. Coins and noise come from the operating system, noise is drawn "
    "on whole numbers, and sums are divided by a private number of people"
)
_ENGINE = (
    "epsilon and delta 1e-6 for a row more or less. Samples and noise come from torch's own generator, which is none "
    "for secrets, noise in floating point, and the size of a batch follows from the number of rows, which is taken to "
    "be public"
)
_LINE = "Neither network has learned more than a line does (scikit-learn, below), so noise has little to take away"


def _work(name: str, does: str, theirs: str, why: str, *epsilons: float) -> Work:
    return Work(
        name=name,
        does=does,
        tables="census_numbers",
        ours="private_network",
        score="accuracy",
        measure="accuracy",
        settings=tuple({"epsilon": epsilon} for epsilon in epsilons),
        ours_promises=_OURS,
        theirs_promises=theirs,
        why=why,
    )


PEER = Peer(
    title="torch and Opacus",
    about=(
        "Networks with noise in every step. Ours is a whole training of one site: the network travels as data and runs "
        "in a confined child process, a ledger is charged for every round, and the release carries its certificate. "
        "Steps, samples, clipping and momentum are the same; the plain network has the usual optimizer (Adam), "
        "because unclipped gradients would not stand such a rate."
    ),
    works=(
        _work("private_network", _DOES, _ENGINE, "", 0.25, 1),
        _work("plain_network", f"{_DOES}; theirs is not private, and takes 400 steps", "nothing", _LINE, 1),
    ),
)
