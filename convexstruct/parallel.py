"""Maps over shards of examples on any ``concurrent.futures.Executor``."""
