"""The other world: implements the same ports with virtual time and seeded faults."""
