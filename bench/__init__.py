"""`make bench`: how one broker does on this machine, always beside what the machine itself can do in the same minute.

Small machines swing threefold with their neighbours, so no figure stands alone: a share of librdkafka's own mock, a
share of an echo server on the same event loop, a multiple of the bare receive + CRC + write. Systems alternate run by
run, each run is compared with the reference runs right before and after it, runs that something disturbed are left out,
and a row with too few good runs or too much spread prints no figure at all.
"""
