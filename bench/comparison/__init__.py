"""hightide and Apache Kafka side by side: same machine, same client, same settings, in one run, as ratios.

A contest is one thing done by both in turn (`contests`), round by round, in alternating order; its lines are the ratios
printed from it. `loads` does one run of a kind of work against one cluster and watches the machine meanwhile, `arena`
keeps the warm clusters, the `*_rows` modules say what is measured and what shall be reached, `run` goes through it all,
`result`, `page` and `plots` write it down.
"""
