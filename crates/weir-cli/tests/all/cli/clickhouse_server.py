"""ClickHouse's HTTP interface in front of chdb, the engine of ClickHouse in a library: `python3 clickhouse_server.py FOLDER PORT`.

Statements and their settings come as to a server, so that the engine parses the statement, the settings and the Arrow stream.
Only the transport is not ClickHouse's. `FOLDER/delay`, while it exists, delays answers by the seconds in it, after the insertion.
"""

import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qsl, urlsplit

from chdb import session

folder, port = sys.argv[1], int(sys.argv[2])
database = session.Session(os.path.join(folder, "data"))
database.query("CREATE DATABASE IF NOT EXISTS weir ENGINE = Atomic")
# The engine runs one statement at a time.
engine = Lock()
# Settings of the transport.
OF_TRANSPORT = {"query", "wait_end_of_query"}


def run(query, settings, body):
    given = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
    insertion = re.fullmatch(r"(INSERT INTO .*) FORMAT ArrowStream", query, re.S)
    if insertion:
        path = os.path.join(folder, "body.arrows")
        with open(path, "wb") as file:
            file.write(body)
        # The client of ClickHouse sends the file as the data of the statement.
        query = f"{insertion[1]} FROM INFILE '{path}' SETTINGS {given} FORMAT ArrowStream"
    elif not query:
        query = body.decode()
    return database.query(query, "JSONEachRow").bytes().decode(errors="replace")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        parameters = dict(parse_qsl(urlsplit(self.path).query))
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        settings = {name: value for name, value in parameters.items() if name not in OF_TRANSPORT}
        status, code = 200, None
        if self.headers.get("X-ClickHouse-Key", "") != os.environ.get("WANTED_PASSWORD", ""):
            status, code, answer = 403, "516", "Code: 516. DB::Exception: default: Authentication failed"
        else:
            try:
                with engine:
                    answer = run(parameters.get("query", ""), settings, body)
            except Exception as error:
                found = re.search(r"Code: (\d+)", str(error))
                status, code, answer = 500, found[1] if found else "1002", str(error)
        delay = os.path.join(folder, "delay")
        if os.path.exists(delay):
            with open(delay) as file:
                time.sleep(float(file.read()))
        answer = answer.encode()
        self.send_response(status)
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that goes is no error."""


print("ready", flush=True)
Server(("127.0.0.1", port), Handler).serve_forever()
