"""Evaluations: what real models make of the example agents."""
