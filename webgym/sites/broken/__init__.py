"""A site in disrepair: errors, loops, traps, and the odd corners of HTML."""
