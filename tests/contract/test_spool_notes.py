"""What is noted in Redis of the files of spools: as long as there are any, whoever has them."""

from __future__ import annotations

from pathlib import Path

import bson
import pytest

from crawler.config import Config
from crawler.frontier.client import AsyncClients, Clients
from crawler.frontier.spools import SpoolNotes, spool_notes
from crawler.storage.documents import Document
from crawler.storage.spool import Spool


def spool_in(folder: Path) -> Spool:
    return Spool(folder, 1 << 20, lambda *_: None)


async def keep(spool: Spool, documents: int) -> None:
    assert await spool.keep({"items": [Document.encoded("items", bson.encode({"n": n})) for n in range(documents)]})


async def empty(spool: Spool) -> None:
    while entry := await spool.oldest():
        await spool.remove(entry)


def damage(folder: Path) -> None:
    [path] = folder.glob("*.spool")
    path.write_bytes(b"no database" * 100)


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_the_note_of_a_file_that_was_taken_over_and_emptied_in_between_goes(
    redis_url: str, tmp_path: Path, is_damaged: bool
) -> None:
    config = Config(redis_url=redis_url)
    clients, looking = AsyncClients(config), Clients(config)
    victim, heir = spool_in(tmp_path), spool_in(tmp_path)
    await keep(victim, 3)
    await SpoolNotes(clients, victim).write()
    [(name, note)] = spool_notes(looking).items()
    assert note.documents == 3
    await victim.close()
    notes = SpoolNotes(clients, heir)
    await notes.write()
    assert [*spool_notes(looking)] == [name]
    if is_damaged:
        damage(tmp_path)
    await heir.adopt()
    await empty(heir)
    await keep(heir, 1)
    await notes.write()
    [(own, note)] = spool_notes(looking).items()
    assert (own != name, note.documents) == (True, 1)
    await empty(heir)
    await notes.write()
    assert spool_notes(looking) == {}
    await heir.close()
    await clients.aclose()
    looking.close()
