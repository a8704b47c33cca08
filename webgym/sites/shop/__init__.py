"""A shop for the home: catalogue, search, filters, cart and checkout."""
