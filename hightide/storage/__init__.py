"""One log on disk: segments, indexes, epochs, producer state, recovery, retention, checkpoints.

All access to the file system goes through `storage.files`, a Protocol.
"""
