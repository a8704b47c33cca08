"""Baseline policies behind the HTTP interface of a model: no model, and labelled as such."""
