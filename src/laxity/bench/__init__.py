"""Measurements and demonstrations. Nothing else is built on this package."""
