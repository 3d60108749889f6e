"""Serving the monitor's text over HTTP, for a Prometheus that comes and asks. Imported by `leasefs metrics --listen` alone."""

from __future__ import annotations

import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs.core.exposition import CONTENT_TYPE
from leasefs_cli.scraping import scraped, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = 4
_PATIENCE_S = 10.0


class _Handler(BaseHTTPRequestHandler):
    """One request: `/metrics`, and nothing else."""

    timeout: ClassVar[float | None] = _PATIENCE_S
    server_version = "leasefs"
    sys_version = ""

    def do_GET(self) -> None:
        """The numbers of now."""
        if self.path.partition("?")[0] != "/metrics":
            self._say(404, "there is nothing here but /metrics\n", "text/plain; charset=utf-8")
            return
        try:
            text = text_of(scraped())
        except LeasefsError as error:
            self._say(503, error.message + "\n", "text/plain; charset=utf-8")
            return
        self._say(200, text, CONTENT_TYPE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's name
        """Who asks and when is Prometheus' own business."""

    def _say(self, status: int, text: str, content_type: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    """So many questions at once; who asks besides waits in the socket's queue."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.Semaphore(_AT_ONCE)
        super().__init__((host, port), _Handler)

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """In a thread, once there is room."""
        self._room.acquire()
        super().process_request(request, client_address)

    def process_request_thread(  # type: ignore[override]
        self, request: socket.socket, client_address: tuple[str, int]
    ) -> None:
        """One connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked went away, or was too slow; that is theirs."""


def serve(where: str, ready: Callable[[str], None]) -> None:
    """Serve at `HOST:PORT` until SIGTERM or Ctrl-C; `ready` hears the URL.

    Raises:
        InvalidRequest: that is no address, or cannot be listened at.
    """
    host, _, port = where.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidRequest(f"{where!r} is not HOST:PORT, such as 127.0.0.1:9469")
    try:
        server = _Server(host, int(port))
    except OSError as error:
        raise InvalidRequest(f"nobody can listen at {where}: {error.strerror}") from error
    with server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{server.server_address[1]}/metrics")
        server.serve_forever()
