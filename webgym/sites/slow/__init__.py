"""A measuring station with a bad line: pages that come late, bit by bit, afterwards, or never."""
