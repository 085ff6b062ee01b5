"""The documentation names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from crawler.config import Config, ScrapySettings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]*?) *\|", text, re.MULTILINE))
    there_are = {
        name: _shown(getattr(settings, field))
        for settings in (Config(), ScrapySettings())
        for field, name in zip(settings.__struct_fields__, settings.names(), strict=True)
    }
    assert documented == there_are


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`" if default != "" else ""


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
            link = f"{page.relative_to(ROOT)} links to {target}#{anchor}"
            to = page.parent / target if target else page
            assert to.exists(), link
            assert not anchor or anchor in _anchors(to), link


def _anchors(page: Path) -> set[str]:
    """Return what GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower())) for heading in headings}
