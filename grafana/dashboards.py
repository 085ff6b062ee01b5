"""Write the dashboards: `python -m grafana.dashboards`."""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.boards import BOARDS
from grafana.layout import build

FOLDER = Path(__file__).parent / "dashboards"


def render() -> dict[str, str]:
    """Return the text of each dashboard's file, by the file's name."""
    return {
        f"{board.name}.json": json.dumps(build(board), cls=JSONEncoder, sort_keys=True, indent=2, ensure_ascii=False)
        + "\n"
        for board in BOARDS
    }


def main() -> None:
    """Write all files, and remove those that no dashboard has any more."""
    files = render()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
