"""The kinds of panels, each with what this project wants of it."""

from collections.abc import Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders.bargauge import Panel as BarGauge
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.heatmap import Panel as Heatmap
from grafana_foundation_sdk.builders.heatmap import YAxisConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.table import Panel as Table
from grafana_foundation_sdk.builders.timeseries import Panel as TimeSeries
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BarGaugeValueMode,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    FieldConfigSource,
    Panel,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.dashboard import Threshold as Step
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.thresholds import threshold_of

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

#: What restricts a metric to the spiders that are selected: as labels, and with the braces.
IS_SELECTED = 'spider=~"$spider"'
SELECTED = f"{{{IS_SELECTED}}}"

_REF_IDS = "ABCDEFGHIJ"

#: Grafana gives each column 150 otherwise, and hides the last ones behind a scroll bar.
_NARROWEST_COLUMN_PX = 80


class Query(NamedTuple):
    """Hold one query, and what its series are called."""

    expr: str
    legend: str = "{{spider}}"


class About(NamedTuple):
    """Hold what every panel must tell: its name, what it means and what to do when it is bad, and its unit."""

    title: str
    description: str
    unit: str
    #: The alert whose threshold colours it.
    alert: str = ""
    #: Where nobody is called, but a person should look closer from here on.
    limit: float | None = None


def series(
    about: About,
    *queries: Query,
    stacked: bool = False,
    largest: float | None = None,
    is_trouble: bool = False,
    empty: str = "",
) -> Panel:
    """Return curves over time; with an alert, its threshold is drawn.

    *largest* ends the axis. *is_trouble*: 0 in a crawl that is well; the axis then goes to 1 at least, as Grafana would
    take it to 100. *empty* stands where there is no curve.
    """
    is_alone = len(queries) == 1 and "{{" not in queries[0].legend
    panel = (
        TimeSeries()
        .line_width(1)
        # Below one curve; many would make one mud of it.
        .fill_opacity(30 if stacked else 10 if is_alone else 0)
        .legend(
            VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        )
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        # In the order of the curves: by their names, two of one panel may have colours that nobody can tell apart.
        .color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
        .thresholds(_thresholds(about))
        .min(0)
    )
    if stacked:
        panel.stacking(StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if about.alert or about.limit is not None:
        panel.thresholds_style(GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    if largest is not None:
        panel.max(largest)
    if is_trouble:
        panel.axis_soft_max(1)
    if empty:
        panel.no_value(empty)
    return _told(panel.build(), about, [_range(query, i) for i, query in enumerate(queries)])


def stat(about: About, expr: str, *, empty: str = "none", decimals: int | None = None, curve: bool = True) -> Panel:
    """Return one number as it is now; *empty* stands where there is none."""
    panel = (
        Stat()
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .graph_mode(BigValueGraphMode.AREA if curve else BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .text_mode(BigValueTextMode.VALUE)
        .color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .thresholds(_thresholds(about))
        .no_value(empty)
    )
    if decimals is not None:
        panel.decimals(decimals)
    return _told(panel.build(), about, [_range(Query(expr, ""), 0)])


def name(about: About, query: Query, *, empty: str) -> Panel:
    """Return the name of one series, as it is now."""
    panel = (
        Stat()
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.NONE)
        .text_mode(BigValueTextMode.NAME)
        .no_value(empty)
    )
    return _told(panel.build(), about, [_instant(query, 0)])


def bars(about: About, query: Query, *, largest: float | None = None) -> Panel:
    """Return one bar a series, as they are now."""
    panel = (
        BarGauge()
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .value_mode(BarGaugeValueMode.TEXT)
        .show_unfilled(True)
        .decimals(0)
        .color_scheme(
            FieldColor()
            .mode(FieldColorModeId.THRESHOLDS if about.alert else FieldColorModeId.FIXED)
            .fixed_color("blue")
        )
        .thresholds(_thresholds(about))
        .min(0)
    )
    if largest is not None:
        panel.max(largest)
    return _told(panel.build(), about, [_instant(query, 0)])


def heatmap(about: About, expr: str) -> Panel:
    """Return a histogram over time; *expr* gives its buckets by `le`."""
    query = _range(Query(expr, "{{le}}"), 0).format(PromQueryFormat.HEATMAP)
    return _told(Heatmap().calculate(False).y_axis(YAxisConfig().unit(about.unit)).build(), about, [query])


class Column(NamedTuple):
    """Hold one column of a table: what it is called, its unit, and where its numbers come from."""

    title: str
    unit: str
    expr: str


def table(about: About, key: str, columns: Sequence[Column]) -> Panel:
    """Return one row a value of the label *key*, as they are now."""
    queries = [_instant(Query(column.expr, ""), i).format(PromQueryFormat.TABLE) for i, column in enumerate(columns)]
    panel = (
        Table()
        .min_width(_NARROWEST_COLUMN_PX)
        .with_transformation(DataTransformerConfig(id_val="joinByField", options={"byField": key, "mode": "outer"}))
        .with_transformation(
            DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"pattern": f"^({key}|Value.*)$"}})
        )
    )
    for i, column in enumerate(columns):
        shown = {"displayName": column.title, "unit": column.unit}
        panel.override_by_name(
            f"Value #{_REF_IDS[i]}",
            [DynamicConfigValue(id_val=setting, value=value) for setting, value in shown.items()],
        )
    return _told(panel.build(), about, queries)


def _told(panel: Panel, about: About, queries: Sequence[Dataquery]) -> Panel:
    panel.title = about.title
    panel.description = about.description + (f"\n\nAlert: {about.alert}." if about.alert else "")
    panel.datasource = DATASOURCE
    panel.targets = [query.build() for query in queries]
    panel.field_config = panel.field_config or FieldConfigSource()
    panel.field_config.defaults.unit = about.unit
    return panel


def _thresholds(about: About) -> ThresholdsConfig:
    steps = [Step(value=None, color="green")]
    if about.limit is not None:
        steps += [Step(value=about.limit or 1e-9, color="orange")]
    elif about.alert:
        threshold = threshold_of(about.alert)
        below, above = ("green", threshold.color) if threshold.is_upper else (threshold.color, "green")
        # A step includes its value: 0 itself must lie below it.
        steps = [Step(value=None, color=below), Step(value=threshold.value or 1e-9, color=above)]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def _range(query: Query, number: int) -> Dataquery:
    return _query(query, number).range()


def _instant(query: Query, number: int) -> Dataquery:
    return _query(query, number).instant()


def _query(query: Query, number: int) -> Dataquery:
    return Dataquery().expr(query.expr).legend_format(query.legend).datasource(DATASOURCE).ref_id(_REF_IDS[number])
