"""The driver `solve`, certificates, solutions, the registry and L-BFGS: what all families share."""
