"""Every bound of the system, with its reason. Nothing that grows does so without an entry here.

Final: what is compiled has them as its own numbers. The few that are not are lowered by tests, which need them reached.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Frames. A length field is checked against these before a byte is allocated.
FRAME_BYTES_MAX: Final = 100 * MIB  # Kafka's socket.request.max.bytes

# One connection.
RECEIVE_BUFFER_BYTES_INITIAL: Final = 64 * KIB  # an idle connection stays cheap
RECEIVE_BUFFER_BYTES_MAX: Final = 1 * MIB  # larger buffers gained nothing; a larger frame grows it for that frame only
SMALL_FRAME_BYTES_MAX: Final = 8 * KIB  # received and handed on as bytes: a copy costs less than a view
FRAME_HEAD_BYTES: Final = 1 * KIB  # of a longer one, to read its numbers from
SMALL_READS_MIN: Final = 8  # in a row, and a connection is one of small frames again
AWAITED_BYTES_MAX: Final = 256 * KIB  # of a frame's rest, before its receiver is woken: a third of the wake-ups
AWAITED_BYTES_MIN: Final = 32 * KIB  # less is not worth the system call that asks for it
GATHERED_BUFFER_BYTES_MAX: Final = 12 * MIB  # kept for answers of brokers while long ones come: new memory costs more
LARGE_REQUESTS_BYTES_MAX: Final = 256 * MIB  # of all connections together, while they arrive; others wait in the kernel
STALLED_REQUEST_SECONDS: Final = (
    10.0  # who sends nothing of a large request for so long keeps no memory that others want
)
OUTPUT_BUFFER_BYTES_MAX = 64 * MIB  # a client that does not read is disconnected, not buffered for
WRITE_DEADLINE_SECONDS = 10.0  # a peer that accepts no byte for this long is gone
FAREWELL_SECONDS = 0.5  # a peer that was hung up on hears it within this time, and reads the answers before it
FAREWELL_BYTES_PER_TURN: Final = 64 * KIB  # of what it still sends, which nobody looks at
PARKED_PRODUCES_PER_CONNECTION: Final = 20  # written, not committed; idempotent producers have 5 in flight, others more
PARKED_PRODUCE_BYTES_PER_CONNECTION = 64 * MIB  # what one client may have on its way to the disk
BURST_REQUESTS_MAX: Final = 64  # put aside to be written together: their senders work while the next are served
CONNECTIONS_MAX: Final = 10_000  # each has a receive buffer: 625 MiB when all are idle
DESCRIPTORS_KEPT: Final = 128  # of all that may be open: for connections, checkpoints, directory syncs, late modules
REQUEST_WAIT_SECONDS_MAX: Final = 300.0  # longer wishes are answered then: who asked may be gone without our noticing
FETCH_SESSIONS_MAX: Final = 1_000  # Kafka's max.incremental.fetch.session.cache.slots
FETCH_SESSION_PARTITIONS_MAX: Final = 100_000  # of one session; a cluster has no more either
FETCH_BYTES_MAX: Final = 55 * MIB  # Kafka's fetch.max.bytes of a broker

# Decoding.
DECOMPRESSED_BATCH_BYTES_MAX: Final = 100 * MIB  # a 1 MB gzip batch can inflate to 1 GiB
ARRAY_ELEMENTS_MAX: Final = 4_000_000  # of one message in all; Metadata of 100,000 partitions with RF 5 has 1.7 million
BATCH_RECORDS_MAX: Final = 10_000_000  # a header may claim any number; the smallest record has 7 bytes

# Metadata.
TOPIC_NAME_LENGTH_MAX: Final = 249  # Kafka's: the directory name must fit 255 with "-NNNNN"
PARTITIONS_PER_TOPIC_MAX: Final = 10_000  # created by one command, which is one batch
PARTITIONS_MAX: Final = 100_000  # of a cluster: every image and a Metadata answer for all topics grow with them
TOPICS_PER_REQUEST_MAX: Final = 10_000  # one command, one batch
TOPICS_CREATED_AT_ONCE_MAX = 1_000  # automatic creations under way
CONFIG_VALUE_BYTES_MAX: Final = 32 * KIB  # Kafka's limit for one dynamic value
METADATA_BATCH_BYTES_MAX: Final = 64 * MIB  # one command is one atomic batch: 10,000 partitions are about 1 MiB
UNREADY_REPLICAS_TOLD_MAX: Final = 10_000  # in one heartbeat: about 1 MiB
SNAPSHOT_BATCH_RECORDS: Final = 64  # written or replayed in one go: about 2 ms of the loop
SNAPSHOT_BATCH_BYTES: Final = 256 * KIB  # the same for large settings
SNAPSHOT_PIECE_BYTES: Final = 512 * KIB  # one answer to FetchSnapshot
SNAPSHOT_BYTES_MAX: Final = 1024 * MIB  # a leader that claims more is not believed; 100,000 partitions have some 20 MiB
SNAPSHOT_RETRY_SECONDS: Final = 1.0  # after a snapshot that can't be read or has no room on the disk
DEPARTED_BROKER_LISTED_SECONDS: Final = 5.0  # clients learn first who leads instead; they ask about once a second
PRODUCER_ID_BLOCK_SIZE: Final = 1_000  # Kafka's: a start costs at most that many ids, of 2^63

# Replication.
FETCH_BACKOFF_SECONDS_FIRST: Final = 0.02  # a new leader often knows of its epoch a moment after its followers
FETCH_BACKOFF_SECONDS_MAX: Final = 1.0  # Kafka's replica.fetch.backoff.ms
PROPOSAL_RETRY_SECONDS: Final = 1.0  # an in-sync set is proposed again until the metadata answers; twice is free

# Producer state.
PRODUCER_BATCHES_KEPT: Final = 5  # R11: as many as an idempotent producer may have in flight
EARLIER_BATCHES_AWAITED_SECONDS: Final = 3.0  # of a producer's, by a new leader: its client sends again within a second
REFUSALS_REMEMBERED_PER_CONNECTION: Final = 1_000  # batches whose followers are refused too; the oldest goes first
SNAPSHOT_PRODUCERS_IN_FULL = 1_000  # the youngest, with all batches kept; of others the newest: no roll may stall
PRODUCERS_PER_PARTITION_MAX: Final = 100_000  # above it the one unheard longest is forgotten

# Groups.
GROUP_MEMBERS_MAX: Final = 10_000  # of one group, those with a handed-out id included; group.max.size lowers it
GROUPS_PER_COORDINATOR_MAX: Final = 100_000  # of one partition of __consumer_offsets; new ones above it ask again later
GROUP_METADATA_BYTES_MAX: Final = 16 * MIB  # what all members of a group say of themselves; a batch has to hold it
GROUP_PROTOCOLS_MAX: Final = 100  # that one member may offer: clients have up to five
OFFSETS_PER_COORDINATOR_MAX: Final = 1_000_000  # committed offsets in one partition's memory: some 300 MiB
GROUP_SWEEP_STEP: Final = 500  # offsets forgotten, or groups looked at, in one go: about 5 ms of the loop
GROUP_LOAD_BYTES: Final = 256 * KIB  # of a coordinator's log, read in one go
GROUP_LOAD_STEP: Final = 250  # records of it looked at in one go: about 3 ms of the loop

# Disk.
RESERVE_BYTES: Final = 64 * MIB  # kept for the metadata log, votes, checkpoints and marks when the disk is full (R10)
READ_ONLY_BELOW_BYTES: Final = 16 * MIB  # free space is asked once a second; what comes in meanwhile meets ENOSPC
ROOM_FROM_BYTES: Final = 1 * MIB  # of a segment: smaller ones find their blocks as they are written
ROOM_SHARE_OF_SEGMENT: Final = 8  # an eighth of what it has is made ready behind its end: an idle one wastes that
ROOM_BYTES_MAX: Final = 16 * MIB  # at a time: more gained nothing
ROOM_SHARE_OF_FREE: Final = 64  # of what is free on the disk, no piece takes more
SYNCED_ENDS_BYTES_MAX: Final = 4 * MIB  # above it the file is rewritten, one entry per log: some 100,000 group commits
SYNCED_END_RECORD_INTERVAL_SECONDS: Final = 0.010  # R17: how late the record of what is synced may be
KERNEL_SYNCS_MAX: Final = 64  # files that the kernel syncs at a time, in a thread of its own each; others wait
RECOVERY_SCAN_BYTES: Final = 1 * MIB  # a log is scanned and rewritten in pieces of this size

# Our own client.
CLIENT_REQUESTS_IN_FLIGHT_MAX: Final = 5  # per connection, Java's max.in.flight.requests.per.connection
CLIENT_BUFFER_BYTES_MAX: Final = 32 * MIB  # records a producer holds before `send` waits: Java's buffer.memory

# Compaction.
COMPACTION_STEP_BYTES: Final = 1 * MIB  # read and written between two looks at anything else
COMPACTION_KEY_BYTES: Final = 192  # of memory for one key: its entry in the table, sixteen bytes of key, the offset
COMPACTION_GROUP_SEGMENTS_MAX: Final = (
    16  # that become one: all their files are renamed in one go, some 2 ms of the loop
)
COMPACTION_LOGS_PER_TURN: Final = 200  # asked how dirty they are: about 1 ms of the loop
COMPACTION_PRODUCERS_PER_TURN: Final = 2_000  # asked for their last batch: about 1 ms of the loop

# Reading a log.
RECENT_BATCHES_REMEMBERED: Final = 512  # positions of the newest batches of a log: tail reads need no index
BOUNDARIES_REMEMBERED: Final = 64  # where reads of a segment stopped: that many consumers go on without a lookup
VERIFIED_BATCHES_PER_READ: Final = 1024  # I31 on old data: about 2 ms of the loop, then the rest in the next fetch
VERIFIED_BYTES_PER_READ: Final = 1 * MIB  # the same for large batches: 1-3 ms when disk or host brings the memory
VERIFIED_CHUNK_BYTES: Final = 256 * KIB  # read in one go for it: larger ones need new memory each time
SCRUB_STEP_BYTES: Final = 256 * KIB  # looked at in one go: a millisecond of the loop or two, with the memory for it
SCRUB_STEP_BATCHES: Final = 256  # the same for small ones
SCRUB_SECONDS_FIRST: Final = 0.0125  # between two steps of the first scrub after a start: 20 MiB/s, 2 % of a core
SCRUB_PASS_SECONDS_MIN: Final = 3600.0  # from the beginning of one pass to that of the next: small logs need no more
SCRUB_SECONDS_LATER: Final = 0.625  # of all later ones: 34 GB a day, and nobody notices
VERIFIED_RANGES_REMEMBERED: Final = 64  # per segment; a forgotten range is only verified again
