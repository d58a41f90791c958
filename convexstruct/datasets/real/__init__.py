"""Loaders of real sets, read from the data root or the cache and checked by SHA-256; never a pickle."""
