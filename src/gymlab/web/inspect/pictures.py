"""The env as it looked, and the picture that the policy saw of it."""

from __future__ import annotations

from nicegui import ui

from gymlab.web.inspect.view_state import InspectorState


class PicturesCard:
    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card gap-2 items-center").style("flex: 1 1 320px"):
            self._env = ui.element("img").props('alt="the environment"').style("max-width: 100%; max-height: 400px")
            self._text = ui.label("").classes("gl-mono").props("data-part=text")
            self._none = ui.label("this environment draws no pictures").classes("gl-faint")
            self._about = ui.label("what the policy sees, oldest frame first").classes("gl-faint")
            self._seen = ui.element("img").props('alt="what the policy sees"').props("data-part=seen")
            self._seen.style("max-width: 100%; image-rendering: pixelated")
        looking.on_step(self._draw)
        self._draw()

    def _draw(self) -> None:
        looking = self._state
        env = looking.address("env_files")
        seen = looking.address("seen_files")
        for image, source in ((self._env, env), (self._seen, seen)):
            image.set_visibility(bool(source))
            if source:
                image.props["src"] = source
                image.update()
        self._text.set_text(looking.text)
        self._text.set_visibility(bool(looking.text))
        self._about.set_visibility(bool(seen))
        self._none.set_visibility(looking.row is not None and not env and not looking.text)
