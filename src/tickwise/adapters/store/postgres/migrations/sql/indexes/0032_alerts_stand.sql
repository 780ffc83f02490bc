-- Alerts that are not closed, also where ninety days of closed ones lie between them.
CREATE INDEX CONCURRENTLY IF NOT EXISTS alerts_stand ON tickwise.alerts (namespace, last_at, alert_id) WHERE state <> 'closed';
