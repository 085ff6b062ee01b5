"""The command line: serve a site, or print what a crawl of it must store."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields

from bench.site.config import SiteConfig, flag_of
from bench.site.expected import as_json, iterate_pages, iterate_products, page_count
from bench.site.server import SiteServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit code: 1 if the site can't be served, 2 if a flag is wrong, else 0."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    try:
        config = SiteConfig.from_mapping(options)
    except ValueError as error:
        parser.error(str(error))
    if options["list"] or options["list_products"]:
        try:
            lines = iterate_pages(config) if options["list"] else map(as_json, iterate_products(config))
        except ValueError as error:
            parser.error(str(error))
        return _print(lines)
    try:
        asyncio.run(_serve(config))
    except OSError as error:
        print(f"bench.site: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _print(lines: Iterable[str]) -> int:
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
    return 0


async def _serve(config: SiteConfig) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with SiteServer(config) as server:
        pages = page_count(config)
        print(f"Sample site ready at {server.config.start_url} (port {server.config.port}, {pages} pages)", flush=True)
        await stop.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.site", description="A generated shop to crawl.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="print the pages that a crawl must store, and end")
    what.add_argument(
        "--list-products", action="store_true", help="print the products that a crawl must store as JSON lines, and end"
    )
    for setting in fields(SiteConfig):
        default, text = setting.default, setting.metadata["help"].replace("%", "%%")
        if isinstance(default, bool):
            parser.add_argument(flag_of(setting), action="store_true", help=text)
        elif isinstance(default, tuple):
            parser.add_argument(flag_of(setting), type=_names, default=default, metavar="A,B", help=text)
        else:
            parser.add_argument(
                flag_of(setting), type=type(default), default=default, metavar="N", help=f"{text} [%(default)s]"
            )
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


if __name__ == "__main__":
    sys.exit(main())
