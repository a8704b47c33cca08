"""Rollouts that a page blocked: completed, and never judged. They are no success and no failure."""

IS_BLOCKED = """(
    status = 'completed' AND success IS NULL
    AND EXISTS (SELECT 1 FROM field WHERE name = 'is_blocked')
    AND (SELECT json_extract(fields, '$.is_blocked') FROM words WHERE words.entry = entry.id) IS 1
)"""
"""SQL that is 1 for an `entry` that was blocked, else 0. Most sources have no such field at all."""
