"""The bodies that say what an answer would cost, and who would give one."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class PriceInAll(BaseModel):
    """The most that somebody pays whose rows lie at all `sites` that are asked."""

    sites: int
    epsilon: float
    delta: float


class Price(BaseModel):
    """The price of one contributor; of a question to institutions at each of them, and `in_all`."""

    epsilon: float
    delta: float
    unit: str
    in_all: PriceInAll | None = None


class SiteQuote(BaseModel):
    """The cost that an answer of one site is expected to have there, and the source that it would come from."""

    epsilon: float
    delta: float
    source: Literal["mechanism", "cache", "synopsis"]


class Left(BaseModel):
    """The most that one more answer may cost: its epsilon, where it has no delta, and its delta."""

    epsilon: float
    delta: float


class SiteVerdictTold(BaseModel):
    """The answer of a site whether it would answer now; null where that is not known. `reason` is the code under which
    it would refuse, or did not say (the same as of `refusals`), `message` why in words; `left` is told to whom the
    site's rule names."""

    allowed: bool | None
    reason: str
    message: str
    left: Left | None = None


class WayTaken(BaseModel):
    """The way that a document takes of several: what its `field` says or, of "auto", the one with the least
    `expected_error`, the error `of` what; `refused` says why others cannot be taken. Where no error is expected of any,
    `why` says by which rule it was taken."""

    field: str
    taken: str
    expected_error: dict[str, float]
    of: str
    refused: dict[str, str]
    why: str | None = None


class MixedTold(BaseModel):
    """The promise of mixed answers with the fewest people, which rests on `honest` of `n` who follow the rules and hide
    where they send from."""

    epsilon: float
    delta: float
    n: int
    honest: int


class Quote(BaseModel):
    """`price` is the most that one contributor can be charged. Of a question to institutions `allowed` says whether
    enough of them would answer by their rules, caps and budgets now (null where that is not known), `needed` how
    many that is, `verdicts` the same of each; of one that they may have answered before `sites` says what each
    expects to charge, as far as it was asked and answered, and `missing` why that is not known of the others: the
    price covers them as if nothing had been answered there before. `choice`: of several ways to do what is asked, which
    is taken and what each is expected to err, as far as the document tells. `mixed`: what holds against whoever sees
    the answers and cannot tell whose is whose, where the document asks for that."""

    price: Price
    expires_at: str | None
    mixed: MixedTold | None = None
    choice: WayTaken | None = None
    allowed: bool | None = None
    needed: int | None = None
    verdicts: dict[str, SiteVerdictTold] | None = None
    sites: dict[str, SiteQuote] | None = None
    missing: dict[str, str] | None = None
