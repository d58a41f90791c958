"""The papers that the systems come from, by number."""

from __future__ import annotations

PAPER_0 = "Yu, Bertsekas, Rousu: An efficient discriminative training method for generative models"
PAPER_1 = "Sarawagi: Training algorithms for structured learning"
PAPER_2 = "Saha, Zhang, Vishwanathan: Lower bounds for BMRM and faster rates for training SVMs"
PAPER_3 = "Xu, Wilkinson, Southey, Schuurmans: Discriminative unsupervised learning of structured predictors"
PAPER_4 = "Murphy: Stat 521A, lecture 25"
