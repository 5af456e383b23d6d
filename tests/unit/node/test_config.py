"""What a process starts with, and why it does not start."""

import subprocess
import sys

import pytest

from hightide.metadata.settings.broker import BROKER_SETTINGS
from hightide.metadata.settings.broker_values import CLUSTER_ONLY
from hightide.metadata.settings.topic_values import TopicSettings
from hightide.node.config import ConfigError, Origin, Settings, environment_name, log_settings
from hightide.storage.settings import LogSettings


def load(
    file: str | None = None, *, toml: bool = False, environment: dict[str, str] | None = None, **flags: str
) -> Settings:
    named = {name.replace("_", "."): text for name, text in flags.items()}
    return Settings.load(file, environment or {}, named, file_name="hightide.toml" if toml else "server.properties")


def problems(file: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


def test_nothing_said_is_a_single_broker_on_loopback() -> None:
    settings = load()
    assert settings.node_id == 1
    assert [str(listener) for listener in settings.listener_addresses()] == ["PLAINTEXT://127.0.0.1:9092"]
    assert settings.advertised_addresses() == settings.listener_addresses()
    assert settings.log_directory == "hightide-data"
    assert settings.origin("node.id") is Origin.DEFAULT
    assert settings.place("node.id") == "default"


def test_the_default_replication_factor_is_one() -> None:
    assert load().default_replication_factor == 1


def test_flag_over_environment_over_file_over_default() -> None:
    file = "num.partitions=2\nmessage.max.bytes=2\nfetch.max.bytes=2000"
    environment = {"HIGHTIDE_NUM_PARTITIONS": "3", "HIGHTIDE_MESSAGE_MAX_BYTES": "3"}
    settings = load(file, environment=environment, num_partitions="4")
    assert (settings.num_partitions, settings.message_max_bytes, settings.fetch_max_bytes) == (4, 3, 2000)
    origins = [settings.origin(name) for name in ("num.partitions", "message.max.bytes", "fetch.max.bytes")]
    assert origins == [Origin.FLAG, Origin.ENVIRONMENT, Origin.FILE]
    assert settings.place("message.max.bytes") == "HIGHTIDE_MESSAGE_MAX_BYTES"
    assert settings.place("fetch.max.bytes") == "server.properties"
    assert settings.with_dynamic({"message.max.bytes": "9"}, {}).origin("num.partitions") is Origin.FLAG


def test_toml() -> None:
    assert load('"num.partitions" = 7\n', toml=True).num_partitions == 7


VALUES = {
    "process.roles": "controller,broker",
    "listeners": "PLAINTEXT://127.0.0.1:1",
    "advertised.listeners": "PLAINTEXT://b:1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
    "hightide.brokers": "5@b:1",
    "hightide.profile": "dev",
    "hightide.durability": "replicated",
    "hightide.placement": "load-aware",
    "hightide.create.wait": "all",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "5@c:1",
    "broker.session.timeout.ms": "20000",
    "metadata.log.segment.bytes": "9000000",
    "compression.type": "zstd",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "log.message.timestamp.type": "LogAppendTime",
}


@pytest.mark.covers("T11")
@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_every_setting_can_be_overridden_by_an_environment_variable(name: str) -> None:
    setting = BROKER_SETTINGS[name]
    by_type = {
        "SHORT": "5",
        "INT": "5",
        "LONG": "5",
        "DOUBLE": "1",
        "BOOLEAN": "false",
        "LIST": "delete",
        "STRING": "insync",
    }
    text = VALUES.get(name, "2000000" if name.endswith(".bytes") else by_type[setting.type.name])
    environment = {"HIGHTIDE_NODE_ID": "5", environment_name(name): text}
    if name == "controller.quorum.voters":
        environment["HIGHTIDE_CONTROLLER_LISTENER_NAMES"] = "CONTROLLER"
        environment["HIGHTIDE_LISTENERS"] = "PLAINTEXT://:0,CONTROLLER://:0"
    settings = load(environment=environment)
    assert settings.static[name] == text
    assert settings.origin(name) is Origin.ENVIRONMENT
    if name not in CLUSTER_ONLY:  # R23: cluster metadata, which the first start takes from here
        assert settings.get(name) == setting.parse(text)


def test_own_keys_take_the_prefix_once() -> None:
    assert environment_name("hightide.durability") == "HIGHTIDE_DURABILITY"
    assert environment_name("log.retention.ms") == "HIGHTIDE_LOG_RETENTION_MS"


def test_variables_that_are_no_settings_are_left_alone() -> None:
    kubernetes = {
        "HIGHTIDE_SERVICE_HOST": "10.0.0.1",
        "HIGHTIDE_PORT": "tcp://10.0.0.1:9092",
        "HIGHTIDE_PORT_9092_TCP": "x",
    }
    assert load(environment={**kubernetes, "HIGHTIDE_BOOTSTRAP": "b:1", "PATH": "/bin"}).static == {}


def test_an_unknown_key_names_the_nearest() -> None:
    assert problems("num.partition=1") == [
        "server.properties: unknown setting 'num.partition' (did you mean 'num.partitions'?)"
    ]
    with pytest.raises(ConfigError, match=r"HIGHTIDE_NUM_PARTITION: unknown setting .*num\.partitions"):
        load(environment={"HIGHTIDE_NUM_PARTITION": "1"})
    assert problems("qqqq=1") == ["server.properties: unknown setting 'qqqq'"]


def test_a_kafka_key_that_we_do_not_honour_is_accepted_at_kafkas_default_only() -> None:
    assert "num.io.threads" not in load("num.io.threads=8").static
    assert problems("num.io.threads=16") == [
        "server.properties: 'num.io.threads' is a Kafka setting that hightide does not honour: "
        "only Kafka's default (8) is accepted, not '16'"
    ]
    assert problems("authorizer.class.name=x")[0].endswith("does not honour: it cannot be set")
    with pytest.raises(ConfigError, match=r"'num\.io\.threads' is a Kafka setting"):
        load(environment={"HIGHTIDE_NUM_IO_THREADS": "16"})


def test_a_topic_setting_in_a_brokers_file_names_its_broker_setting() -> None:
    assert problems("retention.ms=1")[0].endswith("the broker's default for it is 'log.retention.ms'")


def test_everything_wrong_is_told_at_once() -> None:
    told = problems("num.partitions=0\nlog.cleanup.policy=compress\nlog.dirs=a,b\nnonsense=1")
    assert len(told) == 4
    assert "Value must be at least 1" in told[0]
    assert "String must be one of: compact, delete" in told[1]
    assert "exactly one log directory is supported" in told[2]


def test_a_broken_file_is_told_with_its_name() -> None:
    with pytest.raises(ConfigError, match=r"hightide\.toml: not TOML"):
        load("x", toml=True)


def test_majority_is_refused_by_name() -> None:
    assert "only 'insync' is available" in problems("hightide.commit.rule=majority")[0]


def test_one_role_alone_needs_a_quorum() -> None:
    assert "needs controller.quorum.voters" in problems("process.roles=broker")[0]
    assert "must be broker, controller or both" in problems("process.roles=janitor")[0]
    assert "must be broker, controller or both" in problems("process.roles=broker,broker")[0]
    quorum = "controller.quorum.voters=1@c:9093\ncontroller.listener.names=CONTROLLER\n"
    broker = load(f"node.id=2\nprocess.roles=broker\n{quorum}")
    assert (broker.is_broker, broker.is_controller) == (True, False)
    assert [(voter.node_id, voter.host, voter.port) for voter in broker.voters()] == [(1, "c", 9093)]
    controller = load(f"process.roles=controller\nlisteners=CONTROLLER://:9093\n{quorum}")
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert controller.advertised_addresses() == []


QUORUM = "controller.quorum.voters=1@c:9093\ncontroller.listener.names=controller\n"


def test_controllers_have_their_own_listener() -> None:
    both = load(f"listeners=PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093\n{QUORUM}")
    assert [str(a) for a in both.advertised_addresses()] == ["PLAINTEXT://127.0.0.1:9092"]
    assert both.protocols()["CONTROLLER"] == "PLAINTEXT"
    assert both.inter_broker_listener == "PLAINTEXT"
    named = "listener.security.protocol.map=A:PLAINTEXT,CONTROLLER:PLAINTEXT\nlisteners=A://:1,CONTROLLER://:2\n"
    assert load(named + QUORUM).inter_broker_listener == "A"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("controller.quorum.voters=1@c:9093", "controller.listener.names must say how"),
        (f"listeners=PLAINTEXT://:1,CONTROLLER://:2\nnode.id=2\n{QUORUM}", "(node.id=2) is not one of the voters"),
        (f"process.roles=broker\n{QUORUM}", "node.id=1 is a voter, but process.roles has no controller"),
        (QUORUM, "CONTROLLER is not one of listeners"),
        (f"listeners=CONTROLLER://:2\n{QUORUM}", "a broker needs one for its clients"),
        (
            f"process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://:1,CONTROLLER://:2\n{QUORUM}",
            "CONTROLLER is in listeners, but process.roles has no controller",
        ),
        (
            f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT\nlisteners=PLAINTEXT://:1,CONTROLLER://:2\n{QUORUM}",
            "CONTROLLER has no protocol",
        ),
        ("inter.broker.listener.name=OTHER", "OTHER is not a listener of this broker"),
        ("controller.quorum.voters=c:9093", "is not a broker: write id@host:port"),
        ("broker.session.timeout.ms=1000", "must be smaller than broker.session.timeout.ms"),
        ("hightide.lease.ms=6000", "is too long: a session of 6000 ms less 5 % drift allows 5700"),
        (
            "hightide.placement=nearest",
            "must be one of: rack-aware, round-robin, load-aware, consistent-hash; or module:function",
        ),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_with_the_reason(text: str, problem: str) -> None:
    assert any(problem in told for told in problems(text)), problems(text)


@pytest.mark.covers("C12", "T7")
def test_the_time_outs_of_a_cluster() -> None:
    settings = load()
    assert (settings.broker_heartbeat_interval_ms, settings.broker_session_timeout_ms) == (1000, 6000)
    assert (settings.session_check_interval_ms, settings.lease_ms) == (500, 5700)
    assert (settings.replica_fetch_wait_max_ms, settings.replica_fetch_max_bytes) == (500, 1048576)
    assert (settings.replica_lag_time_max_ms, settings.default_replication_factor) == (10000, 1)
    dev = load("hightide.profile=dev")
    assert (dev.broker_heartbeat_interval_ms, dev.broker_session_timeout_ms, dev.lease_ms) == (500, 3000, 2850)
    assert load("hightide.placement=my.module:place").placement == "my.module:place"


@pytest.mark.covers("T10")
def test_a_static_broker_list_must_contain_the_broker_itself() -> None:
    assert load("node.id=2\nhightide.brokers=1@a:9092,2@b:9092").node_id == 2
    assert problems("node.id=3\nhightide.brokers=1@a:9092,2@b:9092") == [
        "this broker (node.id=3) is not in hightide.brokers (1@a:9092, 2@b:9092): "
        "add it to the list, or remove the list to run without one"
    ]


def test_listeners_that_contradict_each_other() -> None:
    assert "set advertised.listeners" in problems("listeners=PLAINTEXT://0.0.0.0:9092")[0]
    wide = load("listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://broker:9092")
    assert [str(listener) for listener in wide.advertised_addresses()] == ["PLAINTEXT://broker:9092"]
    assert "only PLAINTEXT is available" in problems("listeners=SSL://:9092")[0]
    assert "has no protocol" in problems("listeners=INSIDE://:9092")[0]
    assert load("listeners=INSIDE://:9092\nlistener.security.protocol.map=INSIDE:PLAINTEXT").listener_addresses()
    assert "is not one of listeners" in problems("advertised.listeners=OTHER://a:1")[0]


def test_what_a_log_is_told() -> None:
    assert log_settings(TopicSettings({}, load())) == LogSettings()
    changed = TopicSettings({"cleanup.policy": "", "hightide.durability": "replicated", "segment.ms": "5"}, load())
    told = log_settings(changed)
    assert (told.delete_policy, told.synced_before_acknowledged, told.segment_ms) == (False, False, 5)
    assert log_settings(TopicSettings({"message.timestamp.type": "LogAppendTime"}, load())).log_append_time


def test_an_ordinary_start_does_not_load_the_catalogue() -> None:
    script = (
        "import sys; from hightide.node.config import Settings; "
        "Settings.load('num.partitions=3', {'HIGHTIDE_NODE_ID': '2'}, {}); "
        "heavy = {'hightide.metadata.settings.catalogue', 'difflib', 'tomllib', 'dataclasses', 'inspect'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
