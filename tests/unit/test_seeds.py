"""A request comes back from its seed as it was, or is refused by name; other bytes give a request or a reason."""

import contextlib
import pickle
import string
import threading
from typing import Any

import pytest
import scrapy
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import FormRequest, Request
from scrapy.http import JsonRequest, TextResponse, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK

from crawler.errors import BadSeedError, NotDataError
from crawler.plaindata import pack
from crawler.seeds import decode, encode, slot_of

from .data_strategies import plain_values, same, texts

URL = "http://shop.example/p/1?q=2"
A_LOCK = threading.Lock()


class BaseSpider(scrapy.Spider):
    def parse_inherited(self, response: Any) -> None: ...


class ShopSpider(BaseSpider):
    name = "shop"
    not_callable = "text"

    def parse(self, response: Any) -> None: ...

    def parse_item(self, response: Any) -> None: ...

    async def parse_async(self, response: Any) -> None: ...

    def parse_größe(self, response: Any) -> None: ...

    def parse__x(self, response: Any) -> None: ...

    def __private(self, response: Any) -> None: ...

    @classmethod
    def parse_class(cls, response: Any) -> None: ...

    @staticmethod
    def parse_static(response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...

    def start_over(self) -> Request:
        return Request(URL, callback=self.__private)

    sprung = False

    @property
    def trap(self) -> Any:
        self.sprung = True
        return None

    #: Another name of the same method.
    alias_of_item = parse_item


class TokenRequest(Request):
    attributes = (*Request.attributes, "token")

    def __init__(self, *args: Any, token: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.token = token


class FussyRequest(Request):
    """A class that fails wherever it can."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("body") == b"fail":
            raise AttributeError("no such luck")
        super().__init__(*args, **kwargs)

    @property
    def flags(self) -> list[str]:
        if self.priority == 13:
            raise LookupError("unlucky")
        return super().flags

    @flags.setter
    def flags(self, value: Any) -> None:
        self._flags = value


@pytest.fixture
def spider() -> ShopSpider:
    return ShopSpider()


def assert_lossless(request: Request, spider: scrapy.Spider) -> bytes:
    seed = encode(request, spider)
    back = decode(seed, spider)
    assert type(back) is type(request)
    wanted, found = request.to_dict(spider=spider), back.to_dict(spider=spider)
    assert wanted.keys() == found.keys()
    for field in wanted:
        # The meta's order may change; nothing else may.
        one, other = (
            dict(sorted(d[field].items(), key=repr)) if field == "meta" else d[field] for d in (wanted, found)
        )
        assert same(one, other), field
    return seed


# -- the layout ------------------------------------------------------------------------------------------------------


def test_s6_an_ordinary_link_is_callback_and_url_and_nothing_else(spider: ShopSpider) -> None:
    assert encode(Request(URL, callback=spider.parse_item), spider) == b"parse_item--" + URL.encode()
    assert encode(Request(URL), spider) == b"--" + URL.encode()
    assert encode(Request(URL, callback=spider.parse), spider) == b"parse--" + URL.encode()


def test_the_depth_costs_two_bytes_and_the_referer_two_more_than_itself(spider: ShopSpider) -> None:
    assert encode(Request(URL, meta={"depth": 255}), spider) == b"--" + URL.encode() + b"\x02\xff"
    page = {"Referer": "http://shop.example/"}
    assert encode(Request(URL, meta={"depth": 7}, headers=page), spider).endswith(b"\x03\x07http://shop.example/")
    assert encode(Request(URL, headers=page), spider).endswith(b"\x03\x00http://shop.example/")


@pytest.mark.parametrize(
    ("seed", "request_"),
    [
        (b"parse_item--http://h/p", {"callback": "parse_item"}),
        (b"--http://h/p", {}),
        (b"http://h/p", {}),
        (b"--http://h/p\x02\x05", {"meta": {"depth": 5}}),
        (b"--http://h/p\x03\x00http://h/", {"headers": {"Referer": "http://h/"}}),
        (
            (
                b"parse_item--http://h/p\x01\x88\xa1m\xa4POST\xa1b\xc4\x01x\xa1k\x81\xa1a\x01\xa1e\xa6failed"
                b"\xa1f\xc3\xa1d\x03\xa1t\x81\xa1y\xd4\x04\x90\xa1p\xfb"
            ),
            {
                "callback": "parse_item",
                "method": "POST",
                "body": b"x",
                "cb_kwargs": {"a": 1},
                "errback": "failed",
                "dont_filter": True,
                "meta": {"depth": 3, "y": ()},
                "priority": -5,
            },
        ),
    ],
)
def test_s4_seeds_stored_by_the_first_version_are_read_for_ever(
    spider: ShopSpider, seed: bytes, request_: dict[str, Any]
) -> None:
    wanted = request_from(spider, url="http://h/p", **request_)
    assert decode(seed, spider).to_dict(spider=spider) == wanted.to_dict(spider=spider)


def request_from(spider: ShopSpider, **fields: Any) -> Request:
    methods = {role: getattr(spider, fields[role]) for role in ("callback", "errback") if role in fields}
    return Request(**{**fields, **methods})


def test_a_later_format_is_refused_by_its_number(spider: ShopSpider) -> None:
    with pytest.raises(BadSeedError, match="format 4 is not known to this version"):
        decode(b"--http://h/\x04more", spider)


def test_a_field_of_a_later_version_is_refused_by_its_name(spider: ShopSpider) -> None:
    with pytest.raises(BadSeedError, match="fields 'z' are not known"):
        decode(b"--http://h/\x01" + pack({"z": 1}), spider)


def test_the_priority_may_be_kept_beside_the_seed(spider: ShopSpider) -> None:
    request = Request(URL, priority=2**70)
    assert decode(encode(request, spider), spider).priority == 2**70
    bare = encode(request, spider, priority=False)
    assert bare == b"--" + URL.encode()
    assert decode(bare, spider, priority=-3).priority == -3
    assert decode(encode(request, spider), spider, priority=8).priority == 8


# -- lossless --------------------------------------------------------------------------------------------------------

_methods = st.sampled_from(
    [
        "parse",
        "parse_item",
        "parse_inherited",
        "parse_async",
        "parse_größe",
        "parse__x",
        "_ShopSpider__private",
        "parse_class",
    ]
)
_urls = st.builds("http://{}/{}".format, st.sampled_from(["h", "h--x.example:8080", "[::1]", "u:p%2540@h"]), texts)
_headers = st.dictionaries(
    st.text(string.ascii_letters + "-é", min_size=1, max_size=8),
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.lists(st.binary(max_size=8), max_size=3),
    max_size=3,
)
_requests = st.fixed_dictionaries(
    {"url": _urls},
    optional={
        "callback": _methods,
        "errback": _methods,
        "method": st.sampled_from(["GET", "POST", "get", "PÜT"]),
        "headers": _headers,
        "body": st.binary(max_size=20),
        "cookies": st.dictionaries(texts, texts, max_size=2)
        | st.lists(st.dictionaries(texts, plain_values), max_size=2),
        "meta": st.dictionaries(texts | st.just("depth"), plain_values | st.integers(-1, 300), max_size=3),
        "encoding": st.sampled_from(["utf-8", "latin-1", "cp1252"]),
        "priority": st.integers(),
        "dont_filter": st.booleans(),
        "flags": st.lists(texts, max_size=2),
        "cb_kwargs": st.dictionaries(texts, plain_values, max_size=2),
    },
)


@given(fields=_requests, verbatim=st.booleans())
@example(fields={"url": "http://h/\x01\ud800 ü"}, verbatim=True)
@example(fields={"url": "http://a%2525b@h/"}, verbatim=False)
@example(fields={"url": "http:// ?"}, verbatim=False)
@example(fields={"url": "data:,hello"}, verbatim=False)
def test_s22_s17_every_request_of_plain_data_comes_back(fields: dict[str, Any], verbatim: bool) -> None:
    spider = ShopSpider()
    if verbatim:
        fields = {**fields, "meta": {**fields.get("meta", {}), "verbatim_url": True}}
    try:
        request = request_from(spider, **fields)
    except (UnicodeError, ValueError):  # what Scrapy itself refuses was never a request
        return
    assert_lossless(request, spider)


def test_s22_every_field_at_once(spider: ShopSpider) -> None:
    request = Request(
        URL,
        callback=spider.parse_item,
        errback=spider.failed,
        method="PATCH",
        headers={"A": ["1", "2"], "Referer": "http://r/"},
        body="bödy",
        cookies=[{"name": "n", "value": 1, "secure": True}],
        meta={"depth": 300, "proxy": "http://p:1", "cookiejar": 3},
        encoding="latin-1",
        priority=-7,
        dont_filter=True,
        flags=["cached"],
        cb_kwargs={"sku": ("a", 1)},
    )
    assert_lossless(request, spider)


def test_what_scrapy_adds_on_the_way_comes_back(spider: ShopSpider) -> None:
    meta = {
        "depth": 2,
        "download_slot": "shop.example",
        "download_timeout": 180.0,
        "download_latency": 0.12345678901234568,
        "redirect_urls": ["http://shop.example/old"],
        "redirect_reasons": [302],
        "redirect_times": 1,
        "redirect_ttl": 19,
        "retry_times": 2,
        "is_start_request": True,
        "cookiejar": "a",
        "dont_redirect": True,
        "handle_httpstatus_list": [404],
        "http_auth_domain": None,
        "proxy": "http://127.0.0.1:3128",
        "rule": 0,
        "link_text": "Next »",
    }
    assert_lossless(Request(URL, meta=meta), spider)


def test_fields_set_after_construction_come_back(spider: ShopSpider) -> None:
    request = Request(URL)
    request.method, request.cookies, request.flags, request.dont_filter = "get", (), ("a",), "yes"  # type: ignore[assignment]
    dict.__setitem__(request.headers, b"lower-case", [])
    assert_lossless(request, spider)


def test_looking_at_a_request_does_not_make_its_seed_longer(spider: ShopSpider) -> None:
    request = Request(URL, meta={"depth": 1})
    before = encode(request, spider)
    assert [request.headers, request.cookies, request.flags, request.cb_kwargs] == [{}, {}, [], {}]
    assert encode(request, spider) == before


@pytest.mark.parametrize(
    "request_",
    [
        FormRequest(URL, formdata={"a": "b"}),
        JsonRequest(URL, data={"a": [1]}, dumps_kwargs={"indent": 1}),
        XmlRpcRequest("http://h/", method="GET", body="<x/>"),
        TokenRequest(URL, token={"t": (1, b"2")}, meta={"verbatim_url": False}),
        TokenRequest("http://h/ü\x01", meta={"verbatim_url": 1}),
    ],
    ids=lambda request: type(request).__name__,
)
def test_subclasses_of_request_come_back_with_their_own_attributes(spider: ShopSpider, request_: Request) -> None:
    request_.headers.pop(b"Content-Type", None)  # which a constructor would add again
    assert_lossless(request_, spider)


# -- refused at the push ---------------------------------------------------------------------------------------------


def test_s1_a_lambda_as_callback_is_refused_by_the_request(spider: ShopSpider) -> None:
    with pytest.raises(NotDataError, match=r"<GET http://shop.example/p/1\?q=2>: callback .*<lambda> is no method of"):
        encode(Request(URL, callback=lambda _: None), spider)


def foreign_methods() -> list[Any]:
    other = ShopSpider()

    def nested(response: Any) -> None: ...

    return [nested, print, other.parse_item, BaseSpider.parse_inherited, ShopSpider.parse_static, spider_log, [].append]


def spider_log() -> None: ...


@pytest.mark.parametrize("role", ["callback", "errback"])
@pytest.mark.parametrize("method", foreign_methods(), ids=lambda method: method.__qualname__)
def test_s1_s3_only_methods_of_this_spider_can_be_queued(spider: ShopSpider, method: Any, role: str) -> None:
    with pytest.raises(NotDataError, match=f"{role} .* is no method of the spider 'shop'"):
        encode(Request(URL, **{role: method}), spider)


def test_s3_a_hidden_method_of_a_base_class_is_refused(spider: ShopSpider) -> None:
    with pytest.raises(NotDataError, match="is no method"):
        encode(Request(URL, callback=super(ShopSpider, spider).parse), spider)


@pytest.mark.parametrize("name", ["from_crawler", "log", "start", "update_settings"])
def test_what_scrapy_drives_a_spider_by_is_no_callback(spider: ShopSpider, name: str) -> None:
    with pytest.raises(NotDataError):
        encode(Request(URL, callback=getattr(spider, name)), spider)
    with pytest.raises(BadSeedError):
        decode(f"{name}--{URL}", spider)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"meta": {"x": [1, 2, 3, A_LOCK]}}, r"meta\['x'\]\[3\] is a _thread.lock, and only plain data can be queued"),
        (
            {"meta": {"r": TextResponse(URL, body=b"<a>").selector}},
            r"meta\['r'\] is a scrapy.selector.unified.Selector",
        ),
        ({"meta": {"r": TextResponse(URL)}}, r"meta\['r'\] is a scrapy.http.response.text.TextResponse"),
        ({"cb_kwargs": {"f": print}}, r"cb_kwargs\['f'\] is a builtin_function_or_method"),
        ({"cookies": {"a": {1j: 2}}}, r"cookies\['a'\] is a complex as a key"),
        ({"flags": [object()]}, r"flags\[0\] is a object"),
        ({"meta": {"depth": A_LOCK}}, r"meta\['depth'\] is a _thread.lock"),
    ],
)
def test_s2_what_is_no_data_is_refused_by_request_and_place(
    spider: ShopSpider, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(NotDataError, match=rf"<POST http://shop.example/p/1\?q=2>: ({message})"):
        encode(Request(URL, method="POST", **fields), spider)


def test_fields_that_could_not_be_read_back_are_refused_at_the_push(spider: ShopSpider) -> None:
    request = Request(URL)
    request.priority = 1.5  # type: ignore[assignment]
    with pytest.raises(NotDataError, match=r"Expected `int`, got `float` - at `\$.priority`"):
        encode(request, spider)


def test_a_class_that_another_hides_is_refused(spider: ShopSpider) -> None:
    first, second = (type("Twin", (Request,), {"__module__": __name__}) for _ in range(2))
    encode(second(URL), spider)
    with pytest.raises(NotDataError, match=r"class .*Twin is hidden by another of this name"):
        encode(first(URL), spider)


def test_a_request_class_that_raises_spoils_nothing_else(spider: ShopSpider) -> None:
    with pytest.raises(NotDataError, match="can't be stored: LookupError: unlucky"):
        encode(FussyRequest(URL, priority=13), spider)
    with pytest.raises(BadSeedError, match="AttributeError: no such luck"):
        decode(encode(FussyRequest(URL, body=b"luck"), spider).replace(b"luck", b"fail"), spider)


# -- refused at the pop ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["missing", "not_callable", "trap", "parse_static", "__init__", "__class__", "__private", "name", "settings"],
)
def test_s3_a_name_that_is_no_method_of_the_spider_is_refused_and_never_looked_up(
    spider: ShopSpider, name: str
) -> None:
    with pytest.raises(BadSeedError, match=f"callback '{name}' is no method of the spider 'shop'"):
        decode(f"{name}--{URL}", spider)
    with pytest.raises(BadSeedError, match=f"errback '{name}' is no method"):
        decode(b"--http://h/\x01" + pack({"e": name}), spider)
    assert not spider.sprung


def test_s5_a_pickle_is_refused_and_not_read(spider: ShopSpider) -> None:
    with pytest.raises(BadSeedError, match="a pickled request, as scrapy-redis"):
        decode(pickle.dumps({"url": URL}, protocol=-1), spider)


@pytest.mark.parametrize("name", ["os.system", "builtins.dict", "scrapy.http.request.Request", "scrapy.Spider", "x"])
def test_s5_a_class_is_taken_only_from_the_loaded_classes_of_requests(spider: ShopSpider, name: str) -> None:
    with pytest.raises(BadSeedError, match=f"no module that is loaded here has its class {name}"):
        decode(b"--http://h/\x01" + pack({"l": name}), spider)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ({"m": 5}, r"Expected `str`, got `int` - at `\$.method`"),
        ({"h": {"a": ["b"]}}, r"Expected `bytes`, got `str`"),
        ({"t": [1]}, r"Expected `object`, got `array` - at `\$.meta`"),
        ({"x": {"token": 1}}, "has no attribute 'token'"),
        ({"x": {"url": "http://evil/"}, "l": f"{__name__}.TokenRequest"}, "TokenRequest has no attribute 'url'"),
        ({"u": "no scheme"}, "Missing scheme"),
        ([], "its tail is no map"),
    ],
)
def test_a_tail_of_the_wrong_shape_is_refused_in_words(spider: ShopSpider, tail: Any, message: str) -> None:
    with pytest.raises(BadSeedError, match=message):
        decode(b"--http://h/\x01" + pack(tail), spider)


# -- S23: separators, and seeds written by hand ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "callback", "url"),
    [
        ("http://h/a--b", None, "http://h/a--b"),
        ("--http://h/a--b", None, "http://h/a--b"),
        ("parse--http://h/a--b", "parse", "http://h/a--b"),
        ("parse--http://h/?q=--x", "parse", "http://h/?q=--x"),
        ("parse__x--http://h/", "parse__x", "http://h/"),
        ("parse_item----://h/", "parse_item", "--://h/"),
        ("parse_größe--http://h/", "parse_größe", "http://h/"),
        ("  http://h/p \r\n", None, "http://h/p"),
        ("parse_item--http://h/p\r\n", "parse_item", "http://h/p"),
        ("http://[::1]/", None, "http://[::1]/"),
        ("http://münchen.example/ü?ö=1#f", None, "http://xn--mnchen-3ya.example/%C3%BC?%C3%B6=1#f"),
        ("http://h/" + "x" * 10_000, None, "http://h/" + "x" * 10_000),
        ("http://h/?a=1&b=2#f", None, "http://h/?a=1&b=2#f"),
        ("not-a-url", None, None),
        ("unknown--http://h/", None, None),
        ("", None, None),
        ("http://h/\nhttp://g/", None, None),
        ("javascript:alert(1)", None, None),
    ],
)
@pytest.mark.parametrize("as_type", [str, str.encode], ids=["str", "bytes"])
def test_s23_s14_the_first_dashes_split_where_a_name_stands_before_them(
    spider: ShopSpider, seed: str, callback: str | None, url: str | None, as_type: Any
) -> None:
    if url is None:
        with pytest.raises(BadSeedError):
            decode(as_type(seed), spider)
    else:
        request = decode(as_type(seed), spider)
        assert request.url == url
        assert request.callback == (callback and getattr(spider, callback))


def test_s15_a_text_seed_with_a_tail_survives_a_client_that_decodes(spider: ShopSpider) -> None:
    seed = encode(Request(URL, meta={"depth": 200, "b": b"\xff"}), spider)
    assert decode(seed.decode("utf-8", "surrogateescape"), spider).meta == {"depth": 200, "b": b"\xff"}


def test_no_callback_comes_back_as_scrapys_own_marker(spider: ShopSpider) -> None:
    assert decode(encode(Request(URL, callback=NO_CALLBACK), spider), spider).callback is NO_CALLBACK


# -- fuzz --------------------------------------------------------------------------------------------------------------

_tails = st.builds(
    lambda front, version, tail: front + version + tail,
    st.sampled_from([b"--http://h/", b"parse--http://h/", b"", b"http://h/a--b"]),
    st.integers(0, 31).map(lambda version: bytes([version])),
    st.binary(max_size=30)
    | st.dictionaries(st.sampled_from("mbhctdkpeofgnlxu"), plain_values, max_size=3).map(pack)
    | st.sampled_from([b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 100_000, b"\x81" * 100_000]),
)


@given(data=st.binary(max_size=60) | _tails | st.text(st.characters(exclude_categories=()), max_size=30))
@example(data=b"--http://h/\x01" + b"\xc7\x04" * 50_000)
@example(data=b"--http://h/\x02")
def test_whatever_is_in_redis_gives_a_request_or_a_reason(data: bytes | str) -> None:
    spider = ShopSpider()
    with contextlib.suppress(BadSeedError):
        assert isinstance(decode(data, spider), Request)


@given(
    fields=_requests,
    field=st.sampled_from(["method", "priority", "dont_filter", "callback", "errback", "flags", "cookies"]),
    foreign=st.sampled_from([A_LOCK, object(), print, [A_LOCK], {"a": (1, A_LOCK)}]),
)
def test_foreign_values_anywhere_raise_only_the_named_error(fields: dict[str, Any], field: str, foreign: Any) -> None:
    spider = ShopSpider()
    try:
        request = request_from(spider, **fields)
    except (UnicodeError, ValueError):
        return
    setattr(request, field, foreign)
    with pytest.raises(NotDataError):
        encode(request, spider)


# -- the slot ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slot", "told"), [(None, None), ("shop.example", None), ("proxy-3", "proxy-3"), (5, None), ("SHOP", "SHOP")]
)
def test_the_download_slot_is_told_where_it_is_not_the_host(slot: Any, told: str | None) -> None:
    assert slot_of(Request("http://user@Shop.example:8080/", meta={"download_slot": slot})) == told
