"""The tasks of `thebes demo`: what is asked, and how the answer is held against the truth.

What must stay true: there is a scene of every kind; a model is `ok` only where it is better than guessing; and honest
noise fails a scene less than once in a million runs. A statistic fails beyond `WIDENED` times its bar: for Laplace
noise that is once in exp(27), for normal noise more than 17 standard deviations. Of a model no size of luck is that
small, so what so few people taught too little is said, and fails nothing: only that no answer comes fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from thebes.data.rows import Rows
from thebes.privacy.figures import figure
from thebes.tasks.release import Release

LEAST = 11  #: people, below which a coordinator releases nothing
GAINED = 0.3  #: the least share of the way from one guess for everybody to a model without noise
WIDENED = 9.0  #: so many times its 95 % interval's half width is out of reach of honest noise, of whole numbers too


@dataclass(frozen=True)
class Verdict:
    """`value` beside what the same people's rows give without noise; `answer` is what a person would call it. What is
    not `ok` has failed, but for a model, which then tells no more than a guess."""

    true: float
    value: float
    ok: bool
    interval: dict[str, Any] | None = None
    answer: str | None = None
    guessing: float | None = None  #: what one guess for everybody would score; None where no model is judged

    @property
    def word(self) -> str:
        return "ok" if self.ok else "FAILED" if self.guessing is None else "guess"


@dataclass(frozen=True)
class Scene:
    """One task. `judge` sees the release, the rows of those who contributed, and everybody's. `metric` names what a
    model is measured by. `few`: each contribution is slow, or few may give one, so few people are asked."""

    name: str
    document: dict[str, Any]
    judge: Callable[[Release, Rows, Rows], Verdict]
    metric: str | None = None
    few: bool = False


def wanted(people: int) -> int:
    """Return how many must answer: a third of the people, more of a small crowd, and never more than would."""
    return max(LEAST, people // 3, min(100, people * 3 // 5))


def scenes(people: int) -> list[Scene]:
    """Every scene, for so many people. A small crowd pays more for the same sharpness."""
    sharp = float(max(1, -(-100 // wanted(people))))
    made = [*_of_contributors(sharp), *_of_requestors(sharp), _packets(sharp), _lasting(sharp), _tokens(), _network()]
    return [_counted(scene, people) for scene in made]


def waiting(people: int) -> list[Scene]:
    """A task that only lacks the answer of whoever looks at the demo: the one that trusts no server."""
    return [scene for scene in scenes(people) if scene.document["type"] == "bounded"][:1]


def _counted(scene: Scene, people: int) -> Scene:
    count = LEAST if scene.few else wanted(people)
    document = {**scene.document, "name": scene.name, "min_count": count}
    if document["type"] == "draw-discard":  # it would never end, and everybody's rules agree to what is open
        document["max_count"] = count
    return Scene(scene.name, document, scene.judge, scene.metric, scene.few)


def _of_contributors(sharp: float) -> list[Scene]:
    """Return what people are asked in the study of contributors: a statistic, two models, perturbed rows."""
    share = {"type": "range", "low": 0.0, "high": 0.8}
    hours = {"type": "range", "low": 0.0, "high": 5.0, "default": 0.0}
    age = {"type": "range", "low": 18, "high": 95}
    return [
        Scene(
            "median age",
            {
                "type": "basic",
                "epsilon": 3 * sharp,
                "featurizer": "SELECT age FROM profile.demographics",
                "aggregator": "median",
                "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
                "purpose": "To know how old the people here are",
            },
            _number(_median),
        ),
        Scene(
            "age from school, income",
            {
                "type": "integrated",
                "epsilon": 6 * sharp,
                "delta": 1e-6,
                "featurizer": "SELECT education, min(income, 150) AS income, age FROM profile.demographics",
                "model": "LinearRegression",
                "inputs": ["education", "income"],
                "output": "age",
                "bounds": {
                    "education": {"type": "range", "low": 8, "high": 21},
                    "income": {"type": "range", "low": 0, "high": 150},
                    "age": age,
                },
                "purpose": "To see whether school and income tell people's age",
            },
            _regression,
            metric="years",
        ),
        Scene(
            "age from sites visited",
            {
                "type": "integrated",
                "epsilon": 6 * sharp,
                "delta": 1e-6,
                "featurizer": (
                    "SELECT avg(domain = 'social.example') AS social, avg(domain = 'news.example') AS news, "
                    "(SELECT age FROM profile.demographics) AS age FROM browser.visits"
                ),
                "model": "LinearRegression",
                "inputs": ["social", "news"],
                "output": "age",
                "bounds": {"social": share, "news": share, "age": age},
                "purpose": "To see whether the sites people visit tell their age",
            },
            _regression,
            metric="years",
        ),
        Scene(
            "hours of video a day",
            {
                "type": "bounded",
                "epsilon": 4.0,
                "featurizer": _hours("social", "video", "work"),
                "bounds": dict.fromkeys(("social", "video", "work"), hours),
                "purpose": "To know how long people use which kind of application",
            },
            _mean_of("video"),
        ),
    ]


def _of_requestors(sharp: float) -> list[Scene]:
    """The three problems of the study of requestors."""
    from thebes.simulation.population import SITES

    lean = " ".join(
        f"WHEN '{site}.example' THEN {sign}"
        for site, sign in (("sports", 1), ("motors", 1), ("fashion", -1), ("recipes", -1))
    )
    return [
        Scene(
            "share of men",
            {
                "type": "basic",
                "epsilon": sharp,
                "featurizer": "SELECT gender = 'Male' AS man FROM profile.demographics",
                "aggregator": "mean",
                "bounds": {"man": {"type": "range", "low": 0, "high": 1}},
                "purpose": "What share of the people is male?",
            },
            _number(_mean),
        ),
        Scene(
            "gender from sites",
            {
                "type": "integrated",
                "epsilon": 6 * sharp,
                "featurizer": (
                    f"SELECT sum(CASE domain {lean} ELSE 0 END) / (count(*) + 0.0) AS lean, "  # noqa: S608
                    "(SELECT gender FROM profile.demographics) AS gender FROM browser.visits"
                ),
                "model": "GaussianNB",
                "inputs": ["lean"],
                "output": "gender",
                "bounds": {
                    "lean": {"type": "range", "low": -0.5, "high": 0.5},
                    "gender": {"type": "set", "values": ["Female", "Male"]},
                },
                "purpose": "Can a person's gender be told from the sites they visit?",
            },
            _classifier,
            metric="right",
        ),
        Scene(
            "favourite site, over 21",
            {
                "type": "basic",
                "epsilon": sharp,
                "featurizer": (
                    "SELECT CASE WHEN age > 21 THEN (SELECT domain FROM browser.visits GROUP BY domain "
                    "ORDER BY count(*) DESC, domain LIMIT 1) ELSE 'none' END AS site FROM profile.demographics"
                ),
                "aggregator": "histogram",
                "bounds": {"site": {"type": "set", "values": [*SITES, "none"], "default": "none"}},
                "purpose": "Which sites do people older than 21 visit most?",
            },
            _most_frequent,
        ),
    ]


def _packets(sharp: float) -> Scene:
    x = {"type": "range", "low": -3, "high": 3, "default": 0}
    return Scene(
        "y from two packets each",
        {
            "type": "ensemble",
            "epsilon": 8 * sharp,
            "featurizer": "SELECT x0, x1, y FROM profile.example",
            "label": "y",
            "bounds": {"x0": x, "x1": x, "y": {"type": "set", "values": [0, 1], "default": 0}},
            "bins": {"x0": [-0.5, 0.5], "x1": [-0.5, 0.5]},
            "partitions": 1,
            "subsets": 2,
            "votes": "probability",
            "purpose": "To learn a rule from packets that each hold one input and the label, changed at random",
        },
        _beside_regression,
        metric="right",
    )


def _lasting(sharp: float) -> Scene:
    x = {"type": "range", "low": -1, "high": 1, "default": 0}
    return Scene(
        "y, one after another",
        {
            "type": "draw-discard",
            "epsilon": 10 * sharp,
            "featurizer": "SELECT x0, x1, y FROM profile.example",
            "family": "logistic",
            "inputs": ["x0", "x1"],
            "output": "y",
            "bounds": {"x0": x, "x1": x, "y": {"type": "set", "values": [0, 1], "default": 0}},
            "instances": 3,
            "learning_rate": 2.0,
            "decay": 20,
            "purpose": "To learn a rule from one person after another, each changing a model a little",
        },
        _beside_regression,
        metric="right",
    )


def _tokens() -> Scene:
    return Scene(
        "share of women, tokens",
        {
            "type": "bounded",
            "epsilon": 4.0,
            "group": "neighbours",
            "anonymity": "token",
            "featurizer": "SELECT gender FROM profile.demographics",
            "bounds": {"gender": {"type": "set", "values": ["Female", "Male"], "default": "Female"}},
            "purpose": "Answered by members of a group: each at most once, and nobody can tell who",
        },
        _share_of("gender", "Female"),
        few=True,
    )


def _network() -> Scene:
    return Scene(
        "y from a small network",
        {
            "type": "gradient",
            "epsilon": 10.0,
            "featurizer": "SELECT x0, x1, y FROM profile.example",
            "inputs": ["x0", "x1"],
            "outputs": ["y"],
            "model": MODEL,
            "loss": LOSS,
            "rounds": 1,
            "learning_rate": 2.0,
            "purpose": "To train a network without seeing anybody's data",
        },
        _network_beside_descent,
        metric="right",
        few=True,
    )


def _hours(*types: str) -> str:
    """A day's hours with each type of application: when one was left minus when it came, over the week."""
    signed = "CASE e.event WHEN 'closed' THEN 1 ELSE -1 END * unixepoch(e.at)"
    sums = (f"sum(CASE t.type WHEN '{type_}' THEN {signed} ELSE 0 END) / 25200.0 AS {type_}" for type_ in types)
    columns = ", ".join(sums)
    return f"SELECT {columns} FROM screen.events e JOIN screen.types t ON t.application = e.application"  # noqa: S608


# --- beside the truth ---------------------------------------------------------------------------------------


def _column(rows: Rows, name: str | None = None) -> Any:
    import numpy as np

    columns = rows.first().columns
    found = columns[name] if name is not None else next(iter(columns.values()))
    return found if found.dtype.kind == "O" and isinstance(found[0], str) else np.asarray(found, dtype=float)


def _median(rows: Rows) -> float:
    import numpy as np

    return float(np.median(_column(rows)))


def _mean(rows: Rows) -> float:
    return float(_column(rows).mean())


def beside(true: float, value: float, bar: Mapping[str, Any] | None, answer: str | None = None) -> Verdict:
    """Judge whether the truth lies in reach of the error bar; without one nothing shows that it does."""
    if bar is None:
        return Verdict(true, value, ok=False, answer=answer)
    middle, half = (bar["high"] + bar["low"]) / 2, (bar["high"] - bar["low"]) / 2
    return Verdict(true, value, abs(true - middle) <= WIDENED * half, dict(bar), answer)


def _number(truth: Callable[[Rows], float]) -> Callable[[Release, Rows, Rows], Verdict]:
    def judge(release: Release, mine: Rows, everybody: Rows) -> Verdict:
        return beside(truth(mine), float(release.value), release.as_json()["interval"])

    return judge


def _most_frequent(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    """The site that the answer names first, and for how many people it, or the true one, comes first."""
    from collections import Counter

    counts = Counter(site for site in _column(mine) if site != "none")
    told = {site: number for site, number in release.value.items() if site != "none"}
    first = max(told, key=lambda site: told[site])
    ends = release.as_json()["interval"]
    bar = {"level": ends["level"], "low": ends["low"][first], "high": ends["high"][first]}
    return beside(float(counts.most_common(1)[0][1]), float(told[first]), bar, answer=first)


def _mean_of(column: str) -> Callable[[Release, Rows, Rows], Verdict]:
    def judge(release: Release, mine: Rows, everybody: Rows) -> Verdict:
        import numpy as np

        low, high = (
            release.extra["document"]["bounds"][column]["low"],
            release.extra["document"]["bounds"][column]["high"],
        )
        true = float(np.clip(_column(mine, column), low, high).mean())
        value, bar = release.mean(column)  # type: ignore[attr-defined]
        return beside(true, value, bar.as_json())

    return judge


def _share_of(column: str, value: str) -> Callable[[Release, Rows, Rows], Verdict]:
    def judge(release: Release, mine: Rows, everybody: Rows) -> Verdict:
        import numpy as np

        shares = release.frequencies[column]  # type: ignore[attr-defined]
        ends = release.frequency_interval(column).as_json()  # type: ignore[attr-defined]
        place = list(shares).index(value)
        bar = {"level": ends["level"], "low": ends["low"][place], "high": ends["high"][place]}
        return beside(float(np.mean(_column(mine, column) == value)), shares[value], bar)

    return judge


def _table(rows: Rows, names: Any) -> Any:
    import numpy as np

    return np.column_stack([_column(rows, name) for name in names])


def _regression(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    """Mean errors of two models over everybody; a prediction outside 18 to 95 counts as the nearer end. No one guess
    for everybody errs less than the median."""
    import numpy as np
    from sklearn.linear_model import LinearRegression

    *inputs, output = mine.columns
    told, rows = _column(everybody, output), _table(everybody, inputs)
    exact = LinearRegression().fit(_table(mine, inputs), _column(mine, output))

    def error(said: Any) -> float:
        return float(np.abs(np.clip(said, 18, 95) - told).mean())

    true, value = error(exact.predict(rows)), error(release.model.predict(rows))  # type: ignore[attr-defined]
    guessed = error(np.full(len(told), np.median(told)))
    words = f"errs by {figure(value, 3)}, and one guess for everybody by {figure(guessed, 3)}"
    gained = better(-true, -value, -guessed)
    return Verdict(true, value, gained, answer=None if gained else poor(words, value < guessed), guessing=guessed)


def _classifier(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    import numpy as np
    from sklearn.naive_bayes import GaussianNB

    *inputs, output = mine.columns
    told, rows = _column(everybody, output), _table(everybody, inputs)
    exact = GaussianNB().fit(_table(mine, inputs), _column(mine, output))

    def accuracy(model: Any) -> float:
        return float(np.mean(np.asarray(model.predict(rows)) == told))

    return told_right(accuracy(exact), accuracy(release.model), told)  # type: ignore[attr-defined]


def _beside_regression(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    inputs = ("x0", "x1")
    everyone, told = _table(everybody, inputs), _column(everybody, "y")
    label = _column(mine, "y")
    exact = LogisticRegression().fit(_table(mine, inputs), label) if len(set(label.tolist())) > 1 else None

    def accuracy(guess: Any) -> float:
        return float(np.mean(np.asarray(guess, dtype=float) == told))

    true = accuracy(np.full(len(told), label[0]) if exact is None else exact.predict(everyone))
    return told_right(true, accuracy(release.model.predict(everyone)), told)  # type: ignore[attr-defined]


def told_right(true: float, value: float, told: Any) -> Verdict:
    """Judge the share of labels that a model tells right. So few people teach it little, by chance nothing at all: that
    the answer came is what must work, and what it is worth is said."""
    guessed = float(max((told == label).mean() for label in set(told.tolist())))
    gained = better(true, value, guessed)
    words = f"tells {value:.0%} right, and one guess for everybody {guessed:.0%}"
    return Verdict(true, value, gained, answer=None if gained else poor(words, value > guessed), guessing=guessed)


def better(true: float, value: float, guessed: float) -> bool:
    """Return whether a score is above a guess's, and as far as may be asked where a model without noise scores
    `true`."""
    return value > guessed and value - guessed >= GAINED * (true - guessed)


def poor(words: str, any_better: bool) -> str:
    """Say of a model that is not `better` how it does beside guessing."""
    return f"{'hardly' if any_better else 'no'} better than guessing: it {words}"


def _network_beside_descent(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    """One step from nothing goes along the mean of the shortened gradients; the truth does so without their noise."""
    import numpy as np

    rows, label = _table(mine, ("x0", "x1")), _column(mine, "y")
    shortened = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1) / 2**0.5)[:, None]
    step = ((label - 0.5)[:, None] * shortened).mean(axis=0)
    everyone, told = _table(everybody, ("x0", "x1")), _column(everybody, "y")

    def accuracy(guess: Any) -> float:
        return float(np.mean(np.asarray(guess).astype(int) == told))

    value = accuracy(release.model.predict(everyone))  # type: ignore[attr-defined]
    return told_right(accuracy(everyone @ step > 0), value, told)


#: what `thebes.torch.encode(Linear(2, 2, bias=False) of zeros, CrossEntropyLoss())` gives: the demo loads no PyTorch
MODEL = (
    '{"format":"thebes-graph","inputs":[{"kind":"number","name":"input","shape":[1,2]}],"nodes":[{"arguments":'
    '{"input":"input","weight":"weight"},"name":"n0","operation":"aten.linear.default"}],"output":"n0","version":1,'
    '"weights":[{"name":"weight","shape":[2,2],"trained":true}]}'
    "\nQAAAAAAAAAB7IndlaWdodCI6eyJkdHlwZSI6IkYzMiIsInNoYXBlIjpbMiwyXSwiZGF0YV9vZmZzZXRzIjpbMCwxNl19fSAgAAAAAAAAAAAAAAAA"
    "AAAAAA=="
)
LOSS = (
    '{"format":"thebes-graph","inputs":[{"kind":"number","name":"outputs","shape":[1,2]},{"kind":"class","name":'
    '"targets","shape":[1,2]}],"nodes":[{"arguments":{"self":"outputs","target":"targets"},"name":"n0","operation":'
    '"aten.cross_entropy_loss.default"}],"output":"n0","version":1,"weights":[]}'
)
