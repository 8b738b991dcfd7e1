"""Serve a test to browsers and store their answers: one process, one writer, no lost answer.

`POST answers` returns 200 once the answers are on disk. Of what a browser sends its rater's number
and its session, both checked, name a file, and nothing is shown to another browser.
"""

import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from speculative_tts.files import held
from speculative_tts.listening.answers import parse_sheet, store
from speculative_tts.listening.key import ANSWERS, SITE, Key, read_key

LARGEST = 1_000_000  # bytes of a sheet; a thousand answers take a tenth of that
COLLECT = 'window.COLLECT = "answers";\n'
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; media-src 'self'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def application(folder: Path, key: Key) -> Starlette:
    """Return the web application for a test's folder."""

    async def answers(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _refused("answers are sent as application/json", 415)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return _refused(f"more than {LARGEST} bytes", 413)
        try:
            sheet = parse_sheet(key, json.loads(body), "answers")
        except (ValueError, RecursionError) as error:
            return _refused(str(error), 400)
        store(folder / ANSWERS, key, sheet)
        return JSONResponse({"saved": len(sheet.answers)})

    return Starlette(
        routes=[
            Route("/answers", answers, methods=["POST"]),
            Route("/server.js", _collect),
            Mount("/", StaticFiles(directory=folder / SITE, html=True)),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_with_headers)],
    )


def serve(folder: Path, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` gets the address. Raise ValueError if it is not free."""
    key = read_key(folder)
    if not (folder / SITE / "index.html").is_file():
        raise ValueError(f"{folder / SITE} is gone; make the test again")
    with held(folder / ANSWERS, instead="another folder"), _listening(host, port) as place:
        ready(f"http://{host}:{place.getsockname()[1]}/")
        config = uvicorn.Config(application(folder, key), log_level="warning")
        uvicorn.Server(config).run(sockets=[place])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"{host}:{port} cannot be had ({error}); give another host, or port=0 for any port"
        ) from error


async def _collect(_: Request) -> Response:
    """Return server.js, which makes the page send its answers; the static site's file does not."""
    return Response(COLLECT, media_type="text/javascript")


async def _with_headers(
    request: Request, answer: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await answer(request)
    response.headers.update(HEADERS)
    return response


def _refused(why: str, status: int) -> Response:
    return JSONResponse({"error": why}, status_code=status)
