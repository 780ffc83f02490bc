-- This transaction waits for locks but briefly: heartbeats and claims may wait behind it.
SELECT set_config('lock_timeout', '500ms', true)
