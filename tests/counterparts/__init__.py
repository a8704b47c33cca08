"""Servers as somebody else would write them: from the wire contract only, in plain standard Python.

Tests run them in processes of their own, against our servers, in both directions. Nothing here
imports the product, so a misreading of the contract in the product cannot hide in its tests.
"""
