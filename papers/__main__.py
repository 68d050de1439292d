"""`python -m papers`."""

from papers.command import main

if __name__ == "__main__":
    main()
