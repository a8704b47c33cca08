"""Attempts and servers in many processes, on this machine or on a Ray cluster."""
