"""What happens inside one browser session: tabs, input, pictures, elements."""
