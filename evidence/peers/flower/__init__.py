"""Flower: what a federated round costs, over processes of their own."""

from evidence.peers.peer import Peer, Work

PEER = Peer(
    title="Flower",
    about=(
        "A logistic regression on Adult (32,561 rows, 7 columns, scaled by public bounds), shared out over three "
        "sites: one step down all rows of a site in each round, averaged by a server. Server, sites and whoever asks "
        "are processes of one machine, started by the commands that people type, and asked once before anything is "
        "measured. The time is that of the asking command, from its start to its end."
    ),
    works=(
        Work(
            name="federated",
            does="three sites, by rounds",
            tables="census_scaled",
            score="accuracy",
            measure="accuracy",
            better="neither",
            settings=({"rounds": 2}, {"rounds": 5}),
            warm=False,
            ours_promises=(
                "epsilon 2 and delta 1e-6 for a person more or less at a site, with noise that each site adds; a "
                "policy, a ledger, an audit log, and links with certificates on both sides"
            ),
            theirs_promises=(
                "nothing, as it was asked here (noise and secure aggregation are its options), on links without "
                "encryption"
            ),
            our_files=("ours.commands", "ask.py", "schema.toml"),
            why=(
                "Flower starts a new process for every message to a site, as it stands, which takes seconds and is "
                "what a round costs here; where a step takes minutes that does not show. Our sites keep the process "
                "that has the rows. So few rounds are too few to learn from; ours are shortened and noised besides"
            ),
            their_files=(
                "theirs.commands",
                "config.toml",
                "app/pyproject.toml",
                "app/census/client_app.py",
                "app/census/server_app.py",
            ),
        ),
    ),
)
