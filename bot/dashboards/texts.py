"""What the dashboards say besides the settings themselves. In: nothing. Out: sentences for people."""

from __future__ import annotations

OWNERS_ONLY = "Only the owners of this application can open the global settings."
CHANNEL_MANAGERS_ONLY = "You need the Manage Channels permission here to open the channel settings."
SERVER_MANAGERS_ONLY = "You need the Manage Server permission to open the character settings."
SERVER_ONLY = "This command only works in a server channel."
ELSEWHERE = "This dashboard belongs to another place. Open a new one here."
NO_CHARACTERS = "No characters are configured."
UNKNOWN_CHARACTER = "I don't know that character. Choose one of: {names}."
CHARACTER_GONE = "That character is no longer configured. Open a new dashboard."
SETTING_GONE = "That setting no longer exists. Open a new dashboard."

UNREADABLE = "I can't reach my memory right now, so I can't show the settings. Please try again in a minute."
UNSURE = (
    "I can't reach my memory right now, so I don't know whether that was saved. "
    "Open the dashboard again in a minute to check."
)

UPDATED = "✅ {label} updated: {old} → {new}"
UNCHANGED = "{label} is already {value}."
RESET = "✅ Reset to Auto: {labels}"
NOTHING_TO_RESET = "Everything here is already on Auto."
CONFIRM_LOSS = "⚠️ {label} {value} hides {loss}. {undo} Go on?"
CONFIRM_RESET = "⚠️ Reset every setting here to Auto?"
RESET_HIDES = " That hides {loss}. {undo}"
PICK = "Which setting do you want to change?"
THREAD = "This thread follows the settings of its channel. Changes here apply to the whole channel."
