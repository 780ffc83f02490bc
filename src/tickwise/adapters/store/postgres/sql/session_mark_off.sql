-- This session is not marked.
SET tickwise.probe = 'off'
