"""Resources that say how things go and tell people: analytics, objectives, channels, notification rules, alerts."""
