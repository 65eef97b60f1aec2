"""The `gymlab` command, also as `python -m gymlab`."""

from gymlab.cli.early import hush, listen


def main() -> None:
    hush()
    from gymlab.cli.main import main as run

    listen()
    try:
        run()
    finally:
        hush()  # a late Ctrl-C must not strike libraries that tidy up


if __name__ == "__main__":
    main()
