"""The form of a draw-and-discard task."""

from __future__ import annotations

from thebes.tasks.form import Form, FormState, Hint, predicting


def _each(composed: FormState) -> bool:
    """Return whether the price is that of each weight."""
    return composed.get("mechanism") == "laplace"


def _network(composed: FormState) -> bool:
    return not composed.get("family")


FORM = Form(
    rank=6,
    fields={
        "family": Hint(
            first="logistic",
            empty="a network, below",
            wide=True,
            told={
                "logistic": "logistic: which of two values",
                "multinomial": "multinomial: which of several values",
                "linear": "linear: a number",
                "poisson": "Poisson: a count",
            },
        ),
        "model": Hint(help="text from thebes.torch.encode", lines=4, wide=True, when=_network),
        "loss": Hint(help="from the same", lines=3, wide=True, when=_network),
        "mechanism": Hint(
            label="Hidden by",
            wide=True,
            told={
                "privunit": "PrivUnit: one random direction",
                "laplace-l1": "Laplace noise, for the whole person",
                "gaussian": "Gaussian noise, for the whole person",
                "laplace": "Laplace noise, weight by weight",
            },
        ),
        "epsilon": Hint(place="answer", when=lambda form: not _each(form), derived=True),
        "epsilon_per_weight": Hint(
            label="Epsilon of each weight", help="each person pays this for every weight", when=_each
        ),
        "learning_rate": Hint(
            help="a falling one that suits the noise if empty; several with commas are trained at once"
        ),
        "keep": Hint(
            label="Learning rate to show",
            help="the first if empty",
            when=lambda form: "," in form.get("learning_rate"),
        ),
        "decay": Hint(
            label="Half as fast after", help="so many updates; always the same if empty, where you give a rate"
        ),
        "instances": Hint(),
        "max_participations": Hint(label="Times a person may take part", help="they share the price"),
        "reduce": Hint(label="Several rows of one person", help="mean: as one; sum: each counts"),
        "crosses": Hint(
            label="Products of inputs",
            help="learn what two inputs do together: pairwise for every two, or a pair in each line, such as age, "
            "town; none if empty",
            wide=True,
        ),
        **predicting("output"),
    },
)
