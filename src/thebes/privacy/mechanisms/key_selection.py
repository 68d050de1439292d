"""The keys that enough people have, of keys that only the data knows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.distributions import normal_cdf, normal_quantile
from thebes.privacy.events import ApproximateEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Sensitivity


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The noise on the number of people of each key, and the least noisy number with which a key is said.

    Each person counts once with at most `keys` of the keys that they have, chosen by what is theirs alone. Numbers stay
    unsaid: a key is said, or not.

    Proof (stability-based selection: Korolova et al. 2009; Bun, Nissim & Stemmer 2016, theorem 3.5; several keys of a
    person: Gopi et al. 2020, Desfontaines et al. 2022). Let D have one person more than D', who counts with j keys that
    others have too and with i keys that nobody else has, j + i <= k. The two worlds say the shared keys by noisy
    numbers of which j differ by 1, and independently of them D says its i keys each with odds p = P(1 + noise >=
    threshold), while D' never does. The first pair is (epsilon, d1)-close: with Laplace noise of scale k / epsilon, as
    the L1 distance is at most k, d1 = 0; with Gaussian noise for an L2 distance of sqrt(k), d1 = delta / 2. The second
    is (0, d2)-close, both ways, with d2 = 1 - (1 - p)^i: it is the odds that anything is said at all. Independent pairs
    that are close by themselves are close together with the sums. The threshold is the least whole number with d2 <=
    delta - d1 for i = k. Laplace noise: p = q^(threshold - 1) / (1 + q) with q = e^(-1 / scale), and d2 <= k p.
    Gaussian noise on a grid: P(X >= m) <= P(N >= m - 1) for a step m of it (Canonne, Kamath & Steinke 2020, proposition
    25).
    """

    noise: Additive
    least: int  #: the threshold
    keys: int
    event: ApproximateEvent

    @classmethod
    def calibrated(cls, *, epsilon: exact.Number, delta: exact.Number, keys: int) -> KeySelection:
        """The selection with the lower threshold, by Laplace or by Gaussian noise: both are public."""
        if isinstance(keys, bool) or not isinstance(keys, int) or not 1 <= keys <= 2**20:
            raise Mistake("keys", "must be a whole number between 1 and 2^20")
        price = ApproximateEvent(exact.epsilon(epsilon), exact.delta(delta))
        if price.delta < exact.DELTA_STEP:
            raise Mistake("delta", "must be at least 1e-18: keys that only the data knows cost a delta")
        found = cls._laplace(price, keys)
        try:
            smooth = cls._gaussian(price, keys)
        except Mistake:  # such a delta buys no Gaussian noise
            return found
        return smooth if smooth.least < found.least else found

    @classmethod
    def _laplace(cls, price: ApproximateEvent, keys: int) -> KeySelection:
        noise = Laplace(price.epsilon).noise(Sensitivity(keys, keys, keys))
        rate = 1 / noise.scale
        logarithm = math.log(keys) - math.log1p(math.exp(-rate)) - exact.ln(price.delta)
        return cls(noise, 1 + max(1, math.ceil((logarithm + 1e-9) / rate)), keys, price)

    @classmethod
    def _gaussian(cls, price: ApproximateEvent, keys: int) -> KeySelection:
        half = price.delta / 2
        noise = Gaussian(price.epsilon, half).noise(Sensitivity(keys, keys, keys))
        each = -math.expm1(math.log1p(-float(half) * (1 - 1e-9)) / keys)
        steps = -float(normal_quantile(each)) * (1 + 1e-12) * noise.drawn_scale + 1
        return cls(noise, 1 + max(1, math.ceil(steps / noise.finer)), keys, price)

    def odds(self, people: int = 1) -> float:
        """Return the odds that a key of so many people is said; of Gaussian noise from above."""
        far = self.least - people
        if self.noise.kind == "laplace":
            rate = 1 / self.noise.scale
            tail = math.exp(-abs(far) * rate if far > 0 else -(1 - far) * rate) / (1 + math.exp(-rate))
            return tail if far > 0 else 1 - tail
        return normal_cdf(-(far * self.noise.finer - 1) / self.noise.drawn_scale)

    def said(self, people: NDArray[np.int64], randomness: Randomness) -> NDArray[np.bool_]:
        """Decide of each key, by how many people have it, whether it is said."""
        return np.asarray(self.noise.add(people, randomness) >= self.least)

    @property
    def spent(self) -> tuple[Decimal, Decimal]:
        """The epsilon and delta that it costs."""
        return self.event.epsilon, self.event.delta
