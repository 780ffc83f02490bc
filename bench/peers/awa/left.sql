-- Jobs that have not durably ended.
SELECT count(*) FROM awa.jobs WHERE state IN ('scheduled', 'available', 'running', 'retryable')
