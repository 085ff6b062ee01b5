"""Which collection an item goes to, and what makes two of them the same item."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from itemadapter import ItemAdapter

#: Collections that hold something else than items.
RAW_PAGES = "raw_pages"
REJECTS = "rejects"

_NAME = re.compile(r"(?!system\.)[A-Za-z_][\w.-]{0,99}(?<!\.)", re.ASCII)
_ATTRIBUTE = "__stored_as__"

Item = TypeVar("Item", bound=type)


@dataclass(frozen=True, slots=True)
class ItemType:
    """How the items of one class are stored: their collection, and the fields that make up their natural key."""

    collection: str
    key: tuple[str, ...] = ()

    def key_of(self, document: dict[str, Any]) -> Any:
        """Return the `_id` that the natural key gives to the item stored as *document*; None if it has none.

        One scalar is its own `_id`; several fields, or a list, make a document. An item one of whose key fields is
        missing, None or empty has no natural key.
        """
        values = {name: document.get(name) for name in self.key}
        if not values or any(value is None or value in ("", b"", [], {}) for value in values.values()):
            return None
        first = next(iter(values.values()))
        return first if len(values) == 1 and not isinstance(first, list | dict) else values


def stored_as(collection: str, *, key: str | tuple[str, ...] = ()) -> Callable[[Item], Item]:
    """Say where the items of a class are stored and what identifies them; a decorator for any kind of item class.

    With a natural *key* (the names of one or more fields) an item that is found again, on whatever page, updates its
    document. Without one an item is identified by its page and its place on that page. A class without this decorator
    is stored in a collection named after it (`BlogPost`: `blog_post`), a dict in `items`.

    Raises ValueError for a name that no collection can have, and for a key that is no field of the class.
    """
    key = (key,) if isinstance(key, str) else key
    if not _NAME.fullmatch(collection) or collection in (RAW_PAGES, REJECTS):
        raise ValueError(
            f"{collection!r} can't be a collection of items: letters, digits, '_', '-' and '.' are wanted, and not "
            f"{RAW_PAGES} or {REJECTS}"
        )

    def mark(item_class: Item) -> Item:
        fields = ItemAdapter.get_field_names_from_class(item_class)
        if fields is not None and (missing := set(key).difference(fields)):
            raise ValueError(f"{item_class.__name__} has no field {', '.join(sorted(missing))} to be its key")
        setattr(item_class, _ATTRIBUTE, ItemType(collection, key))
        return item_class

    return mark


def item_type(item_class: type) -> ItemType:
    """Return how the items of a class are stored."""
    marked = getattr(item_class, _ATTRIBUTE, None)
    if isinstance(marked, ItemType):
        return marked
    if issubclass(item_class, dict):
        return ItemType("items")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", item_class.__name__).lower()
    return ItemType(name if _NAME.fullmatch(name) and name not in (RAW_PAGES, REJECTS) else "items")
