"""A few Chromium processes for many sessions: placed, watched, recycled, replaced."""
