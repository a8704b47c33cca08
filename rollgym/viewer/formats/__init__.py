"""The kinds of records that rollgym writes: how each is summarised and shown."""
