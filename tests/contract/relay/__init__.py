"""An example kind that sites answer in several phases, each a noisy count. It can be told to fail on the way."""

ANSWERED_BY = "sites"
