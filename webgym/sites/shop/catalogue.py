"""The products, and finding among them."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from webgym.sites.errors import MissingPageError
from webgym.sites.forms import one_of, whole_number

CATEGORIES = {
    "kitchen": "Kitchen",
    "lighting": "Lighting",
    "outdoors": "Outdoors",
    "office": "Office",
    "audio": "Audio",
    "garden": "Garden",
}
ANY_CATEGORY = {"": "All products", **CATEGORIES}
RATINGS = {"": "Any rating", "3": "3 stars and up", "4": "4 stars and up", "4.5": "4.5 and up"}
SORTS = {
    "relevance": "Best match",
    "price": "Price: low to high",
    "price-down": "Price: high to low",
    "rating": "Highest rated",
    "name": "Name: A to Z",
}
PAGE_SIZE = 12
HIGHEST_PRICE = 100_000


class Choice(msgspec.Struct, frozen=True):
    """One variant of a product, and what it costs more."""

    name: str
    extra_cents: int = 0


class Option(msgspec.Struct, frozen=True):
    """What can be chosen of a product."""

    label: str
    choices: tuple[Choice, ...]


class Product(msgspec.Struct, frozen=True):
    """A product as the data file has it."""

    slug: str
    name: str
    brand: str
    category: str
    price_cents: int
    rating: float
    reviews: int
    stock: int
    drawing: str
    hue: int
    blurb: str
    details: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    option: Option | None = None

    @property
    def choice_names(self) -> tuple[str, ...]:
        return tuple(choice.name for choice in self.option.choices) if self.option else ()

    def price(self, chosen: str) -> int:
        """What one piece of a variant costs, in cents."""
        choices = self.option.choices if self.option else ()
        extra = next((each.extra_cents for each in choices if each.name == chosen), 0)
        return self.price_cents + extra


class Query(msgspec.Struct, frozen=True):
    """What a visitor looks for. Prices are whole dollars, both included."""

    text: str = ""
    category: str = ""
    low: int | None = None
    high: int | None = None
    rating: str = ""
    in_stock: bool = False
    sort: str = "relevance"
    page: int = 1

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "Query":
        """Raises BadRequestError."""
        return cls(
            text=fields.get("q", ""),
            category=one_of(fields, "category", ANY_CATEGORY),
            low=_price(fields, "low"),
            high=_price(fields, "high"),
            rating=one_of(fields, "rating", RATINGS),
            in_stock=bool(fields.get("stock")),
            sort=one_of(fields, "sort", SORTS),
            page=whole_number(fields, "page", 1, 1, 1_000),
        )

    def parameters(self, page: int) -> dict[str, str]:
        """The same query for another page of its results, as in a URL."""
        given = {
            "q": self.text,
            "category": self.category,
            "low": "" if self.low is None else str(self.low),
            "high": "" if self.high is None else str(self.high),
            "rating": self.rating,
            "stock": "1" if self.in_stock else "",
            "sort": "" if self.sort == "relevance" else self.sort,
            "page": "" if page == 1 else str(page),
        }
        return {name: text for name, text in given.items() if text}


def product(slug: str) -> Product:
    """Raises MissingPageError."""
    found = BY_SLUG.get(slug)
    if found is None:
        raise MissingPageError("We do not sell that, or not any more.")
    return found


def search(query: Query) -> list[Product]:
    """All that fit, in the order asked for."""
    words = _words(query.text)
    found = [each for each in PRODUCTS if _fits(each, query) and _mentions(each, words)]
    match query.sort:
        case "price":
            found.sort(key=lambda each: each.price_cents)
        case "price-down":
            found.sort(key=lambda each: -each.price_cents)
        case "rating":
            found.sort(key=lambda each: (-each.rating, -each.reviews))
        case "name":
            found.sort(key=lambda each: each.name)
        case _:
            found.sort(key=lambda each: -_named(each, words))
    return found


def suggestions(text: str, limit: int = 6) -> list[Product]:
    """Products whose name goes on with what was typed."""
    words = _words(text)
    return [each for each in PRODUCTS if words and _named(each, words) == len(words)][:limit]


def related(to: Product, limit: int = 4) -> list[Product]:
    """Others of the same category, the like first."""
    others = [each for each in PRODUCTS if each.category == to.category and each is not to]
    return sorted(others, key=lambda each: each.drawing != to.drawing)[:limit]


def _price(fields: Mapping[str, str], name: str) -> int | None:
    return whole_number(fields, name, 0, 0, HIGHEST_PRICE) if fields.get(name) else None


def _fits(each: Product, query: Query) -> bool:
    return (
        query.category in ("", each.category)
        and (query.low is None or each.price_cents >= query.low * 100)
        and (query.high is None or each.price_cents <= query.high * 100)
        and each.rating >= float(query.rating or 0)
        and (each.stock > 0 or not query.in_stock)
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _begins(word: str, words: list[str]) -> bool:
    """Whether one of the words begins with this, or with it in the singular."""
    return any(each.startswith((word, word.removesuffix("s") or word)) for each in words)


def _named(each: Product, words: list[str]) -> int:
    """How many of the words are in the name."""
    name = _words(each.name)
    return sum(_begins(word, name) for word in words)


def _mentions(each: Product, words: list[str]) -> bool:
    text = _words(f"{each.name} {each.brand} {each.category} {' '.join(each.words)}")
    return all(_begins(word, text) for word in words)


def _read() -> tuple[Product, ...]:
    lines = Path(__file__).with_name("products.jsonl").read_bytes().splitlines()
    decoder = msgspec.json.Decoder(Product)
    return tuple(decoder.decode(line) for line in lines)


PRODUCTS = _read()
BY_SLUG = {each.slug: each for each in PRODUCTS}
