"""Laxity on Spark: the core's decisions, enforced in a stock Spark driver."""
