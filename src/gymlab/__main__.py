"""`python -m gymlab`."""

from gymlab.cli.main import main

if __name__ == "__main__":
    main()
