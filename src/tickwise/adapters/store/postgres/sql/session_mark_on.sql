-- This session is marked.
SET tickwise.probe = 'on'
