// Prometheus's answers as Grafana's data frames, with the panel's settings applied to them.

import {
  FieldType,
  applyFieldOverrides,
  cacheFieldDisplayNames,
  standardTransformers,
  standardTransformersRegistry,
  toDataFrame,
  transformDataFrame,
} from '@grafana/data';
import { lastValueFrom } from 'rxjs';

// What Grafana's time series panel sets where a dashboard says nothing.
const CURVES = {
  drawStyle: 'line',
  lineInterpolation: 'linear',
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: 'none',
  showPoints: 'never',
  pointSize: 5,
  spanNulls: false,
  axisPlacement: 'auto',
  axisBorderShow: false,
  scaleDistribution: { type: 'linear' },
  stacking: { mode: 'none', group: 'A' },
  thresholdsStyle: { mode: 'off' },
  hideFrom: { legend: false, tooltip: false, viz: false },
};

standardTransformersRegistry.setInit(() =>
  [standardTransformers.joinByFieldTransformer, standardTransformers.filterFieldsByNameTransformer].map((one) => ({
    ...one,
    transformation: () => Promise.resolve(one),
  })),
);

/** Gives the frames that a panel draws. */
export async function framesOf(panel, board, theme) {
  const raw = panel.targets.flatMap((target) => {
    const answer = board.answers[panel.id][target.refId];
    if (target.format === 'table') {
      return answer.length ? [tableOf(target.refId, answer)] : [];
    }
    return answer.map((series) => seriesOf(target, series, board));
  });
  const transformed = await lastValueFrom(
    transformDataFrame(panel.transformations ?? [], raw, { interpolate: (text) => text }),
  );
  const frames = applyFieldOverrides({
    data: transformed,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: settingsOf(panel),
    replaceVariables: (text) => text,
    theme,
    timeZone: 'utc',
  });
  cacheFieldDisplayNames(frames);
  return frames;
}

/** Gives one series; a range has all of its times, with null where there is no number. */
function seriesOf(target, { metric, value, values }, board) {
  const samples = new Map((values ?? [value]).map(([at_s, sample]) => [at_s * 1000, Number(sample)]));
  const times = values ? timesOf(board) : [...samples.keys()];
  const name = target.legendFormat.replace(/{{\s*(\w+)\s*}}/g, (_, label) => metric[label] ?? '');
  const numbers = times.map((at_ms) => samples.get(at_ms)).map((number) => (Number.isFinite(number) ? number : null));
  return toDataFrame({
    refId: target.refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: times },
      { name: 'Value', type: FieldType.number, values: numbers, labels: metric, config: { displayNameFromDS: name } },
    ],
  });
}

function timesOf({ from_ms, to_ms, step_ms }) {
  const first = Math.floor(from_ms / step_ms) * step_ms;
  return Array.from({ length: Math.floor((to_ms - first) / step_ms) + 1 }, (_, i) => first + i * step_ms);
}

function tableOf(refId, answer) {
  const labels = [...new Set(answer.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const columns = labels.map((label) => ({
    name: label,
    type: FieldType.string,
    values: answer.map(({ metric }) => metric[label] ?? ''),
  }));
  const numbers = answer.map(({ value }) => Number(value[1]));
  return toDataFrame({ refId, fields: [...columns, { name: `Value #${refId}`, type: FieldType.number, values: numbers }] });
}

/** Lists the settings that a panel makes, as Grafana's registry of them would. */
function settingsOf(panel) {
  const { custom = {}, ...standard } = panel.fieldConfig.defaults;
  if (panel.type === 'timeseries') {
    panel.fieldConfig.defaults.custom = { ...CURVES, ...custom };
  }
  const overridden = panel.fieldConfig.overrides.flatMap(({ properties }) => properties.map(({ id }) => id));
  const names = [...new Set([...Object.keys(standard), ...overridden])];
  const item = (path, isCustom) => ({
    id: isCustom ? `custom.${path}` : path,
    path,
    isCustom,
    process: (value) => value,
    shouldApply: () => true,
  });
  const items = [
    ...names.map((path) => item(path, false)),
    ...Object.keys(panel.fieldConfig.defaults.custom ?? {}).map((path) => item(path, true)),
  ];
  return { list: () => items, getIfExists: (id) => items.find((each) => each.id === id) };
}
