"""The add-on: whatever a spider sets, the parts that store, count and watch are there; None switches one off."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.settings import Settings
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from crawler.addon import COMPONENTS, SETTINGS
from crawler.storage import RawPages, Storage

ADDON = "crawler.addon.Seedbed"


class Plain:
    """A part of the user's own."""


def spider_with(**settings: Any) -> type[Spider]:
    class Made(Spider):
        name = "made"
        custom_settings: ClassVar[dict[str, Any]] = settings  # type: ignore[misc]

    return Made


def crawler(settings: dict[str, Any] | None = None, **custom: Any) -> Crawler:
    """Return a crawler of a project with the add-on, as far as a spider's and the add-ons' settings go."""
    project = Settings({"ADDONS": {ADDON: 0}} if settings is None else settings)
    made = AsyncCrawlerRunner(project).create_crawler(spider_with(**custom))
    made.addons.load_settings(made.settings)
    return made


def parts(made: Crawler, name: str) -> list[type]:
    return [
        load_object(part) for part in build_component_list(made.settings.get_component_priority_dict_with_base(name))
    ]


def all_of(name: str) -> set[type]:
    return {load_object(path) for path, order in COMPONENTS[name].items() if order is not None}


@pytest.mark.parametrize(
    "custom",
    [
        {},
        {"ADDONS": {}},
        {"ADDONS": {"tests.unit.test_addon.Plain": 0}},
        {name: {Plain: 5} for name in COMPONENTS},
        {name: {} for name in COMPONENTS},
    ],
    ids=["nothing", "no add-on", "another add-on", "its own parts", "none"],
)
def test_a_spider_that_sets_its_own_keeps_the_parts(custom: dict[str, Any]) -> None:
    made = crawler(**custom)
    for name in COMPONENTS:
        assert all_of(name) <= set(parts(made, name))
        assert (Plain in parts(made, name)) == (Plain in custom.get(name, {}))
    assert made.settings["SCHEDULER"] == SETTINGS["SCHEDULER"]


def test_scrapy_s_parts_are_there_but_for_the_one_that_is_replaced() -> None:
    before = set(parts(crawler({}), "DOWNLOADER_MIDDLEWARES"))
    after = set(parts(crawler(), "DOWNLOADER_MIDDLEWARES"))
    assert {part.__name__ for part in before - after} == {"RobotsTxtMiddleware"}
    assert parts(crawler(), "SPIDER_MIDDLEWARES")[-1] is RawPages, "nothing is between it and the spider"


@pytest.mark.parametrize("key", [Storage, "crawler.storage.Storage", "crawler.storage.extension.Storage"])
def test_a_part_is_off_when_it_is_named_with_none(key: Any) -> None:
    assert Storage not in parts(crawler(EXTENSIONS={key: None}), "EXTENSIONS")


@pytest.mark.parametrize("key", [Storage, "crawler.storage.Storage"])
def test_a_project_that_names_a_part_as_well_has_it_once(key: Any) -> None:
    made = crawler({"ADDONS": {ADDON: 0}, "EXTENSIONS": {key: 0}})
    assert parts(made, "EXTENSIONS").count(Storage) == 1


def test_a_setting_of_the_project_or_a_spider_goes_before() -> None:
    theirs = "scrapy.core.scheduler.Scheduler"
    assert crawler({"ADDONS": {ADDON: 0}, "SCHEDULER": theirs}).settings["SCHEDULER"] == theirs
    assert crawler(SCHEDULER=theirs).settings["SCHEDULER"] == theirs


def test_a_spider_with_scrapy_s_scheduler_has_its_filter_too() -> None:
    """Without one, two pages that link to each other would be fetched for ever."""
    made = crawler(SCHEDULER="scrapy.core.scheduler.Scheduler")
    assert made.settings["DUPEFILTER_CLASS"] == Settings()["DUPEFILTER_CLASS"]


def test_a_spider_alone_may_have_it() -> None:
    made = crawler({}, ADDONS={ADDON: 0}, EXTENSIONS={Plain: 0})
    assert {*all_of("EXTENSIONS"), Plain} <= set(parts(made, "EXTENSIONS"))
    assert made.settings["SCHEDULER"] == SETTINGS["SCHEDULER"]


@pytest.mark.parametrize("path", [path for components in COMPONENTS.values() for path in components])
def test_each_part_has_the_name_that_scrapy_compares(path: str) -> None:
    assert global_object_name(load_object(path)) == path


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_setting_names_what_there_is(setting: str) -> None:
    assert load_object(SETTINGS[setting])
