"""The environment of web agents: the modules that users import.

Each module names what another package implements.
"""
