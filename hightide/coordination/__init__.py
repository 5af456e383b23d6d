"""Groups as replicated state machines: request → (records, answers), records → state. Pure; `node` keeps the log."""
