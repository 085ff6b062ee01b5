"""Play a crawl, ask what the dashboards ask, and draw them: `python -m grafana.pictures`."""

import argparse
import json
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bench.demo.worker import ROOT
from bench.servers import ServerError
from grafana.dashboards import FOLDER
from grafana.pictures.questions import Window, answered
from grafana.pictures.scene import SCRAPE_INTERVAL_S, Scene, play

HERE = Path(__file__).parent


def main() -> int:
    """Draw all dashboards."""
    parser = argparse.ArgumentParser(prog="python -m grafana.pictures", description=__doc__)
    parser.add_argument("--again", action="store_true", help="draw what the last crawl left; play no other one")
    parser.add_argument("--light", action="store_true", help="draw in Grafana's light theme (default: the dark one)")
    parser.add_argument("--data", type=Path, default=ROOT / ".run" / "pictures", help="where answers and logs go")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures", help="where the pictures go")
    arguments = parser.parse_args()
    if not (HERE / "node_modules").is_dir():
        print(f"pictures: run `npm ci` in {HERE} first", file=sys.stderr)
        return 1
    if not arguments.again:
        try:
            _record(arguments.data)
        except ServerError as error:
            print(f"pictures: {error}", file=sys.stderr)
            return 1
    command = ["node", HERE / "draw.mjs", arguments.data / "answers", arguments.to]
    return subprocess.run([*command, *(["light"] if arguments.light else [])], check=False).returncode


def _record(data: Path) -> None:
    """Play the crawl, and write what the panels' queries gave of it."""
    shutil.rmtree(data, ignore_errors=True)
    (data / "answers").mkdir(parents=True)
    with ExitStack() as stack:
        scene = Scene(stack, data)
        window = Window(play(scene), _end_of_window(time.time()), SCRAPE_INTERVAL_S)
        for path in FOLDER.glob("*.json"):
            answers = answered(json.loads(path.read_text(encoding="utf-8")), scene.prometheus.ask, window)
            (data / "answers" / path.name).write_text(json.dumps(answers), encoding="utf-8")


def _end_of_window(now_s: float) -> float:
    """Give the last time that was 35 s past a minute: the time axis's last label then has room."""
    return now_s - (now_s - 35) % 60


if __name__ == "__main__":
    sys.exit(main())
