"""Visual web agents in real browsers, built on `rollgym`."""
