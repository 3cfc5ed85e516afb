"""The paper's claims, tested again: one file per claim, equal budgets, criteria written beforehand."""
