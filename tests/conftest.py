"""What holds for all tests."""

import os
import signal

from hypothesis import settings

# A shell has what it runs in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No Spark of the tests lives long enough for what optimises its code to be worth its time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Machines are shared: how long an example takes says nothing.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
