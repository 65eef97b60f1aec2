from tests.film.filmed import solved_run  # noqa: F401
