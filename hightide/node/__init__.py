"""One process: the broker and controller roles, assembled from the layers below and the ports a world offers."""
