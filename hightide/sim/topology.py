"""Which nodes a simulated cluster has, and the settings of each: what a `server.properties` would say."""

PORT, CONTROLLER_PORT = 9092, 10092
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"  # 16 bytes: a quorum of several needs one that was agreed upon
CONTROLLERS_MAX = 3


def host_of(node_id: int) -> str:
    """Nodes have numbers, their hosts names."""
    return f"broker-{node_id}"


def bootstrap(count: int) -> list[tuple[str, int]]:
    """Where clients begin."""
    return [(host_of(node_id), PORT) for node_id in range(1, count + 1)]


def node_settings(node_id: int, count: int) -> dict[str, str]:
    """The settings of one node of `count`: all are brokers, the first three are controllers too."""
    settings = {
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{host_of(node_id)}:{PORT}",
        "log.dirs": "/data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": str(min(3, count)),
        "offsets.topic.num.partitions": "3",
    }
    if count == 1:
        return settings
    voters = {voter: f"{host_of(voter)}:{CONTROLLER_PORT}" for voter in range(1, min(count, CONTROLLERS_MAX) + 1)}
    settings |= {
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in voters.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "hightide.cluster.id": CLUSTER_ID,
    }
    if node_id in voters:
        settings["process.roles"] = "broker,controller"
        settings["listeners"] += f",CONTROLLER://{voters[node_id]}"
    return settings
