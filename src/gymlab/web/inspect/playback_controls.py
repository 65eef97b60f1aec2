"""Playback controls of an episode: play, step, slider, keyboard, and jumps to notable steps."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import events, ui

from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.step_table import EpisodeTable, highest_surprise, lowest_value, next_event, reward_events

_SPEEDS = {2: "2 / s", 5: "5 / s", 10: "10 / s", 20: "20 / s"}
# Keys in a field are the field's; a button that has the focus keeps its space bar. Arrows must not scroll the page.
_KEYS = """
document.addEventListener('keydown', (event) => {
  const at = event.target, keys = ['ArrowLeft', 'ArrowRight', 'Home', 'End', ' '];
  if (!keys.includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
  if (at.closest('input, textarea, select, [role=slider], [role=listbox], [role=combobox]')) return;
  if (event.key === ' ' && at.closest('button, a')) return;
  event.preventDefault();
  emitEvent('gl-inspect-key', {key: event.key, shift: event.shiftKey});
});
"""


class PlaybackControls:
    """The row of controls below the picture."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.row().classes("gl-card gl-transport w-full items-center gap-2"):
            self._button("first_page", "First step (Home)", lambda: looking.go(0))
            self._button("chevron_left", "Step back (left)", lambda: self._by(-1))
            self._play = self._button("play_arrow", "Play or pause (space)", self.toggle)
            self._button("chevron_right", "Step on (right)", lambda: self._by(1))
            self._button("last_page", "Last step (End)", lambda: looking.go(looking.last))
            self._slider = ui.slider(min=0, max=1, value=0, on_change=self._scrubbed)
            self._slider.style("flex: 1 1 160px; width: auto").props('aria-label="Step"').props("data-part=scrub")
            self._place = ui.label("").classes("gl-mono").props("data-part=place")
            self._speed = ui.select(_SPEEDS, value=10, on_change=self._paced).props('dense aria-label="Speed"')
            self._jumps()
        self._timer = ui.timer(0.1, self._tick, active=False)
        ui.run_javascript(_KEYS)
        ui.on("gl-inspect-key", self._key)
        looking.on_table(self._new_table)
        looking.on_step(self._draw)

    def _button(self, icon: str, label: str, action: Callable[[], None]) -> ui.button:
        button = ui.button(icon=icon, on_click=action).props(f'flat dense round aria-label="{label}"')
        with button:
            ui.tooltip(label)
        return button

    def _jumps(self) -> None:
        looking = self._state

        def to(find: Callable[[EpisodeTable], int | None]) -> None:
            step = find(looking.table) if looking.table is not None else None
            if step is not None:
                looking.go(step)

        def to_event() -> None:
            step = next_event(reward_events(looking.table), looking.step) if looking.table is not None else None
            if step is None:
                ui.notify("every step of this episode pays the same")
            else:
                looking.go(step)

        for text, action in (
            ("lowest value", lambda: to(lowest_value)),
            ("highest surprise", lambda: to(highest_surprise)),
            ("next reward", to_event),
        ):
            ui.button(text, on_click=action).props("flat dense no-caps size=sm")

    def toggle(self) -> None:
        """Play or pause; from the last step, start over."""
        if self._state.row is None:
            return
        if not self._timer.active and self._state.step >= self._state.last:
            self._state.go(0)
        self._set_playing(not self._timer.active)

    def _set_playing(self, playing: bool) -> None:
        self._timer.active = playing
        self._play.props(f"icon={'pause' if playing else 'play_arrow'}")

    def _paced(self) -> None:
        self._timer.interval = 1 / int(self._speed.value)

    def _tick(self) -> None:
        if self._state.step >= self._state.last:
            self._set_playing(False)
        else:
            self._state.go(self._state.step + 1)

    def _by(self, steps: int) -> None:
        self._set_playing(False)
        self._state.go(self._state.step + steps)

    def _key(self, event: events.GenericEventArguments) -> None:
        pressed = event.args if isinstance(event.args, dict) else {}
        key = pressed.get("key")
        far = 10 if pressed.get("shift") else 1
        if key == " ":
            self.toggle()
        elif key in ("ArrowLeft", "ArrowRight"):
            self._by(far if key == "ArrowRight" else -far)
        elif key in ("Home", "End"):
            self._set_playing(False)
            self._state.go(0 if key == "Home" else self._state.last)

    def _scrubbed(self, event: events.ValueChangeEventArguments[float | None]) -> None:
        if event.value is not None and event.value != self._state.step:
            self._set_playing(False)
            self._state.go(int(event.value))

    def _new_table(self) -> None:
        self._set_playing(False)
        self._slider.props(f"max={max(1, self._state.last)}")

    def _draw(self) -> None:
        self._slider.set_value(self._state.step)
        self._place.set_text(f"{self._state.step} / {self._state.last}")
