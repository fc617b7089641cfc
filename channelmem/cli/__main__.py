"""`python -m channelmem.cli`: the same as the console script, for when it is not on PATH."""

from channelmem.cli import main

main()
