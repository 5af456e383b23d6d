"""For all tests: Hypothesis times nothing, so that a busy machine fails nothing; Ctrl-C reaches what tests start."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background ignores it, and so would every process that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
