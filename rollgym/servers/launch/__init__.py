"""Starting, watching and finding the servers of a run."""
