-- No channel, no rule, and nothing that came of them.
TRUNCATE tickwise.channels, tickwise.channel_secrets, tickwise.notification_rules, tickwise.notices_watched, tickwise.notices_events,
         tickwise.notices_noted, tickwise.alerts, tickwise.notices
