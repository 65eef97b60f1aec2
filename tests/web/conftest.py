import pytest

from tests.media.filmed import solved_run  # noqa: F401
from tests.web.browsing import CHROMIUM


@pytest.fixture(scope="session")
def chrome():
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
