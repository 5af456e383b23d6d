"""What can go wrong, as exceptions that carry Kafka's error code and whether a retry can help."""

from hightide.error_codes import REFRESHES_METADATA, RETRIABLE, ErrorCode

__all__ = [
    "ApiError",
    "CorruptionError",
    "DiskFullError",
    "ErrorCode",
    "HelperError",
    "InvalidRecordsError",
    "ProtocolError",
    "ShortLogError",
    "StorageError",
]


class ApiError(Exception):
    """An error that a client sees: a Kafka code and a sentence for people."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message or None

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRIABLE

    @property
    def refreshes_metadata(self) -> bool:
        """Whether a client should ask for new metadata before it retries."""
        return self.code in REFRESHES_METADATA


class InvalidRecordsError(ApiError):
    """A batch refused because of single records, each named by its index in the batch (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class ProtocolError(Exception):
    """Bytes that are not what the protocol says: the peer is answered INVALID_REQUEST or disconnected."""


class StorageError(Exception):
    """A log directory that can no longer be trusted or written; Kafka's KAFKA_STORAGE_ERROR."""


class CorruptionError(StorageError):
    """Stored bytes that fail their checks below what was synced: never cut, always reported (R17)."""


class ShortLogError(CorruptionError):
    """A log that is whole and ends below its checkpointed high watermark: what it had is not there any more (R8)."""


class HelperError(Exception):
    """A helper process ended before its work did; the work begins again later and nothing is lost."""


class DiskFullError(StorageError):
    """An append met a full disk and was cut back: the log directory is read-only, its data is intact (R10)."""
