"""What people and machines see of a running Laxity: REST, dashboard, metrics, events.

Nothing here knows Spark: a `Service` is asked for views, and asked to change things.
"""

from laxity.server.service import Service

__all__ = ["Service"]
