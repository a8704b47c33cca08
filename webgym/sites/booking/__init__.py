"""Cabins by the sea: a calendar, a form in three steps with checks, and bookings."""
