"""The files that `thebes site init` writes for a steward to start from. Nothing in them allows anything."""

from __future__ import annotations

POLICY = """\
# Who may ask this site what, and how much. What no rule allows is refused; so is everything while this file cannot be
# read. The first rule that covers an ask decides. A change counts at once.
#
# [[allow]]
# requestors = ["ana"]          # names at the coordinator; ["*"] is everybody it lets ask
# datasets   = ["patients"]     # names in datasets/; ["*"] is all of them
# kinds      = ["query"]        # kinds of task, such as query and train; ["*"] is all of them
# epsilon    = 1.0              # the most that all of these requestors together may spend at each of these data sets
# delta      = 1e-6             # without it, the data set's own delta
# noise      = ["site"]         # "coordinator" too: then exact totals leave this site, and the coordinator adds noise
# contexts   = ["north"]        # of a data set that is separate by a column: whose rows; ["*"] is all of them
# steady     = false            # true: answers leave at whole seconds and do not say how long they took
#
# The second of two servers that people answer; no row is read for it, and nothing is spent.
# [[help]]
# requestors = ["ana"]
# epsilon    = 1.0              # the most that one task may cost each of them
# min_count  = 100              # the fewest people whose shares are added up
"""

SCHEMA = """\
# What the rows of a data set are, for: thebes dataset create NAME --home DIR --schema FILE --source ROWS.csv ...
unit = "person"               # whose whole influence is hidden; "event" protects one row only
max_rows_per_unit = 1         # of one person at most so many rows count
# time = "admitted"           # with several rows of one person, the latest count

[columns.patient]
type = "string"
key = true                    # says whose a row is; it is never shown and cannot be asked for

[columns.age]
type = "integer"
low = 0                       # bounds are never read off the data: beyond them a value counts as the nearer one
high = 110

[columns.sex]
type = "string"
values = ["female", "male"]   # anything else counts as missing
"""
