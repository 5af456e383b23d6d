"""The hot loops of writing, compiled: from columns to the records of a batch, and which partition each goes to.

A column of bytes is three arrays, as Arrow has them: the bytes of all rows, offsets (one more than rows), and whether a
row is there. A column that a DataFrame lacks has no bytes and no row that is there. Headers are a column of names and
one of values with, for each record, where its headers begin in them.
"""

from typing import Any

import numpy as np

from hightide.spark.compiling import compiled

Array = np.ndarray[Any, Any]

_MASK = np.uint64(0xFFFFFFFF)
_MULTIPLIER = np.uint64(0x5BD1E995)
_SEED = np.uint64(0x9747B28C)
_NULL = 1  # -1 in zigzag


@compiled
def _varint_bytes(value: int) -> int:
    """Bytes of a number that is not negative, in zigzag."""
    value *= 2
    count = 1
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


@compiled
def _write_varint(out: Array, position: int, value: int) -> int:
    value *= 2
    while value >= 0x80:
        out[position] = (value & 0x7F) | 0x80
        value >>= 7
        position += 1
    out[position] = value
    return position + 1


@compiled
def _write_field(out: Array, position: int, data: Array, start: int, end: int, there: bool) -> int:
    if not there:
        out[position] = _NULL
        return position + 1
    position = _write_varint(out, position, end - start)
    for index in range(end - start):
        out[position + index] = data[start + index]
    return position + end - start


@compiled
def _field_bytes(start: int, end: int, there: bool) -> int:
    return _varint_bytes(end - start) + end - start if there else 1


@compiled
def measure(
    key_offsets: Array,
    key_there: Array,
    value_offsets: Array,
    value_there: Array,
    header_edges: Array,
    name_offsets: Array,
    content_offsets: Array,
    content_there: Array,
    lengths: Array,
) -> None:
    """The length of every record without its offset delta: that depends on the batch. The timestamp delta is 0."""
    for row in range(len(lengths)):
        total = 2 + _field_bytes(key_offsets[row], key_offsets[row + 1], key_there[row])
        total += _field_bytes(value_offsets[row], value_offsets[row + 1], value_there[row])
        total += _varint_bytes(header_edges[row + 1] - header_edges[row])
        for header in range(header_edges[row], header_edges[row + 1]):
            total += _field_bytes(name_offsets[header], name_offsets[header + 1], True)
            total += _field_bytes(content_offsets[header], content_offsets[header + 1], content_there[header])
        lengths[row] = total


@compiled
def hash_key(data: Array, start: int, end: int) -> int:
    """murmur2 with the Java client's seed, its sign bit dropped: `client.partitioner` in machine code."""
    length = end - start
    hashed = (_SEED ^ np.uint64(length)) & _MASK
    whole = start + (length & ~3)
    for position in range(start, whole, 4):
        word = (
            np.uint64(data[position])
            | np.uint64(data[position + 1]) << np.uint64(8)
            | np.uint64(data[position + 2]) << np.uint64(16)
            | np.uint64(data[position + 3]) << np.uint64(24)
        )
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> np.uint64(24)) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if whole != end:
        word = np.uint64(0)
        for position in range(whole, end):
            word |= np.uint64(data[position]) << np.uint64(8 * (position - whole))
        hashed = (hashed ^ word) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> np.uint64(13)) * _MULTIPLIER & _MASK
    return np.int64((hashed ^ hashed >> np.uint64(15)) & np.uint64(0x7FFFFFFF))  # type: ignore[return-value]


@compiled
def choose_targets(
    topics: Array,
    first_targets: Array,
    partition_counts: Array,
    wanted: Array,
    asks: Array,
    key_data: Array,
    key_offsets: Array,
    key_there: Array,
    lengths: Array,
    sticky: Array,
    put_bytes: Array,
    switch_bytes: int,
    targets: Array,
) -> int:
    """The target of every record: its topic's first target and a partition. Returns the row that wants one that is not.

    As the Java client: the partition that a row asks for, else by key, else one partition until a batch's worth of
    bytes went there.
    """
    for row in range(len(targets)):
        topic = topics[row]
        count = partition_counts[topic]
        if asks[row]:
            partition = wanted[row]
            if partition < 0 or partition >= count:
                return row
        elif key_there[row]:
            partition = hash_key(key_data, key_offsets[row], key_offsets[row + 1]) % count
        else:
            if put_bytes[topic] >= switch_bytes:
                sticky[topic] += 1
                put_bytes[topic] = 0
            put_bytes[topic] += lengths[row]
            partition = sticky[topic] % count
        targets[row] = first_targets[topic] + partition
    return -1


@compiled
def order_by_target(targets: Array, order: Array, edges: Array) -> None:
    """Rows by target, in their order within each: target t has the rows order[edges[t]:edges[t + 1]]."""
    edges[:] = 0
    for row in range(len(targets)):
        edges[targets[row] + 1] += 1
    for target in range(len(edges) - 1):
        edges[target + 1] += edges[target]
    following = edges.copy()
    for row in range(len(targets)):
        target = targets[row]
        order[following[target]] = row
        following[target] += 1


@compiled
def plan_batch(order: Array, first: int, last: int, lengths: Array, batch_bytes: int) -> tuple[int, int]:
    """How many of the rows order[first:last] make a batch, one at least, and how many bytes their records take."""
    total = 0
    for index in range(first, last):
        length = lengths[order[index]] + _varint_bytes(index - first)
        length += _varint_bytes(length)
        if index > first and total + length > batch_bytes:
            return index - first, total
        total += length
    return last - first, total


@compiled
def pack_batch(
    out: Array,
    position: int,
    order: Array,
    first: int,
    count: int,
    lengths: Array,
    key_data: Array,
    key_offsets: Array,
    key_there: Array,
    value_data: Array,
    value_offsets: Array,
    value_there: Array,
    header_edges: Array,
    name_data: Array,
    name_offsets: Array,
    content_data: Array,
    content_offsets: Array,
    content_there: Array,
) -> int:
    """Write the records of a batch that `plan_batch` has measured; returns where they end."""
    for delta in range(count):
        row = order[first + delta]
        position = _write_varint(out, position, lengths[row] + _varint_bytes(delta))
        out[position] = 0  # attributes
        out[position + 1] = 0  # timestamp delta
        position = _write_varint(out, position + 2, delta)
        position = _write_field(out, position, key_data, key_offsets[row], key_offsets[row + 1], key_there[row])
        position = _write_field(out, position, value_data, value_offsets[row], value_offsets[row + 1], value_there[row])
        position = _write_varint(out, position, header_edges[row + 1] - header_edges[row])
        for header in range(header_edges[row], header_edges[row + 1]):
            position = _write_field(out, position, name_data, name_offsets[header], name_offsets[header + 1], True)
            position = _write_field(
                out, position, content_data, content_offsets[header], content_offsets[header + 1], content_there[header]
            )
    return position
