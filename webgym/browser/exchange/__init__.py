"""Requests about sessions and their answers, as bytes: read, carried out, written."""
