"""The `gymlab` command, also as `python -m gymlab`."""

import gc

from gymlab.cli.startup import default_sigint, restore_sigint


def main() -> None:
    default_sigint()
    gc.set_threshold(10_000, 20, 100)  # most objects made at the start stay: collect rarely
    from gymlab.cli.main import exit_process
    from gymlab.cli.main import main as run

    restore_sigint()
    try:
        run()
    except SystemExit as ended:
        default_sigint()
        exit_process(ended.code)
    finally:
        default_sigint()  # a late Ctrl-C must not interrupt the cleanup of libraries


if __name__ == "__main__":
    main()
