"""Every kind of fault by its name in plans. Whom it hits is drawn from the fault's own stream."""

from collections.abc import Awaitable, Callable
from random import Random

from hightide.sim.faults import clocks, clusters, disks, networks, processes
from hightide.sim.faults.site import Site
from hightide.sim.plan import Fault

Injection = Callable[[Site, Random, float], Awaitable[bool]]

INJECTIONS: dict[str, Injection] = {
    "kill": processes.kill,
    "power loss": processes.lose_power,
    "kill everywhere": processes.kill_everywhere,
    "power loss everywhere": processes.lose_power_everywhere,
    "pause": processes.pause,
    "pause and kill": processes.pause_and_kill,
    "restart": processes.restart,
    "rolling restart": processes.rolling_restart,
    "crash": processes.crash,
    "crash in recovery": processes.crash_in_recovery,
    "cut": networks.cut,
    "one-way cut": networks.cut_one_way,
    "node cut": networks.cut_from_nodes,
    "ring": networks.ring,
    "split": networks.split,
    "client cut": networks.cut_client,
    "slow network": networks.slow_network,
    "lossy network": networks.lossy_network,
    "held messages": networks.hold_messages,
    "reset": networks.reset,
    "clock step": clocks.step_clock,
    "clock drift": clocks.drift_clock,
    "clock freeze": clocks.freeze_clock,
    "disk full": disks.fill_disk,
    "slow sync": disks.slow_sync,
    "failed sync": disks.fail_sync,
    "failed write": disks.fail_write,
    "failed read": disks.fail_read,
    "empty disk": disks.replace_disk,
    "bit flip": disks.flip_bit,
    "stale block": disks.lose_block,
    "misdirected write": disks.misdirect_write,
    "short file": disks.shorten_file,
    "join": clusters.join,
    "leader election": clusters.elect_leaders,
}


async def inject(site: Site, fault: Fault) -> bool:
    """Let one fault happen; whether it took effect."""
    site.world.trace.say("FAULT", str(fault))
    random = Random(f"{site.world.seed}:fault:{fault.number}")
    return await INJECTIONS[fault.kind](site, random, fault.seconds)
