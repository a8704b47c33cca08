"""All the sites as one application: a folder of addresses for each, and an index before them."""

from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from webgym.sites import index_page, truth
from webgym.sites.booking.routes import BOOKING
from webgym.sites.bounds import REQUEST_BYTES
from webgym.sites.broken.routes import BROKEN
from webgym.sites.captcha.routes import CAPTCHA
from webgym.sites.encyclopedia.routes import ENCYCLOPEDIA
from webgym.sites.errors import PageError
from webgym.sites.sessions import Sessions
from webgym.sites.shop.routes import SHOP
from webgym.sites.site import page
from webgym.sites.slow.routes import SLOW
from webgym.sites.slow.waiting import WAITING, Waiting
from webgym.sites.visitors import SESSIONS, on_prepare, visiting
from webgym.sites.widgets.routes import WIDGETS

SITES = (SHOP, ENCYCLOPEDIA, BOOKING, SLOW, WIDGETS, BROKEN, CAPTCHA)


def make_application(sessions: Sessions | None = None) -> web.Application:
    """To be served."""
    application = web.Application(
        middlewares=[_explaining, visiting], client_max_size=REQUEST_BYTES
    )
    application[SESSIONS] = sessions or Sessions()
    application[WAITING] = Waiting()
    application.on_response_prepare.append(on_prepare)
    application.add_routes(truth.routes())
    application.add_routes(index_page.routes(SITES))
    for site in SITES:
        application.add_routes(site.all_routes())
    return application


@web.middleware
async def _explaining(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn a refusal into a page that says why."""
    try:
        return await handler(request)
    except PageError as error:
        status, message = error.status, str(error)
    except web.HTTPNotFound:
        status, message = HTTPStatus.NOT_FOUND, "There is nothing at this address."
    except web.HTTPClientError as error:
        status, message = HTTPStatus(error.status), "The request could not be understood."
    return page(index_page.error_page(request.path, status, message), status)
