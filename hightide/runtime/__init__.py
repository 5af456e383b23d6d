"""The real world: implements `node.ports` with sockets, files, clocks and fsync threads."""
