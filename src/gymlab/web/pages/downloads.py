"""Downloads: videos and metrics.csv of a run. Nothing else of a run is served."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gymlab.core.errors import GymlabError
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.videos import scan
from gymlab.web.pages import Site

if TYPE_CHECKING:
    from fastapi import FastAPI, Response


def register(site: Site, front: FastAPI) -> None:
    """Routes by run id and a name from the run's own lists."""
    from fastapi import HTTPException
    from fastapi.responses import FileResponse

    @front.get("/files/{run_id}/videos/{name}", response_model=None)
    def video(run_id: str, name: str) -> Response:
        try:
            paths = site.run(run_id)
            clip = next((clip for clip in scan(paths) if clip.path.name == name), None)
            if clip is None or clip.path.is_symlink():
                raise HTTPException(404)
            return FileResponse(paths.inside(clip.path), media_type="video/mp4")
        except (GymlabError, OSError) as error:
            raise HTTPException(404) from error

    @front.get("/files/{run_id}/metrics.csv", response_model=None)
    def numbers(run_id: str) -> Response:
        try:
            paths = site.run(run_id)
            with tempfile.TemporaryDirectory() as folder, MetricsReader(paths.inside(paths.metrics)) as reader:
                target = Path(folder) / "metrics.csv"
                reader.to_csv(target)
                text = target.read_bytes()
        except (GymlabError, OSError) as error:
            raise HTTPException(404) from error
        from fastapi.responses import Response as Plain

        name = f"{paths.run_id}.csv"
        return Plain(text, media_type="text/csv", headers={"content-disposition": f'attachment; filename="{name}"'})
