"""`python -m channelmem`, for places where the console script is not on the path."""

from channelmem.cli import main

main()
