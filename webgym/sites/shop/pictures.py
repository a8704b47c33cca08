"""Pictures of the products, drawn rather than photographed.

Each kind of product is a handful of shapes in three shades of one hue, on a soft ground.
"""

from pathlib import Path

from webgym.sites.markup import Markup, Template
from webgym.sites.shop.catalogue import Product

_PICTURE = Template(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200">'
    '<rect width="200" height="200" fill="{ground}"/>'
    '<circle cx="100" cy="96" r="78" fill="{halo}"/>'
    '<ellipse cx="100" cy="168" rx="62" ry="7" fill="{shadow}"/>{shapes}</svg>'
)
SHAPES = {
    path.stem: Template.of(path) for path in Path(__file__).with_name("drawings").glob("*.svg")
}


def drawing(product: Product) -> Markup:
    """The product's picture, as SVG."""
    hue = product.hue
    shapes = SHAPES[product.drawing](
        main=f"hsl({hue} 52% 52%)", dark=f"hsl({hue} 38% 28%)", light=f"hsl({hue} 60% 88%)"
    )
    return _PICTURE(
        shapes=shapes,
        ground=f"hsl({hue} 30% 95%)",
        halo=f"hsl({(hue + 30) % 360} 38% 89%)",
        shadow=f"hsl({hue} 20% 78%)",
    )
