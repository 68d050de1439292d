"""`python -m thebes`: the command, where its script is not on the path."""

from thebes.apps.command import main

if __name__ == "__main__":
    main()
