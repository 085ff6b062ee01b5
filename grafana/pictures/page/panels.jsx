// One component for each kind of panel that the dashboards use; all but the heat map are Grafana's own.

import { VizOrientation, dateTime, getDisplayValueAlignmentFactors, getFieldDisplayValues } from '@grafana/data';
import { BarGauge, BigValue, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import React from 'react';

import { Heatmap } from './heatmap.jsx';

export const PANELS = { bargauge: Bars, heatmap: Heatmap, stat: Numbers, table: Rows, timeseries: Curves };

/** Gives the window that the pictures show, as Grafana's components want it. */
export function timeRangeOf(board) {
  const [from, to] = [dateTime(board.from_ms), dateTime(board.to_ms)];
  return { from, to, raw: { from, to } };
}

function Curves({ board, frames, height, panel, theme, width }) {
  const marked = React.useRef(null);
  return (
    <TimeSeries
      frames={frames}
      height={height}
      legend={panel.options.legend}
      options={panel.options}
      timeRange={timeRangeOf(board)}
      timeZone="utc"
      width={width}
    >
      {(plot) => {
        if (marked.current !== plot) {
          marked.current = plot;
          plot.addHook('draw', (chart) => drawAnnotations(chart, board, theme));
        }
      }}
    </TimeSeries>
  );
}

/** Draws the dashboard's annotations, as Grafana does: a region with dashed edges. */
function drawAnnotations({ ctx, bbox, valToPos }, board, theme) {
  const color = theme.visualization.getColorByName('blue');
  const regions = board.annotations.flat().flatMap(({ values }) => regionsOf(values, board.step_ms));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const edges of regions) {
    const [left, right] = edges.map((at_ms) => valToPos(at_ms, 'x', true));
    ctx.fillStyle = `${color}1a`;
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.strokeStyle = `${color}b0`;
    ctx.setLineDash([4, 4]);
    for (const x of [left, right]) {
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
  }
  ctx.restore();
}

function regionsOf(samples, step_ms) {
  const regions = [];
  for (const at_ms of samples.map(([at_s]) => at_s * 1000)) {
    const last = regions.at(-1);
    if (last && at_ms - last[1] <= step_ms) {
      last[1] = at_ms;
    } else {
      regions.push([at_ms, at_ms]);
    }
  }
  return regions;
}

function valuesOf({ frames, panel, theme }) {
  return getFieldDisplayValues({
    data: frames,
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    sparkline: panel.options.graphMode === 'area',
    theme,
    timeZone: 'utc',
  });
}

function Numbers(props) {
  const { height, panel, theme, width } = props;
  const { colorMode, graphMode, justifyMode, textMode } = panel.options;
  const [{ display, sparkline }] = valuesOf(props);
  return (
    <BigValue
      colorMode={colorMode}
      graphMode={graphMode}
      height={height}
      justifyMode={justifyMode}
      sparkline={sparkline}
      textMode={textMode}
      theme={theme}
      value={display}
      width={width}
    />
  );
}

function Bars(props) {
  const { height, panel, theme, width } = props;
  const { displayMode, maxVizHeight, minVizHeight, minVizWidth, namePlacement, showUnfilled, valueMode } = panel.options;
  return (
    <VizRepeater
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      getValues={() => valuesOf(props)}
      height={height}
      itemSpacing={8}
      maxVizHeight={maxVizHeight}
      minVizHeight={minVizHeight}
      minVizWidth={minVizWidth}
      orientation={VizOrientation.Horizontal}
      renderCounter={0}
      renderValue={({ alignmentFactors, height: bar, orientation, value, width: length }) => (
        <BarGauge
          alignmentFactors={alignmentFactors}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          displayMode={displayMode}
          field={value.field}
          height={bar}
          namePlacement={namePlacement}
          orientation={orientation}
          showUnfilled={showUnfilled}
          theme={theme}
          value={value.display}
          valueDisplayMode={valueMode}
          width={length}
        />
      )}
      source={panel}
      width={width}
    />
  );
}

function Rows({ board, frames, height, panel, width }) {
  return (
    <TableNG
      data={frames[0]}
      enableVirtualization={false}
      fieldConfig={panel.fieldConfig}
      height={height}
      timeRange={timeRangeOf(board)}
      width={width}
    />
  );
}
