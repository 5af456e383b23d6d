"""One module per Kafka API, each opening with its versions and its contract."""
