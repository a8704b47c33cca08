"""Rollouts of web tasks: AsyncWebGym, the iterations on disk, and the command around them."""
