"""The exporter's text format, by the reader of the library that it stands in for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporter.exposition import Exposition, Family

GAUGE = Family("crawler_things", "gauge", 'Things, "quoted", with a \\ and\na second line.', ("spider", "part"))
TOTAL = Family("crawler_events_total", "counter", "Events.")
SUMMARY = Family("crawler_waits_seconds", "summary", "Waits.", ("kind",))


@given(
    st.dictionaries(
        st.tuples(st.text(), st.text()), st.integers() | st.floats(allow_nan=False) | st.booleans(), min_size=1
    )
)
def test_whatever_the_labels_hold_the_reader_gets_it_back(samples: dict[tuple[str, str], float]) -> None:
    out = Exposition()
    for labels, value in samples.items():
        out.add(GAUGE, value, *labels)
    # As a server's reader does, lines end at \n alone.
    [family] = text_string_to_metric_families(out.render().decode())
    assert (family.name, family.type, family.documentation) == (GAUGE.name, GAUGE.kind, GAUGE.help)
    read = {(sample.labels["spider"], sample.labels["part"]): float(sample.value) for sample in family.samples}
    assert read == {labels: float(value) for labels, value in samples.items()}


def test_samples_stand_with_their_family_in_whatever_order_they_come() -> None:
    out = Exposition()
    out.add(GAUGE, 1, "a", "x")
    out.add(TOTAL, 5)
    out.add(GAUGE, True, "b", "x")
    out.add_summary(SUMMARY, 2.5, 4, "read")
    assert out.render().decode().splitlines() == [
        '# HELP crawler_things Things, "quoted", with a \\\\ and\\na second line.',
        "# TYPE crawler_things gauge",
        'crawler_things{spider="a",part="x"} 1',
        'crawler_things{spider="b",part="x"} 1',
        "# HELP crawler_events_total Events.",
        "# TYPE crawler_events_total counter",
        "crawler_events_total 5",
        "# HELP crawler_waits_seconds Waits.",
        "# TYPE crawler_waits_seconds summary",
        'crawler_waits_seconds_sum{kind="read"} 2.5',
        'crawler_waits_seconds_count{kind="read"} 4',
    ]
