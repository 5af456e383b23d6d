"""The two commit rules as a pure state machine: events in, effects out."""
