// A whole dashboard, laid out by its own places; `window.board` holds it with its answers.

import { EventBusSrv, LoadingState, ThemeContext, createTheme, dateTimeFormat } from '@grafana/data';
import { GlobalStyles, PanelChrome, PanelContextProvider } from '@grafana/ui';
import React from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';

import { framesOf } from './frames.js';
import { PANELS } from './panels.jsx';
import './page.css';

const COLUMNS = 24;
const ROW_PX = 30;
const GAP_PX = 8;
const HEAD_PX = 40;

const { board } = window;
const theme = createTheme({ colors: { mode: window.mode } });

function Row({ place, title }) {
  return (
    <div className="heading" style={{ ...place, color: theme.colors.text.primary }}>
      {title}
    </div>
  );
}

function Panel({ frames, panel, place }) {
  const Kind = PANELS[panel.type];
  const isEmpty = !frames.length && panel.type !== 'stat'; // which says so by itself
  return (
    <div style={place}>
      <PanelChrome
        description={panel.description}
        height={place.height}
        loadingState={LoadingState.Done}
        padding={panel.type === 'table' ? 'none' : 'md'}
        title={panel.title}
        width={place.width}
      >
        {(width, height) =>
          isEmpty ? (
            <div className="empty" style={{ height, width, color: theme.colors.text.secondary }}>
              {panel.fieldConfig.defaults.noValue ?? 'No data'}
            </div>
          ) : (
            <Kind board={board} frames={frames} height={height} panel={panel} theme={theme} width={width} />
          )
        }
      </PanelChrome>
    </div>
  );
}

function Head() {
  const [from, to] = [board.from_ms, board.to_ms].map((at_ms) => dateTimeFormat(at_ms, { timeZone: 'utc', format: 'HH:mm:ss' }));
  return (
    <div className="head" style={{ height: HEAD_PX, color: theme.colors.text.primary }}>
      <b>{board.dashboard.title}</b>
      <span style={{ color: theme.colors.text.secondary }}>
        {board.dashboard.templating.list.some(({ name }) => name === 'spider') && 'Spider: All · '}
        {from} to {to} UTC
      </span>
    </div>
  );
}

function placeOf({ gridPos: { h, w, x, y } }) {
  const column = (window.innerWidth - GAP_PX) / COLUMNS;
  return {
    position: 'absolute',
    left: GAP_PX + x * column,
    top: HEAD_PX + y * (ROW_PX + GAP_PX),
    width: w * column - GAP_PX,
    height: h * (ROW_PX + GAP_PX) - GAP_PX,
  };
}

async function draw() {
  const { panels } = board.dashboard;
  const isRow = ({ type }) => type === 'row';
  const frames = new Map(
    await Promise.all(panels.map(async (panel) => [panel, isRow(panel) ? [] : await framesOf(panel, board, theme)])),
  );
  const bottoms = panels.map(placeOf).map(({ top, height }) => top + height);
  document.body.style.background = theme.colors.background.canvas;
  document.body.style.height = `${Math.max(...bottoms) + GAP_PX}px`;
  const root = createRoot(document.getElementById('root'));
  const show = (children) =>
    root.render(
      <ThemeContext.Provider value={theme}>
        <GlobalStyles />
        <PanelContextProvider value={{ eventBus: new EventBusSrv(), eventsScope: 'global' }}>{children}</PanelContextProvider>
      </ThemeContext.Provider>,
    );
  // The panels measure their texts: the styles' font must be there before.
  flushSync(() => show(<Head />));
  await Promise.all(['400', '500'].map((weight) => document.fonts.load(`${weight} 12px Inter`)));
  show(
    <>
      <Head />
      {panels.map((panel) => {
        const common = { key: panel.id, place: placeOf(panel) };
        return isRow(panel) ? (
          <Row {...common} title={panel.title} />
        ) : (
          <Panel {...common} frames={frames.get(panel)} panel={panel} />
        );
      })}
    </>,
  );
  window.drawn = { empty: panels.filter((panel) => !isRow(panel) && !frames.get(panel).length).map(({ title }) => title) };
}

draw();
