"""The `gymlab` command, also as `python -m gymlab`."""

import gc

from gymlab.cli.startup import default_sigint, restore_sigint


def main() -> None:
    default_sigint()
    gc.set_threshold(10_000, 20, 100)  # starting makes objects that stay: to look for garbage among them is in vain
    from gymlab.cli.main import leave
    from gymlab.cli.main import main as run

    restore_sigint()
    try:
        run()
    except SystemExit as ended:
        default_sigint()
        leave(ended.code)
    finally:
        default_sigint()  # a late Ctrl-C must not strike libraries that tidy up


if __name__ == "__main__":
    main()
