"""Which collection an item goes to, and what makes two of them the same item."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

from itemadapter import ItemAdapter

from crawler.storage.values import Fields, named

#: Collections that hold something else than items.
RAW_PAGES = "raw_pages"
REJECTS = "rejects"
#: When what was done to the database: the last backup.
MAINTENANCE = "maintenance"
RESERVED = (RAW_PAGES, REJECTS, MAINTENANCE)

#: Fields that the storage adds to every item; an item's own field of that name gets a `_` behind it.
ITEM_FIELDS = frozenset({"_id", "_raw_id", "_checksum", "source_url", "crawled_at", "parsed_at", "updated_at"})

_NAME = re.compile(r"(?!system\.)[A-Za-z_][\w.-]{0,99}(?<!\.)", re.ASCII)
_ATTRIBUTE = "__stored_as__"
_EMPTY: tuple[object, ...] = (None, "", b"", [], {})
_SCALARS = frozenset({str, int})

Item = TypeVar("Item", bound=type)


@dataclass(frozen=True, slots=True)
class ItemType:
    """How the items of one class are stored: their collection, and the fields that make up their natural key."""

    collection: str
    key: tuple[str, ...] = ()

    def key_of(self, document: dict[str, Any]) -> Any:
        """Return the `_id` that the natural key gives to the item stored as *document*; None if it has none.

        One text or number is its own `_id`; anything else makes a document. An item one of whose key fields is
        missing, None or empty has no natural key.
        """
        if len(self.key) == 1 and type(value := document.get(self.key[0])) in _SCALARS and value != "":
            return value
        values = {name: document.get(name) for name in self.key}
        return None if not values or any(value in _EMPTY for value in values.values()) else values


def stored_as(collection: str, *, key: str | tuple[str, ...] = ()) -> Callable[[Item], Item]:
    """Say where the items of a class are stored and what identifies them; a decorator for any kind of item class.

    With a natural *key* (the names of one or more fields) an item that is found again, on whatever page, updates its
    document. Without one an item is identified by its page and its place on that page. A class without this decorator
    is stored in a collection named after it (`BlogPost`: `blog_post`), a dict in `items`.

    Raises ValueError for a name that no collection can have, and for a key that is no field of the class.
    """
    key = (key,) if isinstance(key, str) else key
    if not _NAME.fullmatch(collection) or collection in RESERVED:
        raise ValueError(
            f"{collection!r} can't be a collection of items: letters, digits, '_', '-' and '.' are wanted, and not "
            f"{', '.join(RESERVED)}"
        )

    def mark(item_class: Item) -> Item:
        fields = ItemAdapter.get_field_names_from_class(item_class)
        if fields is not None and (missing := set(key).difference(fields)):
            raise ValueError(f"{item_class.__name__} has no field {', '.join(sorted(missing))} to be its key")
        setattr(item_class, _ATTRIBUTE, ItemType(collection, key))
        return item_class

    return mark


def fields_of(item: Any) -> Fields:
    """Return the names and values of the fields that an item of any kind has, as `to_document` takes them.

    Raises TypeError for what is no item, and whatever the item's own code raises.
    """
    item_class: Any = type(item)
    return _reader(item_class)(item)


@lru_cache(maxsize=256)
def _reader(item_class: Any) -> Callable[[Any], Fields]:
    """Return what reads the items of a class; ItemAdapter finds a dataclass's fields anew for each item, in 6 µs."""
    if issubclass(item_class, Mapping):  # a dict, or an Item of Scrapy
        return lambda item: iter(item.items())
    names = [field.name for field in fields(item_class)] if is_dataclass(item_class) else []
    if not names or list(named(dict.fromkeys(names).items(), ITEM_FIELDS)) != names:
        return lambda item: ItemAdapter(item).items()

    def read(item: Any) -> dict[str, Any]:
        try:
            return {name: getattr(item, name) for name in names}
        except AttributeError:  # a field without a value
            return {name: getattr(item, name) for name in names if hasattr(item, name)}

    return read


def type_of(item: object) -> ItemType:
    """Return how an item is stored."""
    item_class: Any = type(item)
    return _item_type(item_class)


@lru_cache(maxsize=256)
def _item_type(item_class: Any) -> ItemType:
    marked = getattr(item_class, _ATTRIBUTE, None)
    if isinstance(marked, ItemType):
        return marked
    if issubclass(item_class, dict):
        return ItemType("items")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", item_class.__name__).lower()
    return ItemType(name if _NAME.fullmatch(name) and name not in RESERVED else "items")
