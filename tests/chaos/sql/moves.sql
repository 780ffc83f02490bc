-- The journal in its order.
SELECT date_part('epoch', at) AS at, token, holder, freed, run_id, before, after FROM chaos.journal ORDER BY seq;
