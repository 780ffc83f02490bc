-- As tables are after a night: vacuumed, frozen, analysed.
VACUUM (FREEZE, ANALYZE) tickwise.jobs, tickwise.timers, tickwise.history
