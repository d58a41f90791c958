"""What hypothesis does on any machine: a loaded one takes its time, and no test fails for that."""

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
