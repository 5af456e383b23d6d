"""The mutation gate of whole nodes: a rule off, and what clients were promised is not what they read any more.

`FINDINGS` has the rules that a directed story of this file finds, `FOUND_BY_SEEDS` those that random seeds do. The
checks are those of the history and of liveness, never a question about the rule itself. Each story holds with all rules
on. Rules that one broker keeps have stories in test_broker_rules.py and tests/storage/test_rules.py besides.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest

from hightide.client.configs import Resource, ResourceType, alter_configs
from hightide.errors import ApiError, CorruptionError
from hightide.rules import ALL_ON, Rules
from hightide.sim.images import LOST
from hightide.sim.seeds import Case, Report, run_case, shrink
from hightide.wire.messages.fetch import FetchRequest
from tests.simulation.level1_story import Story

VALUES = [b"value %d" % number for number in range(4)]
LOG = "data/t-0/00000000000000000000.log"


async def judge(story: Story, acknowledged: list[bytes]) -> None:
    """A new client reads what was acknowledged, in that order, and nothing else."""
    try:
        found = await story.read()
    except ApiError as error:
        story.world.trace.report("liveness", f"nothing can be read: {error}")
        return
    if missing := [value for value in acknowledged if value not in found]:
        story.world.trace.report("K4", f"acknowledged and gone: {missing}")
    elif found != acknowledged:
        story.world.trace.report("K12", f"acknowledged were {acknowledged}, there are {found}")


# Two brokers have the partition, neither of them a controller. Both go down at once, and the one that comes back first
# is the preferred leader, with a disk that lacks what was acknowledged: it has to wait for the other one.

PAIR = (4, 5)
ALONE_SECONDS = 5.0  # a few heartbeats


def first_back(rules: Rules, happens: Callable[[Story], None], **settings: str) -> list[str]:
    """What happens to broker 4 while both are down."""
    story = Story(count=5, rules=rules)

    async def play() -> None:
        await story.start()
        await story.create(replicas=PAIR, **{"min.insync.replicas": "2", **settings})
        await story.produce(*VALUES)
        await asyncio.sleep(0.1)
        for number in PAIR:
            story.nodes[number].kill()
        happens(story)
        await story.start([4])
        await asyncio.sleep(ALONE_SECONDS)
        await story.start([5])
        await asyncio.sleep(1.0)
        await judge(story, VALUES)

    return story.run(play)


def a_broker_comes_back_with_a_disk_of_last_week(rules: Rules) -> list[str]:
    """Somebody restored a backup: the same directory, without what was acknowledged since."""
    story = Story(count=5, rules=rules)

    async def play() -> None:
        await story.start()
        await story.create(replicas=PAIR, **{"min.insync.replicas": "2"})
        await story.produce(*VALUES[:1])
        await story.stop(4)
        backup = story.nodes[4].disk.copy()
        await story.start([4])
        await story.in_sync(PAIR)
        await story.produce(*VALUES[1:])
        for number in PAIR:
            story.nodes[number].kill()
        story.nodes[4].disk = backup
        await story.start([4])
        await asyncio.sleep(ALONE_SECONDS)
        await story.start([5])
        await asyncio.sleep(1.0)
        await judge(story, VALUES)

    return story.run(play)


REPLICATED = {"hightide.durability": "replicated"}


def a_broker_without_syncs_loses_power(rules: Rules) -> list[str]:
    """Acknowledged means in the memory of two: the one that lost its memory may not lead."""
    return first_back(rules, lambda story: story.nodes[4].disk.power_loss(Random(0), (LOST,)), **REPLICATED)


def a_start_after_a_power_loss_is_killed_before_it_registered(rules: Rules) -> list[str]:
    """The next start finds the same boot of the machine, and no controller that heard of what was lost."""
    story = Story(count=5, rules=rules)

    async def play() -> None:
        await story.start()
        await story.create(replicas=PAIR, **{"min.insync.replicas": "2"}, **REPLICATED)
        await story.produce(*VALUES)
        for number in PAIR:
            story.nodes[number].kill()
        story.nodes[4].disk.power_loss(Random(0), (LOST,))
        hosts = [process.name for process in story.nodes.values()]
        for host in hosts:
            story.world.network.cut(story.nodes[4].name, host)
        story.nodes[4].start()
        await asyncio.sleep(1.0)
        story.nodes[4].kill()
        for host in hosts:
            story.world.network.restore(story.nodes[4].name, host)
        await story.start([4])
        await asyncio.sleep(ALONE_SECONDS)
        await story.start([5])
        await asyncio.sleep(1.0)
        await judge(story, VALUES)

    return story.run(play)


def flip(story: Story, share: float) -> None:
    """A bit turns, so far into the log."""
    disk = story.nodes[4].disk
    disk.flip(LOG, int(len(disk.image()[LOG]) * share))


def a_bit_turns_in_what_was_synced(rules: Rules) -> list[str]:
    """In the last batch. It is bad, and not cut off as if it had never been written whole."""
    return first_back(rules, lambda story: flip(story, 0.9))


def a_bit_turns_in_what_nobody_synced(rules: Rules) -> list[str]:
    """What comes behind it was written too, and acknowledged: a replica that cut it off may not lead."""
    return first_back(rules, lambda story: flip(story, 0.6), **REPLICATED)


def a_leader_can_not_read_its_log(rules: Rules) -> list[str]:
    """The controller hears of it and lets somebody else lead."""
    story = Story(rules=rules)

    async def play() -> None:
        await story.start()
        await story.create()
        await story.produce(*VALUES)
        story.nodes[1].disk.fail("read", f"*{LOG}", times=-1)
        await judge(story, VALUES)

    return story.run(play)


def a_follower_has_not_heard_that_syncs_are_wanted(rules: Rules) -> list[str]:
    """Its leader has, and acknowledges only what both have on disk. Then the leader's disk is gone, and power here."""
    story = Story(count=5, rules=rules)
    network, topic = story.world.network, Resource(ResourceType.TOPIC, "t")

    async def play() -> None:
        await story.start()
        await story.create(replicas=PAIR, **REPLICATED)
        for controller in (1, 2, 3):
            network.cut(story.nodes[controller].name, story.nodes[5].name)
        await story.do(lambda cluster: alter_configs(cluster, topic, {"hightide.durability": "fsync"}))
        await story.until(lambda: story.partition(4).is_synced_only)
        sending = story.client.begin(story.send(*VALUES[:1]))
        await asyncio.sleep(1.0)
        acknowledged = VALUES[:1] if sending.done() else []
        for number in PAIR:
            story.nodes[number].kill()
        sending.cancel()
        story.nodes[4].replace_disk()
        story.nodes[5].disk.power_loss(Random(0), (LOST,))
        network.heal()
        await story.start([5])
        await asyncio.sleep(ALONE_SECONDS)
        await story.start([4])
        await asyncio.sleep(1.0)
        if acknowledged:  # else nothing was promised, and nobody may lead: both lost what they had in memory
            await judge(story, acknowledged)

    return story.run(play)


def a_leader_learns_of_minimum_and_sets_at_once(rules: Rules) -> list[str]:
    """While it is cut off its controllers the minimum rises, and one more member is gone, which stays eligible."""
    story = Story(count=7, rules=rules)
    network, topic = story.world.network, Resource(ResourceType.TOPIC, "t")
    leader, eligible, member, gone = replicas = (4, 5, 6, 7)
    minimum = "min.insync.replicas"

    async def play() -> None:
        await story.start()
        await story.create(replicas=replicas, **{minimum: "2"})
        await story.produce(*VALUES[:1])
        story.nodes[gone].kill()
        await asyncio.sleep(1.0)
        story.nodes[eligible].kill()
        sending = story.client.begin(story.send(VALUES[1]))  # appended, and committed when 5 is not waited for any more
        await asyncio.sleep(1.0)
        for controller in (1, 2, 3):
            network.cut(story.nodes[controller].name, story.nodes[leader].name)
        await story.in_sync({leader, eligible, member})
        await story.do(lambda cluster: alter_configs(cluster, topic, {minimum: "3"}))
        await story.in_sync({leader, member})
        assert story.agreed().eligible_leader_replicas == (eligible,)
        assert story.agreed().leader == leader
        network.heal()
        await story.until(lambda: set(story.partition(leader).replica.in_sync_replicas) == {leader, member})
        await asyncio.sleep(1.0)
        acknowledged = VALUES[:2] if sending.done() else VALUES[:1]
        for number in (leader, member):
            story.nodes[number].kill()
        sending.cancel()
        await story.start([eligible])
        await story.until(lambda: story.agreed().leader == eligible)
        await story.do(lambda cluster: alter_configs(cluster, topic, {minimum: "1"}))
        await judge(story, acknowledged)

    return story.run(play)


def a_position_of_the_bad_log_comes_late(rules: Rules) -> list[str]:
    """A follower that is back says where its log ends, and finds it corrupt while that is on its way to the leader."""
    story = Story(count=5, rules=rules)
    leader, follower = PAIR

    async def play() -> None:
        await story.start()
        await story.create(replicas=PAIR, **{"min.insync.replicas": "1"})
        await story.create("other", PAIR)  # keeps the follower's connection when it has nothing to ask for the first
        await story.produce(*VALUES)
        await asyncio.sleep(0.1)
        story.nodes[follower].kill()
        await story.in_sync([leader])
        link = story.world.network.link(story.nodes[follower].name, story.nodes[leader].name)
        link.held_seconds = {FetchRequest.api_key: 3.0}
        await story.start([follower])
        await story.until(lambda: story.partition(follower).replica.leader == leader)
        await asyncio.sleep(0.1)
        story.partition(follower).quarantine(CorruptionError("a bit turned"))
        await story.in_sync(PAIR)
        story.nodes[leader].kill()
        await story.until(lambda: story.agreed().leader == follower)
        await asyncio.sleep(0.1)
        await judge(story, VALUES)

    return story.run(play)


# ---------------------------------------------------------------------- the gate


class Finding(NamedTuple):
    """Without `rule` the story breaks `check`."""

    rule: str
    check: str
    story: Callable[[Rules], list[str]]


FINDINGS = [
    Finding("r8_older_epoch_is_lost", "K4", a_broker_comes_back_with_a_disk_of_last_week),
    Finding("r8_unclean_replicated_leaves", "K4", a_broker_without_syncs_loses_power),
    Finding("r8_uncleanness_stays", "K4", a_start_after_a_power_loss_is_killed_before_it_registered),
    Finding("r10_unready_replicas_leave", "liveness", a_leader_can_not_read_its_log),
    Finding("r17_quarantine_synced_corruption", "K4", a_bit_turns_in_what_was_synced),
    Finding("r17_doubtful_replicas_leave", "K4", a_bit_turns_in_what_nobody_synced),
    Finding("r17_refetch_in_a_new_epoch", "K4", a_position_of_the_bad_log_comes_late),
    Finding("r23_minimum_with_its_sets", "K4", a_leader_learns_of_minimum_and_sets_at_once),
    Finding("r25_credit_synced_sessions_only", "liveness", a_follower_has_not_heard_that_syncs_are_wanted),
]

# Rules that seeds of one broker find, with the number of seeds that it took when this was written.
FOUND_BY_SEEDS = {
    "r4_synced_ends_only": 5,
    "r10_offline_on_failed_sync": 12,
    "r11_producer_state_after_append": 15,
    "r18_atomic_checkpoints": 1,
    "r19_rewrite_unsynced_tail": 12,
    "r19_sync_directory_entries": 2,
}
SOON = 2  # what `make test` has patience for


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.rule)
def test_a_story_finds_it(finding: Finding) -> None:
    assert finding.story(ALL_ON) == []
    problems = finding.story(ALL_ON.without(finding.rule))
    assert [problem.split()[0] for problem in problems] == [finding.check]


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=[] if seeds <= SOON else pytest.mark.long) for rule, seeds in FOUND_BY_SEEDS.items()],
)
def test_seeds_find_it(rule: str) -> None:
    found = first_failure(rule, 20 + 3 * FOUND_BY_SEEDS[rule])
    assert run_case(found.case._replace(rules=ALL_ON)).problems == ()


def first_failure(rule: str, seeds: int) -> Report:
    """The first seed of one broker that breaks without a rule."""
    for seed in range(1, seeds + 1):
        report = run_case(Case("nodes", seed, ALL_ON.without(rule), brokers=1))
        if report.problems:
            return report
    raise AssertionError(f"{seeds} seeds did not notice that {rule} is off")


def test_what_seeds_find_is_shrunk() -> None:
    """Acknowledgements before the fsync: a power loss takes what was promised."""
    found = first_failure("r4_synced_ends_only", 20)
    assert any(problem.startswith(("K1 ", "K4 ")) for problem in found.problems)
    small = shrink(found)
    assert len(small.case.plan.faults) <= len(found.case.plan.faults) // 3
    assert small.problems
    assert run_case(small.case).digest == small.digest, "the printed command is the shrunk run"
    assert run_case(small.case._replace(rules=ALL_ON)).problems == ()
