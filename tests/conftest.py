"""Hypothesis profiles: `pytest --hypothesis-profile thorough` before a release."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: threads only cost

from hypothesis import HealthCheck, settings

slow = [HealthCheck.too_slow]  # the machine may be busy; that is no fault of a test
settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=slow)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=slow)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
