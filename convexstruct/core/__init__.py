"""The driver `solve`, certificates, solutions, the registry, L-BFGS: what every family is solved and judged with."""
