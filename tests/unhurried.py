"""Tests of properties may take their time: that of one example says how busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")
