"""`python -m thebes`: the command, where its script is not on the path."""

from thebes.cli.main import main

if __name__ == "__main__":
    main()
