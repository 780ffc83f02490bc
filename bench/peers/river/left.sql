-- Jobs that are not done; nothing here fails or is cancelled, so all of them come to be `completed`.
SELECT count(*) FROM river_job WHERE state <> 'completed'
