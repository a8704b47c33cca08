"""A vision model as the judge of episodes: what it is asked, and what it may say."""
