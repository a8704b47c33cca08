"""What customers say: chosen for each product from a table, always the same."""

from random import Random

import msgspec

from webgym.sites.shop.catalogue import Product

_AUTHORS = (
    "Marit O.", "Jonas K.", "Priya S.", "Tomasz W.", "Elin B.", "Hugo F.", "Noor A.", "Casper L.",
    "Wen H.", "Ida R.", "Oskar V.", "Rosa D.", "Femke J.", "Luca P.",
)  # fmt: skip
_PRAISE = (
    ("Worth the wait", "It took a week to arrive and I would wait again. Everything fits."),
    ("Better than expected", "I bought it for the price and keep it for the finish."),
    ("Daily use, no complaints", "Half a year of daily use and it looks as it did on day one."),
    ("A good present", "My sister asked where it was from before she said thank you."),
    ("Simple and solid", "Nothing on it that does not need to be there."),
    ("Second one", "The first is at the cabin, so this one is for home."),
)
_DOUBT = (
    ("Good, with a catch", "Does what it should, but the packaging was twice as big as it."),
    ("Fine", "Nothing special, nothing wrong. The colour is a bit darker than in the picture."),
    ("Smaller than I thought", "Read the measurements, unlike me. Otherwise good."),
    ("Not for me", "Well made, but I sent it back. The return was easy."),
)


class Review(msgspec.Struct, frozen=True):
    """One customer's word."""

    author: str
    stars: int
    title: str
    text: str


def reviews_of(product: Product, count: int = 3) -> list[Review]:
    random = Random(product.slug)  # noqa: S311 - a choice that must repeat
    authors = random.sample(_AUTHORS, count)
    praise = random.sample(_PRAISE, count - 1)
    doubt = random.choice(_DOUBT)
    stars = [5, 5 if product.rating >= 4.5 else 4, 3]
    return [
        Review(author, star, title, text)
        for author, star, (title, text) in zip(authors, stars, [*praise, doubt], strict=True)
    ]
