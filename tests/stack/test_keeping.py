"""What is kept for later: old pages in the archive, and all of MongoDB in a backup."""

import json
from pathlib import Path

import pytest

from tests.stack.stack import Stack

pytestmark = pytest.mark.stack

OLD_PAGES = """
from datetime import UTC, datetime, timedelta
from crawler.storage.documents import RawPage, encode_pages
import bson
def old_page(number):
    at = datetime.now(UTC) - timedelta(days=31)
    url = f"https://old.example/{number}"
    return RawPage(number.to_bytes(20, "big"), url, url, 200, [], b"old", [], "old", "c", at)
pages = encode_pages([old_page(number) for number in range(20)])
worker.crawl.raw_pages.insert_many([bson.decode(page.raw) for page in pages])
print("null")
"""
COUNT = 'print(json.dumps(worker.crawl.raw_pages.count_documents({"spider": "old"})))'
FORGET = 'system.crawl.raw_pages.delete_many({"spider": "old"}); print("null")'


def test_old_pages_go_to_the_archive_and_come_back(stack: Stack) -> None:
    stack.mongo(OLD_PAGES)
    waiting = json.loads(stack.make("archive", "ARGS=--dry-run --json"))
    assert waiting["pages"] == 20
    moved = json.loads(stack.make("archive", "ARGS=--json"))
    assert (moved["pages"], moved["unfit"]) == (20, {})
    assert stack.mongo(COUNT) == 0
    # In the volume: another container sees it.
    [listed] = json.loads(stack.make("archive", "ARGS=--list --json"))
    assert (listed["file"], listed["pages"]) == (moved["files"][0], 20)
    assert "20 pages put back" in stack.make("archive", f"ARGS=--restore {listed['file']}")
    assert stack.mongo(COUNT) == 20
    stack.mongo(FORGET)


def test_a_backup_comes_back(stack: Stack, tmp_path: Path) -> None:
    look = ("--profile", "*", "run", "--rm", "--no-deps", "-T", "--entrypoint", "sh", "backup", "-c")
    tools = stack.run("docker", "compose", *look, "command -v mongodump && command -v mongorestore", check=False)
    if tools.returncode:
        failed = stack.run("make", "backup", f"TO={tmp_path}", check=False)
        assert "nothing is kept" in failed.stderr
        assert list(tmp_path.iterdir()) == []
        pytest.skip("this image of MongoDB has no mongodump: only that its absence is told was tested")
    stack.mongo(OLD_PAGES)
    stack.make("backup", f"TO={tmp_path}")
    [backup] = tmp_path.iterdir()
    stack.mongo(FORGET)
    refused = stack.run("make", "restore", f"FROM={backup}", check=False)
    assert "docker compose stop worker" in refused.stderr
    stack.compose("stop", "worker")
    stack.make("restore", f"FROM={backup}")
    assert stack.mongo(COUNT) == 20
    stack.mongo(FORGET)
    stack.make("up", "WORKERS=2")
