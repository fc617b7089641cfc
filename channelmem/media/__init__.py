"""Pictures and recordings, read: fetched from allowed hosts, checked, described or transcribed, and kept with their
message. Loaded when the first one is to be read (`channelmem/media/media.py`)."""
