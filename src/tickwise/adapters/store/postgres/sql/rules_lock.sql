-- Rules change one after the other, and while no timer is being decided. It gives up soon, because whoever wants to decide waits
-- behind it. The number is that of `fires_begin`.
SELECT set_config('lock_timeout', '500ms', true), pg_advisory_xact_lock(8388353586463617382)
