"""A module that prints and then cannot be imported."""

print("printed while importing")
raise RuntimeError("no such licence")
