// A heat map of a histogram's buckets. Grafana keeps its own to itself, so this one is drawn here, on Grafana's axes.

import { getValueFormat, formattedValueToString } from '@grafana/data';
import { AxisPlacement, ScaleDirection, ScaleOrientation, UPlotChart, UPlotConfigBuilder } from '@grafana/ui';
import React from 'react';

// From few to many: the scheme "Oranges", which is Grafana's default, as it is on dark and on light ground.
const SHADES = {
  dark: ['#5b2106', '#8c2d04', '#d94801', '#f16913', '#fd8d3c', '#fdae6b', '#fdd0a2', '#fff5eb'],
  light: ['#fff5eb', '#fdd0a2', '#fdae6b', '#fd8d3c', '#f16913', '#d94801', '#8c2d04', '#5b2106'],
};

export function Heatmap({ board, frames, height, panel, theme, width }) {
  const buckets = React.useMemo(() => bucketsOf(frames), [frames]);
  const config = React.useMemo(() => configOf(buckets, board, panel, theme), [buckets]);
  return <UPlotChart config={config} data={[[board.from_ms, board.to_ms], [0, 0]]} height={height} width={width} />;
}

/** Turns cumulative buckets into those between two bounds; leaves out the empty ones above and below. */
function bucketsOf(frames) {
  const cumulative = frames
    .map(({ fields }) => ({
      upTo: fields[1].labels.le === '+Inf' ? Infinity : Number(fields[1].labels.le),
      counts: new Map(fields[0].values.map((at_ms, i) => [at_ms, fields[1].values[i]])),
    }))
    .sort((one, other) => (one.upTo < other.upTo ? -1 : 1));
  const buckets = cumulative.map(({ upTo, counts }, i) => ({
    upTo,
    counts: [...counts].map(([at_ms, count]) => [at_ms, count - (cumulative[i - 1]?.counts.get(at_ms) ?? 0)]),
  }));
  const holds = buckets.map(({ counts }) => counts.some(([, count]) => count > 0));
  return buckets.slice(holds.indexOf(true), holds.lastIndexOf(true) + 1);
}

function configOf(buckets, board, panel, theme) {
  const config = new UPlotConfigBuilder('utc');
  const unit = getValueFormat(panel.options.yAxis.unit);
  config.addScale({
    scaleKey: 'x',
    isTime: true,
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
    range: [board.from_ms, board.to_ms],
  });
  config.addScale({
    scaleKey: 'y',
    isTime: false,
    orientation: ScaleOrientation.Vertical,
    direction: ScaleDirection.Up,
    range: [0, buckets.length],
  });
  config.addAxis({ scaleKey: 'x', isTime: true, placement: AxisPlacement.Bottom, timeZone: 'utc', theme });
  config.addAxis({
    scaleKey: 'y',
    isTime: false,
    placement: AxisPlacement.Left,
    splits: buckets.map((_, i) => i + 1),
    values: (_, splits) =>
      splits.map((i) => (Number.isFinite(buckets[i - 1].upTo) ? formattedValueToString(unit(buckets[i - 1].upTo)) : '+Inf')),
    grid: { show: false },
    theme,
  });
  config.addSeries({ scaleKey: 'y', theme, pathBuilder: () => null, pointsBuilder: () => null, show: true });
  config.addHook('draw', (chart) => drawCells(chart, buckets, board.step_ms, theme));
  return config;
}

function drawCells({ ctx, bbox, valToPos }, buckets, step_ms, theme) {
  const shades = theme.isDark ? SHADES.dark : SHADES.light;
  const most = Math.max(...buckets.flatMap(({ counts }) => counts.map(([, count]) => count)));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  buckets.forEach(({ counts }, i) => {
    const [bottom, top] = [valToPos(i, 'y', true), valToPos(i + 1, 'y', true)];
    for (const [at_ms, count] of counts.filter((cell) => cell[1] > 0)) {
      const [left, right] = [valToPos(at_ms - step_ms, 'x', true), valToPos(at_ms, 'x', true)];
      // Grafana's exponent of a half: few are seen beside many.
      ctx.fillStyle = shades[Math.min(shades.length - 1, Math.floor(Math.sqrt(count / most) * shades.length))];
      ctx.fillRect(left, top, Math.max(1, right - left - 1), bottom - top - 1);
    }
  });
  ctx.restore();
}
