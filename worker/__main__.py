"""`python -m worker` is the `poimen` command line."""

from worker.cli import main

main()
