from tests.media.filmed import solved_run  # noqa: F401
