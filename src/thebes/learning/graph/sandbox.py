"""The owner's side of the child process: hands it rows, takes back gradients of exactly the expected size.

Whatever goes wrong in the child (too slow, too big, crashed, wrong answer) becomes a gradient of zeros, so that
failure looks like any other contribution; the reason stays in `failures`, in words that hold no data.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.confinement.fork_server import ForkServer, can_fork
from thebes.confinement.measures import MEASURES
from thebes.confinement.parent import Child, ChildLost, ChildProcess
from thebes.learning.graph import pipe
from thebes.learning.graph.document import BACKBONE, DOCUMENT, GraphLimits, GraphLoss, Model, read_loss, read_model
from thebes.learning.graph.gradient_clip import finite
from thebes.learning.graph.interpret import Floats, mean_gradient, outputs_of, per_example_gradients
from thebes.learning.graph.lanes import gradients_and_losses, outputs
from thebes.learning.graph.weights import checked
from thebes.privacy.faults import Fault, Mistake, Refusal

_CHILD = "thebes.learning.graph.child"
_START_SECONDS = 120.0
_EXCHANGE_FLOATS = 2**24  # 64 MiB of gradients per exchange
_REMEMBERED = 100
_WAYS = {
    pipe.EACH: per_example_gradients,
    pipe.MEAN: mean_gradient,
    pipe.APART: gradients_and_losses,
    pipe.SAID: outputs,
}
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_SERVER = ForkServer("thebes.learning.graph.child_server", **_ONE_THREAD)  #: of this process, for all of its tasks


class GradientWorker:
    """Gradients of one consented model and loss, computed in one capped child for as long as the `with` block lasts.

    `wall_seconds` bounds one request, after which the child is killed; `memory_bytes` is what a child may allocate on
    top of torch itself; `cpu_seconds` its whole life. A child that could not be cut off from the network refuses to
    start unless `unsafe_allow_network`. `trusted` computes in this process instead, for simulations of one's own
    models only: the same interpreter, no child. With a `backbone` (a text from a `Catalogue`) the rows are its inputs
    and the consented model works on its features. A lost child is started again within the next request's time.
    """

    def __init__(
        self,
        model: str,
        loss: str,
        *,
        backbone: str | None = None,
        limits: GraphLimits = DOCUMENT,
        wall_seconds: float = 60.0,
        memory_bytes: int = 2**31,
        cpu_seconds: int = 24 * 3600,
        trusted: bool = False,
        unsafe_allow_network: bool = False,
    ) -> None:
        if not 0 < wall_seconds <= 86_400:
            raise Mistake("wall_seconds", "must be between 0 and 86400")
        self.model: Model = read_model(model, limits=limits)
        self.loss: GraphLoss = read_loss(loss, self.model)
        self.backbone: Model | None = None
        if backbone is not None:
            self.backbone = read_model(backbone, argument="backbone", limits=BACKBONE)
            if math.prod(self.backbone.output_shape) != self.model.input.columns:
                raise Mistake("backbone", f"gives other features than the {self.model.input.columns} the model takes")
        self.confinement: tuple[str, ...] = ()
        self.failures: deque[str] = deque(maxlen=_REMEMBERED)
        self._texts = (model.encode(), loss.encode(), (backbone or "").encode())
        self._wall_seconds = wall_seconds
        self._caps = (memory_bytes, cpu_seconds)
        self._trusted = trusted
        self._allow_network = unsafe_allow_network
        self._moment = math.inf
        self._child: ChildProcess | None = None

    def __enter__(self) -> Self:
        if not self._trusted:
            try:
                self._start(time.monotonic() + _START_SECONDS)
            except ChildLost as lost:
                raise Fault(f"the child process for gradients does not start: {lost}") from lost
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def parameter_count(self) -> int:
        return self.model.graph.parameter_count

    def finish_by(self, moment: float) -> None:
        """Give zeros for whatever is not there by `moment` (of `time.monotonic`), in all requests from now on."""
        self._moment = moment

    def gradients(self, weights: ArrayLike, inputs: ArrayLike, targets: ArrayLike) -> Floats:
        """One gradient per row, shape (rows, P), float32, entries possibly NaN: for `clip_rows`.

        All zeros if the child failed at any row.
        """
        given = self._checked(weights, inputs, targets)
        found = self._by_row(*given, pipe.EACH)
        return np.zeros((len(given[1]), self.parameter_count), dtype=np.float32) if found is None else found

    def mean(self, weights: ArrayLike, inputs: ArrayLike, targets: ArrayLike) -> NDArray[np.float64]:
        """The mean gradient over the rows of one owner, shape (P,), finite; NaN and infinity of a row count as 0.

        Zeros if the child failed, or without rows. Not clipped yet.
        """
        flat, rows, truths = self._checked(weights, inputs, targets)
        deadline = min(time.monotonic() + self._wall_seconds, self._moment)
        found = self._computed(flat, rows, truths, deadline, pipe.MEAN) if len(rows) else None
        return np.zeros(self.parameter_count, dtype=np.float64) if found is None else finite(found)

    def apart(self, weights: ArrayLike, inputs: ArrayLike, targets: ArrayLike) -> Floats | None:
        """Gradient and loss of each row, shape (rows, P + 1), each a function of its row and the weights alone, entries
        possibly NaN; None if the child failed. For rows of many people, of whom none may change what another's gives.
        """
        return self._by_row(*self._checked(weights, inputs, targets), pipe.APART)

    def outputs(self, weights: ArrayLike, inputs: ArrayLike) -> Floats | None:
        """Return what the model says of each row, in one line of all its numbers, as much alone as in `apart`; None if
        the child failed."""
        none = np.zeros((len(np.asarray(inputs)), self.loss.targets.columns), dtype=np.float32)
        return self._by_row(*self._checked(weights, inputs, none), pipe.SAID)

    def _by_row(self, flat: Floats, rows: Floats, truths: Floats, wanted: int) -> Floats | None:
        """Return one line for each row, computed some at a time; None if the child failed at any."""
        result = np.zeros((len(rows), self._wide(wanted)), dtype=np.float32)
        deadline = min(time.monotonic() + self._wall_seconds, self._moment)
        spread = math.prod(self.loss.targets.shape)  # as many numbers the child makes of one row's target
        size = max(_EXCHANGE_FLOATS // (result.shape[1] + rows.shape[1] + spread), 1)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            found = self._computed(flat, rows[part], truths[part], deadline, wanted)
            if found is None:
                return None
            result[part] = found
        return result

    def _wide(self, wanted: int) -> int:
        if wanted == pipe.SAID:
            return math.prod(self.model.output_shape[1:])
        return self.parameter_count + (wanted == pipe.APART)

    def _checked(self, weights: ArrayLike, inputs: ArrayLike, targets: ArrayLike) -> tuple[Floats, Floats, Floats]:
        flat = checked(self.model.graph, weights)
        rows = _table(inputs, (self.backbone or self.model).input.columns, "inputs")
        truths = _table(targets, self.loss.targets.columns, "targets")
        if len(rows) != len(truths):
            raise Mistake("targets", "must have as many rows as the inputs")
        return flat, rows, truths

    def _computed(self, flat: Floats, rows: Floats, truths: Floats, deadline: float, wanted: int) -> Floats | None:
        """Return what the child (or, trusted, this process) computes; None if it failed, with the reason noted."""
        if self._trusted:
            if self.backbone is not None:
                rows = outputs_of(self.backbone, self.backbone.initial, rows)
            return _WAYS[wanted](self.model, self.loss, flat, rows, truths)
        if time.monotonic() >= deadline:
            self.failures.append("its time was over before it began")
            return None
        wide = self._wide(wanted)
        shape = (wide,) if wanted == pipe.MEAN else (len(rows), wide)
        parts = [pipe.REQUEST.pack(len(rows), wanted)]
        parts += [np.ascontiguousarray(each, dtype="<f4").tobytes() for each in (flat, rows, truths)]
        try:
            if self._child is None:
                self._start(deadline)
            answer = self._exchange(b"".join(parts), 4 * math.prod(shape), deadline)
        except ChildLost as lost:
            self.failures.append(str(lost))
            return None
        return np.frombuffer(answer, dtype="<f4").reshape(shape)

    def _start(self, deadline: float) -> None:
        """A child that has confined itself and read the documents."""
        self._stop()
        self._child = _SERVER.child(deadline) if can_fork() else Child(_CHILD, **_ONE_THREAD)
        bits = self._exchange(pipe.START.pack(*self._caps), pipe.CONFINEMENT_BYTES, deadline, status=False)[0]
        self.confinement = tuple(measure for place, measure in enumerate(MEASURES) if bits >> place & 1)
        if "network" not in self.confinement and not self._allow_network:
            self._stop()
            raise Refusal("this machine cannot cut the child process off from the network; nothing was computed")
        lengths = pipe.DOCUMENTS.pack(*(len(text) for text in self._texts))
        self._exchange(lengths + b"".join(self._texts), 0, deadline)

    def _exchange(self, question: bytes, size: int, deadline: float, *, status: bool = True) -> bytes:
        """Sends everything and hears exactly the answer, by the deadline; otherwise the child is gone."""
        if self._child is None:
            raise ChildLost("it is not there")
        try:
            answer = self._child.talk(question, deadline, _with_status(size) if status else lambda _: size)
        except ChildLost:
            self._stop()
            raise
        if status and answer == pipe.FAILED:
            raise ChildLost("it could not compute the gradient")  # and lives on
        return answer[1:] if status else answer

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()


def _with_status(size: int) -> Callable[[bytearray], int]:
    """Make the rule of how long an answer is that begins with DONE, or is FAILED alone."""

    def wanted(heard: bytearray) -> int:
        if heard[:1] == pipe.FAILED:
            return len(pipe.FAILED)
        if heard and heard[:1] != pipe.DONE:
            raise ChildLost("it answered out of turn")
        return len(pipe.DONE) + size

    return wanted


def _table(values: ArrayLike, columns: int, argument: str) -> Floats:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(values, dtype=np.float32)
    except (ValueError, TypeError, OverflowError) as error:
        raise Mistake(argument, "must be rows of numbers") from error
    if array.ndim == 1 and columns == 1:
        array = array.reshape(-1, 1)
    if array.ndim < 2 or array[:1].size != columns * len(array[:1]):
        raise Mistake(argument, f"must have {columns} numbers in each row")
    return array.reshape(len(array), columns)
