"""Oracles over a batch of examples behind one set of methods, whatever the graphs; in shards for any executor."""
