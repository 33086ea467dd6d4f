"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Time limits on examples say more about a busy machine than about the code.
settings.register_profile("laxity", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laxity")
