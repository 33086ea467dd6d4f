"""Deadlines for Spark streams."""

from laxity._version import __version__

__all__ = ["__version__"]
