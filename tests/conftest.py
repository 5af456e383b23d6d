"""For all tests: Hypothesis times nothing, so that a busy machine fails nothing; Ctrl-C reaches what tests start; what
was compiled is what the sources say."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tools.compile_hot_path import ROOT, outdated

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background ignores it, and so would every process that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if os.environ.get("HIGHTIDE_INTERPRETED") != "1" and (changed := outdated(ROOT)):
    names = ", ".join(map(str, changed))
    raise pytest.UsageError(f"{names} changed since it was compiled: 'make compile', or HIGHTIDE_INTERPRETED=1")
