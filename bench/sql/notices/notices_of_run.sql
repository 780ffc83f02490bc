-- When the notice about the run $1 was made and first tried, once it is delivered.
SELECT date_part('epoch', made_at) AS made, date_part('epoch', tried_at) AS tried
FROM tickwise.notices WHERE state = 'delivered' AND position($1 IN lines) > 0
