"""Bytes <-> messages: framing, primitives, headers, record batches, compression and the generated messages. Pure."""
