"""`python -m laxity`."""

from laxity.cli import main

main()
