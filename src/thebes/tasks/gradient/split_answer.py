"""The network from a sum of gradients that two servers have noised: in simulations, where one process plays both, and
at the coordinator, which is one of them.
"""

from __future__ import annotations

from functools import cached_property

from thebes.privacy.certificate import Certificate
from thebes.privacy.mechanisms.additive import stated
from thebes.tasks.aggregation.both_servers import BareSums, BothServers
from thebes.tasks.aggregation.leading_server import LeadingServer
from thebes.tasks.aggregation.split_gathering import SplitGathering
from thebes.tasks.gradient.descent import GradientDescending
from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.gradient.release import NetworkRelease
from thebes.tasks.gradient.split import SplitGradient, statistic


class SplitDescent(SplitGathering[GradientDocument], GradientDescending):
    """An aggregator of gradients in shares, of one round."""

    @cached_property
    def splitting(self) -> SplitGradient:
        return statistic(self.document, self.setting.randomness)

    def conclude(self) -> NetworkRelease | None:
        return self.stepped(self.splitting.summed(self.opened(), self.accepted))

    def promise(self) -> Certificate:
        noise = self.splitting.noise
        told = stated(noise, self.setting.randomness, unit=self.splitting.transformation.step)
        return self.certificate(
            delta=self.document.delta if noise.kind == "gaussian" else 0.0,
            mechanism=f"{noise.kind} noise of each of two servers on the sum of clipped gradients",
            parameters={**told, "noise_at": "each server", **self.of_servers},
            trust="split",
        )


class SimulatedGradientServers(BothServers[GradientDocument], SplitDescent):
    """Both servers of a network's training that is simulated."""


class BareGradients(BareSums[GradientDocument], SplitDescent):
    """Both servers of a network's training that is simulated without shares and proofs."""


class GradientLeader(LeadingServer[GradientDocument], SplitDescent):
    """The first of the two servers of a network's training."""
