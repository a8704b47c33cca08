import re
from urllib.parse import urljoin

from tests.integration.webgym.sites.visiting import Page, Visitor, visit
from webgym.sites.application import SITES

HOSTILE = """"'><script>alert(1)</script><img src=x onerror=alert(1)>{title}"""
# These trouble whoever opens them, as they should.
TROUBLE = re.compile(
    r"/(broken/(status|loop|chain|reset|hang-up|cut-short|big|sign-in|file|line)"
    r"|slow/(forecast|log|data|subscribed)|captcha/)"
)


def test_every_link_leads_to_a_page_and_none_leads_away() -> None:
    async def crawl(one: Visitor) -> dict[str, Page]:
        seen: dict[str, Page] = {}
        waiting = ["/"]
        while waiting:
            path = waiting.pop()
            if path in seen or TROUBLE.match(path):
                continue
            page = seen[path] = await one.get(path)
            for address in page.addresses:
                if address.startswith("data:") or address == "x":
                    continue
                target = urljoin(path, address)
                assert target.startswith("/"), f"{path} leads to {address}"
                waiting.append(target)
        return seen

    seen = visit(crawl)
    assert {path: page.status for path, page in seen.items() if page.status != 200} == {}
    assert len(seen) > 250
    for site in SITES:
        assert f"/{site.name}/" in seen or site.name == "captcha"
        assert f"/{site.name}" not in seen


def test_a_site_loads_nothing_from_other_hosts_and_is_found_without_its_slash() -> None:
    async def act(one: Visitor) -> list[Page]:
        return [await one.get(f"/{site.name}") for site in SITES]

    for site, page in zip(SITES, visit(act), strict=True):
        assert page.url == f"/{site.name}/"
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"""(src|href|action)=["']?(https?:)?//""", page.body)


def test_url_parameters_are_escaped() -> None:
    paths = (
        "/shop/products?q={}",
        "/encyclopedia/search?q={}",
        "/encyclopedia/wiki/{}",
        "/booking/cabins?arrival={0}&departure={0}",
        "/shop/product/{}",
        "/shop/help/{}",
        "/shop/products?sort={}",
        "/{}/x",
    )

    async def act(one: Visitor) -> list[Page]:
        quoted = HOSTILE.replace("<", "%3C").replace(">", "%3E").replace('"', "%22")
        quoted = quoted.replace("/", "%2F").replace("{", "%7B")
        return [await one.get(path.format(quoted)) for path in paths]

    for page in visit(act):
        assert page.status in (200, 400, 404)
        assert "<script>alert" not in page.body
        assert all("onerror" not in attributes for _, attributes in page.elements)


def test_form_fields_are_escaped() -> None:
    async def act(one: Visitor) -> list[Page]:
        await one.post("/shop/cart/add", {"product": "cedar-bird-feeder"})
        fields = dict.fromkeys(("name", "email", "address", "city", "postcode"), HOSTILE)
        pages = [await one.post("/shop/checkout", fields)]
        good = {**fields, "email": "a@b.cd", "postcode": "123", "country": "OR"}
        pages += [await one.post("/shop/checkout", good), await one.post("/shop/order")]
        pages.append(await one.post("/shop/cart/discount", {"code": HOSTILE}))
        pages.append(await one.get("/shop/orders"))
        booking = {"arrival": HOSTILE, "departure": HOSTILE, "cabin": HOSTILE}
        pages.append(await one.post("/booking/book/dates", booking))
        lookup = {"reference": HOSTILE, "last_name": HOSTILE}
        pages.append(await one.post("/booking/manage", lookup))
        pages.append(await one.post("/slow/subscribe", {"email": "<b>@x.yz"}))
        return pages

    for page in visit(act):
        assert page.status == 200, page.url
        assert "<script>alert" not in page.body
        assert "<b>@" not in page.body
        assert all("onerror" not in attributes for _, attributes in page.elements)


BAD_ADDRESSES = {
    "/nowhere": 404,
    "/shop/product/none": 404,
    "/shop/products?page=x": 400,
    "/shop/products?low=-5": 400,
    "/shop/products?q=" + "x" * 400: 400,
    "/shop/picture/none.svg": 404,
    "/shop/order/HB-1": 404,
    "/shop/help/none": 404,
    "/encyclopedia/wiki/Atlantis": 404,
    "/encyclopedia/category/None": 404,
    "/booking/cabin/castle": 404,
    "/booking/cabin/tern-loft?month=2030-13": 400,
    "/booking/cabin/tern-loft?month=2031-01": 404,
    "/booking/cabins?guests=many": 400,
    "/booking/manage/FC-20417": 404,
    "/booking/manage/FC-20417/cancel": 404,
    "/slow/readings?seconds=nan": 400,
    "/slow/readings?seconds=9999": 400,
    "/slow/data/storms?from=61": 400,
    "/broken/none": 404,
    "/broken/status/200": 400,
    "/broken/big?megabytes=500": 400,
    "/broken/chain?left=-1": 400,
}


def test_a_bad_address_has_an_error_page_with_a_way_back() -> None:
    async def act(one: Visitor) -> dict[str, Page]:
        return {path: await one.get(path) for path in BAD_ADDRESSES}

    pages = visit(act)
    assert {path: page.status for path, page in pages.items()} == BAD_ADDRESSES
    for page in pages.values():
        assert page.count("h1") == 1
        assert any(name == "a" for name, _ in page.elements)


def test_a_request_that_is_too_large_or_unreadable_is_rejected() -> None:
    async def act(one: Visitor) -> list[int]:
        form = {"Content-Type": "application/x-www-form-urlencoded; charset=klingon"}
        files = (
            b'--x\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n\r\nb\r\n--x--\r\n'
        )
        multipart = {"Content-Type": "multipart/form-data; boundary=x"}
        many = {f"field{number}": "x" for number in range(100)}
        pages = [
            await one.post("/shop/cart/add", {"product": "x" * 70_000}),
            await one.post("/shop/cart/add", {"product": "x" * 400}),
            await one.post("/shop/cart/add", many),
            await one._ask("POST", "/shop/cart/add", data=b"a=b", headers=form),
            await one._ask("POST", "/shop/cart/add", data=files, headers=multipart),
            await one._ask("PUT", "/shop/cart"),
        ]
        return [page.status for page in pages]

    assert visit(act) == [413, 400, 400, 400, 400, 405]
