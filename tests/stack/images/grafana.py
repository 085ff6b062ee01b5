"""Stand in for Grafana in container tests: healthy once it was given what Grafana needs, with the reason if not."""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

PROVISIONING = Path(os.environ.get("GF_PATHS_PROVISIONING", "/etc/grafana/provisioning"))


def problems() -> list[str]:
    """List what keeps Grafana from showing the dashboards."""
    found = []
    if not any(source.get("url") for source in provisioned("datasources", "datasources")):
        found.append("no data source with a url is provisioned")
    folders = [provider["options"]["path"] for provider in provisioned("dashboards", "providers")]
    files = [path for folder in folders for path in Path(folder).rglob("*.json")]
    if not files:
        found.append(f"no dashboard lies in the provisioned folders {folders}")
    found += [
        f"{path} has no title or no uid" for path in files if not {"title", "uid"} <= set(json.loads(path.read_text()))
    ]
    for name, value in os.environ.items():
        if name.endswith("__FILE") and not os.access(value, os.R_OK):
            found.append(f"{name} names {value}, which can't be read")
    return found


def provisioned(kind: str, key: str) -> list[dict[str, Any]]:
    """Collect one kind of entries from the provisioning files."""
    entries: list[dict[str, Any]] = []
    for path in sorted(PROVISIONING.joinpath(kind).glob("*.y*ml")):
        entries += yaml.safe_load(path.read_text()).get(key) or []
    return entries


class Handler(BaseHTTPRequestHandler):
    """Answer Grafana's health address."""

    def do_GET(self) -> None:
        """Answer 200 if nothing is amiss, 503 with the reasons otherwise."""
        try:
            amiss = problems()
        except (OSError, ValueError, KeyError, yaml.YAMLError) as error:
            amiss = [repr(error)]
        body = json.dumps({"database": "ok", "problems": amiss}).encode()
        self.send_response(404 if self.path != "/api/health" else 503 if amiss else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ.get("GF_SERVER_HTTP_PORT", "3000"))), Handler).serve_forever()
