"""Settings in Discord: /admin settings, /channel settings and /character settings, one dashboard for all of them."""
