"""A site behind a wall that asks visitors to prove that they are human, and never believes them."""
