"""A small asyncio client on the same codecs as the broker; its connections are handed in."""
