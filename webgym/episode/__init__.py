"""One agent, one browser, one task: how an episode goes."""
