"""Oracles over a batch of examples, with the same methods whatever the graphs; and batches in shards on executors."""
