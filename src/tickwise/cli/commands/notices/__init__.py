"""Commands about channels, notification rules, alerts and notices."""
