"""Settings: what each is called, what it may be, where its value comes from, how it is described.

`definition` says what a setting is, `broker` and `topic` declare those that hightide honours, `catalogue` (generated)
knows all of Kafka's, `unhonoured` judges names that nobody declared, `broker_values` and `topic_values` put the layers
of values on top of each other, `described` tells them to DescribeConfigs.
"""
