"""The form of a draw-and-discard task."""

from __future__ import annotations

from collections.abc import Mapping

from thebes.tasks.form import Form, FormState, Hint, predicting


def _each(composed: FormState) -> bool:
    """Return whether the price is that of each weight."""
    return composed.get("mechanism") == "laplace"


def _network(composed: FormState) -> bool:
    return not composed.get("family")


_MEANINGS: Mapping[str, str] = {
    "bounds": "a range or a set for every column. Of a set of m values m - 1 columns are made, the last value being "
    "the reference; a range is scaled to [0, 1]",
    "inputs": "columns that the model predicts from",
    "output": "the column that it predicts",
    "family": "linear (output: a range), logistic (a set of two; the second is 1), poisson (a range from 0 or above), "
    "multinomial (a set)",
    "crosses": "which products of two inputs are features too: pairwise (all of them), or a list of pairs",
    "model": "instead of a family: a small network as text from thebes.torch.encode",
    "loss": "the network's loss, from the same",
    "instances": "k. All of them together hold at most 2^22 numbers",
    "learning_rate": "left out: .09 over the length of all weights' noise together (in clips), at most .1, halved "
    "after 60,000 updates; it is written into the document. A list of rates is as many lanes of k instances each, "
    "trained at once",
    "decay": "after t updates the rate is rate / (1 + t / decay). A rate that is given without it stays as it is",
    "keep": "which lane's average the answer shows, the first where it is left out; the others stand in lanes",
    "reduce": "how the gradients of up to 1,000 rows of one owner become one",
    "clip": "to what that is shortened",
    "mechanism": "what hides an owner",
    "epsilon_per_weight": "with laplace: what each weight costs. The person pays it for every weight, and epsilon is "
    "filled in",
    "max_participations": "how often one owner may take part; epsilon is shared evenly",
    "start": "the weights to begin with; zeros where they are left out",
    "outliers": "what becomes of an update far from the average: refused, or taken, counted and mixed in nowhere",
    "false_positives": "how often an honest contribution may be taken for an outlier, over all weights",
    "stale_after": "an update of a model drawn so many updates ago is refused; 100 for each instance where it is left "
    "out",
    "average": "weights; or predictions: those of all instances are averaged, so every release holds all instances, "
    "of at most 2^18 numbers",
    "target": "stop once no weight of the average moved by so much or more during so many updates",
    "target.moved": "by how much",
    "target.over": "during how many updates",
}

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
    meanings=_MEANINGS,
)
