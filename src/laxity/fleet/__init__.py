"""Where a query lives: a fleet of Spark applications, after Neptune."""
