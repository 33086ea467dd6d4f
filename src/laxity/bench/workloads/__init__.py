"""What is run: arrivals, a source that keeps to them, queries, and mixes of them."""
