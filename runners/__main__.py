"""`python -m runners` is `paxrun`."""

from runners.cli import main

if __name__ == "__main__":
    main()
