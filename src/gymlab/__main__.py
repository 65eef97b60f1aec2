"""The `gymlab` command, also as `python -m gymlab`."""

import gc

from gymlab.cli.early_interrupt import hush, listen


def main() -> None:
    hush()
    gc.set_threshold(10_000, 20, 100)  # starting makes objects that stay: to look for garbage among them is in vain
    from gymlab.cli.main import leave
    from gymlab.cli.main import main as run

    listen()
    try:
        run()
    except SystemExit as ended:
        hush()
        leave(ended.code)
    finally:
        hush()  # a late Ctrl-C must not strike libraries that tidy up


if __name__ == "__main__":
    main()
