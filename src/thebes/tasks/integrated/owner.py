"""A person's half of an integrated task: the columns a model needs, sent to a server the person trusts."""

from __future__ import annotations

from thebes.tasks.basic.owner import BasicOwner

#: the same promise and the same code: columns travel as they are
OWNER = BasicOwner()
