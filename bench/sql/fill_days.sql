-- How many finished runs each day was filled with: the day, as text.
SELECT to_char(day, 'YYYYMMDD') AS day, rows FROM bench.filled
