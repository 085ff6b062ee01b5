"""Print what Alertmanager sends to a webhook, a line of JSON each; run alone in a container beside it."""

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    """Take any notification; its path tells which receiver of Alertmanager's it was for."""

    def do_POST(self) -> None:
        """Print it, without what the tests do not look at: the engine would break a long line."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        alerts = [[alert["status"], alert["labels"]["alertname"]] for alert in sent["alerts"]]
        print(json.dumps({"receiver": self.path.strip("/"), "alerts": alerts}), flush=True)
        self.send_response(HTTPStatus.OK)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing else."""


if __name__ == "__main__":
    HTTPServer(("", 8080), Receiver).serve_forever()
