"""Records as they are looked at: turns, sections, pictures, made when they are asked for."""
