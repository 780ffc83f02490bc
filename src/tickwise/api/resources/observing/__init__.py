"""Resources that say how things go and tell people: analytics, objectives, channels, rules, alerts, status pages."""
