"""What all dashboards have in common: variables, links, annotations, and how panels are laid out in rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders.dashboard import (
    AnnotationQuery,
    AnnotationTarget,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
)
from grafana_foundation_sdk.builders.dashboard import Dashboard as DashboardBuilder
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    GridPos,
    Panel,
    RowPanel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.panels import DATASOURCE

TAG = "seedbed"

#: Of a row's width.
COLUMNS = 24


class Row(NamedTuple):
    """Hold panels that stand side by side under a heading, equally wide unless *widths* says otherwise."""

    heading: str
    height: int
    panels: Sequence[Panel]
    widths: Sequence[int] = ()


class Board(NamedTuple):
    """Hold one dashboard: its name in addresses, and what a person sees."""

    name: str
    title: str
    description: str
    rows: Sequence[Row]
    #: Whether there is anything in it that is a spider's.
    by_spider: bool = True


def build(board: Board) -> Dashboard:
    """Return the dashboard, ready to be written as JSON."""
    builder = (
        DashboardBuilder(board.title)
        .uid(f"{TAG}-{board.name}")
        .description(board.description)
        .tags([TAG])
        .refresh("15s")
        .time("now-1h", "now")
        .timezone("browser")
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .link(_links())
        .annotation(_scaling())
        .annotation(_bench_runs())
    )
    if board.by_spider:
        builder.with_variable(_spiders())
    dashboard = builder.build()
    dashboard.panels = list(_placed(board.rows))
    return dashboard


def _placed(rows: Iterable[Row]) -> Iterator[Panel | RowPanel]:
    """Yield headings and panels with their places and numbers; links to a panel need the latter."""
    y, number = 0, 0
    for row in rows:
        number += 1
        yield RowPanel(id_val=number, title=row.heading, grid_pos=GridPos(x=0, y=y, w=COLUMNS, h=1))
        y += 1
        x = 0
        for panel, width in zip(row.panels, row.widths or _equal(len(row.panels)), strict=True):
            number += 1
            panel.id_val = number
            panel.grid_pos = GridPos(x=x, y=y, w=width, h=row.height)
            yield panel
            x += width
        y += row.height


def _equal(panels: int) -> list[int]:
    width, wider = divmod(COLUMNS, panels)
    return [width + (i < wider) for i in range(panels)]


def _spiders() -> QueryVariable:
    return (
        QueryVariable("spider")
        .label("Spider")
        .datasource(DATASOURCE)
        .query("label_values(crawler_frontier_accepted_total, spider)")
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(VariableOption(selected=True, text="All", value="$__all"))
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _links() -> DashboardLink:
    """Return links to all of these dashboards that keep the time and the spider."""
    return (
        DashboardLink("Seedbed")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .keep_time(True)
        .include_vars(True)
    )


def _scaling() -> AnnotationQuery:
    expr = 'changes(sum(crawler_workers{state=~"working|idle"})[1m:15s]) > 0'
    return (
        AnnotationQuery().name("Workers come and go").datasource(DATASOURCE).enable(True).icon_color("blue").expr(expr)
    )


def _bench_runs() -> AnnotationQuery:
    """Return what `make bench` notes in Grafana itself."""
    return (
        AnnotationQuery()
        .name("Load tests")
        .datasource(DataSourceRef(type_val="grafana", uid="-- Grafana --"))
        .enable(True)
        .icon_color("purple")
        .target(AnnotationTarget().limit(100).match_any(False).tags(["bench"]).type("tags"))
    )
