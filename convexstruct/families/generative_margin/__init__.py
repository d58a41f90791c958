"""Discriminative training of generative models: hidden Markov models and Bayesian networks (paper 0)."""

from convexstruct.families.generative_margin.problem import GenerativeMargin
from convexstruct.families.generative_margin.solvers.bundle import ProximalBundle
from convexstruct.families.generative_margin.solvers.entropic_proximal import EntropicProximal
from convexstruct.families.generative_margin.solvers.maximum_likelihood import MaximumLikelihood
from convexstruct.families.generative_margin.solvers.proximal_rsd import ProximalRSD
from convexstruct.families.generative_margin.solvers.working_sets import CoordinateWorkingSets, OnlineWorkingSets

__all__ = [
    "CoordinateWorkingSets",
    "EntropicProximal",
    "GenerativeMargin",
    "MaximumLikelihood",
    "OnlineWorkingSets",
    "ProximalBundle",
    "ProximalRSD",
]
