#!/usr/bin/env python3
"""The real ClickHouse engine (chDB) behind the part of ClickHouse's HTTP interface that floodmark uses.

For machines without a container engine: the ClickHouse server is in no package registry, its engine is
(PyPI `chdb-core`). Clients see one HTTP address and cannot tell the difference, within these limits:

- Requests run one after the other. Sending a result does not hold up the next request.
- No compression, no HTTP sessions, no query log. All errors are status 500, except a refused login.
- A result is complete before its first byte is sent: an error is never in the middle of one.
- An INSERT runs when its whole body has arrived: a client that breaks off leaves nothing behind.

What is acknowledged is in the page cache, as with the server's own defaults: it survives kill -9.
"""

import argparse
import base64
import hmac
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

# URL parameters that steer the HTTP interface. Any other is a setting, or a query parameter (`param_`).
INTERFACE_PARAMETERS = {
    "buffer_size", "compress", "database", "decompress", "default_format", "password", "query", "query_id",
    "quota_key", "role", "session_check", "session_id", "session_timeout", "stacktrace", "user",
    "wait_end_of_query",
}  # fmt: skip

# An INSERT whose rows are the request's body.
INSERT_OF_BODY = re.compile(
    r"\s*(?P<insert>INSERT\s+INTO\s.+?)"
    r"(?P<settings>\sSETTINGS\s+\w+\s*=.+?)?"
    r"\s+(?:FORMAT\s+(?P<format>\w+)|(?P<values>VALUES))\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)

PIECE_BYTES_MAX = 1 << 20


class Refused(Exception):
    """A request this server turns down itself, with ClickHouse's code and name for the reason."""

    def __init__(self, code, name, message, status=500):
        super().__init__(f"Code: {code}. DB::Exception: {message}. ({name})")
        self.status = status


class Engine:
    """The one chDB engine of the process."""

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._keep_open = Session(path)

    def run(self, statement, output_format, database, settings, parameters, read_only):
        # A connection per request costs 0.4 ms and keeps its database and settings from the next one.
        with self._lock, Session(self._path) as connection:
            connection.query(f"USE {quote(database, '`')}")
            if settings:
                changes = ", ".join(f"{name} = {quote(value)}" for name, value in settings.items())
                connection.query(f"SET {changes}")
            if read_only:
                connection.query("SET readonly = 2")
            return connection.query(statement, output_format, params=parameters)

    def close(self):
        with self._lock:
            self._keep_open.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, engine, spool, login):
        super().__init__(address, Handler)
        self.engine = engine
        self.spool = spool
        self.login = login

    def handle_error(self, request, client_address):
        # A client that went away is daily business; anything else deserves its traceback.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    rbufsize = PIECE_BYTES_MAX

    def do_GET(self):
        if urlsplit(self.path).path == "/ping":
            self.respond(200, b"Ok.\n")
        else:
            self.answer(read_only=True)  # as the server does: a GET changes nothing

    def do_POST(self):
        self.answer(read_only=False)

    def answer(self, read_only):
        body = Body(self.rfile, self.headers)
        try:
            url = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            self.check_login(url)
            if url.get("decompress", "0") != "0" or self.headers.get("Content-Encoding"):
                raise Refused(48, "NOT_IMPLEMENTED", "Compressed bodies are not supported here: turn compression off")
            result = self.execute(url, body, read_only)
        except Refused as refusal:
            self.respond_error(refusal.status, str(refusal))
        except RuntimeError as error:  # what chDB raises, with the engine's own text
            self.respond_error(500, str(error))
        else:
            view = result.get_memview()
            self.respond(200, view.view() if view.size() else b"")
        finally:
            # What is unread of the body would be taken for the next request.
            self.close_connection |= not body.complete

    def execute(self, url, body, read_only):
        if self.headers.get_content_type() == "multipart/form-data":
            boundary = self.headers.get_param("boundary", "")
            url |= multipart_fields(b"".join(body), boundary.encode())

        query = url.get("query", "")
        insert = INSERT_OF_BODY.fullmatch(query)
        spooled = None
        if insert and not read_only:
            spooled = self.spool_rows(body)
        try:
            if spooled:
                statement = (
                    f"{insert['insert']} FROM INFILE {quote(spooled)}{insert['settings'] or ''}"
                    f" FORMAT {insert['format'] or 'Values'}"
                )
            else:
                # As the server does: the query starts in the URL and goes on in the body.
                statement = b"\n".join(filter(None, [query.encode(), b"".join(body)]))
            if not statement:
                raise Refused(62, "SYNTAX_ERROR", "Syntax error: the request has no query")

            return self.server.engine.run(
                statement,
                url.get("default_format", "TabSeparated"),
                url.get("database", "default"),
                settings={k: v for k, v in url.items() if k not in INTERFACE_PARAMETERS and not k.startswith("param_")},
                parameters={k.removeprefix("param_"): v for k, v in url.items() if k.startswith("param_")},
                read_only=read_only,
            )
        finally:
            if spooled:
                os.unlink(spooled)

    def spool_rows(self, body):
        """Writes the body to a file. Rows are arbitrary bytes, which the text of a statement cannot carry."""
        with tempfile.NamedTemporaryFile(dir=self.server.spool, delete=False) as file:
            try:
                for piece in body:
                    file.write(piece)
            except BaseException:
                os.unlink(file.name)
                raise
        return file.name

    def check_login(self, url):
        if not self.server.login:
            return
        scheme, _, credentials = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "basic":
            given = base64.b64decode(credentials)
        else:
            user = self.headers.get("X-ClickHouse-User") or url.get("user", "default")
            password = self.headers.get("X-ClickHouse-Key") or url.get("password", "")
            given = f"{user}:{password}".encode()
        if not hmac.compare_digest(given, self.server.login):
            raise Refused(516, "AUTHENTICATION_FAILED", "Authentication failed: wrong user or password", status=403)

    def respond_error(self, status, text):
        code = re.match(r"Code: (\d+)", text)
        self.log_error("%s", text)
        self.respond(status, f"{text}\n".encode(), {"X-ClickHouse-Exception-Code": code[1] if code else "1002"})

    def respond(self, status, content, headers=None):
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code="-", size="-"):
        pass  # errors are logged, requests are not: there are thousands a second


class Body:
    """The pieces of a request's body, whichever way it is framed; none once it is `complete`."""

    def __init__(self, stream, headers):
        self._stream = stream
        self._chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
        self._length = int(headers.get("Content-Length", 0))
        self.complete = not self._chunked and self._length == 0

    def __iter__(self):
        if self.complete:
            return
        if self._chunked:
            while length := int(self._stream.readline().partition(b";")[0] or b"-1", 16):
                yield from self._take(length)
                self._stream.readline()
            while self._stream.readline().strip():
                pass  # trailers
        else:
            yield from self._take(self._length)
        self.complete = True

    def _take(self, length):
        if length < 0:
            raise ConnectionAbortedError("the client broke off")
        while length:
            piece = self._stream.read(min(length, PIECE_BYTES_MAX))
            if not piece:
                raise ConnectionAbortedError("the client broke off")
            length -= len(piece)
            yield piece


def multipart_fields(body, boundary):
    """The fields of a form: how the `clickhouse` crate sends a query that has parameters."""
    fields = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        if name := re.search(rb'name="([^"]+)"', head):
            fields[name[1].decode()] = value.removesuffix(b"\r\n").decode()
    return fields


def quote(text, mark="'"):
    return mark + text.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--host", default="127.0.0.1")
    arguments.add_argument("--port", type=int, default=28123)
    arguments.add_argument("--path", required=True, help="folder of the data")
    arguments = arguments.parse_args()

    # What a killed process left half-received belongs to nobody.
    spool = os.path.join(arguments.path, "spool")
    shutil.rmtree(spool, ignore_errors=True)
    os.makedirs(spool)

    user = os.environ.get("FLOODMARK_DEV_CLICKHOUSE_USER", "default")
    password = os.environ.get("FLOODMARK_DEV_CLICKHOUSE_PASSWORD", "")
    login = f"{user}:{password}".encode() if password or user != "default" else None

    engine = Engine(os.path.join(arguments.path, "engine"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Server((arguments.host, arguments.port), engine, spool, login) as server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            engine.close()


if __name__ == "__main__":
    main()
