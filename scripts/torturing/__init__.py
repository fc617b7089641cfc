"""What scripts/torture.py is made of: a random history, the processes that live it, faults, and a model of what may be
seen."""
